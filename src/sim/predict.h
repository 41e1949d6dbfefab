/* predict.h - what a step of a plan will take on a machine. */
#ifndef DSF_SIM_PREDICT_H
#define DSF_SIM_PREDICT_H

#include "machine/machine_model.h"
#include "plan/plan.h"
#include "sim/cost.h"
#include "sim/sim.h"

struct dsf_prediction {
    struct dsf_sim_result sim; /* of a step in the middle of a run */
    unsigned workers;          /* cores, or GPUs, or virtual devices */
    bool links;                /* that work beside them */
    struct dsf_processes processes; /* that the ranks are in */
    double *seconds; /* by program of the graph; NULL: not asked for */
};

/* Errors: DSFLOW_EINVAL where data are on NVMe and the machine has no disk. */
int dsf_predict(const struct dsflow_plan *plan, struct dsflow_graph *g,
                const struct dsf_machine_model *machine,
                struct dsf_prediction *out, struct dsflow_err *err);

/* The same, and when each task runs. */
int dsf_predict_timeline(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_machine_model *machine,
                         struct dsf_prediction *out,
                         struct dsf_timeline *timeline, struct dsflow_err *err);
/* The seconds of each program too, where it runs again and again. After
 * dsf_predict. */
int dsf_predict_programs(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_machine_model *machine,
                         struct dsf_prediction *out, struct dsflow_err *err);
/* What a schedule on GPUs has beside ranks, workers and node_ranks, which are
 * there: links, cores, and launches, whose time no cost has. */
void dsf_predict_on_gpus(const struct dsf_machine_model *machine,
                         struct dsf_sim_spec *spec);
/* The same of a schedule on virtual devices, and its workers: the devices. */
void dsf_predict_on_virtuals(const struct dsflow_plan *plan,
                             struct dsf_sim_spec *spec);
void dsf_prediction_fini(struct dsf_prediction *p);

#endif
