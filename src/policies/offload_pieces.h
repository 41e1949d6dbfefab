/* offload_pieces.h - how tasks of states are cut, where states are offloaded or
 * kept in fewer bytes than they are updated in. */
#ifndef DSF_POLICIES_OFFLOAD_PIECES_H
#define DSF_POLICIES_OFFLOAD_PIECES_H

#include <dsflow/rewrite.h>

#include "policies/keys.h"

/* Where states are updated. */
struct dsf_cut_place {
    enum dsflow_tier tier;
    int64_t *most;   /* by rank and state: elements of the largest piece */
    uint32_t *turns; /* by rank: updates of pieces so far */
};

struct dsf_cut {
    const struct dsflow_plan *plan;
    const struct dsflow_graph *in;
    const struct dsf_offload_keys *keys;
    enum dsflow_dtype dtype;   /* that states are kept as */
    struct dsf_cut_place at;   /* where they are updated, … */
    struct dsf_cut_place near; /* … and by what a GPU does wherever they are */
    bool masters;              /* of parameters are kept */
    uint8_t *uncut;            /* by data of `in`: states that stay whole */
};

struct dsf_cut dsf_cut_new(const struct dsflow_plan *plan,
                           const struct dsflow_graph *in);
void dsf_cut_free(struct dsf_cut *c);

/* Is it the master of parameters? Is it kept in fewer bytes than it is updated
 * in? */
bool dsf_cut_is_master(const struct dsflow_data_spec *d);
bool dsf_cut_is_packed(const struct dsf_cut *c,
                       const struct dsflow_data_spec *d);

/* The first state of the optimizer that the task uses a piece of; NULL: none.
 */
const struct dsflow_data_spec *dsf_cut_state(const struct dsf_cut *c,
                                             const struct dsflow_task_spec *t);

/* Pieces of a state; and its elements before piece `i` of `n`, and of it: whole
 * blocks. */
int64_t dsf_cut_count(const struct dsf_cut *c,
                      const struct dsflow_data_spec *d);
int64_t dsf_cut_before(const struct dsflow_data_spec *d, int64_t i, int64_t n);
int64_t dsf_cut_elems(const struct dsflow_data_spec *d, int64_t i, int64_t n);

/* How many tasks from the `i`-th on use the same pieces: what follows an update
 * has each one while it is there. */
uint32_t dsf_cut_together(const struct dsf_cut *c, uint32_t i);

/* Can it be done in pieces of what it uses? */
int dsf_cut_check(const struct dsf_cut *c, const struct dsflow_task_spec *t,
                  const struct dsflow_data_spec *state, struct dsflow_err *err);

/* Where the task, and those that have its pieces with it, are done; and the
 * elements there of the largest piece of a state that is packed. */
struct dsf_cut_place *dsf_cut_place(struct dsf_cut *c,
                                    const struct dsflow_task_spec *t);
int64_t *dsf_cut_most(const struct dsf_cut *c, const struct dsf_cut_place *at,
                      const struct dsflow_data_spec *state, int32_t rank);

#endif
