/* meter.h - where the time of each step goes, while the run goes on; and the
 * steps that are to be traced. */
#ifndef DSF_TRAIN_METER_H
#define DSF_TRAIN_METER_H

#include "plan/division.h"
#include "timeline/bound.h"
#include "timeline/shares.h"
#include "trace/trace.h"
#include "train/io_meter.h"
#include "train/metrics.h"
#include "train/session.h"
#include "train/step_path.h"

/* A program that runs in steps. */
struct dsf_meter_program {
    bool counts;     /* it is one; else the rest is 0 */
    double critical; /* critical path of one of its steps; 0: not known yet */
    double search;   /* seconds that finding it took */
    double searched; /* when */
    int64_t *step;   /* by run of it: the step that was, counted from 0 */
    size_t nruns, cap_runs;
};

/* Of so many steps at a time there may be spans. */
enum { DSF_METER_STEPS = 8 };

struct dsf_meter {
    struct dsflow_exec *exec;
    struct dsflow_graph *graph;
    const struct dsflow_plan *plan;
    int64_t done;  /* steps before the first one of this executor */
    int64_t known; /* steps whose program is noted in step[] */
    struct dsf_meter_program *programs; /* by program of the graph */
    struct dsf_step_path *paths;        /* likewise */
    struct dsf_timeline lanes;   /* no spans */
    struct dsf_timeline drained; /* those that ended after the step before, … */
    size_t carried;              /* … of which so many were seen by then */

    double *seconds;   /* by task: what it takes, smoothed */
    uint32_t *ran;     /* by task: how often it was measured */
    double *came; /* by data: the same of messages that a task makes it … */
    uint32_t *ncame; /* … of; NULL: there is one process */
    struct dsf_teams teams;
    struct dsf_load load; /* of the step */
    struct dsf_shares did; /* likewise */
    bool disks, duplex; /* are there any; see dsf_machine_disk */
    unsigned disk;      /* the first lane of them */
    struct dsf_io_meter io;
    struct dsf_processes processes; /* of the ranks, and what these … */
    struct dsf_io_meter sent;       /* … send each other */
    double unsent[DSF_METER_STEPS][DSF_NWIRES]; /* of the messages of steps that
                                                   were not told as yet */

    struct dsf_timeline kept;    /* of them, what goes to the trace */
    struct dsf_trace_file *file; /* NULL: nothing is traced */
    int64_t first, last;         /* steps that are, counted from 0 */
    uint64_t written, lost;      /* spans */
};

/* All is borrowed until fini. `done`: steps before the first one of this
 * executor. `duplex`: of the disk, if there is one. */
void dsf_meter_init(struct dsf_meter *m, struct dsflow_exec *exec,
                    const struct dsflow_plan *plan, struct dsflow_graph *graph,
                    int64_t done, bool duplex);
void dsf_meter_fini(struct dsf_meter *m);

/* Write the spans of steps `first` to `last` of this executor, counted from 0,
 * to `path`. `trace` says all but its timeline. */
int dsf_meter_record(struct dsf_meter *m, struct dsf_trace *trace,
                     const char *path, int64_t first, int64_t last,
                     struct dsflow_err *err);

/* Step `i` of this executor, from 0, took from `from` to `to`, in seconds of
 * dsf_now: fills in its efficiency, its shares and what its disks did. What it
 * says of the loss scale is known. */
void dsf_meter_step(struct dsf_meter *m, int64_t i, double from, double to,
                    struct dsf_step *step);

/* Nothing runs any more: what is left goes to the trace. */
void dsf_meter_end(struct dsf_meter *m);

#endif
