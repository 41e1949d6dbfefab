/* reference_private.h - what the parts of the reference policy share. */
#ifndef DSF_POLICIES_REFERENCE_PRIVATE_H
#define DSF_POLICIES_REFERENCE_PRIVATE_H

#include "policies/policies.h"
#include "tasks/components.h"
#include "tasks/tasks.h"

/* Gradients of one unit, added up apart for each group. */
struct gradients {
    dsflow_data_id *of;  /* [groups] */
    bool *begun;         /* [groups]: it has contents */
    dsflow_data_id sum;  /* of the rounds, with reduce_micro */
    bool has_sum;
};

/* The data of one unit of parameters. A tied embedding has gradients of its own
 * from the head: one order of sums, whether or not both are on one rank. */
struct unit_data {
    dsflow_data_id param, square;
    dsflow_data_id *states; /* of the optimizer */
    struct gradients grad, tied;
};

/* What one tile of one slot keeps of one layer for the backward pass. */
struct stash {
    dsflow_data_id q, kv, att, lse, mid, h;
};

/* One layer; the head is layer `layers` and has an input only. */
struct layer_data {
    int32_t slots, x_slots;
    dsflow_data_id *x;   /* [x_slots][ntiles]: its input */
    struct stash *stash; /* [slots][ntiles] */
};

/* Gradients of one tile of one lane at one place of the ring of layers. */
struct flow {
    dsflow_data_id dx, dmid, dh, dq, dkv, dnorm_qkv, dnorm_mlp;
};

struct lane_data {
    dsflow_data_id datt, delta;
    struct flow *flow; /* [depth] */
};

struct logits_data {
    dsflow_data_id logits, dnorm;
};

struct step {
    const struct dsflow_plan *plan;
    const struct dsf_model *model;
    struct dsflow_graph *g;
    struct dsflow_tile shape; /* of every tile, without its rows */

    struct unit_data *units;
    struct layer_data *layers;  /* [layers + 1] */
    struct lane_data *lanes;    /* [chunks of a stage][nlanes][ntiles] */
    int32_t nlanes, nchunks;
    dsflow_data_id *batch;      /* [slots of the embedding][ntiles] */
    struct logits_data *logits; /* [plan->logits] */
    dsflow_data_id cursor, eval_cursor, control, rope;
    uint32_t nsums;

    const struct dsflow_optimizer *optimizer;
    unsigned nstates; /* of it, in this job */
    int status; /* the first thing that went wrong, with its text in err */
    struct dsflow_err *err;

    /* Where the tasks that are being emitted stand. */
    dsflow_program program;
    uint8_t pass;
    int32_t d, turn, m, t; /* data rank, its turn, micro-batch, tile */
};

/* Emit a task of layer `l` where the step stands; `fresh` as in the graph. */
void dsf_step_emit(struct step *s, const struct dsflow_op *op,
                   const void *args, int l, unsigned fresh, unsigned n,
                   const dsflow_data_id *data);

#define EMIT(s, op, args, l, fresh, ...)                                       \
    dsf_step_emit(                                                             \
        s, op, args, l, fresh,                                                 \
        sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),    \
        (dsflow_data_id[]){ __VA_ARGS__ })

/* reference_data.c: all data of the step, and one more. */
void dsf_step_add_data(struct step *s);
dsflow_data_id dsf_step_add_double(struct step *s, int64_t n, const char *fmt,
                                   ...) DSFLOW_PRINTF(3, 4);
void dsf_step_free(struct step *s);

/* reference_update.c: what follows the gradients. A unit is *complete* when
 * its gradient will not change any more in this round, or this step. */
void dsf_step_begin_update(struct step *s);
void dsf_step_complete_round(struct step *s, unsigned u);
void dsf_step_complete_round_tied(struct step *s, unsigned u);
void dsf_step_complete(struct step *s, unsigned u);
void dsf_step_end_update(struct step *s);

/* The sum of n numbers in a fixed tree of tasks with seven inputs each. */
dsflow_data_id dsf_step_sum(struct step *s, const dsflow_data_id *in, size_t n);

#endif
