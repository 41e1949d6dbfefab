/* spread.h - the executor of a graph that several processes run. One of them
 * has it: what it is asked, it asks the others, too, who serve it with an
 * executor of their part. Data of another process is mapped by way of a buffer.
 */
#ifndef DSF_EXEC_SPREAD_H
#define DSF_EXEC_SPREAD_H

#include <dsflow/exec.h>

#include "graph/part.h"
#include "net/wire.h"

/* In each of the others: do what the process with the executor asks, until it
 * closes that. `exec` is of `part`, that of this process; NULL: there is none,
 * and it will only be asked to end. A failure here is one there, at the next
 * wait.
 */
int dsf_spread_serve(struct dsflow_exec *exec,
                     const struct dsf_graph_part *part, struct dsf_wire *wire,
                     void (*told)(void *user, const int64_t *numbers),
                     void *user, struct dsflow_err *err);

/* Two numbers that the programs around the executors have in common: each of
 * the others is `told` them before what is submitted later. */
enum { DSF_SPREAD_NUMBERS = 2 };
void dsf_spread_tell(struct dsflow_exec *exec, const int64_t *numbers);

#endif
