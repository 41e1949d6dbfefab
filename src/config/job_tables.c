/* job_tables.c - the tables of job.toml: dsflow's, and those of plug-ins. */
#include "config/job_tables.h"

#include "base/alloc.h"
#include "config/job_keys.h"
#include "config/option.h"

#include <stdlib.h>
#include <string.h>

#define TABLE(word, what, text)                                                \
    {                                                                          \
        .name = word, .summary = text, .options = dsf_##what##_options,        \
        .offset = offsetof(struct dsf_job, what)                               \
    }
static const struct dsf_table tables[] = {
    TABLE("job", main, "the run as a whole"),
    TABLE("model", model, "the transformer"),
    TABLE("sparse_attention", sparse, "which tokens see which, block by block"),
    TABLE("activations", activations,
          "training activations that are quantized"),
    TABLE("data", data, "the text"),
    TABLE("batch", batch, "what a step works on"),
    TABLE("optimizer", optimizer, "the update"),
    TABLE("schedule", schedule, "the learning rate"),
    TABLE("train", train, "the course of the training"),
    TABLE("validation", validation, "loss on text that is not trained on"),
    TABLE("checkpoint", checkpoint, "the run on disk"),
    TABLE("sample", sample, "text written by the model when the run ends"),
    { .name = "mesh",
      .summary = "ranks along each axis; their product in all",
      .options = dsf_axes_keys,
      .offset = offsetof(struct dsf_job, mesh) },
    TABLE("memory", memory, "budgets"),
    TABLE("memory.nvme", nvme, "disks for what is offloaded"),
    TABLE("machine", machine, "workers and devices"),
    TABLE("run", run, "how it is run"),
    TABLE("trace", trace, "what is kept of how it ran"),
    TABLE("codelets", codelets, "plug-ins"),
};

enum { NTABLES = sizeof(tables) / sizeof(*tables) };

static struct dsf_table *added;
static unsigned nadded;
static size_t cap_added;

static void add_builtin(void)
{
    static bool done;

    if (done)
        return;
    done = true;
    dsf_job_add_builtin_tables();
}

const struct dsf_table *dsf_job_table_at(unsigned i)
{
    dsf_axes_make_keys();
    add_builtin();
    if (i < NTABLES)
        return &tables[i];
    return i - NTABLES < nadded ? &added[i - NTABLES] : NULL;
}

const struct dsf_table *dsf_job_find_table(const char *name)
{
    size_t n = strcspn(name, "[");
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        if (strncmp(t->name, name, n) == 0 && t->name[n] == '\0')
            return t;
    return NULL;
}

bool dsf_job_next_key(struct dsf_table_key *key)
{
    const struct dsflow_option *o = key->option;

    for (o = o != NULL ? o + 1 : NULL;; o++) {
        while (o == NULL || o->key == NULL) { /* a table has no more */
            key->at += key->table != NULL;
            key->table = dsf_job_table_at(key->at);
            if (key->table == NULL)
                return false;
            o = key->table->options;
        }
        if (o->type != DSFLOW_TABLES)
            break;
    }
    key->option = o;
    return true;
}

struct dsf_key_name dsf_key_name(const struct dsf_table_key *key)
{
    struct dsf_key_name name;

    snprintf(name.s, sizeof(name.s), "%s.%s", key->table->name,
             key->option->key);
    return name;
}

static int add_table(const struct dsf_table *t, struct dsflow_err *err)
{
    int status = dsf_options_check(t->name, t->options, t->size, err);

    if (status == DSFLOW_OK && dsf_job_find_table(t->name) != NULL)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "the table [%.60s] of job.toml is taken", t->name);
    if (status < 0)
        return status;
    dsf_grow(&added, &cap_added, nadded + 1, sizeof(*added));
    added[nadded] = *t;
    added[nadded].name = dsf_xstrdup(t->name);
    added[nadded].summary = dsf_xstrdup(t->summary);
    nadded++;
    return DSFLOW_OK;
}

/* The table of an option whose value is tables that repeat. */
static int add_rows(const char *name, const struct dsflow_option *o,
                    unsigned in, struct dsflow_err *err)
{
    char *own = dsf_xasprintf("%s.%s", name, o->key);
    struct dsf_table t = { own, o->help, o->keys, 0, o->size, o, in };
    int status = add_table(&t, err);

    free(own);
    return status < 0 ? dsflow_fail_in(err, status, o->key) : status;
}

