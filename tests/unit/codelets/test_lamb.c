/* test_lamb.c - LAMB beside its formulas in double precision, and cut in shards
 * and parts. */
#include "codelets/codelets.h"

#include "kernels/loops.h"
#include "kernels/narrow.h"
#include "lib/test.h"
#include "tasks/lamb.h"
#include "tasks/tasks.h"

#include <math.h>
#include <string.h>

/* Three blocks, of a matrix, one that crosses two of them, and two vectors. */
enum { BLOCK = 64, N = 3 * BLOCK, TENSORS = 4, WIDTH = 8, STEPS = 100 };

static const struct dsflow_tensor tensors[TENSORS] = {
    { .at = 0, .rows = 6, .cols = 10, .decays = 1, .number = 0 },
    { .at = 64, .rows = 7, .cols = 10, .decays = 1, .number = 1 },
    { .at = 144, .rows = 1, .cols = 20, .kind = DSFLOW_VECTOR, .number = 2 },
    { .at = 176, .rows = 1, .cols = 16, .kind = DSFLOW_VECTOR, .number = 3 },
};

struct unit {
    _Alignas(64) float p[N];
    _Alignas(64) float m[N];
    _Alignas(64) float v[N];
    uint16_t copy[N];
};

struct exact {
    double p[N], m[N], v[N];
};

static const struct dsf_ratio_args limits = {
    .least = 0.01, .most = 10, .n = TENSORS, .width = WIDTH
};

static struct dsf_update_args usual(void)
{
    struct dsf_update_args a = {
        .at = { .elems = N, .block = BLOCK, .ntensors = TENSORS },
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-6f,
        .weight_decay = 0.1f,
        .width = (int32_t)dsf_lamb_width(TENSORS),
    };

    assert_int_equal(a.width, WIDTH);
    memcpy(a.at.tensors, tensors, sizeof(tensors));
    return a;
}

/* Sizes differ by a thousand, so that the limits are met. */
static double gradient(int i, int step)
{
    return sin(i * 0.7 + step * 1.3) * (1 + i % 5) * (i < 64 ? 1e-3 : 1);
}

static void begin(struct unit *u)
{
    memset(u, 0, sizeof(*u));
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < tensors[t].rows * tensors[t].cols; i++)
            u->p[tensors[t].at + i] =
                t == 3 ? 0 : (float)cos((double)i) * (t == 2 ? 1e-4f : 1);
}

static struct dsflow_control control_of(int step,
                                        const struct dsf_update_args *a)
{
    return (struct dsflow_control){ .step = step,
                                    .lr = 0.01,
                                    .correction1 = 1 - pow(a->beta1, step),
                                    .correction2 = 1 - pow(a->beta2, step),
                                    .scale = 0.5 };
}

static void call(const struct dsflow_codelet *codelet, const void *args,
                 const struct dsflow_buf *bufs, unsigned n)
{
    const struct dsflow_op *op = codelet->op;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    struct dsflow_err err = { .msg = "" };

    for (unsigned i = 0; i < n; i++)
        shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    if (op->check(&(struct dsflow_case){ op, shapes, n, args }, &err) < 0)
        fail_msg("%s", err.msg);
    codelet->cpu(
        &(struct dsflow_call){ .bufs = bufs, .nbufs = n, .args = args });
}

static struct dsflow_buf buf(void *at, enum dsflow_dtype type, int64_t n)
{
    return (struct dsflow_buf){ at, dsflow_dtype_bytes(type, n), n, type };
}

/* Numbers from .. from + n of a unit, with parameters that are whole. */
static void shard(struct dsf_update_args *a, int64_t from, int64_t n,
                  const struct dsflow_op *op)
{
    int64_t gone[6] = { 0, 0, 0, from, from, from };

    if (n < N)
        op->slice(a, from, n, gone);
}

static void moments(struct unit *u, float *g, int step, int64_t from, int64_t n,
                    double *sums)
{
    struct dsf_update_args a = usual();
    struct dsflow_control c = control_of(step, &a);

    shard(&a, from, n, &dsf_op_lamb_moments);
    call(&dsf_codelet_lamb_moments, &a,
         (struct dsflow_buf[]){
             buf(&c, DSFLOW_BYTES, sizeof(c)), buf(g, DSFLOW_FP32, N),
             buf(u->p, DSFLOW_FP32, N), buf(u->m + from, DSFLOW_FP32, n),
             buf(u->v + from, DSFLOW_FP32, n),
             buf(sums, DSFLOW_FP64, n / BLOCK * WIDTH) },
         6);
}

