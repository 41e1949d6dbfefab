/* calibrate.c - tasks of real steps, timed while all cores work, and the rates
 * that explain their times. */
#include "cli/calibrate.h"

#include "base/alloc.h"
#include "base/units.h"
#include "cli/calibrate_pool.h"
#include "config/job.h"
#include "graph/task.h"
#include "model/model.h"
#include "plan/plan.h"
#include "policies/policies.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A model and a batch. */
struct shape {
    const char *family, *optimizer;
    int layers, heads, width, vocab, sequences, micro, sequence;
    bool quick;
};

/* Narrow and wide, long and short, in the caches and out of them. */
static const struct shape shapes[] = {
    { "gpt2", "adamw", 2, 2, 64, 256, 4, 2, 64, false },
    { "gpt2", "adamw", 2, 4, 128, 256, 8, 4, 128, true },
    { "gpt2", "adamw", 2, 4, 256, 4096, 4, 2, 256, true },
    { "gpt2", "adamw", 1, 8, 512, 1024, 4, 2, 512, false },
    { "gpt2", "adamw", 1, 6, 384, 32768, 2, 1, 1024, false },
    { "gpt2", "adamw", 1, 16, 1024, 8192, 4, 2, 128, true },
    { "llama", "adamw", 2, 8, 320, 2048, 2, 1, 384, false },
    { "llama", "lion", 1, 8, 640, 16384, 4, 4, 64, false },
    { "llama", "sgd", 1, 12, 768, 256, 2, 1, 640, false },
};

static void write_job(const struct shape *s, char *text, size_t size)
{
    snprintf(text, size,
             "[job]\nsteps = 9\n"
             "[model]\nfamily = \"%s\"\nlayers = %d\nheads = %d\n"
             "width = %d\ncontext = %d\nvocab = %d\n"
             "[data]\ntrain = \"-\"\n"
             "[batch]\nsequences = %d\nmicro = %d\ngroups = %d\n"
             "[optimizer]\nkind = \"%s\"\n",
             s->family, s->layers, s->heads, s->width, s->sequence, s->vocab,
             s->sequences, s->micro, s->sequences > s->micro ? 2 : 1,
             s->optimizer);
}

/* Any tokens do. */
static void load_batch(void *user, int64_t step, int64_t seq, int32_t nseq,
                       int32_t pos, int32_t rows, int32_t *tokens,
                       int32_t *targets)
{
    uint32_t vocab = *(uint32_t *)user, s = (uint32_t)(seq * 977 + pos + step);

    for (int32_t i = 0; i < rows; i++) {
        s = s * 1664525 + 1013904223;
        tokens[i] = targets[i] = (int32_t)((s >> 8) % vocab);
    }
}

static void report(void *user, const double *values, unsigned n)
{
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return *x < *y ? -1 : *x > *y;
}

/* One sample for all tasks that are alike: the lower quartile of their times,
 * as what disturbs a task only makes it longer. */
struct timing {
    const struct dsflow_op *op;
    double flops, bytes, seconds;
};

static int by_task(const void *a, const void *b)
{
    const struct timing *x = a, *y = b;
    int names = strcmp(x->op->name, y->op->name);

    if (names != 0)
        return names;
    if (x->flops != y->flops)
        return x->flops < y->flops ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return by_value(&x->seconds, &y->seconds);
}

/* Where the same was measured before, the shorter time counts. */
static void add_sample(const struct dsf_sample *sample,
                       struct dsf_samples *samples)
{
    for (size_t i = 0; i < samples->n; i++) {
        struct dsf_sample *s = &samples->v[i];

        if (s->kind != sample->kind || s->flops != sample->flops ||
            s->bytes != sample->bytes)
            continue;
        s->n += sample->n;
        if (sample->seconds < s->seconds)
            s->seconds = sample->seconds;
        return;
    }
    dsf_grow(&samples->v, &samples->cap, samples->n + 1, sizeof(*samples->v));
    samples->v[samples->n++] = *sample;
}

