/* offload.c - what does not fit the device is kept in a larger memory, and is
 * there when it is needed (ZeRO-Offload, Ren et al. 2021; ZeRO-Infinity,
 * Rajbhandari et al. 2021).
 *
 * Data that a key of [offload] names gets a home in main memory or on NVMe; a
 * buffer of a ring has it while tasks use it. `swap_in` fills the buffer before
 * the first of them, `swap_out` empties it when something else wants it. The
 * whole step is known, so the buffer that is given up is the one whose contents
 * are needed last from here on (Belady 1966). Reading ahead and writing behind
 * are not done by anybody: a swap is ready as soon as its buffer is free.
 *
 * Updates with offloaded states run on the CPU. They use what is in main memory
 * where it is: there are no rings between. Those that multiply matrices run on
 * GPUs all the same, and have rings there.
 */
#include "policies/offload_private.h"

#include "policies/ring_class.h"
#include "tasks/tasks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define NEVER UINT32_MAX

/* The data itself, in the tier where it is kept. */
static dsflow_data_id home_of(struct offload *o, uint32_t data)
{
    struct dsflow_data_spec spec = *dsf_nth_data(o->rw.in, data);

    if (!o->rw.copied[data]) {
        spec.tier = o->items[data].home;
        o->rw.copy[data] = dsflow_graph_add_data(o->rw.out, &spec);
        o->rw.copied[data] = 1;
    }
    return o->rw.copy[data];
}

static dsflow_data_id slot_id(struct offload *o, struct ring *ring,
                              struct slot *slot)
{
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = ring->most, .dtype = ring->dtype,
                    .role = (enum dsflow_role)ring->role, .home = ring->rank,
                    .tier = ring->tier, .unit = -1,
                    .ring = "offload.read_ahead");
    bool state = ring->role == DSFLOW_STATES;
    char size[48] = "";

    if (slot != &ring->slots[ring->nmade])
        return slot->id;
    if (!state)
        snprintf(size, sizeof(size), "%s%s.z%lld",
                 ring->dtype == DSFLOW_FP32 ? "" : ".",
                 ring->dtype == DSFLOW_FP32
                     ? ""
                     : dsflow_dtype_str((enum dsflow_dtype)ring->dtype),
                 (long long)ring->elems);
    return slot->id = dsflow_rewrite_named(
               o->rw.out, &spec, "slot.%s%s%s.%u.r%d",
               state && ring->tier == DSFLOW_DEVICE ? "gpu." : "",
               state ? o->plan->kept.v[ring->of - 1].name
               : ring->role == DSFLOW_PARAMS ? "param"
                                             : dsf_ring_name(ring->of).s,
               size, ring->nmade++, ring->rank);
}

/* The next use in the program of what `data` holds now; NULL: there is none. */
static const struct use *next_use(const struct offload *o, uint32_t data,
                                  dsflow_program program)
{
    uint32_t at = o->items[data].use;

    return at != 0 && dsf_nth_task(o->rw.in, o->uses[at - 1].task)->program ==
                          program
               ? &o->uses[at - 1]
               : NULL;
}

/* The next task that reads it: NEVER, where it is written anew before, or where
 * the step ends first. */
static uint32_t next_read(const struct offload *o, uint32_t data,
                          dsflow_program program)
{
    const struct use *use = next_use(o, data, program);

    return use != NULL && use->access & DSFLOW_R ? use->task : NEVER;
}

/* Will anybody want what is in the slot? */
static bool lives(const struct offload *o, uint32_t data,
                  dsflow_program program)
{
    const struct use *use = next_use(o, data, program);

    return use != NULL ? use->access & DSFLOW_R
                       : dsf_nth_data(o->rw.in, data)->persistent;
}

/* Its home has what the slot has, from here on. The task is one of the layer
 * that used the slot last. */
static void clean(struct offload *o, struct ring *ring, struct slot *slot,
                  const struct dsflow_task_spec *t)
{
    struct dsflow_task_spec like = *t;

    like.layer = slot->layer;
    like.pass = slot->pass;
    dsf_add_like(
        o->rw.out, &like, &dsf_op_swap_out, NULL, ring->rank, 0, 2,
        (dsflow_data_id[]){ slot->id, home_of(o, slot->occupant - 1) });
    slot->dirty = false;
}

