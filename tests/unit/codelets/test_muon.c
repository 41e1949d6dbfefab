/* test_muon.c - Muon beside its published rule in double precision. */
#include "codelets/codelets.h"

#include "kernels/narrow.h"
#include "lib/test.h"
#include "tasks/muon.h"
#include "tasks/tasks.h"

#include <math.h>
#include <string.h>

enum { TENSORS = 4, N = 1600, SIDE = 24, STEPS = 100 };

static const struct dsflow_tensor tensors[TENSORS] = {
    { .at = 0, .rows = 12, .cols = 40, .decays = 1, .number = 0 },
    { .at = 480, .rows = 33, .cols = 17, .decays = 1, .number = 1 },
    { .at = 1056,
      .rows = SIDE - 4,
      .cols = SIDE - 4,
      .decays = 1,
      .number = 2 },
    { .at = 1456, .rows = 1, .cols = 50, .kind = DSFLOW_VECTOR, .number = 3 },
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

static struct dsf_update_args args_of(int nesterov, int scale)
{
    struct dsf_update_args a = {
        .at = { .elems = N, .ntensors = TENSORS },
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-8f,
        .weight_decay = 0.1f,
        .momentum = 0.95f,
        .nesterov = nesterov,
        .decoupled = 1,
        .adam_rate = 0.25,
        .steps = 5,
        .scale = scale,
    };

    memcpy(a.at.tensors, tensors, sizeof(tensors));
    return a;
}

static double gradient(int64_t i, int step)
{
    return sin((double)(i * i % 911) * 0.7 + step * 1.3) *
           (1 + (double)(i % 5));
}

static int64_t size_of(const struct dsflow_tensor *t)
{
    return t->rows * t->cols;
}

static void begin(struct unit *u, struct exact *x)
{
    memset(u, 0, sizeof(*u));
    memset(x, 0, sizeof(*x));
    for (int t = 0; t < TENSORS; t++)
        for (int64_t i = tensors[t].at;
             i < tensors[t].at + size_of(&tensors[t]); i++)
            x->p[i] = (double)(u->p[i] = (float)cos((double)i));
}

static struct dsflow_control control_of(int step,
                                        const struct dsf_update_args *a)
{
    return (struct dsflow_control){ .step = step,
                                    .lr = 0.02,
                                    .correction1 = 1 - pow(a->beta1, step),
                                    .correction2 = 1 - pow(a->beta2, step),
                                    .scale = 0.5 };
}

static void must_check(const struct dsflow_case *seen)
{
    struct dsflow_err err = { .msg = "" };

    if (dsf_op_muon.check(seen, &err) < 0)
        fail_msg("%s", err.msg);
}

static void update(struct unit *u, const struct dsf_update_args *a, int step)
{
    static _Alignas(64) float g[N], scratch[4 * N];
    struct dsflow_control c = control_of(step, a);
    const struct dsflow_op *op = &dsf_op_muon;
    const struct dsflow_buf bufs[] = {
        { &c, sizeof(c), sizeof(c), DSFLOW_BYTES },
        { g, sizeof(g), N, DSFLOW_FP32 },
        { u->p, sizeof(u->p), N, DSFLOW_FP32 },
        { u->m, sizeof(u->m), N, DSFLOW_FP32 },
        { u->v, (size_t)(N - a->v_at) * sizeof(*u->v), N - a->v_at,
          DSFLOW_FP32 },
        { u->copy, sizeof(u->copy), N, DSFLOW_BF16 },
    };
    const unsigned n = a->copies ? 6 : 5;
    struct dsflow_shape shapes[6];
    const struct dsflow_case seen = { op, shapes, n, a };

    for (unsigned i = 0; i < n; i++)
        shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    must_check(&seen);
    assert_true(op->scratch(&seen) <= sizeof(scratch));
    for (int64_t i = 0; i < N; i++)
        g[i] = (float)gradient(i, step);
    dsf_codelet_muon.cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = n, .args = a, .scratch = scratch });
}

