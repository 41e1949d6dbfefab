/* rewrite.h - for policies: data and tasks of the old graph in the new one. */
#ifndef DSFLOW_REWRITE_H
#define DSFLOW_REWRITE_H

#include <dsflow/graph.h>

DSFLOW_BEGIN_DECLS

/* What a policy is given as `out` has the programs of `in`, with the same
 * numbers. The functions here see to it where `out` is another graph. */

/* All data and all tasks of `in`, in order, into `out`; `change` gets each task
 * before it is added, and may change its fields (priority, rank, op, …). The
 * args and the list of data are those of the old graph: a `change` that wants
 * others points to its own, which must live until it is called again. NULL: no
 * change. */
DSFLOW_API void
dsflow_rewrite_all(struct dsflow_graph *in, struct dsflow_graph *out,
                   void (*change)(void *user, struct dsflow_task_spec *t),
                   void *user);

/* The same step by step, for tasks in another order, more of them or fewer:
 * begin, then data and tasks as they are wanted, then end. */
struct dsflow_rewrite {
    struct dsflow_graph *in, *out;
    dsflow_data_id *copy; /* by data of `in`, where `copied` */
    uint8_t *copied;
    dsflow_data_id *list; /* of the task that is added */
    size_t cap_list;
};
DSFLOW_API struct dsflow_rewrite dsflow_rewrite_begin(struct dsflow_graph *in,
                                                      struct dsflow_graph *out);
DSFLOW_API void dsflow_rewrite_end(struct dsflow_rewrite *rw);

/* The same piece of data in the new graph: copied when first asked for. */
DSFLOW_API dsflow_data_id dsflow_rewrite_data(struct dsflow_rewrite *rw,
                                              dsflow_data_id id);

/* Add the task as it is, its data copied. */
DSFLOW_API void dsflow_rewrite_task(struct dsflow_rewrite *rw,
                                    const struct dsflow_task_spec *task);

/* The data of the new graph called by this name: made with `spec` when there is
 * none yet. */
DSFLOW_API dsflow_data_id dsflow_rewrite_named(
    struct dsflow_graph *out, const struct dsflow_data_spec *spec,
    const char *fmt, ...) DSFLOW_PRINTF(3, 4);

DSFLOW_END_DECLS

#endif
