/* schedulers.h - StarPU's schedulers that are offered. */
#ifndef DSF_MACHINE_SCHEDULERS_H
#define DSF_MACHINE_SCHEDULERS_H

#include <dsflow/error.h>

/* The i-th name, of which the first is the default; NULL past the last. */
const char *dsf_scheduler_at(unsigned i);

/* DSFLOW_EINVAL: "fifo: expected one of …". NULL is the default. */
int dsf_scheduler_check(const char *name, struct dsflow_err *err);

#endif