/* X = a X + (b A + c A A) X, A = X X^T, from the left whatever its shape. */
static void newton_schulz(double *x, int64_t rows, int64_t cols)
{
    static double A[40 * 40], B[40 * 40], y[N];

    for (int64_t i = 0; i < rows * rows; i++) {
        A[i] = 0;
        for (int64_t k = 0; k < cols; k++)
            A[i] += x[i / rows * cols + k] * x[i % rows * cols + k];
    }
    for (int64_t i = 0; i < rows * rows; i++) {
        B[i] = -4.7750 * A[i];
        for (int64_t k = 0; k < rows; k++)
            B[i] += 2.0315 * A[i / rows * rows + k] * A[k * rows + i % rows];
    }
    for (int64_t i = 0; i < rows * cols; i++) {
        y[i] = 3.4445 * x[i];
        for (int64_t k = 0; k < rows; k++)
            y[i] += B[i / cols * rows + k] * x[k * cols + i % cols];
    }
    memcpy(x, y, (size_t)(rows * cols) * sizeof(*x));
}

static void exact_matrix(struct exact *x, const struct dsf_update_args *a,
                         const struct dsflow_tensor *t, int step)
{
    const struct dsflow_control c = control_of(step, a);
    const double mu = (double)a->momentum, rows = (double)t->rows,
                 cols = (double)t->cols;
    static double o[N];
    double sum = 0, scale = sqrt(fmax(1, rows / cols));

    if (a->scale == DSF_MUON_RMS)
        scale = 0.2 * sqrt(fmax(rows, cols));
    for (int64_t i = 0; i < size_of(t); i++) {
        double g = (double)(float)gradient(t->at + i, step) * c.scale;
        double *m = &x->m[t->at + i];

        *m = mu * *m + (1 - mu) * g;
        o[i] = a->nesterov ? mu * *m + (1 - mu) * g : *m;
        sum += o[i] * o[i];
    }
    for (int64_t i = 0; i < size_of(t); i++)
        o[i] /= sqrt(sum) + 1e-7;
    for (int k = 0; k < a->steps; k++)
        newton_schulz(o, t->rows, t->cols);
    for (int64_t i = 0; i < size_of(t); i++) {
        x->p[t->at + i] *= 1 - c.lr * (double)a->weight_decay;
        x->p[t->at + i] -= c.lr * scale * o[i];
    }
}

static void exact_vector(struct exact *x, const struct dsf_update_args *a,
                         const struct dsflow_tensor *t, int step)
{
    const struct dsflow_control c = control_of(step, a);

    for (int64_t i = t->at; i < t->at + size_of(t); i++) {
        double g = (double)(float)gradient(i, step) * c.scale;

        x->m[i] = a->beta1 * x->m[i] + (1 - a->beta1) * g;
        x->v[i] = a->beta2 * x->v[i] + (1 - a->beta2) * g * g;
        x->p[i] -= c.lr * a->adam_rate * (x->m[i] / c.correction1) /
                   (sqrt(x->v[i] / c.correction2) + (double)a->eps);
    }
}

static void compare(const struct dsf_update_args *a)
{
    static struct unit u;
    static struct exact x;
    double worst = 0;

    begin(&u, &x);
    for (int step = 1; step <= STEPS; step++) {
        update(&u, a, step);
        for (int t = 0; t < TENSORS; t++)
            (t < 3 ? exact_matrix : exact_vector)(&x, a, &tensors[t], step);
    }
    for (int64_t i = 0; i < N; i++)
        worst = fmax(worst, fabs((double)u.p[i] - x.p[i]));
    if (!(worst < 1e-5))
        fail_msg("%g apart after %d steps", worst, STEPS);
    for (int64_t i = 0; i < tensors[3].at - a->v_at; i++)
        assert_true(u.v[i] == 0);
    assert_true(u.v[tensors[3].at - a->v_at] > 0);
    for (int64_t i = N - a->v_at; i < N; i++)
        assert_true(u.v[i] == 0);
}

static void muon_follows_its_formula(void **state)
{
    struct dsf_update_args a = args_of(1, DSF_MUON_SHAPE);

    compare(&a);
    a = args_of(0, DSF_MUON_RMS);
    a.v_at = dsf_muon_second_from(&a.at);
    compare(&a);
}

