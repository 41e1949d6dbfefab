/* test_rows_cuda.c - activations, and rows that are rounded, added, summed and
 * rotated, on a GPU that is not there, beside double precision. */
#include "gpu/kernels.h"

#include "numbers.h"

/* Rows of 8 numbers at a time, and one by one. */
static const struct {
    size_t rows, cols;
} shapes[] = { { 1, 8 }, { 3, 5 }, { 7, 64 }, { 20, 33 }, { 2, 520 } };

#define EACH_SHAPE(r, n)                                                       \
    for (size_t s_ = 0, r, n; s_ < sizeof(shapes) / sizeof(*shapes) &&         \
                              (r = shapes[s_].rows, n = shapes[s_].cols);      \
         s_++)

static double of_bias(struct numbers *b, size_t i)
{
    return b == NULL ? 0 : ref(b)[i];
}

/* As it is stored: what comes after it starts from there. */
static void round_refs(struct numbers *x)
{
    for (size_t i = 0; i < x->narrow.n && x->is_narrow; i++)
        ref(x)[i] = (double)from16(x->narrow.type,
                                   to16(x->narrow.type, (float)ref(x)[i]));
}

static void try_gelu(enum dsflow_dtype type, size_t r, size_t n, int biased)
{
    struct tensor in = tensor_new(r * n, 3, 1), dact = tensor_new(r * n, 1, 2);
    struct numbers b = numbers_new(type, n, 1, 3), h, act, dh;
    double slope;

    h = numbers_new(type, r * n, 1, 4);
    act = numbers_new(type, r * n, 1, 5);
    dh = numbers_new(type, r * n, 1, 6);
    for (size_t i = 0; i < r * n; i++) {
        ref(&h)[i] = in.d[i] + of_bias(biased ? &b : NULL, i % n);
        gelu_ref(ref(&h)[i], &ref(&act)[i], &slope);
    }
    WRITES(&act, (unset(&h),
                  dsf_gpu_gelu_forward(type, in.f, biased ? at(&b) : NULL,
                                       at(&h), at(&act), r, n, NULL)));
    check(&h);
    check(&act);

    round_refs(&h);
    for (size_t i = 0; i < r * n; i++) {
        gelu_ref(ref(&h)[i], &ref(&act)[i], &slope);
        ref(&dh)[i] = dact.d[i] * slope;
    }
    memcpy(at(&act), at(&h), bytes_of(&h));
    dsf_gpu_gelu_backward(type, at(&act), dact.f, at(&dh), r * n, NULL);
    check(&dh);
    check(&act);
    dsf_gpu_gelu(type, at(&h), r * n, NULL);
    assert_memory_equal(at(&h), at(&act), bytes_of(&h));
    assert_no_fault();
    tensor_free(&in);
    tensor_free(&dact);
    numbers_free(&b);
    numbers_free(&h);
    numbers_free(&act);
    numbers_free(&dh);
}

static void try_swiglu(enum dsflow_dtype type, size_t r, size_t n, int biased)
{
    struct tensor in = tensor_new(r * 2 * n, 3, 1);
    struct tensor dact = tensor_new(r * n, 1, 2);
    struct numbers b = numbers_new(type, 2 * n, 1, 3);
    struct numbers h = numbers_new(type, r * 2 * n, 1, 4);
    struct numbers act = numbers_new(type, r * n, 1, 5);
    struct numbers dh = numbers_new(type, r * 2 * n, 1, 6);
    struct numbers scratch = numbers_new(type, r * n, 1, 7);
    double dg, du;

    for (size_t i = 0; i < r * 2 * n; i++)
        ref(&h)[i] = in.d[i] + of_bias(biased ? &b : NULL, i % (2 * n));
    for (size_t i = 0; i < r * n; i++) {
        const double *gate = ref(&h) + i / n * 2 * n + i % n;

        ref(&act)[i] = swiglu_ref(gate[0], gate[n], 0, &dg, &du);
    }
    WRITES(&act, (unset(&h),
                  dsf_gpu_swiglu_forward(type, in.f, biased ? at(&b) : NULL,
                                         at(&h), at(&act), r, n, NULL)));
    check(&h);
    check(&act);

    round_refs(&h);
    for (size_t i = 0; i < r * n; i++) {
        const size_t g = i / n * 2 * n + i % n;

        ref(&act)[i] = swiglu_ref(ref(&h)[g], ref(&h)[g + n], dact.d[i],
                                  &ref(&dh)[g], &ref(&dh)[g + n]);
    }
    unset(&act);
    unset(&scratch);
    dsf_gpu_swiglu_backward(type, at(&h), dact.f, at(&dh), at(&scratch), r, n,
                            NULL);
    memcpy(at(&act), at(&h), bytes_of(&act)); /* packed at its start */
    check(&dh);
    check(&act);
    assert_no_fault();
    tensor_free(&in);
    tensor_free(&dact);
    numbers_free(&b);
    numbers_free(&h);
    numbers_free(&act);
    numbers_free(&dh);
    numbers_free(&scratch);
}