static void parameters(struct unit *u, int step, int64_t from, int64_t n,
                       double *ratio, bool copies)
{
    struct dsf_update_args a = usual();
    struct dsflow_control c = control_of(step, &a);

    a.copies = copies;
    shard(&a, from, n, &dsf_op_lamb);
    a.copy_at = copies ? from : 0;
    call(&dsf_codelet_lamb, &a,
         (struct dsflow_buf[]){
             buf(&c, DSFLOW_BYTES, sizeof(c)), buf(ratio, DSFLOW_FP64, TENSORS),
             buf(u->p, DSFLOW_FP32, N), buf(u->m + from, DSFLOW_FP32, n),
             buf(u->v + from, DSFLOW_FP32, n), buf(u->copy, DSFLOW_BF16, N) },
         copies ? 6 : 5);
}

/* A step, in shards of `each` numbers. */
static void step(struct unit *u, int number, int64_t each, double *ratio)
{
    _Alignas(64) float g[N];
    double sums[N / BLOCK][WIDTH];
    struct dsflow_buf bufs[1 + N / BLOCK] = { buf(ratio, DSFLOW_FP64,
                                                  TENSORS) };
    unsigned n = 1;

    for (int i = 0; i < N; i++)
        g[i] = (float)gradient(i, number);
    for (int64_t at = 0; at < N; at += each) {
        int64_t elems = N - at < each ? N - at : each;

        moments(u, g, number, at, elems, sums[at / BLOCK]);
        bufs[n++] = buf(sums[at / BLOCK], DSFLOW_FP64, elems / BLOCK * WIDTH);
    }
    call(&dsf_codelet_lamb_ratio, &limits, bufs, n);
    for (int64_t at = 0; at < N; at += each)
        parameters(u, number, at, N - at < each ? N - at : each, ratio,
                   each < N);
}

/* You et al. 2020, algorithm 2, with both limits. */
static double exact_tensor(struct exact *x, const struct dsflow_tensor *t,
                           int number)
{
    const struct dsf_update_args a = usual();
    const struct dsflow_control c = control_of(number, &a);
    double u[N], p2 = 0, u2 = 0, ratio = 1;

    for (int64_t i = t->at; i < t->at + t->rows * t->cols; i++) {
        double g = (double)(float)gradient((int)i, number) * c.scale;

        x->m[i] = a.beta1 * x->m[i] + (1 - a.beta1) * g;
        x->v[i] = a.beta2 * x->v[i] + (1 - a.beta2) * g * g;
        u[i] = x->m[i] / c.correction1 /
                   (sqrt(x->v[i] / c.correction2) + (double)a.eps) +
               (t->decays ? (double)a.weight_decay : 0) * x->p[i];
        p2 += x->p[i] * x->p[i];
        u2 += u[i] * u[i];
    }
    if (p2 > 0 && u2 > 0)
        ratio = fmin(limits.most, fmax(limits.least, sqrt(p2) / sqrt(u2)));
    for (int64_t i = t->at; i < t->at + t->rows * t->cols; i++)
        x->p[i] -= c.lr * ratio * u[i];
    return ratio;
}

static void lamb_follows_its_formula(void **state)
{
    static struct unit u;
    static struct exact x;
    double ratio[TENSORS], worst = 0;
    bool least = false, one = false;

    begin(&u);
    for (int i = 0; i < N; i++)
        x.p[i] = (double)u.p[i];
    for (int number = 1; number <= STEPS; number++) {
        step(&u, number, N, ratio);
        for (int t = 0; t < TENSORS; t++) {
            double want = exact_tensor(&x, &tensors[t], number);

            least |= want == limits.least;
            one |= want == 1;
            assert_true(fabs(ratio[t] - want) < 1e-5 * want);
        }
    }
    assert_true(least && one);
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs((double)u.p[i] - x.p[i]));
    if (!(worst < 1e-5))
        fail_msg("%g apart after %d steps", worst, STEPS);
}

