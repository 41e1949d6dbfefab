/* priorities.c - the longest way to the end first.
 *
 * The priority of a task is its bottom level: its own cost plus the largest
 * bottom level of what waits for it (Graham 1969; Topcuoglu et al. 2002, HEFT's
 * upward rank), scaled to whole numbers. Weight gradients and updates, on which
 * little waits, so come after what the next layer needs. Tasks that cost
 * nothing (sums of numbers, reports) go before all: waiting would be dearer.
 */
#include "policies/keys.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>

/* Only the ratio of arithmetic to memory matters here: a core of today does
 * some ten operations in the time it moves a byte. */
#define FLOPS_PER_BYTE 10.0

/* A task of less, in operations, is over before a scheduler has looked at it.
 */
#define NOTHING 10000.0

#define HIGHEST DSFLOW_TOP_PRIORITY

/* Where each action stands in the order of its stage (schedule_slots.h). */
struct order {
    const struct dsflow_plan *plan;
    const struct dsf_pipeline_keys *keys;
    int32_t *at; /* [stages][chunks of a stage][micro_steps][2] */
    int32_t chunks, micro_steps;
};

static int32_t *place(const struct order *o, int32_t stage, int32_t chunk,
                      int32_t micro_step, bool backward)
{
    return &o->at[((stage * o->chunks + chunk) * o->micro_steps + micro_step) *
                      2 +
                  backward];
}

static struct order order_of(const struct dsflow_plan *plan)
{
    int32_t stages = plan->nstages;
    struct order o = { .plan = plan,
                       .keys = dsf_pipeline_keys(plan->job),
                       .chunks = plan->nchunks / stages,
                       .micro_steps = plan->micro_steps };
    int32_t n = 2 * o.chunks * o.micro_steps;
    struct dsf_action *actions = dsf_xcalloc((size_t)n, sizeof(*actions));

    o.at = dsf_xcalloc((size_t)(stages * n), sizeof(*o.at));
    for (int32_t s = 0; s < stages; s++) {
        dsf_pipeline_order(o.keys->schedule, stages, s, o.chunks, o.micro_steps,
                           actions);
        for (int32_t i = 0; i < n; i++)
            *place(&o, s, actions[i].chunk, actions[i].micro,
                   actions[i].backward) = i;
    }
    free(actions);
    return o;
}

/* In a pipeline the schedule says what comes first; between tasks of one
 * action, the way to the end (`share` of the longest). */
static int32_t in_pipeline(const struct order *o,
                           const struct dsflow_task_spec *t, double share)
{
    const struct dsflow_plan *plan = o->plan;
    int32_t n = 2 * o->chunks * o->micro_steps, step = HIGHEST / (n + 2);
    int32_t chunk = dsflow_plan_chunk_of(plan, t->layer);
    bool backward = t->pass == DSFLOW_BACKWARD;
    bool weight = t->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT;
    int32_t at =
        *place(o, chunk % plan->nstages, chunk / plan->nstages,
               dsflow_plan_micro_step_of(plan, t->microbatch), backward);

    /* Those of the head are not put off: logits are too large to keep. */
    if (weight && o->keys->schedule == DSF_ZERO_BUBBLE &&
        t->layer < plan->model->layers)
        return (int32_t)(share * step);
    /* Weight gradients belong to their backward pass. In a published schedule
     * the next stage waits for them, so that they come first; otherwise for
     * nothing but the gradient of its output, and they come last. */
    if (weight)
        return (n - at) * step + (o->keys->strict ? step - 1 : 0);
    return (n - at) * step + 1 + (int32_t)(share * (step - 3));
}

static double operations(const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    struct dsflow_cost cost = dsf_task_cost(g, t);

    return cost.flops + FLOPS_PER_BYTE * cost.bytes;
}

/* Does it update states that are in a larger memory? Cores do that, while the
 * rank's device goes on with the next step. */
static bool is_elsewhere(const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    for (uint32_t i = 0; t->op->update && i < t->ndata; i++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[i]);

        if (d->role == DSFLOW_STATES && d->tier != DSFLOW_DEVICE)
            return true;
    }
    return false;
}

/* From the last task to the first: the bottom level of each, of updates
 * elsewhere `least` at least; returns the highest of those. */
static double climb(struct dsflow_graph *g, const double *own, double least,
                    double *level)
{
    uint32_t n = dsflow_graph_ntasks(g);
    double most = 0;

    memset(level, 0, n * sizeof(*level));
    for (uint32_t i = n; i-- > 0;) {
        const dsflow_task_id *preds;
        uint32_t npreds = dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);

        level[i] += own[i];
        if (is_elsewhere(g, dsf_nth_task(g, i))) {
            level[i] = level[i] > least ? level[i] : least;
            most = level[i] > most ? level[i] : most;
        }
        for (uint32_t k = 0; k < npreds; k++)
            if (level[i] > level[preds[k].i])
                level[preds[k].i] = level[i];
    }
    return most;
}

/* The bottom level of each task; returns the highest one. Updates elsewhere
 * have that of the longest, so that they are done in the graph's order, the one
 * in which the next step needs them: by their sizes, those of its first layer
 * could come last. (Where they go through rings of buffers, these keep the
 * order.) */
static double find_levels(struct dsflow_graph *g, const double *own,
                          double *level)
{
    double most = climb(g, own, 0, level), top = 1;

    if (most > 0)
        climb(g, own, most, level);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++)
        top = level[i] > top ? level[i] : top;
    return top;
}

static int priorities_rewrite(const void *part, const struct dsflow_plan *plan,
                              struct dsflow_graph *in, struct dsflow_graph *out,
                              struct dsflow_err *err)
{
    uint32_t n = dsflow_graph_ntasks(in);
    double *level = dsf_xcalloc(n + 1, sizeof(*level));
    double *own = dsf_xcalloc(n + 1, sizeof(*own));
    struct order order = order_of(plan);
    const struct dsflow_task_spec *t;
    double top;

    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++)
        own[i] = operations(in, t);
    top = find_levels(in, own, level);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        int32_t priority = (int32_t)(level[i] / top * HIGHEST);

        if (own[i] < NOTHING || t->op->comm)
            priority = HIGHEST;
        else if (plan->nstages > 1 && t->microbatch >= 0)
            priority = in_pipeline(&order, t, level[i] / top);
        dsflow_graph_set_priority(in, (dsflow_task_id){ i }, priority);
    }
    free(level);
    free(own);
    free(order.at);
    return DSFLOW_UNCHANGED;
}

const struct dsflow_policy dsf_policy_priorities = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "priorities",
    .summary = "the longest path to the end of the step first",
    .after = "offload",
    .rewrite = priorities_rewrite,
};
