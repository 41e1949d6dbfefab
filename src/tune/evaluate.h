/* evaluate.h - what comes of a job with some keys changed: is there a plan,
 * what does it need, how long does a step take? */
#ifndef DSF_TUNE_EVALUATE_H
#define DSF_TUNE_EVALUATE_H

#include "tune/budget.h"
#include "tune/tunables.h"

/* Changes at once, each of another row; NULL: none of that row. */
enum { DSF_MAX_CHANGES = 24 };
struct dsf_choice {
    const struct dsf_change *v[DSF_MAX_CHANGES];
    unsigned n;
};

/* "batch.micro=4 zero.stage=1"; freed by the caller. */
char *dsf_choice_text(const struct dsf_choice *choice);

/* What is built of a choice. All zero: nothing is. */
struct dsf_built {
    struct dsf_job *job;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
};
void dsf_built_fini(struct dsf_built *b);

/* Of a rank: the one that needs most. */
struct dsf_outcome {
    int status; /* < 0: there is no plan, or no time of it, for the reason … */
    struct dsflow_err err;          /* … that this says */
    bool fits;                      /* every rank in its memories; else … */
    struct dsf_shortfall shortfall; /* … what lacks most */
    double peak, host; /* bytes of the device, and of main memory beside it */
    double gradients;  /* bytes, in all memories */
    double share;      /* of offloaded states, that the devices have room for */
    uint32_t tasks;
    int32_t slots, micro_steps; /* of a chunk of layers, the most */
    bool timed;
    double seconds; /* of a step; only where `timed` */
};

/* How long a step takes; `effect`: what is not of the job. */
typedef int (*dsf_seconds_fn)(void *user, const struct dsflow_plan *plan,
                              struct dsflow_graph *graph,
                              const struct dsf_effect *effect, double *seconds,
                              struct dsflow_err *err);

/* Tries choices: none is built twice while it is remembered, or is the last. */
struct dsf_evaluator {
    const struct dsf_job
        *job; /* that is changed; borrowed, as is all up to … */
    const struct dsf_model *model;
    const struct dsf_machine *machine;
    const struct dsf_machine_model *m; /* NULL: the present machine */
    const struct dsflow_plan *plan;    /* of `job`, with its graph: where */
    struct dsflow_graph *graph;        /* nothing is changed. NULL: none yet */
    dsf_seconds_fn seconds;
    void *user;         /* … here */
    enum dsf_said said; /* who says what is changed */

    unsigned builds;       /* how often a graph was built */
    uint64_t tasks;        /* of all graphs that were looked at */
    char *text;            /* the choice that was built last, … */
    struct dsf_built last; /* … unless it was taken */
    struct dsf_remembered {
        char *text;
        struct dsf_outcome outcome;
    } * known;
    size_t n, cap;
};
/* All that was tried is forgotten, and what was built of it freed. */
void dsf_evaluator_forget(struct dsf_evaluator *e);

/* `timed`: how long a step takes is asked, too. */
void dsf_evaluate(struct dsf_evaluator *e, const struct dsf_choice *choice,
                  bool timed, struct dsf_outcome *out);

/* The plan and the graph of a choice, which is built again only if it is not
 * the last. */
int dsf_evaluator_take(struct dsf_evaluator *e, const struct dsf_choice *choice,
                       struct dsf_built *out, struct dsflow_err *err);

#endif
