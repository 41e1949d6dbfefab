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
    s->graph = NULL;
    s->plan = NULL;
}

int dsf_fit_build(struct dsf_setup *s, const char *until,
                  struct dsflow_err *err)
{
    int status = dsf_plan_new(s->job, s->model, s->machine, &s->plan, err);

    if (status == DSFLOW_OK)
        status = dsf_policies_build(s->plan, until, &s->graph, err);
    return status;
}

struct dsf_choice dsf_choice_of(const struct dsf_setup *s)
{
    struct dsf_steps steps = dsf_steps_of_policies();
    const struct dsf_job *job = s->job;
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

void dsf_choice_set(struct dsf_setup *s, const struct dsf_choice *choice)
{
    struct dsf_steps steps = dsf_steps_of_policies();
    struct dsf_offload_keys *offload =
        dsf_job_fields(s->job, dsf_job_find_table("offload"));

    s->job->batch.micro = choice->micro;
    s->job->batch.in_flight = choice->in_flight;
    s->job->batch.order = choice->order;
    for (unsigned k = 0; k < steps.n; k++)
        dsf_try_put(&steps.v[k], s->job, choice->step[k]);
    *offload = choice->offload;
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

static int build_choice(struct dsf_setup *s, const struct dsf_choice *choice,
                        struct search *search)
{
    dsf_fit_forget(s);
    dsf_choice_set(s, choice);
    return dsf_fit_build(s, NULL, &search->err);
}

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
        status = build_choice(s, choice, search);
        if (status == DSFLOW_OK && !(dsf_fit_falls_short(s, m, &shortfall) &&
                                     shortfall.tier == DSFLOW_DEVICE))
            return DSFLOW_OK;
    }
    choice->offload.share = 0;
    return status == DSFLOW_OK ? build_choice(s, choice, search) : status;
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
    status = build_choice(s, &choice, search);
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
    dsf_choice_set(s, &search->open);
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

/* Set a key, and add it to what was chosen; the text is freed. */
static int settle_key(struct dsf_setup *s, char *set, char *all, size_t size,
                      struct dsflow_err *err)
{
    size_t n = strlen(all);
    int status = dsf_job_set(s->job, set, err);

    snprintf(all + n, size - n, "%s%s", n > 0 ? " " : "", set);
    free(set);
    return status;
}

static char *step_text(const struct dsf_try *t, int value)
{
    char *key = dsf_try_key(t), *text = dsf_try_text(t, value);
    char *set = dsf_xasprintf("%s=%s", key, text);

    free(key);
    free(text);
    return set;
}

/* Write the choice into the job, as the user could have. */
static int settle(struct dsf_setup *s, const struct search *search,
                  double budget, struct dsflow_err *err)
{
    const struct dsf_choice *open = &search->open, *best = &search->best;
    const struct dsf_table *batch = dsf_job_find_table("batch");
    struct dsf_steps steps = dsf_steps_of_policies();
    char all[400] = "";
    int status = DSFLOW_OK;

    dsf_choice_set(s, best);
#define SETTLE(is_open, text)                                                  \
    if (status == DSFLOW_OK && (is_open))                                      \
    status = settle_key(s, text, all, sizeof(all), err)
    SETTLE(open->micro < 0,
           dsf_xasprintf("batch.micro=%lld", (long long)best->micro));
    for (unsigned k = 0; k < steps.n; k++)
        SETTLE(open->step[k] < 0, step_text(&steps.v[k], best->step[k]));
    SETTLE(open->order != best->order,
           dsf_xasprintf(
               "batch.order=%s",
               dsf_option_find(batch->options, "order")->choices[best->order]));
    SETTLE(search->open_share,
           dsf_xasprintf("offload.share=%g", best->offload.share));
#undef SETTLE
    free(s->why);
    if (search->open_share && search->fit == 1 && search->unfit == 0)
        s->why = dsf_xasprintf("%s: the most that there is room for on the "
                               "device, %s a step",
                               all, dsf_time_text(search->seconds).s);
    else
        s->why = dsf_xasprintf(
            "%s: the fastest of %u that fit, %s a step; %u need%s more than %s "
            "a rank",
            all, search->fit, dsf_time_text(search->seconds).s, search->unfit,
            search->unfit == 1 ? "s" : "",
            isfinite(budget) ? dsf_size_text(budget).s : "there is");
    return status;
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

    dsf_choice_set(s, &search->lacking);
    status = dsf_fit_build(s, NULL, err);
    if (status < 0)
        return status;
    dsf_fit_weigh(s->plan, s->graph, m, &w);
    status = dsf_fit_check(s, m, &w, err);
    dsf_weights_fini(&w);
    return status;
}

static int choose(struct dsf_setup *s, const struct dsf_machine_model *m,
                  struct dsflow_err *err)
{
    struct search search = { .open = dsf_choice_of(s),
                             .open_share = share_is_open(s->job),
                             .seconds = INFINITY };
    double budget;
    int status;

    try_all(s, m, &search);
    dsf_choice_set(s, &search.open);
    if (search.fit == 0 && search.unfit == 0) {
        if (err != NULL)
            *err = search.err;
        return DSFLOW_EINVAL;
    }
    if (search.fit == 0)
        return search.unfit > 2 ? fail_all(s, &search, err)
                                : fail_least(s, m, &search, err);
    dsf_choice_set(s, &search.best);
    status = dsf_fit_build(s, NULL, err);
    if (status < 0)
        return status;
    budget = dsf_fit_budget(s->plan, m);
    dsf_fit_forget(s);
    return settle(s, &search, budget, err);
}

int dsf_fit(struct dsf_setup *s, const struct dsf_machine_model *m,
            const char *until, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (dsf_fit_is_open(s->job)) {
        dsf_notice("planning with each value of what is auto");
        status = choose(s, m, err);
    }
    if (status == DSFLOW_OK) {
        dsf_notice("building the graph of a step");
        status = dsf_fit_build(s, until, err);
    }
    dsf_notice_end();
    return status;
}
