/* calibrate.c - steps of small models in the executor, as a run has them: what
 * their tasks take while all cores work, and what a task takes beside its
 * kernel. */
#include "measure/calibrate.h"

#include "base/alloc.h"
#include "base/by_value.h"
#include "base/log.h"
#include "base/units.h"
#include "config/job.h"
#include "exec/exec_trace.h"
#include "measure/apart.h"
#include "measure/small_models.h"
#include "model/model.h"
#include "plan/plan.h"
#include "plan/programs.h"
#include "policies/policies.h"
#include "sim/predict.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Any tokens do. */
static void load_batch(void *user, const struct dsflow_batch *b)
{
    uint32_t vocab = *(uint32_t *)user;
    uint32_t s = (uint32_t)(b->seq * 977 + b->pos + b->step);

    for (int32_t i = 0; i < b->rows; i++) {
        s = s * 1664525 + 1013904223;
        b->tokens[i] = b->targets[i] = (int32_t)((s >> 8) % vocab);
    }
}

static void report(void *user, const struct dsflow_step_report *report)
{
}

/* One sample for all tasks that are alike: the lower quartile of their times,
 * as what disturbs a task only makes it longer. Nobody else disturbs a GPU,
 * which is slower as it gets warm: the median. */
struct timing {
    const struct dsflow_op *op;
    enum dsflow_dtype dtype;
    struct dsf_work work;
    double seconds;
};

static int by_task(const void *a, const void *b)
{
    const struct timing *x = a, *y = b;
    int order = strcmp(x->op->name, y->op->name);

    if (order == 0)
        order = (int)x->dtype - (int)y->dtype;
    if (order == 0)
        order = dsf_work_order(&x->work, &y->work);
    return order != 0 ? order : dsf_by_value(&x->seconds, &y->seconds);
}

static void add_samples(struct timing *v, size_t n, bool gpu,
                        struct dsf_samples *samples)
{
    qsort(v, n, sizeof(*v), by_task);
    for (size_t i = 0, end, middle; i < n; i = end) {
        for (end = i + 1; end < n && v[end].op == v[i].op &&
                          v[end].dtype == v[i].dtype &&
                          dsf_work_order(&v[end].work, &v[i].work) == 0;)
            end++;
        middle = i + (end - i) / (gpu ? 2 : 4);
        dsf_samples_add(
            samples,
            &(struct dsf_rate_sample){
                .kind = v[i].op->name,
                .work = v[i].work,
                .seconds = v[middle].seconds,
                .spread = v[i + 3 * (end - i) / 4].seconds - v[middle].seconds,
                .n = (unsigned)(end - i),
                .dtype = v[i].dtype });
    }
}

/* A step of a shape, and what is needed to run it. */
struct small {
    struct dsf_job job;
    struct dsf_model model;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    uint32_t vocab;
    struct dsflow_host host;
    struct dsflow_exec_options options;
    double budget; /* seconds of steps */
    double step;   /* seconds of one, where they ran in this process */
};

static void small_close(struct small *s)
{
    dsflow_graph_free(s->graph);
    dsf_plan_free(s->plan);
    dsf_model_fini(&s->model);
    dsf_job_fini(&s->job);
}

static unsigned gpus_of(const struct dsf_machine *machine,
                        const struct dsflow_plan *plan)
{
    unsigned ranks = (unsigned)plan->nranks;

    return machine->gpus < ranks ? machine->gpus : ranks;
}

