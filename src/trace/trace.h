/* trace.h - a timeline with all that is needed to read it: the graph, where
 * and how it ran, what was predicted. It is kept in one file, and everything
 * that shows or explains a timeline starts from it. */
#ifndef DSF_TRACE_TRACE_H
#define DSF_TRACE_TRACE_H

#include <stdbool.h>
#include <dsflow/graph.h>

#include "graph/traffic.h"
#include "timeline/timeline.h"

/* Of one task of the graph. */
struct dsf_trace_task {
    double flops, bytes; /* its cost */
    struct dsf_traffic moves; /* what it reads of other ranks */
    double predicted; /* seconds of the kernel, in the prediction of the run;
                         of a simulation, with what a task takes beside it;
                         < 0: none */
};

/* An axis of the mesh, in the order of the keys of [mesh]. */
#define DSF_TRACE_AXES 8
struct dsf_trace_axis {
    char name[32];
    unsigned size, stride; /* ranks along it; from one to the next */
};

struct dsf_trace_facts {
    char *name;       /* of the job */
    char *job;        /* job.toml, with what --set changed */
    char *machine;    /* the name of its description */
    char *rates;      /* the description, as TOML; "": none */
    char *executor;   /* "starpu", "serial", "simulation" */
    bool simulated;
    bool duplex;      /* the disk reads and writes at the same time */
    unsigned nranks;
    struct dsf_trace_axis axes[DSF_TRACE_AXES]; /* of the mesh */
    unsigned naxes;
    unsigned cores;   /* of the machine: it may have more than workers */
    int64_t first;    /* number, from 1, of the step whose spans have step 0 */
    uint64_t steps;   /* bit p: program p runs in steps; 0 does in any case */
    int64_t tokens;   /* of a step */
    int64_t vocab;    /* of the model: the tokenizer's where the job is silent */
    double memory;    /* bytes that a rank may use; < 0: no limit */
    double predicted; /* seconds of a step; < 0: not known */
    double bound;     /* seconds below which no step can come, predicted */
};

/* A step, as what ran it or simulated it has it. */
struct dsf_lap {
    bool ran;               /* else the rest is 0 */
    dsflow_program program; /* that the step ran */
    double begin, end; /* of a run, from report to report; of a simulation, from
                          the end of the step before to its own */
    double critical;   /* the critical path through tasks like its own */
    double bound;      /* no order of them takes less: dsf_bound_seconds; NAN:
                          not known, as of the first step of a run */
    double idle;       /* share of the workers' time */
    double loss_scale; /* that the loss was multiplied by; 0: losses are not
                          scaled, or nothing was computed */
    bool skipped;      /* it updated nothing */
};

/* By the `step` of spans: the first ones may not have been traced. */
struct dsf_laps {
    struct dsf_lap *v;
    unsigned first, n; /* the first that ran; 1 + the last, or 0 */
};
void dsf_laps_add(struct dsf_laps *laps, unsigned step,
                  const struct dsf_lap *lap);
void dsf_laps_fini(struct dsf_laps *laps);

struct dsf_trace {
    struct dsf_trace_facts facts;
    struct dsflow_graph *graph;
    struct dsf_trace_task *tasks;  /* by task of the graph */
    struct dsf_timeline timeline;  /* in order of start */
    struct dsf_laps laps;          /* its steps */
    bool cut;                      /* the run did not end by itself */
    struct dsf_trace_ops *ops;     /* of a graph that was read; NULL else */
};

/* Ranks along the axis of this name, and the coordinate of a rank on it: 1 and 0
 * where there is none. */
unsigned dsf_trace_axis(const struct dsf_trace_facts *facts, const char *axis);
unsigned dsf_trace_coord(const struct dsf_trace_facts *facts, unsigned rank,
                         const char *axis);

/* "rank 5"; where several axes have more than one rank, with its coordinates on
 * them: "rank 5 (data 1 pipeline 0)". No comma, which ends a field for
 * readers of Paje. */
struct dsf_rank_text {
    char s[160];
};
struct dsf_rank_text dsf_trace_rank_text(const struct dsf_trace_facts *facts,
                                         unsigned rank);

/* "data 2 x pipeline 1 x tensor 4". */
void dsf_trace_mesh_text(const struct dsf_trace_facts *facts, char *text,
                         size_t size);

/* Is it a task of a program that runs in steps? Then `step` of the span is the
 * number of the step, whichever program that runs; of other tasks, executions
 * before. */
bool dsf_trace_is_step(const struct dsf_trace *trace,
                       const struct dsf_span *span);

/* The number of the step, from 1, that it is a task of; 0 if it is of none. */
long long dsf_trace_step_of(const struct dsf_trace *trace,
                            const struct dsf_span *span);

/* What a graph costs: fills trace->tasks from trace->graph; nothing is
 * predicted as yet. `node_of` as in traffic.h. */
void dsf_trace_weigh(struct dsf_trace *trace, const int32_t *node_of);

/* Frees what reading made: also the graph, when it was read. */
void dsf_trace_fini(struct dsf_trace *trace);

/* A file is written from the front: all but the spans and the steps when it is
 * created, these as they come, so that what a killed run leaves is readable.
 * The lanes of the timeline are written, its spans not. */
struct dsf_trace_file;
int dsf_trace_create(const char *path, const struct dsf_trace *trace,
                     struct dsf_trace_file **file, struct dsflow_err *err);
int dsf_trace_append(struct dsf_trace_file *file, const struct dsf_span *spans,
                     size_t n, struct dsflow_err *err);
/* Steps in their order. */
int dsf_trace_append_lap(struct dsf_trace_file *file, unsigned step,
                         const struct dsf_lap *lap, struct dsflow_err *err);
/* NULL is fine. `whole`: the timeline ends here because it was to. */
int dsf_trace_close(struct dsf_trace_file *file, bool whole,
                    struct dsflow_err *err);
/* Close it, and remove what there is of it; NULL is fine. */
void dsf_trace_drop(struct dsf_trace_file *file);

/* The first step in the timeline is step 0, whatever it was in the file, and
 * facts.first its number. The ops of the graph have the names, ports and `comm`
 * of those that ran, and can be neither checked nor run: their costs are in
 * trace->tasks. Errors: DSFLOW_EINVAL "path: is no trace of dsflow", or of
 * another version; DSFLOW_EIO. On error `trace` needs no fini. */
int dsf_trace_read(const char *path, struct dsf_trace *trace,
                   struct dsflow_err *err);

#endif
