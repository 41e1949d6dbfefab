/* reference_private.h - what the parts of the reference policy share. */
#ifndef DSF_POLICIES_REFERENCE_PRIVATE_H
#define DSF_POLICIES_REFERENCE_PRIVATE_H

#include "policies/policies.h"
#include "policies/ring_class.h"
#include "tasks/components.h"
#include "tasks/bind.h"
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

/* What a port of a segment is connected to in the graph (segments/segment.h has
 * what it asks for). */
enum wire_kind {
    WIRE_NONE,
    WIRE_PARAMETERS, /* `at`: the unit */
    WIRE_GRADIENTS,
    WIRE_X,       /* the stream that enters the layer, */
    WIRE_NEXT_X,  /* the next one, */
    WIRE_DX,      /* and the gradients of both */
    WIRE_NEXT_DX,
    WIRE_KEPT,    /* `at`: the place among such data */
    WIRE_PASSING,
    WIRE_BRIEF,
    WIRE_LOGITS,
    WIRE_LOSS,
    WIRE_BATCH,
    WIRE_ROPE,
};
struct wire {
    uint8_t kind;
    bool is_own;    /* it is made for this port */
    bool of_keys;
    int32_t ring;   /* its class */
    uint32_t at;
};

/* Data that is made for ports, of one kind of wire, by its class. */
struct places {
    uint16_t at[DSF_NRINGS]; /* 1 + the place, 0: none */
    unsigned n;
};

/* One layer, from -1 on; of the last one there is but the input. */
struct layer_data {
    struct wire (*wires)[DSF_SEGMENT_PORTS]; /* [segments] */
    int32_t slots, x_slots;
    dsflow_data_id *x;    /* [x_slots][ntiles]: its input */
    dsflow_data_id *kept; /* [slots][ntiles][kept]: for the backward pass */
};

/* Gradients of one tile of one gradient slot. */
struct slot_data {
    dsflow_data_id *brief;   /* [brief] */
    dsflow_data_id *passing; /* [depth][1 + passing]: by place of the ring of
                                layers; dx is the first */
};

struct step {
    const struct dsflow_plan *plan;
    const struct dsf_model *model;
    struct dsflow_graph *g;
    struct unit_data *units;
    struct layer_data *layers;  /* [layers + 2]: layer_of */
    struct places kept, passing, brief, logits_places;
    struct slot_data *grads; /* [chunks of a stage][ngrad_slots][ntiles] */
    int32_t ngrad_slots, nchunks;
    dsflow_data_id *batch;      /* [slots of the embedding][ntiles] */
    dsflow_data_id *logits;     /* [plan->logits][logits_places] */
    dsflow_data_id loss;        /* of the tile whose tasks are emitted */
    dsflow_data_id cursor, eval_cursor, control, rope;
    uint32_t nsums;

    const struct dsflow_optimizer *optimizer;
    unsigned nstates; /* of it, in this job */
    int status; /* the first thing that went wrong, with its text in err */
    struct dsflow_err *err;

    /* Where the tasks that are being emitted stand. */
    dsflow_program program;
    uint8_t pass;
    int32_t d, micro_step, m, t; /* replica, its …, micro-batch, tile */
};

/* Emit a task of layer `l` where the step stands; `fresh` as in the graph. */
void dsf_step_emit(struct step *s, const struct dsflow_op *op,
                   const void *args, int l, unsigned fresh, unsigned n,
                   const dsflow_data_id *data);

/* The same, port by port. */
void dsf_step_emit_bound(struct step *s, const struct dsflow_op *op,
                         const void *args, int l, const struct dsf_binding *b);

#define EMIT(s, op, args, l, fresh, ...)                                       \
    dsf_step_emit(                                                             \
        s, op, args, l, fresh,                                                 \
        sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),    \
        (dsflow_data_id[]){ __VA_ARGS__ })

static inline struct layer_data *dsf_step_layer(const struct step *s, int l)
{
    return &s->layers[l + 1];
}

/* What a task of the `i`-th segment of layer `l` is about: tile `t`, and with
 * attention the keys of tile `k`. `units` has room for the segment's. */
struct dsf_site dsf_step_site(const struct step *s, int l, unsigned i, int t,
                              int k, const struct dsf_unit **units);

/* reference_wires.c: how the ports of all layers are connected. */
void dsf_step_add_wires(struct step *s);

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
