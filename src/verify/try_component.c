/* try_component.c - optimizers, schedules and policies in small jobs. */
#include "verify/try_component.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "policies/policies.h"
#include "segments/segment.h"
#include "tasks/components.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char common[] =
    "[job]\nname = \"trial\"\nsteps = 5\noutput = \"none\"\n"
    "[data]\ntrain = \"none\"\n"
    "[batch]\nsequences = 8\nmicro = 1\n"
    "[model]\ncontext = 32\nvocab = 97\n";

/* A small model and a mesh, as keys of the job. */
struct small {
    const char *words, *sets[10];
};
static const struct small smalls[] = {
    { "GPT-2 on one rank",
      { "model.family=gpt2", "model.layers=2", "model.heads=4",
        "model.width=24" } },
    { "LLaMA on one rank",
      { "model.family=llama", "model.layers=2", "model.heads=4",
        "model.kv_heads=2", "model.width=32", "model.ffn_width=52" } },
    { "GPT-2, mesh.data=2, zero.stage=1",
      { "model.family=gpt2", "model.layers=2", "model.heads=4",
        "model.width=24", "mesh.data=2", "zero.stage=1" } },
    { "LLaMA, mesh.tensor=2",
      { "model.family=llama", "model.layers=2", "model.heads=4",
        "model.kv_heads=2", "model.width=32", "model.ffn_width=52",
        "mesh.tensor=2" } },
    { "GPT-2, mesh.pipeline=2",
      { "model.family=gpt2", "model.layers=4", "model.heads=4",
        "model.width=24", "mesh.pipeline=2" } },
    { "LLaMA, mesh.data=2, mesh.pipeline=2, zero.stage=3",
      { "model.family=llama", "model.layers=4", "model.heads=4",
        "model.kv_heads=2", "model.width=32", "model.ffn_width=52",
        "mesh.data=2", "mesh.pipeline=2", "zero.stage=3" } },
};
enum { NSMALL = sizeof(smalls) / sizeof(*smalls) };

struct built {
    struct dsf_job job;
    struct dsf_model model;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
};

/* As far as the graph, or, with `until` "reference", as far as all policies
 * have decided. */
static int make_job(struct built *b, const struct small *small, const char *set,
                    const struct dsf_verify_options *how, const char *until,
                    struct dsflow_err *err)
{
    static struct dsf_machine machine = { .cores = 4 };
    const char **sets = dsf_xcalloc(12 + how->nsets, sizeof(*sets));
    unsigned n = 0;
    int status;

    *b = (struct built){ .plan = NULL };
    while (small->sets[n] != NULL) {
        sets[n] = small->sets[n];
        n++;
    }
    if (set != NULL)
        sets[n++] = set;
    for (unsigned i = 0; i < how->nsets; i++)
        sets[n++] = how->sets[i];
    status = dsf_job_parse(common, sizeof(common) - 1, "job", sets, n, NULL,
                           &b->job, err);
    free(sets);
    if (status == DSFLOW_OK)
        status = dsf_job_check_components(&b->job, err);
    if (status == DSFLOW_OK)
        status = dsf_job_check_segments(&b->job, err);
    if (status == DSFLOW_OK)
        status = dsf_model_init(&b->model, &b->job, err);
    if (status == DSFLOW_OK)
        status = dsf_plan_new(&b->job, &b->model, &machine, &b->plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(b->plan, until, &b->graph, err);
    return status;
}

int dsf_try_keys(const struct dsf_verify_options *how, struct dsflow_err *err)
{
    struct dsf_job job = { .path = NULL };
    int status = dsf_job_parse(common, sizeof(common) - 1, "job", how->sets,
                               how->nsets, NULL, &job, err);

    dsf_job_fini(&job);
    return status;
}

static void unbuild(struct built *b)
{
    dsflow_graph_free(b->graph);
    if (b->plan != NULL)
        dsf_plan_free(b->plan);
    dsf_model_fini(&b->model);
    dsf_job_fini(&b->job);
    *b = (struct built){ .plan = NULL };
}

/* The graph of a small job. False: something refuses it before there is one,
 * which is its right, and is noted; what is wrong later is a fault. */
static bool build(struct built *b, const struct small *small, const char *set,
                  const struct dsf_verify_options *how,
                  struct dsf_verdict *verdict)
{
    struct dsflow_err err = { .msg = "" };
    int status = make_job(b, small, set, how, "reference", &err);

