/* sequence_heads.h - what ranks that share attention by heads have of the data
 * of a graph: of what its parts share. */
#ifndef DSF_POLICIES_SEQUENCE_HEADS_H
#define DSF_POLICIES_SEQUENCE_HEADS_H

#include "policies/sequence_private.h"

#include "plan/heads.h"

/* What one rank has of a piece of data, its heads. */
struct dsf_headed_part {
    dsflow_data_id id;
    int64_t elems; /* 0: it is not made yet */
};

/* A piece of data that tasks of attention use. */
struct dsf_headed {
    bool is;
    uint8_t port;                  /* DSFLOW_ATTENTION_… */
    bool read_whole;               /* by other tasks, which do not write it */
    bool apart;                    /* what parts have is newer than the whole */
    int32_t group;                 /* of the queries whose task wrote it last */
    struct dsf_headed_part *parts; /* [nsequence] */
    dsflow_data_id *latest;        /* [teams]: what is given back */
};

/* The graph that is rewritten. */
struct dsf_headed_graph {
    const struct dsflow_plan *plan;
    struct dsflow_graph *in, *out;
    struct dsf_headed *data; /* by data of `in` */
    dsflow_data_id *is;      /* by data: where the whole stands in `out` */
    struct dsf_sequence_rings whole;
    dsflow_data_id *ports;
    size_t cap_ports;
};

static inline int16_t dsf_headed_rank(const struct dsf_headed_graph *s,
                                      const struct dsflow_task_spec *t,
                                      int32_t at)
{
    return dsf_sequence_rank(s->plan, t, at);
}

/* What the rank at coordinate `at` has of data `id`: a matrix of these sizes.
 */
dsflow_data_id dsf_headed_part_of(struct dsf_headed_graph *s,
                                  const struct dsflow_task_spec *t,
                                  dsflow_data_id id, int32_t at, int64_t rows,
                                  int64_t cols);

/* From now on the team's heads of it are `id`. */
void dsf_headed_note(struct dsf_headed *of, const struct dsf_heads *h,
                     int32_t team, dsflow_data_id id);

/* sequence_sums.c: does a task sum gradients of keys over groups? The same by
 * the ranks that have heads of them. */
bool dsf_headed_is_sum(const struct dsf_headed_graph *s,
                       const struct dsflow_task_spec *t);
void dsf_headed_sum(struct dsf_headed_graph *s,
                    const struct dsflow_task_spec *t);

#endif
