/* spread.h - the executor of a graph that several processes run. One of them
 * has it: what it is asked, it asks the others, too, who serve it with an
 * executor of their part. Data of another process is mapped by way of a buffer.
 */
#ifndef DSF_EXEC_SPREAD_H
#define DSF_EXEC_SPREAD_H

#include <dsflow/exec.h>

#include "graph/part.h"
#include "net/wire.h"

/* What is around an executor that serves, and is asked by what is around the
 * one in the first process. */
struct dsf_spread_served {
    void *user;
    void (*told)(void *user, const int64_t *numbers); /* dsf_spread_tell */
    /* dsf_spread_call: nothing is under way; messages of theirs follow. An
     * error ends the service. */
    int (*asked)(void *user, struct dsflow_err *err);
};

/* In each of the others: do what the process with the executor asks, until it
 * closes that. `exec` is of `part`, that of this process; NULL: there is none,
 * and it will only be asked to end. A failure here is one there, at the next
 * wait.
 */
int dsf_spread_serve(struct dsflow_exec *exec,
                     const struct dsf_graph_part *part, struct dsf_wire *wire,
                     const struct dsf_spread_served *served,
                     struct dsflow_err *err);

/* Let all GPUs meet that send to each other: once, when all executors are open
 * and served, and before a program is submitted. */
int dsf_spread_join(struct dsflow_exec *exec, struct dsflow_err *err);

/* Two numbers that the programs around the executors have in common: each of
 * the others is `told` them before what is submitted later. */
enum { DSF_SPREAD_NUMBERS = 2 };
void dsf_spread_tell(struct dsflow_exec *exec, const int64_t *numbers);

/* Let each of the others call `asked`. After a wait, before a submit. */
int dsf_spread_call(struct dsflow_exec *exec, struct dsflow_err *err);

/* The executor of the part of this process. */
struct dsflow_exec *dsf_spread_own(const struct dsflow_exec *exec);

#endif
