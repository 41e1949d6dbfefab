/* explain_json.c - what a trace says, for programs: every number in seconds,
 * shares of 1, bytes; of one step, unless its name says otherwise. */
#include "explain/explain_private.h"

#include "sim/traffic_report.h"

#include <jansson.h>
#include <math.h>

/* Adds a time, share or count; what is not known is null. */
static void put(json_t *to, const char *name, double value)
{
    json_object_set_new(to, name,
                        isfinite(value) ? json_real(value) : json_null());
}

static void put_known(json_t *to, const char *name, double value)
{
    put(to, name, value >= 0 ? value : NAN);
}

static json_t *advice_json(const struct dsf_advice *x)
{
    json_t *o =
        json_pack("{s:s, s:s, s:s, s:s, s:s?}", "cause", x->cause, "key",
                  x->key, "from", x->from, "to", x->to, "also", x->also);

    put(o, "seconds", x->seconds);
    put(o, "share", x->share);
    put(o, "bytes", x->bytes);
    json_object_set_new(o, "fits", json_boolean(x->fits));
    json_object_set_new(o, "changes_bits",
                        json_boolean(x->rounds || x->narrows));
    json_object_set_new(o, "fewer_bits", json_boolean(x->narrows));
    json_object_set_new(o, "of_machine", json_boolean(x->machine));
    return o;
}

static json_t *advices_json(const struct dsf_advices *advices)
{
    json_t *list = json_array(), *o;

    for (unsigned i = 0; i < advices->n; i++)
        json_array_append_new(list, advice_json(&advices->v[i]));
    o = json_pack("{s:o, s:s?, s:s, s:i, s:i}", "changes", list, "missing",
                  advices->missing, "limit", advices->limit, "tried",
                  (int)advices->tried, "left", (int)advices->left);
    put(o, "reproduced", advices->missing == NULL ? advices->reproduced : NAN);
    return o;
}

static json_t *idle_json(const double *idle, unsigned nsteps)
{
    json_t *o = json_object();

    for (int c = 0; c < DSF_NCAUSES; c++)
        put(o, dsf_cause_str((enum dsf_cause)c), idle[c] / nsteps);
    return o;
}

static json_t *use_json(const struct dsf_account *a,
                        const struct dsf_rank_use *u)
{
    json_t *o = json_object();

    put(o, "workers", u->workers);
    put(o, "busy_seconds", u->did.computing / a->nsteps);
    put(o, "moving_seconds", u->did.moving / a->nsteps);
    put(o, "link_seconds", u->did.beside / a->nsteps);
    json_object_set_new(o, "idle_seconds", idle_json(u->idle, a->nsteps));
    return o;
}

