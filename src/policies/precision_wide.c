/* precision_wide.c - fp32 buffers of rings, for tasks that want fp32 of narrow
 * data: because they know nothing else, or because several of them add to it,
 * one after the other.
 *
 * What was written there is cast to the narrow data at once, and read from that
 * again: so what a reader gets does not depend on whether a buffer still has
 * it, nor on which rank the reader is.
 */
#include "policies/precision_private.h"

#include "base/alloc.h"

/* A buffer that holds the fp32 numbers of one piece of data at a time. */
struct dsf_slot {
    dsflow_data_id id;
    uint32_t occupant; /* data of the old graph, +1; 0: none */
    uint32_t version;  /* of it */
    uint32_t used;     /* the last task that used it, +1 */
    uint32_t next;     /* of the ring: +1; 0: none */
    bool held;         /* the narrow data has not yet what it has */
};

/* Forward tasks, those of gradients of activations and those of gradients of
 * weights have rings of their own, as one lags behind the other; so have the
 * chunks of a stage. */
struct dsf_wide_ring {
    int64_t elems;
    int32_t chunk, pass;
    uint32_t nslots, first; /* of its slots, +1 */
    uint32_t next;          /* of the rank: +1; 0: none */
};

static int32_t pass_of(const struct dsflow_task_spec *t)
{
    if (t->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT)
        return 2;
    return t->pass == DSFLOW_FORWARD ? 0 : t->pass == DSFLOW_BACKWARD ? 1 : 3;
}

static struct dsf_wide_ring *ring_of(struct dsf_precision *p,
                                     const struct dsflow_task_spec *t,
                                     int64_t elems)
{
    int32_t chunk =
        dsflow_plan_chunk_of(p->plan, t->layer) / p->plan->nstages;
    int32_t pass = pass_of(t);
    uint32_t at = p->rings[t->rank];

    for (; at != 0; at = p->ring[at - 1].next) {
        struct dsf_wide_ring *r = &p->ring[at - 1];

        if (r->elems == elems && r->chunk == chunk && r->pass == pass)
            return r;
    }
    dsf_grow(&p->ring, &p->cap_rings, p->nrings + 1, sizeof(*p->ring));
    p->ring[p->nrings] = (struct dsf_wide_ring){
        .elems = elems, .chunk = chunk, .pass = pass, .next = p->rings[t->rank]
    };
    p->rings[t->rank] = (uint32_t)++p->nrings;
    return &p->ring[p->nrings - 1];
}

static struct dsf_slot *add_slot(struct dsf_precision *p,
                                 struct dsf_wide_ring *r, int32_t rank)
{
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = r->elems, .dtype = DSFLOW_FP32,
                    .role = DSFLOW_BUFFERS, .home = (int16_t)rank, .unit = -1,
                    .ring = "machine.workers");

    dsf_grow(&p->slots, &p->cap_slots, p->nslots + 1, sizeof(*p->slots));
    p->slots[p->nslots] = (struct dsf_slot){
        .id = dsflow_rewrite_named(p->rw.out, &spec, "wide.z%lld.c%d.%c%u.r%d",
                                   (long long)r->elems, (int)r->chunk,
                                   "fbwu"[r->pass], r->nslots, (int)rank),
        .next = r->first,
    };
    r->first = (uint32_t)++p->nslots;
    r->nslots++;
    return &p->slots[p->nslots - 1];
}

/* The slot that has the numbers of `data` as they are now; else the one that was
 * used first, and is free. As many as are used at a time are made, and as there
 * are workers. */
static struct dsf_slot *find_slot(struct dsf_precision *p,
                                  const struct dsflow_task_spec *t,
                                  uint32_t data)
{
    struct dsf_wide_ring *r =
        ring_of(p, t, dsf_nth_data(p->rw.in, data)->elems);
    struct dsf_slot *best = NULL;

    for (uint32_t at = r->first; at != 0; at = p->slots[at - 1].next) {
        struct dsf_slot *s = &p->slots[at - 1];

        if (s->occupant == data + 1 && s->version == p->version[data])
            return s;
        if (!s->held && s->used != p->task + 1 &&
            (best == NULL || s->used < best->used))
            best = s;
    }
    if (best == NULL || r->nslots <= p->plan->rank_workers)
        best = add_slot(p, r, t->rank);
    best->occupant = 0;
    return best;
}

bool dsf_precision_is_wide(struct dsf_precision *p,
                           const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsf_data_use *next;
    uint8_t floats = t->op->ports[dsflow_task_port(t, i)].floats;

    if (p->becomes[t->data[i].i] != DSF_NARROW || dsf_precision_moves(t->op))
        return false;
    if (!dsf_precision_is_narrow(p, t->op))
        return floats != DSFLOW_NARROW_ALONE;
    if (floats != DSFLOW_NARROW_SUM)
        return floats == DSFLOW_FP32_ONLY;
    if (dsflow_task_access(t, i) != DSFLOW_W)
        return dsflow_task_access(t, i) == DSFLOW_RW;
    next = dsf_precision_next(p, t->data[i]);
    return next != NULL && dsflow_task_access(dsf_precision_user(p, next),
                                              next->at) == DSFLOW_RW &&
           dsf_precision_is_wide(p, dsf_precision_user(p, next), next->at);
}

dsflow_data_id dsf_precision_wide(struct dsf_precision *p,
                                  const struct dsflow_task_spec *t, unsigned i)
{
    dsflow_data_id id = t->data[i];
    enum dsflow_access access = dsflow_task_access(t, i);
    struct dsf_slot *slot = p->held[id.i] != 0 ? &p->slots[p->held[id.i] - 1]
                                               : find_slot(p, t, id.i);

    if (slot->occupant == 0 && access & DSFLOW_R)
        dsf_precision_cast(p, t, t->rank, dsf_precision_spec(p, id),
                           dsf_precision_data(p, id), slot->id);
    slot->occupant = id.i + 1;
    slot->version = p->version[id.i];
    slot->used = p->task + 1;
    slot->held = access & DSFLOW_W;
    if (slot->held)
        p->held[id.i] = (uint32_t)(slot - p->slots) + 1;
    return slot->id;
}

void dsf_precision_written(struct dsf_precision *p,
                           const struct dsflow_task_spec *t, unsigned i)
{
    const struct dsf_data_use *next = dsf_precision_next(p, t->data[i]);
    uint32_t data = t->data[i].i;
    const struct dsflow_task_spec *user;
    struct dsf_slot *slot;
    enum dsflow_access access = DSFLOW_W; /* nobody reads it */

    p->version[data]++;
    if (p->held[data] == 0)
        return;
    slot = &p->slots[p->held[data] - 1];
    if (next != NULL) {
        user = dsf_precision_user(p, next);
        access = dsflow_task_access(user, next->at);
        if (access == DSFLOW_RW && dsf_precision_is_wide(p, user, next->at))
            return; /* it adds to what stands there */
    }
    if (access != DSFLOW_W)
        dsf_precision_cast(p, t, t->rank, dsf_precision_spec(p, t->data[i]),
                           slot->id, dsf_precision_data(p, t->data[i]));
    slot->held = false;
    slot->occupant = 0;
    p->held[data] = 0;
}

void dsf_precision_forget(struct dsf_precision *p)
{
    for (size_t i = 0; i < p->nslots; i++)
        p->slots[i].occupant = 0;
}
