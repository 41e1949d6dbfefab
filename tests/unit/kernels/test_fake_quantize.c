/* test_fake_quantize.c - numbers as a quantized or pruned model has them: those
 * of a plain reference in double precision, and the same bits with every set of
 * instructions. */
#include "unit/kernels/numeric.h"

#include "base/random.h"
#include "kernels/fake_quantize.h"

#include <stdbool.h>

enum { MOST = DSF_QUANTIZE_MOST, LARGE = 2048, RUN = 7, GROUPS = 20000 };

static const int32_t sizes[] = { 16, 32, 64, 128 };
enum { NSIZES = sizeof(sizes) / sizeof(*sizes) };

static uint32_t bits_of(float x)
{
    uint32_t bits;

    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static struct dsf_fake_quantizer of_kind(enum dsf_quantizer kind, int bits,
                                         int32_t group)
{
    return (struct dsf_fake_quantizer){ .quantizer = (int32_t)kind,
                                        .bits = bits,
                                        .group = group };
}

static struct dsf_fake_quantizer pruning(int keep, int of, int32_t group)
{
    return (
        struct dsf_fake_quantizer){ .group = group, .keep = keep, .of = of };
}

/* --- groups of several sorts ---------------------------------------------- */

enum sort {
    ORDINARY,
    SCALED,    /* of any size */
    EQUAL,     /* all of them one number */
    SIGNS,     /* of one size */
    ZEROES,    /* of both signs */
    SUBNORMAL, /* of which a scale may be 0 */
    SOME_ZERO,
    POSITIVE,
    FAR, /* from 0, next to how far they are from each other */
    SORTS
};

static void fill(float *x, size_t n, enum sort sort, uint64_t *state)
{
    const double size = exp2((double)(dsf_random(state) % 180) - 90);
    const float least = (float)exp2(-149 + (double)(dsf_random(state) % 18));
    const float one = (float)(size * noise(state));

    for (size_t i = 0; i < n; i++) {
        const uint64_t r = dsf_random(state);
        const double v = (double)(int32_t)r / 2147483648.0;

        x[i] = sort == ORDINARY    ? (float)v
               : sort == SCALED    ? (float)(v * size)
               : sort == EQUAL     ? one
               : sort == SIGNS     ? (r & 1 ? one : -one)
               : sort == ZEROES    ? (r & 1 ? 0.0f : -0.0f)
               : sort == SUBNORMAL ? (float)((int)(r % 301) - 150) * least
               : sort == SOME_ZERO ? (r & 1 ? (float)v : 0)
               : sort == POSITIVE  ? (float)(size * (0.1 + fabs(v)))
                                   : (float)(1000 + v / 8);
    }
}

/* --- the reference -------------------------------------------------------- */

/* What each number becomes, and how far from it a result may be. Scales are
 * rounded to fp32, as codes depend on them. */
struct wanted {
    double v[LARGE], off[LARGE];
};

static double ulp(double x)
{
    const double size = fabs(x) < 0x1p-126 ? 0x1p-126 : fabs(x);

    return exp2(floor(log2(size)) - 23);
}

static double clamp(double x, double least, double most)
{
    return x < least ? least : x > most ? most : x;
}

static void symmetric_ref(const float *x, size_t n, int bits, struct wanted *w)
{
    double most = 0;
    float s;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    s = (float)(2 * most / exp2(bits));
    s = s == 0 ? 1 : s;
    for (size_t i = 0; i < n; i++) {
        const double half = exp2(bits - 1);

        /* The same product in fp32: exact. */
        w->v[i] =
            (double)((float)clamp(rint((double)(x[i] / s)), -half, half - 1) *
                     s);
        w->off[i] = 0;
    }
}

static void asymmetric_ref(const float *x, size_t n, int bits, struct wanted *w)
{
    double least = INFINITY, most = -INFINITY;
    float s, z;

    for (size_t i = 0; i < n; i++) {
        least = fmin(least, (double)x[i]);
        most = fmax(most, (double)x[i]);
    }
    /* The difference, too, is one of fp32. */
    s = ((float)most - (float)least) * (float)exp2(-bits);
    z = (float)(rint((double)((float)least / s)) * (double)s);
    for (size_t i = 0; i < n; i++) {
        const double code =
            clamp(rint((double)((x[i] - z) / s)), 0, exp2(bits) - 1);

        w->v[i] = s == 0 ? (double)x[i]
                         : (double)(float)(code * (double)s + (double)z);
        w->off[i] = 0;
    }
}

static double mean_above(const float *x, size_t n, double above, size_t *count)
{
    double sum = 0;

    *count = 0;
    for (size_t i = 0; i < n; i++)
        if (fabs((double)x[i]) > above) {
            sum += fabs((double)x[i]);
            ++*count;
        }
    return *count > 0 ? sum / (double)*count : 0;
}

/* A tree of at most seven sums, and a division. */
static double few(double mean)
{
    return 8 * ulp(mean);
}

static void ternary_ref(const float *x, size_t n, struct wanted *w)
{
    size_t count;
    const double above = 0.7 * mean_above(x, n, -1, &count);
    const double size = mean_above(x, n, above, &count);

    for (size_t i = 0; i < n; i++) {
        const double far = fabs((double)x[i]) - above;

        w->v[i] = far > 0 ? copysign(size, (double)x[i]) : 0;
        w->off[i] = few(size);
    }
}

static void binary_ref(const float *x, size_t n, struct wanted *w)
{
    size_t count;
    const double size = mean_above(x, n, -1, &count);

    for (size_t i = 0; i < n; i++) {
        w->v[i] = x[i] == 0 ? 0 : copysign(size, (double)x[i]);
        w->off[i] = x[i] == 0 ? 0 : few(size);
    }
}

static void group_ref(const struct dsf_fake_quantizer *q, const float *x,
                      struct wanted *w)
{
    const size_t n = (size_t)q->group;

    switch (q->quantizer) {
    case DSF_SYMMETRIC:
        symmetric_ref(x, n, q->bits, w);
        break;
    case DSF_ASYMMETRIC:
        asymmetric_ref(x, n, q->bits, w);
        break;
    case DSF_TERNARY:
        ternary_ref(x, n, w);
        break;
    default:
        binary_ref(x, n, w);
    }
}

/* A number may be on either side of the threshold where a mean is rounded. */
static bool is_on_edge(const struct dsf_fake_quantizer *q, const float *x)
{
    size_t count;
    const double above = 0.7 * mean_above(x, (size_t)q->group, -1, &count);

    for (int i = 0; q->quantizer == DSF_TERNARY && i < q->group; i++)
        if (fabs(fabs((double)x[i]) - above) <= 2 * few(above))
            return true;
    return false;
}

static void check_group(const struct dsf_fake_quantizer *q, const float *x,
                        const float *got)
{
    struct wanted w;

    if (is_on_edge(q, x))
        return;
    group_ref(q, x, &w);
    for (int i = 0; i < q->group; i++)
        if (!(fabs((double)got[i] - w.v[i]) <= w.off[i]))
            fail_msg("quantizer %d, %d bits, group %d: %.9g becomes %.9g: "
                     "expected %.9g",
                     (int)q->quantizer, (int)q->bits, (int)q->group,
                     (double)x[i], (double)got[i], w.v[i]);
}

static void check_quantizers(void)
{
    uint64_t state = 1;
    float x[MOST], y[MOST];

    for (int i = 0; i < GROUPS; i++) {
        const int kind = DSF_SYMMETRIC + i % 4;
        const struct dsf_fake_quantizer q = of_kind(
            (enum dsf_quantizer)kind, 2 + i / 4 % 15, sizes[i / 7 % NSIZES]);

        fill(x, (size_t)q.group, (enum sort)(i / 3 % SORTS), &state);
        dsf_fake_quantize(&q, x, y, 1);
        check_group(&q, x, y);
    }
}

static void numbers_are_those_of_the_reference(void **state)
{
    with_every_isa(check_quantizers);
}

/* --- what is exact -------------------------------------------------------- */

static size_t count_values(const float *y, size_t n)
{
    size_t values = 0;

    for (size_t i = 0; i < n; i++) {
        size_t k = 0;

        while (k < i && y[k] != y[i])
            k++;
        values += k == i;
    }
    return values;
}

static size_t most_values(const struct dsf_fake_quantizer *q)
{
    return q->quantizer == DSF_TERNARY  ? 3
           : q->quantizer == DSF_BINARY ? 3 /* with 0 */
                                        : (size_t)1 << q->bits;
}

/* Codes are whole numbers of those that `bits` bits have. */
static void check_codes(const struct dsf_fake_quantizer *q, const float *x,
                        const float *y)
{
    const float half = exp2f((float)q->bits - 1);
    float most = 0, s;

    for (int i = 0; i < q->group; i++)
        most = fmaxf(most, fabsf(x[i]));
    s = most / half;
    for (int i = 0; i < q->group && q->quantizer == DSF_SYMMETRIC; i++) {
        const float code = rintf(y[i] / s);

        assert_true(code * s == y[i]);
        assert_true(code >= -half && code <= half - 1);
        assert_true(fabs((double)y[i] - (double)x[i]) <=
                    (double)(x[i] > most - s ? s : s / 2) + ulp((double)x[i]));
    }
}

static void check_values(void)
{
    uint64_t state = 3;
    float x[MOST], y[MOST], again[MOST];

    for (int i = 0; i < GROUPS; i++) {
        const int kind = DSF_SYMMETRIC + i % 4;
        const struct dsf_fake_quantizer q = of_kind(
            (enum dsf_quantizer)kind, 2 + i / 4 % 15, sizes[i / 7 % NSIZES]);
        const enum sort sort = i % 3 == 0 ? SOME_ZERO : ORDINARY;

        fill(x, (size_t)q.group, sort, &state);
        dsf_fake_quantize(&q, x, y, 1);
        assert_in_range(count_values(y, (size_t)q.group), 1, most_values(&q));
        check_codes(&q, x, y);
        for (int k = 0; k < q.group; k++)
            if (x[k] == 0 && kind != DSF_ASYMMETRIC)
                assert_int_equal(bits_of(y[k]), 0);
        if (kind != DSF_BINARY || sort != ORDINARY)
            continue;
        /* Of one size they stay what they are. */
        dsf_fake_quantize(&q, y, again, 1);
        assert_memory_equal(again, y, (size_t)q.group * sizeof(*y));
    }
}

static void values_are_few_and_zeroes_stay(void **state)
{
    with_every_isa(check_values);
}

static void check_known_one(const struct dsf_fake_quantizer *q,
                            const float *head, const float *want, int n)
{
    float x[MOST] = { 0 }, y[MOST];

    memcpy(x, head, (size_t)n * sizeof(*x));
    dsf_fake_quantize(q, x, y, 1);
    for (int i = 0; i < n; i++)
        if (bits_of(y[i]) != bits_of(want[i]))
            fail_msg("quantizer %d: number %d, %g: %.9g: expected %.9g",
                     (int)q->quantizer, i, (double)head[i], (double)y[i],
                     (double)want[i]);
}
#define KNOWN(q, ...)                                                          \
    do {                                                                       \
        static const float pairs[][2] = { __VA_ARGS__ };                       \
        enum { N = sizeof(pairs) / sizeof(*pairs) };                           \
        const struct dsf_fake_quantizer known = q;                             \
        float from[N], to[N];                                                  \
                                                                               \
        for (int pair = 0; pair < N; pair++) {                                 \
            from[pair] = pairs[pair][0];                                       \
            to[pair] = pairs[pair][1];                                         \
        }                                                                      \
        check_known_one(&known, from, to, N);                                  \
    } while (0)

/* Worked out by hand; what is not listed is 0. */
static void check_known(void)
{
    /* s = 2 * 8 / 2^4 = 1: codes from -8 to 7; ties to even. */
    KNOWN(of_kind(DSF_SYMMETRIC, 4, 16), { 8, 7 }, { -8, -8 }, { 7.4f, 7 },
          { 0.5f, 0 }, { 1.5f, 2 }, { 2.5f, 2 }, { -0.5f, 0 }, { -1.5f, -2 },
          { -2.5f, -2 }, { 0.51f, 1 }, { -7.6f, -8 }, { 3, 3 });
    /* s = 2 * 2 / 2^2 = 1: codes from -2 to 1. */
    KNOWN(of_kind(DSF_SYMMETRIC, 2, 32), { -2, -2 }, { 2, 1 }, { 0.5f, 0 },
          { 0.75f, 1 }, { -1.5f, -2 });
    /* s = 2 * 0.5 / 2^8: 128 codes on either side. */
    KNOWN(of_kind(DSF_SYMMETRIC, 8, 128), { 0.5f, 127 / 256.0f },
          { -0.5f, -0.5f }, { 0.001953125f, 0 }, { 0.005859375f, 2 / 256.0f });
    /* s = 2 / 2^16. */
    KNOWN(of_kind(DSF_SYMMETRIC, 16, 16), { 1, 32767 / 32768.0f }, { -1, -1 },
          { 0x1p-15f, 0x1p-15f }, { 0x1p-17f, 0 });
    /* s = (12 + 4) / 2^4 = 1, z = -4: codes from 0 to 15, up to 11. */
    KNOWN(of_kind(DSF_ASYMMETRIC, 4, 16), { 12, 11 }, { -4, -4 }, { 10.5f, 10 },
          { 9.5f, 10 }, { 0.5f, 0 }, { 1.5f, 2 }, { -0.5f, 0 }, { -3.6f, -4 },
          { 11.4f, 11 });
    /* s = (0 + 4) / 2^2 = 1, z = -4: codes up to 3, and 0 is no longer one. */
    KNOWN(of_kind(DSF_ASYMMETRIC, 2, 16), { -4, -4 }, { 0, -1 }, { -1.5f, -2 },
          { -2.6f, -3 });
    /* s = (3 + 1.3) / 2^2 = 1.075, z = round(-1.21) s = -s. */
    KNOWN(of_kind(DSF_ASYMMETRIC, 2, 16), { 3, 2 * 1.075f },
          { -1.3f, -1.075f });
    /* mean = 32 / 16 = 2, t = 1.4, those above it: 4, 8, 18 / 3. */
    KNOWN(of_kind(DSF_TERNARY, 0, 16), { 4, 10 }, { -8, -10 }, { 18, 10 },
          { 1, 0 }, { -1, 0 });
    /* mean = 16 / 16 = 1. */
    KNOWN(of_kind(DSF_BINARY, 0, 16), { 3, 1 }, { -8, -1 }, { 0.5f, 1 },
          { -4.5f, -1 }, { -0.0f, 0 }, { 0, 0 });
}

static void known_answers(void **state)
{
    with_every_isa(check_known);
}

/* --- groups that are special ---------------------------------------------- */

static void check_special(void)
{
    static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
    uint64_t state = 5;
    float x[MOST], y[MOST];

    for (int i = 0; i < 4000; i++) {
        const int kind = DSF_SYMMETRIC + i % 4;
        const struct dsf_fake_quantizer q = of_kind(
            (enum dsf_quantizer)kind, 2 + i / 4 % 15, sizes[i / 7 % NSIZES]);
        const size_t n = (size_t)q.group;

        fill(x, n, ORDINARY, &state);
        x[dsf_random(&state) % n] = bad[i / 5 % 4];
        dsf_fake_quantize(&q, x, y, 1);
        for (size_t k = 0; k < n; k++)
            assert_int_equal(bits_of(y[k]), 0x7fc00000);

        fill(x, n, ZEROES, &state);
        dsf_fake_quantize(&q, x, y, 1);
        for (size_t k = 0; k < n; k++)
            assert_true(y[k] == 0);

        fill(x, n, EQUAL, &state);
        dsf_fake_quantize(&q, x, y, 1);
        for (size_t k = 0; k < n && kind != DSF_SYMMETRIC; k++)
            assert_int_equal(bits_of(y[k]), bits_of(x[k]));
    }
}

static void groups_of_one_number_and_of_none(void **state)
{
    with_every_isa(check_special);
}

/* --- what is pruned ------------------------------------------------------- */

/* The number is one of the `keep` largest: fewer stay rather than it. */
static bool stays(const float *x, int i, int keep, int of)
{
    int before = 0;

    for (int j = 0; j < of; j++)
        before +=
            fabsf(x[j]) > fabsf(x[i]) || (fabsf(x[j]) == fabsf(x[i]) && j < i);
    return before < keep;
}

static void check_pruned(const struct dsf_fake_quantizer *q, const float *x,
                         const float *unpruned, const float *y)
{
    for (int at = 0; at < q->group; at += q->of) {
        int n = 0;

        for (int i = 0; i < q->of; i++) {
            const bool stay = stays(x + at, i, q->keep, q->of);

            assert_int_equal(bits_of(y[at + i]),
                             stay ? bits_of(unpruned[at + i]) : 0);
            n += stay;
        }
        assert_int_equal(n, q->keep);
    }
}

static void check_pruning(void)
{
    static const enum sort sorts[] = { ORDINARY, SIGNS, EQUAL, SUBNORMAL,
                                       POSITIVE };
    uint64_t state = 11;
    float x[MOST], plain[MOST], y[MOST];

    for (int i = 0; i < 200; i++)
        for (int of = 2; of <= DSF_QUANTIZE_MOST_OF; of *= 2)
            for (int keep = 1; keep < of; keep++) {
                struct dsf_fake_quantizer q =
                    pruning(keep, of, sizes[(i + keep) % NSIZES]);

                q.quantizer = i % 5;
                q.bits = 4;
                fill(x, (size_t)q.group, sorts[i / 5 % 5], &state);
                dsf_fake_quantize(&q, x, y, 1);
                q.of = 0;
                dsf_fake_quantize(&q, x, plain, 1);
                q.of = of;
                check_pruned(&q, x, plain, y);
            }
}

/* By the numbers as they were, whatever they are quantized to. */
static void the_largest_of_each_stay(void **state)
{
    with_every_isa(check_pruning);
}

static void check_known_pruning(void)
{
    KNOWN(pruning(2, 4, 16), { 1, 0 }, { -3, -3 }, { 2, 2 }, { 0.5f, 0 },
          /* of equal ones the first */
          { 1, 1 }, { -1, -1 }, { 1, 0 }, { -1, 0 },
          /* … behind a larger one */
          { 1, 1 }, { 1, 0 }, { 1, 0 }, { 5, 5 });
    KNOWN(pruning(1, 2, 16), { -0x1p-149f, -0x1p-149f }, { 0, 0 }, { 2, 0 },
          { -2.5f, -2.5f });
    KNOWN(pruning(3, 8, 32), { 1, 0 }, { 2, 0 }, { 3, 0 }, { 4, 0 }, { 5, 0 },
          { 6, 6 }, { 7, 7 }, { 8, 8 });
    KNOWN(pruning(15, 16, 16), { 9, 9 }, { 8, 8 }, { 7, 7 }, { 6, 6 }, { 5, 5 },
          { 4, 4 }, { 3, 3 }, { 2, 2 }, { 1, 1 }, { 9, 9 }, { 8, 8 }, { 7, 7 },
          { -0.5f, 0 }, { 6, 6 }, { 5, 5 }, { 4, 4 });
}

static void known_answers_of_pruning(void **state)
{
    with_every_isa(check_known_pruning);
}

/* --- the same bits -------------------------------------------------------- */

static struct dsf_fake_quantizer any_quantizer(uint64_t *state)
{
    struct dsf_fake_quantizer q = of_kind(
        (enum dsf_quantizer)(dsf_random(state) % 5),
        2 + (int)(dsf_random(state) % 15), sizes[dsf_random(state) % NSIZES]);

    if (dsf_random(state) % 2 == 0) {
        q.of = 2 << dsf_random(state) % 4;
        q.keep = 1 + (int32_t)(dsf_random(state) % (uint64_t)(q.of - 1));
    }
    return q;
}

/* Any bits, too: of them some groups have NaNs. */
static void fill_run(float *x, size_t group, uint64_t *state)
{
    for (size_t i = 0; i < RUN; i++) {
        const uint64_t sort = dsf_random(state) % (SORTS + 2);

        if (sort < SORTS) {
            fill(x + i * group, group, (enum sort)sort, state);
            continue;
        }
        for (size_t k = 0; k < group; k++) {
            uint32_t bits = (uint32_t)dsf_random(state);

            /* Without the largest, or all would have an infinity. */
            bits &= sort == SORTS ? 0xbfffffff : 0xffffffff;
            memcpy(&x[i * group + k], &bits, sizeof(bits));
        }
    }
}

/* A hash of all results: the same with each set. */
static uint64_t sum_of_runs, sum_of_first;

static void check_runs(void)
{
    uint64_t state = 7;

    sum_of_runs = 0;
    for (int i = 0; i < 3000; i++) {
        const struct dsf_fake_quantizer q = any_quantizer(&state);
        const size_t group = (size_t)q.group, bytes = group * sizeof(float);
        struct guarded in = guarded_new(RUN * bytes + 4);
        struct guarded out = guarded_new(RUN * bytes);
        float *x = (float *)(void *)(in.p + 4), *y = (float *)(void *)out.p;
        float one[MOST];

        fill_run(x, group, &state);
        dsf_fake_quantize(&q, x, y, RUN);
        for (size_t k = 0; k < RUN; k++) {
            dsf_fake_quantize(&q, x + k * group, one, 1);
            assert_memory_equal(y + k * group, one, bytes);
        }
        for (size_t k = 0; k < RUN * group; k++)
            sum_of_runs = sum_of_runs * 6364136223846793005u + bits_of(y[k]);
        dsf_fake_quantize(&q, x, x, RUN);
        assert_memory_equal(x, y, RUN * bytes);
        guarded_free(&out);
        guarded_free(&in);
    }
    if (sum_of_first == 0)
        sum_of_first = sum_of_runs;
    assert_int_equal(sum_of_runs, sum_of_first);
}

/* --- groups in pieces ----------------------------------------------------- */

/* A group that is larger, seen and quantized in other pieces. */
static void check_pieces(void)
{
    uint64_t state = 11;
    float x[LARGE], y[LARGE];

    for (int i = 0; i < 3000; i++) {
        const size_t n = 16 * (1 + dsf_random(&state) % (LARGE / 16));
        const struct dsf_fake_quantizer q = of_kind(
            i % 2 ? DSF_SYMMETRIC : DSF_ASYMMETRIC, 2 + i / 2 % 15, (int32_t)n);
        struct dsf_extremes e = DSF_NO_EXTREMES;

        fill(x, n, (enum sort)(i / 3 % SORTS), &state);
        for (size_t at = 0, len; at < n; at += len) {
            len = 16 * (1 + dsf_random(&state) % ((n - at) / 16));
            dsf_see_extremes(x + at, len, &e);
        }
        for (size_t at = 0, len; at < n; at += len) {
            len = 16 * (1 + dsf_random(&state) % ((n - at) / 16));
            dsf_quantize_between(&q, &e, x + at, y + at, len);
        }
        check_group(&q, x, y);
        x[dsf_random(&state) % n] = i % 3 == 0 ? NAN : -INFINITY;
        e = (struct dsf_extremes)DSF_NO_EXTREMES;
        dsf_see_extremes(x, n, &e);
        dsf_quantize_between(&q, &e, x, x, n);
        for (size_t k = 0; k < n; k++)
            assert_true(isnan(x[k]));
    }
}

static void groups_may_be_seen_in_pieces(void **state)
{
    with_every_isa(check_pieces);
}

/* Many at a time, at any address and in place, and no number beyond them. */
static void every_set_of_instructions_gives_the_same_bits(void **state)
{
    with_every_isa(check_runs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_the_reference),
        cmocka_unit_test(values_are_few_and_zeroes_stay),
        cmocka_unit_test(known_answers),
        cmocka_unit_test(groups_of_one_number_and_of_none),
        cmocka_unit_test(the_largest_of_each_stay),
        cmocka_unit_test(known_answers_of_pruning),
        cmocka_unit_test(groups_may_be_seen_in_pieces),
        cmocka_unit_test(every_set_of_instructions_gives_the_same_bits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
