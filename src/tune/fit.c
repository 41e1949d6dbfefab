/* fit.c - the sizes that a job leaves open. */
#include "tune/fit_private.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "sim/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool dsf_fit_is_open(const struct dsf_job *job)
{
    return dsf_tunables_any_open(job);
}

bool dsf_fit_is_timed(const struct dsf_job *job)
{
    return dsf_fit_is_open(job) ||
           (job->machine.gpus != 0 && dsf_fit_flights_are_open(job));
}

static bool varies_flights(const struct dsf_job *job,
                           const struct dsf_machine_model *m)
{
    return dsf_fit_is_gpu(m) && dsf_fit_flights_are_open(job);
}

/* The fastest that fits, and what became of the others. */
struct found {
    unsigned fit, unfit;
    double seconds;             /* of the best; INFINITY: none fits yet */
    struct dsf_shortfall least; /* of the one that lacks least */
    struct dsf_built built;     /* of the best; where none fits, of that one */
    char *text;                 /* what it is */
    struct dsf_choice failed;   /* of those that make no plan, the last, … */
    struct dsflow_err err;      /* … and why */
    bool flights;               /* are micro-batches in flight varied? */
    struct dsf_changes tried;   /* … to these */
};

static void keep(struct dsf_search *h, const struct dsf_choice *choice)
{
    struct found *f = h->user;

    dsf_built_fini(&f->built);
    free(f->text);
    f->text = dsf_choice_text(choice);
    dsf_evaluator_take(&h->e, choice, &f->built, NULL);
}

static void note_shortfall(struct dsf_search *h,
                           const struct dsf_choice *choice,
                           const struct dsf_shortfall *shortfall)
{
    struct found *f = h->user;

    f->unfit++;
    if (f->unfit > 1 &&
        f->least.needs - f->least.has <= shortfall->needs - shortfall->has)
        return;
    f->least = *shortfall;
    if (f->fit == 0)
        keep(h, choice);
}

static double look(struct dsf_search *h, const struct dsf_choice *choice)
{
    struct found *f = h->user;
    struct dsf_outcome o;

    dsf_evaluate(&h->e, choice, false, &o);
    if (o.status == DSFLOW_OK && !o.fits) {
        note_shortfall(h, choice, &o.shortfall);
        return INFINITY;
    }
    if (o.status == DSFLOW_OK)
        dsf_evaluate(&h->e, choice, true, &o);
    if (o.status < 0) {
        f->failed = *choice;
        f->err = o.err;
        return INFINITY;
    }
    f->fit++;
    /* Of two that are as fast, the first, which does less. */
    if (o.seconds < 0.999 * f->seconds) {
        f->seconds = o.seconds;
        keep(h, choice);
    }
    return o.seconds;
}

static bool try(struct dsf_search *h)
{
    struct found *f = h->user;

    look(h, &h->now);
    if (f->flights)
        dsf_fit_flights(h, &f->tried, look);
    return false;
}

/* As it is predicted, on the machine of the search. */
static int predict(void *user, const struct dsflow_plan *plan,
                   struct dsflow_graph *graph, const struct dsf_effect *effect,
                   double *seconds, struct dsflow_err *err)
{
    struct dsf_prediction prediction;
    int status = dsf_predict(plan, graph, user, &prediction, err);

    if (status < 0)
        return status;
    *seconds = prediction.sim.step_seconds;
    dsf_prediction_fini(&prediction);
    return DSFLOW_OK;
}

/* What was chosen, and why. */
static char *why_of(const struct dsf_search *h, const struct found *f,
                    double budget)
{
    if (f->text[0] == '\0') /* as the job has it */
        return NULL;
    if (h->now.n > 0 && h->level[h->now.n - 1].row->most && f->fit == 1 &&
        f->unfit == 0)
        return dsf_xasprintf("%s: the most that there is room for on the "
                             "device, %s a step",
                             f->text, dsf_seconds_text(f->seconds).s);
    return dsf_xasprintf(
        "%s: the fastest of %u that fit, %s a step; %u need%s more than %s "
        "a rank",
        f->text, f->fit, dsf_seconds_text(f->seconds).s, f->unfit,
        f->unfit == 1 ? "s" : "",
        isfinite(budget) ? dsf_size_text(budget).s : "there is");
}

/* No choice makes a plan: said as of keys that the job has. */
static int fail_plan(struct dsf_search *h, const struct found *f,
                     struct dsflow_err *err)
{
    struct dsf_outcome o;

