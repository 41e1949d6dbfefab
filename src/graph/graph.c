/* graph.c - data and tasks in order, and the edges that follow from them. */
#include <dsflow/graph.h>

#include "base/alloc.h"
#include "graph/graph_private.h"
#include "graph/task.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The id of what could not be added. */
#define NOTHING UINT32_MAX

const char *dsflow_role_str(enum dsflow_role role)
{
    static const char *const names[DSFLOW_NROLES] = { "params", "grads",
                                                      "states", "activations",
                                                      "buffers" };

    return (unsigned)role < DSFLOW_NROLES ? names[role] : "?";
}

const char *dsflow_tier_str(enum dsflow_tier tier)
{
    static const char *const names[DSFLOW_NTIERS] = { "device", "cpu", "nvme" };

    return (unsigned)tier < DSFLOW_NTIERS ? names[tier] : "?";
}

enum dsflow_access dsflow_task_access(const struct dsflow_task_spec *t,
                                      unsigned i)
{
    const struct dsflow_op *op = t->op;
    unsigned p = i < op->nports ? i : op->nports - 1;

    return i < 32 && t->fresh >> i & 1 ? DSFLOW_W : op->ports[p].access;
}

struct dsflow_graph *dsflow_graph_new(void)
{
    struct dsflow_graph *g = dsf_xcalloc(1, sizeof(*g));

    dsflow_graph_add_program(g, "step");
    return g;
}

static void forget_edges(struct dsflow_graph *g)
{
    free(g->first_pred);
    free(g->preds);
    g->first_pred = NULL;
    g->preds = NULL;
}

void dsflow_graph_free(struct dsflow_graph *g)
{
    if (g == NULL)
        return;
    dsf_blocks_fini(&g->names);
    dsf_blocks_fini(&g->lists);
    dsf_blocks_fini(&g->kept);
    free(g->args);
    free(g->data);
    free(g->tasks);
    free(g->slots);
    dsf_programs_free(g);
    forget_edges(g);
    free(g);
}

/* Arguments, which many tasks share. */
struct dsf_args {
    const void *at;
    size_t bytes, hash;
};

/* Words at a time: arguments have hundreds of bytes, and come by the million.
 */
