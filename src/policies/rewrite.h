/* rewrite.h - what the policies that rewrite a graph share: data and tasks of
 * the old one in the new one. */
#ifndef DSF_POLICIES_REWRITE_H
#define DSF_POLICIES_REWRITE_H

#include <dsflow/graph.h>

/* From one graph to the next. */
struct dsf_rewrite {
    struct dsflow_graph *in, *out;
    dsflow_data_id *copy; /* by data of `in`, where `copied` */
    uint8_t *copied;
};

struct dsf_rewrite dsf_rewrite_begin(struct dsflow_graph *in,
                                     struct dsflow_graph *out);
void dsf_rewrite_end(struct dsf_rewrite *rw);

/* The same piece of data in the new graph. */
dsflow_data_id dsf_rewrite_data(struct dsf_rewrite *rw, dsflow_data_id id);

/* Emit the task as it is, its data copied. */
void dsf_rewrite_task(struct dsf_rewrite *rw,
                      const struct dsflow_task_spec *task);

/* The data called by this name: made with `spec` when there is none yet. */
dsflow_data_id dsf_rewrite_named(struct dsflow_graph *out,
                                 const struct dsflow_data_spec *spec,
                                 const char *fmt, ...) DSFLOW_PRINTF(3, 4);

#endif
