/* precision_private.h - what the parts of the policy precision share. */
#ifndef DSF_POLICIES_PRECISION_PRIVATE_H
#define DSF_POLICIES_PRECISION_PRIVATE_H

#include <stdbool.h>
#include <dsflow/rewrite.h>

#include "graph/task.h"
#include "policies/keys.h"

/* A kind of task of a segment, in the graph. */
struct dsf_precise {
    const struct dsflow_op *op;
    bool narrow; /* it computes in the type of the job */
};

/* One use of a piece of data. */
struct dsf_data_use {
    uint32_t task, at; /* data[at] of it */
    uint32_t next;     /* of the same data: +1; 0: none */
};

/* What becomes of a piece of data of the old graph. */
enum dsf_becomes {
    DSF_AS_IT_IS,
    DSF_NARROW,   /* it has the type of the job */
    DSF_MASTER,   /* parameters: a copy of that type stands beside it */
    DSF_GRADIENT, /* it has the type of gradients */
};

struct dsf_twin_slot;
struct dsf_twin_ring;
struct dsf_precision {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    enum dsflow_dtype type, gradients;
    struct dsf_precise *kinds;
    size_t nkinds, cap_kinds;

    /* By data of the old graph: */
    uint32_t *root;      /* one for data that has to be of one type */
    bool *fixed;         /* by root: it is fp32 */
    uint8_t *becomes;    /* enum dsf_becomes */
    dsflow_data_id *copy; /* of masters; no data: it is not made yet */
    uint32_t *use;       /* the first from the present task on: +1 */
    uint32_t *version;   /* times it was written, and programs begun */
    uint32_t *held;      /* the slot where tasks add to it: +1 */

    struct dsf_data_use *uses;
    uint32_t task; /* that is being rewritten: the last one of a collective */

    /* precision_twins.c */
    struct dsf_twin_slot *slots;
    size_t nslots, cap_slots;
    uint32_t *rings; /* by rank: the first ring, +1 */
    struct dsf_twin_ring *ring;
    size_t nrings, cap_rings;
};

static inline const struct dsflow_data_spec *
dsf_precision_spec(const struct dsf_precision *p, dsflow_data_id id)
{
    return dsflow_graph_data(p->rw.in, id);
}

/* precision_types.c: which kinds of task compute in the type, and what becomes
 * of each piece of data. */
int dsf_precision_begin(struct dsf_precision *p, bool head,
                        struct dsflow_err *err);
void dsf_precision_end(struct dsf_precision *p);

/* Does a task of this kind compute in the type of the job? */
bool dsf_precision_is_narrow(struct dsf_precision *p,
                             const struct dsflow_op *op);

/* Does the task work on a unit number by number? It has the master then. */
bool dsf_precision_on_master(const struct dsf_precision *p,
                             const struct dsflow_task_spec *t);

/* Does the task carry bytes, whatever they mean? */
bool dsf_precision_moves(const struct dsflow_op *op);

/* The next use of the data in the program, behind the present task. */
const struct dsf_data_use *dsf_precision_next(struct dsf_precision *p,
                                              dsflow_data_id id);

static inline const struct dsflow_task_spec *
dsf_precision_user(const struct dsf_precision *p,
                   const struct dsf_data_use *use)
{
    return dsf_nth_task(p->rw.in, use->task);
}

/* May a buffer of another type stand in its place? */
static inline bool dsf_precision_may_twin(const struct dsflow_data_spec *d)
{
    return d->dtype == DSFLOW_FP32 &&
           (d->role == DSFLOW_ACTIVATIONS || d->role == DSFLOW_BUFFERS);
}

/* A cast of all of it, to the nearest; `in` and `out` are of the new graph. */
void dsf_precision_cast(struct dsf_precision *p,
                        const struct dsflow_task_spec *like, int32_t rank,
                        const struct dsflow_data_spec *of, dsflow_data_id in,
                        dsflow_data_id out);

/* The data in the new graph. */
dsflow_data_id dsf_precision_data(struct dsf_precision *p, dsflow_data_id id);

/* precision_twins.c: what the task has on data[i]: the data, or where it wants
 * another type, a buffer of that. */
dsflow_data_id dsf_precision_twin(struct dsf_precision *p,
                                  const struct dsflow_task_spec *t, unsigned i);
/* What follows the task where it has written that. */
void dsf_precision_written(struct dsf_precision *p,
                           const struct dsflow_task_spec *t, unsigned i);
/* Nothing stands in buffers when a program begins. */
void dsf_precision_forget(struct dsf_precision *p);

#endif
