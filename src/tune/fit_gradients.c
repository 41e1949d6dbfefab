/* fit_gradients.c - what ZeRO 2 and 3 do not share out: gradients that stay
 * whole until the end of the step, because a sum of all micro-batches comes
 * first (zero.reduce = "step"). */
#include "tune/fit.h"

#include "base/alloc.h"
#include "base/units.h"
#include "plan/stretch.h"
#include "policies/keys.h"
#include "tune/evaluate.h"

#include <stdlib.h>

/* Planning once more takes as long as the first time. */
enum { MOST_TASKS = 300000 };

/* Of the rank that has most of them: as planned, and with zero.reduce =
 * "micro"; 0: not known. */
static void find_gradients(const struct dsf_setup *s,
                           const struct dsf_machine_model *m, double *now,
                           double *micro)
{
    struct dsf_evaluator e = { .job = s->plan->job,
                               .model = s->model,
                               .machine = s->machine,
                               .m = m,
                               .plan = s->plan,
                               .graph = s->graph,
                               .said = DSF_FOLLOWS };
    struct dsf_choice choice = { .n = 0 };
    struct dsf_changes changes = { .job = s->plan->job };
    struct dsf_tunables table;
    struct dsf_outcome o;

    dsf_evaluate(&e, &choice, false, &o);
    *now = o.gradients;
    *micro = 0;
    if (!s->some && dsflow_graph_ntasks(s->graph) <= MOST_TASKS) {
        dsf_tunables_init(&table);
        changes.row = dsf_tunables_find(&table, "zero.reduce");
        choice.v[choice.n++] = dsf_changes_add(&changes, dsf_xstrdup("step"),
                                               dsf_xstrdup("micro"));
        dsf_evaluate(&e, &choice, false, &o);
        *micro = o.status < 0 ? 0 : o.gradients;
        dsf_changes_fini(&changes);
        dsf_tunables_fini(&table);
    }
    dsf_evaluator_forget(&e);
}

char *dsf_fit_gradients_text(const struct dsf_setup *s,
                             const struct dsf_machine_model *m)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t stage = dsf_zero_stage(s->job);
    double now, micro;
    char *then, *text;

    if (stage < 2 || dsf_plan_sharers(plan) == 1 || plan->reduce_micro ||
        dsf_plan_passes_gradients(plan))
        return NULL;
    find_gradients(s, m, &now, &micro);
    then = micro == 0
               ? dsf_xstrdup("leaves shards of them")
               : dsf_xasprintf("would need %s%s", micro < now ? "" : "more, ",
                               dsf_size_text(micro).s);
    text = dsf_xasprintf(
        "zero.stage = %d with zero.reduce = \"step\": each rank keeps whole "
        "gradients, up to %s, until the end of the step; zero.reduce = "
        "\"micro\", which regroups the sums, %s",
        stage, dsf_size_text(now).s, then);
    free(then);
    return text;
}