int dsf_job_add_table(const char *name, const char *summary,
                      const struct dsflow_option *options, size_t size,
                      struct dsflow_err *err)
{
    struct dsf_table t = { name, summary, options, 0, size > 0 ? size : 1,
                           NULL, 0 };
    unsigned first = dsf_job_added_tables();
    int status = add_table(&t, err);

    for (const struct dsflow_option *o = options;
         status == DSFLOW_OK && o->key != NULL; o++)
        if (o->type == DSFLOW_TABLES)
            status = add_rows(name, o, first, err);
    if (status < 0)
        dsf_job_cut_tables(first);
    return status;
}

unsigned dsf_job_added_tables(void)
{
    add_builtin();
    return nadded;
}

void dsf_job_cut_tables(unsigned n)
{
    while (nadded > n) {
        nadded--;
        free((char *)added[nadded].name);
        free((char *)added[nadded].summary);
    }
}

void dsf_job_add_empty_parts(struct dsf_job *job, unsigned n)
{
    job->parts = dsf_xrealloc(job->parts, n + 1, sizeof(*job->parts));
    for (; job->nparts < n; job->nparts++) {
        const struct dsf_table *t = &added[job->nparts];

        /* Elements of one that repeats are in the part of its owner. */
        job->parts[job->nparts] =
            t->rows == NULL ? dsf_xcalloc(1, t->size + 1) : NULL;
    }
}

void dsf_job_add_parts(struct dsf_job *job)
{
    unsigned first = job->nparts;

    dsf_job_add_empty_parts(job, nadded);
    for (unsigned i = first; i < nadded; i++)
        if (job->parts[i] != NULL)
            dsf_options_default(added[i].options, job->parts[i]);
}

const void *dsf_job_fields(const struct dsf_job *job,
                           const struct dsf_table *table)
{
    return dsf_job_own_fields((struct dsf_job *)job, table);
}

void *dsf_job_own_fields(struct dsf_job *job, const struct dsf_table *table)
{
    size_t i = (size_t)(table - added);

    if (table->size == 0)
        return (char *)job + table->offset;
    return i < job->nparts ? job->parts[i] : NULL;
}

const struct dsf_table *dsf_table_owner(const struct dsf_table *table)
{
    return table->rows != NULL ? &added[table->in] : table;
}

/* The elements of a table that repeats; NULL: it came after the job. */
static const struct dsflow_tables *rows_of(const struct dsf_job *job,
                                           const struct dsf_table *t)
{
    const char *part = dsf_job_fields(job, dsf_table_owner(t));

    return part != NULL ? (const struct dsflow_tables *)(part + t->rows->offset)
                        : NULL;
}

unsigned dsf_job_rows(const struct dsf_job *job, const struct dsf_table *table)
{
    const struct dsflow_tables *rows;

    if (table->rows == NULL)
        return dsf_job_fields(job, table) != NULL;
    rows = rows_of(job, table);
    return rows != NULL ? rows->n : 0;
}

const void *dsf_job_row(const struct dsf_job *job,
                        const struct dsf_table *table, unsigned i)
{
    if (table->rows == NULL)
        return dsf_job_fields(job, table);
    return (const char *)rows_of(job, table)->v + i * table->size;
}

struct dsf_row_name dsf_row_name(const struct dsf_table *table, unsigned i)
{
    struct dsf_row_name name;

    if (table->rows != NULL)
        snprintf(name.s, sizeof(name.s), "%.100s[%u]", table->name, i);
    else
        snprintf(name.s, sizeof(name.s), "%.100s", table->name);
    return name;
}

void dsf_job_add_row(struct dsf_job *job, const struct dsf_table *table)
{
    struct dsflow_tables *rows = (struct dsflow_tables *)rows_of(job, table);
    char *row;

    rows->v = dsf_xrealloc(rows->v, rows->n + 1, table->size);
    row = (char *)rows->v + rows->n++ * table->size;
    memset(row, 0, table->size);
    dsf_options_default(table->options, row);
}

const void *dsf_job_part(const struct dsf_job *job,
                         const struct dsflow_option *options)
{
    for (unsigned i = 0; i < job->nparts && options != NULL; i++)
        if (added[i].options == options)
            return job->parts[i];
    return NULL;
}
