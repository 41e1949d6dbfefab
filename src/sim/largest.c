/* largest.c - what takes most of a rank's memory, by name. */
#include "sim/largest.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>

/* The port of a task that names a piece of data. */
struct use {
    uint32_t task; /* + 1; 0: none */
    uint16_t port;
    bool writes;
};

/* The first that writes each piece of data, or else the first that has it. */
static struct use *find_uses(const struct dsflow_graph *g)
{
    struct use *uses = dsf_xcalloc(dsflow_graph_ndata(g) + 1, sizeof(*uses));

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        for (unsigned p = 0; p < t->ndata; p++) {
            struct use *use = &uses[t->data[p].i];
            bool writes = (dsflow_task_access(t, p) & DSFLOW_W) != 0;

            if (use->task == 0 || (writes && !use->writes))
                *use = (struct use){ i + 1, (uint16_t)p, writes };
        }
    }
    return uses;
}

static struct dsf_largest make(const struct dsflow_graph *g,
                               const struct dsflow_data_spec *data,
                               const struct use *use)
{
    const struct dsflow_task_spec *t =
        dsflow_graph_task(g, (dsflow_task_id){ use->task - 1 });

    return (struct dsf_largest){
        .segment = t->op->segment != NULL ? t->op->segment : t->op->name,
        .port = dsf_task_port(t, use->port)->name,
        .data = data,
    };
}

static bool is_same(const struct dsf_largest *a, const struct dsf_largest *b)
{
    const struct dsflow_data_spec *x = a->data, *y = b->data;

    return x->role == y->role && x->dtype == y->dtype && x->elems == y->elems &&
           x->ndims == y->ndims &&
           memcmp(x->dims, y->dims, x->ndims * sizeof(*x->dims)) == 0 &&
           strcmp(a->segment, b->segment) == 0 && strcmp(a->port, b->port) == 0;
}

/* Of two that are as large, the one that was made first. */
static int larger(const void *x, const void *y)
{
    const struct dsf_largest *a = x, *b = y;

    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return a->data < b->data ? -1 : a->data > b->data;
}

unsigned dsf_largest_find(const struct dsflow_graph *g, unsigned rank,
                          struct dsf_largest *v, unsigned most)
{
    struct use *uses = find_uses(g);
    struct dsf_largest *all = NULL;
    size_t cap = 0;
    unsigned n = 0, k = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(g); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g, (dsflow_data_id){ i });
        unsigned home = d->home >= 0 ? (unsigned)d->home : 0;
        struct dsf_largest x;

        if (d->tier != DSFLOW_DEVICE || home != rank || uses[i].task == 0)
            continue;
        x = make(g, d, &uses[i]);
        /* Neighbours are often alike. */
        if (k >= n || !is_same(&all[k], &x))
            for (k = 0; k < n && !is_same(&all[k], &x); k++)
                ;
        if (k == n) {
            dsf_grow(&all, &cap, n + 1, sizeof(*all));
            all[n++] = x;
        }
        all[k].count++;
        all[k].bytes += (double)d->bytes;
    }
    if (n > 1)
        qsort(all, n, sizeof(*all), larger);
    n = n < most ? n : most;
    if (n > 0)
        memcpy(v, all, n * sizeof(*v));
    free(all);
    free(uses);
    return n;
}
