/* contents.c - whole tensors from replicas, shards and parts, and back. */
#include "cli/contents.h"

#include "base/alloc.h"
#include "model/parts.h"

#include <stdlib.h>
#include <string.h>

const char *dsf_contents_name(const struct dsf_contents *c, unsigned kind)
{
    if (kind == DSF_KEPT_PARAM)
        return "";
    return kind < DSF_NKEPT ? c->optimizer->states[kind - 1] : NULL;
}

/* "m.layer0.qkv" is a state called m. */
static int kind_of(const struct dsf_contents *c,
                   const struct dsflow_data_spec *d)
{
    size_t n = strcspn(d->name, ".");
    const char *name;

    if (!d->persistent || d->unit < 0)
        return -1;
    if (d->role == DSFLOW_PARAMS)
        return DSF_KEPT_PARAM;
    if (d->role != DSFLOW_STATES)
        return -1;
    for (unsigned k = 1; (name = dsf_contents_name(c, k)) != NULL; k++)
        if (strlen(name) == n && strncmp(d->name, name, n) == 0)
            return (int)k;
    return -1;
}

static int by_unit(const void *a, const void *b)
{
    const struct dsf_holding *x = a, *y = b;

    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    return x->id.i < y->id.i ? -1 : x->id.i > y->id.i;
}

void dsf_contents_init(struct dsf_contents *c, const struct dsf_model *model,
                       struct dsflow_graph *graph, struct dsflow_exec *exec,
                       const struct dsflow_optimizer *optimizer, int32_t tensor)
{
    *c = (struct dsf_contents){ .model = model,
                                .graph = graph,
                                .exec = exec,
                                .optimizer = optimizer,
                                .tensor = tensor };
    for (uint32_t i = 0; i < dsflow_graph_ndata(graph); i++) {
        dsflow_data_id id = { i };
        const struct dsflow_data_spec *d = dsflow_graph_data(graph, id);
        int kind = kind_of(c, d);

        if (kind < 0)
            continue;
        dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
        c->v[c->n++] =
            (struct dsf_holding){ (uint32_t)d->unit, (uint32_t)kind, id };
    }
    if (c->n > 0)
        qsort(c->v, c->n, sizeof(*c->v), by_unit);
}

void dsf_contents_fini(struct dsf_contents *c)
{
    free(c->v);
    *c = (struct dsf_contents){ 0 };
}

/* The first piece of a unit, and how many there are. */
static size_t find(const struct dsf_contents *c, unsigned unit, unsigned kind,
                   size_t *n)
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

bool dsf_contents_has(const struct dsf_contents *c, unsigned unit,
                      unsigned kind)
{
    size_t n;

    find(c, unit, kind, &n);
    return n > 0;
}

float *dsf_contents_map(struct dsf_contents *c, unsigned unit, unsigned kind,
                        enum dsflow_access access)
{
    size_t n, at = find(c, unit, kind, &n);

    if (n != 1 || c->tensor > 1)
        return NULL;
    return dsflow_exec_map(c->exec, c->v[at].id, access);
}

/* Copy between the pieces of a part and its numbers in one buffer. */
static void move(struct dsf_contents *c, unsigned unit, unsigned kind,
                 int32_t part, float *own, bool get)
{
    size_t n, at = find(c, unit, kind, &n);

    for (size_t i = at; i < at + n; i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(c->graph, c->v[i].id);

        if (d->part != part)
            continue;
        if (get)
            memcpy(own + d->at, dsflow_exec_map(c->exec, c->v[i].id, DSFLOW_R),
                   d->bytes);
        else
            memcpy(dsflow_exec_map(c->exec, c->v[i].id, DSFLOW_RW), own + d->at,
                   d->bytes);
    }
}

void dsf_contents_get(struct dsf_contents *c, unsigned unit, unsigned kind,
                      float *whole)
{
    if (c->tensor == 1) {
        move(c, unit, kind, 0, whole, true);
        return;
    }
    memset(whole, 0, (size_t)c->model->units[unit].elems * sizeof(float));
    for (int32_t p = 0; p <= c->tensor; p++) {
        struct dsf_part part;
        float *own;

        dsf_part_init(&part, c->model, c->tensor, unit, p);
        if (part.elems == 0)
            continue;
        own = dsf_xcalloc((size_t)part.elems, sizeof(*own));
        move(c, unit, kind, p, own, true);
        dsf_part_merge(&part, own, whole);
        free(own);
    }
}

void dsf_contents_put(struct dsf_contents *c, unsigned unit, unsigned kind,
                      const float *whole)
{
    if (c->tensor == 1) {
        move(c, unit, kind, 0, (float *)whole, false);
        return;
    }
    for (int32_t p = 0; p <= c->tensor; p++) {
        struct dsf_part part;
        float *own;

        dsf_part_init(&part, c->model, c->tensor, unit, p);
        if (part.elems == 0)
            continue;
        own = dsf_xcalloc((size_t)part.elems, sizeof(*own));
        dsf_part_split(&part, whole, own);
        move(c, unit, kind, p, own, false);
        free(own);
    }
}
