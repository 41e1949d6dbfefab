/* fit.c - the sizes that a job leaves open. */
#include "tune/fit_private.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/when.h"
#include "policies/policies.h"
#include "sim/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct dsf_steps dsf_steps_of_policies(void)
{
    struct dsf_steps steps = { .n = 0 };
    struct dsf_try t;

    for (unsigned i = 0; steps.n < DSF_MAX_STEPS && dsf_try_at(i, &t); i++)
        if (t.how->values == DSFLOW_VALUES_RISING)
            steps.v[steps.n++] = t;
    return steps;
}

/* The order depends on the plan only where units are read from a disk. */
static bool order_is_open(const struct dsf_job *job)
{
    return dsf_job_is(job, "batch.order = auto and offload.params = nvme");
}

static bool share_is_open(const struct dsf_job *job)
{
    return dsf_job_is(job,
                      "offload.share = auto and offload.optimizer != none");
}

bool dsf_fit_is_open(const struct dsf_job *job)
{
    struct dsf_steps steps = dsf_steps_of_policies();

    for (unsigned k = 0; k < steps.n; k++)
        if (dsf_try_get(&steps.v[k], job) < 0)
            return true;
    return job->batch.micro < 0 || order_is_open(job) || share_is_open(job);
}

void dsf_fit_forget(struct dsf_setup *s)
{
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    if (s->chosen != NULL)
        dsf_job_fini(s->chosen);
    free(s->chosen);
    s->graph = NULL;
    s->plan = NULL;
    s->chosen = NULL;
}

int dsf_fit_build(struct dsf_setup *s, const char *until,
                  struct dsflow_err *err)
{
    const struct dsf_job *job = s->chosen != NULL ? s->chosen : s->job;
    int status = dsf_plan_new(job, s->model, s->machine, &s->plan, err);

    if (status == DSFLOW_OK)
        status = dsf_policies_build(s->plan, until, &s->graph, err);
    return status;
}

struct dsf_choice dsf_choice_of(const struct dsf_job *job)
{
    struct dsf_steps steps = dsf_steps_of_policies();
    struct dsf_choice choice;

    memset(&choice, 0, sizeof(choice)); /* choices are compared as bytes */
    choice.micro = job->batch.micro;
    choice.in_flight = job->batch.in_flight;
    choice.order = job->batch.order;
    for (unsigned k = 0; k < steps.n; k++)
        choice.step[k] = dsf_try_get(&steps.v[k], job);
    memcpy(&choice.offload, dsf_offload_keys(job), sizeof(choice.offload));
    return choice;
}

/* "table.key=value", of keys that a choice changes. */
struct settings {
    char *v[DSF_MAX_STEPS + 16];
    unsigned n;
};

static void add_number(struct settings *l, const char *key, int64_t was,
                       int64_t is)
{
    if (was != is)
        l->v[l->n++] = dsf_xasprintf("%s=%lld", key, (long long)is);
}

static struct settings settings_of(const struct dsf_job *job,
                                   const struct dsf_choice *choice)
{
    const struct dsflow_option *order =
        dsf_option_find(dsf_job_find_table("batch")->options, "order");
    struct dsf_steps steps = dsf_steps_of_policies();
    struct dsf_choice was = dsf_choice_of(job);
    struct settings l = { .n = 0 };

    add_number(&l, "batch.micro", was.micro, choice->micro);
    add_number(&l, "batch.in_flight", was.in_flight, choice->in_flight);
    for (unsigned k = 0; k < steps.n; k++)
        if (was.step[k] != choice->step[k])
            l.v[l.n++] = dsf_try_set(&steps.v[k], choice->step[k]);
    if (was.order != choice->order)
        l.v[l.n++] =
            dsf_xasprintf("batch.order=%s", order->choices[choice->order]);
    for (const struct dsflow_option *o = dsf_policy_offload.options;
         o->key != NULL; o++)
        if (!dsf_option_same(o, &was.offload, &choice->offload))
            l.v[l.n++] = dsf_xasprintf("offload.%s=%s", o->key,
                                       dsf_value_text(o, &choice->offload).s);
    return l;
}

/* s->chosen is the job with a choice; says which keys were changed. */
static int choose_job(struct dsf_setup *s, const struct dsf_choice *choice,
                      enum dsf_said said, char *all, size_t size,
                      struct dsflow_err *err)
{
    struct settings l = settings_of(s->job, choice);
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    int status =
        dsf_job_with(s->job, said, (const char *const *)l.v, l.n, job, err);

    if (status == DSFLOW_OK)
        s->chosen = job;
    else
        free(job);
    for (unsigned i = 0; i < l.n; i++) {
        size_t n = all != NULL ? strlen(all) : 0;

        if (all != NULL)
            snprintf(all + n, size - n, "%s%s", n > 0 ? " " : "", l.v[i]);
        free(l.v[i]);
    }
    return status;
}

