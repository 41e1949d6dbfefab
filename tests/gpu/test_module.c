/* test_module.c - CUDA sides through the module, in the memory of a GPU: on a
 * real one with dsflow-cuda.so, and in `make check` with the emulated module.
 *
 *     test_module [NAME [ARGUMENT...]]
 *
 * runs one of the tests below with its arguments, or those that take little
 * time on emulated GPUs, with few cases. */
#include "lib/test.h"

#include "gpu/place.h"

#include "exec/cuda_module.h"
#include "tasks/args.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 5 };

/* The first numbers again, `past` behind the last ones. */
static void write_again(const struct dsflow_call *call, void *stream,
                        size_t past)
{
    const struct dsflow_buf *b = call->bufs;
    const struct dsf_gpu_copy c = { (char *)b->ptr + b->bytes + past, b->ptr,
                                    sizeof(float), 0, 0 };

    assert_null(dsf_cuda_module(NULL)->copy(&c, stream));
}

static void write_last(const struct dsflow_call *call, void *stream)
{
    write_again(call, stream, 0 - sizeof(float));
}

static void write_past(const struct dsflow_call *call, void *stream)
{
    write_again(call, stream, 8);
}

static void what_is_written_beside_a_buffer_is_told(void **state)
{
    const struct dsf_gpu_side well = { "test.well", write_last, NULL };
    const struct dsf_gpu_side ill = { "test.ill", write_past, NULL };
    float v[NUMBERS] = { 1, 2, 3, 4, 5 };
    const struct dsflow_buf buf = { v, sizeof(v), NUMBERS, DSFLOW_FP32 };
    const struct dsflow_call call = { .bufs = &buf, .nbufs = 1 };

    assert_null(place_run(&well, &call));
    assert_true(v[0] == 1 && v[3] == 4 && v[4] == 1);
    assert_string_equal(place_run(&ill, &call),
                        "writes 12 bytes past the end of port 0");
}

/* What compute-sanitizer has to see, where nothing else does: a kernel of ours
 * is told of more numbers than its buffers have. The status is 0 all the same.
 */
static int test_module_planted(int argc, char **argv)
{
    enum { PAST = 8 };
    static float sum[NUMBERS + PAST], term[NUMBERS + PAST];
    const struct dsf_sum_args args = { NUMBERS + PAST };
    const struct dsflow_buf bufs[] = {
        { sum, NUMBERS * sizeof(float), NUMBERS, DSFLOW_FP32 },
        { term, NUMBERS * sizeof(float), NUMBERS, DSFLOW_FP32 },
    };
    const struct dsflow_call call = { .bufs = (struct dsflow_buf *)bufs,
                                      .nbufs = 2,
                                      .args = &args };
    const char *why;

    setenv("DSFLOW_TESTS_EDGE", "0", 1); /* nor is there room behind them */
    why = place_run(place_side("add"), &call);
    printf("planted: %s\n", why != NULL ? why : "computed");
    return 0;
}

static int test_module_place(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_beside_a_buffer_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The first one has children, which CUDA must not have begun before. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
    int is_slow; /* on emulated GPUs, or none of all */
} tests[] = {
    { "sides", test_module_sides, 0 },
    { "first", test_module_first, 0 },
    { "same_bits", test_module_same_bits, 0 },
    { "inputs", test_module_inputs, 0 },
    { "attention", test_module_attention, 1 },
    { "place", test_module_place, 0 },
    { "planted", test_module_planted, 1 },
};
enum { TESTS = sizeof(tests) / sizeof(*tests) };

static int run_all(void)
{
    int failed = 0;

    setenv("DSFLOW_GPU_CASES", "2", 0);
    setenv("DSFLOW_EMULATED_LATE", "20", 0);
    for (size_t i = 0; i < TESTS; i++)
        if (!tests[i].is_slow)
            failed |= tests[i].run(0, NULL);
    return failed;
}

int main(int argc, char **argv)
{
    setenv(DSF_CUDA_VARIABLE, "tests/gpu/.libs/dsflow-cuda-emulated.so", 0);
    if (argc < 2)
        return run_all();
    for (size_t i = 0; i < TESTS; i++)
        if (strcmp(argv[1], tests[i].name) == 0)
            return tests[i].run(argc - 1, argv + 1);
    fprintf(stderr, "%s: expected", argv[1]);
    for (size_t i = 0; i < TESTS; i++)
        fprintf(stderr, " %s", tests[i].name);
    fputs("\n", stderr);
    return 2;
}