static size_t hash_args(const void *args, size_t bytes)
{
    uint64_t h = bytes, word;
    size_t i = 0;

    for (; i + sizeof(word) <= bytes; i += sizeof(word)) {
        memcpy(&word, (const char *)args + i, sizeof(word));
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
    }
    for (; i < bytes; i++)
        h = (h ^ ((const unsigned char *)args)[i]) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

/* The slot of these arguments, or the empty one where they would go. */
static struct dsf_args *find_args(const struct dsflow_graph *g,
                                  const void *args, size_t bytes, size_t hash)
{
    size_t i = hash & (g->cap_args - 1);

    while (g->args[i].at != NULL &&
           (g->args[i].hash != hash || g->args[i].bytes != bytes ||
            memcmp(g->args[i].at, args, bytes) != 0))
        i = (i + 1) & (g->cap_args - 1);
    return &g->args[i];
}

static void grow_args(struct dsflow_graph *g)
{
    struct dsf_args *old = g->args;
    size_t n = g->cap_args;

    if (g->nargs * 2 < g->cap_args)
        return;
    g->cap_args = n == 0 ? 256 : 4 * n;
    g->args = dsf_xcalloc(g->cap_args, sizeof(*g->args));
    for (size_t i = 0; i < n; i++)
        if (old[i].at != NULL)
            *find_args(g, old[i].at, old[i].bytes, old[i].hash) = old[i];
    free(old);
}

static const void *keep_args(struct dsflow_graph *g, const void *args,
                             size_t bytes)
{
    struct dsf_args *slot;
    size_t hash;

    if (bytes == 0)
        return NULL;
    grow_args(g);
    hash = hash_args(args, bytes);
    slot = find_args(g, args, bytes, hash);
    if (slot->at != NULL)
        return slot->at;
    *slot = (struct dsf_args){ dsf_blocks_copy(&g->kept, args, bytes, 16),
                               bytes, hash };
    g->nargs++;
    return slot->at;
}

/* FNV-1a; the names of a graph are ours, so nobody picks collisions. */
static size_t hash_name(const char *name)
{
    uint64_t h = 1469598103934665603u;

    for (; *name != '\0'; name++)
        h = (h ^ (unsigned char)*name) * 1099511628211u;
    return (size_t)(h ^ h >> 32);
}

/* The slot of `name`, or the empty one where it would go. */
static uint32_t *find_slot(const struct dsflow_graph *g, const char *name)
{
    size_t i = hash_name(name) & (g->nslots - 1);

    while (g->slots[i] != 0 && strcmp(g->data[g->slots[i] - 1].name, name) != 0)
        i = (i + 1) & (g->nslots - 1);
    return &g->slots[i];
}

static void grow_slots(struct dsflow_graph *g)
{
    if (g->nslots > 2 * (size_t)g->ndata + 2)
        return;
    free(g->slots);
    g->nslots = g->nslots == 0 ? 64 : 4 * g->nslots;
    g->slots = dsf_xcalloc(g->nslots, sizeof(*g->slots));
    for (uint32_t i = 0; i < g->ndata; i++)
        *find_slot(g, g->data[i].name) = i + 1;
}

int dsflow_graph_find(const struct dsflow_graph *g, const char *name,
                      dsflow_data_id *id)
{
    uint32_t at = g->nslots == 0 ? 0 : *find_slot(g, name);

    if (at == 0)
        return 0;
    id->i = at - 1;
    return 1;
}

dsflow_data_id dsflow_graph_add_data(struct dsflow_graph *g,
                                     const struct dsflow_data_spec *spec)
{
    uint32_t *slot;

    if (spec->size != sizeof(*spec)) {
        dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                    "data: a description of %u bytes: expected %zu", spec->size,
                    sizeof(*spec));
        return (dsflow_data_id){ NOTHING };
    }
    grow_slots(g);
    slot = find_slot(g, spec->name);
    if (*slot != 0) {
        dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL, "two data called %s",
                    spec->name);
        return (dsflow_data_id){ *slot - 1 };
    }
    dsf_grow(&g->data, &g->cap_data, g->ndata + 1, sizeof(*g->data));
    g->data[g->ndata] = *spec;
    g->data[g->ndata].bytes =
        dsflow_dtype_bytes((enum dsflow_dtype)spec->dtype, spec->elems);
    g->data[g->ndata].name =
        dsf_blocks_copy(&g->names, spec->name, strlen(spec->name) + 1, 1);
    *slot = ++g->ndata;
    return (dsflow_data_id){ g->ndata - 1 };
}

/* Can it be added? */
static bool is_task(struct dsflow_graph *g, const struct dsflow_task_spec *spec)
{
    if (spec->size != sizeof(*spec))
        return dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                           "task: a description of %u bytes: expected %zu",
                           spec->size, sizeof(*spec)) == DSFLOW_OK;
    if (spec->program >= g->nprograms)
        return dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                           "%s: program %u: expected less than %u",
                           spec->op->name, spec->program,
                           g->nprograms) == DSFLOW_OK;
    for (uint32_t p = 0; p < spec->ndata; p++)
        if (spec->data[p].i >= g->ndata)
            return dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                               "%s: port %u: data %u: expected less than %u",
                               spec->op->name, p, spec->data[p].i,
                               g->ndata) == DSFLOW_OK;
    return true;
}

dsflow_task_id dsflow_graph_add_task(struct dsflow_graph *g,
                                     const struct dsflow_task_spec *spec)
{
    struct dsf_program *program;
    struct dsflow_task_spec *t;

    if (!is_task(g, spec))
        return (dsflow_task_id){ NOTHING };
    dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks + 1, sizeof(*g->tasks));
    t = &g->tasks[g->ntasks];
    *t = *spec;
    t->args = keep_args(g, spec->args, spec->op->args_size);
    t->data =
        dsf_blocks_copy(&g->lists, spec->data,
                        spec->ndata * sizeof(*spec->data), sizeof(*spec->data));
    program = &g->programs[spec->program];
    if (program->ntasks++ == 0)
        program->first = g->ntasks;
    forget_edges(g);
    return (dsflow_task_id){ g->ntasks++ };
}

