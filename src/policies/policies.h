/* policies.h - the built-in policies, and how all of them are applied. */
#ifndef DSF_POLICIES_POLICIES_H
#define DSF_POLICIES_POLICIES_H

#include <dsflow/policy.h>

#include "base/registry.h"
#include "graph/task.h"
#include "plan/plan.h"

extern const struct dsflow_policy dsf_policy_reference;
extern const struct dsflow_policy dsf_policy_tensor_parallel;
extern const struct dsflow_policy dsf_policy_sequence_parallel;
extern const struct dsflow_policy dsf_policy_recompute;
extern const struct dsflow_policy dsf_policy_pipeline;
extern const struct dsflow_policy dsf_policy_replace, dsf_policy_precision;
extern const struct dsflow_policy dsf_policy_weights, dsf_policy_compress;
extern const struct dsflow_policy dsf_policy_zero, dsf_policy_collectives;
extern const struct dsflow_policy dsf_policy_strict;
extern const struct dsflow_policy dsf_policy_send;
extern const struct dsflow_policy dsf_policy_offload;
extern const struct dsflow_policy dsf_policy_priorities;

/* All that are known; dsflow_policy_at has them in the order they are applied.
 */
extern struct dsf_registry dsf_policies;

/* rewrite.c: the programs of `in` for `out`, with the same numbers. */
void dsf_rewrite_programs(const struct dsflow_graph *in,
                          struct dsflow_graph *out);

/* rewrite.c: data that is described by `spec`, called so; a name that is taken
 * is a fault. */
dsflow_data_id dsf_add_named(struct dsflow_graph *g,
                             const struct dsflow_data_spec *spec,
                             const char *fmt, ...) DSFLOW_PRINTF(3, 4);

/* A task of the kind `op` on `rank`, of the layer, micro-batch, tile, pass and
 * program of `like`; of the same kind, it leaves out the same ports. */
void dsf_add_like(struct dsflow_graph *g, const struct dsflow_task_spec *like,
                  const struct dsflow_op *op, const void *args, int32_t rank,
                  uint32_t fresh, uint32_t n, const dsflow_data_id *data);

/* Task `t` with data that `port` gives in the place of data[i]. */
typedef dsflow_data_id (*dsf_port_fn)(void *user,
                                      const struct dsflow_task_spec *t,
                                      unsigned i);
void dsf_add_mapped(struct dsflow_graph *g, const struct dsflow_task_spec *t,
                    dsf_port_fn port, void *user);

/* reference_kept.c: what the step keeps whatever other policies do. */
int dsf_reference_keep(const struct dsf_job *job, struct dsf_kept_list *list,
                       struct dsflow_err *err);

/* Where the tensors of a unit are, and what each one is. */
void dsf_reference_describe(const struct dsf_unit *unit,
                            struct dsflow_update_args *args);

/* dsf_optimizer_state_from, of a unit. */
int64_t dsf_reference_state_from(const struct dsf_unit *unit,
                                 const struct dsflow_optimizer *o, unsigned i);

/* offload_near.c: is it an update that a GPU does, wherever its states are
 * kept? */
bool dsf_offload_is_near(const struct dsflow_plan *plan,
                         const struct dsflow_task_spec *t);

/* Let every policy decide, then rewrite, up to the one called `until` (NULL:
 * all), and check the result. The graph belongs to the caller. */
int dsf_policies_build(struct dsflow_plan *plan, const char *until,
                       struct dsflow_graph **graph, struct dsflow_err *err);

/* The same by the built-in policies alone, whatever plug-ins have brought:
 * steps that this machine is measured by are dsflow's own. */
int dsf_policies_build_builtin(struct dsflow_plan *plan,
                               struct dsflow_graph **graph,
                               struct dsflow_err *err);

/* The same as dsf_policies_build, but with no more tasks than process `p` needs
 * to know its own and the messages that it sends and receives (asked.h); it is
 * not checked. With a policy of a plug-in, which may ask for anything, it is
 * the whole graph. */
struct dsf_processes;
struct dsf_asked_graph {
    struct dsflow_graph *graph;
    bool is_whole;
    uint64_t plain; /* hash of the plain step, which all processes make; or 0 */
};
int dsf_policies_build_asked(struct dsflow_plan *plan,
                             const struct dsf_processes *all, int32_t p,
                             struct dsf_asked_graph *asked,
                             struct dsflow_err *err);

#endif
