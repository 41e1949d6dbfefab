/* graph.c - data and tasks in order, and the edges that follow from them. */
#include <dsflow/graph.h>

#include "base/alloc.h"
#include "graph/graph_private.h"
#include "graph/task.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

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

    return t->fresh >> i & 1 ? DSFLOW_W : op->ports[p].access;
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
    for (uint32_t i = 0; i < g->ndata; i++)
        free((char *)g->data[i].name);
    for (size_t i = 0; i < g->nblocks; i++)
        free(g->blocks[i]);
    free(g->blocks);
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

/* Arguments live in blocks that never move, so that they can be borrowed. */
static const void *keep_args(struct dsflow_graph *g, const void *args,
                             size_t bytes)
{
    enum { BLOCK = 1 << 16 };
    size_t need = (bytes + 15) & ~(size_t)15, hash;
    struct dsf_args *slot;
    void *at;

    if (bytes == 0)
        return NULL;
    grow_args(g);
    hash = hash_args(args, bytes);
    slot = find_args(g, args, bytes, hash);
    if (slot->at != NULL)
        return slot->at;
    if (g->nblocks == 0 || g->used + need > g->block_bytes) {
        dsf_grow(&g->blocks, &g->cap_blocks, g->nblocks + 1,
                 sizeof(*g->blocks));
        g->block_bytes = need > BLOCK ? need : BLOCK;
        g->blocks[g->nblocks++] = dsf_xcalloc(1, g->block_bytes);
        g->used = 0;
    }
    at = (char *)g->blocks[g->nblocks - 1] + g->used;
    g->used += need;
    memcpy(at, args, bytes);
    *slot = (struct dsf_args){ at, bytes, hash };
    g->nargs++;
    return at;
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

    grow_slots(g);
    slot = find_slot(g, spec->name);
    assert(*slot == 0 && "two data of one name");
    dsf_grow(&g->data, &g->cap_data, g->ndata + 1, sizeof(*g->data));
    g->data[g->ndata] = *spec;
    g->data[g->ndata].name = dsf_xstrdup(spec->name);
    *slot = ++g->ndata;
    return (dsflow_data_id){ g->ndata - 1 };
}

dsflow_task_id dsflow_graph_add_task(struct dsflow_graph *g,
                                     const struct dsflow_task_spec *spec)
{
    struct dsf_program *program;
    struct dsflow_task_spec *t;

    assert(spec->ndata <= DSFLOW_MAX_PORTS && spec->program < g->nprograms);
    dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks + 1, sizeof(*g->tasks));
    t = &g->tasks[g->ntasks];
    *t = *spec;
    t->args = keep_args(g, spec->args, spec->op->args_size);
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

static int check_ports(const struct dsflow_task_spec *t, struct dsflow_err *err)
{
    const struct dsflow_op *op = t->op;
    unsigned least = op->nports - op->noptional;

    if (t->ndata < least || (t->ndata > op->nports && !op->repeats))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %u data: expected %u to %u",
                           op->name, t->ndata, least,
                           op->repeats ? DSFLOW_MAX_PORTS : op->nports);
    for (unsigned p = 0; p < t->ndata; p++) {
        enum dsflow_access declared =
            op->ports[p < op->nports ? p : op->nports - 1].access;

        if (t->fresh >> p & 1 && declared == DSFLOW_R)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: port %u is only read, so not fresh",
                               op->name, p);
        for (unsigned q = 0; q < p; q++)
            if (t->data[p].i == t->data[q].i)
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s: ports %u and %u are the same data",
                                   op->name, q, p);
    }
    return DSFLOW_OK;
}

int dsflow_graph_check(const struct dsflow_graph *g, struct dsflow_err *err)
{
    /* By data: the last program that wrote it, + 1; they stand in order. */
    unsigned char *written = dsf_xcalloc(g->ndata + 1, 1);
    int status = dsf_programs_check(g, err);

    for (uint32_t i = 0; i < g->ntasks && status == DSFLOW_OK; i++) {
        const struct dsflow_task_spec *t = &g->tasks[i];
        size_t bytes[DSFLOW_MAX_PORTS];

        if (i > 0 && t->program < t[-1].program)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: a task of program %s after one of %s",
                                 t->op->name, g->programs[t->program].name,
                                 g->programs[t[-1].program].name);
        if (status == DSFLOW_OK)
            status = check_ports(t, err);
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
        dsf_task_bytes(g, t, bytes);
        status = t->op->check(bytes, t->ndata, t->args, err);
        for (unsigned p = 0; p < t->ndata; p++)
            if (dsflow_task_access(t, p) & DSFLOW_W)
                written[t->data[p].i] = t->program + 1;
    }
    free(written);
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

static void add_pred(uint32_t *list, uint32_t *n, uint32_t task)
{
    uint32_t i = *n;

    for (uint32_t k = 0; k < *n; k++)
        if (list[k] == task)
            return;
    for (; i > 0 && list[i - 1] > task; i--)
        list[i] = list[i - 1];
    list[i] = task;
    (*n)++;
}

static void find_edges(struct dsflow_graph *g)
{
    struct trail *trails = dsf_xcalloc(g->ndata + 1, sizeof(*trails));
    struct reader *pool = NULL;
    uint32_t *list = NULL;
    size_t npool = 0, cap_pool = 0, cap_list = 0, cap_preds = 0, n = 0;
    int program = -1;

    g->first_pred = dsf_xcalloc(g->ntasks + 1, sizeof(*g->first_pred));
    for (uint32_t i = 0; i < g->ntasks; i++) {
        const struct dsflow_task_spec *t = &g->tasks[i];
        uint32_t nlist = 0;

        if (t->program != program) { /* it starts with everything settled */
            memset(trails, 0, g->ndata * sizeof(*trails));
            npool = 0;
            program = t->program;
        }
        for (unsigned p = 0; p < t->ndata; p++) {
            struct trail *trail = &trails[t->data[p].i];
            bool writes = dsflow_task_access(t, p) & DSFLOW_W;

            if (writes)
                for (uint32_t r = trail->readers; r != 0;
                     r = pool[r - 1].next) {
                    dsf_grow(&list, &cap_list, nlist + 1, sizeof(*list));
                    add_pred(list, &nlist, pool[r - 1].task - 1);
                }
            if (trail->writer != 0 && (!writes || trail->readers == 0)) {
                dsf_grow(&list, &cap_list, nlist + 1, sizeof(*list));
                add_pred(list, &nlist, trail->writer - 1);
            }
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
        dsf_grow(&g->preds, &cap_preds, n + nlist + 1, sizeof(*g->preds));
        for (uint32_t k = 0; k < nlist; k++)
            g->preds[n + k].i = list[k];
        n += nlist;
        g->first_pred[i + 1] = (uint32_t)n;
    }
    free(list);
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