static void vacate(struct offload *o, struct ring *ring, struct slot *slot,
                   const struct dsflow_task_spec *t)
{
    uint32_t data = slot->occupant - 1;

    if (slot->dirty && lives(o, data, t->program))
        clean(o, ring, slot, t);
    o->items[data].slot = -1;
    slot->occupant = 0;
    slot->dirty = false;
}

/* Is `a` the better one to give up? An empty one, else the one that is needed
 * last; of equal ones the one that was used first, as it is free first. */
static bool gives_way(const struct offload *o, const struct slot *a,
                      const struct slot *b, dsflow_program program)
{
    uint32_t x =
        a->occupant == 0 ? NEVER : next_read(o, a->occupant - 1, program);
    uint32_t y =
        b->occupant == 0 ? NEVER : next_read(o, b->occupant - 1, program);

    return x != y ? x > y : a->used < b->used;
}

/* Task `i` uses the slot: it is the newest one. */
static void touch(struct ring *ring, struct slot *slot, uint32_t i)
{
    uint32_t at = (uint32_t)(slot - ring->slots) + 1;

    slot->used = i + 1;
    if (ring->newest == at)
        return;
    if (slot->older != 0)
        ring->slots[slot->older - 1].newer = slot->newer;
    if (slot->newer != 0)
        ring->slots[slot->newer - 1].older = slot->older;
    if (ring->oldest == at)
        ring->oldest = slot->newer;
    slot->older = ring->newest;
    slot->newer = 0;
    if (ring->newest != 0)
        ring->slots[ring->newest - 1].newer = at;
    else
        ring->oldest = at;
    ring->newest = at;
}

/* What was used last stays a while, needed or not: else its successor could
 * not be read while it is in use. */
static uint32_t resting(const struct offload *o, const struct ring *ring)
{
    return ring->together *
           ((uint32_t)(o->keys->read_ahead > 0) +
            (uint32_t)(ring->written && o->keys->write_behind > 0));
}

static struct slot *find_slot(const struct offload *o, struct ring *ring,
                              uint32_t task, dsflow_program program)
{
    uint32_t left = ring->length - resting(o, ring);
    struct slot *best = NULL;

    if (ring->nmade < ring->length)
        return &ring->slots[ring->nmade];
    for (uint32_t at = ring->oldest; at != 0 && left > 0; left--) {
        struct slot *slot = &ring->slots[at - 1];

        if (slot->used != task + 1 &&
            (best == NULL || gives_way(o, slot, best, program)))
            best = slot;
        at = slot->newer;
    }
    assert(best != NULL); /* a task uses `together` slots at most */
    return best;
}

/* The slot that has `data` for task `i`, filled if the task reads it. */
static dsflow_data_id in_slot(struct offload *o, uint32_t data, uint32_t i,
                              const struct dsflow_task_spec *t,
                              enum dsflow_access access)
{
    struct item *item = &o->items[data];
    struct ring *ring = &o->rings[item->ring];
    struct slot *slot;
    dsflow_data_id id;

    if (item->slot < 0) {
        slot = find_slot(o, ring, i, t->program);
        id = slot_id(o, ring, slot);
        if (slot->occupant != 0)
            vacate(o, ring, slot, t);
        if (access & DSFLOW_R)
            dsf_add_like(o->rw.out, t, &dsf_op_swap_in, NULL, ring->rank, 0, 2,
                         (dsflow_data_id[]){ home_of(o, data), id });
        slot->occupant = data + 1;
        item->slot = (int32_t)(slot - ring->slots);
    }
    slot = &ring->slots[item->slot];
    touch(ring, slot, i);
    slot->layer = t->layer;
    slot->pass = t->pass;
    slot->dirty |= (access & DSFLOW_W) != 0;
    return slot->id;
}

/* A task on the CPU has `data` where it is kept. */
static dsflow_data_id at_home(struct offload *o, uint32_t data,
                              const struct dsflow_task_spec *t,
                              enum dsflow_access access)
{
    struct item *item = &o->items[data];
    struct ring *ring = &o->rings[item->ring];
    struct slot *slot;

    if (item->slot >= 0) {
        slot = &ring->slots[item->slot];
        if (slot->dirty && access & DSFLOW_R)
            clean(o, ring, slot, t);
        slot->dirty = false;
        if (access & DSFLOW_W) {
            slot->occupant = 0;
            item->slot = -1;
        }
    }
    return home_of(o, data);
}

bool dsf_offload_on_cpu(const struct offload *o,
                        const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++)
        if (dsflow_graph_data(o->rw.in, t->data[p])->role == DSFLOW_STATES &&
            o->items[t->data[p].i].home != DSFLOW_DEVICE &&
            !o->items[t->data[p].i].near)
            return true;
    return false;
}

