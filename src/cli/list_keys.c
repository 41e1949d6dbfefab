/* list_keys.c - the keys of job.toml, from their tables. */
#include "cli/list_keys.h"

#include "base/alloc.h"
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
static bool is_named(const char *name, const struct dsf_table *t,
                     const struct dsflow_option *o)
{
    size_t n = strlen(t->name);

    return strcmp(name, t->name) == 0 || strcmp(name, o->key) == 0 ||
           strcmp(name, dsf_table_owner(t)->name) == 0 ||
           (strncmp(name, t->name, n) == 0 && name[n] == '.' &&
            strcmp(name + n + 1, o->key) == 0);
}

static bool is_chosen(const struct choice *c, const struct dsf_table *t,
                      const struct dsflow_option *o)
{
    if (o->type == DSFLOW_TABLES) /* a table of its own has its keys */
        return false;
    for (unsigned i = 0; i < c->n; i++)
        if (is_named(c->names[i], t, o))
            return true;
    return c->n == 0;
}

static bool is_any(const char *name)
{
    const struct choice c = { &name, 1 };
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            if (is_chosen(&c, t, o))
                return true;
    return false;
}

/* The table, the key or the key with its table that is nearest to `name`. */
static char *nearest(const char *name)
{
    char **all = NULL;
    size_t cap = 0;
    unsigned n = 0;
    const struct dsf_table *t;
    const char *near;
    char *found;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++) {
        dsf_grow(&all, &cap, n + 1, sizeof(*all));
        all[n++] = dsf_xstrdup(t->name);
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            dsf_grow(&all, &cap, n + 2, sizeof(*all));
            all[n++] = dsf_xstrdup(o->key);
            all[n++] = dsf_xasprintf("%s.%s", t->name, o->key);
        }
    }
    near = dsf_nearest(name, (const char *const *)all, n);
    found = near != NULL ? dsf_xstrdup(near) : NULL;
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

    if (is_any(name))
        return DSFLOW_OK;
    near = m.s[0] == '\0' ? nearest(name) : NULL;
    if (near != NULL)
        snprintf(m.s, sizeof(m.s), "did you mean %s?", near);
    free(near);
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "list keys: %.60s: no table and no key%s%s", name,
                       m.s[0] != '\0' ? "; " : "", m.s);
}

static void print_text(const struct dsf_table *t, const struct dsflow_option *o,
                       unsigned columns)
{
    struct dsf_when_text when = { "" };
    char *text;

    printf("%s.%s", dsf_row_name(t, 0).s, o->key);
    if (o->fallback != NULL)
        printf(" = %s\n", o->fallback);
    else
        printf(" (required)\n");
    dsf_wrap(stdout, columns, "    ", o->help);
    text = dsf_xasprintf("expects %s", dsf_option_expected(o).s);
    dsf_wrap(stdout, columns, "    ", text);
    free(text);
    if (o->used_with == NULL)
        return;
    when = dsf_when_words(o->used_with);
    text = dsf_xasprintf("used with %s", when.s);
    dsf_wrap(stdout, columns, "    ", text);
    free(text);
}

static void print_head(const struct dsf_table *t, bool first, unsigned columns)
{
    bool repeats = t->rows != NULL;
    char *text = dsf_xasprintf("%s%s%s %s", repeats ? "[[" : "[", t->name,
                               repeats ? "]]" : "]", t->summary);

    if (!first)
        putchar('\n');
    dsf_wrap(stdout, columns, "", text);
    free(text);
}

static void list_text(const struct choice *c)
{
    unsigned columns = dsf_screen_look(STDOUT_FILENO).columns;
    const struct dsf_table *t, *last = NULL;

    if (columns < 40)
        columns = 40;
    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            if (!is_chosen(c, t, o))
                continue;
            if (t != last)
                print_head(t, last == NULL, columns);
            last = t;
            print_text(t, o, columns);
        }
}

static void list_json(const struct choice *c)
{
    json_t *keys = json_array();
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++)
            if (is_chosen(c, t, o))
                json_array_append_new(
                    keys,
                    json_pack("{s:s, s:b, s:s, s:s?, s:s, s:s, s:s?}", "table",
                              t->name, "repeats", t->rows != NULL, "key",
                              o->key, "default", o->fallback, "expects",
                              dsf_option_expected(o).s, "meaning", o->help,
                              "used_with", o->used_with));
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
    const struct dsf_table *t, *last = NULL;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            if (!is_chosen(c, t, o))
                continue;
            if (t != last)
                printf(t->rows != NULL ? ".SS [[%s]]\n%s\n" : ".SS [%s]\n%s\n",
                       t->name, t->summary);
            last = t;
            put_key_roff(o);
        }
}

int dsf_list_keys(const char *const *names, unsigned n, enum dsf_keys_form form,
                  struct dsflow_err *err)
{
    static void (*const lists[])(const struct choice *) = {
        [DSF_KEYS_TEXT] = list_text,
        [DSF_KEYS_JSON] = list_json,
        [DSF_KEYS_ROFF] = list_roff,
    };
    const struct choice c = { names, n };

    for (unsigned i = 0; i < n; i++) {
        int status = check_name(names[i], err);

        if (status < 0)
            return status;
    }
    lists[form](&c);
    return DSFLOW_OK;
}
