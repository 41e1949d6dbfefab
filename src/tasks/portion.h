/* portion.h - the numbers that a task works on, of data that has others beside
 * them; and which of them go to who works elsewhere, and come back. */
#ifndef DSF_TASKS_PORTION_H
#define DSF_TASKS_PORTION_H

#include <stdbool.h>
#include <dsflow/graph.h>

struct dsf_portion {
    size_t at, bytes; /* in the data */
    bool brought;     /* before the task; not what it only writes */
    bool taken_back;  /* behind it */
};

/* Of the task's data[i]. It is all of it where nothing else is known. */
struct dsf_portion dsf_portion_of(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t, unsigned i);

#endif
