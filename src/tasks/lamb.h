/* lamb.h - what of LAMB the graph is built with. */
#ifndef DSF_TASKS_LAMB_H
#define DSF_TASKS_LAMB_H

#include <dsflow/optimizer.h>
#include <dsflow/option.h>

#include "tasks/args.h"

/* The table [lamb] of a job. */
struct dsf_lamb_keys {
    double max_coeff, min_coeff;
};
extern const struct dsflow_option dsf_lamb_options[];
int dsf_lamb_check_keys(const void *part, struct dsflow_err *err);

/* How many sums there are for each block of a unit with so many tensors: a
 * power of two, so that a unit that is cut between blocks cuts its sums, too.
 */
int64_t dsf_lamb_width(int32_t ntensors);

/* The limits of the ratio of the optimizer `o`, whose keys are `part`: LAMB,
 * and 1-bit LAMB. */
struct dsf_lamb_keys dsf_lamb_limits(const struct dsflow_optimizer *o,
                                     const void *part);

/* The arguments of lamb_ratio that go with those of the two others. */
void dsf_lamb_fill_ratio(const struct dsf_lamb_keys *limits,
                         const struct dsf_update_args *of,
                         struct dsf_ratio_args *args);

/* task_update.c: dsflow_update_check of all ports but one; 0: of all. */
int dsf_update_check_but(const struct dsflow_case *c, unsigned but,
                         struct dsflow_err *err);

/* The same, for the kinds of task with its arguments: is there a copy
 * where the arguments say so, on the last port, with room for all numbers? And
 * `slice`, of an op whose port `copy` that is. */
int dsf_update_copy_check(const struct dsflow_case *c, struct dsflow_err *err);
void dsf_update_slice_with_copy(void *args, int64_t from, int64_t elems,
                                const int64_t *gone, unsigned copy);

#endif
