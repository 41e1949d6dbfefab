/* graph.h - the task graph of one training step.
 *
 * A graph is a list of data and an ordered list of tasks. The order and the
 * access modes give the dependencies: a task follows the last writer of what
 * it reads, and the readers of what it writes. Building a graph runs nothing
 * and allocates no tensor.
 */
#ifndef DSFLOW_GRAPH_H
#define DSFLOW_GRAPH_H

#include <stdio.h>
#include <dsflow/op.h>

DSFLOW_BEGIN_DECLS

struct dsflow_graph;

/* Positions in the graph, wrapped so that one is not taken for the other. */
typedef struct {
    uint32_t i;
} dsflow_data_id;
typedef struct {
    uint32_t i;
} dsflow_task_id;

#define DSFLOW_ANYWHERE (-1)
#define DSFLOW_MAX_DIMS 4

/* What a piece of data is for; memory is reported by role. */
enum dsflow_role {
    DSFLOW_PARAMS,      /* weights */
    DSFLOW_GRADS,       /* gradients of weights, whole or accumulating */
    DSFLOW_STATES,      /* of the optimizer */
    DSFLOW_ACTIVATIONS, /* between forward and backward, gradients of them */
    DSFLOW_BUFFERS,     /* everything else */
    DSFLOW_NROLES
};
DSFLOW_API const char *dsflow_role_str(enum dsflow_role role);

/* Memories of a rank, from the fastest to the largest. */
enum dsflow_tier {
    DSFLOW_DEVICE, /* of the GPU; of a rank of cores, a share of main memory */
    DSFLOW_HOST,   /* main memory beside that */
    DSFLOW_NVME,   /* files: only `swap_in` and `swap_out` touch it */
    DSFLOW_NTIERS
};
/* "device", "cpu", "nvme", as in [offload]. */
DSFLOW_API const char *dsflow_tier_str(enum dsflow_tier tier);

struct dsflow_data_spec {
    uint32_t size; /* of this structure: DSFLOW_DATA sets it */
    enum dsflow_role role;
    const char *name; /* unique; copied */
    int64_t elems;
    size_t bytes; /* follows from elems and dtype: the graph fills it */
    int64_t dims[DSFLOW_MAX_DIMS]; /* their product is elems */
    uint8_t ndims;                 /* 0: it is flat, or nobody said */
    uint8_t dtype;                 /* enum dsflow_dtype */
    int16_t home;       /* rank in whose memory it is, or ANYWHERE */
    uint8_t tier;       /* enum dsflow_tier: in which of its memories */
    uint8_t persistent; /* it has contents before the first task and keeps them
                           between steps; it starts as zeroes */
    uint8_t constant;   /* persistent, and no task writes it */

    /* Parameters, gradients and states: what they are of. */
    int32_t unit; /* of the model, from 0; -1: none */
    int32_t part; /* of a unit that is split among tensor ranks; of a constant of
                     integers: which layout of attention it is */
    int64_t at;   /* of its first element, within the part */
    int64_t block; /* elements: it may be cut at multiples of this */

    /* 1 + its place in the plan's list of what is kept between steps (plan.h);
     * 0: it is not kept. */
    uint16_t kept;
    /* Data of one class and size may take turns in buffers, where a policy
     * gives it some: the keys and values of all layers are one. 0: of no class;
     * numbers below 0 are for plug-ins. */
    int32_t ring_class;

    /* Of the random numbers by which it is rounded where it is cast into fewer
     * bits: the same for replicas, shards and pieces. 0: none. */
    uint64_t stream;

    /* Where it is one of several buffers used in turn: the key that says how
     * many, such as "zero.prefetch". Borrowed; NULL: none. Writing it waits for
     * its last reader, and more of them wait less; what explains a timeline
     * names the key. */
    const char *ring;
};

/* A description of data, from its fields: DSFLOW_DATA(.name = "x", …). What is
 * not named is 0. */
#define DSFLOW_DATA(...)                                                       \
    DSFLOW_OF(dsflow_data_spec, .size = sizeof(struct dsflow_data_spec),       \
              __VA_ARGS__)

/* A program: tasks that are submitted together. The programs of a graph have
 * its data in common: a step of training, the validation of one micro-batch, a
 * step that does more than the others. They are numbered from 0 in the order in
 * which they were added. */
typedef uint8_t dsflow_program;

enum {
    DSFLOW_STEP,              /* "step": every graph begins with it */
    DSFLOW_MAX_PROGRAMS = 64, /* of one graph */
};

/* What a task is for. A forward that is computed again is BACKWARD. */
enum dsflow_pass { DSFLOW_FORWARD, DSFLOW_BACKWARD, DSFLOW_UPDATE };

