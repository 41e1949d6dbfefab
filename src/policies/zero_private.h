/* zero_private.h - what the parts of the policy zero share. */
#ifndef DSF_POLICIES_ZERO_PRIVATE_H
#define DSF_POLICIES_ZERO_PRIVATE_H

#include <stdbool.h>
#include <dsflow/rewrite.h>

#include "graph/task.h"
#include "plan/stretch.h"
#include "policies/collective.h"
#include "policies/keys.h"
#include "tasks/coding.h"

/* A piece of data of one unit as the data ranks have it. */
struct dsf_zero_parts {
    dsflow_data_id *id; /* [data]; NULL: it is as it was */
    bool whole; /* each has room for all of it, not only for its shard */
    bool shards;        /* only its own shard has the right contents */
};

/* Gathers of one unit. */
struct dsf_gathers {
    dsflow_data_id *last; /* [data][passes]: into which buffers */
};

/* How the policy compress has the copy of some parameters sent. */
struct dsf_coded {
    const struct dsf_coding *coding; /* of a task of `in`; NULL: as it is */
};

struct dsf_zero_ring;
struct dsf_zero {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    const struct dsf_zero_keys *keys;
    int32_t data, stage;         /* ranks; ZeRO's stage */
    struct dsf_zero_parts *spread; /* by data of `in` */
    bool passing;                /* gradients are complete layer by layer */
    uint32_t collectives;        /* the largest id so far */
    uint8_t program;

    /* zero_gathered.c */
    struct dsf_gathers *gathers; /* by data of `in` */
    uint32_t *contents;          /* by data of `out`: of `in`, +1, gathered */
    size_t cap_contents;
    uint32_t *next; /* by rank, chunk, pass and kind of unit: in their ring */
    int32_t chunks; /* of a stage */

    /* zero_second.c */
    struct dsf_second *second; /* by data of `in`; NULL: there are none */
    int32_t keepers;           /* so many ranks have a copy among them */

    /* zero_nodes.c */
    struct dsf_zero_node *nodes; /* by data of `in`: gradients, errors */

    /* zero_compress.c */
    struct dsf_coded *coded; /* by data of `in` */
    struct dsf_zero_ring *rings;
    size_t nrings, cap_rings;
    uint32_t *first_ring; /* by rank: +1 */
};

static inline const struct dsflow_data_spec *
dsf_zero_spec(const struct dsf_zero *z, dsflow_data_id id)
{
    return dsflow_graph_data(z->rw.in, id);
}

/* Data ranks, here, are all that have the same weights: those of the axis
 * sequence count as replicas. Which one `rank` is, and the one beside it that
 * is number `d`. */
static inline int32_t dsf_zero_replica(const struct dsf_zero *z, int32_t rank)
{
    return dsf_plan_sharer(z->plan, rank);
}

static inline int32_t dsf_zero_beside(const struct dsf_zero *z, int32_t rank,
                                      int32_t d)
{
    return dsf_plan_sharer_at(z->plan, rank, d);
}

/* zero_spread.c: how the data ranks share out the unit that `spec` is of. */
struct dsf_pieces dsf_zero_pieces(const struct dsf_zero *z,
                                  const struct dsflow_data_spec *spec);

/* Has each rank all of these parameters or states? */
bool dsf_zero_is_whole(const struct dsf_zero *z,
                       const struct dsflow_data_spec *spec);

/* Parameters and states as they are spread. */
const struct dsf_zero_parts *dsf_zero_spread(struct dsf_zero *z,
                                             dsflow_data_id id);
/* The same of data of a unit; in shards, or whole, if it was not spread before.
 */
const struct dsf_zero_parts *dsf_zero_cut(struct dsf_zero *z, dsflow_data_id id,
                                          const struct dsflow_data_spec *unit,
                                          bool whole);

/* Is it of a unit that every block has, with the same sizes? What tensor ranks
 * share of one is small, and has buffers of its own. */
bool dsf_zero_in_block(const struct dsf_zero *z,
                       const struct dsflow_data_spec *spec);
const char *dsf_zero_segment(const struct dsf_zero *z,
                             const struct dsflow_data_spec *spec);

/* A whole gradient, on its rank. */
dsflow_data_id dsf_zero_gradient(struct dsf_zero *z, dsflow_data_id id);

/* The sum of a gradient, where the stage has it: in `own`, the first gradient
 * of each rank, or in shards. */
void dsf_zero_spread_sums(struct dsf_zero *z, dsflow_data_id id,
                          const dsflow_data_id *own);

/* zero.c: a collective of the data ranks: rank `d` gets into[d], and has
 * from[d]. */
void dsf_zero_share(struct dsf_zero *z, const struct dsflow_task_spec *like,
                    const struct dsflow_op *op,
                    const struct dsflow_data_spec *unit,
                    const dsflow_data_id *into, const dsflow_data_id *from);

/* zero_compress.c: are the gradients that the task adds sent coded? And they
 * are summed, where they are. */
bool dsf_zero_sends_groups(const struct dsf_zero *z,
                           const struct dsflow_task_spec *t);
void dsf_zero_sum_groups(struct dsf_zero *z, const struct dsflow_task_spec *t);
/* What buffers of the policy are for. */
enum dsf_zero_use {
    DSF_ZERO_CODED,
    DSF_ZERO_SUM,
    DSF_ZERO_RECODED,
    DSF_ZERO_RELAYED,
    DSF_ZERO_ROWS
};

/* The next of buffers for `elems` bytes, or numbers of a sum, of which `length`
 * take turns. */
dsflow_data_id dsf_zero_take_buffer(struct dsf_zero *z, enum dsf_zero_use use,
                                    int32_t rank, int64_t elems,
                                    uint32_t length);
