/* exec.h - run a graph: on the calling thread, or on StarPU's workers. */
#ifndef DSFLOW_EXEC_H
#define DSFLOW_EXEC_H

#include <dsflow/codelet.h>
#include <dsflow/graph.h>

DSFLOW_BEGIN_DECLS

struct dsflow_exec;

enum dsflow_exec_kind {
    DSFLOW_SERIAL, /* the tasks in the graph's order: the reference */
    DSFLOW_STARPU
};

struct dsflow_exec_options {
    enum dsflow_exec_kind kind;
    unsigned workers;       /* CPU workers; 0: one per core. StarPU only */
    unsigned ranks;         /* of the graph; the workers are shared out among
                               them. 0 or 1: any worker runs any task */
    unsigned virtuals;      /* virtual devices, each instead of a core */
    size_t virtual_memory;  /* bytes of each virtual device; 0: no limit */
    size_t virtual_link;    /* bytes a second of its link to main memory, which
                               is slowed down to that; 0: as fast as it is */
    const char *scheduler;  /* StarPU's name of one; NULL: the default */
};

/* Time spent, summed since the executor was opened. */
struct dsflow_exec_stats {
    unsigned workers;
    double wall_seconds;   /* from first submit to last wait */
    double kernel_seconds; /* inside kernels, summed over workers */
    uint64_t tasks;
};

/* Allocates the memory of all data and starts the workers. `graph` and `host`
 * are borrowed until close. Errors: DSFLOW_ENOMEM with the bytes asked for,
 * DSFLOW_ENOSYS when a kind of task has no codelet for the workers there are. */
DSFLOW_API int dsflow_exec_open(struct dsflow_graph *graph,
                                const struct dsflow_exec_options *options,
                                const struct dsflow_host *host,
                                struct dsflow_exec **exec,
                                struct dsflow_err *err);
DSFLOW_API void dsflow_exec_close(struct dsflow_exec *exec); /* NULL is fine */

/* Submit the tasks of a phase, after all submitted before; may return before
 * they have run. */
DSFLOW_API int dsflow_exec_submit(struct dsflow_exec *exec,
                                  enum dsflow_phase phase,
                                  struct dsflow_err *err);

/* Until everything submitted has run. */
DSFLOW_API int dsflow_exec_wait(struct dsflow_exec *exec,
                                struct dsflow_err *err);

/* The contents of persistent data in main memory, to read or write; only
 * between a wait and the next submit. Valid until the next submit. */
DSFLOW_API void *dsflow_exec_map(struct dsflow_exec *exec, dsflow_data_id id,
                                 enum dsflow_access access);

/* Bytes of the memory of `rank` that hold something: what has been touched
 * since the executor was opened. */
DSFLOW_API size_t dsflow_exec_resident(const struct dsflow_exec *exec,
                                       unsigned rank);

DSFLOW_API void dsflow_exec_stats(const struct dsflow_exec *exec,
                                  struct dsflow_exec_stats *stats);

DSFLOW_END_DECLS

#endif
