/* ds_write.c - the lines of a job, and where each comes from. */
#include "import/ds_private.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "config/job.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/toml_read.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The column of comments. */
enum { COMMENTS = 28 };

static struct dsf_ds_line *find_line(struct dsf_ds *x, const char *table,
                                     const char *key)
{
    for (size_t i = 0; i < x->nlines; i++)
        if (strcmp(x->lines[i].table, table) == 0 &&
            strcmp(x->lines[i].key, key) == 0)
            return &x->lines[i];
    return NULL;
}

/* To be filled in anew. */
static struct dsf_ds_line *line_of(struct dsf_ds *x, const char *table,
                                   const char *key)
{
    struct dsf_ds_line *l = find_line(x, table, key);

    if (l != NULL) {
        free(l->value);
        free(l->path);
        free(l->comment);
        return l;
    }
    dsf_grow(&x->lines, &x->cap_lines, x->nlines + 1, sizeof(*x->lines));
    x->lines[x->nlines].table = table;
    x->lines[x->nlines].key = key;
    return &x->lines[x->nlines++];
}

/* Takes `value`. */
static void set(struct dsf_ds *x, const char *table, const char *key,
                const char *path, char *value)
{
    struct dsf_ds_line *l = line_of(x, table, key);
    int line =
        dsf_ds_get(x, path) != NULL ? dsf_relaxed_line(&x->json, path) : 0;

    l->value = value;
    l->path = dsf_xstrdup(path);
    l->comment = line > 0 ? dsf_xasprintf("%s, line %d", path, line)
                 : path[0] == '-' || strchr(path, ' ') != NULL
                     ? dsf_xstrdup(path)
                     : dsf_xasprintf("%s: DeepSpeed's default", path);
    dsf_utf8_clean(l->comment); /* it has one line, names may have more */
}

void dsf_ds_set(struct dsf_ds *x, const char *table, const char *key,
                const char *path, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    set(x, table, key, path, dsf_xvasprintf(fmt, args));
    va_end(args);
}

void dsf_ds_set_number(struct dsf_ds *x, const char *table, const char *key,
                       const char *path, double value)
{
    set(x, table, key, path, dsf_toml_real(value));
}

void dsf_ds_set_text(struct dsf_ds *x, const char *table, const char *key,
                     const char *path, const char *value)
{
    set(x, table, key, path, dsf_toml_quote(value));
}

void dsf_ds_add_comment(struct dsf_ds *x, const char *table, const char *key,
                        const char *words)
{
    struct dsf_ds_line *l = find_line(x, table, key);
    char *comment = dsf_xasprintf("%s%s", l->comment, words);

    free(l->comment);
    l->comment = comment;
}

void dsf_ds_leave(struct dsf_ds *x, const char *table, const char *key,
                  const char *why)
{
    struct dsf_ds_line *l = line_of(x, table, key);

    l->value = l->path = NULL;
    l->comment = dsf_xstrdup(why);
}

void dsf_ds_take_number(struct dsf_ds *x, const char *table, const char *key,
                        const char *path, double fallback)
{
    char why[200];

    if (!dsf_ds_is_auto(x, path)) {
        dsf_ds_set_number(x, table, key, path,
                          dsf_ds_number(x, path, fallback));
        return;
    }
    snprintf(why, sizeof(why), "%s, line %d, is \"auto\": to be set", path,
             dsf_relaxed_line(&x->json, path));
    dsf_ds_leave(x, table, key, why);
}

/* A value as --set takes it. */
static char *toml_of(const struct dsflow_option *o, const char *value)
{
    struct dsf_toml toml = { .v = NULL };
    const struct dsf_toml_value *v;
    char *text;

    dsf_option_read(o, value, &toml);
    v = &toml.v[0].value;
    text = dsf_xstrdup(v->type == DSF_TOML_STRING ? v->text : value);
    dsf_toml_fini(&toml);
    return text;
}

/* What is wrong with it the job says, which is read with it. */
void dsf_ds_set_wish(struct dsf_ds *x, const char *text)
{
    const char *value = strchr(text, '=');
    char *name = dsf_xstrndup(text, strcspn(text, "="));
    char *dot = strrchr(name, '.');
    const struct dsf_table *t = NULL;
    const struct dsflow_option *o = NULL;

    if (value != NULL && dot != NULL) {
        *dot = '\0';
        t = dsf_job_find_table(name);
        o = t != NULL ? dsf_option_find(t->options, dot + 1) : NULL;
    }
    if (o != NULL)
        set(x, t->name, o->key, "--set", toml_of(o, value + 1));
    free(name);
}

static const struct dsflow_option *option_of(const struct dsf_ds_line *l)
{
    return dsf_option_find(dsf_job_find_table(l->table)->options, l->key);
}

void dsf_ds_check(struct dsf_ds *x)
{
    struct dsflow_err err;

    for (size_t i = 0; i < x->nlines; i++) {
        const struct dsf_ds_line *l = &x->lines[i];

        if (l->value != NULL && strcmp(l->path, "--set") != 0 &&
            dsf_option_check(option_of(l), l->value, &err) < 0)
            dsf_ds_refuse(x, l->path, "%s, as %s.%s", err.msg, l->table,
                          l->key);
    }
}

/* "lr = 3e-4", or "#lr = 3e-4" of what is open. */
static void write_line(const struct dsf_ds_line *l, FILE *out)
{
    const struct dsflow_option *o = option_of(l);
    int n;

    n = fprintf(out, "%s%s = %s", l->value == NULL ? "#" : "", l->key,
                l->value != NULL      ? l->value
                : o->fallback != NULL ? o->fallback
                                      : "…");
    fprintf(out, "%*s # %s\n", n < COMMENTS ? COMMENTS - n : 0, "", l->comment);
}

void dsf_ds_write(const struct dsf_ds *x, FILE *out)
{
    for (size_t i = 0; i < x->nlines; i++) {
        const char *table = x->lines[i].table;
        bool first = true;

        for (size_t k = 0; k < i && first; k++)
            first = strcmp(x->lines[k].table, table) != 0;
        if (!first)
            continue;
        fprintf(out, "\n[%s]\n", table);
        for (size_t k = i; k < x->nlines; k++)
            if (strcmp(x->lines[k].table, table) == 0)
                write_line(&x->lines[k], out);
    }
}
