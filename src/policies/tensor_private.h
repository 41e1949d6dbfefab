/* tensor_private.h - what the parts of the policy tensor_parallel share: the
 * data in parts that the rules of the segments (segments/rules.h) connect. */
#ifndef DSF_POLICIES_TENSOR_PRIVATE_H
#define DSF_POLICIES_TENSOR_PRIVATE_H

#include <stdbool.h>

#include "graph/task.h"
#include "model/parts.h"
#include "policies/collective.h"
#include "policies/keys.h"
#include "policies/policies.h"
#include "segments/segment.h"
#include "tasks/bind.h"

/* Forward tasks, those of gradients of activations and those of gradients of
 * weights have buffers of their own: the last may lag far behind. */
enum { DSF_PASS_FORWARD, DSF_PASS_INPUT, DSF_PASS_WEIGHT, DSF_NPASSES };

/* A buffer that passes by, in one slot of a ring. */
struct dsf_temp {
    dsflow_data_id *id; /* [T] */
    uint32_t stamp;     /* times it was written */
};

/* One piece of data of the old graph. */
struct dsf_cut_data {
    enum dsflow_cut cut;
    dsflow_data_id *id;  /* [T], or [1]; of a unit [T + 1], the shared part */
    uint32_t unit;       /* that it is cut like, +1; 0: none, or its own */
    dsflow_data_id *add; /* [T]: what each rank adds to a shared gradient */
    bool adds;           /* there is some that is not summed yet, by … */
    struct dsflow_task_spec adder;

    /* All rows of a data rank's, where they are still in a buffer. */
    struct dsf_temp *seen;
    int32_t seen_by;
    uint32_t version, seen_version, seen_stamp;
};

/* What the segments say of a kind of task: there are many tasks of each. */
struct dsf_known_op {
    const struct dsflow_op *op;
    const struct dsflow_op_rules *rules;        /* NULL: none */
    enum dsflow_cut cuts[DSFLOW_SEGMENT_PORTS]; /* by port, if it has rules */
};

enum { DSF_KNOWN_OPS = 64 };

struct dsf_tensors {
    const struct dsflow_plan *plan;
    struct dsflow_graph *in, *out;
    int32_t parts;
    uint32_t collectives; /* so many so far */
    const struct dsf_dims *dims; /* of the layer that is being cut */
    struct dsf_cut_data *data;
    struct dsf_part **part; /* [units]: [T + 1], when they are asked for */
    int32_t length;         /* of the rings */
    struct dsf_temp *temps; /* [chunks of a stage][DSF_NPASSES][DSFLOW_NTEMPS]
                               [length] */
    size_t ntemps;
    struct dsf_known_op known[DSF_KNOWN_OPS]; /* by address */
    int64_t *before, ncoded; /* coded numbers before each part of each unit,
                                [units][T + 1], and of all (1-bit LAMB) */
    uint32_t *turn; /* [chunks][data ranks][DSF_NPASSES][DSFLOW_NTEMPS] */
};

/* Where the task that is being replaced stands. */
struct dsf_place {
    const struct dsflow_task_spec *task;
    const dsflow_data_id *on; /* its data, by port; no data where it has none */
    uint32_t fresh; /* the ports of its tasks that are, of the part at hand */
    int pass;                 /* DSF_PASS_… */
    struct dsf_temp *temp[DSFLOW_NTEMPS]; /* buffers it has taken */
};

/* Of data of the old graph. */
static inline const struct dsflow_data_spec *
dsf_tensor_spec(const struct dsf_tensors *s, dsflow_data_id id)
{
    return dsflow_graph_data(s->in, id);
}

/* Part `p` of the unit that `id` is of; p = T is the shared one. */
const struct dsf_part *dsf_tensor_part(struct dsf_tensors *s, dsflow_data_id id,
                                       int32_t p);

/* Cut `id` so, unless it is already. `unit` is what squares are of. */
int dsf_tensor_cut(struct dsf_tensors *s, dsflow_data_id id,
                   enum dsflow_cut how, dsflow_data_id unit,
                   struct dsflow_err *err);

/* The next buffer of this kind in its ring, for the rest of this task. */
struct dsf_temp *dsf_tensor_take(struct dsf_tensors *s, struct dsf_place *at,
                                 int kind);

/* What rank `t` adds to the shared part of a gradient. */
dsflow_data_id dsf_tensor_adds(struct dsf_tensors *s, dsflow_data_id id,
                               int32_t t);

/* Tensor rank `t` of the first stage and replica. */
static inline int32_t dsf_tensor_rank(const struct dsf_tensors *s, int32_t t)
{
    return dsf_mesh_peer(&s->plan->mesh, 0, DSF_AXIS_TENSOR, t);
}

/* A collective over the tensor ranks: rank t gets into[t], and has from[t]. */
void dsf_tensor_share(struct dsf_tensors *s,
                      const struct dsflow_task_spec *like,
                      const struct dsflow_op *op, struct dsf_pieces pieces,
                      const dsflow_data_id *into, const dsflow_data_id *from);

/* tensor_rules.c: what is known of a kind of task; and a task that has rules is
 * replaced by those of all ranks, by them. */
const struct dsf_known_op *dsf_tensor_know(struct dsf_tensors *s,
                                           const struct dsflow_op *op);
int dsf_tensor_replace(struct dsf_tensors *s,
                       const struct dsflow_task_spec *task,
                       const struct dsf_known_op *known,
                       struct dsflow_err *err);

/* tensor_units.c: tasks of one unit that follow each other, from the `first`
 * on, are done part by part: *n of them; 0: the first is no such task. */
int dsf_tensor_update(struct dsf_tensors *s, uint32_t first, uint32_t *n,
                      struct dsflow_err *err);

/* The coded numbers of all parts, one behind the other (tensor_signs.c). */
void dsf_tensor_unite(struct dsf_tensors *s);

/* What is told how a unit is coded and takes squares of its blocks is done for
 * each part: the scales of its chunks, or what it adds to those of all. */
int dsf_tensor_scale(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                     struct dsflow_err *err);

/* What is sent of a part, in arguments that say what is of its unit. Where
 * nothing is coded, *without gets the ports that the task does not have then;
 * false: there is nothing to do. */
bool dsf_tensor_code(const struct dsf_tensors *s, const struct dsf_part *part,
                     const struct dsflow_op *op, void *args,
                     uint32_t *without);

/* The data in which `chunk_squares` leaves squares of blocks of the coding: of
 * parts that have some. */
void dsf_tensor_cut_squares(struct dsf_tensors *s,
                            const struct dsflow_task_spec *task,
                            dsflow_data_id unit);

/* A sum of what segments leave: each rank sums what it has of it. */
int dsf_tensor_sum(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                   struct dsflow_err *err);

/* Everything else is done once. A sum takes all parts of what it sums; of what
 * every rank has, the first one's. */
int dsf_tensor_keep(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                    struct dsflow_err *err);

#endif
