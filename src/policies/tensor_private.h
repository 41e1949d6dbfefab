/* tensor_private.h - what the parts of the policy tensor_parallel share: how a
 * rule says what becomes of a kind of task (the table is in tensor_rules.c),
 * and the data in parts that rules connect. */
#ifndef DSF_POLICIES_TENSOR_PRIVATE_H
#define DSF_POLICIES_TENSOR_PRIVATE_H

#include <stdbool.h>

#include "model/parts.h"
#include "policies/collective.h"
#include "policies/keys.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* How a piece of data is cut among T tensor ranks. */
enum dsf_cut {
    DSF_CUT_UNKNOWN,
    DSF_CUT_ONE,     /* it is not: they all use the same */
    DSF_CUT_EVERY,   /* each has one of the same size */
    DSF_CUT_ROWS,    /* each has some rows of `width` numbers */
    DSF_CUT_COLUMNS, /* each has 1/T of every row: heads, feed-forward */
    DSF_CUT_KV,      /* … or the columns of the one head that it shares */
    DSF_CUT_VOCAB,   /* each has the columns of its words */
    DSF_CUT_UNIT,    /* parts.h, with a shared part */
    DSF_CUT_BLOCKS,  /* squares of a unit: as many as the part has blocks */
};

/* What a port of a new task is connected to: port 0 to 7 of the task it comes
 * from (the part of the tensor rank), or one of these. */
enum {
    DSF_SHARED = 8, /* + port: the shared part of the unit there; of a gradient,
                       what this rank adds to it */
    DSF_XN = 16,    /* own rows, normed */
    DSF_X,          /* all rows, normed */
    DSF_Y,          /* a partial product, all rows */
    DSF_D,          /* all rows of a gradient */
    DSF_R,          /* own rows of a sum of products */
    DSF_STATS,      /* what the head says of its part … */
    DSF_ALL,        /* … and what all parts say */
    DSF_TOPS,
    DSF_END_REFS,
    DSF_NTEMPS = DSF_END_REFS - DSF_XN,
    DSF_NO_UNIT = 255
};

union dsf_part_args {
    struct dsflow_tile tile;
    struct dsf_norm_args norm;
    struct dsf_residual_args residual;
    struct dsf_embed_part_args embed;
    struct dsf_qkv_part_args qkv;
    struct dsflow_out_args out;
    struct dsf_mlp_part_args mlp;
    struct dsf_head_part_args head;
    struct dsflow_attention_args attention;
    struct dsf_load_args load;
};

/* Fill the arguments of the task of tensor rank `t` from those of the whole
 * task. `part` is what the rule's `unit` names, and `shared` the shared part of
 * the same unit. Returns 0, 1 to leave out the last port, or -1 for no task. */
typedef int (*dsf_part_fill_fn)(const struct dsflow_plan *plan, int32_t t,
                                const struct dsf_part *part,
                                const struct dsf_part *shared,
                                const void *whole, union dsf_part_args *args);

enum dsf_rule_kind {
    DSF_RULE_END,
    DSF_RULE_EACH,    /* a task on each tensor rank */
    DSF_RULE_GATHER,  /* ports[0], on every rank, from ports[1] of all */
    DSF_RULE_SCATTER, /* ports[0]: own rows of the sum of ports[1] of all */
};

/* Ports of a task that a rule knows. */
#define DSF_RULE_PORTS 8

struct dsf_rule {
    enum dsf_rule_kind kind;
    const struct dsflow_op *op;
    dsf_part_fill_fn fill;
    uint8_t unit; /* a port or DSF_SHARED + port: what `fill` is told of */
    uint8_t nports, ports[DSF_RULE_PORTS];
};

#define DSF_MAX_RULES 6

struct dsf_op_rules {
    const struct dsflow_op *op;
    uint8_t cuts[DSF_RULE_PORTS]; /* enum dsf_cut, of its ports */
    struct dsf_rule rules[DSF_MAX_RULES + 1];
};

/* NULL: such a task has no rule. */
const struct dsf_op_rules *dsf_rules_find(const struct dsflow_op *op);

/* Forward tasks, those of gradients of activations and those of gradients of
 * weights have buffers of their own: the last may lag far behind. */
enum { DSF_LANE_FORWARD, DSF_LANE_INPUT, DSF_LANE_WEIGHT, DSF_NLANES };

