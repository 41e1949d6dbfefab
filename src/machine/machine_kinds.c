/* machine_kinds.c - [kinds] of a machine file: what was measured of kinds of
 * task, by device and element type. */
#include "machine/machine_model_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* By table, then by name: as they are written. */
static int order(const struct dsf_kind_rate *rate, const char *kind, bool host,
                 enum dsflow_dtype dtype)
{
    if (rate->host != host)
        return rate->host ? 1 : -1;
    if (rate->dtype != dtype)
        return rate->dtype > dtype ? 1 : -1;
    return strcmp(rate->kind, kind);
}

bool dsf_machine_model_knows(const struct dsf_machine_model *m,
                             enum dsflow_dtype dtype)
{
    unsigned k = 0;

    while (k < m->nkinds && (m->kinds[k].host || m->kinds[k].dtype != dtype))
        k++;
    return k < m->nkinds;
}

const struct dsf_kind_rate *
dsf_machine_model_kind(const struct dsf_machine_model *m, const char *kind,
                       bool host, enum dsflow_dtype dtype)
{
    const struct dsf_kind_rate *any = NULL;

    for (unsigned k = 0; k < m->nkinds; k++) {
        const struct dsf_kind_rate *rate = &m->kinds[k];

        if (rate->host != host || strcmp(rate->kind, kind) != 0)
            continue;
        if (rate->dtype == dtype)
            return rate;
        if (rate->dtype == DSFLOW_BYTES)
            any = rate;
    }
    return any;
}

struct dsf_kind_rate *dsf_machine_model_add_kind(struct dsf_machine_model *m,
                                                 const char *kind, bool host,
                                                 enum dsflow_dtype dtype)
{
    unsigned k = 0;

    while (k < m->nkinds && order(&m->kinds[k], kind, host, dtype) < 0)
        k++;
    if (k < m->nkinds && order(&m->kinds[k], kind, host, dtype) == 0)
        return &m->kinds[k];
    dsf_grow(&m->kinds, &m->cap_kinds, m->nkinds + 1, sizeof(*m->kinds));
    memmove(&m->kinds[k + 1], &m->kinds[k],
            (m->nkinds++ - k) * sizeof(*m->kinds));
    m->kinds[k] = (struct dsf_kind_rate){ .kind = dsf_xstrdup(kind),
                                          .host = host,
                                          .dtype = dtype };
    return &m->kinds[k];
}

/* "kinds", "kinds.bf16", "kinds.host", "kinds.host.bf16". */
static bool read_table(const char *table, bool *host, enum dsflow_dtype *dtype)
{
    static const char kinds[] = "kinds", beside[] = ".host";

    if (strncmp(table, kinds, sizeof(kinds) - 1) != 0)
        return false;
    table += sizeof(kinds) - 1;
    *host = strncmp(table, beside, sizeof(beside) - 1) == 0;
    table += *host ? sizeof(beside) - 1 : 0;
    *dtype = DSFLOW_BYTES;
    if (*table == '\0')
        return true;
    for (int d = DSFLOW_BYTES + 1; d < DSFLOW_NDTYPES; d++)
        if (*table == '.' &&
            strcmp(table + 1, dsflow_dtype_str((enum dsflow_dtype)d)) == 0)
            *dtype = (enum dsflow_dtype)d;
    return *dtype != DSFLOW_BYTES;
}

bool dsf_is_kinds_table(const char *table)
{
    enum dsflow_dtype dtype;
    bool host;

    return read_table(table, &host, &dtype);
}

struct dsf_kinds_table dsf_kinds_table(const struct dsf_kind_rate *rate)
{
    struct dsf_kinds_table t;

    snprintf(t.s, sizeof(t.s), "kinds%s%s%s", rate->host ? ".host" : "",
             rate->dtype != DSFLOW_BYTES ? "." : "",
             rate->dtype != DSFLOW_BYTES ? dsflow_dtype_str(rate->dtype) : "");
    return t;
}

static bool is_number(const struct dsf_toml_value *v)
{
    return v->type == DSF_TOML_INT || v->type == DSF_TOML_FLOAT;
}

/* "adam" = [fixed, per_flop, per_byte], and per_score where it is not 0. */
int dsf_machine_set_kind(struct dsf_machine_model *m,
                         const struct dsf_toml_entry *e, const char *path,
                         struct dsflow_err *err)
{
    const struct dsf_toml_value *v = &e->value;
    bool right = v->type == DSF_TOML_ARRAY &&
                 (v->nitems == DSF_NTERMS - 1 || v->nitems == DSF_NTERMS);
    struct dsf_kind_rate rate = { 0 }, *to;
    double *const terms[DSF_NTERMS] = { &rate.fixed, &rate.per_flop,
                                        &rate.per_byte, &rate.per_score };

    for (size_t i = 0; right && i < v->nitems; i++) {
        right = is_number(&v->items[i]);
        *terms[i] = v->items[i].number;
    }
    if (!right || !dsf_kind_rate_is_sound(&rate))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s:%d: %s: %.60s: %.100s: expected three or "
                           "four numbers of seconds, not all 0: of a task (0 "
                           "to 10), an operation, a byte, a score of attention "
                           "(0 to 1e-3)",
                           path, e->line, e->table, e->key, v->text);
    read_table(e->table, &rate.host, &rate.dtype);
    to = dsf_machine_model_add_kind(m, e->key, rate.host, rate.dtype);
    rate.kind = to->kind;
    *to = rate;
    return DSFLOW_OK;
}

void dsf_machine_kinds_write(const struct dsf_machine_model *m, FILE *out)
{
    for (unsigned k = 0; k < m->nkinds; k++) {
        const struct dsf_kind_rate *rate = &m->kinds[k];

        if (k == 0)
            fprintf(out,
                    "\n# Seconds of a task, of an operation, of a byte, of "
                    "a score.\n");
        if (k == 0 || rate->host != rate[-1].host ||
            rate->dtype != rate[-1].dtype)
            fprintf(out, "[%s]\n", dsf_kinds_table(rate).s);
        fprintf(out, "\"%s\" = [%.6e, %.6e, %.6e", rate->kind, rate->fixed,
                rate->per_flop, rate->per_byte);
        if (rate->per_score > 0)
            fprintf(out, ", %.6e", rate->per_score);
        fprintf(out, "]\n");
    }
}