uint32_t dsflow_graph_ndata(const struct dsflow_graph *g)
{
    return g->ndata;
}

uint32_t dsflow_graph_ntasks(const struct dsflow_graph *g)
{
    return g->ntasks;
}

const struct dsflow_data_spec *dsflow_graph_data(const struct dsflow_graph *g,
                                                 dsflow_data_id id)
{
    assert(id.i < g->ndata);
    return &g->data[id.i];
}

const struct dsflow_task_spec *dsflow_graph_task(const struct dsflow_graph *g,
                                                 dsflow_task_id id)
{
    assert(id.i < g->ntasks);
    return &g->tasks[id.i];
}

/* How many data, and which of them are fresh. */
static int check_count(const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    const struct dsflow_op *op = t->op;
    unsigned least = op->nports - op->noptional;

    if (op->repeats && op->ports[op->nports - 1].access == DSFLOW_RW)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: port %s comes again: expected R or W, not RW",
                           op->name, op->ports[op->nports - 1].name);
    if (t->ndata < least && op->repeats)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %u data: expected at least %u", op->name,
                           t->ndata, least);
    if (t->ndata < least || (t->ndata > op->nports && !op->repeats))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %u data: expected %u to %u",
                           op->name, t->ndata, least, op->nports);
    for (unsigned p = 0; p < 32 && t->fresh >> p != 0; p++)
        if (t->fresh >> p & 1 &&
            (p >= t->ndata ||
             op->ports[p < op->nports ? p : op->nports - 1].access == DSFLOW_R))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: port %u is only read, so not fresh",
                               op->name, p);
    return DSFLOW_OK;
}

/* Data of the types that the ports declare. */
static int check_types(const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    const struct dsflow_op *op = t->op;

    for (uint32_t p = 0; p < t->ndata; p++) {
        const struct dsflow_port *port =
            &op->ports[p < op->nports ? p : op->nports - 1];
        enum dsflow_dtype dtype =
            (enum dsflow_dtype)g->data[t->data[p].i].dtype;

        if (port->dtype != 0 && port->dtype != dtype)
            return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: expected %s, is %s",
                               op->name, port->name,
                               dsflow_dtype_str(port->dtype),
                               dsflow_dtype_str(dtype));
    }
    return DSFLOW_OK;
}

/* No data twice; by data, `used` is the last task that used it, + 1. */
static int check_ports(const struct dsflow_task_spec *t, uint32_t task,
                       uint32_t *used, struct dsflow_err *err)
{
    for (uint32_t p = 0; p < t->ndata; p++) {
        uint32_t q = 0;

        if (used[t->data[p].i] != task + 1) {
            used[t->data[p].i] = task + 1;
            continue;
        }
        while (t->data[q].i != t->data[p].i)
            q++;
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: ports %u and %u are the same data", t->op->name,
                           q, p);
    }
    return DSFLOW_OK;
}

int dsflow_graph_check(const struct dsflow_graph *g, struct dsflow_err *err)
{
    /* By data: the last program that wrote it, + 1; they stand in order. */
    unsigned char *written = dsf_xcalloc(g->ndata + 1, 1);
    uint32_t *used = dsf_xcalloc(g->ndata + 1, sizeof(*used));
    int status = g->fault.status;

    if (status < 0)
        dsflow_fail(err, status, "%s", g->fault.msg);
    for (uint32_t i = 0; i < g->ntasks && status == DSFLOW_OK; i++) {
        const struct dsflow_task_spec *t = &g->tasks[i];

        if (i > 0 && t->program < t[-1].program)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: a task of program %s after one of %s",
                                 t->op->name, g->programs[t->program].name,
                                 g->programs[t[-1].program].name);
        if (status == DSFLOW_OK)
            status = check_count(t, err);
        if (status == DSFLOW_OK)
            status = check_ports(t, i, used, err);
        if (status == DSFLOW_OK)
            status = check_types(g, t, err);
        for (unsigned p = 0; p < t->ndata && status == DSFLOW_OK; p++) {
            const struct dsflow_data_spec *d = &g->data[t->data[p].i];

            if (d->tier == DSFLOW_NVME && !t->op->swaps)
                status = dsflow_fail(err, DSFLOW_EINVAL,
                                     "%s uses %s, which is on NVMe",
                                     t->op->name, d->name);
            else if (dsflow_task_access(t, p) & DSFLOW_R && !d->persistent &&
                     written[t->data[p].i] != t->program + 1)
                status = dsflow_fail(err, DSFLOW_EINVAL,
                                     "%s reads %s, which nothing wrote",
                                     t->op->name, d->name);
        }
        if (status < 0)
            break;
        status = dsf_task_check(g, t, err);
        for (unsigned p = 0; p < t->ndata; p++)
            if (dsflow_task_access(t, p) & DSFLOW_W)
                written[t->data[p].i] = t->program + 1;
    }
    free(written);
    free(used);
    return status;
}

