/* signs.h - what kinds of task that send signs ask of each other. */
#ifndef DSF_TASKS_SIGNS_H
#define DSF_TASKS_SIGNS_H

#include <dsflow/op.h>

/* Arguments begin with a struct dsf_coding. Where the task has port `error`:
 * are the `elems` numbers of which it keeps errors whole tensors? */
int dsf_feed_check(const struct dsflow_case *c, int64_t elems, int64_t groups,
                   unsigned error, struct dsflow_err *err);

/* Arguments are struct dsf_chunk_args: are there scales on port 2? */
int dsf_served_check(const struct dsflow_case *c, struct dsflow_err *err);

/* Is port `p` a struct dsf_lamb for each tensor that a unit may have? */
int dsf_lamb_check(const struct dsflow_case *c, unsigned p,
                   struct dsflow_err *err);

#endif