int dsf_fit_build_choice(struct dsf_setup *s, const struct dsf_choice *choice,
                         struct dsflow_err *err)
{
    int status;

    dsf_fit_forget(s);
    status = choose_job(s, choice, DSF_FOLLOWS, NULL, 0, err);
    return status == DSFLOW_OK ? dsf_fit_build(s, NULL, err) : status;
}

bool dsf_fit_falls_short(const struct dsf_setup *s,
                         const struct dsf_machine_model *m,
                         struct dsf_shortfall *shortfall)
{
    struct dsf_weights w;
    bool any;

    dsf_fit_weigh(s->plan, s->graph, m, &w);
    any = dsf_fit_shortfall(s->plan, s->graph, m, &w, shortfall);
    dsf_weights_fini(&w);
    return any;
}

/* Of all ways: the fastest that fits, and what became of the others. */
struct search {
    struct dsf_choice open, best;
    bool open_share;
    double seconds;         /* of the best; INFINITY: none yet */
    struct dsf_shortfall least; /* of the choice that lacks least, … */
    struct dsf_choice lacking;  /* … which is this one */
    unsigned fit, unfit;
    struct dsflow_err err; /* of a choice that makes no plan */
};

/* From a plan without any, build the one with the largest share of the states
 * that the devices have room for. States stay in whole pieces, and their
 * updates need room too. */
static int keep_most(struct dsf_setup *s, const struct dsf_machine_model *m,
                     struct dsf_choice *choice, struct search *search)
{
    struct dsf_weights w;
    struct dsf_shortfall shortfall;
    int hundredths, status = DSFLOW_OK;

    dsf_fit_weigh(s->plan, s->graph, m, &w);
    hundredths = (int)(100 * dsf_fit_share(s->plan, m, &w));
    dsf_weights_fini(&w);
    if (hundredths == 0)
        return DSFLOW_OK;
    for (; hundredths > 0 && status == DSFLOW_OK; hundredths--) {
        choice->offload.share = hundredths / 100.0;
        status = dsf_fit_build_choice(s, choice, &search->err);
        if (status == DSFLOW_OK && !(dsf_fit_falls_short(s, m, &shortfall) &&
                                     shortfall.tier == DSFLOW_DEVICE))
            return DSFLOW_OK;
    }
    choice->offload.share = 0;
    return status == DSFLOW_OK ? dsf_fit_build_choice(s, choice, &search->err)
                               : status;
}

static void note_shortfall(struct search *search,
                           const struct dsf_choice *choice,
                           const struct dsf_shortfall *shortfall)
{
    search->unfit++;
    if (search->unfit > 1 && search->least.needs - search->least.has <=
                                 shortfall->needs - shortfall->has)
        return;
    search->least = *shortfall;
    search->lacking = *choice;
}

static void try(struct dsf_setup *s, const struct dsf_machine_model *m,
                struct dsf_choice choice, struct search *search)
{
    struct dsf_prediction prediction;
    struct dsf_shortfall shortfall;
    int status;

    if (search->open_share)
        choice.offload.share = 0;
    status = dsf_fit_build_choice(s, &choice, &search->err);
    if (status == DSFLOW_OK && search->open_share)
        status = keep_most(s, m, &choice, search);
    if (status < 0) {
        dsf_fit_forget(s);
        return;
    }
    if (dsf_fit_falls_short(s, m, &shortfall)) {
        note_shortfall(search, &choice, &shortfall);
    } else if (dsf_predict(s->plan, s->graph, m, &prediction, &search->err) ==
               DSFLOW_OK) {
        search->fit++;
        /* Of two that are as fast, the first, which does less. */
        if (prediction.sim.step_seconds < 0.999 * search->seconds) {
            search->seconds = prediction.sim.step_seconds;
            search->best = choice;
        }
        dsf_prediction_fini(&prediction);
    }
    dsf_fit_forget(s);
}

/* Layers first: of two orders that are as fast, it reads less. */
static void try_orders(struct dsf_setup *s, const struct dsf_machine_model *m,
                       struct dsf_choice choice, struct search *search)
{
    unsigned fit = search->fit;

    if (!order_is_open(s->job)) {
        try(s, m, choice, search);
        return;
    }
    choice.order = DSF_LAYER_MAJOR;
    try(s, m, choice, search);
    choice.order = DSF_MICRO_MAJOR;
    if (search->fit == fit || m->disk.read > 0) /* else nobody can tell */
        try(s, m, choice, search);
}

/* Every size of a micro-batch that is open. */
static void try_sizes(struct dsf_setup *s, const struct dsf_machine_model *m,
                      struct dsf_choice choice, struct search *search)
{
    int64_t each = s->job->batch.sequences / s->job->mesh.size[DSF_AXIS_DATA];
    int64_t micro = search->open.micro;