static void add_samples(struct timing *v, size_t n, struct dsf_samples *samples)
{
    qsort(v, n, sizeof(*v), by_task);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && v[end].op == v[i].op &&
                          v[end].flops == v[i].flops &&
                          v[end].bytes == v[i].bytes;)
            end++;
        add_sample(&(struct dsf_sample){ v[i].op->name, v[i].flops, v[i].bytes,
                                         v[i + (end - i) / 4].seconds,
                                         (unsigned)(end - i) },
                   samples);
    }
}

/* The first step touches the memory; steps follow until there is enough. */
static void run_steps(struct dsflow_graph *g, struct dsf_pool *pool,
                      double budget, struct dsf_samples *samples)
{
    uint32_t ntasks = dsflow_graph_ntasks(g);
    double *seconds = dsf_xcalloc((size_t)ntasks + 1, sizeof(*seconds));
    struct timing *v = NULL;
    size_t n = 0, cap = 0;
    double start = dsf_now();
    unsigned steps = 0;

    dsf_pool_step(pool, seconds);
    do {
        dsf_pool_step(pool, seconds);
        for (uint32_t i = 0; i < ntasks; i++) {
            const struct dsflow_task_spec *t =
                dsflow_graph_task(g, (dsflow_task_id){ i });
            struct dsflow_cost cost = dsf_task_cost(g, t);

            if (t->phase != DSFLOW_STEP)
                break;
            dsf_grow(&v, &cap, n + 1, sizeof(*v));
            v[n++] = (struct timing){ t->op, cost.flops, cost.bytes,
                                      seconds[i] };
        }
    } while (++steps < 50 && dsf_now() - start < budget);
    add_samples(v, n, samples);
    free(v);
    free(seconds);
}

static int run_shape(const struct shape *s, const struct dsf_machine *machine,
                     unsigned workers, double budget,
                     struct dsf_samples *samples, struct dsflow_err *err)
{
    struct dsf_job job;
    struct dsf_model model = { 0 };
    struct dsflow_plan *plan = NULL;
    struct dsflow_graph *g = NULL;
    struct dsf_pool *pool = NULL;
    uint32_t vocab = (uint32_t)s->vocab;
    struct dsflow_host host = { &vocab, load_batch, report };
    char text[1024];
    int status;

    write_job(s, text, sizeof(text));
    status = dsf_job_parse(text, strlen(text), "calibration", NULL, 0, &job,
                           err);
    if (status < 0)
        return status;
    status = dsf_model_init(&model, &job, err);
    if (status == DSFLOW_OK)
        status = dsf_plan_new(&job, &model, machine, &plan, err);
    if (status == DSFLOW_OK)
        status = dsf_policies_build(plan, NULL, &g, err);
    if (status == DSFLOW_OK)
        status = dsf_pool_open(g, &host, workers, &pool, err);
    if (status == DSFLOW_OK)
        run_steps(g, pool, budget, samples);
    dsf_pool_close(pool);
    dsflow_graph_free(g);
    dsf_plan_free(plan);
    dsf_model_fini(&model);
    dsf_job_fini(&job);
    return status;
}

int dsf_calibrate_tasks(const struct dsf_machine *machine, unsigned workers,
                        enum dsf_calibration how, struct dsf_samples *samples,
                        FILE *log, struct dsflow_err *err)
{
    enum { NSHAPES = sizeof(shapes) / sizeof(*shapes) };
    bool quick = how == DSF_CALIBRATE_QUICK;

    /* In rounds: what disturbs the machine for seconds disturbs one of them. */
    for (size_t i = 0; i < (quick ? 1 : 2) * NSHAPES; i++) {
        const struct shape *s = &shapes[i % NSHAPES];
        int status;

        if (quick && !s->quick)
            continue;
        status = run_shape(s, machine, workers, quick ? 0.3 : 1, samples, err);
        if (status < 0)
            return status;
        if (log != NULL)
            fprintf(log,
                    "measured %s, width %d, %d heads, vocabulary %d, %d x %d "
                    "tokens, %s\n",
                    s->family, s->width, s->heads, s->vocab, s->sequences,
                    s->sequence, s->optimizer);
    }
    return DSFLOW_OK;
}