    dsf_child_step("", small->words);
    unbuild(b);
    if (status < 0 && verdict->note[0] != '\0')
        return false;
    if (status < 0) {
        snprintf(verdict->note, sizeof(verdict->note), "refuses %s: %.120s",
                 small->words, err.msg);
        return false;
    }
    if (make_job(b, small, set, how, NULL, &err) < 0)
        dsf_child_fault("%s", err.msg);
    return true;
}

/* A component that refuses every job was not tried. */
static void check_cases(struct dsf_verdict *verdict)
{
    if (verdict->cases == 0)
        snprintf(verdict->untried, sizeof(verdict->untried), "%s",
                 verdict->note);
}

enum { CONTROL, GRAD, PARAM, STATES };

/* Numbers of an update that are of some tensor. */
static unsigned char *used_of(const struct dsflow_update_args *a)
{
    unsigned char *used = dsf_xcalloc((size_t)a->elems + 1, 1);

    if (a->ntensors == 0) /* pieces of tensors: nobody knows */
        memset(used, 1, (size_t)a->elems);
    for (int32_t i = 0; i < a->ntensors; i++) {
        const struct dsflow_tensor *t = &a->tensors[i];
        int64_t from = t->at < 0 ? 0 : t->at, to = t->at + t->rows * t->cols;

        to = to > a->elems ? a->elems : to;
        if (to > from)
            memset(used + from, 1, (size_t)(to - from));
    }
    return used;
}

/* Where the numbers of an update begin in a port: below 0 in that of a state
 * that the first ones have not. */
static int64_t begin_of(const struct dsf_case *c, unsigned port)
{
    const struct dsflow_update_args *a = c->args;

    return port == GRAD    ? a->grad_at
           : port == PARAM ? a->param_at
                           : c->shapes[port].elems - a->elems;
}

static void fill_update(struct dsf_case *c, const unsigned char *used)
{
    static const struct dsflow_control control = { .step = 3,
                                                   .lr = 1e-2,
                                                   .correction1 = 0.271,
                                                   .correction2 = 0.1426,
                                                   .norm = 2,
                                                   .scale = 0.5 };
    const struct dsflow_update_args *a = c->args;

    for (unsigned i = 0; i < c->n; i++) {
        size_t n = (size_t)c->shapes[i].elems;
        float *v = c->before[i] = dsf_xcalloc(1, c->shapes[i].bytes + 1);

        if (i == CONTROL) {
            memcpy(v, &control, sizeof(control));
            continue;
        }
        dsf_case_fill(c->seed, i, v, n);
        for (size_t k = 0; k < n; k++) {
            int64_t e = (int64_t)k - begin_of(c, i);
            bool pad = e >= 0 && e < a->elems && !used[e];

            /* What a state holds may have to be positive, as a variance. */
            v[k] = pad ? 0 : i >= STATES ? 0.01f * fabsf(v[k]) : 0.3f * v[k];
        }
    }
}

/* A task of a small job as a case. */
static void make_update(struct dsf_case *c, const struct built *b,
                        const struct dsflow_task_spec *task, uint64_t seed)
{
    static const struct dsflow_trials trials;
    unsigned char *used;

    *c = (struct dsf_case){ .seed = seed,
                            .trials = &trials,
                            .op = task->op,
                            .n = task->ndata,
                            .fresh = task->fresh };
    c->args = dsf_xcalloc(1, task->op->args_size);
    memcpy(c->args, task->args, task->op->args_size);
    dsf_task_shapes(b->graph, task, c->shapes);
    used = used_of(c->args);
    fill_update(c, used);
    free(used);
}

static void check_padding(const struct dsf_case *c,
                          const struct dsf_port_left *left)
{
    const struct dsflow_update_args *a = c->args;
    unsigned char *used = used_of(a);

    for (unsigned i = PARAM; i < c->n; i++) {
        const float *v = left->v[i];
        const int64_t begin = begin_of(c, i);

        for (int64_t e = begin < 0 ? -begin : 0; e < a->elems; e++)
            if (!used[e] && v[begin + e] != 0)
                dsf_child_fault("port %s, number %lld is padding, and becomes "
                                "%g: expected 0",
                                c->op->ports[i].name, (long long)e,
                                (double)v[begin + e]);
    }
    free(used);
}

/* Numbers from .. from + elems of the case as a task of their own: a shard has
 * its states, and reads the whole gradient and parameter from there on. */
static void check_shard(const struct dsf_case *c, const struct dsf_computes *by,
                        const struct dsf_port_left *whole, int64_t from,
                        int64_t elems)
{
    struct dsf_case s = *c;
    struct dsflow_case seen;
    struct dsflow_update_args *a;
    struct dsflow_err err = { .msg = "" };
    struct dsf_port_left left;
    int64_t *gone = dsf_xcalloc(s.n, sizeof(*gone));

    for (unsigned i = STATES; i < s.n; i++)
        gone[i] = from;
    s.args = a = dsf_xcalloc(1, c->op->args_size);
    memcpy(a, c->args, c->op->args_size);
    c->op->slice(a, from, elems, gone);
    free(gone);
    for (unsigned i = STATES; i < s.n; i++) {
        s.shapes[i] = dsflow_shape_of(DSFLOW_FP32, elems);
        s.before[i] = (float *)c->before[i] + from;
    }
    seen = dsf_case_of(&s, c->op);
    if (c->op->check != NULL && dsf_check_case(&seen, &err) < 0)
        dsf_child_fault("the op's check refuses a shard: %s", err.msg);
    dsf_case_run(&s, by, &left);
    for (unsigned i = PARAM; i < s.n; i++) {
        const float *all = (const float *)whole->v[i] + begin_of(c, i) + from;
        const float *own = (const float *)left.v[i] + begin_of(&s, i);

        for (int64_t e = 0; e < elems; e++)
            if (memcmp(&all[e], &own[e], sizeof(*own)) != 0)
                dsf_child_fault(
                    "a shard of numbers %lld to %lld differs from the whole "
                    "unit in port %s, number %lld: %.9g, expected %.9g",
                    (long long)from, (long long)(from + elems - 1),
                    c->op->ports[i].name, (long long)(from + e), (double)own[e],
                    (double)all[e]);
    }
    dsf_port_left_free(&left);
    free(a);
}

/* Half the gradient, and twice the scale that clips it: the same update. */
static void check_scale(const struct dsf_case *c, const struct dsf_computes *by,
                        const struct dsf_port_left *whole)
{
    struct dsflow_control *control = c->before[CONTROL];
    float *grad = c->before[GRAD];
    struct dsf_port_left left;

    control->scale *= 2;
    control->norm /= 2;
    for (int64_t e = 0; e < c->shapes[GRAD].elems; e++)
        grad[e] /= 2;
    dsf_case_run(c, by, &left);
    control->scale /= 2;
    control->norm *= 2;
    for (int64_t e = 0; e < c->shapes[GRAD].elems; e++)
        grad[e] *= 2;
    for (unsigned i = PARAM; i < c->n; i++)
        for (size_t e = 0; e < dsf_case_count(c, i); e++) {
            double a = dsf_case_number(c, whole->v[i], i, e);
            double b = dsf_case_number(c, left.v[i], i, e);

            if (fabs(a - b) > DSF_TRY_FP32 * (1 + fabs(a)))
                dsf_child_fault("does not multiply the gradient by the scale "
                                "of the control, which clips it: port %s, "
                                "number %zu: %.9g, and with half of one and "
                                "twice the other %.9g",
                                c->op->ports[i].name, e, a, b);
        }
    dsf_port_left_free(&left);
}

static void try_update(const struct dsflow_optimizer *o,
                       const struct dsf_case *c, const struct dsf_computes *by)
{
    const struct dsflow_update_args *a = c->args;
    struct dsf_port_left left;

    dsf_case_run(c, by, &left);
    check_padding(c, &left);
    if (!o->whole && a->grad_at == 0 && a->param_at == 0) {
        int64_t cut = a->elems / 2 / 16 * 16;

        if (cut > 0)
            check_shard(c, by, &left, 0, cut);
        check_shard(c, by, &left, cut, a->elems - cut);
    }
    check_scale(c, by, &left);
    dsf_port_left_free(&left);
}

void dsf_try_optimizer(const struct dsflow_optimizer *o,
                       const struct dsf_computes *by,
                       const struct dsf_computes *reference,
                       const struct dsf_verify_options *how,
                       struct dsf_verdict *verdict)
{
    char *set = dsf_xasprintf("optimizer.kind=%s", o->name);
    double most = -1;

