/* exec.h - run a graph: on the calling thread, on a thread for each rank, or on
 * StarPU's workers. */
#ifndef DSFLOW_EXEC_H
#define DSFLOW_EXEC_H

#include <dsflow/codelet.h>
#include <dsflow/graph.h>

DSFLOW_BEGIN_DECLS

struct dsflow_exec;
struct dsf_wire;
struct dsf_graph_part;

enum dsflow_exec_kind {
    DSFLOW_SERIAL, /* the tasks in the graph's order: the reference */
    DSFLOW_STARPU,
    DSFLOW_IN_ORDER /* those of each rank in the graph's order, on a thread of
                       its own: for programs of many short tasks, as nothing is
                       scheduled. Everything is in main memory */
};

/* Files for the data of a graph that is on NVMe. They have no name once they are
 * open, so that nothing of them is left when the program ends, however. */
struct dsflow_disk {
    const char *const *paths; /* folders; bytes are striped over them */
    unsigned npaths;
    size_t block;   /* bytes of a request; 0: 1 MiB */
    unsigned depth; /* requests in flight on each path, of reads and of writes;
                       0: 4 */
    int verify;     /* keep checksums of what is written */
};

struct dsflow_exec_options {
    uint32_t size; /* of this structure: DSFLOW_EXEC_OPTIONS sets it */
    enum dsflow_exec_kind kind;
    unsigned workers;       /* CPU workers; 0: one per core. StarPU only */
    unsigned cores; /* of the machine: where there are more workers, idle
                       ones sleep; 0: it is asked. StarPU only */
    unsigned ranks;         /* of the graph; the workers are shared out among
                               them. 0 or 1: any worker runs any task */
    unsigned virtuals;      /* virtual devices: rank r is on r % virtuals. StarPU
                               only */
    size_t virtual_memory;  /* bytes of each virtual device; 0: no limit */
    size_t virtual_link;    /* bytes a second of its link, in each direction, to
                               which copies are held; 0: as fast as they are */
    unsigned gpus;          /* GPUs, and no virtual devices: rank r is on
                               r % gpus. StarPU only. One of several processes
                               opens those of its ranks */
    const char *scheduler;  /* StarPU's name of one; NULL: the default */
    struct dsflow_disk disk; /* for data on NVMe, if there is any */
    struct dsf_wire *wire; /* to the other processes of a job, which is dsflow's
                              own; NULL: there are none */
    const struct dsf_graph_part *part; /* of the graph: what this process runs,
                              while the others serve it; dsflow's own, too. NULL:
                              all of it */
    void *const *lent; /* by data: its memory, where it is the caller's, until
                          close; aligned to 64 bytes. NULL: the executor's own
                          (of all data, or of this) */
};

/* Options, from those that are not 0. */
#define DSFLOW_EXEC_OPTIONS(...)                                               \
    DSFLOW_OF(dsflow_exec_options, .size = sizeof(struct dsflow_exec_options), \
              __VA_ARGS__)

/* Time spent, summed since the executor was opened. */
struct dsflow_exec_stats {
    unsigned workers;      /* devices, where there are some, or else cores */
    double wall_seconds;   /* from first submit to last wait */
    double kernel_seconds; /* inside kernels, summed over workers */
    uint64_t tasks;
};

/* Allocates the memory of all data and starts the workers; reserves the space
 * on the disks. `graph` and `host` are borrowed until close. Errors:
 * DSFLOW_ENOMEM with the bytes asked for, DSFLOW_EFIT where a device has not as
 * many, DSFLOW_EINVAL for options of another size, DSFLOW_EIO when there is no
 * room on a disk, DSFLOW_ENOSYS when a kind of task has no codelet for the
 * workers there are, or GPUs cannot be used, DSFLOW_EFAIL where another one of
 * StarPU is open. */
DSFLOW_API int dsflow_exec_open(struct dsflow_graph *graph,
                                const struct dsflow_exec_options *options,
                                const struct dsflow_host *host,
                                struct dsflow_exec **exec,
                                struct dsflow_err *err);
DSFLOW_API void dsflow_exec_close(struct dsflow_exec *exec); /* NULL is fine */

/* Submit the tasks of a program of the graph, after all submitted before; may
 * return before they have run. Errors: DSFLOW_EINVAL where the graph has no
 * such program; as dsflow_exec_failed. */
DSFLOW_API int dsflow_exec_submit(struct dsflow_exec *exec,
                                  dsflow_program program,
                                  struct dsflow_err *err);

/* Until everything submitted has run. DSFLOW_EIO: a disk or a copy of a device
 * failed (as below). */
DSFLOW_API int dsflow_exec_wait(struct dsflow_exec *exec,
                                struct dsflow_err *err);

/* Has a disk or a device failed? Then what was submitted runs to its end
 * without computing anything but what calls the host, nothing more is accepted,
 * and no contents mean anything any more: DSFLOW_EIO, with the path or the
 * device, and the reason. May be called at any time, from any thread. */
DSFLOW_API int dsflow_exec_failed(const struct dsflow_exec *exec,
                                  struct dsflow_err *err);

/* The contents of persistent data in main memory, to read or write; only
 * between a wait and the next submit. Valid until the next submit; that of data
 * on NVMe or on a device until the next map, as there is one buffer for all of
 * them. NULL: a disk or a device failed. */
DSFLOW_API void *dsflow_exec_map(struct dsflow_exec *exec, dsflow_data_id id,
                                 enum dsflow_access access);

/* Bytes of the memory of `rank` that hold something: what has been touched
 * since the executor was opened; of files and of devices, what was taken. With
 * the scratch of its workers or its device, of which ranks that share it have
 * equal parts. What stands in main memory as the host or cores work on it
 * counts for the tier device where ranks are cores, and for none on devices. */
DSFLOW_API size_t dsflow_exec_resident(const struct dsflow_exec *exec,
                                       unsigned rank, enum dsflow_tier tier);

/* Only between a wait and the next submit. */
DSFLOW_API void dsflow_exec_stats(const struct dsflow_exec *exec,
                                  struct dsflow_exec_stats *stats);

DSFLOW_END_DECLS

#endif