static void activations_are_those_of_double_precision(void **state)
{
    EACH_TYPE(type)
        EACH_SHAPE(r, n)
            for (int biased = 0; biased < 2; biased++) {
                try_gelu(type, r, n, biased);
                try_swiglu(type, r, n, biased);
            }
}

static void try_sums(enum dsflow_dtype type, size_t r, size_t n, int biased)
{
    struct tensor in = tensor_new(r * n, 1, 1), y = tensor_new(r * n, 1, 2);
    struct tensor held = tensor_new(r * n, 1, 2);
    struct numbers x = numbers_new(type, r * n, 1, 3);
    struct numbers b = numbers_new(type, n, 1, 4);
    struct numbers out = numbers_new(type, r * n, 1, 5);
    const void *bias = biased ? at(&b) : NULL;

    for (size_t i = 0; i < r * n; i++)
        ref(&out)[i] = in.d[i] + of_bias(biased ? &b : NULL, i % n);
    WRITES(&out, dsf_gpu_narrow(type, in.f, n, bias, at(&out), n, r, n, NULL));
    check(&out);
    for (size_t i = 0; i < r * n; i++)
        ref(&out)[i] += ref(&x)[i];
    WRITES(&out, dsf_gpu_residual(type, in.f, at(&x), bias, at(&out), r, n,
                                  NULL));
    check(&out);
    for (int add = 0; add < 2; add++) {
        for (size_t i = 0; i < r * n; i++)
            y.d[i] = ref(&x)[i] + of_bias(biased ? &b : NULL, i % n) +
                     (add ? held.d[i] : 0);
        IN_EACH_ORDER(y.f, y.mem.bytes,
                      memcpy(y.f, held.f, y.mem.bytes),
                      dsf_gpu_widen(type, at(&x), bias, y.f, add, r, n, NULL));
        assert_close(y.f, y.d, r * n, 1e-6);
    }
    dsf_gpu_residual(type, in.f, at(&x), bias, at(&x), r, n, NULL);
    assert_memory_equal(at(&x), at(&out), bytes_of(&x));
    tensor_free(&in);
    tensor_free(&y);
    tensor_free(&held);
    numbers_free(&x);
    numbers_free(&b);
    numbers_free(&out);
}

static void rows_are_added_and_rounded_once(void **state)
{
    EACH_TYPE(type)
        EACH_SHAPE(r, n)
            for (int biased = 0; biased < 2; biased++)
                try_sums(type, r, n, biased);
}

/* Some columns of rows that are longer. */
static void try_strided(enum dsflow_dtype type, size_t r, size_t n, size_t ld)
{
    struct tensor in = tensor_new(r * ld, 1, 1);
    struct numbers out = numbers_new(type, r * 2 * ld, 1, 2);
    struct numbers same = numbers_new(type, r * 2 * ld, 1, 2);

    for (size_t i = 0; i < r * n; i++)
        ref(&out)[i / n * 2 * ld + i % n] = in.d[i / n * ld + i % n];
    dsf_gpu_narrow(type, in.f, ld, NULL, at(&out), 2 * ld, r, n, NULL);
    check(&out);
    assert_no_fault();
    tensor_free(&in);
    numbers_free(&out);
    numbers_free(&same);
}

static void some_columns_are_rounded(void **state)
{
    EACH_TYPE(type) {
        try_strided(type, 5, 16, 24);
        try_strided(type, 5, 16, 21);
        try_strided(type, 5, 3, 24);
    }
}

static void try_columns(enum dsflow_dtype type, size_t r, size_t n, size_t ld)
{
    struct numbers x = numbers_new(type, r * ld, 1, 1);
    struct tensor into = tensor_new(n, 1, 2), held = tensor_new(n, 1, 2);
    struct guarded scratch = guarded_new(dsf_gpu_column_scratch(r, n));

    for (size_t i = 0; i < r * n; i++)
        into.d[i % n] += ref(&x)[i / n * ld + i % n];
    IN_EACH_ORDER(into.f, into.mem.bytes,
                  (memcpy(into.f, held.f, into.mem.bytes),
                   memset(scratch.p, 0xff, scratch.bytes)),
                  dsf_gpu_column_sums(type, DSFLOW_FP32, into.f, at(&x), ld, r,
                                      n, scratch.p, NULL));
    assert_close(into.f, into.d, n, 2e-6);
    numbers_free(&x);
    tensor_free(&into);
    tensor_free(&held);
    guarded_free(&scratch);
}