/* What the task has in slots already must not be given up for the rest. */
static void hold(struct offload *o, const struct dsflow_task_spec *t,
                 uint32_t i)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct item *item = &o->items[t->data[p].i];
        struct ring *ring = item->ring < 0 ? NULL : &o->rings[item->ring];

        if (ring != NULL && item->slot >= 0)
            touch(ring, &ring->slots[item->slot], i);
    }
}

/* What is on data[p] of the task that is being rewritten. */
static dsflow_data_id moved(void *offload, const struct dsflow_task_spec *t,
                            unsigned p)
{
    struct offload *o = offload;
    uint32_t data = t->data[p].i;
    const struct item *item = &o->items[data];
    enum dsflow_access access = dsflow_task_access(t, p);

    if (item->ring < 0)
        return home_of(o, data);
    if (item->home == DSFLOW_HOST &&
        (dsf_offload_on_cpu(o, t) || dsf_offload_is_around(o, t)))
        return at_home(o, data, t, access);
    return in_slot(o, data, o->task, t, access);
}

/* At the end of a program, what is kept goes home, and slots are empty. */
static void end_program(struct offload *o, const struct dsflow_task_spec *last)
{
    for (size_t i = 0; i < o->nrings; i++)
        for (uint32_t k = 0; k < o->rings[i].length; k++)
            if (o->rings[i].slots[k].occupant != 0) {
                struct dsflow_task_spec like = *last;

                like.microbatch = like.tile = -1;
                vacate(o, &o->rings[i], &o->rings[i].slots[k], &like);
            }
}

/* --- the policy ---------------------------------------------------------- */

static int offload_decide(void *part, struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    struct dsf_offload_keys *keys = part;

    if (keys->share < 0) /* auto, and nobody chose */
        keys->share = 0;
    return DSFLOW_OK;
}

/* Homes, rings and swaps. */
static void move_data(const struct dsf_offload_keys *keys,
                      const struct dsflow_plan *plan, struct dsflow_graph *in,
                      struct dsflow_graph *out)
{
    struct offload o = { .plan = plan,
                         .keys = keys,
                         .rw = dsflow_rewrite_begin(in, out) };
    const struct dsflow_task_spec *t, *before = NULL;

    dsf_offload_begin(&o);
    for (; (t = dsf_nth_task(in, o.task)) != NULL; before = t, o.task++) {
        if (before != NULL && t->program != before->program)
            end_program(&o, before);
        hold(&o, t, o.task);
        if (!dsf_offload_drops(&o, t)) {
            struct dsflow_task_spec like = *t;

            like.apart = dsf_offload_apart(&o, t);
            dsf_add_mapped(out, &like, moved, &o);
        }
        for (unsigned p = 0; p < t->ndata; p++)
            o.items[t->data[p].i].use =
                o.uses[o.items[t->data[p].i].use - 1].next;
    }
    if (before != NULL)
        end_program(&o, before);
    dsf_offload_end(&o);
    dsflow_rewrite_end(&o.rw);
}

static int offload_rewrite(const void *part, const struct dsflow_plan *plan,
                           struct dsflow_graph *in, struct dsflow_graph *out,
                           struct dsflow_err *err)
{
    struct dsflow_graph *pieces;
    int status;

    if (!dsf_is_offloaded(plan->job))
        return dsf_job_states(plan->job) == DSFLOW_FP32 &&
                       dsf_keeps_masters(plan->job)
                   ? DSFLOW_UNCHANGED
                   : dsf_offload_cut(plan, in, out, err);
    pieces = dsflow_graph_new();
    status = dsf_offload_cut(plan, in, pieces, err);
    if (status == DSFLOW_OK)
        move_data(part, plan, pieces, out);
    dsflow_graph_free(pieces);
    return status;
}

#define OFFLOAD struct dsf_offload_keys
#define OFFLOADED                                                              \
    "offload.optimizer != none or offload.params != none"                      \
    " or offload.gradients != none or offload.activations != none"
static const char *const memories[] = { [DSFLOW_DEVICE] = "none",
                                        [DSFLOW_HOST] = "cpu",
                                        [DSFLOW_NVME] = "nvme",
                                        NULL };
