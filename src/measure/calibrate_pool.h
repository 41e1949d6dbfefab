/* calibrate_pool.h - run a graph on threads of our own and time each task:
 * what a kernel takes while the other cores work too, on data that the step
 * itself left in the caches. */
#ifndef DSF_MEASURE_CALIBRATE_POOL_H
#define DSF_MEASURE_CALIBRATE_POOL_H

#include <dsflow/codelet.h>
#include <dsflow/graph.h>

struct dsf_pool;

/* Memory for the data of `g`, filled with small numbers. `g` and `host` are
 * borrowed. */
int dsf_pool_open(struct dsflow_graph *g, const struct dsflow_host *host,
                  unsigned workers, struct dsf_pool **pool,
                  struct dsflow_err *err);
void dsf_pool_close(struct dsf_pool *pool); /* NULL is fine */

/* Run the tasks of a step; seconds[i] is what task i of the graph took. Returns
 * the seconds of the whole. */
double dsf_pool_step(struct dsf_pool *pool, double *seconds);

#endif
