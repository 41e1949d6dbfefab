/* exec_private.h - what the executors share. */
#ifndef DSF_EXEC_EXEC_PRIVATE_H
#define DSF_EXEC_EXEC_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <dsflow/exec.h>

#include "exec/device.h"
#include "io/io.h"
#include "timeline/timeline.h"

/* One task as an executor sees it; lives as long as the executor. */
struct dsf_exec_call {
    struct dsflow_exec *exec;
    const struct dsflow_task_spec *task;
    const struct dsflow_codelet *codelet;
    bool by_disk;  /* it has data on NVMe: the disk does it */
    bool cpu_only; /* it calls the host, or works on what is in main memory */
};

/* An executor; exec.c does for all what does not differ. */
struct dsf_exec_class {
    const char *name;
    int (*open)(struct dsflow_exec *exec,
                const struct dsflow_exec_options *options,
                struct dsflow_err *err);
    void (*close)(struct dsflow_exec *exec);
    int (*submit)(struct dsflow_exec *exec, uint32_t first, uint32_t last,
                  struct dsflow_err *err);
    int (*wait)(struct dsflow_exec *exec, struct dsflow_err *err);
    void *(*map)(struct dsflow_exec *exec, uint32_t data,
                 enum dsflow_access access);
    void (*lanes)(const struct dsflow_exec *exec,
                  struct dsf_timeline *timeline);
};
extern const struct dsf_exec_class dsf_exec_serial, dsf_exec_starpu;

/* What one worker counts for itself; a cache line each. */
struct dsf_exec_worker {
    void *scratch;
    struct dsflow_buf *bufs; /* of the task it runs: room for any */
    double busy; /* seconds inside kernels */
    _Atomic uint64_t tasks;
    _Atomic uint32_t runs; /* a task, + 1; 0: none */
    char pad[64 - 2 * sizeof(void *) - sizeof(double) - 2 * sizeof(uint64_t)];
};

/* Spans that one thread noted and nobody has taken out, in a list of blocks. */
struct dsf_exec_spans;
struct dsf_exec_ring {
    struct dsf_exec_spans *last; /* of who notes */
    uint64_t put;
    _Atomic uint64_t lost;
    char pad[40]; /* who notes and who takes have a cache line each */
    struct dsf_exec_spans *first; /* of who takes */
    uint32_t at;                  /* of that block: the next one to take */
    _Atomic uint64_t taken;
    char pad2[40];
};

/* The data of one rank in one tier: one piece of memory, but for NVMe. */
struct dsf_arena {
    void *at;
    size_t bytes, used;
};

/* What is on NVMe, of all ranks: one store. */
struct dsf_exec_disk {
    struct dsf_io *io; /* NULL: nothing is there */
    int64_t *at;       /* by data: where in the store */
    unsigned lane;     /* of reads; writes have the next */
    double until[2];   /* by enum dsf_io_op: the end of the last span */
    _Atomic uint64_t tasks;
    void *window; /* one datum, for dsflow_exec_map; NULL: no buffer */
    size_t window_bytes;
    uint32_t shown; /* the datum, where `dirty` */
    bool dirty;
};

struct dsflow_exec {
    const struct dsf_exec_class *class;
    struct dsflow_graph *graph;
    struct dsf_device cpu;           /* the cores, and main memory */
    const struct dsflow_host *outer; /* whose functions `host` calls, */
    struct dsflow_host host;         /* one report at a time */
    pthread_mutex_t reporting;
    struct dsf_exec_call *calls; /* by task */
    void **mem; /* by data: in main memory; NULL: it is on NVMe */
    bool *paged; /* by data: the disk has to do with it, in whole pages */
    struct dsf_arena (*arenas)[DSFLOW_NTIERS]; /* by rank */
    unsigned nranks;
    struct dsf_exec_disk disk;
    struct dsflow_err failure; /* the first of a disk, once `failed` says so */
    _Atomic int failing, failed;
    size_t scratch_bytes;
    uint32_t most_ports; /* of a task */
    struct dsf_exec_worker *workers;
    unsigned nworkers;
    struct dsf_exec_ring *rings; /* by worker, then of the others */
    uint64_t most_spans;         /* of each ring */
    _Atomic uint32_t *runs;      /* by task: how often it has run */
    uint32_t *submitted;         /* by program: how often */
    double link_rate;            /* bytes/s of a slowed down link; 0: as it is */
    double opened, wall;
    double busy_since; /* time of the first submit since the last wait */
    void *priv;        /* of the class */
};

