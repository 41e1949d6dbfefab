/* fit_gradients.c - what ZeRO 2 and 3 do not share out: gradients that stay
 * whole until the end of the step, because a sum of all micro-batches comes
 * first (zero.reduce = "step"). */
#include "tune/fit_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "config/job_tables.h"

#include <string.h>

/* Planning once more takes as long as the first time. */
enum { MOST_TASKS = 300000 };

/* Of the rank that has most of them, in all its memories. */
static double gradients_of(const struct dsf_setup *s,
                           const struct dsf_machine_model *m)
{
    struct dsf_weights w;
    double most = 0;

    dsf_fit_weigh(s->plan, s->graph, m, &w);
    for (unsigned r = 0; r < w.nranks; r++) {
        double bytes = 0;

        for (int t = 0; t < DSFLOW_NTIERS; t++)
            bytes += w.ranks[r].in_tier[t][DSFLOW_GRADS];
        most = bytes > most ? bytes : most;
    }
    dsf_weights_fini(&w);
    return most;
}

/* The same with zero.reduce = "micro"; 0: not known. */
static double gradients_of_micro(const struct dsf_setup *s,
                                 const struct dsf_machine_model *m)
{
    static const char *const sets[] = { "zero.reduce=micro" };
    struct dsf_setup other = { .model = s->model, .machine = s->machine };
    struct dsf_job job;
    double bytes = 0;

    if (dsflow_graph_ntasks(s->graph) > MOST_TASKS)
        return 0;
    if (dsf_job_with(s->plan->job, DSF_FOLLOWS, sets, 1, &job, NULL) < 0)
        return 0;
    other.job = &job;
    if (dsf_fit_build(&other, NULL, NULL) == DSFLOW_OK)
        bytes = gradients_of(&other, m);
    dsf_fit_forget(&other);
    dsf_job_fini(&job);
    return bytes;
}

char *dsf_fit_gradients_text(const struct dsf_setup *s,
                             const struct dsf_machine_model *m)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t stage = dsf_zero_stage(s->job);
    double now, micro;

    if (stage < 2 || plan->nreplicas == 1 || plan->reduce_micro ||
        dsf_plan_passes_gradients(plan))
        return NULL;
    now = gradients_of(s, m);
    micro = gradients_of_micro(s, m);
    if (micro == 0)
        return dsf_xasprintf(
            "zero.stage = %d with zero.reduce = \"step\": each rank keeps "
            "whole gradients, up to %s, until the end of the step; zero.reduce "
            "= \"micro\", which regroups the sums, leaves shards of them",
            stage, dsf_size_text(now).s);
    return dsf_xasprintf(
        "zero.stage = %d with zero.reduce = \"step\": each rank keeps whole "
        "gradients, up to %s, until the end of the step; zero.reduce = "
        "\"micro\", which regroups the sums, would need %s%s",
        stage, dsf_size_text(now).s, micro < now ? "" : "more, ",
        dsf_size_text(micro).s);
}
