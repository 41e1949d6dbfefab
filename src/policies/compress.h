/* compress.h - what a job sends in fewer bytes, for policies that make tasks of
 * it. */
#ifndef DSF_POLICIES_COMPRESS_H
#define DSF_POLICIES_COMPRESS_H

#include <stdbool.h>

#include "config/job.h"
#include "model/model.h"
#include "model/parts.h"
#include "plan/plan.h"
#include "policies/keys.h"
#include "tasks/coding.h"

/* Are gradients of the unit sent in another format, and how? */
bool dsf_compress_gradient(const struct dsf_job *job,
                           const struct dsf_unit *unit,
                           struct dsf_coding *coding);

/* The same of its parameters, which may be cut at multiples of `cut` numbers,
 * and the first `matrices` of which are matrices: the unit's, or those of a
 * part. */
bool dsf_compress_params(const struct dsf_job *job, const struct dsf_unit *unit,
                         int64_t cut, int64_t matrices,
                         struct dsf_coding *coding);

/* How the gradient of a part is sent, where that of its unit is sent as
 * `coding` says. Each tensor rank has scales of its own pieces of tensors. */
void dsf_compress_part(const struct dsf_unit *unit, const struct dsf_part *part,
                       struct dsf_coding *coding);

/* The matrices of a unit, at most DSF_CODED_TENSORS, and how many; and how the
 * unit is sent in a format that has a scale for each of them. */
unsigned dsf_compress_matrices(const struct dsf_unit *unit,
                               struct dsf_coded_tensor *matrices);
bool dsf_compress_by_tensor(const struct dsf_job *job, const char *format,
                            const struct dsf_unit *unit, unsigned n,
                            const struct dsf_coded_tensor *matrices,
                            struct dsf_coding *coding);

/* Has the unit an error for each group? And the type of its numbers. */
bool dsf_has_errors(const struct dsf_job *job, const struct dsf_model *model,
                    const struct dsf_unit *unit);
enum dsflow_dtype dsf_error_type(const struct dsf_job *job);

/* This is kept of all groups, or of all nodes, as tensors. */
int dsf_keep_of_groups(struct dsflow_plan *plan, enum dsf_of_group what,
                       struct dsflow_err *err);

/* What is kept of a group, or of a node: its number, from 1 on (graph.h: kept).
 */
uint16_t dsf_group_kept(const struct dsflow_plan *plan, enum dsf_of_group what,
                        int32_t number);

/* Is the gradient of the unit that of an embedding, sent as rows? */
bool dsf_compress_rows(const struct dsf_job *job, const struct dsf_model *model,
                       const struct dsf_unit *unit);

#endif
