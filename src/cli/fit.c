/* fit.c - the sizes that a job leaves open. */
#include "cli/fit_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "cli/notice.h"
#include "config/when.h"
#include "policies/policies.h"
#include "sim/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const dsf_recompute_names[] = { "none", "attention", "block" };
static const char *const order_names[] = { "auto", "micro_major",
                                           "layer_major" };

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

bool dsf_fit_is_open(const struct dsf_session *s)
{
    return dsf_job_is(&s->job, "batch.micro = auto or zero.stage = auto or "
                               "recompute.what = auto") ||
           order_is_open(&s->job) || share_is_open(&s->job);
}

void dsf_fit_forget(struct dsf_session *s)
{
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    s->graph = NULL;
    s->plan = NULL;
}

int dsf_fit_build(struct dsf_session *s, const char *until,
                  struct dsflow_err *err)
{
    int status = dsf_plan_new(&s->job, &s->model, &s->machine, &s->plan, err);

    if (status == DSFLOW_OK)
        status = dsf_policies_build(s->plan, until, &s->graph, err);
    return status;
}

struct dsf_choice dsf_choice_of(const struct dsf_session *s)
{
    const struct dsf_job *job = &s->job;

    return (struct dsf_choice){
        job->batch.micro,          job->batch.in_flight,
        dsf_zero_keys(job)->stage, dsf_recompute_keys(job)->what,
        job->batch.order,          *dsf_offload_keys(job)
    };
}

void dsf_choice_set(struct dsf_session *s, const struct dsf_choice *choice)
{
    s->job.batch.micro = choice->micro;
    s->job.batch.in_flight = choice->in_flight;
    s->job.batch.order = choice->order;
    ((struct dsf_zero_keys *)dsf_zero_keys(&s->job))->stage = choice->stage;
    ((struct dsf_recompute_keys *)dsf_recompute_keys(&s->job))->what =
        choice->recompute;
    *(struct dsf_offload_keys *)dsf_offload_keys(&s->job) = choice->offload;
}

bool dsf_fit_falls_short(const struct dsf_session *s,
                     const struct dsf_machine_model *m, struct dsf_shortfall *shortfall)
{
    struct dsf_weights w;
    bool any;

    dsf_fit_weigh(s, m, &w);
    any = dsf_fit_shortfall(s, m, &w, shortfall);
    dsf_weights_fini(&w);
    return any;
}

/* Of all ways: the fastest that fits, and what became of the others. */
struct search {
    struct dsf_choice open, best;
    bool open_share;
    double seconds;         /* of the best; INFINITY: none yet */
    struct dsf_shortfall least;  /* of the choice that lacks least, … */
    struct dsf_choice lacking; /* … which is this one */
    unsigned fit, unfit;
    struct dsflow_err err; /* of a choice that makes no plan */
};

static int build_choice(struct dsf_session *s, const struct dsf_choice *choice,
                     struct search *search)
{
    dsf_fit_forget(s);
    dsf_choice_set(s, choice);
    return dsf_fit_build(s, NULL, &search->err);
}

/* From a plan without any, build the one with the largest share of the states
 * that the devices have room for. States stay in whole pieces, and their
 * updates need room too. */
static int keep_most(struct dsf_session *s, const struct dsf_machine_model *m,
                     struct dsf_choice *choice, struct search *search)
{
    struct dsf_weights w;
    struct dsf_shortfall shortfall;
    int hundredths, status = DSFLOW_OK;

    dsf_fit_weigh(s, m, &w);
    hundredths = (int)(100 * dsf_fit_share(s, m, &w));
    dsf_weights_fini(&w);
    if (hundredths == 0)
        return DSFLOW_OK;
    for (; hundredths > 0 && status == DSFLOW_OK; hundredths--) {
        choice->offload.share = hundredths / 100.0;
        status = build_choice(s, choice, search);
        if (status == DSFLOW_OK &&
            !(dsf_fit_falls_short(s, m, &shortfall) && shortfall.tier == DSFLOW_DEVICE))
            return DSFLOW_OK;
    }
    choice->offload.share = 0;
    return status == DSFLOW_OK ? build_choice(s, choice, search) : status;
}

