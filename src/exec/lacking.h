/* lacking.h - kinds of tasks that devices have no kernels for. */
#ifndef DSF_EXEC_LACKING_H
#define DSF_EXEC_LACKING_H

#include <dsflow/exec.h>

/* Names of the kinds whose data is on a device and that cores do for want of a
 * kernel there, as "embed, norm", or "recode with a format of a plug-in" where
 * that is so of some tasks only; freed by the caller; NULL: there are none.
 * *share is what they take of the time of all kernels so far. */
char *dsf_exec_lacking(const struct dsflow_exec *exec, double *share);

#endif
