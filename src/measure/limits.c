/* limits.c - the limits of this machine, a part at a time. */
#include "measure/limits.h"

#include "base/units.h"
#include "measure/bench_measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* On one core, and then on all; `workers` is what `fn` has as their number. */
static int measure(const struct dsf_limits *how, const char *name,
                   dsf_measure_fn fn, void *user, unsigned *workers,
                   double seconds, struct dsf_limit *limit,
                   struct dsflow_err *err)
{
    int status;

    *workers = 1;
    seconds *= how->patience;
    status = dsf_measure(name, fn, user, seconds, &limit->one, err);
    *workers = how->cores;
    if (status == DSFLOW_OK)
        status = dsf_measure(name, fn, user, seconds, &limit->all, err);
    return status;
}

static void tell(const struct dsf_limits *how, const struct dsf_limit *limit)
{
    if (how->on_limit != NULL)
        how->on_limit(how->user, limit);
}

/* As a segment has them: forward, the gradient of the input, the gradient of
 * the weights. */
static const struct product {
    const char *what;
    struct dsf_bench_product of;
} products[] = {
    { "forward", { 0, 1, 256, 768, 768, DSFLOW_FP32 } },
    { "forward", { 0, 1, 256, 3072, 768, DSFLOW_FP32 } },
    { "forward", { 0, 1, 128, 192, 192, DSFLOW_FP32 } },
    { "input gradient", { 0, 0, 256, 768, 3072, DSFLOW_FP32 } },
    { "weight gradient", { 1, 0, 768, 3072, 256, DSFLOW_FP32 } },
    { "head", { 0, 1, 256, 2048, 768, DSFLOW_FP32 } },
    { "forward", { 0, 1, 256, 3072, 768, DSFLOW_BF16 } },
    { "input gradient", { 0, 0, 256, 768, 3072, DSFLOW_BF16 } },
    { "weight gradient", { 1, 0, 768, 3072, 256, DSFLOW_BF16 } },
};

struct multiplying {
    const struct dsf_bench_product *p;
    unsigned workers;
};

static int multiply(void *user, double seconds, double *value,
                    struct dsflow_err *err)
{
    const struct multiplying *x = user;

    return dsf_bench_gemm(x->p, x->workers, seconds, value, err);
}

int dsf_limits_gemm(const struct dsf_limits *how, struct dsf_machine_model *m,
                    struct dsflow_err *err)
{
    struct dsf_measured best = { 0 };
    double narrow = 0;

    for (size_t i = 0; i < sizeof(products) / sizeof(*products); i++) {
        const struct dsf_bench_product *p = &products[i].of;
        struct multiplying x = { .p = p };
        struct dsf_limit limit = { .what = products[i].what };
        int status =
            measure(how, "gemm", multiply, &x, &x.workers, 0.2, &limit, err);

        if (status < 0)
            return status;
        snprintf(limit.size, sizeof(limit.size), "%zu x %zu x %zu %s", p->m,
                 p->n, p->k, dsflow_dtype_str(p->type));
        tell(how, &limit);
        if (p->type == DSFLOW_FP32 && limit.all.value > best.value)
            best = limit.all;
        if (p->type == DSFLOW_BF16)
            narrow = fmax(narrow, limit.all.value);
    }
    m->main.fp32 = best.value;
    m->main.bf16 = narrow;
    m->scatter.fp32 = best.scatter;
    return DSFLOW_OK;
}

struct touching {
    enum dsf_bench_access access;
    size_t bytes;
    unsigned workers;
};

static int touch(void *user, double seconds, double *value,
                 struct dsflow_err *err)
{
    const struct touching *x = user;

    return dsf_bench_memory(x->access, x->workers, x->bytes, seconds, value,
                            err);
}

static int measure_memory(const struct dsf_limits *how, const char *name,
                          enum dsf_bench_access access, size_t bytes,
                          double seconds, struct dsf_limit *limit,
                          struct dsflow_err *err)
{
    static const char *const names[] = { "read", "write", "update", "copy" };
    struct touching x = { .access = access, .bytes = bytes };

    *limit = (struct dsf_limit){ .what = names[access] };
    snprintf(limit->size, sizeof(limit->size), "%s",
             dsf_size_text((double)bytes).s);
    return measure(how, name, touch, &x, &x.workers, seconds, limit, err);
}

int dsf_limits_memory(const struct dsf_limits *how, struct dsf_machine_model *m,
                      struct dsflow_err *err)
{
    enum { BYTES = 256 << 20 };

    for (int k = DSF_BENCH_READ; k <= DSF_BENCH_COPY; k++) {
        struct dsf_limit limit;
        int status = measure_memory(how, "memory", (enum dsf_bench_access)k,
                                    BYTES, 0.3, &limit, err);

        if (status < 0)
            return status;
        tell(how, &limit);
        m->main.bandwidth = limit.all.value;
        m->scatter.bandwidth = limit.all.scatter;
    }
    return DSFLOW_OK;
}

int dsf_limits_link(const struct dsf_limits *how, struct dsf_machine_model *m,
                    struct dsflow_err *err)
{
    for (size_t bytes = 64 << 10; bytes <= 64 << 20; bytes *= 32) {
        struct dsf_limit limit;
        int status = measure_memory(how, "link", DSF_BENCH_COPY, bytes, 0.2,
                                    &limit, err);

        if (status < 0)
            return status;
        limit.one.value /= 2; /* a byte that is copied is read and written */
        limit.all.value /= 2;
        tell(how, &limit);
        m->link.bandwidth = limit.all.value;
        m->scatter.link = limit.all.scatter;
    }
    m->link.latency = m->main.overhead;
    return DSFLOW_OK;
}

/* The sample of the same work; NULL: there is none. */
static const struct dsf_rate_sample *
find_same(const struct dsf_samples *samples, const struct dsf_rate_sample *as)
{
    for (size_t i = 0; i < samples->n; i++) {
        const struct dsf_rate_sample *s = &samples->v[i];

        if (strcmp(s->kind, as->kind) == 0 && s->dtype == as->dtype &&
            s->work.flops == as->work.flops && s->work.bytes == as->work.bytes)
            return s;
    }
    return NULL;
}

bool dsf_limits_kind(const struct dsf_kind_rate *rate,
                     const struct dsf_samples *one,
                     const struct dsf_samples *all, struct dsf_kind_limit *out)
{
    const double least = 1e-4; /* seconds of a task that says something */
    double sum = 0, seconds = 0;
    const struct dsf_rate_sample *same;

    *out = (struct dsf_kind_limit){ .against_one = NAN };
    for (size_t i = 0; i < all->n; i++) {
        const struct dsf_rate_sample *s = &all->v[i];
        double t = dsf_rate_seconds(rate, &s->work);

        if (strcmp(s->kind, rate->kind) != 0 || s->dtype != rate->dtype)
            continue;
        sum += t * s->n;
        seconds += s->seconds * s->n;
        if (s->seconds > least)
            out->most_off = fmax(out->most_off, fabs(t / s->seconds - 1));
        if (out->longest == NULL || s->seconds > out->longest->seconds)
            out->longest = s;
    }
    if (out->longest == NULL)
        return false;
    out->off = sum / seconds - 1;
    same = find_same(one, out->longest);
    if (same != NULL)
        out->against_one = out->longest->seconds / same->seconds;
    return true;
}
