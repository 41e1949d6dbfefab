/* exec_private.h - what the executors share. */
#ifndef DSF_EXEC_EXEC_PRIVATE_H
#define DSF_EXEC_EXEC_PRIVATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <dsflow/exec.h>

#include "trace/timeline.h"

/* One task as an executor sees it; lives as long as the executor. */
struct dsf_exec_call {
    struct dsflow_exec *exec;
    const struct dsflow_task_spec *task;
    const struct dsflow_codelet *codelet;
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
    double busy; /* seconds inside kernels */
    uint64_t tasks;
    char pad[64 - sizeof(void *) - sizeof(double) - sizeof(uint64_t)];
};

/* Spans that one thread noted and nobody has taken out. */
struct dsf_exec_ring {
    struct dsf_span *v;
    uint64_t mask;
    _Atomic uint64_t put, lost;
    char pad[32]; /* who puts and who takes have a cache line each */
    _Atomic uint64_t taken;
};

/* The memory of one rank: all its data, in one mapping. */
struct dsf_arena {
    char *at;
    size_t bytes, used;
};

struct dsflow_exec {
    const struct dsf_exec_class *class;
    struct dsflow_graph *graph;
    const struct dsflow_host *host;
    struct dsf_exec_call *calls;            /* by task */
    uint32_t phase_end[DSFLOW_NPHASES];     /* tasks of phase p end here */
    void **mem;                             /* by data: in main memory */
    struct dsf_arena *arenas;               /* by rank */
    unsigned narenas;
    size_t scratch_bytes;
    struct dsf_exec_worker *workers;
    unsigned nworkers;
    struct dsf_exec_ring *rings; /* by worker, and one for other threads */
    uint32_t *runs;              /* by task: how often it has run */
    double link_rate;            /* bytes/s of a slowed down link; 0: as it is */
    double opened, wall;
    double busy_since; /* time of the first submit since the last wait */
    void *priv;        /* of the class */
};

/* Set up `n` workers, each with its scratch memory. */
int dsf_exec_add_workers(struct dsflow_exec *exec, unsigned n,
                         struct dsflow_err *err);

/* exec_trace.c: note a span, as worker `ring` (nworkers: none of them). */
void dsf_exec_add_rings(struct dsflow_exec *exec);
void dsf_exec_free_rings(struct dsflow_exec *exec);
void dsf_exec_note(struct dsflow_exec *exec, unsigned ring,
                   const struct dsf_span *span);

/* Run a kernel on `bufs`, as worker `w`. */
void dsf_exec_run(const struct dsf_exec_call *call,
                  const struct dsflow_buf *bufs, unsigned w);

#endif
