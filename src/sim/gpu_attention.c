/* gpu_attention.c - what attention with a window or a layout is for a GPU. */
#include "sim/gpu_attention.h"

#include "plan/sight.h"
#include "tasks/attention_tiles.h"
#include "tasks/tasks.h"

/* The number of the layout of a task; -1: it has none. */
static int32_t layout_number(const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata; i++)
        if (dsflow_task_port(t, i) == DSFLOW_ATTENTION_LAYOUT)
            return dsflow_graph_data(g, t->data[i])->part;
    return -1;
}

static double count_scores(const struct dsf_cost_model *model,
                           const struct dsflow_task_spec *t, int32_t number,
                           enum dsflow_dtype dtype)
{
    const bool forward = t->op == &dsf_op_attention_forward;
    const bool narrow = dtype == DSFLOW_BF16 || dtype == DSFLOW_FP16;
    struct dsf_layout layout = { 0 };

    if (number >= 0)
        layout =
            dsf_attention_layout_of(dsf_plan_layout_at(model->plan, number));
    return dsf_attention_gpu_scores(t->args, &layout, forward, narrow);
}

static double scores_of(const struct dsf_cost_model *model,
                        const struct dsflow_task_spec *t, int32_t number,
                        enum dsflow_dtype dtype)
{
    struct dsf_gpu_attention_known *known;

    if (model->memo == NULL)
        return count_scores(model, t, number, dtype);
    known =
        &model->memo
             ->known[((uintptr_t)t->args / 16 * 31 + (uintptr_t)t->op / 16) %
                     (sizeof(model->memo->known) / sizeof(*known))];
    if (known->args != t->args || known->op != t->op ||
        known->layout != number || known->dtype != dtype)
        *known = (struct dsf_gpu_attention_known){
            t->args, t->op, number, dtype, count_scores(model, t, number, dtype)
        };
    return known->scores;
}

struct dsf_work dsf_gpu_work_of(const struct dsf_cost_model *model,
                                const struct dsflow_graph *g,
                                const struct dsflow_task_spec *t)
{
    struct dsf_work work = dsf_work_of(g, t);
    const struct dsflow_attention_args *a = t->args;
    int32_t number;
    double scores;

    if ((t->op != &dsf_op_attention_forward &&
         t->op != &dsf_op_attention_backward_input) ||
        (a->window == 0 && a->block == 0))
        return work;
    number = a->block > 0 ? layout_number(g, t) : -1;
    if (a->block > 0 && (number < 0 || model->plan == NULL))
        return work;
    scores = scores_of(model, t, number, dsf_cost_type(g, t));
    work.flops *= scores / work.scores;
    work.scores = scores;
    return work;
}