/* How much a sample counts: a step is made of its long tasks. */
static double weight(const struct dsf_sample *s)
{
    return sqrt(s->seconds);
}

/* Least squares of (x . c - y) / y over the samples of a kind, with only the
 * terms of `mask` (1 fixed, 2 flops, 4 bytes). Returns the sum of squares, or
 * INFINITY where a coefficient would be negative. */
static double solve(const struct dsf_samples *s, const char *kind,
                    unsigned mask, double c[3])
{
    double a[3][4] = { { 0 } }, rest = 0;
    unsigned term[3], n = 0;

    c[0] = c[1] = c[2] = 0;
    for (unsigned i = 0; i < 3; i++)
        if (mask >> i & 1)
            term[n++] = i;
    for (size_t i = 0; i < s->n; i++) {
        const struct dsf_sample *p = &s->v[i];
        double x[3] = { 1, p->flops, p->bytes };

        if (strcmp(p->kind, kind) != 0 || p->seconds <= 0)
            continue;
        for (unsigned j = 0; j < n; j++) {
            for (unsigned k = 0; k < n; k++)
                a[j][k] += weight(p) * x[term[j]] * x[term[k]] / p->seconds /
                           p->seconds;
            a[j][3] += weight(p) * x[term[j]] / p->seconds;
        }
    }
    /* Gauss, without a choice of pivots: the matrix is positive. */
    for (unsigned j = 0; j < n; j++) {
        if (!(a[j][j] > 0))
            return INFINITY;
        for (unsigned k = j + 1; k < n; k++) {
            double f = a[k][j] / a[j][j];

            for (unsigned l = j; l < n; l++)
                a[k][l] -= f * a[j][l];
            a[k][3] -= f * a[j][3];
        }
    }
    for (unsigned j = n; j-- > 0;) {
        double sum = a[j][3];

        for (unsigned k = j + 1; k < n; k++)
            sum -= a[j][k] * c[term[k]];
        c[term[j]] = sum / a[j][j];
        if (!(c[term[j]] >= 0) || !isfinite(c[term[j]]))
            return INFINITY;
    }
    for (size_t i = 0; i < s->n; i++) {
        const struct dsf_sample *p = &s->v[i];
        double e;

        if (strcmp(p->kind, kind) != 0 || p->seconds <= 0)
            continue;
        e = (c[0] + c[1] * p->flops + c[2] * p->bytes) / p->seconds - 1;
        rest += weight(p) * e * e;
    }
    return rest;
}

static void fit_kind(const struct dsf_samples *samples, const char *kind,
                     struct dsf_machine_model *m)
{
    double best = INFINITY, kept[3] = { 0 };
    struct dsf_kind_rate *rate;

    for (unsigned mask = 1; mask < 8; mask++) {
        double c[3], rest = solve(samples, kind, mask, c);

        if (rest < best) {
            best = rest;
            memcpy(kept, c, sizeof(kept));
        }
    }
    if (best == INFINITY)
        return;
    rate = dsf_machine_model_add_kind(m, kind);
    rate->fixed = kept[0];
    rate->per_flop = kept[1];
    rate->per_byte = kept[2];
}

void dsf_calibrate_fit(const struct dsf_samples *samples,
                       struct dsf_machine_model *m)
{
    for (size_t i = 0; i < samples->n; i++)
        if (dsf_machine_model_kind(m, samples->v[i].kind) == NULL)
            fit_kind(samples, samples->v[i].kind, m);
}
