/* exec_private.h - what the executors share. */
#ifndef DSF_EXEC_EXEC_PRIVATE_H
#define DSF_EXEC_EXEC_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <dsflow/exec.h>

#include "exec/device.h"
#include "exec/exec_use.h"
#include "io/io.h"
#include "timeline/timeline.h"

/* One task as an executor sees it; lives as long as the executor. */
struct dsf_exec_call {
    struct dsflow_exec *exec;
    const struct dsflow_task_spec *task;
    const struct dsflow_codelet *codelet;
    uint8_t by;    /* enum dsf_exec_by: who does it */
    uint8_t queue; /* enum dsf_queue, of a device */
    bool staged;   /* by a core or a disk, but some of its data is on a device */
    bool lacking; /* its device has no kernel for it: a core does it, staged */
    const char *lacks; /* … only for tasks of its kind that have this */
    bool ahead; /* what follows it need not wait for its end: all of it is in the
                   same queue */
    const struct dsf_gpu_side *side; /* its kernel there, if that is neither the
                                        codelet's nor the CPU's */
    struct dsf_device *device; /* that does it */
    const struct dsf_exec_use *use; /* NULL: as the graph says */
};

enum dsf_exec_by { DSF_BY_CORE, DSF_BY_DISK, DSF_BY_DEVICE, DSF_BY_WIRE };

/* An executor; exec.c does for all what does not differ. */
struct dsf_exec_class {
    int (*open)(struct dsflow_exec *exec,
                const struct dsflow_exec_options *options,
                struct dsflow_err *err);
    void (*close)(struct dsflow_exec *exec);
    int (*submit)(struct dsflow_exec *exec, uint32_t first, uint32_t last,
                  struct dsflow_err *err);
    int (*wait)(struct dsflow_exec *exec, struct dsflow_err *err);
    /* Of workers: devices, then the cores beside them; or cores. */
    void (*lanes)(const struct dsflow_exec *exec,
                  struct dsf_timeline *timeline);
};
extern const struct dsf_exec_class dsf_exec_serial, dsf_exec_starpu,
    dsf_exec_in_order;

