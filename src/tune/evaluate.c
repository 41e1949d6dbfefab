/* evaluate.c - what comes of a job with some keys changed. */
#include "tune/evaluate.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SETS = DSF_MAX_CHANGES * DSF_MAX_SETS };

void dsf_built_fini(struct dsf_built *b)
{
    dsflow_graph_free(b->graph);
    dsf_plan_free(b->plan);
    if (b->job != NULL)
        dsf_job_fini(b->job);
    free(b->job);
    memset(b, 0, sizeof(*b));
}

char *dsf_choice_text(const struct dsf_choice *choice)
{
    char *text = dsf_xstrdup("");

    for (unsigned i = 0; i < choice->n; i++)
        for (unsigned k = 0; choice->v[i] && k < choice->v[i]->nsets; k++) {
            char *longer = dsf_xasprintf("%s%s%s", text, *text ? " " : "",
                                         choice->v[i]->sets[k]);

            free(text);
            text = longer;
        }
    return text;
}

/* What is set in the job; returns how many keys. */
static unsigned sets_of(const struct dsf_choice *choice, const char **sets)
{
    unsigned n = 0;

    for (unsigned i = 0; i < choice->n; i++) {
        const struct dsf_change *x = choice->v[i];

        for (unsigned k = 0;
             x != NULL && x->row->of == DSF_OF_JOB && k < x->nsets; k++)
            sets[n++] = x->sets[k];
    }
    return n;
}

/* What is not of the job. */
static const struct dsf_effect *effect_of(const struct dsf_choice *choice)
{
    static const struct dsf_effect none;

    for (unsigned i = 0; i < choice->n; i++)
        if (choice->v[i] != NULL)
            return &choice->v[i]->effect;
    return &none;
}

/* The last is of this choice then; on error it is none. */
static int build(struct dsf_evaluator *e, const struct dsf_choice *choice,
                 const char *text, struct dsflow_err *err)
{
    const char *sets[MOST_SETS];
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    int status =
        dsf_job_with(e->job, e->said, sets, sets_of(choice, sets), job, err);

    dsf_built_fini(&e->last);
    free(e->text);
    e->text = dsf_xstrdup(text);
    if (status < 0) {
        free(job);
        return status;
    }
    e->last.job = job;
    e->builds++;
    status = dsf_plan_new(job, e->model, e->machine, &e->last.plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(e->last.plan, NULL, &e->last.graph, err);
    if (status < 0)
        dsf_built_fini(&e->last);
    return status;
}

static bool is_last(const struct dsf_evaluator *e, const char *text)
{
    return e->last.graph != NULL && strcmp(e->text, text) == 0;
}

/* Find the plan and the graph of a choice, or build them. */
static int find(struct dsf_evaluator *e, const struct dsf_choice *choice,
                const char *text, const struct dsflow_plan **plan,
                struct dsflow_graph **graph, struct dsflow_err *err)
{
    const char *sets[MOST_SETS];
    int status = DSFLOW_OK;

    if (e->graph != NULL && sets_of(choice, sets) == 0) {
        *plan = e->plan;
        *graph = e->graph;
        return status;
    }
    if (!is_last(e, text))
        status = build(e, choice, text, err);
    *plan = e->last.plan;
    *graph = e->last.graph;
    return status;
}

static void weigh(const struct dsf_evaluator *e, const struct dsflow_plan *plan,
                  struct dsflow_graph *graph, struct dsf_outcome *out)
{
    struct dsf_weights w;

    dsf_fit_weigh(plan, graph, e->m, &w);
    out->fits = !dsf_fit_shortfall(plan, graph, e->m, &w, &out->shortfall);
    out->peak = w.ranks[dsf_weights_neediest(&w)].peak;
    out->share = dsf_fit_share(plan, e->m, &w);
    out->tasks = w.ntasks;
    out->micro_steps = plan->micro_steps;
    for (int32_t c = 0; c < plan->nchunks; c++)
        if (plan->activation_slots[c] > out->slots)
            out->slots = plan->activation_slots[c];
    for (unsigned r = 0; r < w.nranks; r++) {
        const struct dsf_rank_weight *rank = &w.ranks[r];
        double gradients = 0;

        for (int t = 0; t < DSFLOW_NTIERS; t++)
            gradients += rank->in_tier[t][DSFLOW_GRADS];
        out->gradients = fmax(out->gradients, gradients);
        out->host = fmax(out->host, dsf_weights_in(rank, DSFLOW_HOST));
    }
    dsf_weights_fini(&w);
}

static struct dsf_remembered *recall(struct dsf_evaluator *e,
                                     const struct dsf_choice *choice)
{
    char *text = dsf_choice_text(choice);

    for (size_t i = 0; i < e->n; i++)
        if (strcmp(e->known[i].text, text) == 0) {
            free(text);
            return &e->known[i];
        }
    dsf_grow(&e->known, &e->cap, e->n + 1, sizeof(*e->known));
    e->known[e->n] = (struct dsf_remembered){ .text = text };
    return &e->known[e->n++];
}

void dsf_evaluate(struct dsf_evaluator *e, const struct dsf_choice *choice,
                  bool timed, struct dsf_outcome *out)
{
    struct dsf_remembered *r = recall(e, choice);
    struct dsf_outcome *o = &r->outcome;
    bool weighed = o->tasks > 0;
    const struct dsflow_plan *plan;
    struct dsflow_graph *graph;

    if (o->status == DSFLOW_OK && (!weighed || (timed && !o->timed))) {
        o->status = find(e, choice, r->text, &plan, &graph, &o->err);
        if (o->status == DSFLOW_OK && !weighed) {
            weigh(e, plan, graph, o);
            e->tasks += dsflow_graph_ntasks(graph);
        }
        if (o->status == DSFLOW_OK && timed) {
            o->status = e->seconds(e->user, plan, graph, effect_of(choice),
                                   &o->seconds, &o->err);
            o->timed = true;
        }
    }
    *out = *o;
}

int dsf_evaluator_take(struct dsf_evaluator *e, const struct dsf_choice *choice,
                       struct dsf_built *out, struct dsflow_err *err)
{
    char *text = dsf_choice_text(choice);
    int status = is_last(e, text) ? DSFLOW_OK : build(e, choice, text, err);

    *out = e->last;
    memset(&e->last, 0, sizeof(e->last));
    free(text);
    return status;
}

void dsf_evaluator_forget(struct dsf_evaluator *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->known[i].text);
    free(e->known);
    e->known = NULL;
    e->n = e->cap = 0;
    dsf_built_fini(&e->last);
    free(e->text);
    e->text = NULL;
}