    if (micro > 0)
        try_orders(s, m, choice, search);
    for (int64_t n = 1; micro < 0 && n <= each && n <= 1024; n++)
        if (each % n == 0) {
            choice.micro = n;
            try_orders(s, m, choice, search);
        }
}

/* The first `n` keys, with each value where they are open: the last varies
 * least, so that of what is as fast, it keeps its first. */
static void try_steps(struct dsf_setup *s, const struct dsf_machine_model *m,
                      const struct dsf_steps *steps, unsigned n,
                      struct dsf_choice choice, struct search *search)
{
    int value = n > 0 ? search->open.step[n - 1] : 0, last = value;

    if (n == 0) {
        try_sizes(s, m, choice, search);
        return;
    }
    if (value < 0) {
        value = 0;
        last = dsf_try_count(&steps->v[n - 1], s->job) - 1;
    }
    for (; value <= last; value++) {
        choice.step[n - 1] = value;
        try_steps(s, m, steps, n - 1, choice, search);
    }
}

static void try_all(struct dsf_setup *s, const struct dsf_machine_model *m,
                    struct search *search)
{
    struct dsf_steps steps = dsf_steps_of_policies();

    try_steps(s, m, &steps, steps.n, search->open, search);
}

/* What was chosen, and why. */
static char *why_of(const struct search *search, const char *all, double budget)
{
    if (search->open_share && search->fit == 1 && search->unfit == 0)
        return dsf_xasprintf("%s: the most that there is room for on the "
                             "device, %s a step",
                             all, dsf_time_text(search->seconds).s);
    return dsf_xasprintf(
        "%s: the fastest of %u that fit, %s a step; %u need%s more than %s "
        "a rank",
        all, search->fit, dsf_time_text(search->seconds).s, search->unfit,
        search->unfit == 1 ? "s" : "",
        isfinite(budget) ? dsf_size_text(budget).s : "there is");
}

/* Nothing fits. */
static int fail_all(struct dsf_setup *s, const struct search *search,
                    struct dsflow_err *err)
{
    const struct dsf_shortfall *shortfall = &search->least;

    return dsf_job_fail(
        s->job, err, DSFLOW_EFIT,
        shortfall->tier == DSFLOW_NVME ? "memory.nvme" : "memory",
        shortfall->tier == DSFLOW_NVME   ? "size"
        : shortfall->tier == DSFLOW_HOST ? "host"
                                         : "device",
        "%u way%s to fill in what is auto: the smallest needs %s%s and there "
        "are %s",
        search->unfit, search->unfit == 1 ? "" : "s",
        dsf_size_text(shortfall->needs).s,
        shortfall->tier == DSFLOW_NVME ? "" : " on a rank",
        dsf_size_text(shortfall->has).s);
}

/* The same of one or two: what each memory is needed for, and what would fit.
 */
static int fail_least(struct dsf_setup *s, const struct dsf_machine_model *m,
                      const struct search *search, struct dsflow_err *err)
{
    struct dsf_weights w;
    int status;

    status = dsf_fit_build_choice(s, &search->lacking, err);
    if (status < 0)
        return status;
    dsf_fit_weigh(s->plan, s->graph, m, &w);
    status = dsf_fit_check(s, m, &w, err);
    dsf_weights_fini(&w);
    return status;
}

/* Try all, and build the plan of the best. */
static int choose(struct dsf_setup *s, const struct dsf_machine_model *m,
                  const char *until, struct dsflow_err *err)
{
    struct search search = { .open = dsf_choice_of(s->job),
                             .open_share = share_is_open(s->job),
                             .seconds = INFINITY };
    char all[400] = "";
    int status;

    dsf_notice("planning with each value of what is auto");
    try_all(s, m, &search);
    if (search.fit == 0 && search.unfit == 0) {
        if (err != NULL)
            *err = search.err;
        return DSFLOW_EINVAL;
    }
    if (search.fit == 0)
        return search.unfit > 2 ? fail_all(s, &search, err)
                                : fail_least(s, m, &search, err);
    dsf_notice("building the graph of a step");
    status = choose_job(s, &search.best, DSF_GIVEN, all, sizeof(all), err);
    if (status == DSFLOW_OK)
        status = dsf_fit_build(s, until, err);
    if (status < 0)
        return status;
    free(s->why);
    s->why = why_of(&search, all, dsf_fit_budget(s->plan, m));
    return DSFLOW_OK;
}

int dsf_fit(struct dsf_setup *s, const struct dsf_machine_model *m,
            const char *until, struct dsflow_err *err)
{
    int status;

    if (dsf_fit_is_open(s->job)) {
        status = choose(s, m, until, err);
    } else {
        dsf_notice("building the graph of a step");
        status = dsf_fit_build(s, until, err);
    }
    dsf_notice_end();
    return status;
}
