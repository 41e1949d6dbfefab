/* job_where.c - where the keys of a job were set, and to what. */
#include "config/job_private.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct dsf_key_place *dsf_job_place(const struct dsf_job *job,
                                          const char *table, const char *key)
{
    for (size_t i = job->where->n; i-- > 0;)
        if (strcmp(job->where->v[i].table, table) == 0 &&
            strcmp(job->where->v[i].key, key) == 0)
            return &job->where->v[i];
    return NULL;
}

bool dsf_job_has(const struct dsf_job *job, const char *table, const char *key)
{
    return dsf_job_place(job, table, key) != NULL;
}

bool dsf_job_has_set(const struct dsf_job *job, const char *table,
                     const char *key)
{
    const struct dsf_key_place *place = dsf_job_place(job, table, key);
    const size_t n = strlen(job->path);

    /* What was passed on has no line. */
    return place != NULL && (strncmp(place->text, "--set:", 6) == 0 ||
                             (strncmp(place->text, job->path, n) == 0 &&
                              strncmp(place->text + n, ": ", 2) == 0));
}

int dsf_job_fail(const struct dsf_job *job, struct dsflow_err *err, int status,
                 const char *table, const char *key, const char *fmt, ...)
{
    const struct dsf_key_place *place = dsf_job_place(job, table, key);
    char msg[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    if (place != NULL)
        return dsflow_fail(err, status, "%s: %s", place->text, msg);
    return dsflow_fail(err, status, "%s: %s: %s: %s", job->path, table, key,
                       msg);
}

void dsf_job_add_place(struct dsf_job *job, const char *table, const char *key,
                       const char *value, char *text)
{
    struct dsf_job_where *w = job->where;

    dsf_grow(&w->v, &w->cap, w->n + 1, sizeof(*w->v));
    w->v[w->n++] = (struct dsf_key_place){ dsf_xstrdup(table), dsf_xstrdup(key),
                                           text, dsf_xstrdup(value) };
}

void dsf_job_forget_rows(struct dsf_job *job, const char *table,
                         const char *key)
{
    char *name = dsf_xasprintf("%s.%s[", table, key);

    for (size_t i = 0; i < job->where->n; i++)
        if (strncmp(job->where->v[i].table, name, strlen(name)) == 0)
            job->where->v[i].table[0] = '\0';
    free(name);
}

struct dsf_job_where *dsf_job_where_copy(const struct dsf_job_where *from)
{
    struct dsf_job_where *to = dsf_xcalloc(1, sizeof(*to));

    to->n = to->cap = from->n;
    to->v = dsf_xcalloc(from->n + 1, sizeof(*to->v));
    for (size_t i = 0; i < from->n; i++)
        to->v[i] = (struct dsf_key_place){ dsf_xstrdup(from->v[i].table),
                                           dsf_xstrdup(from->v[i].key),
                                           dsf_xstrdup(from->v[i].text),
                                           dsf_xstrdup(from->v[i].value) };
    return to;
}

void dsf_job_where_free(struct dsf_job_where *where)
{
    for (size_t i = 0; i < where->n; i++) {
        free(where->v[i].table);
        free(where->v[i].key);
        free(where->v[i].text);
        free(where->v[i].value);
    }
    free(where->v);
    free(where);
}