/* A buffer that passes by, in one slot of a ring. */
struct dsf_temp {
    dsflow_data_id *id; /* [T] */
    uint32_t stamp;     /* times it was written */
};

/* One piece of data of the old graph. */
struct dsf_cut_data {
    enum dsf_cut cut;
    dsflow_data_id *id;  /* [T], or [1]; of a unit [T + 1], the shared part */
    dsflow_data_id *add; /* [T]: what each rank adds to a shared gradient */
    bool adds;           /* there is some that is not summed yet, by … */
    struct dsflow_task_spec adder;

    /* All rows of a data rank's, where they are still in a buffer. */
    struct dsf_temp *seen;
    int32_t seen_by;
    uint32_t version, seen_version, seen_stamp;
};

struct dsf_tensors {
    const struct dsflow_plan *plan;
    struct dsflow_graph *in, *out;
    int32_t parts;
    uint32_t collectives; /* so many so far */
    struct dsf_cut_data *data;
    struct dsf_part **part; /* [units]: [T + 1], when they are asked for */
    int32_t length;         /* of the rings */
    struct dsf_temp *temps; /* [chunks of a stage][DSF_NLANES][DSF_NTEMPS]
                               [length] */
    size_t ntemps;
    uint32_t *turn;         /* [chunks][data ranks][DSF_NLANES][DSF_NTEMPS] */
};

/* Where the task that is being replaced stands. */
struct dsf_place {
    const struct dsflow_task_spec *task;
    int lane;
    int32_t rows;
    struct dsf_temp *temp[DSF_NTEMPS]; /* buffers it has taken */
};

/* No such data: an empty part of a unit, a port that is left out. */
static inline dsflow_data_id dsf_no_data(void)
{
    return (dsflow_data_id){ UINT32_MAX };
}

static inline bool dsf_is_data(dsflow_data_id id)
{
    return id.i != UINT32_MAX;
}

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
int dsf_tensor_cut(struct dsf_tensors *s, dsflow_data_id id, enum dsf_cut how,
                   dsflow_data_id unit, struct dsflow_err *err);

/* The next buffer of this kind in its ring, for the rest of this task. */
struct dsf_temp *dsf_tensor_take(struct dsf_tensors *s, struct dsf_place *at,
                                 int kind);

/* What rank `t` adds to the shared part of a gradient. */
dsflow_data_id dsf_tensor_adds(struct dsf_tensors *s, dsflow_data_id id,
                               int32_t t);

/* A task like the one that is replaced, with other ports, on tensor rank `t`; of
 * `t` < 0 on none of them in particular. */
void dsf_tensor_emit(struct dsf_tensors *s, const struct dsflow_task_spec *like,
                     const struct dsflow_op *op, const void *args, int32_t t,
                     unsigned fresh, unsigned n, const dsflow_data_id *data);

/* A collective over the tensor ranks: rank t gets into[t], and has from[t]. */
void dsf_tensor_share(struct dsf_tensors *s,
                      const struct dsflow_task_spec *like,
                      const struct dsflow_op *op, struct dsf_pieces pieces,
                      const dsflow_data_id *into, const dsflow_data_id *from);

/* into = the sum of what each rank has in `from`, on rank `t` only. */
void dsf_tensor_sum(struct dsf_tensors *s, const struct dsflow_task_spec *like,
                    int32_t t, int64_t elems, dsflow_data_id into,
                    const dsflow_data_id *from);

/* tensor_units.c: is `task` of a unit, and not of a micro-batch? Is the `i`-th
 * task so too, and of the same unit as the first? `n` of them that follow each
 * other are done part by part. */
bool dsf_tensor_is_update(const struct dsf_tensors *s,
                          const struct dsflow_task_spec *task);
bool dsf_tensor_follows(const struct dsf_tensors *s, uint32_t first,
                        uint32_t i);
int dsf_tensor_update(struct dsf_tensors *s, uint32_t first, uint32_t n,
                      struct dsflow_err *err);

/* Everything else is done once. A sum takes all parts of what it sums; of what
 * every rank has, the first one's. */
int dsf_tensor_keep(struct dsf_tensors *s, const struct dsflow_task_spec *task,
                    struct dsflow_err *err);

#endif