static json_t *ranks_json(const struct dsf_account *a)
{
    json_t *list = json_array();

    for (unsigned r = 0; r < a->nranks; r++) {
        json_t *o = use_json(a, &a->ranks[r]);

        json_object_set_new(o, "rank", json_integer(r));
        json_object_set_new(o, "stage",
                            json_integer(dsf_account_stage(a, (int)r)));
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *workers_json(const struct dsf_account *a)
{
    const struct dsf_timeline *t = &a->trace->timeline;
    json_t *list = json_array();

    for (unsigned w = 0; w < t->workers; w++) {
        json_t *o = json_pack("{s:s, s:i}", "name", t->lanes[w].name, "rank",
                              (int)t->lanes[w].rank);

        put(o, "busy_seconds", a->busy[w] / a->nsteps);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *kinds_json(const struct dsf_account *a)
{
    json_t *all = json_object();

    for (unsigned k = 0; k < a->nkinds; k++) {
        const struct dsf_kind_use *use = &a->kinds[k];
        json_t *o = json_object();

        put(o, "count", (double)use->count / a->nsteps);
        put(o, "seconds", use->seconds / a->nsteps);
        put(o, "mean_seconds",
            use->count > 0 ? use->seconds / use->count : NAN);
        put_known(o, "predicted_seconds",
                  use->predicted < 0 ? -1 : use->predicted / a->nsteps);
        put(o, "trace_count", use->all);
        put(o, "trace_seconds", use->all_seconds);
        json_object_set_new(all, use->op != NULL ? use->op->name : "transfer",
                            o);
    }
    return all;
}

static json_t *traffic_json(const struct dsf_account *a)
{
    struct dsf_weights w;
    json_t *all;

    dsf_account_traffic(a, &w);
    all = dsf_traffic_kinds_json(&w);
    dsf_weights_fini(&w);
    return all;
}

static json_t *waits_json(const struct dsf_account *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->nwaits; i++) {
        const struct dsf_wait *w = &a->waits[i];
        json_t *o =
            json_pack("{s:i, s:s, s:s?, s:s?, s:i}", "rank", w->rank, "cause",
                      dsf_cause_str(w->cause), "ring", w->ring ? w->what : NULL,
                      "task", w->ring ? NULL : w->what, "from", w->from);

        put(o, "seconds", w->seconds / a->nsteps);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *rings_json(const struct dsf_account *a)
{
    json_t *list = json_array();

    for (size_t i = 0; i < a->nrings; i++) {
        const struct dsf_ring_delay *d = &a->rings[i];
        json_t *o = json_pack("{s:s, s:i}", "ring", d->ring, "rank", d->rank);

        put(o, "tasks", (double)d->tasks / a->nsteps);
        put(o, "seconds", d->seconds / a->nsteps);
        json_array_append_new(list, o);
    }
    return list;
}

static json_t *path_json(const struct dsf_account *a)
{
    json_t *list = json_array(), *o;

    for (size_t i = 0; i < a->npath; i++) {
        const struct dsf_stretch *s = &a->path[i];
        json_t *part = json_pack("{s:s, s:i, s:i}", "task", s->op->name,
                                 "layer", s->layer, "count", (int)s->count);

        put(part, "seconds", s->seconds);
        json_array_append_new(list, part);
    }
    o = json_pack("{s:I, s:o, s:o}", "step",
                  (json_int_t)(a->trace->facts.first + a->step), "parts", list,
                  "gap_seconds", idle_json(a->path_gaps, 1));
    put(o, "seconds", a->path_seconds);
    return o;
}

/* The programs of the graph, and how many steps ran each; `eval` runs in none.
 */
static json_t *programs_json(const struct dsf_account *a)
{
    const struct dsflow_graph *g = a->trace->graph;
    json_t *list = json_array();

    for (unsigned p = 0; p < dsflow_graph_nprograms(g); p++)
        json_array_append_new(
            list,
            json_pack("{s:s, s:i}", "name",
                      dsflow_graph_program(g, (dsflow_program)p), "steps",
                      (int)dsf_executed_steps(a->trace, (dsflow_program)p)));
    return list;
}

/* All steps of the trace, whichever program they ran. */
static json_t *each_json(const struct dsf_trace *trace)
{
    const struct dsf_laps *laps = &trace->laps;
    json_t *list = json_array(), *o;

    for (unsigned k = laps->first; k < laps->n; k++) {
        const struct dsf_lap *lap = &laps->v[k];

        if (!lap->ran)
            continue;
        o = json_pack("{s:I, s:s, s:b}", "step",
                      (json_int_t)(trace->facts.first + k), "program",
                      dsflow_graph_program(trace->graph, lap->program),
                      "skipped", (int)lap->skipped);
        put(o, "seconds", lap->end - lap->begin);
        put(o, "efficiency", dsf_lap_efficiency(lap));
        put(o, "loss_scale", lap->loss_scale > 0 ? lap->loss_scale : NAN);
        json_array_append_new(list, o);
    }
    return list;
}

static void put_times(json_t *root, const struct dsf_account *a)
{
    const struct dsf_trace_facts *f = &a->trace->facts;
    double step = a->steps.seconds;

    put(root, "step_seconds", step);
    put(root, "mean_step_seconds", a->seconds / a->nsteps);
    put(root, "tokens_per_second", step > 0 ? (double)f->tokens / step : NAN);
    put(root, "bound_seconds", a->laps.bound / a->laps.n);
    put(root, "critical_seconds", a->laps.critical / a->laps.n);
    put(root, "efficiency", a->laps.efficiency);
    put(root, "scheduled_seconds", a->simulated);
    put_known(root, "predicted_seconds", f->predicted);
    put_known(root, "predicted_bound_seconds", f->bound);
    put(root, "comm_seconds", a->hidden.comm / a->nsteps);
    put(root, "comm_hidden",
        a->hidden.comm > 0 ? a->hidden.comm_hidden / a->hidden.comm : NAN);
    json_object_set_new(root, "link",
                        a->link != NULL ? json_string(a->link->name)
                                        : json_null());
    put(root, "link_seconds",
        a->link != NULL ? a->link_seconds / a->nsteps : NAN);
    put(root, "io_seconds", a->hidden.io / a->nsteps);
    put(root, "io_hidden",
        a->hidden.io > 0 ? a->hidden.io_hidden / a->hidden.io : NAN);
    put(root, "bubble", a->bubble);
    put(root, "queued_seconds", a->queued / a->nsteps);
    put(root, "queued_tasks", (double)a->nqueued / a->nsteps);
}
static json_t *mesh_json(const struct dsf_trace_facts *f)
{
    json_t *mesh = json_object();

    for (unsigned i = 0; i < f->naxes; i++)
        json_object_set_new(mesh, f->axes[i].name,
                            json_integer(f->axes[i].size));
    return mesh;
}

int dsf_explain_json(const struct dsf_account *a,
                     const struct dsf_advices *advices, FILE *out)
{
    const struct dsf_trace_facts *f = &a->trace->facts;
    json_t *root = json_pack(
        "{s:s, s:s, s:s, s:b, s:b, s:o, s:[I, I]}", "name",
        f->name, "machine", f->machine, "executor", f->executor, "simulated",
        (int)f->simulated, "cut", (int)a->trace->cut, "mesh", mesh_json(f),
        "steps", (json_int_t)(f->first + a->steps.from),
        (json_int_t)(f->first + a->steps.to - 1));
    int ret;

    put_times(root, a);
    json_object_set_new(root, "programs", programs_json(a));
    json_object_set_new(root, "each_step", each_json(a->trace));
    json_object_set_new(root, "advice", advices_json(advices));
    json_object_set_new(root, "all", use_json(a, &a->all));
    json_object_set_new(root, "ranks", ranks_json(a));
    json_object_set_new(root, "workers", workers_json(a));
    json_object_set_new(root, "tasks", kinds_json(a));
    json_object_set_new(root, "traffic", traffic_json(a));
    json_object_set_new(root, "waits", waits_json(a));
    json_object_set_new(root, "rings", rings_json(a));
    json_object_set_new(root, "way", path_json(a));
    ret = json_dumpf(root, out,
                     JSON_INDENT(2) | JSON_PRESERVE_ORDER |
                         JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
    return ret;
}
