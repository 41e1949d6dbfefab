/* apart.h - measure in a process of its own: where an assertion of StarPU's
 * fails it ends the process, and a plan must not depend on that. */
#ifndef DSF_MEASURE_APART_H
#define DSF_MEASURE_APART_H

#include <stddef.h>
#include <dsflow/error.h>

/* What is done there; its answer goes to `answer`, which is zeroed. */
typedef int (*dsf_apart_fn)(void *user, void *answer, struct dsflow_err *err);

/* Do it, where no file is open but the standard ones, and bring the answer of
 * `bytes` bytes here. What it writes to standard error is lost. Errors: those
 * of `work`; DSFLOW_EFAIL where the process ended before it was done. */
int dsf_apart(dsf_apart_fn work, void *user, void *answer, size_t bytes,
              struct dsflow_err *err);

#endif