static void columns_are_added_up(void **state)
{
    EACH_TYPE(type) {
        try_columns(type, 1, 1, 1);
        try_columns(type, 65, 40, 48);
        try_columns(type, 300, 9, 17);
        try_columns(type, 200, 264, 264);
    }
    try_columns(DSFLOW_BF16, 9000, 8, 8); /* longer chunks */
}

static void try_dots(enum dsflow_dtype type, size_t r, size_t heads, size_t d)
{
    const size_t n = r * heads;
    struct tensor a = tensor_new(n * d, 1, 1), out = tensor_unset(n);
    struct numbers b = numbers_new(type, n * d, 1, 2);
    struct numbers rounded = numbers_new(type, n * d, 1, 3);

    for (size_t i = 0; i < n; i++)
        out.d[i] = dot_ref(a.d + i * d, ref(&b) + i * d, d);
    IN_EACH_ORDER(out.f, out.mem.bytes, memset(out.f, 0xff, out.mem.bytes),
                  dsf_gpu_head_dots(type, a.f, at(&b), out.f, NULL, r, heads, d,
                                    NULL));
    assert_close(out.f, out.d, n, 2e-6);
    for (size_t i = 0; i < n * d; i++)
        ref(&rounded)[i] = a.d[i];
    WRITES(&rounded, dsf_gpu_head_dots(type, a.f, at(&b), out.f, at(&rounded), r,
                                       heads, d, NULL));
    check(&rounded);
    numbers_free(&rounded);
    tensor_free(&a);
    tensor_free(&out);
    numbers_free(&b);
}

static void heads_are_multiplied(void **state)
{
    EACH_TYPE(type) {
        try_dots(type, 3, 5, 64);
        try_dots(type, 7, 3, 10);
        try_dots(type, 9, 8, 136);
    }
}

static void try_rotation(enum dsflow_dtype type, size_t heads, size_t d,
                         size_t ld)
{
    const size_t rows = 6, length = 3, half = d / 2;
    struct numbers x = numbers_new(type, rows * ld, 1, 1);
    struct numbers before = numbers_new(type, rows * ld, 1, 1);
    struct tensor table = tensor_new(length * d, 1, 2);

    for (size_t i = 0; i < length * half; i++) {
        table.f[2 * i] = (float)cos((double)i);
        table.f[2 * i + 1] = (float)sin((double)i);
    }
    tensor_from_floats(&table);
    for (int inverse = 0; inverse < 2; inverse++) {
        memcpy(ref(&x), ref(&before), rows * ld * sizeof(double));
        for (size_t i = 0; i < rows * heads * half; i++) {
            const size_t r = i / heads / half, k = i % half;
            const double *angle = table.d + (r % length * half + k) * 2;
            const double c = angle[0], s = inverse ? -angle[1] : angle[1];
            double *lo = ref(&x) + r * ld + i / half % heads * d + k;
            double a = lo[0], b = lo[half];

            lo[0] = a * c - b * s;
            lo[half] = b * c + a * s;
        }
        IN_EACH_ORDER(at(&x), bytes_of(&x),
                      memcpy(at(&x), at(&before), bytes_of(&x)),
                      dsf_gpu_rotate(type, at(&x), ld, rows, length, heads, d,
                                     table.f, inverse, NULL));
        check(&x);
    }
    numbers_free(&x);
    numbers_free(&before);
    tensor_free(&table);
}

static void heads_are_rotated_and_back(void **state)
{
    EACH_TYPE(type) {
        try_rotation(type, 3, 16, 48);
        try_rotation(type, 2, 16, 48); /* the rest of a row stays */
        try_rotation(type, 3, 6, 20);
        try_rotation(type, 2, 64, 128);
    }
}

static void zeroes_end_where_they_should(void **state)
{
    for (size_t n = 0; n < 20; n++)
        for (size_t from = 0; from < 5; from++) {
            struct tensor x = tensor_new(40, 1, 1);

            for (size_t i = from; i < from + n; i++)
                x.d[i] = 0;
            dsf_gpu_zero(x.f + from, n * sizeof(float), NULL);
            for (size_t i = 0; i < 40; i++)
                assert_true((double)x.f[i] == x.d[i]);
            tensor_free(&x);
        }
    assert_no_fault();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(activations_are_those_of_double_precision),
        cmocka_unit_test(rows_are_added_and_rounded_once),
        cmocka_unit_test(some_columns_are_rounded),
        cmocka_unit_test(columns_are_added_up),
        cmocka_unit_test(heads_are_multiplied),
        cmocka_unit_test(heads_are_rotated_and_back),
        cmocka_unit_test(zeroes_end_where_they_should),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
