/* heads.h - which heads of attention the ranks that share sequences have, where
 * [mesh] sequence_kind is "heads" (Jacobs et al. 2023, "DeepSpeed Ulysses"). */
#ifndef DSF_PLAN_HEADS_H
#define DSF_PLAN_HEADS_H

#include "plan/plan.h"

/* Heads of keys, each with all its queries' heads, are shared out between
 * teams: a rank each, where there are enough. With fewer heads of keys than
 * ranks a team has one head and several ranks, which share out the queries by
 * groups of tokens (stretch.h). So no sum over queries' heads is ever cut, and
 * those over tokens are cut where their groups are. */
struct dsf_heads {
    int32_t heads;  /* of keys, */
    int32_t ranks;  /* of the axis sequence, */
    int32_t groups; /* of tokens */
    int32_t teams;
};
struct dsf_heads dsf_heads_of(const struct dsflow_plan *plan, int32_t heads);

/* The team of a rank, by its coordinate on the axis sequence: ranks go to teams
 * in turn. So each rank has the queries of its own tokens where all teams are
 * as large. */
static inline int32_t dsf_heads_team_of(const struct dsf_heads *h, int32_t at)
{
    return at % h->teams;
}

/* How many ranks has a team? */
static inline int32_t dsf_heads_size(const struct dsf_heads *h, int32_t team)
{
    return (h->ranks - team + h->teams - 1) / h->teams;
}

/* The rank of the team that has the queries of a group of tokens. */
int32_t dsf_heads_at(const struct dsf_heads *h, int32_t team, int32_t group);

/* The most attention that a rank has to do, by what it would have if all had
 * the same: 1, or more. */
double dsf_heads_imbalance(const struct dsf_heads *h);

/* Of a layer, on a tensor rank. */
int32_t dsf_heads_of_layer(const struct dsflow_plan *plan, int32_t l);

#endif