static int small_open(struct small *s, const struct dsf_small_model *shape,
                      enum dsflow_dtype type, const struct dsf_machine *machine,
                      unsigned workers, struct dsflow_err *err)
{
    char text[1024];
    int status;

    *s = (struct small){ .vocab = (uint32_t)shape->vocab };
    s->host = (struct dsflow_host){ &s->vocab, load_batch, report };
    dsf_small_model_job(shape, type, text, sizeof(text));
    status =
        dsf_job_parse(text, strlen(text), "calibration", NULL, 0, NULL, &s->job,
                      err);
    if (status < 0)
        return status;
    status = dsf_model_init(&s->model, &s->job, err);
    if (status == DSFLOW_OK && machine->gpus > 0)
        dsf_model_pad(&s->model);
    if (status == DSFLOW_OK)
        status = dsf_plan_new(&s->job, &s->model, machine, &s->plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build_builtin(s->plan, &s->graph, err);
    if (status == DSFLOW_OK)
        s->options =
            DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .workers = workers,
                                .cores = machine->cores,
                                .ranks = (unsigned)s->plan->nranks,
                                .gpus = gpus_of(machine, s->plan));
    return status;
}

/* Numbers of about the size of weights: no zeroes, which may be faster. */
static void fill(float *x, int64_t n)
{
    uint32_t s = 12345;

    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        x[i] = ((float)(s >> 8) / 8388608.0f - 1) * 0.05f;
    }
}

static int open_exec(struct small *s, struct dsflow_exec **exec,
                     struct dsflow_err *err)
{
    int status = dsflow_exec_open(s->graph, &s->options, &s->host, exec, err);
    dsflow_program prepare;

    for (uint32_t i = 0; i < dsflow_graph_ndata(s->graph) && status == 0; i++) {
        const dsflow_data_id id = { i };
        const struct dsflow_data_spec *d = dsflow_graph_data(s->graph, id);

        if (d->kept == 1 + DSF_KEPT_PARAM && d->persistent)
            fill(dsflow_exec_map(*exec, id, DSFLOW_W), d->elems);
    }
    if (status == DSFLOW_OK &&
        dsflow_graph_find_program(s->graph, DSF_PREPARE, &prepare)) {
        status = dsflow_exec_submit(*exec, prepare, err);
        if (status == DSFLOW_OK)
            status = dsflow_exec_wait(*exec, err);
    }
    return status;
}

static int run_step(struct dsflow_exec *exec, struct dsflow_err *err)
{
    int status = dsflow_exec_submit(exec, DSFLOW_STEP, err);

    return status == DSFLOW_OK ? dsflow_exec_wait(exec, err) : status;
}

/* The first step touches the memory; steps follow until there is enough. */
static int time_tasks(struct small *s, struct dsflow_exec *exec,
                      struct dsf_samples *samples, struct dsflow_err *err)
{
    uint32_t first,
        n = dsflow_graph_program_tasks(s->graph, DSFLOW_STEP, &first);
    double *seconds =
        dsf_xcalloc(dsflow_graph_ntasks(s->graph), sizeof(*seconds));
    struct timing *v = NULL;
    size_t cap = 0;
    double start = dsf_now();
    int steps = 0, status = run_step(exec, err);

    dsf_exec_time_tasks(exec, seconds);
    do {
        if (status == DSFLOW_OK)
            status = run_step(exec, err);
        dsf_grow(&v, &cap, (size_t)(steps + 1) * n, sizeof(*v));
        for (uint32_t i = 0; i < n; i++) {
            const struct dsflow_task_spec *t =
                dsflow_graph_task(s->graph, (dsflow_task_id){ first + i });

            v[(size_t)steps * n + i] =
                (struct timing){ t->op, dsf_sample_type(s->graph, t),
                                 dsf_work_of(s->graph, t), seconds[first + i] };
        }
    } while (status == DSFLOW_OK && ++steps < 50 &&
             dsf_now() - start < s->budget);
    s->step = (dsf_now() - start) / (steps + 1);
    add_samples(v, (size_t)steps * n, s->options.gpus > 0, samples);
    free(v);
    free(seconds);
    return status;
}

/* Samples as they are brought from another process: of a step, there are no
 * more than it has tasks. */
struct answer {
    size_t n;
    struct dsf_rate_sample v[];
};