/* Readers since the last write of a piece of data, as a linked list. */
struct reader {
    uint32_t task, next; /* both +1, 0 is none */
};

struct trail {
    uint32_t writer;  /* +1 */
    uint32_t readers; /* +1, into a pool */
};

/* The predecessors of the task that is looked at. */
struct preds {
    uint32_t *v, n;
    size_t cap;
    uint32_t *of; /* by task: the last one it precedes, + 1 */
    bool sorted;
};

static void add_pred(struct preds *list, uint32_t pred, uint32_t task)
{
    if (list->of[pred] == task + 1)
        return;
    list->of[pred] = task + 1;
    dsf_grow(&list->v, &list->cap, list->n + 1, sizeof(*list->v));
    list->sorted =
        list->sorted && (list->n == 0 || list->v[list->n - 1] < pred);
    list->v[list->n++] = pred;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void find_edges(struct dsflow_graph *g)
{
    struct trail *trails = dsf_xcalloc(g->ndata + 1, sizeof(*trails));
    struct reader *pool = NULL;
    struct preds list = { .of = dsf_xcalloc(g->ntasks + 1, sizeof(uint32_t)) };
    size_t npool = 0, cap_pool = 0, cap_preds = 0, n = 0;
    int program = -1;

    g->first_pred = dsf_xcalloc(g->ntasks + 1, sizeof(*g->first_pred));
    for (uint32_t i = 0; i < g->ntasks; i++) {
        const struct dsflow_task_spec *t = &g->tasks[i];

        list.n = 0;
        list.sorted = true;
        if (t->program != program) { /* it starts with everything settled */
            memset(trails, 0, g->ndata * sizeof(*trails));
            npool = 0;
            program = t->program;
        }
        for (unsigned p = 0; p < t->ndata; p++) {
            struct trail *trail = &trails[t->data[p].i];
            bool writes = dsflow_task_access(t, p) & DSFLOW_W;

            if (writes)
                for (uint32_t r = trail->readers; r != 0; r = pool[r - 1].next)
                    add_pred(&list, pool[r - 1].task - 1, i);
            if (trail->writer != 0 && (!writes || trail->readers == 0))
                add_pred(&list, trail->writer - 1, i);
        }
        for (unsigned p = 0; p < t->ndata; p++) {
            struct trail *trail = &trails[t->data[p].i];

            if (dsflow_task_access(t, p) & DSFLOW_W) {
                *trail = (struct trail){ i + 1, 0 };
                continue;
            }
            dsf_grow(&pool, &cap_pool, npool + 1, sizeof(*pool));
            pool[npool] = (struct reader){ i + 1, trail->readers };
            trail->readers = (uint32_t)++npool;
        }
        if (!list.sorted)
            qsort(list.v, list.n, sizeof(*list.v), ascending);
        dsf_grow(&g->preds, &cap_preds, n + list.n + 1, sizeof(*g->preds));
        for (uint32_t k = 0; k < list.n; k++)
            g->preds[n + k].i = list.v[k];
        n += list.n;
        g->first_pred[i + 1] = (uint32_t)n;
    }
    free(list.v);
    free(list.of);
    free(pool);
    free(trails);
}

uint32_t dsflow_graph_preds(struct dsflow_graph *g, dsflow_task_id id,
                            const dsflow_task_id **list)
{
    assert(id.i < g->ntasks);
    if (g->first_pred == NULL)
        find_edges(g);
    *list = g->preds + g->first_pred[id.i];
    return g->first_pred[id.i + 1] - g->first_pred[id.i];
}
