/* fit.c - budgets of memory, and the sizes that a job leaves open. */
#include "cli/fit.h"

#include "base/alloc.h"
#include "base/units.h"
#include "policies/policies.h"
#include "sim/predict.h"
#include "sim/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One way to fill in what is open. */
struct way {
    int64_t micro, stage;
    int recompute;
};

static const char *const recompute_names[] = { "none", "attention", "block" };

bool dsf_fit_is_open(const struct dsf_session *s)
{
    return s->job.batch.micro < 0 || s->job.zero.stage < 0 ||
           s->job.recompute.what == DSF_RECOMPUTE_AUTO;
}

static bool is_gpu(const struct dsf_machine_model *m)
{
    return m != NULL && m->main.kind == DSF_MACHINE_GPU;
}

double dsf_fit_budget(const struct dsf_session *s,
                      const struct dsf_machine_model *m)
{
    double ranks = s->plan->nranks;

    if (s->job.memory.device >= 0)
        return (double)s->job.memory.device;
    if (s->machine.available < 0 || s->machine.available == INT64_MAX)
        return INFINITY;
    return (double)s->machine.available / (is_gpu(m) ? 1 : ranks);
}

/* Ranks of a node share its main memory and its disk. */
void dsf_fit_budgets(const struct dsf_session *s,
                     const struct dsf_machine_model *m, double *budget)
{
    const struct dsf_job *job = &s->job;
    double ranks = s->plan->nranks;

    if (m != NULL)
        ranks = dsf_machine_model_node_ranks(m, (unsigned)s->plan->nranks);
    budget[DSFLOW_DEVICE] = dsf_fit_budget(s, m);
    budget[DSFLOW_HOST] = budget[DSFLOW_NVME] = INFINITY;
    if (job->memory.host >= 0)
        budget[DSFLOW_HOST] = (double)job->memory.host;
    else if (is_gpu(m) && m->main.host >= 0)
        budget[DSFLOW_HOST] = (double)m->main.host / ranks;
    if (job->nvme.size >= 0)
        budget[DSFLOW_NVME] = (double)job->nvme.size / s->plan->nranks;
    else if (m != NULL && m->disk.size >= 0)
        budget[DSFLOW_NVME] = (double)m->disk.size / ranks;
}

/* The rank that needs most, and what it needs. */
static unsigned neediest(const struct dsf_session *s,
                         const struct dsf_machine_model *m,
                         struct dsf_weights *w)
{
    dsf_weights_init(w, s->graph, (unsigned)s->plan->nranks,
                     is_gpu(m) ? 1 : s->plan->rank_workers);
    return dsf_weights_neediest(w);
}

static void forget_plan(struct dsf_session *s)
{
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    s->graph = NULL;
    s->plan = NULL;
}

static int build(struct dsf_session *s, const char *until,
                 struct dsflow_err *err)
{
    int status = dsf_plan_new(&s->job, &s->model, &s->machine, &s->plan, err);

    if (status == DSFLOW_OK)
        status = dsf_policies_build(s->plan, until, &s->graph, err);
    return status;
}

static struct way way_of(const struct dsf_session *s)
{
    return (struct way){ s->job.batch.micro, s->job.zero.stage,
                         s->job.recompute.what };
}

static void set_way(struct dsf_session *s, const struct way *way)
{
    s->job.batch.micro = way->micro;
    s->job.zero.stage = way->stage;
    s->job.recompute.what = way->recompute;
}

/* The first way to need less that fits: least of all is shared out, then least
 * is computed again, with micro-batches as large as may be. */
static bool find_way(struct dsf_session *s, const struct dsf_machine_model *m,
                     struct way *found)
{
    const struct way asked = way_of(s);
    struct dsflow_plan *plan = s->plan;
    struct dsflow_graph *graph = s->graph;
    int64_t most = s->job.mesh.data > 1 ? 3 : asked.stage;
    double budget = dsf_fit_budget(s, m);
    bool fits = false;