/* Numbers at .. at+elems of a unit, which are those of `in`, into `out`. */
void dsf_zero_compress(struct dsf_zero *z, const struct dsflow_task_spec *like,
                       const struct dsf_coding *coding, int32_t rank,
                       int64_t at, int64_t elems, dsflow_data_id in,
                       dsflow_data_id out);

/* zero_nodes.c: what is sent of the gradients that a task `add_recoded` adds up
 * to all that need it: coded numbers from one on. */
struct dsf_zero_terms {
    dsflow_data_id *v; /* of each group; or of each run of each node */
    uint32_t n;        /* groups, or nodes */
    int32_t runs;      /* of a node */
};
/* Node by node, of what each group has in `packed` (NULL: in its gradient). */
void dsf_zero_sum_nodes(struct dsf_zero *z, const struct dsflow_task_spec *t,
                        const dsflow_data_id *packed,
                        struct dsf_zero_terms *terms);
/* Are the groups of a node, so many, of one rank? */
bool dsf_zero_node_in_rank(const struct dsf_zero *z, int64_t node);

/* Where errors of the sums of nodes are carried over, each node has tasks of
 * its own: its groups are added, and the error of the sum is. False: the task
 * is none of these, or its data is all on one rank. */
bool dsf_zero_add_node(struct dsf_zero *z, const struct dsflow_task_spec *t,
                       bool crosses);
bool dsf_zero_feed_node(struct dsf_zero *z, const struct dsflow_task_spec *t);
/* Does the task add sums of nodes of which some are of several ranks? What is
 * sent of these, and the first gradient of each rank. */
bool dsf_zero_adds_sums(const struct dsf_zero *z,
                        const struct dsflow_task_spec *t);
void dsf_zero_send_sums(struct dsf_zero *z, const struct dsflow_task_spec *t,
                        struct dsf_zero_terms *terms);
void dsf_zero_first_of_sums(struct dsf_zero *z,
                            const struct dsflow_task_spec *t,
                            dsflow_data_id *first);
void dsf_zero_begin_nodes(struct dsf_zero *z);
void dsf_zero_end_nodes(struct dsf_zero *z);

/* The gradients of the groups that the task adds, coded, in *packed. */
void dsf_zero_compress_groups(struct dsf_zero *z,
                              const struct dsflow_task_spec *t,
                              dsflow_data_id *packed);
/* Groups of a data rank. */
int32_t dsf_zero_groups(const struct dsf_zero *z);

/* zero_coded.c: what each has a shard of after a task `serve` whose unit is
 * coded, on all of them: in 1 bit. */
bool dsf_zero_serves_signs(const struct dsflow_task_spec *t);
void dsf_zero_gather_signs(struct dsf_zero *z, const struct dsflow_task_spec *t,
                           const struct dsflow_data_spec *unit,
                           const struct dsf_zero_parts *s);
/* What becomes of a task `recode`, where ranks have shards of the masters. */
void dsf_zero_recode(struct dsf_zero *z, const struct dsflow_task_spec *t);
/* zero_rows.c: does the task add gradients that are sent as rows? And they are
 * summed, of what each rank has of it in sums[d]. */
bool dsf_zero_sends_rows(const struct dsf_zero *z,
                         const struct dsflow_task_spec *t);
void dsf_zero_sum_rows(struct dsf_zero *z, const struct dsflow_task_spec *t,
                       const dsflow_data_id *sums);

/* zero_second.c: second copies of parameters, by data of `in`. */
void dsf_zero_begin_second(struct dsf_zero *z);
void dsf_zero_end_second(struct dsf_zero *z);
void dsf_zero_forget_second(struct dsf_zero *z);
/* Of coded ones, [data]: block by block of as many ranks as have a copy among
 * them, its runs. NULL: there are none, and this gather makes none. *made: they
 * are there from before. */
dsflow_data_id *dsf_zero_second(struct dsf_zero *z, dsflow_data_id id,
                                const struct dsflow_task_spec *t, bool *made);
/* That of run `m` of these, of so many bytes, on a rank. */
dsflow_data_id dsf_zero_second_run(struct dsf_zero *z, dsflow_data_id id,
                                   int32_t m, int32_t rank, int64_t bytes);
/* The rank keeps its part of the numbers in `whole`. */
void dsf_zero_keep_numbers(struct dsf_zero *z, dsflow_data_id id,
                           const struct dsflow_task_spec *t,
                           dsflow_data_id whole);
/* All numbers, from second copies of them; false: they are not there. */
bool dsf_zero_gather_second(struct dsf_zero *z, dsflow_data_id id,
                            const struct dsflow_task_spec *t,
                            dsflow_data_id whole);

/* zero_coded.c: the whole unit, of coded shards, in whole[d] on each data rank
 * that has one there; false: it is not sent so. */
bool dsf_zero_gather_coded(struct dsf_zero *z, dsflow_data_id id,
                           const struct dsflow_task_spec *t,
                           const dsflow_data_id *whole);
void dsf_zero_begin_coded(struct dsf_zero *z);
void dsf_zero_end_coded(struct dsf_zero *z);

/* As `t`, on data rank `d`, of the micro-batch there. */
struct dsflow_task_spec dsf_zero_like(const struct dsf_zero *z,
                                      const struct dsflow_task_spec *t,
                                      int32_t d);

/* zero_gathered.c: the whole unit on the rank of `t`, gathered unless it still
 * stands there. */
dsflow_data_id dsf_zero_gathered(struct dsf_zero *z, dsflow_data_id id,
                                 const struct dsflow_task_spec *t);
/* What was gathered is old: the parameters have changed, or may have. */
void dsf_zero_forget(struct dsf_zero *z);
void dsf_zero_begin_gathered(struct dsf_zero *z);
void dsf_zero_end_gathered(struct dsf_zero *z);

#endif
