/* offload_private.h - what the parts of the offload policy share. */
#ifndef DSF_POLICIES_OFFLOAD_PRIVATE_H
#define DSF_POLICIES_OFFLOAD_PRIVATE_H

#include <dsflow/rewrite.h>

#include "policies/keys.h"

/* A buffer that holds one piece of data at a time. */
struct slot {
    dsflow_data_id id;  /* of the new graph */
    uint32_t occupant;  /* data of the old graph, +1; 0: none */
    bool dirty;         /* its home has not what it has */
    uint32_t used;      /* the last task that used it, +1 */
    uint32_t older, newer; /* slots that were used before, after: +1 */
    int16_t layer;      /* of that task */
    uint8_t pass;
};

/* The buffers that data of one sort take turns in, on one rank. */
struct ring {
    int16_t rank;
    uint8_t role, tier; /* of the buffers */
    int32_t of;         /* which state (kept), or the ring_class */
    int64_t elems;      /* of each; 0: of any size */
    int64_t most;       /* elements of the largest */
    uint8_t dtype;
    uint32_t members;   /* data that would use it */
    bool written;       /* and not only read */
    uint32_t together;  /* most that tasks of one layer and micro-batch use */
    uint32_t epoch, now; /* while that is counted */
    uint32_t length, nmade;
    struct slot *slots; /* [length]; NULL: all members stay where they are */
    uint32_t oldest, newest; /* of those that were made: +1 */
};

/* One use of a piece of data. */
struct use {
    uint32_t task;
    uint32_t next;  /* of the same data: +1; 0: none */
    uint8_t access; /* enum dsflow_access */
};

/* Pieces of an update that write parts of data, while they are rewritten. */
enum dsf_parts { DSF_NO_PARTS, DSF_PARTS_BESIDE, DSF_PARTS_IN_ORDER };

/* A piece of data of the old graph. */
struct item {
    uint8_t home;    /* enum dsflow_tier; DEVICE: it is not offloaded */
    uint8_t parts;   /* enum dsf_parts */
    bool near;       /* states that are updated on the device all the same */
    int32_t ring;    /* -1: none */
    int32_t slot;    /* where it is now; -1: at home only */
    uint32_t use;    /* the first that is still to come: +1; 0: none */
    uint32_t epoch;  /* while `together` is counted */
};

struct offload {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    const struct dsf_offload_keys *keys;
    struct item *items; /* by data of rw.in */
    struct use *uses;
    uint32_t task; /* that is being rewritten */
    struct ring *rings;
    size_t nrings, cap_rings;
};

/* offload_cut.c: the graph, with tasks of states that are offloaded or kept in
 * fewer bytes in pieces. */
int dsf_offload_cut(const struct dsflow_plan *plan, struct dsflow_graph *in,
                    struct dsflow_graph *out, struct dsflow_err *err);

/* offload.c: does the task update offloaded states? Then it runs where they
 * are, if it is no GPU that must. */
bool dsf_offload_on_cpu(const struct offload *o,
                        const struct dsflow_task_spec *t);

/* offload_parts.c: a bit for each port of the task, which is one of `n`, from
 * the first on, that have each piece one after the other, with data that stays
 * whole, each piece writes a part of, and none of the other tasks uses. */
uint32_t dsf_offload_parts_of(const struct dsflow_graph *in,
                              const uint8_t *uncut,
                              const struct dsflow_task_spec *t, uint32_t first,
                              uint32_t n);
/* Who uses such data comes before all pieces or behind all: in front of them,
 * and behind, a task waits. */
void dsf_offload_wait_around(struct dsflow_rewrite *rw,
                             const struct dsflow_task_spec *t, uint32_t parts,
                             bool front);
/* Does the task wait in front of pieces that write parts of
 * offloaded data, or behind them? Is it, which comes next, to be left out?
 * Which of the bits `apart` stay? */
bool dsf_offload_is_around(const struct offload *o,
                           const struct dsflow_task_spec *t);
bool dsf_offload_drops(struct offload *o, const struct dsflow_task_spec *t);
uint32_t dsf_offload_apart(const struct offload *o,
                           const struct dsflow_task_spec *t);

/* offload_near.c: which states are of updates that a GPU does, wherever they
 * are kept. */
void dsf_offload_find_near(struct offload *o);

/* offload_rings.c: which data is offloaded, and the lengths of the rings. */
void dsf_offload_begin(struct offload *o);
void dsf_offload_end(struct offload *o);

#endif