static int time_tasks_there(void *user, void *to, struct dsflow_err *err)
{
    struct dsf_samples samples = { 0 };
    struct dsflow_exec *exec = NULL;
    struct answer *answer = to;
    int status = open_exec(user, &exec, err);

    if (status == DSFLOW_OK)
        status = time_tasks(user, exec, &samples, err);
    dsflow_exec_close(exec);
    answer->n = samples.n;
    for (size_t i = 0; i < samples.n; i++)
        answer->v[i] = samples.v[i];
    free(samples.v); /* this may not be a process of its own */
    return status;
}

/* CUDA does not work in a process that was forked from one that has used it, so
 * this process calls the work. */
static int here_or_apart(dsf_apart_fn work, struct small *s, void *answer,
                         size_t bytes, struct dsflow_err *err)
{
    return s->options.gpus > 0 ? work(s, answer, err)
                               : dsf_apart(work, s, answer, bytes, err);
}

/* Where StarPU does not start, one task after the other is better than none. */
static int run_small(struct small *s, struct dsf_samples *samples,
                     struct dsflow_err *err)
{
    size_t bytes = sizeof(struct answer) + dsflow_graph_ntasks(s->graph) *
                                               sizeof(struct dsf_rate_sample);
    struct answer *answer = dsf_xcalloc(1, bytes);
    int status = here_or_apart(time_tasks_there, s, answer, bytes, err);

    if (status == DSFLOW_EFAIL && s->options.gpus == 0) {
        s->options.kind = DSFLOW_SERIAL;
        status = dsf_apart(time_tasks_there, s, answer, bytes, err);
    }
    for (size_t i = 0; i < answer->n; i++)
        dsf_samples_add(samples, &answer->v[i]);
    free(answer);
    return status;
}

static int run_shape(const struct dsf_small_model *shape,
                     enum dsflow_dtype type, const struct dsf_machine *machine,
                     unsigned workers, double budget,
                     struct dsf_samples *samples, double *step,
                     struct dsflow_err *err)
{
    struct small s;
    int status = small_open(&s, shape, type, machine, workers, err);

    s.budget = budget;
    if (status == DSFLOW_OK)
        status = run_small(&s, samples, err);
    *step = s.step;
    small_close(&s);
    return status;
}

void dsf_calibrate_tasks(const struct dsf_machine *machine, unsigned workers,
                         enum dsf_calibration how, enum dsflow_dtype type,
                         struct dsf_samples *samples)
{
    bool quick = how == DSF_CALIBRATE_QUICK;

    /* In rounds: what disturbs the machine for seconds disturbs one of them. */
    for (size_t i = 0; i < (quick ? 1 : 2) * dsf_nsmall_models; i++) {
        const struct dsf_small_model *s =
            &dsf_small_models[i % dsf_nsmall_models];
        struct dsflow_err err = { 0 };
        double step;

        if (quick && !s->quick)
            continue;
        /* What is not measured is estimated: no reason to stop. */
        if (run_shape(s, type, machine, workers, quick ? 0.3 : 1, samples,
                      &step, &err) < 0)
            dsf_warn("a model of width %d in %s is not measured: %s", s->width,
                     dsflow_dtype_str(type), err.msg);
    }
}

/* Seconds that a step and its start may take, after a step of another shape. */
static double reach(const struct dsf_small_model *s,
                    const struct dsf_small_model *from, double step)
{
    return from != NULL
               ? 2 * step * dsf_small_model_size(s) / dsf_small_model_size(from)
               : 0;
}

/* The last one that is quick. Little models say little of a large GPU. */
static const struct dsf_small_model *largest_quick(void)
{
    const struct dsf_small_model *s = dsf_gpu_models;

    while (s[1].quick)
        s++;
    return s;
}

unsigned dsf_calibrate_gpus(const struct dsf_machine *machine,
                            enum dsf_calibration how, enum dsflow_dtype type,
                            double seconds, struct dsf_samples *samples,
                            struct dsflow_err *err)
{
    bool quick = how == DSF_CALIBRATE_QUICK;
    const struct dsf_small_model *before = NULL, *largest = largest_quick();
    double until = dsf_now() + seconds, step = 0, took;
    unsigned n = 0;

