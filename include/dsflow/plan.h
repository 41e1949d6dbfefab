/* plan.h - what a policy may know of the plan of a step, and change in it.
 *
 * Words: a *micro-step* is a micro-batch on its replica, counted there from 0;
 * a *chunk* is consecutive layers on one stage of the pipeline, and chunk c is
 * on stage c mod stages; layer -1 is the embedding, `layers` the head.
 */
#ifndef DSFLOW_PLAN_H
#define DSFLOW_PLAN_H

#include <dsflow/axis.h>
#include <dsflow/graph.h>

DSFLOW_BEGIN_DECLS

struct dsflow_plan;

DSFLOW_API int32_t dsflow_plan_layers(const struct dsflow_plan *plan);

/* Ranks in all, and along the axis "data", "pipeline", "tensor" or another one
 * (axis.h): 1 where there is no axis of this name. */
DSFLOW_API int32_t dsflow_plan_ranks(const struct dsflow_plan *plan);
DSFLOW_API int32_t dsflow_plan_axis(const struct dsflow_plan *plan,
                                    const char *axis);

/* The coordinate of a rank on an axis, from 0; and the rank that has coordinate
 * `coord` there and is like `rank` on all other axes. */
DSFLOW_API int32_t dsflow_plan_coord(const struct dsflow_plan *plan,
                                     int32_t rank, const char *axis);
DSFLOW_API int32_t dsflow_plan_peer(const struct dsflow_plan *plan,
                                    int32_t rank, const char *axis,
                                    int32_t coord);

/* The ranks, `rank` among them, that have the same of what `shares` names (enum
 * dsflow_share, or-ed): with DSFLOW_SHARE_LAYERS | DSFLOW_SHARE_TENSORS those
 * that have the same weights, with DSFLOW_SHARE_SEQUENCES those that work on
 * the same micro-batches. In increasing order into `ranks`, which has room for
 * all ranks or is NULL; returns how many there are. */
DSFLOW_API int32_t dsflow_plan_same(const struct dsflow_plan *plan,
                                    int32_t rank, unsigned shares,
                                    int32_t *ranks);

/* Micro-batches of a step; of each data rank; tiles of each. */
DSFLOW_API int32_t dsflow_plan_micro_batches(const struct dsflow_plan *plan);
DSFLOW_API int32_t dsflow_plan_micro_steps(const struct dsflow_plan *plan);
DSFLOW_API int32_t dsflow_plan_tiles(const struct dsflow_plan *plan);

/* Of micro-batch `m` (microbatch of a task): its replica and its micro-step. */
DSFLOW_API int32_t dsflow_plan_replica_of(const struct dsflow_plan *plan,
                                          int32_t m);
DSFLOW_API int32_t dsflow_plan_micro_step_of(const struct dsflow_plan *plan,
                                             int32_t m);

/* What follows is decided by `pipeline`: there for who comes after it. */

/* Chunks of all stages together; the chunk and the stage of a layer. */
DSFLOW_API int32_t dsflow_plan_chunks(const struct dsflow_plan *plan);
DSFLOW_API int32_t dsflow_plan_chunk_of(const struct dsflow_plan *plan,
                                        int32_t layer);
DSFLOW_API int32_t dsflow_plan_stage_of(const struct dsflow_plan *plan,
                                        int32_t layer);

/* The ring of activations of a chunk, in micro-steps: how many micro-batches
 * may be between their forward and their backward pass. 1 to as many as there
 * are. */
DSFLOW_API int32_t dsflow_plan_activation_slots(const struct dsflow_plan *plan,
                                                int32_t chunk);
DSFLOW_API void dsflow_plan_set_activation_slots(struct dsflow_plan *plan,
                                                 int32_t chunk, int32_t slots);

/* The ring of gradients of activations of a chunk, in micro-steps: how many
 * micro-batches may be in their backward pass. 1 to the activation slots of the
 * chunk, and lowered with them. */
DSFLOW_API int32_t dsflow_plan_grad_slots(const struct dsflow_plan *plan,
                                          int32_t chunk);
DSFLOW_API void dsflow_plan_set_grad_slots(struct dsflow_plan *plan,
                                           int32_t chunk, int32_t slots);