    s->plan = NULL;
    s->graph = NULL;
    for (int64_t z = asked.stage; z <= most && !fits; z++)
        for (int r = asked.recompute; r < DSF_RECOMPUTE_AUTO && !fits; r++)
            for (int64_t n = plan->micro; n >= 1 && !fits; n--) {
                struct dsf_weights w;
                unsigned rank;

                if (plan->micro % n != 0)
                    continue;
                *found = (struct way){ n, z, r };
                set_way(s, found);
                if (build(s, NULL, NULL) == DSFLOW_OK) {
                    rank = neediest(s, m, &w);
                    fits = w.ranks[rank].peak <= budget;
                    dsf_weights_fini(&w);
                }
                forget_plan(s);
            }
    set_way(s, &asked);
    s->plan = plan;
    s->graph = graph;
    return fits;
}

/* " …; these would fit", or what there is to be said of it. */
static char *advice(struct dsf_session *s, const struct dsf_machine_model *m)
{
    static const uint32_t MANY = 300000; /* tasks: a search would take long */
    struct way way;

    if (dsflow_graph_ntasks(s->graph) > MANY)
        return dsf_xstrdup("");
    if (!find_way(s, m, &way))
        return dsf_xstrdup("; nor does it fit with smaller micro-batches, "
                           "recomputation and zero.stage = 3: more ranks, or "
                           "a smaller model");
    return dsf_xasprintf("; batch.micro = %lld, recompute.what = \"%s\" and "
                         "zero.stage = %lld would fit",
                         (long long)way.micro, recompute_names[way.recompute],
                         (long long)way.stage);
}

int dsf_fit_check(struct dsf_session *s, const struct dsf_machine_model *m,
                  struct dsflow_err *err)
{
    double budget = dsf_fit_budget(s, m);
    struct dsf_weights w;
    unsigned most = neediest(s, m, &w);
    const struct dsf_rank_weight *r = &w.ranks[most];
    const double *b = r->role_bytes;
    int status = DSFLOW_OK;

    if (r->peak > budget) {
        char *then = advice(s, m);

        status = dsf_job_fail(
            &s->job, err, DSFLOW_EFIT, "memory", "device",
            "rank %u needs %s (parameters %s, gradients %s, states %s, "
            "activations %s, buffers %s) and has %s%s",
            most, dsf_size_text(r->peak).s, dsf_size_text(b[DSFLOW_PARAMS]).s,
            dsf_size_text(b[DSFLOW_GRADS]).s, dsf_size_text(b[DSFLOW_STATES]).s,
            dsf_size_text(b[DSFLOW_ACTIVATIONS]).s,
            dsf_size_text(b[DSFLOW_BUFFERS] + r->scratch).s,
            dsf_size_text(budget).s, then);
        free(then);
    }
    dsf_weights_fini(&w);
    return status;
}

/* Of all ways: the fastest that fits, and what became of the others. */
struct search {
    struct way open, best;
    double seconds; /* of the best; INFINITY: none yet */
    double least; /* bytes of the neediest rank, of the way that needs least */
    unsigned fit, unfit;
    struct dsflow_err err; /* of a way that makes no plan */
};

static void try(struct dsf_session *s, const struct dsf_machine_model *m,
                const struct way *way, struct search *search)
{
    struct dsf_prediction prediction;
    struct dsf_weights w;
    unsigned most;
    double peak;

    set_way(s, way);
    if (build(s, NULL, &search->err) < 0) {
        forget_plan(s);
        return;
    }
    most = neediest(s, m, &w);
    peak = w.ranks[most].peak;
    dsf_weights_fini(&w);
    search->least = peak < search->least ? peak : search->least;
    if (peak > dsf_fit_budget(s, m)) {
        search->unfit++;
    } else if (dsf_predict(s->plan, s->graph, m, &prediction, &search->err) ==
               DSFLOW_OK) {
        search->fit++;
        /* Of two that are as fast, the first, which does less. */
        if (prediction.sim.step_seconds < 0.999 * search->seconds) {
            search->seconds = prediction.sim.step_seconds;
            search->best = *way;
        }
        dsf_prediction_fini(&prediction);
    }
    forget_plan(s);
}

