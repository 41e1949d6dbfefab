/* schedule.c - a policy: GPipe (Huang et al. 2019) in waves. A stage runs the
 * forward pass of `size` micro-batches, then their backward pass, then the next
 * wave: it keeps the activations of `size` micro-batches, where GPipe keeps
 * those of all and 1F1B those of as many as there are stages.
 *
 *   [waves]
 *   size = 4
 *
 * Sums stay in their order, so the model that comes out has the same bits. */
#include <dsflow/plugin.h>
#include <dsflow/plan.h>
#include <dsflow/rewrite.h>

struct waves { /* [waves], and what `decide` makes of it */
    int64_t size;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_INT(struct waves, size, "4", 1, 65536,
                      "micro-batches of a wave"),
    { 0 },
};

/* No graph yet: choose how many micro-batches the rings have room for. The
 * policy `pipeline` has decided before, so the chunks are known. */
static int decide(void *part, struct dsflow_plan *plan, struct dsflow_err *err)
{
    struct waves *w = part;

    if (w->size > dsflow_plan_micro_steps(plan))
        w->size = dsflow_plan_micro_steps(plan);
    for (int32_t c = 0; c < dsflow_plan_chunks(plan); c++) {
        dsflow_plan_set_activation_slots(plan, c, (int32_t)w->size);
        dsflow_plan_set_grad_slots(plan, c, 1);
    }
    return DSFLOW_OK;
}

/* Priorities only: the larger is run first, where several tasks are ready. */
struct change {
    const struct waves *waves;
    const struct dsflow_plan *plan;
};

static void prefer(void *user, struct dsflow_task_spec *t)
{
    const struct change *c = user;
    int64_t size = c->waves->size,
            micro_steps = dsflow_plan_micro_steps(c->plan);
    int64_t levels = 2 * ((micro_steps + size - 1) / size), level;

    if (t->microbatch < 0 || t->pass == DSFLOW_UPDATE)
        return; /* not of a pass: as it was */
    level = dsflow_plan_micro_step_of(c->plan, t->microbatch) / size * 2 +
            (t->pass == DSFLOW_BACKWARD);
    /* Each level has a range of its own, the first the highest; in it, tasks
     * keep the order that the policy `priorities` gave them. */
    t->priority = (int32_t)((levels - 1 - level) *
                                (DSFLOW_TOP_PRIORITY / levels) +
                            t->priority / levels);
}

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    struct change c = { part, plan };

    dsflow_rewrite_all(in, out, prefer, &c);
    return DSFLOW_OK;
}

static const struct dsflow_policy policy = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "waves",
    .summary = "GPipe's schedule, a few micro-batches at a time",
    .after = "priorities",
    .options = options,
    .part_size = sizeof(struct waves),
    .decide = decide,
    .rewrite = rewrite,
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI,
    .name = "schedule",
    .summary = "GPipe in waves",
    .policies = (const struct dsflow_policy *const[]){ &policy, NULL },
};
