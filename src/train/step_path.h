/* step_path.h - the critical path of the steps of a program, in a run: through
 * its tasks, and through the messages of other processes that they compute
 * with, which are no tasks of the graph. */
#ifndef DSF_TRAIN_STEP_PATH_H
#define DSF_TRAIN_STEP_PATH_H

#include "graph/succs.h"
#include "plan/division.h"

struct dsf_step_path {
    struct dsf_succs edges; /* of tasks, and of messages in front of them */
    uint32_t first, n;      /* the first task; how many there are of both */
    bool *message;          /* by either; NULL: there are none, nor these: */
    uint32_t *of; /* the task of the graph; of a message the data that the task
                     makes, by which it is known */
    double *took;
};

/* Those of the programs of `wanted`, by their number; of the others nothing is
 * changed. To be ended by dsf_step_paths_fini. */
void dsf_step_paths_init(struct dsf_step_path *paths, const bool *wanted,
                         const struct dsf_processes *all,
                         struct dsflow_graph *g);
void dsf_step_paths_fini(struct dsf_step_path *paths, unsigned n);

/* What a step among others adds to it. By task of the graph: seconds; by the
 * data that a task makes: seconds of each message that it makes it of. */
double dsf_step_path_seconds(struct dsf_step_path *p, const double *seconds,
                             const double *came);

#endif
