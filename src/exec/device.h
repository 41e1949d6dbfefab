/* device.h - what the executor asks of a device: memory, launches that complete
 * later, copies between memories, a clock. A kind of device is a table of
 * functions in a file of its own: cpu.c, virtual.c, cuda.c. */
#ifndef DSF_EXEC_DEVICE_H
#define DSF_EXEC_DEVICE_H

#include <stdbool.h>
#include <dsflow/codelet.h>
#include <dsflow/graph.h>

struct dsf_device;
struct dsf_gpu_side;

/* What a device does in the order of launching, one thing after the other;
 * what is in different queues runs at the same time. */
enum dsf_queue {
    DSF_QUEUE_COMPUTE,
    DSF_QUEUE_IN,  /* copies into its memory */
    DSF_QUEUE_OUT, /* copies from its memory into main memory */
    DSF_QUEUE_FROM, /* what comes from GPUs of other processes */
    DSF_QUEUE_TO,   /* what goes to them */
    DSF_NQUEUES
};

/* Launches of a queue that have not ended, at once, of a device beside the
 * cores. A stream of CUDA's takes some 1000 kernels and events; who launches
 * one more waits until one has run, and with it all other streams. */
enum { DSF_DEVICE_MOST = 100 };

/* Main memory is that of no device: NULL. rows: of so many rows `bytes` each,
 * which are so many bytes apart; 0: there is one. */
struct dsf_copy {
    void *to;
    const void *from;
    size_t bytes;
    struct dsf_device *to_device, *from_device;
    size_t rows, to_apart, from_apart;
};

/* A kernel, or copies, or what `put` is. It belongs to who launches it, and must
 * live until it is `done`. */
struct dsf_launch {
    enum dsf_queue queue;
    /* Puts something else into a stream of CUDA's; returns what went wrong. */
    const char *(*put)(struct dsf_launch *launch, void *stream);
    const struct dsflow_codelet *codelet; /* NULL: copies */
    struct dsflow_call call;              /* of the codelet */
    const struct dsf_gpu_side *side;      /* of a codelet without `cuda` */
    /* Where it is not 0 when the device gets there, nothing is done. NULL: there
     * is no such number. A GPU's kernels look for themselves. */
    const int64_t *skip;
    double *worked; /* seconds that its thread works for the codelet go here;
                       NULL: nobody asks */
    const struct dsf_copy *copies;
    unsigned ncopies;
    size_t reads; /* bytes of other devices that the codelet reads there */
    /* It is launched while nothing comes from GPUs of other processes, nor goes
     * to them: to load a kernel, its runtime may wait for all that there is. */
    bool alone;
    /* Called once, when it is in its queue; NULL: nobody asks. */
    void (*launched)(void *user);
    /* Called once, when it has ended, and then it is its owner's again; NULL:
     * nobody asks. Short, on a thread of the device that may not be able to
     * launch anything itself. */
    void (*done)(struct dsf_launch *launch);
    void *user;

    /* Filled in by the device, before `done`. */
    int status;            /* DSFLOW_OK, or what went wrong: */
    struct dsflow_err err; /* "device 1: …" */
    bool after; /* it may have gone wrong in what was launched behind it, too,
                   or in another queue */
    double start, end;     /* by the clock of the device; then, in `done`, of
                              dsf_now */

    struct dsf_launch *next; /* the device's */
};

struct dsf_device_class {
    const char *name;
    /* Threads, streams: what it needs to launch. Closing waits for what was
     * launched. */
    int (*open)(struct dsf_device *device, struct dsflow_err *err);
    void (*close)(struct dsf_device *device);

    /* Zeroed memory, aligned to a page; there is one call for each rank, with
     * all that the rank has there. NULL: there is no more, and the message says
     * how much there is. `what` it is for: "the tensors of rank 0". */
    void *(*allocate)(struct dsf_device *device, size_t bytes, const char *what,
                      struct dsflow_err *err);
    void (*release)(struct dsf_device *device, void *at, size_t bytes);
    /* Bytes of what was allocated that hold something. */
    size_t (*resident)(const struct dsf_device *device, const void *at,
                       size_t bytes);

    /* Main memory that the device copies to and from, or that its kernels reach;
     * in whole pages. */
    int (*pin)(struct dsf_device *device, void *at, size_t bytes,
               struct dsflow_err *err);
    void (*unpin)(struct dsf_device *device, void *at, size_t bytes);

    /* Bytes of working memory that the task's codelet wants on this kind. */
    size_t (*scratch)(const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t);
    /* What enqueues the kernels of a kind of task there whose codelet has no
     * `cuda`, or NULL: a core does its tasks. No such function: its kernels are
     * the CPU's. */
    const struct dsf_gpu_side *(*side)(const struct dsflow_op *op);
    /* With it: what a task of these arguments has that the kernel cannot do,
     * such as "a window"; NULL: nothing. */
    const char *(*lacks)(const struct dsf_gpu_side *side, const void *args);

    /* Begins, or puts into its queue; does not wait for the end, but where the
     * calling thread is the device. At the end it calls dsf_device_done. A device
     * beside the cores is given its launches by one thread. */
    void (*launch)(struct dsf_device *device, struct dsf_launch *launch);

    /* Seconds since a moment that stays the same. */
    double (*clock)(const struct dsf_device *device);
};
extern const struct dsf_device_class dsf_device_cpu, dsf_device_virtual,
    dsf_device_cuda;

struct dsf_launcher;

struct dsf_device {
    const struct dsf_device_class *class;
    unsigned index; /* among the devices of its kind: of `all` that a job */
    unsigned all;   /* has, the program uses `beside` from the `first` on, in */
    unsigned first; /* a circle */
    unsigned beside;
    size_t limit;      /* bytes that it has; 0: no limit */
    size_t used, peak; /* bytes that are allocated, and the most that were */
    double rate;       /* bytes a second of its link; 0: as fast as it is */
    double since;      /* what its clock showed at time 0 of dsf_now */
    void *priv;        /* of the class */
    struct dsf_launcher *launcher; /* of a device beside the cores */
};

/* Open a device beside the cores, and a thread that launches there. Closing a
 * device that is not open is fine. */
int dsf_device_open(struct dsf_device *device, struct dsflow_err *err);
void dsf_device_close(struct dsf_device *device);

/* Have it launched, in order; from any thread, and without waiting. */
void dsf_device_launch(struct dsf_device *device, struct dsf_launch *launch);

/* Until all that was launched has ended. */
void dsf_device_wait(struct dsf_device *device);

/* For a class whose kernels are the CPU's: run the codelet. */
void dsf_device_compute(struct dsf_launch *launch);
/* For a class: this one has ended. */
void dsf_device_done(struct dsf_device *device, struct dsf_launch *launch);

#endif
