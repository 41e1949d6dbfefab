/* stretch.h - how the tokens of each sequence are shared out: between groups
 * whose gradients are summed apart, and between the ranks of the axis sequence,
 * each of which has some of these groups. */
#ifndef DSF_PLAN_STRETCH_H
#define DSF_PLAN_STRETCH_H

#include "plan/plan.h"

/* A sequence is cut in this many stretches of equal length, two for a group: 1
 * where there is one group. */
int32_t dsf_plan_stretches(const struct dsflow_plan *plan);

/* The group of the tokens of tile `t`. Group g of G has stretches g and
 * 2 G - 1 - g, so that all have as many pairs of a query and a key before it
 * (as in Llama Team 2024, "The Llama 3 herd of models", section 3.3.2). */
int32_t dsf_plan_sequence_group(const struct dsflow_plan *plan, int32_t t);

/* The first tile of a group. */
int32_t dsf_plan_tile_of_group(const struct dsflow_plan *plan, int32_t group);

/* The coordinate on the axis sequence of the rank that has tile `t`. */
int32_t dsf_plan_sequence_at(const struct dsflow_plan *plan, int32_t t);

/* Gradients of a unit that are summed apart: one for each group of
 * micro-batches and of tokens. That of tile `t` of micro-batch `m`; those of a
 * rank follow each other. */
int32_t dsf_plan_sums(const struct dsflow_plan *plan);
int32_t dsf_plan_sum_of(const struct dsflow_plan *plan, int32_t m, int32_t t);

/* Ranks of the axes data and sequence, which have the same weights: the one
 * that `rank` is of them, and the one beside it that is the `i`-th. */
int32_t dsf_plan_sharers(const struct dsflow_plan *plan);
int32_t dsf_plan_sharer(const struct dsflow_plan *plan, int32_t rank);
int32_t dsf_plan_sharer_at(const struct dsflow_plan *plan, int32_t rank,
                           int32_t i);

/* Buffers of keys and values of other ranks (key_tiles.h) that a rank has at a
 * time. Back, the rank in the middle begins with keys that the first one comes to
 * when it has been through as many stretches as there are ranks: for half of
 * that the middle one goes ahead, and its sums of gradients stand meanwhile. */
int32_t dsf_plan_key_slots(const struct dsflow_plan *plan);

/* Can the ranks and groups of the job share out its sequences? */
int dsf_plan_check_sequence(const struct dsflow_plan *plan,
                            struct dsflow_err *err);

#endif