    for (unsigned i = 0; i < NSMALL - 2; i++) {
        struct built b;

        if (!build(&b, &smalls[i], set, how, verdict))
            continue;
        for (uint32_t t = 0; t < dsflow_graph_ntasks(b.graph); t++) {
            const struct dsflow_task_spec *task =
                dsflow_graph_task(b.graph, (dsflow_task_id){ t });
            struct dsf_case c, other;

            if (task->op != o->op || task->layer > 0)
                continue;
            make_update(&c, &b, task, how->seed + t);
            dsf_child_step("", smalls[i].words);
            try_update(o, &c, by);
            dsf_case_try(&c, by, reference);
            verdict->cases++;
            if (!by->on_gpu && dsf_case_cost(&c, o->op).bytes > most) {
                make_update(&other, &b, task, how->seed + t + 1);
                dsf_case_try_beside(&c, &other, by);
                dsf_case_free(&other);
                most = dsf_case_cost(&c, o->op).bytes;
                verdict->flops = dsf_case_cost(&c, o->op).flops;
                verdict->bytes = most;
                verdict->seconds = dsf_case_time(&c, by);
            }
            dsf_case_free(&c);
        }
        unbuild(&b);
    }
    free(set);
    check_cases(verdict);
}

void dsf_try_schedule(const struct dsflow_lr_schedule *s,
                      const struct dsf_verify_options *how,
                      struct dsf_verdict *verdict)
{
    static const int64_t lengths[][2] = { { 0, 1 },   { 0, 10 },  { 3, 10 },
                                          { 10, 10 }, { 5, 100 }, { 0, 5000 } };
    char *set = dsf_xasprintf("schedule.kind=%s", s->name);
    const void *part;
    struct built b;

