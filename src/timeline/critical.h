/* critical.h - the critical path through the tasks of a step. */
#ifndef DSF_TIMELINE_CRITICAL_H
#define DSF_TIMELINE_CRITICAL_H

#include "graph/succs.h"

/* What step `step` (from 0) adds to the critical path through it and the steps
 * before it: steps overlap, so that this may be less than the critical path
 * through one. `cost` is by task; edges to the next step are used if there are
 * any. *path, when it is not NULL, gets the tasks of this step on that path, *n
 * of them in order, to be freed by the caller. */
double dsf_critical(const struct dsf_succs *edges, const double *cost,
                    uint32_t ntasks, unsigned step, uint32_t **path,
                    uint32_t *n);

#endif