/* Whole blocks of int8, and of matrices alone none. */
static void second_moments_begin_behind_the_matrices(void **state)
{
    struct dsf_update_args a = args_of(1, DSF_MUON_SHAPE);
    struct dsflow_shape shapes[] = {
        dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control)),
        dsflow_shape_of(DSFLOW_FP32, N),
        dsflow_shape_of(DSFLOW_FP32, N),
        dsflow_shape_of(DSFLOW_FP32, N),
        dsflow_shape_of(DSFLOW_FP32, N - 1280),
    };
    const struct dsflow_case with = { &dsf_op_muon, shapes, 5, &a };
    const struct dsflow_case without = { &dsf_op_muon, shapes, 4, &a };
    struct dsflow_cost short_v = { 0 }, long_v = { 0 };
    struct dsflow_err err;

    assert_int_equal(dsf_muon_second_from(&a.at), 1280); /* 1456 / 256 * 256 */
    dsf_op_muon.cost(&with, &long_v);
    a.v_at = 1280;
    dsf_op_muon.cost(&with, &short_v);
    assert_true(long_v.bytes - short_v.bytes == 8.0 * 1280);
    must_check(&with);
    a.v_at = 1279;
    assert_int_equal(dsf_op_muon.check(&with, &err), DSFLOW_EINVAL);
    a.v_at = 1457; /* the vector begins before */
    assert_int_equal(dsf_op_muon.check(&with, &err), DSFLOW_EINVAL);
    a.v_at = N;
    assert_int_equal(dsf_op_muon.check(&without, &err), DSFLOW_EINVAL);

    a.at.tensors[3].kind = DSFLOW_EMBEDDING;
    assert_int_equal(dsf_muon_second_from(&a.at), 1280);
    a.at.tensors[3].kind = DSFLOW_MATRIX;
    assert_int_equal(dsf_muon_second_from(&a.at), N);
    must_check(&without);
    a.v_at = 0;
    assert_int_equal(dsf_op_muon.check(&without, &err), DSFLOW_EINVAL);
}

/* Without momentum and decay, a matrix moves by one whose singular values are
 * near 1: the squares of its numbers are about as many as its shorter side. */
static void a_step_is_nearly_orthogonal(void **state)
{
    static struct unit u, before;
    static struct exact x;
    struct dsf_update_args a = args_of(0, DSF_MUON_SHAPE);

    a.weight_decay = 0;
    begin(&u, &x);
    before = u;
    update(&u, &a, 1);
    for (int t = 0; t < 3; t++) {
        const double rows = (double)tensors[t].rows,
                     cols = (double)tensors[t].cols;
        double sum = 0;

        for (int64_t i = tensors[t].at;
             i < tensors[t].at + size_of(&tensors[t]); i++)
            sum += pow((double)(u.p[i] - before.p[i]) / 0.02, 2);
        sum /= fmax(1, rows / cols) * fmin(rows, cols);
        if (!(sum > 0.4 && sum < 1.5))
            fail_msg("%g", sum);
    }
}

static void the_copy_is_the_parameters_rounded(void **state)
{
    static struct unit u, plain;
    static struct exact x;
    struct dsf_update_args a = args_of(1, DSF_MUON_SHAPE);

    begin(&plain, &x);
    begin(&u, &x);
    update(&plain, &a, 1);
    a.copies = 1;
    update(&u, &a, 1);
    assert_memory_equal(plain.p, u.p, sizeof(u.p));
    for (int64_t i = 0; i < N; i++) {
        uint16_t rounded;

        dsf_narrow(DSFLOW_BF16)->narrow(&u.p[i], 1, NULL, &rounded, 1, 1, 1);
        assert_int_equal(u.copy[i], rounded);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(muon_follows_its_formula),
        cmocka_unit_test(second_moments_begin_behind_the_matrices),
        cmocka_unit_test(a_step_is_nearly_orthogonal),
        cmocka_unit_test(the_copy_is_the_parameters_rounded),
    };

    return cmocka_run_group_tests_name("muon", tests, NULL, NULL);
}
