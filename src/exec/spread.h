/* spread.h - the executor of a graph that several processes run. One of them
 * has it: what it is asked, it asks the others, too, who serve it with an
 * executor of their part. Data of another process is mapped by way of a buffer.
 */
#ifndef DSF_EXEC_SPREAD_H
#define DSF_EXEC_SPREAD_H

#include <dsflow/exec.h>

#include "net/wire.h"

/* In each of the others: do what the process with the executor asks, until it
 * closes that. `exec` is of the part of this process. A failure here is one
 * there, at the next wait. */
int dsf_spread_serve(struct dsflow_exec *exec, struct dsf_wire *wire,
                     struct dsflow_err *err);

#endif
