/* reference_private.h - what the parts of the reference policy share. */
#ifndef DSF_POLICIES_REFERENCE_PRIVATE_H
#define DSF_POLICIES_REFERENCE_PRIVATE_H

#include "graph/task.h"
#include "plan/stretch.h"
#include "policies/policies.h"
#include "policies/ring_class.h"
#include "tasks/components.h"
#include "tasks/bind.h"
#include "tasks/tasks.h"
#include "tasks/zeroone.h"

/* Gradients of one unit, added up apart for each group of micro-batches and of
 * tokens: plan/stretch.h says how many. */
struct gradients {
    dsflow_data_id *of;     /* [sums] */
    bool *begun;            /* [sums]: it has contents */
    dsflow_data_id *errors; /* [sums], of what is sent; NULL: none */
    dsflow_data_id *node_errors; /* [nodes], of what their sums are sent as */
    dsflow_data_id sum;  /* of the rounds, with reduce_micro */
    bool has_sum;
};

/* The data of one unit of parameters. A tied embedding has gradients of its own
 * from the head: one order of sums, whether or not both are on one rank. */
struct unit_data {
    dsflow_data_id param, square;
    dsflow_data_id *states; /* of the optimizer */
    dsflow_data_id server;  /* of 1-bit Adam, where the unit is coded */
    dsflow_data_id fresh, lamb; /* of 1-bit LAMB; coded numbers of units … */
    int64_t coded_before;       /* … before this one */
    struct gradients grad, tied;

    /* Of 0/1 Adam: of each group, as a worker, its momentum, how far it has
     * moved, and its weights; NULL: there are none. */
    dsflow_data_id *own, *local, *weights;
};

struct step {
    const struct dsflow_plan *plan;
    const struct dsf_model *model;
    struct dsflow_graph *g;
    struct unit_data *units;
    /* By class, what stands in its rings: [layers + 4][nslots][ntiles +
     * nslices], +1; 0: it is not made yet. */
    uint32_t *made[DSF_NRINGS];
    int32_t nslots, ngrad_slots;
    int largest;         /* tile or slice that the head works on */
    dsflow_data_id loss; /* of the tile whose tasks are emitted */
    dsflow_data_id cursor, eval_cursor, control, rope;
    dsflow_data_id *layouts; /* of attention, by number (plan/sight.h) */
    struct dsf_loss_scale scale;
    dsflow_data_id scaler; /* where losses are scaled */
    dsflow_data_id chunks; /* of 1-bit LAMB: sums of squares */
    dsflow_data_id local_step; /* of 0/1 Adam: struct dsf_zeroone_step */
    int64_t ncoded,
        ncoded_tensors; /* of it: numbers and tensors of all units */
    uint32_t nsums;
    struct dsf_key_sums *key_sums; /* reference_sequence.c */

    const struct dsflow_optimizer *optimizer;
    unsigned nstates; /* of it, in this job */
    int status; /* the first thing that went wrong, with its text in err */
    struct dsflow_err *err;

    /* Where the tasks that are being emitted stand. */
    dsflow_program program;
    bool trains;   /* not an evaluation */
    bool coded;    /* a step of 1-bit Adam or LAMB that sends momenta */
    bool freezing; /* the last one of 1-bit LAMB before these */
    enum dsf_zeroone_kind kind; /* of 0/1 Adam; else that of a plain step */
    uint8_t pass;
    int32_t micro_step, m, t; /* of the replica; micro-batch; tile */
};

/* Beside the micro-batches; at the last one of a group, and at a tile of its
 * tokens, so that what follows stands on its rank. */
static inline void dsf_step_stand_aside(struct step *s)
{
    s->m = s->t = -1;
}

static inline void dsf_step_stand_at_group(struct step *s, int32_t group)
{
    const struct dsflow_plan *plan = s->plan;
    const int32_t tokens = plan->sequence_groups;

    s->m = (group / tokens + 1) * (plan->nmicro / plan->groups) - 1;
    if (tokens > 1)
        s->t = dsf_plan_tile_of_group(plan, group % tokens);
}

/* reference_ports.c: emit a task of layer `l` where the step stands; `fresh` as
 * in the graph. */
void dsf_step_emit(struct step *s, const struct dsflow_op *op,
                   const void *args, int l, unsigned fresh, unsigned n,
                   const dsflow_data_id *data);

/* The same without the ports of `without`. */
void dsf_step_emit_without(struct step *s, const struct dsflow_op *op,
                           const void *args, int l, unsigned without,
                           unsigned n, const dsflow_data_id *data);

#define EMIT(s, op, args, l, fresh, ...)                                       \
    dsf_step_emit(                                                             \
        s, op, args, l, fresh,                                                 \
        sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),    \
        (dsflow_data_id[]){ __VA_ARGS__ })

/* The segments of layer `l`, in order; ends with NULL. */
static inline const struct dsflow_segment *const *
dsf_step_segments(const struct step *s, int l)
{
    return dsf_model_layer(s->model, l)->segments;
}

/* What a task of a segment of layer `l` is about: tile `t`, and with attention
 * the keys of tile `k`. */
struct dsflow_site dsf_step_site(const struct step *s, int l,
                                 const struct dsflow_segment *segment, int t,
                                 int k);

/* What stands for tile `t` where `from` says, in the ring of its class, while
 * layer `l` is worked on; IN and DIN: what enters the layer, and its gradient.
 */
dsflow_data_id dsf_step_in_ring(struct step *s, enum dsflow_from from,
                                int32_t ring, int l, int t);

/* reference_ports.c: the data on port `p` of the `i`-th segment of layer `l`,
 * of tile `t`. */
dsflow_data_id dsf_step_on_port(struct step *s, int l, unsigned i, unsigned p,
                                int t);

