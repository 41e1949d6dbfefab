/* onebit.h - 1-bit Adam and 1-bit LAMB, for policies that make tasks of them.
 */
#ifndef DSF_POLICIES_ONEBIT_H
#define DSF_POLICIES_ONEBIT_H

#include <stdbool.h>

#include "model/parts.h"
#include "plan/plan.h"
#include "tasks/coding.h"
#include "tasks/onebit.h"

/* The program of steps in which momenta are sent; and that of the last one
 * before them, where it has more to do than others. */
#define DSF_ONEBIT_PROGRAM  "compressed"
#define DSF_ONEBIT_FREEZING "freezing"

/* The keys that 1-bit Adam and 1-bit LAMB have in common, and those of 1-bit
 * LAMB; NULL: the job has another optimizer. */
const struct dsf_onebit_keys *dsf_onebit_keys(const struct dsf_job *job);
const struct dsf_onebit_lamb_keys *
dsf_onebit_lamb_keys(const struct dsf_job *job);

/* Is it 1-bit Adam, or one that has its tasks in some steps? */
bool dsf_sends_signs(const struct dsf_job *job);

/* Is this kept of units that are coded, and of no others? */
bool dsf_onebit_keeps(const struct dsf_job *job,
                      const struct dsflow_kept *kept);

/* What of the momentum of unit `u` is sent in 1 bit: without tensors, nothing
 * is. Rows that never have a gradient (positions beyond the sequence) are not:
 * their errors would grow. */
struct dsf_coding dsf_onebit_coding(const struct dsf_job *job,
                                    const struct dsf_model *model,
                                    const struct dsf_unit *unit);

/* The same of a part of it, where that of the unit is sent as `coding` says. */
void dsf_onebit_code_part(const struct dsf_job *job,
                          const struct dsf_model *model,
                          const struct dsf_part *part,
                          struct dsf_coding *coding);

/* What is kept of it beside the states of Adam, which steps are of the program;
 * and what does not go with it is refused. */
int dsf_onebit_decide(struct dsflow_plan *plan, struct dsflow_err *err);

/* For whoever sends signs: errors are kept of groups and of chunks. What takes
 * gradients as they are in all steps is refused; so is a key of which `words`
 * say what is expected. */
int dsf_onebit_keep(struct dsflow_plan *plan, struct dsflow_err *err);
int dsf_onebit_check(const struct dsflow_plan *plan, struct dsflow_err *err);
int dsf_onebit_refuse(const struct dsflow_plan *plan, struct dsflow_err *err,
                      const char *table, const char *key, const char *words);

/* What is kept of the errors of those that average the chunks (graph.h: kept):
 * each data rank has a shard of it, on any stage of ZeRO. 0: there is none. */
uint16_t dsf_onebit_server(const struct dsflow_plan *plan);

/* The same of the second moments of 1-bit LAMB that do not freeze, and of what
 * it has of each unit: struct dsf_lamb of its tensors. */
uint16_t dsf_onebit_fresh(const struct dsflow_plan *plan);
uint16_t dsf_onebit_lamb(const struct dsflow_plan *plan);

/* Is nothing of a unit sent before all gradients are there? The norm of a group
 * is then known, and the one scale of all tensors. */
bool dsf_onebit_waits(const struct dsf_job *job);

/* Does each data rank have a shard of it, on any stage of ZeRO? */
bool dsf_onebit_is_cut(const struct dsflow_plan *plan, uint16_t kept);

/* Is this kept number the momentum? Each data rank has all of it, on any stage:
 * its groups' momenta begin with it. */
bool dsf_onebit_is_momentum(const struct dsflow_plan *plan, uint16_t kept);

#endif
