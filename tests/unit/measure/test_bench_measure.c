/* test_bench_measure.c - rates that need no model can be, and what cannot be
 * measured is told. */
#include "measure/bench_measure.h"

#include "measure/measured.h"

#include "lib/test.h"

#include <string.h>

static void products_and_memory_have_rates(void **state)
{
    const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16, DSFLOW_FP16 };
    struct dsflow_err err = { .msg = "" };
    double rate = 0;

    for (size_t i = 0; i < 3; i++) {
        const struct dsf_bench_product p = { 0, 1, 64, 64, 64, types[i] };

        rate = 0;
        assert_int_equal(dsf_bench_gemm(&p, 2, 0.01, &rate, &err), DSFLOW_OK);
        assert_true(dsf_is_rate(rate));
    }
    for (int access = DSF_BENCH_READ; access <= DSF_BENCH_COPY; access++) {
        rate = 0;
        assert_int_equal(dsf_bench_memory((enum dsf_bench_access)access, 2,
                                          1 << 20, 0.01, &rate, &err),
                         DSFLOW_OK);
        assert_true(dsf_is_rate(rate));
    }
}

static void memory_that_there_is_not_is_told(void **state)
{
    struct dsflow_err err = { .msg = "" };
    double rate;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* their allocators end the process */
#endif
    assert_int_equal(dsf_bench_memory(DSF_BENCH_READ, 2, (size_t)1 << 60, 0.01,
                                      &rate, &err),
                     DSFLOW_ENOMEM);
    assert_non_null(strstr(err.msg, "2 threads"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_and_memory_have_rates),
        cmocka_unit_test(memory_that_there_is_not_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
