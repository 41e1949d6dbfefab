/* step_kinds.c - jobs whose steps are of several kinds. */
#include "sim/step_kinds.h"

#include "graph/task.h"
#include "graph/traffic.h"
#include "plan/programs.h"

static double bytes_of(const struct dsflow_graph *g, dsflow_program program)
{
    uint32_t first, n = dsflow_graph_program_tasks(g, program, &first);
    double sum = 0;

    for (uint32_t i = first; i < first + n; i++) {
        const struct dsf_traffic t = dsf_traffic_of(g, dsf_nth_task(g, i), NULL);

        sum += dsf_traffic_bytes(&t);
    }
    return sum;
}

struct dsf_step_kind dsf_step_kind(const struct dsflow_plan *plan,
                                   const struct dsflow_graph *g,
                                   const struct dsf_prediction *p,
                                   dsflow_program program)
{
    const char *name = dsflow_graph_program(g, program);
    struct dsf_step_kind kind = { 0 };
    uint32_t first;

    kind.steps = dsf_plan_count_steps(plan, name, plan->job->main.steps);
    kind.tasks = dsflow_graph_program_tasks(g, program, &first);
    kind.bytes = bytes_of(g, program);
    if (p != NULL && p->seconds != NULL)
        kind.seconds = p->seconds[program];
    return kind;
}

struct dsf_step_kind dsf_step_mean(const struct dsflow_plan *plan,
                                   const struct dsflow_graph *g,
                                   const struct dsf_prediction *p)
{
    struct dsf_step_kind mean = { .steps = plan->job->main.steps };

    for (unsigned i = 0; i < dsflow_graph_nprograms(g); i++) {
        const struct dsf_step_kind kind =
            dsf_step_kind(plan, g, p, (dsflow_program)i);
        const double share = (double)kind.steps / (double)mean.steps;

        mean.tasks += share * kind.tasks;
        mean.bytes += share * kind.bytes;
        mean.seconds += share * kind.seconds;
    }
    return mean;
}