    for (size_t i = 0;
         i < dsf_ngpu_models && (dsf_gpu_models[i].quick || !quick); i++) {
        const struct dsf_small_model *s = &dsf_gpu_models[i];
        double left = until - dsf_now();

        if (quick && before != NULL && s != largest && left < seconds / 2 &&
            reach(largest, before, step) < left)
            continue;
        if (reach(s, before, step) > left)
            break;
        if (run_shape(s, type, machine, machine->cores,
                      seconds / dsf_ngpu_models, samples, &took,
                      err) == DSFLOW_OK) {
            before = s;
            step = took;
            n++;
        } else if (s->data == 1) { /* GPUs may not reach each other's memory */
            break;
        }
    }
    return n;
}

/* Of a step in StarPU, as a run submits them. */
struct step_time {
    double seconds; /* the lower quartile */
    double scatter; /* from there to the upper one, as a share of it */
};

static int time_steps_there(void *user, void *to, struct dsflow_err *err)
{
    enum { TURNS = 16, LEAST = 4, STEPS = 8 };
    const double LONG = 3; /* seconds: not all turns then */
    struct step_time *time = to;
    struct dsflow_exec *exec = NULL;
    double turns[TURNS] = { 0 }, began = dsf_now();
    int n = -1, status = open_exec(user, &exec, err);

    for (; n < TURNS && status == DSFLOW_OK &&
           (n < LEAST || dsf_now() - began < LONG);
         n++) {
        double start = dsf_now();

        for (int k = 0; k < STEPS && status == DSFLOW_OK; k++)
            status = dsflow_exec_submit(exec, DSFLOW_STEP, err);
        if (status == DSFLOW_OK)
            status = dsflow_exec_wait(exec, err);
        if (n >= 0)
            turns[n] = (dsf_now() - start) / STEPS;
    }
    dsflow_exec_close(exec);
    if (status < 0)
        return status;
    qsort(turns, (size_t)n, sizeof(*turns), dsf_by_value);
    time->seconds = turns[n / 4];
    time->scatter = turns[3 * n / 4] / time->seconds - 1;
    return status;
}

/* Of the simulated step. */
static double simulated(const void *user, const struct dsf_machine_model *m)
{
    const struct small *s = user;
    struct dsf_prediction p;
    double seconds = 0;

    if (dsf_predict(s->plan, s->graph, m, &p, NULL) == DSFLOW_OK) {
        seconds = p.sim.step_seconds;
        dsf_prediction_fini(&p);
    }
    return seconds;
}

void dsf_overhead_fit(struct dsf_machine_model *m, double seconds,
                      dsf_step_fn step, const void *user)
{
    double low = 0, high = 200e-6, before = m->main.overhead;

    m->main.overhead = high;
    if (step(user, m) < seconds) {
        m->main.overhead = before;
        m->scatter.overhead =
            fmax(m->scatter.overhead, seconds / step(user, m) - 1);
        return;
    }
    for (int i = 0; i < 12; i++) {
        m->main.overhead = (low + high) / 2;
        *(step(user, m) < seconds ? &low : &high) = m->main.overhead;
    }
    m->main.overhead = (low + high) / 2;
}

int dsf_calibrate_overhead(const struct dsf_machine *machine,
                           struct dsf_machine_model *m, struct dsflow_err *err)
{
    struct small s;
    struct step_time measured = { 0 };
    int status = small_open(
        &s, machine->gpus > 0 ? &dsf_gpu_models[0] : &dsf_small_models[0],
        DSFLOW_FP32, machine, machine->cores, err);

    if (status == DSFLOW_OK)
        status = here_or_apart(time_steps_there, &s, &measured,
                               sizeof(measured), err);
    if (status == DSFLOW_OK) {
        m->scatter.overhead = measured.scatter;
        dsf_overhead_fit(m, measured.seconds, simulated, &s);
    }
    small_close(&s);
    return status;
}
