/* optimizer.h - the rule by which gradients change parameters.
 *
 * An optimizer is a kind of task and what goes around it: how many tensors of
 * state it keeps, and how its arguments follow from the job. The task updates
 * one *unit*: the parameters of a segment of a layer in one flat buffer, whole,
 * or what one rank has of it.
 */
#ifndef DSFLOW_OPTIMIZER_H
#define DSFLOW_OPTIMIZER_H

#include <dsflow/op.h>
#include <dsflow/option.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_OPTIMIZER_ABI 4

#define DSFLOW_MAX_TENSORS 12

/* Whether a step updates nothing, as its loss or gradient is not finite. */
enum dsflow_skip {
    DSFLOW_SKIP_NONE,
    DSFLOW_SKIP_STEP,
    DSFLOW_SKIP_REST, /* this step, and all that follow: the run ends */
};

/* The state of a step: the contents of the port `control`. The task `begin`
 * says what the update will be, `clip` whether there is one, and `finish` counts
 * it: a step that is skipped leaves all but `skipped`, and maybe the loss scale,
 * as it was. */
struct dsflow_control {
    int64_t step; /* of this update, from 1; skipped steps do not count */
    double lr;
    double correction1; /* 1 - betas[0]^step */
    double correction2; /* 1 - betas[1]^step */
    double norm;        /* of the whole gradient, before clipping */
    double scale;       /* the update multiplies gradients by this: clipping */
    double loss_scale;  /* the loss is multiplied by this; 1 but in fp16 */
    int64_t updates;    /* made before this step */
    int64_t skipped;    /* steps before this one that made none */
    int64_t skip;       /* enum dsflow_skip. On a CPU no update is run where it
                           is not 0; a kernel of a GPU must look itself */
};

enum dsflow_tensor_kind {
    DSFLOW_MATRIX,    /* of a layer: y = x W^T */
    DSFLOW_VECTOR,    /* a norm or a bias */
    DSFLOW_EMBEDDING, /* of tokens (the head's too, when it is tied) or of
                         positions: a row for each */
    DSFLOW_HEAD       /* the head's matrix, when it is not tied */
};

/* A tensor of a unit: rows * cols numbers, row-major, from `at` on. Numbers
 * between tensors are padding: zeroes, that must stay zeroes. */
struct dsflow_tensor {
    int64_t at, rows, cols;
    int32_t kind;   /* enum dsflow_tensor_kind */
    int16_t decays; /* 1: weight decay is for it */
    int16_t number; /* its place among the tensors of the whole unit */
};

/* The beginning of an optimizer's arguments, which dsflow fills: which numbers
 * the task updates. `elems` numbers, those of grad from grad_at on, of param
 * from param_at on, and of the states from 0 on.
 *
 * Where ranks share out a unit, the numbers may begin and end within a tensor:
 * `at` counts from the first number of the task and may be negative, and a
 * tensor may end after the last. With tensor parallelism a rank has pieces of
 * tensors: rows and cols are those of a piece, and several may have one number.
 * Of what an optimizer needs whole, it never sees either. */
struct dsflow_update_args {
    int64_t elems;
    int64_t decay; /* weight decay is for the first so many: matrices */
    int64_t grad_at, param_at;
    int64_t block; /* units are shared out in whole blocks of so many numbers */
    int32_t ntensors;
    struct dsflow_tensor tensors[DSFLOW_MAX_TENSORS];
};

/* The keys of [optimizer], which are there for all. */
struct dsflow_optimizer_keys {
    double lr, betas[2], eps, weight_decay, momentum;
    int nesterov;
    int bias_correction;
};

/* Which tensors an optimizer needs whole. Units that have them are never cut:
 * ranks share out units instead. */
enum dsflow_whole {
    DSFLOW_WHOLE_NONE,
    DSFLOW_WHOLE_TENSORS,  /* all: no unit is cut */
    DSFLOW_WHOLE_MATRICES, /* DSFLOW_MATRIX: units of embeddings and the head,
                              and those of vectors alone, may be cut */
};

struct dsflow_optimizer {
    unsigned abi;        /* DSFLOW_OPTIMIZER_ABI */
    const char *name;    /* "adamw": the value of optimizer.kind */
    const char *summary; /* one line, for `dsflow list optimizers` */

    /* Its ports: { control R, grad R, param RW, states RW … }. */
    const struct dsflow_op *op;

    /* Of its states, each as large as the unit: "m" is "m.layer3.qkv" in the
     * graph and in checkpoints. Ends with NULL; NULL: it keeps none. They begin
     * as zeroes. */
    const char *const *states;

    unsigned uses_momentum; /* 1: it reads momentum and nesterov of the job; a
                               job that sets them otherwise is warned */
    unsigned whole;         /* enum dsflow_whole */

    /* Keys of its own: the table of job.toml that has its name. NULL: none.
     * They fill `part`, of part_size bytes. */
    const struct dsflow_option *options;
    size_t part_size;

    /* How many of `states` this job needs; the op's ports must be optional
     * accordingly. NULL: all. */
    unsigned (*nstates)(const void *part,
                        const struct dsflow_optimizer_keys *keys);

    /* Fill what follows struct dsflow_update_args in the arguments of the op,
     * which are op->args_size bytes: the beginning is filled, of the whole
     * unit, and the rest is zeroes. The unit may be shared out afterwards.
     * NULL: nothing follows. */
    int (*fill)(const void *part, const struct dsflow_optimizer_keys *keys,
                void *args, struct dsflow_err *err);
};

/* Make it known by its name. It is borrowed for good: make it static. */
DSFLOW_API int dsflow_optimizer_register(const struct dsflow_optimizer *o,
                                         struct dsflow_err *err);
DSFLOW_API const struct dsflow_optimizer *
dsflow_optimizer_find(const char *name);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_optimizer *dsflow_optimizer_at(unsigned i);

/* What the `check` of an optimizer's op must at least find right: that the
 * numbers of the task are within its ports. A `check` of its own calls it
 * first; `args` begins with struct dsflow_update_args. */
DSFLOW_API int dsflow_update_check(const struct dsflow_case *c,
                                   struct dsflow_err *err);

/* The `slice` of an optimizer's op: its ports grad, param and states say
 * DSFLOW_ELEMS. */
DSFLOW_API void dsflow_update_slice(void *args, int64_t from, int64_t elems,
                                    const int64_t *gone);

/* A cost for ops that do `flops` operations a number: each tensor is read and
 * written once, the gradient only read. */
DSFLOW_API void dsflow_update_cost(const struct dsflow_case *c, double flops,
                                   struct dsflow_cost *cost);

DSFLOW_END_DECLS

#endif