#define HOME(key, role, ...)                                                   \
    DSFLOW_OPTION_FULL(key, DSFLOW_CHOICE, offsetof(OFFLOAD, home[role]),      \
                       "\"none\"", 0, 0, memories, __VA_ARGS__)
static const struct dsflow_option offload_options[] = {
    HOME("optimizer", DSFLOW_STATES,
         "where the states of the optimizer are kept, which "
         "then runs on the CPU, but for Muon's matrices on GPUs; nvme needs "
         "memory.nvme.path"),
    HOME("params", DSFLOW_PARAMS, "where the parameters are kept"),
    HOME("gradients", DSFLOW_GRADS, "where the gradients are kept"),
    HOME("activations", DSFLOW_ACTIVATIONS,
         "where activations are kept until the backward pass"),
    DSFLOW_OPTION_NUMBER(DSFLOW_SHARE, OFFLOAD, share, "0.0", 0, 1,
                         "share of the states that stays on the device all "
                         "the same; auto: as much as fits",
                         "offload.optimizer != none"),
    DSFLOW_OPTION_INT(OFFLOAD, read_ahead, "1", 0, 64,
                      "what is read before it is needed: units of parameters "
                      "and of gradients, layers of activations, pieces of "
                      "states",
                      OFFLOADED),
    DSFLOW_OPTION_INT(OFFLOAD, write_behind, "1", 0, 64,
                      "what may wait to be written, in the same measure",
                      OFFLOADED),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, OFFLOAD, piece, "\"16MiB\"",
                     "of a state that is read and updated at a time; of "
                     "states on the device, which precision.states cuts, "
                     "4MiB at most",
                     "offload.optimizer != none or precision.states != fp32 "
                     "or precision.master = false"),
    { 0 },
};

/* Which memories, at least, and with rings as short as may be. */
static const struct {
    bool short_rings;
    enum dsflow_tier states, others, activations;
} fallbacks[] = {
    { false, DSFLOW_DEVICE, DSFLOW_DEVICE, DSFLOW_DEVICE },
    { true, DSFLOW_DEVICE, DSFLOW_DEVICE, DSFLOW_DEVICE },
    { false, DSFLOW_HOST, DSFLOW_DEVICE, DSFLOW_DEVICE },
    { false, DSFLOW_NVME, DSFLOW_DEVICE, DSFLOW_DEVICE },
    { true, DSFLOW_NVME, DSFLOW_DEVICE, DSFLOW_DEVICE },
    { false, DSFLOW_HOST, DSFLOW_HOST, DSFLOW_DEVICE },
    { false, DSFLOW_NVME, DSFLOW_HOST, DSFLOW_DEVICE },
    { true, DSFLOW_NVME, DSFLOW_NVME, DSFLOW_DEVICE },
    { true, DSFLOW_NVME, DSFLOW_NVME, DSFLOW_NVME },
};

static void at_least(int *home, enum dsflow_tier tier)
{
    *home = *home > (int)tier ? *home : (int)tier;
}

bool dsf_offload_fallback(unsigned i, struct dsf_offload_keys *keys)
{
    enum { SHORT = 1 << 20 };

    if (i >= sizeof(fallbacks) / sizeof(*fallbacks))
        return false;
    if (fallbacks[i].short_rings) {
        keys->read_ahead = keys->write_behind = 0;
        keys->piece = keys->piece < SHORT ? keys->piece : SHORT;
    }
    at_least(&keys->home[DSFLOW_STATES], fallbacks[i].states);
    at_least(&keys->home[DSFLOW_PARAMS], fallbacks[i].others);
    at_least(&keys->home[DSFLOW_GRADS], fallbacks[i].others);
    at_least(&keys->home[DSFLOW_ACTIVATIONS], fallbacks[i].activations);
    return true;
}

static const struct dsflow_try offload_tries[] = {
    { "read_ahead", DSFLOW_VALUES_MORE, DSFLOW_CAUSE_SLOTS, 0 },
    { "write_behind", DSFLOW_VALUES_MORE, DSFLOW_CAUSE_SLOTS, 0 },
    { "piece", DSFLOW_VALUES_SCALED, DSFLOW_CAUSE_DISK, 0 },
    { 0 },
};

const struct dsflow_policy dsf_policy_offload = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "offload",
    .summary = "states, parameters, gradients, activations in larger memories",
    .after = "send",
    .options = offload_options,
    .part_size = sizeof(struct dsf_offload_keys),
    .tries = offload_tries,
    .decide = offload_decide,
    .rewrite = offload_rewrite,
};