/* What one worker counts for itself; a cache line each. */
struct dsf_exec_worker {
    void *scratch;
    size_t scratch_bytes;
    struct dsflow_buf *bufs; /* of the task it runs: room for any */
    double busy; /* seconds inside kernels, */
    double lacking; /* and of those, in what devices have no kernels for */
    _Atomic uint64_t tasks;
    _Atomic uint32_t runs; /* a task, + 1; 0: none */
    char pad[64 - 3 * sizeof(void *) - 2 * sizeof(double) -
             2 * sizeof(uint64_t)];
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

/* The data of one rank in one place: one piece of memory, but for NVMe. */
struct dsf_arena {
    void *at;
    size_t bytes, used;
    size_t pinned;  /* in front: what devices reach */
    size_t scratch; /* behind: the working memory of a device */
};

/* Places are tiers; and main memory that stands for that of a device: what the
 * program around the graph reads and writes there. */
enum { DSF_PLACE_NEAR = DSFLOW_NTIERS, DSF_NPLACES };

/* Buffers in main memory that devices reach, of one size: what a core or a disk
 * has to do with data on a device goes through one. */
struct dsf_stage_wait;
struct dsf_stage {
    pthread_mutex_t lock;
    void *at;
    size_t each, bytes; /* of a buffer; of all */
    unsigned n;
    bool *taken;
    struct dsf_stage_wait *first, **last;
};

/* What is on NVMe, of all ranks: one store. */
struct dsf_exec_disk {
    struct dsf_io *io; /* NULL: nothing is there */
    int64_t *at;       /* by data: where in the store */
    unsigned lane;     /* of reads; writes have the next */
    double until[2];   /* by enum dsf_io_op: the end of the last span */
    _Atomic uint64_t tasks;
};

/* Messages to and from other processes. */
struct dsf_exec_wire {
    pthread_mutex_t lock; /* of who notes them */
    unsigned lane;        /* of those that come; those that go have the next */
    double until[2];      /* by whether it goes: the end of the last span */
    struct dsf_posting *first, *last; /* of what is to come, oldest first */
    _Atomic uint64_t tasks;
};

/* What dsflow_exec_map shows of data that is not in main memory: one at a
 * time. */
struct dsf_exec_window {
    void *at; /* NULL: no buffer */
    size_t bytes;
    uint32_t shown; /* the datum, where `dirty` */
    bool dirty;
};

struct dsflow_exec {
    struct dsf_spread *spread; /* spread.c: it is of a graph that several
                                  processes run; NULL: it is of this one's */
    const struct dsf_exec_class *class;
    struct dsflow_graph *graph;
    const struct dsflow_host *outer; /* whose functions `host` calls, */
    struct dsflow_host host;         /* one report at a time */
    pthread_mutex_t reporting;
    struct dsf_exec_call *calls; /* by task */
    void **mem; /* by data: where in its memory; NULL: it is on NVMe */
    void *const *lent; /* by data: the caller's memory; or NULL */
    struct dsf_device **on; /* by data: the device; NULL: main memory, or NVMe */
    uint8_t *place; /* by data: a tier, or DSF_PLACE_NEAR */
    bool *paged; /* by data: the disk has to do with it, in whole pages */
    bool *pinned; /* by data: it is in main memory, and devices reach it */
    struct dsf_arena (*arenas)[DSF_NPLACES]; /* by rank */
    unsigned first_rank, nranks; /* data is of the first one to nranks - 1 */
    struct dsf_device *devices; /* beside the cores, */
    unsigned ndevices;
    struct dsf_device *cpu; /* and these */
    struct dsf_exec_disk disk;
    struct dsf_wire *wire; /* to other processes; NULL: there are none */
    struct dsf_exec_wire wired;
    struct dsf_direct *direct; /* from GPU to GPU; or NULL */
    struct dsf_exec_window window;
    struct dsf_stage stage;
    _Atomic uint64_t copied; /* tasks that were copies of devices */
    struct dsflow_err failure; /* the first, once `failed` says so */
    _Atomic int failing, failed;
    uint32_t most_ports; /* of a task */
    struct dsf_exec_worker *workers; /* cores, then devices */
    unsigned nworkers;
    struct dsf_exec_ring *rings; /* by worker, then of the others */
    uint64_t most_spans;         /* of each ring */
    double *worked;              /* by task: see dsf_exec_time_tasks; or NULL */
    _Atomic uint32_t *runs;      /* by task: how often it has run */
    uint32_t *submitted;         /* by program: how often */
    double opened, wall;
    double busy_since; /* time of the first submit since the last wait */
    void *priv;        /* of the class */
};

/* Does worker `w` of `n` work for rank `rank` of `ranks`? Each worker has one
 * rank; where there are more ranks than workers, several share one. */
bool dsf_exec_works_for(unsigned w, unsigned n, unsigned rank, unsigned ranks);

/* Set up `n` cores, each with its scratch memory, and the devices behind them. */
int dsf_exec_add_workers(struct dsflow_exec *exec, unsigned n,
                         struct dsflow_err *err);

/* Rings of threads that are no workers: that of the disks, that of messages,
 * and behind them two for each device, of its copies in and out. */
enum dsf_other_ring { DSF_RING_DISK, DSF_RING_WIRE, DSF_NOTHER_RINGS };

/* exec_trace.c: note a span, as worker `ring`, or nworkers + one of those. */
void dsf_exec_add_rings(struct dsflow_exec *exec);
void dsf_exec_free_rings(struct dsflow_exec *exec);
void dsf_exec_note(struct dsflow_exec *exec, unsigned ring,
                   const struct dsf_span *span);

/* A task has run once more: how often it had before. */
uint32_t dsf_exec_count_run(struct dsflow_exec *exec, uint32_t task);

/* Memory of a device for `what`, in whole pages, if *bytes > 0: makes them
 * such. */
int dsf_exec_take(struct dsf_device *device, size_t *bytes, const char *what,
                  void **at, struct dsflow_err *err);

/* The data of port `p` as a kernel sees it, at `ptr`. */
static inline struct dsflow_buf dsf_exec_buf(const struct dsf_exec_call *call,
                                             unsigned p, void *ptr)
{
    const struct dsflow_data_spec *d =
        dsflow_graph_data(call->exec->graph, call->task->data[p]);
    const enum dsflow_dtype dtype = (enum dsflow_dtype)d->dtype;
    const struct dsf_exec_rows *r = call->use == NULL || call->use->rows == NULL
                                        ? NULL
                                        : &call->use->rows[p];

    if (r == NULL || r->elems == 0)
        return (struct dsflow_buf){ ptr, d->bytes, d->elems, dtype };
    return (struct dsflow_buf){ (char *)ptr + dsflow_dtype_bytes(dtype, r->from),
                                dsflow_dtype_bytes(dtype, r->elems), r->elems,
                                dtype };
}

/* A launch of a task on `bufs`, with the scratch of worker `w`: of nothing once
 * something has failed, but for what calls the host. `by_port` has room for
 * DSF_SPREAD_PORTS. */
void dsf_exec_prepare(const struct dsf_exec_call *call,
                      const struct dsflow_buf *bufs, struct dsflow_buf *by_port,
                      unsigned w, struct dsf_launch *launch);

/* Run it on a core, worker `w`. */
void dsf_exec_run(const struct dsf_exec_call *call,
                  const struct dsflow_buf *bufs, unsigned w);

/* Worker `w` is done with it. */
void dsf_exec_ran(const struct dsf_exec_call *call, unsigned w,
                  const struct dsf_launch *launch);

/* exec_place.c: the place of all data, and who does which task; once the devices
 * are there. */
void dsf_exec_place(struct dsflow_exec *exec);
/* The rank whose memory holds `data`: what has no home is in that of rank 0. */
unsigned dsf_exec_home(const struct dsflow_exec *exec, uint32_t data);
/* Which ranks have data here: of one of several processes, its own. */
void dsf_exec_find_ranks(struct dsflow_exec *exec);
/* The device of a rank, where there are devices. */
struct dsf_device *dsf_exec_device_of(const struct dsflow_exec *exec,
                                      unsigned rank);

/* exec_device.c: open the devices that the options ask for; until all that was
 * launched has ended; and close them. */
int dsf_exec_open_devices(struct dsflow_exec *exec,
                          const struct dsflow_exec_options *options,
                          struct dsflow_err *err);
void dsf_exec_wait_devices(struct dsflow_exec *exec);
void dsf_exec_close_devices(struct dsflow_exec *exec);

/* Launch a task on its device. ended(user) is called when what follows it may
 * begin. */
typedef void (*dsf_ended_fn)(void *user);
void dsf_exec_device_begin(const struct dsf_exec_call *call, dsf_ended_fn ended,
                           void *user);

/* Copy `bytes`, from `at` on, of data of a device from (`in`: to) main memory
 * that it reaches, and call ended(user). Nothing is copied after a failure. */
void dsf_exec_copy(struct dsflow_exec *exec, uint32_t data, size_t at,
                   size_t bytes, void *near, bool in, dsf_ended_fn ended,
                   void *user);
/* The same with all of it, and wait for it. */
int dsf_exec_copy_now(struct dsflow_exec *exec, uint32_t data, void *near,
                      bool in, struct dsflow_err *err);

/* A lane for each device and direction, behind those of workers. */
void dsf_exec_link_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline);

