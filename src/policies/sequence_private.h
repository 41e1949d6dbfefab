/* sequence_private.h - what the two ways to share sequences have in common. */
#ifndef DSF_POLICIES_SEQUENCE_PRIVATE_H
#define DSF_POLICIES_SEQUENCE_PRIVATE_H

#include <stdbool.h>

#include "policies/policies.h"

/* What a buffer of a ring has. */
struct dsf_sequence_slot {
    dsflow_data_id id;
    uint32_t occupant; /* data, +1; 0: nothing */
    uint32_t version;  /* of it */
};

struct dsf_sequence_ring;

/* Rings of buffers for what passes by: [mesh] key_slots of them each for a
 * rank, a chunk of its stage, a pass and a size. Replicas take turns in rings
 * of their own. */
struct dsf_sequence_rings {
    const struct dsflow_plan *plan;
    struct dsflow_graph *out;
    const char *name; /* of the buffers: "far" */
    struct dsf_sequence_ring *v;
    size_t n, cap;
    uint32_t *first; /* [replicas][chunks][passes]: +1 */
    int32_t nslots;
};

void dsf_sequence_rings_init(struct dsf_sequence_rings *rings,
                             const struct dsflow_plan *plan,
                             struct dsflow_graph *out, const char *name);
void dsf_sequence_rings_fini(struct dsf_sequence_rings *rings);

/* The slot of the task's rank that has data number `occupant` - 1 in this
 * version; or NULL. */
struct dsf_sequence_slot *dsf_sequence_has(struct dsf_sequence_rings *rings,
                                           const struct dsflow_task_spec *t,
                                           const struct dsflow_data_spec *spec,
                                           uint32_t occupant, uint32_t version);

/* The next one in its turn, which has this from now on. */
struct dsf_sequence_slot *dsf_sequence_next(struct dsf_sequence_rings *rings,
                                            const struct dsflow_task_spec *t,
                                            const struct dsflow_data_spec *spec,
                                            uint32_t occupant,
                                            uint32_t version);

/* Is the task of a tile of a micro-batch? Then it has the coordinate of its
 * tile on the axis sequence, and the rank that is: */
bool dsf_sequence_is_placed(const struct dsflow_task_spec *t);
int16_t dsf_sequence_rank(const struct dsflow_plan *plan,
                          const struct dsflow_task_spec *t, int32_t at);

/* sequence_choice.c: set plan->shares. Heads that cannot be shared out are an
 * error where the job wants them. */
int dsf_sequence_choose(struct dsflow_plan *plan, struct dsflow_err *err);

/* sequence_heads.c: the rewriting where ranks have heads. */
int dsf_sequence_heads_rewrite(const struct dsflow_plan *plan,
                               struct dsflow_graph *in,
                               struct dsflow_graph *out,
                               struct dsflow_err *err);

#endif
