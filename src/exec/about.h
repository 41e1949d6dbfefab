/* about.h - what StarPU this build runs on, and what it offers. */
#ifndef DSF_EXEC_ABOUT_H
#define DSF_EXEC_ABOUT_H

#include <dsflow/error.h>

const char *dsf_exec_starpu_version(void);
int dsf_exec_has_opencl(void); /* virtual devices */
int dsf_exec_has_cuda(void);

/* The names that dsflow_exec_options.scheduler may have, and a NULL; the first
 * is the default. */
const char *const *dsf_exec_schedulers(void);
/* DSFLOW_EINVAL: "fifo: expected one of …". NULL is the default. */
int dsf_exec_check_scheduler(const char *name, struct dsflow_err *err);

#endif
