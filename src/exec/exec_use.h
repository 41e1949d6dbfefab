/* exec_use.h - what differs from one submission of a task to the next: its
 * arguments and, where the graph is made for the largest, which of its data. */
#ifndef DSF_EXEC_EXEC_USE_H
#define DSF_EXEC_EXEC_USE_H

#include <stdbool.h>
#include <dsflow/exec.h>

/* Elements of a piece of data, from `from` on; elems 0: all. */
struct dsf_exec_rows {
    int64_t from, elems;
};

struct dsf_exec_use {
    bool skipped;                     /* there is nothing to do this time */
    uint32_t fresh;                   /* in place of the graph's, */
    const void *args;                 /* as these are */
    const struct dsf_exec_rows *rows; /* by data of the task; NULL: all of it */
};

/* From the next submission on; `use` is borrowed until the executor is closed,
 * and may be changed between a wait and the next submit. The order of the tasks
 * stays that of the graph. */
void dsf_exec_set_use(struct dsflow_exec *exec, dsflow_task_id task,
                      const struct dsf_exec_use *use);

#endif
