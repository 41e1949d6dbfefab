/* option_fields.c - fields that options set: their sizes, and how structures of
 * them are copied, compared and freed. */
#include "config/option_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

size_t dsf_field_size(enum dsflow_option_type type)
{
    switch (type) {
    case DSFLOW_BOOL:
        return sizeof(bool);
    case DSFLOW_CHOICE:
        return sizeof(int);
    case DSFLOW_STRING:
        return sizeof(char *);
    case DSFLOW_STRINGS:
        return sizeof(struct dsflow_strings);
    case DSFLOW_INTS:
        return sizeof(struct dsflow_ints);
    case DSFLOW_PAIR:
        return 2 * sizeof(double);
    case DSFLOW_FLOAT:
    case DSFLOW_SHARE:
    case DSFLOW_TIME:
        return sizeof(double);
    case DSFLOW_EVERY:
        return sizeof(struct dsflow_every);
    case DSFLOW_TABLES:
        return sizeof(struct dsflow_tables);
    case DSFLOW_INT:
    case DSFLOW_AUTO:
    case DSFLOW_SIZE:
        return sizeof(int64_t);
    }
    return 0;
}

static void copy_strings(struct dsflow_strings *to,
                         const struct dsflow_strings *from)
{
    *to = (struct dsflow_strings){ dsf_xcalloc(from->n + 1, sizeof(*to->v)),
                                   from->n };
    for (unsigned i = 0; i < from->n; i++)
        to->v[i] = dsf_xstrdup(from->v[i]);
}

static void copy_ints(struct dsflow_ints *to, const struct dsflow_ints *from)
{
    *to = (struct dsflow_ints){ dsf_xcalloc(from->n + 1, sizeof(*to->v)),
                                from->n };
    for (unsigned i = 0; i < from->n; i++)
        to->v[i] = from->v[i];
}

static void copy_tables(const struct dsflow_option *o, struct dsflow_tables *to,
                        const struct dsflow_tables *from)
{
    *to = (struct dsflow_tables){ dsf_xcalloc(from->n + 1, o->size), from->n };
    for (unsigned i = 0; i < from->n; i++)
        dsf_options_copy(o->keys, (char *)to->v + i * o->size,
                         (const char *)from->v + i * o->size);
}

void dsf_options_copy(const struct dsflow_option *options, void *to,
                      const void *from)
{
    for (const struct dsflow_option *o = options; o->key != NULL; o++) {
        void *field = (char *)to + o->offset;
        const void *its = (const char *)from + o->offset;

        if (o->type == DSFLOW_STRING)
            *(char **)field = dsf_xstrdup(*(char *const *)its);
        else if (o->type == DSFLOW_STRINGS)
            copy_strings(field, its);
        else if (o->type == DSFLOW_INTS)
            copy_ints(field, its);
        else if (o->type == DSFLOW_TABLES)
            copy_tables(o, field, its);
        else
            memcpy(field, its, dsf_field_size(o->type));
    }
}

static bool same_strings(const struct dsflow_strings *a,
                         const struct dsflow_strings *b)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (strcmp(a->v[i], b->v[i]) != 0)
            return false;
    return true;
}

static bool same_tables(const struct dsflow_option *o,
                        const struct dsflow_tables *a,
                        const struct dsflow_tables *b)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        for (const struct dsflow_option *k = o->keys; k->key != NULL; k++)
            if (!dsf_option_same(k, (char *)a->v + i * o->size,
                                 (char *)b->v + i * o->size))
                return false;
    return true;
}

bool dsf_option_same(const struct dsflow_option *o, const void *base_a,
                     const void *base_b)
{
    const void *a = (const char *)base_a + o->offset;
    const void *b = (const char *)base_b + o->offset;

    switch (o->type) {
    case DSFLOW_STRING:
        return strcmp(*(char *const *)a, *(char *const *)b) == 0;
    case DSFLOW_STRINGS:
        return same_strings(a, b);
    case DSFLOW_INTS: {
        const struct dsflow_ints *x = a, *y = b;

        return x->n == y->n &&
               (x->n == 0 || memcmp(x->v, y->v, x->n * sizeof(*x->v)) == 0);
    }
    case DSFLOW_TABLES:
        return same_tables(o, a, b);
    default:
        return memcmp(a, b, dsf_field_size(o->type)) == 0;
    }
}

static void free_strings(struct dsflow_strings *s)
{
    for (unsigned i = 0; i < s->n; i++)
        free(s->v[i]);
    free(s->v);
    *s = (struct dsflow_strings){ 0 };
}

static void free_tables(const struct dsflow_option *o,
                        struct dsflow_tables *tables)
{
    for (unsigned i = 0; i < tables->n; i++)
        dsf_options_fini(o->keys, (char *)tables->v + i * o->size);
    free(tables->v);
    *tables = (struct dsflow_tables){ 0 };
}

void dsf_field_free(const struct dsflow_option *o, void *field)
{
    if (o->type == DSFLOW_STRING) {
        free(*(char **)field);
        *(char **)field = NULL;
    } else if (o->type == DSFLOW_STRINGS) {
        free_strings(field);
    } else if (o->type == DSFLOW_INTS) {
        free(((struct dsflow_ints *)field)->v);
        *(struct dsflow_ints *)field = (struct dsflow_ints){ 0 };
    } else if (o->type == DSFLOW_TABLES) {
        free_tables(o, field);
    }
}

void dsf_options_fini(const struct dsflow_option *options, void *base)
{
    for (; options->key != NULL; options++)
        dsf_field_free(options, (char *)base + options->offset);
}
