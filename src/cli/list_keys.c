/* list_keys.c - the keys of job.toml, from their tables. */
#include "cli/list_keys.h"

#include "base/alloc.h"
#include "base/nearest.h"
#include "cli/screen.h"
#include "cli/wrap.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/unknown.h"
#include "config/when.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct choice {
    const char *const *names;
    unsigned n;
};

/* Is it the table, one that repeats in it, the key, or the key with its table?
 */
static bool is_named(const char *name, const struct dsf_table_key *k)
{
    return strcmp(name, k->table->name) == 0 ||
           strcmp(name, k->option->key) == 0 ||
           strcmp(name, dsf_table_owner(k->table)->name) == 0 ||
           strcmp(name, dsf_key_name(k).s) == 0;
}

static bool is_chosen(const struct choice *c, const struct dsf_table_key *k)
{
    for (unsigned i = 0; i < c->n; i++)
        if (is_named(c->names[i], k))
            return true;
    return c->n == 0;
}

/* The next key that is chosen, as dsf_job_next_key. */
static bool next(const struct choice *c, struct dsf_table_key *k)
{
    while (dsf_job_next_key(k))
        if (is_chosen(c, k))
            return true;
    return false;
}

static void add_name(char ***all, size_t *cap, unsigned *n, const char *name)
{
    dsf_grow(all, cap, *n + 1, sizeof(**all));
    (*all)[(*n)++] = dsf_xstrdup(name);
}

/* The table, the key or the key with its table that is nearest to `name`. */
static char *nearest(const char *name)
{
    const struct dsf_table *last = NULL;
    char **all = NULL, *found = NULL;
    const char *near;
    size_t cap = 0;
    unsigned n = 0;

    for (struct dsf_table_key k = { 0 }; dsf_job_next_key(&k);) {
        if (k.table != last)
            add_name(&all, &cap, &n, k.table->name);
        last = k.table;
        add_name(&all, &cap, &n, k.option->key);
        add_name(&all, &cap, &n, dsf_key_name(&k).s);
    }
    near = dsf_nearest(name, (const char *const *)all, n);
    if (near != NULL)
        found = dsf_xstrdup(near);
    for (unsigned i = 0; i < n; i++)
        free(all[i]);
    free(all);
    return found;
}

static int check_name(const char *name, struct dsflow_err *err)
{
    const char *dot = strrchr(name, '.');
    struct dsf_meant m = dsf_meant(dot != NULL ? dot + 1 : name);
    char *near;

    if (next(&(struct choice){ &name, 1 }, &(struct dsf_table_key){ 0 }))
        return DSFLOW_OK;
    near = m.s[0] == '\0' ? nearest(name) : NULL;
    if (near != NULL)
        snprintf(m.s, sizeof(m.s), "did you mean %s?", near);
    free(near);
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "list keys: %.60s: no table and no key%s%s", name,
                       m.s[0] != '\0' ? "; " : "", m.s);
}

static void wrap(unsigned columns, const char *before, const char *what)
{
    char *text = dsf_xasprintf("%s%s", before, what);

    dsf_wrap(stdout, columns, "    ", "    ", text);
    free(text);
}

static void print_text(const struct dsf_table_key *k, unsigned columns)
{
    const struct dsflow_option *o = k->option;

    printf("%s.%s", dsf_row_name(k->table, 0).s, o->key);
    if (o->fallback != NULL)
        printf(" = %s\n", o->fallback);
    else
        printf(" (required)\n");
    wrap(columns, "", o->help);
    wrap(columns, "expects ", dsf_option_expected(o).s);
    if (o->used_with != NULL)
        wrap(columns, "used with ", dsf_when_words(o->used_with).s);
}

static void print_head(const struct dsf_table *t, bool first, unsigned columns)
{
    bool repeats = t->rows != NULL;
    char *text = dsf_xasprintf("%s%s%s %s", repeats ? "[[" : "[", t->name,
                               repeats ? "]]" : "]", t->summary);

    if (!first)
        putchar('\n');
    dsf_wrap(stdout, columns, "", "", text);
    free(text);
}

static void list_text(const struct choice *c)
{
    unsigned columns = dsf_screen_look(STDOUT_FILENO).columns;
    const struct dsf_table *last = NULL;

    if (columns < 40)
        columns = 40;
    for (struct dsf_table_key k = { 0 }; next(c, &k); last = k.table) {
        if (k.table != last)
            print_head(k.table, last == NULL, columns);
        print_text(&k, columns);
    }
}

static json_t *key_json(const struct dsf_table_key *k)
{
    const struct dsflow_option *o = k->option;

    return json_pack("{s:s, s:b, s:s, s:s?, s:s, s:s, s:s?}", "table",
                     k->table->name, "repeats", k->table->rows != NULL, "key",
                     o->key, "default", o->fallback, "expects",
                     dsf_option_expected(o).s, "meaning", o->help, "used_with",
                     o->used_with);
}

static void list_json(const struct choice *c)
{
    json_t *keys = json_array();

    for (struct dsf_table_key k = { 0 }; next(c, &k);)
        json_array_append_new(keys, key_json(&k));
    json_dumpf(keys, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(keys);
}

/* For man(7): quotes and backslashes as roff wants them. */
static void put_roff(const char *s)
{
    for (; *s != '\0'; s++)
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '"')
            fputs("\\(dq", stdout);
        else
            putchar(*s);
}

static void put_key_roff(const struct dsflow_option *o)
{
    printf(".TP\n.B %s\n", o->key);
    put_roff(o->help);
    fputs(".\nExpects ", stdout);
    put_roff(dsf_option_expected(o).s);
    fputs(o->fallback != NULL ? "; default " : "; required", stdout);
    put_roff(o->fallback != NULL ? o->fallback : "");
    fputs(".\n", stdout);
    if (o->used_with != NULL)
        printf("Used with %s.\n", dsf_when_words(o->used_with).s);
}

static void list_roff(const struct choice *c)
{
    const struct dsf_table *last = NULL;

    for (struct dsf_table_key k = { 0 }; next(c, &k); last = k.table) {
        if (k.table != last)
            printf(k.table->rows != NULL ? ".SS [[%s]]\n%s\n"
                                         : ".SS [%s]\n%s\n",
                   k.table->name, k.table->summary);
        put_key_roff(k.option);
    }
}

bool dsf_is_library(const char *word)
{
    size_t n = strlen(word);

    return strchr(word, '/') != NULL ||
           (n > 3 && strcmp(word + n - 3, ".so") == 0);
}

int dsf_list_keys(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char **names = dsf_xcalloc(args->nwords, sizeof(*names));
    struct choice c = { names, 0 };
    int status = DSFLOW_OK;

    for (unsigned i = 1; i < args->nwords && status == DSFLOW_OK; i++)
        if (!dsf_is_library(args->words[i])) {
            names[c.n++] = args->words[i];
            status = check_name(args->words[i], err);
        }
    if (status == DSFLOW_OK && dsf_flag_value(args, "json") != NULL)
        list_json(&c);
    else if (status == DSFLOW_OK && dsf_flag_value(args, "roff") != NULL)
        list_roff(&c);
    else if (status == DSFLOW_OK)
        list_text(&c);
    free(names);
    return status;
}
