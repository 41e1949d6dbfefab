/* plan.h - every choice about a step, before there is a graph. */
#ifndef DSF_PLAN_PLAN_H
#define DSF_PLAN_PLAN_H

#include <stdbool.h>
#include <stdio.h>
#include <dsflow/graph.h>

#include "config/job.h"
#include "machine/machine.h"
#include "model/model.h"
#include "plan/kept.h"
#include "plan/mesh.h"

/* Rows of a micro-batch that one task works on: `nseq` whole sequences from
 * `seq` on, or a piece of sequence `seq` from token `pos`. */
struct dsf_tile_rows {
    int32_t rows, nseq, seq, pos;
};

/* A program of some steps in place of `step`: see dsflow_program_steps. */
struct dsf_plan_program {
    char *name;
    int64_t first, every, last;
};

struct dsflow_plan {
    const struct dsf_job *job; /* borrowed, all three */
    const struct dsf_model *model;
    const struct dsf_machine *machine;

    unsigned workers;        /* CPU workers and virtual devices */
    struct dsf_mesh mesh;
    int32_t nranks;
    int32_t nreplicas; /* ranks along the axis data, … */
    int32_t nstages;   /* … pipeline, … */
    int32_t nparts;    /* … tensor */
    int32_t nsequence; /* … and sequence */
    unsigned rank_workers;   /* of each rank; several may share one */

    int32_t sequence;        /* tokens */
    int32_t micro;           /* sequences of a micro-batch */
    int32_t nmicro;          /* micro-batches of a step */
    int32_t micro_steps;     /* of them, on each replica */
    int32_t groups; /* of micro-batches, each with gradients of its own, … */
    int32_t sequence_groups; /* … and of tokens of a sequence (stretch.h) */
    bool layer_major;  /* all micro-steps through a layer, then the next */
    bool reduce_micro; /* sum over the groups after each round of them */
    bool gradients_stay; /* until those of all units are there */
    /* Of a micro-batch; behind them the slices of the first one that the head
     * works on one after the other, of the second one, … */
    struct dsf_tile_rows *tiles;
    int32_t ntiles;
    int32_t nslices; /* 0: the head works on whole tiles */
    int32_t head_columns;   /* of the vocabulary, whose logits are there at a
                               time;   0: those of all that a rank has */
    bool head_apart; /* gradients of its matrix are then tasks of their own */
    int32_t sequence_tiles; /* of a sequence; 1 where a tile has whole ones */
    int32_t key_tiles; /* whose keys and values stand in a buffer (key_tiles.h)
                        */

    /* By the policy sequence_parallel. */
    struct dsf_sequence_choice {
        int kind;       /* enum dsf_sequence_kind: how ranks that share sequences
                           share attention; never AUTO */
        bool chosen;    /* the job leaves it open */
        bool far;       /* ranks that share a sequence are on several nodes */
        double keys, heads; /* bytes that a rank receives in a step, at most, by
                               either; 0: it cannot be done so */
        double imbalance; /* by heads: the most attention of a rank, by an even
                             share */
    } shares;

    /* By the policy pipeline. What is placed are the embedding, the blocks, and
     * the head with its norm: layer l is number l + 1. Chunk c, of consecutive
     * ones, is on stage c mod nstages. */
    int32_t nchunks;
    int32_t *chunk_of;         /* [layers + 2]: of each of these */
    int32_t *activation_slots; /* [nchunks]: a ring of them, in micro-steps */

    int32_t *grad_slots;     /* [nchunks]: ring of gradients of activations, in
                                micro-steps, by … */
    int32_t depth;           /* … layers */
    int32_t logits;          /* ring of logits of a data rank, in tiles */

    struct dsf_sight *sight; /* sight.h; NULL: layers have no layouts */

    struct dsf_kept_list kept; /* between steps */

    struct dsf_plan_program *programs; /* of several for a step, the last */
    unsigned nprograms;

    void *parts[DSF_MAX_POLICIES]; /* by position in dsf_policies */
};

/* The job, the model and the machine are borrowed until the plan is freed.
 * Decides what needs no policy; dsf_policies_build does the rest. */
int dsf_plan_new(const struct dsf_job *job, const struct dsf_model *model,
                 const struct dsf_machine *machine, struct dsflow_plan **plan,
                 struct dsflow_err *err);
void dsf_plan_free(struct dsflow_plan *plan);

/* Tokens of a sequence. */
int32_t dsf_plan_sequence(const struct dsf_job *job,
                          const struct dsf_model *model);

/* About how many tasks its step has, before there is a graph: what other
 * policies add is little beside it. */
double dsf_plan_tasks(const struct dsflow_plan *plan);

/* The micro-batch that replica `d` works on at a micro-step; and the group of a
 * micro-batch. (Its micro-step and its replica, and the chunk and the stage of
 * a layer, are asked as plug-ins do: dsflow/plan.h.) */
int32_t dsf_plan_micro(const struct dsflow_plan *plan, int32_t d,
                       int32_t micro_step);
int32_t dsf_plan_group(const struct dsflow_plan *plan, int32_t m);

/* Is each rank a GPU of the machine, described or present? */
bool dsf_plan_has_gpus(const struct dsflow_plan *plan);

/* Cut a micro-batch, whose size is known, in tiles and slices; tiles that are
 * too many or too large are refused. */
int dsf_plan_cut_tiles(struct dsflow_plan *plan, struct dsflow_err *err);

/* What the head works on at a time: so many tiles or slices, from tiles[first]
 * on; and those of tile `t` alone. */
struct dsf_head_tiles {
    int32_t first, n;
};
struct dsf_head_tiles dsf_plan_head_tiles(const struct dsflow_plan *plan);
struct dsf_head_tiles dsf_plan_head_tiles_of(const struct dsflow_plan *plan,
                                             int32_t t);

/* The most rows of these, and bytes of their logits. */
int64_t dsf_plan_head_rows(const struct dsflow_plan *plan);
int64_t dsf_plan_logits_bytes(const struct dsflow_plan *plan);

/* The key that sizes the rings of a chunk. */
const char *dsf_plan_ring(const struct dsflow_plan *plan, int32_t chunk);

/* Is the gradient of each layer complete, and summed over the data ranks,
 * before that of the next but one? Then whole ones need not stay in ZeRO 2
 * and 3. */
bool dsf_plan_passes_gradients(const struct dsflow_plan *plan);

#endif