/* Set up `n` workers, each with its scratch memory. */
int dsf_exec_add_workers(struct dsflow_exec *exec, unsigned n,
                         struct dsflow_err *err);

/* Rings of threads that are no workers: those of the program, and that of the
 * disks. */
enum dsf_other_ring { DSF_RING_PROGRAM, DSF_RING_DISK, DSF_NOTHER_RINGS };

/* exec_trace.c: note a span, as worker `ring`, or nworkers + one of those. */
void dsf_exec_add_rings(struct dsflow_exec *exec);
void dsf_exec_free_rings(struct dsflow_exec *exec);
void dsf_exec_note(struct dsflow_exec *exec, unsigned ring,
                   const struct dsf_span *span);

/* A task has run once more: how often it had before. */
uint32_t dsf_exec_count_run(struct dsflow_exec *exec, uint32_t task);

/* Memory of a device for `what`, in whole pages, if *bytes > 0: makes them such. */
int dsf_exec_take(struct dsf_device *device, size_t *bytes, const char *what,
                  void **at, struct dsflow_err *err);

/* The data of port `p` as a kernel sees it, at `ptr`. */
static inline struct dsflow_buf dsf_exec_buf(const struct dsf_exec_call *call,
                                             unsigned p, void *ptr)
{
    const struct dsflow_data_spec *d =
        dsflow_graph_data(call->exec->graph, call->task->data[p]);

    return (struct dsflow_buf){ ptr, d->bytes, d->elems,
                                (enum dsflow_dtype)d->dtype };
}

/* Run a kernel on `bufs`, as worker `w`; none after a disk has failed, but for
 * what calls the host. */
void dsf_exec_run(const struct dsf_exec_call *call,
                  const struct dsflow_buf *bufs, unsigned w);

/* exec_memory.c: the arenas, once the tasks are known. */
int dsf_exec_allocate(struct dsflow_exec *exec, struct dsflow_err *err);
void dsf_exec_free_memory(struct dsflow_exec *exec);
size_t dsf_exec_padded(size_t bytes);
/* Bytes that a piece of data takes in its arena or store. */
size_t dsf_exec_size(const struct dsflow_exec *exec, uint32_t data);

/* Keep the first error of a disk: from now on nothing is computed any more. */
void dsf_exec_fail(struct dsflow_exec *exec, const struct dsflow_err *err);

/* exec_disk.c: reserve the space, if a graph has data on NVMe. Closing waits
 * for what is under way, and may be done twice. */
int dsf_exec_disk_open(struct dsflow_exec *exec,
                       const struct dsflow_disk *options,
                       struct dsflow_err *err);
void dsf_exec_disk_close(struct dsflow_exec *exec);

/* The transfer that task `call` is; nothing is moved after a failure. The caller
 * adds what is called at the end, which calls dsf_exec_disk_done. */
struct dsf_io_request dsf_exec_disk_request(const struct dsf_exec_call *call);

/* It is over: note it, as ring `ring`, with its error if it has one. */
void dsf_exec_disk_done(const struct dsf_exec_call *call,
                        const struct dsf_io_request *request, unsigned ring);

/* dsflow_exec_map of data on NVMe; put back what was changed there; and do so
 * and free the buffer. What fails is the failure of the executor, too. */
void *dsf_exec_disk_map(struct dsflow_exec *exec, uint32_t data,
                        enum dsflow_access access);
int dsf_exec_disk_put_back(struct dsflow_exec *exec, struct dsflow_err *err);
int dsf_exec_disk_unmap(struct dsflow_exec *exec, struct dsflow_err *err);

void dsf_exec_disk_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline);

#endif