static void shards_have_the_bits_of_the_whole(void **state)
{
    static struct unit whole, cut;
    double ratio[TENSORS], other[TENSORS];

    begin(&whole);
    begin(&cut);
    for (int number = 1; number <= 5; number++) {
        step(&whole, number, N, ratio);
        step(&cut, number, number % 2 ? BLOCK : 2 * BLOCK, other);
        assert_memory_equal(ratio, other, sizeof(ratio));
    }
    assert_memory_equal(whole.p, cut.p, sizeof(cut.p));
    assert_memory_equal(whole.m, cut.m, sizeof(cut.m));
    assert_memory_equal(whole.v, cut.v, sizeof(cut.v));
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = 0; i < tensors[t].rows * tensors[t].cols; i++) {
            float wide;

            dsf_narrow(DSFLOW_BF16)
                ->widen(cut.copy + tensors[t].at + i, &wide, 1);
            assert_true(fabsf(wide - cut.p[tensors[t].at + i]) <=
                        ldexpf(fabsf(wide), -8));
        }
    for (int64_t i = 60; i < 64; i++) /* between tensors */
        assert_true(cut.p[i] == 0 && cut.m[i] == 0 && cut.v[i] == 0);
}

/* Norms are sums of what all ranks have of a tensor. */
static void a_part_may_have_pieces_of_a_tensor(void **state)
{
    static const double ones[2][WIDTH] = { { 2, 8, 9, 1 }, { 2, 8, 16, 0 } };
    struct dsf_ratio_args a = limits;
    double ratio[2];

    a.n = 2;
    call(&dsf_codelet_lamb_ratio, &a,
         (struct dsflow_buf[]){ buf(ratio, DSFLOW_FP64, 2),
                                buf((void *)ones[0], DSFLOW_FP64, WIDTH),
                                buf((void *)ones[1], DSFLOW_FP64, WIDTH) },
         3);
    assert_true(ratio[0] == 0.5 && ratio[1] == 5);
}

static void every_set_of_instructions_gives_the_same_bits(void **state)
{
    static const char *const isas[] = { "portable", "avx2", "avx512",
                                        "avx512_bf16" };
    const struct dsf_loops *usually = dsf_loops();
    static struct unit first, other;
    double ratio[TENSORS], again[TENSORS];
    bool any = false;

    for (size_t i = 0; i < sizeof(isas) / sizeof(*isas); i++) {
        const struct dsf_loops *loops = dsf_loops_find(isas[i]);

        if (loops == NULL)
            continue;
        dsf_loops_use(loops);
        begin(&other);
        for (int number = 1; number <= 3; number++)
            step(&other, number, N, again);
        if (!any) {
            first = other;
            memcpy(ratio, again, sizeof(ratio));
        }
        any = true;
        assert_memory_equal(&first, &other, sizeof(first));
        assert_memory_equal(ratio, again, sizeof(ratio));
    }
    dsf_loops_use(usually);
}

/* Of a mean that was sent in 1 bit all numbers are as large, also those that
 * never had a gradient. */
static void check_unseen(void)
{
    const struct dsf_lamb_step s = {
        .rate1 = 1, .root2 = 1, .eps = 1e-8f, .decay = 0.5f, .lr = 0.25f
    };
    enum { MANY = 37 };
    float p[MANY], m[MANY], v[MANY];
    uint16_t copy[MANY];

    for (int narrow = 0; narrow < 2; narrow++) {
        for (int i = 0; i < MANY; i++) {
            p[i] = 2;
            m[i] = i % 2 ? 1.0f : -1.0f;
            v[i] = i % 3 ? 0 : 4;
        }
        if (narrow)
            dsf_narrow(DSFLOW_BF16)->lamb(&s, p, m, v, copy, MANY);
        else
            dsf_lamb_update(&s, p, m, v, MANY);
        for (int i = 0; i < MANY; i++)
            assert_true(p[i] == 2 - 0.25f * (1 + (i % 3 ? 0 : m[i] / 2)));
    }
}

static void numbers_without_a_second_moment_only_decay(void **state)
{
    static const char *const isas[] = { "portable", "avx2", "avx512",
                                        "avx512_bf16" };
    const struct dsf_loops *usually = dsf_loops();

    for (size_t i = 0; i < sizeof(isas) / sizeof(*isas); i++)
        if (dsf_loops_find(isas[i]) != NULL) {
            dsf_loops_use(dsf_loops_find(isas[i]));
            check_unseen();
        }
    dsf_loops_use(usually);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lamb_follows_its_formula),
        cmocka_unit_test(shards_have_the_bits_of_the_whole),
        cmocka_unit_test(a_part_may_have_pieces_of_a_tensor),
        cmocka_unit_test(every_set_of_instructions_gives_the_same_bits),
        cmocka_unit_test(numbers_without_a_second_moment_only_decay),
    };

    return cmocka_run_group_tests_name("lamb", tests, NULL, NULL);
}
