/* plan_report.h - a plan, its graph and what it will take: `dsflow plan`. */
#ifndef DSF_SIM_PLAN_REPORT_H
#define DSF_SIM_PLAN_REPORT_H

#include "sim/predict.h"
#include "sim/weights.h"

/* The checkpoints of a run, on disk. INFINITY: it is not known how many. */
struct dsf_plan_saves {
    double bytes; /* of one */
    double n;     /* that the run saves, … */
    double kept;  /* … those of them that stay, … */
    double most;  /* … and those that are there at a time */
};

/* What a plan is reported with. */
struct dsf_plan_facts {
    const struct dsf_machine_model *machine;  /* what it is for */
    const struct dsf_weights *weights;        /* of the graph, there */
    const struct dsf_prediction *prediction;  /* NULL: nothing is said of time */
    double budget[DSFLOW_NTIERS]; /* bytes of a rank; INFINITY: no limit */
    bool some; /* the weights are of all ranks, the graph has not all tasks:
                  nothing is said of single ones and of programs */
    const struct dsf_plan_saves *saves; /* NULL: nothing is said of them */
    const char *on; /* the GPU that runs it; NULL: cores, or nobody */
};

/* Lines for people, and plan.json. */
int dsf_plan_report(const struct dsflow_plan *plan, struct dsflow_graph *g,
                    const struct dsf_plan_facts *facts, FILE *out);
int dsf_plan_report_json(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_plan_facts *facts, FILE *out,
                         struct dsflow_err *err);

#endif
