/* precision_twins.c - buffers of rings, for tasks that want another type than
 * data has: fp32 of narrow data, because they know nothing else, or because
 * several of them add to it, one after the other; or narrow partial sums.
 *
 * What was written there is cast to the data at once, and read from that again:
 * so what a reader gets does not depend on whether a buffer still has it, nor on
 * which rank the reader is.
 */
#include "policies/precision_private.h"

#include "base/alloc.h"

/* A buffer that holds the numbers of one piece of data at a time. */
struct dsf_twin_slot {
    dsflow_data_id id;
    uint32_t occupant; /* data of the old graph, +1; 0: none */
    uint32_t version;  /* of it */
    uint32_t used;     /* the last task that used it, +1 */
    uint32_t next;     /* of the ring: +1; 0: none */
    bool held;         /* the data has not yet what it has */
};

/* Forward tasks, those of gradients of activations and those of gradients of
 * weights have rings of their own, as one lags behind the other; so have the
 * chunks of a stage. */
struct dsf_twin_ring {
    int64_t elems;
    enum dsflow_dtype dtype;
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

static struct dsf_twin_ring *ring_of(struct dsf_precision *p,
                                     const struct dsflow_task_spec *t,
                                     enum dsflow_dtype dtype, int64_t elems)
{
    const struct dsf_twin_ring key = {
        .elems = elems,
        .dtype = dtype,
        .chunk = dsflow_plan_chunk_of(p->plan, t->layer) / p->plan->nstages,
        .pass = pass_of(t),
        .next = p->rings[t->rank],
    };
    uint32_t at = key.next;

    for (; at != 0; at = p->ring[at - 1].next) {
        struct dsf_twin_ring *r = &p->ring[at - 1];

        if (r->elems == elems && r->dtype == dtype && r->chunk == key.chunk &&
            r->pass == key.pass)
            return r;
    }
    dsf_grow(&p->ring, &p->cap_rings, p->nrings + 1, sizeof(*p->ring));
    p->ring[p->nrings] = key;
    p->rings[t->rank] = (uint32_t)++p->nrings;
    return &p->ring[p->nrings - 1];
}

static struct dsf_twin_slot *add_slot(struct dsf_precision *p,
                                      struct dsf_twin_ring *r, int32_t rank)
{
    struct dsflow_data_spec spec =
        DSFLOW_DATA(.elems = r->elems, .dtype = (uint8_t)r->dtype,
                    .role = DSFLOW_BUFFERS, .home = (int16_t)rank, .unit = -1,
                    .ring = "machine.workers");

    dsf_grow(&p->slots, &p->cap_slots, p->nslots + 1, sizeof(*p->slots));
    p->slots[p->nslots] = (struct dsf_twin_slot){
        .id = dsflow_rewrite_named(p->rw.out, &spec, "%s.z%lld.c%d.%c%u.r%d",
                                   dsflow_dtype_str(r->dtype),
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
static struct dsf_twin_slot *find_slot(struct dsf_precision *p,
                                       const struct dsflow_task_spec *t,
                                       enum dsflow_dtype dtype, uint32_t data)
{
    struct dsf_twin_ring *r =
        ring_of(p, t, dtype, dsf_nth_data(p->rw.in, data)->elems);
    struct dsf_twin_slot *best = NULL;

    for (uint32_t at = r->first; at != 0; at = p->slots[at - 1].next) {
        struct dsf_twin_slot *s = &p->slots[at - 1];

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

static enum dsflow_dtype type_of(const struct dsf_precision *p,
                                 dsflow_data_id id)
{
    return p->becomes[id.i] == DSF_NARROW ? p->type : DSFLOW_FP32;
}

/* Does `use` add to what stands in a buffer of fp32? */
static bool adds(struct dsf_precision *p, const struct dsf_data_use *use);

/* The type that the task wants on data[i]. */
static enum dsflow_dtype wanted(struct dsf_precision *p,
                                const struct dsflow_task_spec *t, unsigned i)
{
    const enum dsflow_dtype is = type_of(p, t->data[i]);
    const enum dsflow_access access = dsflow_task_access(t, i);
    uint8_t floats = t->op->ports[dsflow_task_port(t, i)].floats;

    if (dsf_precision_moves(t->op) || floats == DSFLOW_NARROW_ALONE)
        return is;
    if (!dsf_precision_is_narrow(p, t->op) || floats == DSFLOW_FP32_ONLY)
        return DSFLOW_FP32;
    if (floats == DSFLOW_NARROW)
        return p->type;
    return access == DSFLOW_RW || (access == DSFLOW_W &&
                                   adds(p, dsf_precision_next(p, t->data[i])))
               ? DSFLOW_FP32
               : is;
}

static bool adds(struct dsf_precision *p, const struct dsf_data_use *use)
{
    const struct dsflow_task_spec *t =
        use != NULL ? dsf_precision_user(p, use) : NULL;

    return t != NULL && dsflow_task_access(t, use->at) == DSFLOW_RW &&
           wanted(p, t, use->at) == DSFLOW_FP32;
}

dsflow_data_id dsf_precision_twin(struct dsf_precision *p,
                                  const struct dsflow_task_spec *t, unsigned i)
{
    dsflow_data_id id = t->data[i];
    enum dsflow_access access = dsflow_task_access(t, i);
    enum dsflow_dtype type;
    struct dsf_twin_slot *slot;

    if (!dsf_precision_may_twin(dsf_precision_spec(p, id)))
        return dsf_precision_data(p, id);
    type = wanted(p, t, i);
    if (type == type_of(p, id))
        return dsf_precision_data(p, id);
    slot = p->held[id.i] != 0 ? &p->slots[p->held[id.i] - 1]
                              : find_slot(p, t, type, id.i);
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
    dsflow_data_id id = t->data[i];
    const struct dsflow_data_spec *spec = dsf_precision_spec(p, id);
    const struct dsf_data_use *next;
    struct dsf_twin_slot *slot;
    bool read;

    p->version[id.i]++;
    if (p->held[id.i] == 0)
        return;
    next = dsf_precision_next(p, id);
    if (type_of(p, id) != DSFLOW_FP32 && adds(p, next))
        return;
    slot = &p->slots[p->held[id.i] - 1];
    read = next != NULL ? dsflow_task_access(dsf_precision_user(p, next),
                                             next->at) & DSFLOW_R
                        : spec->persistent;
    if (read)
        dsf_precision_cast(p, t, t->rank, spec, slot->id,
                           dsf_precision_data(p, id));
    slot->held = false;
    slot->occupant = 0;
    p->held[id.i] = 0;
}

void dsf_precision_forget(struct dsf_precision *p)
{
    for (size_t i = 0; i < p->nslots; i++)
        p->slots[i].occupant = 0;
}
