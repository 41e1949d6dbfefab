/* pruned.c - a model made of parts of another: what stays, and read so.
 *
 * Heads and inner columns are `chunks`: so many rows or columns of a tensor,
 * one after the other, that stay or go together. A head of keys has as its
 * chunk its rows of K and V, the rows of Q of the heads that use it, and their
 * columns of O. */
#include "model/pruned.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The chunks of a layer that stay: v[0 .. n) of so many, in their order; NULL
 * before they are chosen. */
struct chunks {
    int32_t *v, n, of;
};

struct dsf_pruned {
    const struct dsf_model *from, *to;
    const int32_t *layers;
    struct dsf_pruned_source weights, moments;
    struct chunks *heads, *inner; /* [to->layers] */
};

/* What a unit of a layer is made of; NULL: nothing of it goes. */
static struct chunks *chunks_of(const struct dsf_pruned *p,
                                const struct dsf_unit *unit)
{
    const struct dsflow_segment *s = unit->segment;

    if (unit->layer < 0 || unit->layer >= p->to->layers)
        return NULL;
    if (s == &dsf_segment_mlp)
        return &p->inner[unit->layer];
    if (s == &dsf_segment_qkv || s == &dsf_segment_out)
        return &p->heads[unit->layer];
    return NULL;
}

/* The unit of `from` that unit `u` of `to` is made of. */
static unsigned source_of(const struct dsf_pruned *p, unsigned u)
{
    const struct dsf_unit *unit = &p->to->units[u];
    int32_t l = unit->layer;

    if (l == p->to->layers)
        l = p->from->layers;
    else if (l >= 0)
        l = p->layers[l];
    return dsf_model_unit(p->from, l, unit->segment, unit->index);
}

/* A unit of `from`, in memory that the caller frees whatever this returns. */
static int read_unit(const struct dsf_pruned *p,
                     const struct dsf_pruned_source *source, unsigned unit,
                     float **v, struct dsflow_err *err)
{
    int status = dsf_unit_alloc(p->from, unit, v, err);

    return status == DSFLOW_OK ? source->read(source->user, unit, *v, err)
                               : status;
}

/* Adds to each chunk what its columns weigh. Muon has moments of vectors, and
 * zeroes in the place of those of matrices: such say nothing. */
static int weigh_tensor(const struct dsf_tensor *t, const float *v,
                        const float *moments, int32_t of, double *weights,
                        struct dsflow_err *err)
{
    const int64_t width = t->cols / of;
    bool known = false;

    for (int64_t r = 0; r < t->rows; r++)
        for (int32_t i = 0; i < of; i++, v += width, moments += width)
            for (int64_t c = 0; c < width; c++) {
                weights[i] += (double)v[c] * (double)v[c] * (double)moments[c];
                known |= moments[c] != 0;
            }
    if (known)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: the optimizer keeps no squares of its gradients, "
                       "which say which heads and inner columns matter: "
                       "expected one that does, such as adamw",
                       t->name);
}

static int weigh_unit(const struct dsf_pruned *p, unsigned u, int32_t of,
                      double *weights, struct dsflow_err *err)
{
    const unsigned source = source_of(p, u);
    const struct dsf_unit *from = &p->from->units[source];
    const struct dsf_unit *to = &p->to->units[u];
    float *v = NULL, *moments = NULL;
    int status = read_unit(p, &p->weights, source, &v, err);

    if (status == DSFLOW_OK)
        status = read_unit(p, &p->moments, source, &moments, err);
    for (unsigned t = 0; t < to->ntensors && status == DSFLOW_OK; t++) {
        const int64_t at = from->tensors[t].offset;

        if (!from->tensors[t].vector &&
            from->tensors[t].cols != to->tensors[t].cols)
            status = weigh_tensor(&from->tensors[t], v + at, moments + at, of,
                                  weights, err);
    }
    free(v);
    free(moments);
    return status;
}

struct ranked {
    double weight;
    int32_t chunk;
};

