/* machine_model_check.c - figures that no machine has, and how far those that
 * were measured several times are apart. */
#include "machine/machine_model_private.h"

#include <stdlib.h>
#include <string.h>

bool dsf_kind_rate_is_sound(const struct dsf_kind_rate *r)
{
    static const double most[DSF_NTERMS] = { DSF_MACHINE_LONGEST, 1e-3, 1e-3,
                                             1e-3 };
    const double v[DSF_NTERMS] = { r->fixed, r->per_flop, r->per_byte,
                                   r->per_score };
    bool any = false;

    for (unsigned i = 0; i < DSF_NTERMS; i++) {
        if (!(v[i] >= 0 && v[i] <= most[i]))
            return false;
        any = any || v[i] > 0;
    }
    return any;
}

/* A number of a table; NULL: it is something else. */
static double *number_of(const struct dsf_machine_model *m,
                         const struct dsf_machine_table *table,
                         const struct dsflow_option *o)
{
    if (o->type != DSFLOW_FLOAT && o->type != DSFLOW_TIME)
        return NULL;
    return (double *)((char *)m + table->offset + o->offset);
}

static bool is_sound(const struct dsflow_option *o, double x)
{
    return o->type == DSFLOW_TIME ? x >= 0 && x <= DSF_MACHINE_LONGEST
                                  : x >= o->min && x <= o->max;
}

/* The first number that no machine has; NULL: there is none. A machine without
 * a disk has no rates of one. */
static double *find_unsound(const struct dsf_machine_model *m,
                            const struct dsf_machine_table **table,
                            const struct dsflow_option **option)
{
    for (unsigned i = 0; i < DSF_NMACHINE_TABLES; i++) {
        *table = &dsf_machine_tables[i];
        if ((*table)->offset == offsetof(struct dsf_machine_model, disk) &&
            !dsf_machine_has_disk(m))
            continue;
        for (*option = (*table)->options; (*option)->key != NULL; ++*option) {
            double *x = number_of(m, *table, *option);

            if (x != NULL && !is_sound(*option, *x))
                return x;
        }
    }
    return NULL;
}

static unsigned find_unsound_kind(const struct dsf_machine_model *m)
{
    unsigned k = 0;

    while (k < m->nkinds && dsf_kind_rate_is_sound(&m->kinds[k]))
        k++;
    return k;
}

int dsf_machine_model_check(const struct dsf_machine_model *m,
                            struct dsflow_err *err)
{
    const struct dsf_machine_table *table;
    const struct dsflow_option *o;
    const double *x = find_unsound(m, &table, &o);
    unsigned k = find_unsound_kind(m);

    if (x != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: %g: expected %s",
                           table->name, o->key, *x, dsf_option_expected(o).s);
    if (k < m->nkinds)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.60s: [%g, %g, %g, %g]: expected the "
                           "seconds of a task",
                           dsf_kinds_table(&m->kinds[k]).s, m->kinds[k].kind,
                           m->kinds[k].fixed, m->kinds[k].per_flop,
                           m->kinds[k].per_byte, m->kinds[k].per_score);
    return DSFLOW_OK;
}

/* A kind without rates is estimated. */
static void drop_kind(struct dsf_machine_model *m, unsigned k)
{
    free(m->kinds[k].kind);
    memmove(&m->kinds[k], &m->kinds[k + 1],
            (--m->nkinds - k) * sizeof(*m->kinds));
}

void dsf_machine_model_mend(struct dsf_machine_model *m, char *text,
                            size_t size)
{
    struct dsf_machine_model fallback;
    const struct dsf_machine_table *table;
    const struct dsflow_option *o;
    double *x = find_unsound(m, &table, &o);
    unsigned k = find_unsound_kind(m);

    snprintf(text, size, "an estimate");
    if (x == NULL) {
        if (k < m->nkinds)
            drop_kind(m, k);
        return;
    }
    dsf_machine_model_init(&fallback);
    fallback.disk.read = fallback.disk.write = 1e9;
    *x = *number_of(&fallback, table, o);
    snprintf(text, size, "%g", *x);
    dsf_machine_model_fini(&fallback);
}

/* The table [scatter] is the last one. */
static const struct dsf_machine_table *scatter_table(void)
{
    return &dsf_machine_tables[DSF_NMACHINE_TABLES - 1];
}

bool dsf_machine_model_scattered(const struct dsf_machine_model *m, char *text,
                                 size_t size)
{
    const struct dsf_machine_table *table = scatter_table();
    size_t n = 0;

    text[0] = '\0';
    for (const struct dsflow_option *o = table->options; o->key != NULL; o++) {
        double x = *number_of(m, table, o);

        if (x > DSF_SCATTERED && n < size)
            n += (size_t)snprintf(text + n, size - n, "%s%s by %.0f %%",
                                  n > 0 ? ", " : "", o->key, 100 * x);
    }
    return n > 0;
}

void dsf_machine_scatter_write(const struct dsf_machine_model *m, FILE *out)
{
    const struct dsf_machine_table *table = scatter_table();
    bool first = true;

    for (const struct dsflow_option *o = table->options; o->key != NULL; o++) {
        double x = *number_of(m, table, o);

        if (!(x > 0))
            continue;
        if (first)
            fprintf(out,
                    "\n# How far repeated measurements were apart, as a "
                    "share of the middle one.\n[%s]\n",
                    table->name);
        first = false;
        fprintf(out, "%s = %.4f\n", o->key, x);
    }
}
