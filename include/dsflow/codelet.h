/* codelet.h - how a kind of task is computed, on each kind of device. */
#ifndef DSFLOW_CODELET_H
#define DSFLOW_CODELET_H

#include <dsflow/op.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_CODELET_ABI 4

/* Ports that a random case of a codelet may have. */
#define DSFLOW_TRIAL_PORTS 32

/* One buffer as a kernel sees it, in the memory of its device. */
struct dsflow_buf {
    void *ptr; /* aligned to 64 bytes */
    size_t bytes;
    int64_t elems;
    enum dsflow_dtype dtype;
};

/* Tokens that a task asks for: rows `pos .. pos + rows/nseq` of `nseq`
 * sequences, of which the first is sequence `seq` of step `step`. */
struct dsflow_batch {
    uint32_t size;       /* of this structure */
    const char *program; /* that asks: "step" trains, "eval" validates; one of a
                            policy has its name */
    int64_t step;        /* steps of the program before this one */
    int64_t seq;
    int32_t nseq, pos, rows;
    int32_t *tokens, *targets; /* to be filled with `rows` numbers each; target
                                  -1: none */
};

/* What a step says of itself. */
struct dsflow_step_report {
    uint32_t size;       /* of this structure */
    const char *program; /* that ran */
    double loss;         /* sum over the targets */
    /* Where the program updates parameters; else 0: */
    int64_t step;      /* number of the step, from 1 */
    int64_t updates;   /* made so far: steps that were not skipped */
    double lr;
    double norm;       /* of the whole gradient, before clipping */
    double scale;      /* the gradient was multiplied by this */
    double loss_scale; /* the loss was multiplied by this */
    int skipped;       /* 1: loss or norm is not finite, nothing was updated */
    int stops;         /* 1: nor will any later step update anything */
    int64_t overflows; /* steps so far for which the loss scale was too large;
                          -1: losses are not scaled */
};

/* What the program around the graph does for it: the few tasks that meet the
 * outside world call these, from any worker. */
struct dsflow_host {
    void *user;
    /* Fill in the batch. It may be called from several workers at once. */
    void (*load_batch)(void *user, const struct dsflow_batch *batch);
    /* A step is over. One call at a time. */
    void (*report)(void *user, const struct dsflow_step_report *report);
};

/* One execution of a task. */
struct dsflow_call {
    const struct dsflow_buf *bufs; /* in the order of the op's ports */
    unsigned nbufs;
    const void *args;
    unsigned fresh; /* bit i: buffer i has no contents yet, as in the graph */
    void *scratch; /* what op->scratch asked for, aligned to 64 bytes */
    const struct dsflow_host *host;
    const char *program; /* that the task is of */
};

/* A kernel cannot fail: what could go wrong was refused by the op's check. It
 * uses one thread, keeps nothing, and its result depends on its inputs only. */
typedef void (*dsflow_cpu_fn)(const struct dsflow_call *call);

/* Only enqueue on `stream`, a cudaStream_t of the GPU that the thread works
 * with: do not wait, allocate, copy main memory or use another stream. Returns
 * NULL, or what CUDA says of a launch that it refused, valid for good, as of
 * cudaGetErrorString; that ends the run. Buffers are in the memory of the GPU,
 * but for what cores read and write as well (control, tokens, losses): those
 * are in main memory, where kernels reach them and this function must not look,
 * as they are not written yet. So the kernel of an optimizer's update has to
 * look whether the control that it reads says `skip`, and then leaves all as it
 * is. `scratch`, as large as op->scratch says, is in the memory of the GPU, and
 * other tasks use it too. */
typedef const char *(*dsflow_cuda_fn)(const struct dsflow_call *call,
                                      void *stream);

/* Random cases that a codelet can be tried on, as `dsflow codelet check` does:
 * on the memory they describe it runs the codelet, a plain version of it, or,
 * where it is a segment's, the built-in one. The same seed gives the same case,
 * and different seeds should give different shapes: small ones, odd ones, and
 * each value of a flag. */
struct dsflow_trials {
    /* Choose a case: how many ports (*n, DSFLOW_TRIAL_PORTS at most) and
     * the shape of each (dsflow_shape_of), the op's args_size bytes of `args`
     * (zeroed), and which ports are fresh (bit i of *fresh, 0 before). The op's
     * check must accept them. Returns DSFLOW_OK, or a negative status when this
     * seed gives no case.
     * Ports of several types of floats (`floats` in op.h) are fp32 here: two of
     * three seeds are then tried in bf16 or fp16. What they leave is compared
     * with that of fp32, within their precision. */
    int (*make)(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh);

    /* The contents of port `port`, `elems` elements, before the task runs.
     * NULL: every port that is read is filled with numbers of a normal
     * distribution, which need a type of floats. A port for which it returns 0
     * is filled so too. Where a port has been made bf16 or fp16, what is filled
     * in is fp32, and rounded. */
    int (*fill)(const struct dsflow_op *op, uint64_t seed, unsigned port,
                void *data, int64_t elems, const void *args);

    /* The same result, computed plainly; it gets the same memory and `scratch`.
     * NULL: there is none, or it is the built-in codelet of the segment. */
    dsflow_cpu_fn reference;

    /* How far numbers of fp32 may be apart: |a - b| <= tolerance * (1 + |b|).
     * 0: 1e-4. */
    double tolerance;
};

struct dsflow_codelet {
    unsigned abi; /* DSFLOW_CODELET_ABI */
    const struct dsflow_op *op;
    dsflow_cpu_fn cpu;   /* NULL: never on a CPU */
    dsflow_cuda_fn cuda; /* NULL: never on a GPU */
    unsigned host_only;  /* 1: it calls the host, so never on a device */
    const struct dsflow_trials *trials; /* NULL: it cannot be tried alone */
};

/* `codelet` is borrowed for good: make it static. */
DSFLOW_API int dsflow_codelet_register(const struct dsflow_codelet *codelet,
                                       struct dsflow_err *err);
DSFLOW_API const struct dsflow_codelet *
dsflow_codelet_find(const struct dsflow_op *op);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_codelet *dsflow_codelet_at(unsigned i);

DSFLOW_END_DECLS

#endif