struct dsflow_task_spec {
    uint32_t size;  /* of this structure: DSFLOW_TASK sets it */
    uint32_t ndata; /* of `data` */
    const struct dsflow_op *op;
    const void *args; /* op->args_size bytes, copied: once where tasks have the
                         same bytes, so holes between fields should be 0 */
    const dsflow_data_id *data; /* in the order of the op's ports; copied */
    uint32_t fresh; /* bit i: port i, RW in the op and one of the first 32, has
                       no contents yet and is only written by this task */
    uint32_t without; /* bit i: port i, of the first 32, is left out: data[k] is
                         on the k-th of the others */
    int32_t priority;
    int16_t layer;      /* or -1 */
    int16_t microbatch; /* or -1 */
    int16_t tile;       /* of tokens within the micro-batch, or -1 */
    int16_t rank;       /* or DSFLOW_ANYWHERE: the scheduler chooses */
    dsflow_program program;
    uint8_t pass; /* enum dsflow_pass */
    uint32_t collective; /* the same, from 1, for what the ranks of a group do
                            together; 0: it is no such task */
    uint32_t apart; /* bit i: of what is on port i, one of the first 32, it has
                       to do with a part that it writes, and that no task has
                       beside it: for the order of tasks it reads the data */
};

/* A description of a task, from its fields; what is not named is 0. */
#define DSFLOW_TASK(...)                                                       \
    DSFLOW_OF(dsflow_task_spec, .size = sizeof(struct dsflow_task_spec),       \
              __VA_ARGS__)

/* The port that data[i] of task `t` is on; the last one, where that repeats. */
DSFLOW_API unsigned dsflow_task_port(const struct dsflow_task_spec *t,
                                     unsigned i);

/* Does task `t` write a part of its data[i], beside others that do? */
DSFLOW_API int dsflow_task_is_apart(const struct dsflow_task_spec *t,
                                    unsigned i);

/* How task `t` uses its data[i]: the op's access, or W where it is fresh. */
DSFLOW_API enum dsflow_access
dsflow_task_access(const struct dsflow_task_spec *t, unsigned i);

DSFLOW_API struct dsflow_graph *dsflow_graph_new(void);
DSFLOW_API void dsflow_graph_free(struct dsflow_graph *g); /* NULL is fine */

/* The program called `name`, which is copied: letters, digits and `_`. Added
 * unless there is one of that name. A name that is none, or one more than
 * DSFLOW_MAX_PROGRAMS, is a fault, as below. */
DSFLOW_API dsflow_program dsflow_graph_add_program(struct dsflow_graph *g,
                                                   const char *name);
DSFLOW_API unsigned dsflow_graph_nprograms(const struct dsflow_graph *g);

/* Its name: borrowed until the graph is freed. */
DSFLOW_API const char *dsflow_graph_program(const struct dsflow_graph *g,
                                            dsflow_program program);

/* The program called `name`: 1 and its number, or 0. */
DSFLOW_API int dsflow_graph_find_program(const struct dsflow_graph *g,
                                         const char *name,
                                         dsflow_program *program);

/* How many tasks the program has; they stand together from *first on. */
DSFLOW_API uint32_t dsflow_graph_program_tasks(const struct dsflow_graph *g,
                                               dsflow_program program,
                                               uint32_t *first);

/* What cannot be added (a structure of another size, a name that is taken, a
 * task of data that is not there, or without its op or args) is a fault:
 * dsflow_graph_check reports the first one. Data of a name that is taken is
 * that which has it; else the id is one of nothing. */
DSFLOW_API dsflow_data_id dsflow_graph_add_data(
    struct dsflow_graph *g, const struct dsflow_data_spec *spec);
DSFLOW_API dsflow_task_id dsflow_graph_add_task(
    struct dsflow_graph *g, const struct dsflow_task_spec *spec);

DSFLOW_API uint32_t dsflow_graph_ndata(const struct dsflow_graph *g);
DSFLOW_API uint32_t dsflow_graph_ntasks(const struct dsflow_graph *g);

/* The only thing of a task that may change once it is there. */
DSFLOW_API void dsflow_graph_set_priority(struct dsflow_graph *g,
                                          dsflow_task_id id, int32_t priority);

/* Borrowed: valid until the graph is freed, data only until it grows. */
DSFLOW_API const struct dsflow_data_spec *
dsflow_graph_data(const struct dsflow_graph *g, dsflow_data_id id);
DSFLOW_API const struct dsflow_task_spec *
dsflow_graph_task(const struct dsflow_graph *g, dsflow_task_id id);

/* The data called `name`: 1 and its id, or 0. */
DSFLOW_API int dsflow_graph_find(const struct dsflow_graph *g,
                                 const char *name, dsflow_data_id *id);

/* The tasks of a program stand together, programs in the order of their
 * numbers; every task passes its op's check; and nothing is read before it is
 * written in the same program, unless it is persistent. */
DSFLOW_API int dsflow_graph_check(const struct dsflow_graph *g,
                                  struct dsflow_err *err);

/* The tasks that task `id` must wait for within its program, in ascending
 * order, each once: sets *list (borrowed until the next call on any task) and
 * returns how many. Edges come from order and access, as in the executor. */
DSFLOW_API uint32_t dsflow_graph_preds(struct dsflow_graph *g,
                                       dsflow_task_id id,
                                       const dsflow_task_id **list);

DSFLOW_API int dsflow_graph_write_dot(struct dsflow_graph *g, FILE *out,
                                      struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