/* A task of the `i`-th segment of layer `l`, of tile or slice `t` and, in
 * attention, the buffer that has the keys of tile `k`. */
void dsf_step_emit_segment(struct step *s, int l, unsigned i,
                           const struct dsflow_op *op, int t, int k);

/* reference_sequence.c: all tiles of a micro-batch through a layer, and back,
 * where several tiles go through a segment before the next one begins: where a
 * sequence has several groups of tokens, or a buffer keys of several tiles. */
bool dsf_step_is_together(const struct step *s, int l);
void dsf_step_forward_together(struct step *s, int l);
void dsf_step_backward_together(struct step *s, int l);

/* What a task of tile `t` adds gradients of the keys to, of the buffer that is
 * called after tile `k`: the data on port `p`, or a sum of its group. */
dsflow_data_id dsf_step_key_sum(struct step *s, int l, unsigned i, unsigned p,
                                int t, int k);
void dsf_step_end_key_sums(struct step *s);

/* A piece of data between tasks; `n` numbers of it. */
#define DSF_BUFFER(...)                                                        \
    DSFLOW_DATA(.role = DSFLOW_BUFFERS, .home = DSFLOW_ANYWHERE, .unit = -1,   \
                __VA_ARGS__)
#define DSF_DOUBLES(n) DSF_BUFFER(.dtype = DSFLOW_FP64, .elems = n)

/* reference_data.c: units and counters. */
void dsf_step_add_data(struct step *s);
void dsf_step_free(struct step *s);

/* reference_kept.c: what losses are multiplied by. */
struct dsf_loss_scale dsf_reference_loss_scale(const struct dsf_job *job);

/* reference_update.c: what follows the gradients. A unit is *complete* when
 * its gradient will not change any more in this round, or this step. */
void dsf_step_begin_update(struct step *s);
void dsf_step_complete_round(struct step *s, unsigned u);
void dsf_step_complete_round_tied(struct step *s, unsigned u);
void dsf_step_complete(struct step *s, unsigned u);
void dsf_step_end_update(struct step *s, dsflow_data_id loss);
void dsf_step_report(struct step *s, dsflow_data_id loss);

/* into = itself, unless it is fresh, and n others. */
void dsf_step_add(struct step *s, unsigned u, dsflow_data_id into,
                  const dsflow_data_id *from, int32_t n, bool fresh);

/* reference_onebit.c: in steps of 1-bit Adam and LAMB that send momenta, the
 * mean of these, in the gradient of group 0; and what comes of it. `args`:
 * those of the optimizer. */
void dsf_onebit_sum(struct step *s, unsigned u);
void dsf_onebit_update(struct step *s, unsigned u,
                       struct dsf_update_args *args);

/* Where nothing of a unit goes before all gradients are there (onebit.h), these
 * are completed unit by unit, and at last all momenta are summed. */
void dsf_onebit_complete(struct step *s, unsigned u);
void dsf_onebit_sum_all(struct step *s);

/* reference_lamb.c, 1-bit LAMB: the momenta of all groups as they are when they
 * have been sent with one scale; the scales of what all have of their mean; of
 * a unit what they have, and the ratios of its tensors by it. */
void dsf_lamb_send_all(struct step *s);
void dsf_lamb_find_scales(struct step *s);
dsflow_data_id dsf_lamb_serve(struct step *s, unsigned u,
                              const struct dsf_update_args *args);

/* In steps before: the mean of the ratios; in the last one, what the next ones
 * begin with. */
void dsf_lamb_keep_mean(struct step *s, unsigned u, dsflow_data_id ratio);
void dsf_lamb_freeze(struct step *s);

/* What 0/1 Adam has of these, too: how a unit is coded; the sum of what all
 * groups send of it, in the place of the gradient of group 0; the scales of the
 * chunks of that; the squares of each group's gradient of it, and the sum of
 * those of a group over all units. */
struct dsf_coding dsf_onebit_coding_of(const struct step *s, unsigned u);
void dsf_onebit_send(struct step *s, unsigned u);
dsflow_data_id dsf_onebit_scales(struct step *s, unsigned u,
                                 const struct dsf_chunk_args *args);
void dsf_onebit_square_groups(struct step *s, unsigned u);
dsflow_data_id dsf_onebit_norm2(struct step *s, int32_t group);

/* reference_zeroone.c: 0/1 Adam. The data of workers; their weights, at the
 * beginning of a step of their own; and in steps that are not plain what comes
 * of gradients, their squares, and what comes of these. */
void dsf_zeroone_add_data(struct step *s, unsigned u,
                          const struct dsflow_data_spec *grad);
void dsf_zeroone_free_data(struct unit_data *d);
dsflow_data_id dsf_zeroone_weights(const struct step *s, unsigned u);
void dsf_zeroone_begin(struct step *s);
void dsf_zeroone_sum(struct step *s, unsigned u);
void dsf_zeroone_update(struct step *s, unsigned u,
                        const struct dsf_update_args *args);
dsflow_data_id dsf_zeroone_squares(struct step *s);

/* Are workers' weights their own in this step? */
static inline bool dsf_zeroone_is_local(const struct step *s)
{
    return s->kind == DSF_ZEROONE_LOCAL || s->kind == DSF_ZEROONE_SYNC;
}

/* The arguments of `begin`, of which the learning rate follows. */
struct dsf_begin_args dsf_step_begin_args(const struct step *s);

/* The sum of n numbers in a fixed tree of tasks with seven inputs each; and of
 * n pieces of `each` numbers, place by place. */
dsflow_data_id dsf_step_sum(struct step *s, const dsflow_data_id *in, size_t n);
dsflow_data_id dsf_step_sum_each(struct step *s, const dsflow_data_id *in,
                                 size_t n, int64_t each);

#endif
