/* op.h - what a kind of task is: its ports, its arguments, its cost.
 *
 * This is the planning face of a task; codelet.h is the running face. The
 * built-in kinds and those of an application use the same two structures.
 */
#ifndef DSFLOW_OP_H
#define DSFLOW_OP_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_OP_ABI 5

#define DSFLOW_SCATTERED (-1)

enum dsflow_access {
    DSFLOW_R = 1,
    DSFLOW_W = 2,
    DSFLOW_RW = 3,
};

/* What a task costs, for the simulator and for priorities. */
struct dsflow_cost {
    double flops;
    double bytes; /* read and written, counted once each */
    double scores; /* exponentials of attention, however wide a head is */
};

/* What a kind of task does in a step. Pictures, accounts and priorities go by
 * this, and not by names. */
enum dsflow_direction {
    DSFLOW_DIR_NONE,            /* its pass (graph.h) says enough */
    DSFLOW_DIR_FORWARD,         /* of a segment */
    DSFLOW_DIR_HIDDEN,          /* as much of it as its gradients need */
    DSFLOW_DIR_BACKWARD_INPUT,  /* gradients of activations */
    DSFLOW_DIR_BACKWARD_WEIGHT, /* gradients of parameters */
    DSFLOW_DIR_UPDATE,          /* from gradients to new parameters */
    DSFLOW_DIR_MOVE,            /* between ranks */
    DSFLOW_DIR_SWAP,            /* between memories of a rank */
    DSFLOW_DIR_HOST,            /* it feeds, counts, reports or orders */
    DSFLOW_NDIRECTIONS
};

/* What data goes from rank to rank for. */
enum dsflow_comm {
    DSFLOW_COMM_NONE,
    DSFLOW_COMM_SEND,   /* from one to another */
    DSFLOW_COMM_GATHER, /* pieces of one thing */
    DSFLOW_COMM_REDUCE, /* to be summed */
    DSFLOW_NCOMMS
};

/* How the data of a port follows when the task is done in slices of a unit. */
enum dsflow_slice {
    DSFLOW_WHOLE,  /* it does not: all slices read the same */
    DSFLOW_ELEMS,  /* an element for each of the unit */
    DSFLOW_BLOCKS, /* an element for each block of the unit */
};

/* Which types the data of a port may have where its dtype is fp32. The type of a
 * task that computes in bf16 or fp16 is that of its narrow ports; sums are fp32
 * all the same, and each number that is stored is rounded once. */
enum dsflow_floats {
    DSFLOW_FP32_ONLY,
    DSFLOW_NARROW,     /* fp32, bf16 or fp16: that of the task */
    DSFLOW_NARROW_SUM, /* that of the task, or fp32: tasks add to it, one after
                          the other */
    DSFLOW_NARROW_ALONE, /* any of the three where the task computes in bf16 or
                            fp16, or has no port that is DSFLOW_NARROW */
};

/* A port without a name is one that the op does not have: where several ops
 * share a list of ports (segments.h), each has some of them. */
struct dsflow_port {
    const char *name;
    enum dsflow_access access;
    enum dsflow_dtype dtype; /* of its elements; 0: what `check` accepts */
    uint8_t slice;           /* enum dsflow_slice */
    unsigned optional; /* 1: a task may leave it out */
    uint8_t floats;    /* enum dsflow_floats */
};

/* The ports of an op, in order: .nports and .ports of it. */
#define DSFLOW_PORTS(...)                                                      \
    .nports = sizeof((const struct dsflow_port[]){ __VA_ARGS__ }) /            \
              sizeof(struct dsflow_port),                                      \
    .ports = (const struct dsflow_port[]){ __VA_ARGS__ }

/* A task as the functions of its op see it: without its memory. Several ops may
 * have the same functions. */
struct dsflow_case {
    const struct dsflow_op *op;
    const struct dsflow_shape *shapes; /* of the data on each port; nothing on
                                          those that the task leaves out */
    unsigned n;                        /* ports */
    const void *args;
};

struct dsflow_op {
    unsigned abi;        /* DSFLOW_OP_ABI */
    const char *name;    /* "adam"; also the state name in traces */
    const char *segment; /* of the model, that it computes: "mlp"; or NULL */
    uint8_t direction;   /* enum dsflow_direction */
    uint8_t update;      /* 1: an optimizer's, { control, grad, param, states … }
                            (optimizer.h) */
    uint8_t multiplies;  /* 1: an update that multiplies matrices, whose last
                            bits differ on a core and on a GPU: units with
                            tensors that the optimizer needs whole are updated
                            on the GPU, in whatever memory states are kept */
    const char *summary; /* one line, for `dsflow list tasks` */
    size_t args_size;    /* bytes copied into the graph with each task */
    unsigned nports;     /* how many of `ports` are described */
    unsigned repeats;    /* 1: the last port, R or W, may come again, as often
                            as a task wants */
    unsigned comm;       /* enum dsflow_comm; not 0: it moves data between
                            ranks: what it reads may be on another rank, and that
                            is its traffic */
    unsigned swaps;      /* 1: it copies port 0 to port 1, from one memory of
                            its rank to another: its data may be on NVMe */
    uint8_t sums;        /* 1: port 0 becomes the sum of all, element by element,
                            in the tree of pairs: sums of some of them that
                            follow each other may be done elsewhere */
    uint8_t joins;       /* 1: instead of data it reads, it may read the slices
                            of it, in order */
    const struct dsflow_port *ports; /* nports of them */

    /* Do the shapes and arguments of the case make sense together? */
    int (*check)(const struct dsflow_case *c, struct dsflow_err *err);
    /* NULL: it moves the bytes of its ports once each, and computes nothing. */
    void (*cost)(const struct dsflow_case *c, struct dsflow_cost *cost);
    /* Bytes of working memory the kernel wants beside its ports; NULL: none. */
    size_t (*scratch)(const struct dsflow_case *c);
    /* For an op with `comm`: the elements that it reads of port `port`, which
     * are what is moved where that is on another rank. NULL: all of them. */
    int64_t (*reads)(const struct dsflow_op *op, const void *args,
                     unsigned port);
    /* Where these are bytes of coded numbers: how many numbers, of the type
     * that port 0 has. NULL: it reads numbers as they are. */
    int64_t (*numbers)(const struct dsflow_op *op, const void *args,
                       unsigned port);

    /* For an op that works on a unit element by element: its ports say how
     * (`slice`), those that do not are only read. Change `args`: do only
     * `elems` elements, from element `from` on of those that they name;
     * gone[i]: so many elements in front are missing now in the data of port i.
     * from = DSFLOW_SCATTERED: elements of several places in an order of their
     * own, which all data has. NULL: it needs all of the unit. */
    void (*slice)(void *args, int64_t from, int64_t elems, const int64_t *gone);
};

/* Make `op` known by its name. `op` is borrowed for good: make it static. */
DSFLOW_API int dsflow_op_register(const struct dsflow_op *op,
                                  struct dsflow_err *err);
DSFLOW_API const struct dsflow_op *dsflow_op_find(const char *name);

/* The i-th kind known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_op *dsflow_op_at(unsigned i);

DSFLOW_END_DECLS

#endif
