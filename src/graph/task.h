/* task.h - what the op of a task says of it, given the shapes of its data. */
#ifndef DSF_GRAPH_TASK_H
#define DSF_GRAPH_TASK_H

#include <stdbool.h>
#include <dsflow/graph.h>

/* No data: an empty part of a unit, a port that is left out. */
static inline dsflow_data_id dsf_no_data(void)
{
    return (dsflow_data_id){ UINT32_MAX };
}

static inline bool dsf_is_data(dsflow_data_id id)
{
    return id.i != UINT32_MAX;
}

/* Task or piece of data number `i`; NULL past the last. */
static inline const struct dsflow_task_spec *
dsf_nth_task(const struct dsflow_graph *g, uint32_t i)
{
    return i < dsflow_graph_ntasks(g)
               ? dsflow_graph_task(g, (dsflow_task_id){ i })
               : NULL;
}

static inline const struct dsflow_data_spec *
dsf_nth_data(const struct dsflow_graph *g, uint32_t i)
{
    return i < dsflow_graph_ndata(g)
               ? dsflow_graph_data(g, (dsflow_data_id){ i })
               : NULL;
}

/* How many ports the functions of its op and its codelet are told of, those that
 * it leaves out among them; and the shapes of its data on them: 0 bytes where it
 * has none. */
unsigned dsf_task_nports(const struct dsflow_task_spec *t);
void dsf_task_shapes(const struct dsflow_graph *g,
                     const struct dsflow_task_spec *t,
                     struct dsflow_shape *shapes);

/* Do the shapes and arguments of the case make sense together? */
int dsf_check_case(const struct dsflow_case *c, struct dsflow_err *err);

/* And those of the task? */
int dsf_task_check(const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, struct dsflow_err *err);

struct dsflow_cost dsf_task_cost(const struct dsflow_graph *g,
                                 const struct dsflow_task_spec *t);

/* What the op says of the port that data[i] is on, which may be one of those that
 * come again. */
const struct dsflow_port *dsf_task_port(const struct dsflow_task_spec *t,
                                        unsigned i);

/* Where data[i] stands in lists by port, of dsf_task_nports entries: one for
 * each time that a port comes again. */
unsigned dsf_task_index(const struct dsflow_task_spec *t, unsigned i);

/* A task that can be sliced: the first port whose data is of a unit, element by
 * element; -1: it is not such a task. */
int dsf_task_unit_port(const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t);

/* Which of its data a task makes: the first that it writes. */
unsigned dsf_task_makes(const struct dsflow_task_spec *t);

/* Bytes that the task reads of port `i` where it is on another rank: what it
 * moves between ranks. */
double dsf_task_moves(const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t, unsigned i);

/* What these bytes would be if the numbers in them were not coded. */
double dsf_task_dense(const struct dsflow_graph *g,
                      const struct dsflow_task_spec *t, unsigned i);

/* Bytes of working memory; and as such a function says. NULL: none. */
size_t dsf_task_scratch(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t);
size_t dsf_task_scratch_by(const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t,
                           size_t (*scratch)(const struct dsflow_case *c));

/* Has `t` data in this tier? What has some on NVMe is done by the disk, and
 * needs no worker: port 0 is copied to port 1. What has some in main memory
 * (HOST) and is no swap runs on a CPU. */
bool dsf_task_uses(const struct dsflow_graph *g,
                   const struct dsflow_task_spec *t, enum dsflow_tier tier);

/* Of a swap: does it bring data to a faster memory? And how many bytes? */
bool dsf_task_brings(const struct dsflow_graph *g,
                     const struct dsflow_task_spec *t);
size_t dsf_task_swapped(const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t);

#endif