    if (!build(&b, &smalls[0], set, how, verdict)) {
        free(set);
        check_cases(verdict);
        return;
    }
    part = dsf_job_part(&b.job, s->options);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        struct dsflow_lr_keys keys = { .lr = 1e-3,
                                       .warmup = lengths[i][0],
                                       .total = lengths[i][1],
                                       .log_warmup = i % 2 == 0,
                                       .min_ratio = 0.1,
                                       .half_cycle = 4,
                                       .second_half_cycle = 3,
                                       .decay_steps = 7,
                                       .cycle_min_ratio = 0.01,
                                       .range_steps = 5,
                                       .range_rate = 1 };
        char where[96];

        snprintf(where, sizeof(where), "warmup %lld, total %lld",
                 (long long)keys.warmup, (long long)keys.total);
        dsf_child_step("", where);
        for (int64_t step = 0; step < keys.total; step++) {
            double lr = s->lr(part, &keys, step);

            if (!(lr >= 0 && isfinite(lr)))
                dsf_child_fault("the rate of step %lld is %g: expected a "
                                "number from 0 on",
                                (long long)step, lr);
            if (s->lr(part, &keys, step) != lr)
                dsf_child_fault("the rate of step %lld is not the same twice",
                                (long long)step);
        }
        verdict->cases++;
    }
    unbuild(&b);
    free(set);
}

static bool same_data(const struct dsflow_data_spec *a,
                      const struct dsflow_data_spec *b)
{
    return strcmp(a->name, b->name) == 0 && a->bytes == b->bytes &&
           a->role == b->role && a->home == b->home &&
           a->persistent == b->persistent && a->constant == b->constant &&
           a->unit == b->unit && a->part == b->part && a->at == b->at;
}

static bool same_task(const struct dsflow_task_spec *a,
                      const struct dsflow_task_spec *b)
{
    return a->op == b->op && a->layer == b->layer &&
           a->microbatch == b->microbatch && a->tile == b->tile &&
           a->rank == b->rank && a->priority == b->priority &&
           a->program == b->program && a->pass == b->pass &&
           a->fresh == b->fresh && a->ndata == b->ndata &&
           memcmp(a->data, b->data, a->ndata * sizeof(*a->data)) == 0;
}

static bool same_graph(const struct dsflow_graph *a,
                       const struct dsflow_graph *b)
{
    uint32_t ndata = dsflow_graph_ndata(a), ntasks = dsflow_graph_ntasks(a);
    unsigned nprograms = dsflow_graph_nprograms(a);

    if (dsflow_graph_ndata(b) != ndata || dsflow_graph_ntasks(b) != ntasks ||
        dsflow_graph_nprograms(b) != nprograms)
        return false;
    for (unsigned p = 0; p < nprograms; p++)
        if (strcmp(dsflow_graph_program(a, (dsflow_program)p),
                   dsflow_graph_program(b, (dsflow_program)p)) != 0)
            return false;
    for (dsflow_data_id d = { 0 }; d.i < ndata; d.i++)
        if (!same_data(dsflow_graph_data(a, d), dsflow_graph_data(b, d)))
            return false;
    for (dsflow_task_id t = { 0 }; t.i < ntasks; t.i++)
        if (!same_task(dsflow_graph_task(a, t), dsflow_graph_task(b, t)))
            return false;
    return true;
}

void dsf_try_policy(const struct dsflow_policy *policy,
                    const struct dsf_verify_options *how,
                    struct dsf_verdict *verdict)
{
    (void)policy; /* it is in its place among the others */
    for (unsigned i = 0; i < NSMALL; i++) {
        struct built a, b;

        if (!build(&a, &smalls[i], NULL, how, verdict))
            continue;
        make_job(&b, &smalls[i], NULL, how, NULL, NULL);
        if (!same_graph(a.graph, b.graph))
            dsf_child_fault("does not give the same graph twice");
        unbuild(&a);
        unbuild(&b);
        verdict->cases++;
    }
    check_cases(verdict);
}
