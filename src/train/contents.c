/* contents.c - whole tensors from replicas, shards and pieces, and back. */
#include "train/contents.h"
#include "train/contents_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "codelets/cast.h"
#include "exec/exec_memory.h"
#include "model/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Of which of the things of its kind a piece of data is: a unit, a rank or a
 * worker. */
static uint32_t index_of(const struct dsflow_kept *kept,
                         const struct dsflow_data_spec *d)
{
    switch (kept->kind) {
    case DSFLOW_KEPT_BY_RANK:
        return (uint32_t)d->home;
    case DSFLOW_KEPT_BY_WORKER:
        return (uint32_t)d->home << 16 | (uint32_t)d->part;
    case DSFLOW_KEPT_ONE:
        return 0;
    default:
        return (uint32_t)d->unit;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct dsf_holding *x = a, *y = b;

    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->id.i < y->id.i ? -1 : x->id.i > y->id.i;
}

void dsf_contents_init(struct dsf_contents *c, const struct dsf_model *model,
                       struct dsflow_graph *graph, struct dsflow_exec *exec,
                       const struct dsf_kept_list *kept, int32_t tensor)
{
    *c = (struct dsf_contents){ .model = model,
                                .graph = graph,
                                .exec = exec,
                                .kept = kept,
                                .tensor = tensor };
    for (uint32_t i = 0; i < dsflow_graph_ndata(graph); i++) {
        dsflow_data_id id = { i };
        const struct dsflow_data_spec *d = dsflow_graph_data(graph, id);
        if (!d->persistent || d->kept == 0 || d->kept > kept->n)
            continue;
        dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
        c->v[c->n++] = (struct dsf_holding){
            index_of(&kept->v[d->kept - 1], d), d->kept - 1u, d->part, d->at, id
        };
    }
    if (c->n > 0)
        qsort(c->v, c->n, sizeof(*c->v), by_place);
}

void dsf_contents_fini(struct dsf_contents *c)
{
    free(c->v);
    *c = (struct dsf_contents){ 0 };
}

size_t dsf_contents_find(const struct dsf_contents *c, unsigned unit,
                         unsigned kind, size_t *n)
{
    size_t low = 0, high = c->n, end;

    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct dsf_holding *h = &c->v[mid];

        if (h->unit < unit || (h->unit == unit && h->kind < (uint32_t)kind))
            low = mid + 1;
        else
            high = mid;
    }
    for (end = low; end < c->n && c->v[end].unit == unit &&
                    c->v[end].kind == (uint32_t)kind;)
        end++;
    *n = end - low;
    return low;
}

const struct dsflow_data_spec *dsf_contents_spec(const struct dsf_contents *c,
                                                 size_t i)
{
    return dsflow_graph_data(c->graph, c->v[i].id);
}

bool dsf_contents_is_plain(const struct dsf_contents *c, unsigned unit,
                           unsigned kind)
{
    size_t n, first = dsf_contents_find(c, unit, kind, &n);

    for (size_t i = first; i < first + n; i++)
        if (dsf_contents_spec(c, i)->dtype != DSFLOW_FP32)
            return false;
    return c->tensor == 1;
}

float *dsf_contents_near(struct dsf_contents *c, size_t i,
                         enum dsflow_access access, struct dsflow_err *err)
{
    float *at = dsflow_exec_map(c->exec, c->v[i].id, access);

    if (at == NULL && dsflow_exec_failed(c->exec, err) == DSFLOW_OK)
        dsflow_fail(err, DSFLOW_EIO, "%s: is not in reach",
                    dsf_contents_spec(c, i)->name);
    return at;
}

bool dsf_contents_stands(const struct dsf_contents *c, unsigned unit,
                         unsigned kind)
{
    size_t n, at = dsf_contents_find(c, unit, kind, &n);

    return n == 1 && dsf_contents_is_plain(c, unit, kind) &&
           dsf_exec_is_near(c->exec, c->v[at].id);
}

void *dsf_contents_map(struct dsf_contents *c, unsigned unit, unsigned kind,
                       enum dsflow_access access)
{
    size_t n;

