/* test_norm_cuda.c - norms on a GPU that is not there, beside double precision.
 */
#include "gpu/kernels.h"

#include "numbers.h"

/* Rows of several teams of a block; of 8 numbers at a time, and one by one. */
static const struct {
    size_t rows, width;
} shapes[] = { { 1, 1 },  { 3, 31 },  { 5, 64 },  { 20, 40 },
               { 7, 70 }, { 9, 300 }, { 2, 1200 } };

static void try_shape(enum dsflow_dtype type, size_t rows, size_t n, int rms)
{
    struct numbers x = numbers_new(type, rows * n, 2, 1);
    struct numbers w = numbers_new(type, n, 1, 2);
    struct numbers b = numbers_new(type, n, 1, 3);
    struct numbers dres = numbers_new(type, rows * n, 1, 4);
    struct numbers y = numbers_new(type, rows * n, 1, 5);
    struct numbers dx = numbers_new(type, rows * n, 1, 6);
    struct tensor dy = tensor_new(rows * n, 1, 7), dnorm = tensor_unset(2 * n);
    struct guarded scratch = guarded_new(dsf_gpu_norm_scratch(rows, n));
    const struct dsf_gpu_norm norm = { at(&w), rms ? NULL : at(&b), n, 1e-3f,
                                       rms };
    const struct norm_ref by = { ref(&w), rms ? NULL : ref(&b), n, 1e-3f, rms };

    memset(dnorm.d, 0, 2 * n * sizeof(double));
    memcpy(ref(&dx), ref(&dres), rows * n * sizeof(double));
    for (size_t i = 0; i < rows; i++)
        norm_row_ref(&by, ref(&x) + i * n, dy.d + i * n, ref(&y) + i * n,
                     ref(&dx) + i * n, dnorm.d);
    WRITES(&y, dsf_gpu_norm_forward(&norm, type, at(&x), at(&y), rows, NULL));
    check(&y);
    IN_EACH_ORDER(at(&dx), bytes_of(&dx),
                  (unset(&dx), memset(scratch.p, 0xff, scratch.bytes)),
                  dsf_gpu_norm_backward(&norm, type, at(&x), dy.f, at(&dres),
                                        at(&dx), dnorm.f, rows, scratch.p,
                                        NULL));
    check(&dx);
    assert_close(dnorm.f, dnorm.d, 2 * n, 2e-6);

    /* In place; and the same sums again, without what is added. */
    IN_EACH_ORDER(dnorm.f, dnorm.mem.bytes, memset(dnorm.f, 0xff, 8 * n),
                  dsf_gpu_norm_backward(&norm, type, at(&x), dy.f, NULL, at(&y),
                                        dnorm.f, rows, scratch.p, NULL));
    assert_close(dnorm.f, dnorm.d, 2 * n, 2e-6);
    dsf_gpu_norm_backward(&norm, type, at(&x), dy.f, at(&dres), at(&dres),
                          dnorm.f, rows, scratch.p, NULL);
    assert_memory_equal(at(&dres), at(&dx), bytes_of(&dx));
    numbers_free(&x);
    numbers_free(&w);
    numbers_free(&b);
    numbers_free(&dres);
    numbers_free(&y);
    numbers_free(&dx);
    tensor_free(&dy);
    tensor_free(&dnorm);
    guarded_free(&scratch);
}

static void try_type(enum dsflow_dtype type)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++)
        for (int rms = 0; rms < 2; rms++)
            try_shape(type, shapes[i].rows, shapes[i].width, rms);
}

static void norms_of_fp32_are_those_of_double_precision(void **state)
{
    try_type(DSFLOW_FP32);
}

static void norms_of_bf16_are_rounded_once(void **state)
{
    try_type(DSFLOW_BF16);
}

static void norms_of_fp16_are_rounded_once(void **state)
{
    try_type(DSFLOW_FP16);
}

static void rows_are_longer_than_what_threads_keep(void **state)
{
    try_shape(DSFLOW_FP32, 2, 2051, 1);
    try_shape(DSFLOW_FP32, 1, 4099, 0);
    try_shape(DSFLOW_BF16, 1, 8200, 0);
}

static void teams_have_several_rows(void **state)
{
    orders = 1;
    try_shape(DSFLOW_BF16, 2100, 8, 0);
    try_shape(DSFLOW_BF16, 400, 2600, 0);
    try_shape(DSFLOW_FP16, 400, 2600, 1);
    try_shape(DSFLOW_FP32, 386, 1030, 0); /* longer than they keep, too */
    orders = 3;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_of_fp32_are_those_of_double_precision),
        cmocka_unit_test(norms_of_bf16_are_rounded_once),
        cmocka_unit_test(norms_of_fp16_are_rounded_once),
        cmocka_unit_test(rows_are_longer_than_what_threads_keep),
        cmocka_unit_test(teams_have_several_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