/* Steps of a run that a program of the graph stands for, in place of `step`. */
struct dsflow_program_steps {
    uint32_t size;    /* of this structure: DSFLOW_PROGRAM_STEPS sets it */
    const char *name; /* of the program; copied */
    int64_t first;    /* the first of the steps, which count from 1, … */
    int64_t every;    /* … every so many of them from there on, … */
    int64_t last;     /* … up to this one; 0: up to the end of the run */
};
#define DSFLOW_PROGRAM_STEPS(...)                                              \
    DSFLOW_OF(dsflow_program_steps,                                            \
              .size = sizeof(struct dsflow_program_steps), __VA_ARGS__)

/* When it decides, a policy may say so of a program that it adds to the graph
 * when it rewrites, such as one that does more every fifth step. The program
 * trains as `step` does: it has the task `report`, for which the training loop
 * waits. Of several programs for a step the last one added is what runs.
 * Errors: DSFLOW_EINVAL for steps that are none, and for `eval`, which
 * validates. */
DSFLOW_API int dsflow_plan_add_program(struct dsflow_plan *plan,
                                       const struct dsflow_program_steps *steps,
                                       struct dsflow_err *err);

/* The name of the program of a step, from 1: "step", unless another one stands
 * for it. Borrowed as long as the plan. */
DSFLOW_API const char *dsflow_plan_program_of(const struct dsflow_plan *plan,
                                              int64_t step);

/* What is kept between steps, and in checkpoints. */
enum dsflow_kept_kind {
    DSFLOW_KEPT_TENSORS,   /* a number for each of the model's parameters:
                              replicas, shards and parts of units in fp32, which
                              policies share out, and any mesh can go on with */
    DSFLOW_KEPT_BY_UNIT,   /* data for each unit of the model (data: unit), … */
    DSFLOW_KEPT_BY_RANK,   /* … for each rank (home), … */
    DSFLOW_KEPT_BY_WORKER, /* … for each worker of a rank (home and part), … */
    DSFLOW_KEPT_ONE,       /* … or one for all */
};

/* A number in a structure that is kept: checkpoints have it by its name, so that
 * structures may grow. */
struct dsflow_kept_field {
    const char *name;
    enum dsflow_dtype dtype; /* INT64 or FP64 */
    size_t at;               /* bytes before it */
};

struct dsflow_kept {
    uint32_t size;         /* of this structure: DSFLOW_KEPT sets it */
    uint8_t kind;          /* enum dsflow_kept_kind */
    uint8_t dtype;         /* of its elements (enum dsflow_dtype) */
    uint8_t ndims;
    uint8_t transient;     /* 1: not in checkpoints */
    const char *name;      /* "m", "errors": up to 40 letters; copied */
    int64_t dims[DSFLOW_MAX_DIMS]; /* of each piece of data; not of TENSORS */
    /* Of KEPT_ONE: its numbers, up to one without a name. Borrowed; NULL: it is
     * saved as an array. */
    const struct dsflow_kept_field *fields;
};
#define DSFLOW_KEPT(...)                                                       \
    DSFLOW_OF(dsflow_kept, .size = sizeof(struct dsflow_kept), __VA_ARGS__)

/* For a policy's `decide`: keep this too. The policy makes the data, persistent
 * and with the number that dsflow_plan_kept gives in `kept`. It starts as zeroes;
 * a run that goes on from a checkpoint has it back bit for bit. One that is by
 * rank or by worker begins anew on another number of ranks, which --resume says.
 * Errors: DSFLOW_EINVAL for a name that means something else already. */
DSFLOW_API int dsflow_plan_keep(struct dsflow_plan *plan,
                                const struct dsflow_kept *kept,
                                struct dsflow_err *err);

/* The number of what is kept under this name; 0: nothing is. */
DSFLOW_API uint16_t dsflow_plan_kept(const struct dsflow_plan *plan,
                                     const char *name);

/* A message about a key of the job, with the place where it was set in front:
 * "job.toml:12: table: key: …". Returns `status`, as dsflow_fail. */
DSFLOW_API int dsflow_plan_fail(const struct dsflow_plan *plan,
                                struct dsflow_err *err, int status,
                                const char *table, const char *key,
                                const char *fmt, ...) DSFLOW_PRINTF(6, 7);

DSFLOW_END_DECLS

#endif
