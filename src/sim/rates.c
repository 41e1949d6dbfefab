/* rates.c - from the times of tasks to the rates of their kinds. */
#include "sim/rates.h"

#include "base/alloc.h"

#include <math.h>
#include <string.h>

enum dsflow_dtype dsf_sample_type(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t)
{
    enum dsflow_dtype dtype = dsf_cost_type(g, t);

    return dtype == DSFLOW_BF16 || dtype == DSFLOW_FP16 ? dtype : DSFLOW_BYTES;
}

/* Do they tell of one rate? */
static bool is_alike(const struct dsf_rate_sample *x,
                     const struct dsf_rate_sample *y)
{
    return x->dtype == y->dtype && strcmp(x->kind, y->kind) == 0;
}

int dsf_work_order(const struct dsf_work *x, const struct dsf_work *y)
{
    if (x->flops != y->flops)
        return x->flops < y->flops ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->scores < y->scores ? -1 : x->scores > y->scores;
}

void dsf_samples_add(struct dsf_samples *samples,
                     const struct dsf_rate_sample *sample)
{
    for (size_t i = 0; i < samples->n; i++) {
        struct dsf_rate_sample *s = &samples->v[i];

        if (!is_alike(s, sample) ||
            dsf_work_order(&s->work, &sample->work) != 0)
            continue;
        s->n += sample->n;
        if (sample->seconds < s->seconds) {
            s->seconds = sample->seconds;
            s->spread = sample->spread;
        }
        return;
    }
    dsf_grow(&samples->v, &samples->cap, samples->n + 1, sizeof(*samples->v));
    samples->v[samples->n++] = *sample;
}

double dsf_samples_scatter(const struct dsf_samples *samples)
{
    double spread = 0, seconds = 0;

    for (size_t i = 0; i < samples->n; i++) {
        const struct dsf_rate_sample *s = &samples->v[i];

        if (s->seconds < 1e-4 || s->n < 4)
            continue;
        spread += s->n * s->spread;
        seconds += s->n * s->seconds;
    }
    return seconds > 0 ? spread / seconds : 0;
}

void dsf_samples_keep_new(struct dsf_samples *samples,
                          const struct dsf_machine_model *m)
{
    size_t n = 0;

    for (size_t i = 0; i < samples->n; i++) {
        const struct dsf_rate_sample *s = &samples->v[i];
        const struct dsf_kind_rate *rate =
            dsf_machine_model_kind(m, s->kind, false, s->dtype);

        if (rate == NULL || rate->dtype != s->dtype)
            samples->v[n++] = *s;
    }
    samples->n = n;
}

double dsf_samples_flops(const struct dsf_samples *samples,
                         enum dsflow_dtype dtype)
{
    double best = 0;

    for (size_t i = 0; i < samples->n; i++) {
        const struct dsf_rate_sample *s = &samples->v[i];

        if (s->dtype == dtype && s->seconds > 1e-4)
            best = fmax(best, s->work.flops / s->seconds);
    }
    return best;
}

/* How much a sample counts: a step is made of its long tasks. */
static double weight(const struct dsf_rate_sample *s)
{
    return sqrt(s->seconds);
}

/* Least squares of (x . c - y) / y over the samples like `as`, with only the
 * terms of `mask` (1 fixed, 2 flops, 4 bytes, 8 scores), where an operation
 * takes at least `least`. Returns the sum of squares, or INFINITY where a
 * coefficient would be less. */
static double solve(const struct dsf_samples *s,
                    const struct dsf_rate_sample *as, unsigned mask,
                    double least, double c[DSF_NTERMS])
{
    double a[DSF_NTERMS][DSF_NTERMS + 1] = { { 0 } }, rest = 0;
    unsigned term[DSF_NTERMS], n = 0;

    memset(c, 0, DSF_NTERMS * sizeof(*c));
    for (unsigned i = 0; i < DSF_NTERMS; i++)
        if (mask >> i & 1)
            term[n++] = i;
    for (size_t i = 0; i < s->n; i++) {
        const struct dsf_rate_sample *p = &s->v[i];
        double x[DSF_NTERMS] = { 1, p->work.flops, p->work.bytes,
                                 p->work.scores };

        if (!is_alike(p, as) || p->seconds <= 0)
            continue;
        for (unsigned j = 0; j < n; j++) {
            for (unsigned k = 0; k < n; k++)
                a[j][k] += weight(p) * x[term[j]] * x[term[k]] / p->seconds /
                           p->seconds;
            a[j][n] += weight(p) * x[term[j]] *
                       (p->seconds - least * p->work.flops) / p->seconds /
                       p->seconds;
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
            a[k][n] -= f * a[j][n];
        }
    }
    for (unsigned j = n; j-- > 0;) {
        double sum = a[j][n];

        for (unsigned k = j + 1; k < n; k++)
            sum -= a[j][k] * c[term[k]];
        c[term[j]] = sum / a[j][j];
        if (!(c[term[j]] >= 0) || !isfinite(c[term[j]]))
            return INFINITY;
    }
    c[1] += least;
    for (size_t i = 0; i < s->n; i++) {
        const struct dsf_rate_sample *p = &s->v[i];
        double e;

        if (!is_alike(p, as) || p->seconds <= 0)
            continue;
        e = (c[0] + c[1] * p->work.flops + c[2] * p->work.bytes +
             c[3] * p->work.scores) /
                p->seconds -
            1;
        rest += weight(p) * e * e;
    }
    return rest;
}

static void fit_kind(const struct dsf_samples *samples,
                     const struct dsf_rate_sample *as,
                     struct dsf_machine_model *m)
{
    /* On a GPU the small ones of a kind take as long as a launch, whatever
     * they do, and say nothing of large ones: but these are no faster than
     * the fastest of any kind. */
    double fastest = m->main.kind == DSF_MACHINE_GPU
                         ? dsf_samples_flops(samples, as->dtype)
                         : 0;
    double best = INFINITY, kept[DSF_NTERMS] = { 0 };
    struct dsf_kind_rate *rate;

    for (unsigned mask = 1; mask < 1u << DSF_NTERMS; mask++) {
        double c[DSF_NTERMS],
            rest = solve(samples, as, mask, fastest > 0 ? 1 / fastest : 0, c);

        if (rest < best) {
            best = rest;
            memcpy(kept, c, sizeof(kept));
        }
    }
    if (best == INFINITY)
        return;
    rate = dsf_machine_model_add_kind(m, as->kind, false, as->dtype);
    rate->fixed = kept[0];
    rate->per_flop = kept[1];
    rate->per_byte = kept[2];
    rate->per_score = kept[3];
}

/* Is it the first of its kind and type? */
static bool is_first(const struct dsf_samples *samples, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (is_alike(&samples->v[k], &samples->v[i]))
            return false;
    return true;
}

void dsf_rates_fit(const struct dsf_samples *samples,
                   struct dsf_machine_model *m)
{
    for (size_t i = 0; i < samples->n; i++)
        if (is_first(samples, i))
            fit_kind(samples, &samples->v[i], m);
}
