/* gpu_attention.h - what attention is for a GPU: with a window or a layout its
 * kernels go by tiles of queries and keys (tasks/attention_tiles.h), of which
 * they leave out those that nobody sees. */
#ifndef DSF_SIM_GPU_ATTENTION_H
#define DSF_SIM_GPU_ATTENTION_H

#include "sim/cost.h"

/* What was counted of tasks of a graph: tasks with the same arguments, as those
 * of layers that are alike, have them in common. */
struct dsf_gpu_attention_memo {
    struct dsf_gpu_attention_known {
        const void *args;
        const struct dsflow_op *op;
        int32_t layout;
        enum dsflow_dtype dtype;
        double scores;
    } known[256];
};

/* dsf_work_of, of a task that a GPU does. */
struct dsf_work dsf_gpu_work_of(const struct dsf_cost_model *model,
                                const struct dsflow_graph *g,
                                const struct dsflow_task_spec *t);

#endif