    dsf_evaluator_forget(&h->e);
    h->e.said = DSF_FOLLOWS;
    dsf_evaluate(&h->e, &f->failed, true, &o);
    if (err != NULL)
        *err = o.status < 0 ? o.err : f->err;
    return DSFLOW_EINVAL;
}

static int fail_all(const struct dsf_setup *s, const struct found *f,
                    struct dsflow_err *err)
{
    enum dsflow_tier tier = f->least.tier;

    if (f->least.most_host > 0)
        return dsf_fit_fail_host(s->job, &f->least, err);
    return dsf_job_fail(
        s->job, err, DSFLOW_EFIT,
        tier == DSFLOW_NVME ? "memory.nvme" : "memory",
        tier == DSFLOW_NVME   ? "size"
        : tier == DSFLOW_HOST ? "host"
                              : "device",
        "%u way%s to fill in what is auto: the smallest needs %s%s and there "
        "are %s",
        f->unfit, f->unfit == 1 ? "" : "s",
        dsf_size_beside(f->least.needs, f->least.has).s,
        tier == DSFLOW_NVME ? "" : " on a rank",
        dsf_size_beside(f->least.has, f->least.needs).s);
}

/* The same of one or two: what each memory is needed for, and what would fit.
 */
static int fail_least(struct dsf_setup *s, const struct dsf_machine_model *m,
                      struct dsflow_err *err)
{
    struct dsf_weights w;
    int status;

    dsf_fit_weigh(s->plan, s->graph, m, &w);
    status = dsf_fit_check(s, m, &w, err);
    dsf_weights_fini(&w);
    return status;
}

static int build(struct dsf_setup *s, const struct dsf_job *job,
                 const char *until, struct dsflow_err *err)
{
    int status;

    dsf_notice("building the graph of a step");
    status = dsf_plan_new(job, s->model, s->machine, &s->plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(s->plan, until, &s->graph, err);
    return status;
}

/* The setup gets what was found. Of a graph that is to end at a policy only the
 * plan is known: it is built again up to there. */
static int settle(struct dsf_setup *s, struct found *f, const char *until,
                  struct dsflow_err *err)
{
    s->chosen = f->built.job;
    s->plan = f->built.plan;
    s->graph = f->built.graph;
    memset(&f->built, 0, sizeof(f->built));
    if (until == NULL)
        return DSFLOW_OK;
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    s->graph = NULL;
    s->plan = NULL;
    return build(s, s->chosen, until, err);
}

static int choose(struct dsf_setup *s, const struct dsf_machine_model *m,
                  const char *until, struct dsflow_err *err)
{
    const bool open = dsf_fit_is_open(s->job);
    struct found f = { .seconds = INFINITY,
                       .flights = varies_flights(s->job, m) };
    struct dsf_search h = { .kind = DSF_SEARCH_OPEN,
                            .visit = try,
                            .user = &f,
                            .e = { .job = s->job,
                                   .model = s->model,
                                   .machine = s->machine,
                                   .m = m,
                                   .seconds = predict,
                                   .user = (void *)m,
                                   .said = DSF_GIVEN } };
    int status;

    dsf_notice("planning with each value of what is auto");
    dsf_search_run(&h);
    if (f.fit == 0 && !open)
        status = build(s, s->job, until, err);
    else if (f.fit == 0 && f.unfit == 0)
        status = fail_plan(&h, &f, err);
    else if (f.fit == 0 && f.unfit > 2)
        status = fail_all(s, &f, err);
    else
        status = settle(s, &f, f.fit > 0 ? until : NULL, err);
    if (status == DSFLOW_OK && f.fit == 0 && open)
        status = fail_least(s, m, err);
    if (status == DSFLOW_OK && f.fit > 0) {
        free(s->why);
        s->why = why_of(&h, &f, dsf_fit_budget(s->plan, m));
    }
    dsf_built_fini(&f.built);
    free(f.text);
    dsf_changes_fini(&f.tried);
    dsf_search_end(&h);
    return status;
}

int dsf_fit(struct dsf_setup *s, const struct dsf_machine_model *m,
            const char *until, struct dsflow_err *err)
{
    const bool varied = dsf_fit_is_open(s->job) || varies_flights(s->job, m);
    int status =
        varied ? choose(s, m, until, err) : build(s, s->job, until, err);

    dsf_notice_end();
    return status;
}