    return dsflow_exec_map(
        c->exec, c->v[dsf_contents_find(c, unit, kind, &n)].id, access);
}

/* Copy between the pieces of a part and its numbers in one buffer. */
static int move(struct dsf_contents *c, unsigned unit, unsigned kind,
                int32_t part, float *own, bool get, struct dsflow_err *err)
{
    /* What was unpacked is packed again as it was. */
    const struct dsf_rounding nearest = { .nearest = 1 };
    size_t n, at = dsf_contents_find(c, unit, kind, &n);

    for (size_t i = at; i < at + n; i++) {
        const struct dsflow_data_spec *d = dsf_contents_spec(c, i);
        size_t elems = (size_t)d->elems;
        void *piece;

        if (d->part != part)
            continue;
        piece = dsf_contents_near(c, i, get ? DSFLOW_R : DSFLOW_W, err);
        if (piece == NULL)
            return DSFLOW_EIO;
        if (get)
            dsf_unpack(d->dtype, piece, own + d->at, elems);
        else
            dsf_pack(d->dtype, &nearest, own + d->at, piece, elems);
    }
    return DSFLOW_OK;
}

/* The same of one of the parts of a unit. */
static int move_part(struct dsf_contents *c, unsigned unit, unsigned kind,
                     int32_t p, float *whole, bool get, struct dsflow_err *err)
{
    struct dsf_part part;
    float *own;
    int status;

    dsf_part_init(&part, c->model, c->tensor, unit, p);
    if (part.elems == 0)
        return DSFLOW_OK;
    /* There is none of a part where nobody needs it: those are zeroes. */
    own = calloc((size_t)part.elems, sizeof(*own));
    if (own == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %s for a part of unit %s",
                           dsf_size_text((double)part.elems * sizeof(*own)).s,
                           c->model->units[unit].name);
    if (!get)
        dsf_part_split(&part, whole, own);
    status = move(c, unit, kind, p, own, get, err);
    if (get && status == DSFLOW_OK)
        dsf_part_merge(&part, own, whole);
    free(own);
    return status;
}

static int move_unit(struct dsf_contents *c, unsigned unit, unsigned kind,
                     float *whole, bool get, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    /* What nobody needs is not kept: that is zeroes. */
    if (get)
        memset(whole, 0, (size_t)c->model->units[unit].elems * sizeof(*whole));
    if (c->tensor == 1)
        return move(c, unit, kind, 0, whole, get, err);
    for (int32_t p = 0; p <= c->tensor && status == DSFLOW_OK; p++)
        status = move_part(c, unit, kind, p, whole, get, err);
    return status;
}

int dsf_contents_get(struct dsf_contents *c, unsigned unit, unsigned kind,
                     float *whole, struct dsflow_err *err)
{
    return move_unit(c, unit, kind, whole, true, err);
}

int dsf_contents_put(struct dsf_contents *c, unsigned unit, unsigned kind,
                     const float *whole, struct dsflow_err *err)
{
    return move_unit(c, unit, kind, (float *)whole, false, err);
}

int dsf_contents_fill(struct dsf_contents *c, unsigned unit, unsigned kind,
                      dsf_unit_fn read, void *user, struct dsflow_err *err)
{
    size_t n, at = dsf_contents_find(c, unit, kind, &n);
    float *whole;
    int status;

    if (n == 0)
        return DSFLOW_OK;
    /* Of several processes, this one may have a shard of it. */
    if (n == 1 && dsf_contents_is_plain(c, unit, kind) &&
        dsf_contents_spec(c, at)->elems == c->model->units[unit].elems) {
        whole = dsf_contents_near(c, at, DSFLOW_W, err);
        return whole == NULL ? DSFLOW_EIO : read(user, unit, whole, err);
    }
    status = dsf_unit_alloc(c->model, unit, &whole, err);
    if (status < 0)
        return status;
    status = read(user, unit, whole, err);
    if (status == DSFLOW_OK)
        status = dsf_contents_put(c, unit, kind, whole, err);
    free(whole);
    return status;
}