/* exec_stage.c: the buffers, if a task needs some; the bytes of one, and how
 * many there are of that size. */
int dsf_exec_stage_open(struct dsflow_exec *exec, struct dsflow_err *err);
size_t dsf_exec_stage_each(const struct dsflow_exec *exec);
unsigned dsf_exec_stage_count(size_t each, unsigned cores);
void dsf_exec_stage_close(struct dsflow_exec *exec);
/* got(wait) is called with a buffer, now or when one is given back. */
struct dsf_stage_wait {
    void (*got)(struct dsf_stage_wait *wait);
    void *buffer;
    struct dsf_stage_wait *next;
};
void dsf_exec_stage_take(struct dsflow_exec *exec, struct dsf_stage_wait *wait);
void dsf_exec_stage_give(struct dsflow_exec *exec, void *buffer);

/* A staged task of a core: bring what it reads of devices into a buffer, and
 * call ended(user); then run it as worker `w`; then take back what it wrote,
 * call ended(user), and forget it. */
struct dsf_staged;
struct dsf_staged *dsf_exec_staged_new(const struct dsf_exec_call *call);
const struct dsf_exec_call *dsf_exec_staged_call(const struct dsf_staged *s);
void dsf_exec_staged_fetch(struct dsf_staged *s, dsf_ended_fn ended,
                           void *user);