static void try_all(struct dsf_session *s, const struct dsf_machine_model *m,
                    struct search *search)
{
    const struct way *open = &search->open;
    int64_t each = s->job.batch.sequences / s->job.mesh.data;
    int64_t stages = s->job.mesh.data > 1 ? 3 : 0;
    bool again = open->recompute == DSF_RECOMPUTE_AUTO;

    for (int64_t z = open->stage < 0 ? 0 : open->stage;
         z <= (open->stage < 0 ? stages : open->stage); z++)
        for (int r = again ? DSF_RECOMPUTE_NONE : open->recompute;
             r <= (again ? (int)DSF_RECOMPUTE_BLOCK : open->recompute); r++)
            for (int64_t n = 1; n <= each && n <= 1024; n++)
                if (open->micro == n || (open->micro < 0 && each % n == 0))
                    try(s, m, &(struct way){ n, z, r }, search);
}

/* Write the choice into the job, as the user could have. */
static int settle(struct dsf_session *s, const struct search *search,
                  double budget, struct dsflow_err *err)
{
    const struct way *open = &search->open, *best = &search->best;
    const bool is_open[] = { open->micro < 0,
                             open->recompute == DSF_RECOMPUTE_AUTO,
                             open->stage < 0 };
    char text[3][64], all[200] = "";
    int status = DSFLOW_OK;

    set_way(s, best);
    snprintf(text[0], sizeof(text[0]), "batch.micro=%lld",
             (long long)best->micro);
    snprintf(text[1], sizeof(text[1]), "recompute.what=%s",
             recompute_names[best->recompute]);
    snprintf(text[2], sizeof(text[2]), "zero.stage=%lld",
             (long long)best->stage);
    for (int i = 0; i < 3 && status == DSFLOW_OK; i++) {
        size_t n = strlen(all);

        if (!is_open[i])
            continue;
        snprintf(all + n, sizeof(all) - n, "%s%s", n > 0 ? " " : "", text[i]);
        status = dsf_job_set(&s->job, text[i], err);
    }
    free(s->why);
    s->why = dsf_xasprintf(
        "%s: the fastest of %u that fit, %s a step; %u need%s more than %s a "
        "rank",
        all, search->fit, dsf_time_text(search->seconds).s, search->unfit,
        search->unfit == 1 ? "s" : "",
        isfinite(budget) ? dsf_size_text(budget).s : "there is");
    return status;
}

static int choose(struct dsf_session *s, const struct dsf_machine_model *m,
                  struct dsflow_err *err)
{
    struct search search = { .open = way_of(s),
                             .seconds = INFINITY,
                             .least = INFINITY };
    double budget;
    int status;

    try_all(s, m, &search);
    set_way(s, &search.open);
    if (search.fit == 0 && search.unfit == 0) {
        if (err != NULL)
            *err = search.err;
        return DSFLOW_EINVAL;
    }
    if (search.fit == 0)
        return dsf_job_fail(&s->job, err, DSFLOW_EFIT, "memory", "device",
                            "%u ways to fill in what is auto: the smallest "
                            "needs %s on a rank, which is too much",
                            search.unfit, dsf_size_text(search.least).s);
    set_way(s, &search.best);
    status = build(s, NULL, err);
    if (status < 0)
        return status;
    budget = dsf_fit_budget(s, m);
    forget_plan(s);
    return settle(s, &search, budget, err);
}

int dsf_fit(struct dsf_session *s, const struct dsf_machine_model *m,
            const char *until, struct dsflow_err *err)
{
    int status = dsf_fit_is_open(s) ? choose(s, m, err) : DSFLOW_OK;

    return status == DSFLOW_OK ? build(s, until, err) : status;
}
