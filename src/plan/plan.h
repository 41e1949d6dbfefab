/* plan.h - every choice about a step, before there is a graph. */
#ifndef DSF_PLAN_PLAN_H
#define DSF_PLAN_PLAN_H

#include <stdbool.h>
#include <stdio.h>
#include <dsflow/graph.h>

#include "config/job.h"
#include "machine/machine.h"
#include "model/model.h"

/* Rows of a micro-batch that one task works on: `nseq` whole sequences from
 * `seq` on, or a piece of sequence `seq` from token `pos`. */
struct dsf_piece {
    int32_t rows, nseq, seq, pos;
};

struct dsflow_plan {
    const struct dsf_job *job; /* borrowed, all three */
    const struct dsf_model *model;
    const struct dsf_machine *machine;

    unsigned workers;      /* CPU workers and virtual devices */
    int32_t sequence;      /* tokens */
    int32_t micro;         /* sequences of a micro-batch */
    int32_t nmicro;        /* micro-batches of a step */
    int32_t groups;        /* of micro-batches, each with gradients of its own */
    struct dsf_piece *tiles; /* of a micro-batch */
    int32_t ntiles;
    int32_t in_flight;     /* ring of activations, in micro-batches */
    int32_t logits;        /* ring of logits, in tiles */
    int32_t depth;         /* ring of gradients of activations, in layers */
    bool no_update;        /* leave the optimizer out: gradients stay */

    void *parts[DSF_MAX_POLICIES]; /* by position in dsf_policies */
};

/* The job, the model and the machine are borrowed until the plan is freed.
 * Decides what needs no policy; dsf_policies_build does the rest. */
int dsf_plan_new(const struct dsf_job *job, const struct dsf_model *model,
                 const struct dsf_machine *machine, struct dsflow_plan **plan,
                 struct dsflow_err *err);
void dsf_plan_free(struct dsflow_plan *plan);

/* What a graph weighs, as `dsflow plan` prints it. */
struct dsf_weight {
    double role_bytes[DSFLOW_NROLES];
    double scratch; /* of one worker */
    double total;   /* roles + workers * scratch */
    uint32_t ntasks, ndata, nedges; /* of phase STEP; data of all */
};
void dsf_plan_weigh(const struct dsflow_plan *plan, struct dsflow_graph *g,
                    struct dsf_weight *weight);

/* Lines for people, and the plan.json of DESIGN 9. */
int dsf_plan_print(const struct dsflow_plan *plan, struct dsflow_graph *g,
                   FILE *out);
int dsf_plan_write_json(const struct dsflow_plan *plan, struct dsflow_graph *g,
                        FILE *out, struct dsflow_err *err);

#endif