static void note_shortfall(struct search *search, const struct dsf_choice *choice,
                      const struct dsf_shortfall *shortfall)
{
    search->unfit++;
    if (search->unfit > 1 &&
        search->least.needs - search->least.has <= shortfall->needs - shortfall->has)
        return;
    search->least = *shortfall;
    search->lacking = *choice;
}

static void try(struct dsf_session *s, const struct dsf_machine_model *m,
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
static void try_orders(struct dsf_session *s, const struct dsf_machine_model *m,
                       struct dsf_choice choice, struct search *search)
{
    unsigned fit = search->fit;

    if (!order_is_open(&s->job)) {
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

static void try_all(struct dsf_session *s, const struct dsf_machine_model *m,
                    struct search *search)
{
    const struct dsf_choice *open = &search->open;
    int64_t each = s->job.batch.sequences / s->job.mesh.size[DSF_AXIS_DATA];
    int64_t stages = s->job.mesh.size[DSF_AXIS_DATA] > 1 ? 3 : 0;
    bool again = open->recompute == DSF_RECOMPUTE_AUTO;

    for (int64_t z = open->stage < 0 ? 0 : open->stage;
         z <= (open->stage < 0 ? stages : open->stage); z++)
        for (int r = again ? DSF_RECOMPUTE_NONE : open->recompute;
             r <= (again ? (int)DSF_RECOMPUTE_BLOCK : open->recompute); r++)
            for (int64_t n = 1; n <= each || open->micro == n; n++) {
                struct dsf_choice choice = *open;

                if (open->micro < 0 ? n > 1024 : n > open->micro)
                    break;
                if (open->micro < 0 ? each % n != 0 : n != open->micro)
                    continue;
                choice.stage = z;
                choice.recompute = r;
                choice.micro = n;
                try_orders(s, m, choice, search);
            }
}

/* Write the choice into the job, as the user could have. */
static int settle(struct dsf_session *s, const struct search *search,
                  double budget, struct dsflow_err *err)
{
    const struct dsf_choice *open = &search->open, *best = &search->best;
    const bool is_open[] = { open->micro < 0,
                             open->recompute == DSF_RECOMPUTE_AUTO,
                             open->stage < 0, open->order != best->order,
                             search->open_share };
    char text[5][64], all[400] = "";
    int status = DSFLOW_OK;

    dsf_choice_set(s, best);
    snprintf(text[0], sizeof(text[0]), "batch.micro=%lld",
             (long long)best->micro);
    snprintf(text[1], sizeof(text[1]), "recompute.what=%s",
             dsf_recompute_names[best->recompute]);
    snprintf(text[2], sizeof(text[2]), "zero.stage=%lld",
             (long long)best->stage);
    snprintf(text[3], sizeof(text[3]), "batch.order=%s",
             order_names[best->order]);
    snprintf(text[4], sizeof(text[4]), "offload.share=%g", best->offload.share);
    for (int i = 0; i < 5 && status == DSFLOW_OK; i++) {
        size_t n = strlen(all);

        if (!is_open[i])
            continue;
        snprintf(all + n, sizeof(all) - n, "%s%s", n > 0 ? " " : "", text[i]);
        status = dsf_job_set(&s->job, text[i], err);
    }
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
static int fail_all(struct dsf_session *s, const struct search *search,
                    struct dsflow_err *err)
{
    const struct dsf_shortfall *shortfall = &search->least;

    return dsf_job_fail(
        &s->job, err, DSFLOW_EFIT,
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
static int fail_least(struct dsf_session *s, const struct dsf_machine_model *m,
                      const struct search *search, struct dsflow_err *err)
{
    int status;

    dsf_choice_set(s, &search->lacking);
    status = dsf_fit_build(s, NULL, err);
    return status == DSFLOW_OK ? dsf_fit_check(s, m, err) : status;
}

static int choose(struct dsf_session *s, const struct dsf_machine_model *m,
                  struct dsflow_err *err)
{
    struct search search = { .open = dsf_choice_of(s),
                             .open_share = share_is_open(&s->job),
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
    budget = dsf_fit_budget(s, m);
    dsf_fit_forget(s);
    return settle(s, &search, budget, err);
}

int dsf_fit(struct dsf_session *s, const struct dsf_machine_model *m,
            const char *until, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (dsf_fit_is_open(s)) {
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