void dsf_exec_staged_run(struct dsf_staged *s, unsigned w);
void dsf_exec_staged_return(struct dsf_staged *s, dsf_ended_fn ended,
                            void *user);

/* Bytes of scratch memory that a task wants which runs on `device`. */
size_t dsf_exec_most_scratch(const struct dsflow_exec *exec,
                             const struct dsf_device *device);

/* exec.c: the codelets of the tasks. */
int dsf_exec_find_codelets(struct dsflow_exec *exec, struct dsflow_err *err);

/* exec_memory.c: how large the arenas are, once it is known who does the tasks;
 * and the arenas. */
void dsf_exec_size_arenas(struct dsflow_exec *exec);
int dsf_exec_allocate(struct dsflow_exec *exec, struct dsflow_err *err);
/* The scratch memory of a device: behind the data of its first rank. */
void *dsf_exec_scratch(const struct dsflow_exec *exec,
                       const struct dsf_device *device);
/* Bytes of it that are a rank's, where several share the device: equal parts.
 */
size_t dsf_exec_scratch_of(const struct dsflow_exec *exec, unsigned rank);
void dsf_exec_free_memory(struct dsflow_exec *exec);
/* Bytes that a piece of data takes in its arena or store. */
size_t dsf_exec_size(const struct dsflow_exec *exec, uint32_t data);

/* Keep the first error of a disk, a device or a message: from now on nothing is
 * computed any more. From any thread. */
void dsf_exec_fail(struct dsflow_exec *exec, const struct dsflow_err *err);

/* exec_disk.c: reserve the space, if a graph has data on NVMe. Closing waits
 * for what is under way, and may be done twice. */
int dsf_exec_disk_open(struct dsflow_exec *exec,
                       const struct dsflow_disk *options,
                       struct dsflow_err *err);
void dsf_exec_disk_close(struct dsflow_exec *exec);

/* The transfer that task `call` is; nothing is moved after a failure. Do it now;
 * or begin it, and call ended(user) at its end. */
void dsf_exec_disk_run(const struct dsf_exec_call *call);
void dsf_exec_disk_begin(const struct dsf_exec_call *call, dsf_ended_fn ended,
                         void *user);

/* exec_window.c: dsflow_exec_map of data that is not in main memory; put back
 * what was changed there; and do so and free the buffer. What fails is the
 * failure of the executor, too. */
void *dsf_exec_window_map(struct dsflow_exec *exec, uint32_t data,
                          enum dsflow_access access);
int dsf_exec_window_put_back(struct dsflow_exec *exec, struct dsflow_err *err);
int dsf_exec_window_unmap(struct dsflow_exec *exec, struct dsflow_err *err);
void dsf_exec_window_free(struct dsflow_exec *exec);

void dsf_exec_disk_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline);

/* exec_wire.c: can the messages of the graph be carried? */
int dsf_exec_wire_check(const struct dsflow_exec *exec, struct dsflow_err *err);

/* The task that has waited longest for a message, from which process, and since
 * when (of dsf_now); from any thread. */
bool dsf_exec_wire_awaits(struct dsflow_exec *exec, uint32_t *task,
                          int32_t *from, double *since);
/* The messages that task `call` is, also after a failure: another process waits
 * for them. Wait for their end; or begin them, and call ended(user) at it. */
void dsf_exec_wire_run(const struct dsf_exec_call *call);
void dsf_exec_wire_begin(const struct dsf_exec_call *call, dsf_ended_fn ended,
                         void *user);

/* Behind all other lanes. */
void dsf_exec_wire_lanes(const struct dsflow_exec *exec,
                         struct dsf_timeline *timeline);

#endif