static int by_weight(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

static int by_place(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;

    return (x > y) - (x < y);
}

/* The n chunks that weigh most. Numbers that are none weigh nothing here: who
 * reads them says so. */
static void keep_most(struct chunks *chunks, const double *weights)
{
    struct ranked *all = dsf_xcalloc((size_t)chunks->of, sizeof(*all));

    for (int32_t i = 0; i < chunks->of; i++)
        all[i] = (struct ranked){ isfinite(weights[i]) ? weights[i] : 0, i };
    chunks->v = dsf_xcalloc((size_t)chunks->n, sizeof(*chunks->v));
    qsort(all, (size_t)chunks->of, sizeof(*all), by_weight);
    for (int32_t i = 0; i < chunks->n; i++)
        chunks->v[i] = all[i].chunk;
    qsort(chunks->v, (size_t)chunks->n, sizeof(*chunks->v), by_place);
    free(all);
}

/* Which chunks stay in layer `l`, unless that is known. */
static int choose(const struct dsf_pruned *p, int32_t l, struct chunks *chunks,
                  struct dsflow_err *err)
{
    double *weights;
    int status = DSFLOW_OK;

    if (chunks->n == chunks->of || chunks->v != NULL)
        return DSFLOW_OK;
    weights = dsf_xcalloc((size_t)chunks->of, sizeof(*weights));
    for (unsigned u = 0; u < p->to->nunits && status == DSFLOW_OK; u++)
        if (p->to->units[u].layer == l &&
            chunks_of(p, &p->to->units[u]) == chunks)
            status = weigh_unit(p, u, chunks->of, weights, err);
    if (status == DSFLOW_OK)
        keep_most(chunks, weights);
    free(weights);
    return status;
}

struct dsf_pruned *dsf_pruned_open(const struct dsf_model *from,
                                   const struct dsf_model *to,
                                   const int32_t *layers,
                                   struct dsf_pruned_source weights,
                                   struct dsf_pruned_source moments)
{
    struct dsf_pruned *p = dsf_xcalloc(1, sizeof(*p));

    *p = (struct dsf_pruned){
        .from = from,
        .to = to,
        .layers = layers,
        .weights = weights,
        .moments = moments,
        .heads = dsf_xcalloc((size_t)to->layers, sizeof(*p->heads)),
        .inner = dsf_xcalloc((size_t)to->layers, sizeof(*p->inner)),
    };
    for (int32_t l = 0; l < to->layers; l++) {
        p->heads[l] = (struct chunks){ .n = to->dims.kv_heads,
                                       .of = from->dims.kv_heads };
        p->inner[l] =
            (struct chunks){ .n = to->dims.ffn, .of = from->dims.ffn };
    }
    return p;
}

void dsf_pruned_close(struct dsf_pruned *p)
{
    if (p == NULL)
        return;
    for (int32_t l = 0; l < p->to->layers; l++) {
        free(p->heads[l].v);
        free(p->inner[l].v);
    }
    free(p->heads);
    free(p->inner);
    free(p);
}

/* Where number i of n is among the `of` that it was taken from. */
static int64_t place_of(const struct chunks *chunks, int64_t i, int64_t n,
                        int64_t of)
{
    const int64_t chunk = n == of ? 1 : of / chunks->of;

    return n == of ? i : chunks->v[i / chunk] * chunk + i % chunk;
}

static void take_tensor(const struct chunks *chunks,
                        const struct dsf_tensor *from, const float *v,
                        const struct dsf_tensor *to, float *out)
{
    for (int64_t r = 0; r < to->rows; r++, out += to->cols) {
        const float *row =
            v + place_of(chunks, r, to->rows, from->rows) * from->cols;

        if (to->cols == from->cols)
            memcpy(out, row, (size_t)to->cols * sizeof(*out));
        else
            for (int64_t c = 0; c < to->cols; c++)
                out[c] = row[place_of(chunks, c, to->cols, from->cols)];
    }
}

int dsf_pruned_read(void *pruned, unsigned u, float *out,
                    struct dsflow_err *err)
{
    const struct dsf_pruned *p = pruned;
    const struct dsf_unit *to = &p->to->units[u];
    const struct dsf_unit *from = &p->from->units[source_of(p, u)];
    struct chunks *chunks = chunks_of(p, to);
    float *v = NULL;
    int status = chunks == NULL ? DSFLOW_OK : choose(p, to->layer, chunks, err);

    if (status == DSFLOW_OK)
        status = read_unit(p, &p->weights, source_of(p, u), &v, err);
    memset(out, 0, (size_t)to->elems * sizeof(*out));
    for (unsigned t = 0; t < to->ntensors && status == DSFLOW_OK; t++)
        take_tensor(chunks, &from->tensors[t], v + from->tensors[t].offset,
                    &to->tensors[t], out + to->tensors[t].offset);
    free(v);
    return status;
}
