/* onebit_lamb.h - what kinds of task of 1-bit LAMB ask of each other. */
#ifndef DSF_TASKS_ONEBIT_LAMB_H
#define DSF_TASKS_ONEBIT_LAMB_H

#include <dsflow/op.h>

/* Is port `p` a struct dsf_lamb for each tensor that a unit may have? */
int dsf_lamb_check(const struct dsflow_case *c, unsigned p,
                   struct dsflow_err *err);

#endif
