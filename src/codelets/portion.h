/* portion.h - the numbers that a task works on, of data that has others beside
 * them. */
#ifndef DSF_CODELETS_PORTION_H
#define DSF_CODELETS_PORTION_H

#include <stdbool.h>
#include <dsflow/graph.h>

struct dsf_portion {
    size_t at, bytes; /* in the data */
    bool anew;        /* all of them are written, and none is read */
};

/* Of the task's data[i]. It is all of it where nothing else is known. */
struct dsf_portion dsf_portion_of(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t, unsigned i);

#endif
