/* graph.c - data and tasks in order. */
#include <dsflow/graph.h>

#include "base/alloc.h"
#include "graph/asked.h"
#include "graph/graph_private.h"
#include "graph/shape_text.h"

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

unsigned dsflow_task_port(const struct dsflow_task_spec *t, unsigned i)
{
    unsigned port = i;

    /* Each bit of `without` up to the port moves it by one. */
    for (uint32_t left = t->without; left != 0; left &= left - 1) {
        if ((unsigned)__builtin_ctz(left) > port)
            break;
        port++;
    }
    return port < t->op->nports ? port : t->op->nports - 1;
}

enum dsflow_access dsflow_task_access(const struct dsflow_task_spec *t,
                                      unsigned i)
{
    unsigned p = dsflow_task_port(t, i);

    return p < 32 && t->fresh >> p & 1 ? DSFLOW_W : t->op->ports[p].access;
}

int dsflow_task_is_apart(const struct dsflow_task_spec *t, unsigned i)
{
    unsigned p = t->apart != 0 ? dsflow_task_port(t, i) : 32;

    return p < 32 && t->apart >> p & 1;
}

struct dsflow_graph *dsflow_graph_new(void)
{
    struct dsflow_graph *g = dsf_xcalloc(1, sizeof(*g));

    dsflow_graph_add_program(g, "step");
    return g;
}

void dsflow_graph_free(struct dsflow_graph *g)
{
    if (g == NULL)
        return;
    dsf_blocks_fini(&g->names);
    dsf_blocks_fini(&g->lists);
    dsf_blocks_fini(&g->kept);
    dsf_blocks_fini(&g->specs);
    free(g->args);
    free(g->data);
    free(g->tasks);
    free(g->slots);
    dsf_programs_free(g);
    dsf_forget_edges(g);
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

/* Does what it says of its shape agree? */
static bool is_shape(const struct dsflow_data_spec *spec)
{
    int64_t n = 1;

    if (spec->ndims > DSFLOW_MAX_DIMS || spec->elems < 0 ||
        spec->dtype >= DSFLOW_NDTYPES)
        return false;
    for (unsigned i = 0; i < spec->ndims; i++)
        if (spec->dims[i] < 0 || __builtin_mul_overflow(n, spec->dims[i], &n))
            return false;
    return spec->ndims == 0 || n == spec->elems;
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
    if (spec->name == NULL) {
        dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL, "data without a name");
        return (dsflow_data_id){ NOTHING };
    }
    if (!is_shape(spec))
        dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                    "%s: %s: has %lld elements", spec->name,
                    dsf_shape_text(spec).s, (long long)spec->elems);
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
    if (spec->tier < DSFLOW_NTIERS)
        g->in_tier[spec->tier]++;
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
    if (spec->op == NULL)
        return dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                           "a task without an op") == DSFLOW_OK;
    if (spec->args == NULL && spec->op->args_size > 0)
        return dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                           "%s: has no args: expected %zu bytes",
                           spec->op->name, spec->op->args_size) == DSFLOW_OK;
    if (spec->data == NULL && spec->ndata > 0)
        return dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                           "%s: has no list of its %u data", spec->op->name,
                           spec->ndata) == DSFLOW_OK;
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

static struct dsflow_task_spec *new_task(struct dsflow_graph *g)
{
    if (g->ntasks % DSF_TASKS_EACH == 0) {
        dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks / DSF_TASKS_EACH + 1,
                 sizeof(*g->tasks));
        g->tasks[g->ntasks / DSF_TASKS_EACH] =
            dsf_blocks_take(&g->specs, DSF_TASKS_EACH * sizeof(**g->tasks), 8);
    }
    return dsf_task_at(g, g->ntasks);
}

dsflow_task_id dsflow_graph_add_task(struct dsflow_graph *g,
                                     const struct dsflow_task_spec *spec)
{
    struct dsf_program *program;
    struct dsflow_task_spec *t;

    if (!is_task(g, spec))
        return (dsflow_task_id){ NOTHING };
    if (g->asked != NULL && dsf_asked_add(g, spec))
        return (dsflow_task_id){ NOTHING };
    t = new_task(g);
    *t = *spec;
    t->args = keep_args(g, spec->args, spec->op->args_size);
    t->data =
        dsf_blocks_copy(&g->lists, spec->data,
                        spec->ndata * sizeof(*spec->data), sizeof(*spec->data));
    program = &g->programs[spec->program];
    if (program->ntasks++ == 0)
        program->first = g->ntasks;
    dsf_forget_edges(g);
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
    return dsf_task_at(g, id.i);
}

void dsflow_graph_set_priority(struct dsflow_graph *g, dsflow_task_id id,
                               int32_t priority)
{
    assert(id.i < g->ntasks);
    dsf_task_at(g, id.i)->priority = priority;
}
