/* messages.h - tasks that are messages between processes, said as messages: for
 * what carries them. */
#ifndef DSF_CODELETS_MESSAGES_H
#define DSF_CODELETS_MESSAGES_H

#include <stdbool.h>
#include <dsflow/graph.h>

/* `elems` numbers from `at` on, of the data of the task; or of rows of `row`
 * bytes those that are there (tasks/args.h). */
struct dsf_part_message {
    int64_t elems, at;
    int32_t process; /* at the other end */
    uint32_t tag;
    int32_t rank; /* there, whose GPU it is of; -1: it is in main memory */
    uint32_t row;
};

enum { DSF_MOST_MESSAGES = 8 }; /* of a task */

bool dsf_is_message(const struct dsflow_op *op);

/* Does it go from GPU to GPU? All parts of a message do, or none. */
bool dsf_is_direct(const struct dsflow_task_spec *t);

/* Those of the task, in v; returns how many, all of which go (`out`) or come.
 */
unsigned dsf_messages(const struct dsflow_task_spec *t,
                      struct dsf_part_message *v, bool *out);

#endif
