/* test_touched.c - gradients of an embedding as rows: the sum of them has the
 * bits of the sum of whole gradients, range by range. */
#include "unit/codelets/run.h"

#include "base/random.h"
#include "codelets/codelets.h"
#include "tasks/tasks.h"

#include <string.h>

enum { WIDTH = 24, ROWS = 50, UNIT = WIDTH * ROWS - 7, MOST = 9, TERMS = 5 };

static float x[TERMS][UNIT], sum[UNIT], got[UNIT + 16];
static _Alignas(
    64) uint8_t packed[TERMS][8 + MOST * 8 + MOST * WIDTH * sizeof(float)];
static _Alignas(64) float scratch[32 * WIDTH];

/* Some rows of each term; of one of them there are only minus zeroes, and in
 * another, half. */
static void fill(unsigned rows)
{
    uint64_t state = 5;

    memset(x, 0, sizeof(x));
    for (int m = 0; m < TERMS; m++)
        for (unsigned k = 0; k < rows; k++) {
            int row = (int)(dsf_random(&state) % ROWS);

            for (int i = 0; i < WIDTH && row * WIDTH + i < UNIT; i++)
                x[m][row * WIDTH + i] = k == 0 ? -0.0f
                                        : k == 1 && i % 2
                                            ? 0
                                            : (float)dsf_random_normal(&state);
        }
}

static struct dsflow_buf floats(float *v, int64_t n)
{
    return (struct dsflow_buf){ v, (size_t)n * 4, n, DSFLOW_FP32 };
}

static void run(const struct dsflow_codelet *codelet, const void *args,
                unsigned n, const struct dsflow_buf *bufs)
{
    run_codelet(codelet, args, n, bufs, scratch, sizeof(scratch));
}

static struct dsf_rows_args args_of(int64_t at, int64_t elems)
{
    return (struct dsf_rows_args){
        .width = WIDTH, .most = MOST, .elems = elems, .at = at
    };
}

static struct dsflow_buf rows(int m)
{
    return (struct dsflow_buf){ packed[m], sizeof(packed[m]), sizeof(packed[m]),
                                DSFLOW_BYTES };
}

static void pack_all(void)
{
    const struct dsf_rows_args a = args_of(0, UNIT);

    assert_int_equal(dsf_rows_bytes(&a), sizeof(packed[0]));
    for (int m = 0; m < TERMS; m++) {
        memset(packed[m], 0x5a, sizeof(packed[m]));
        run(&dsf_codelet_pack_rows, &a, 2,
            (struct dsflow_buf[]){ floats(x[m], UNIT), rows(m) });
    }
}

static void add_whole(unsigned n)
{
    const struct dsf_sum_args a = { .elems = UNIT };
    struct dsflow_buf bufs[TERMS];

    memcpy(sum, x[0], sizeof(sum));
    for (unsigned i = 0; i < n; i++)
        bufs[i] = floats(i == 0 ? sum : x[i], UNIT);
    run(&dsf_codelet_add, &a, n, bufs);
}

static void add_range(unsigned n, int64_t at, int64_t elems)
{
    struct dsf_rows_args a = args_of(at, elems);
    struct dsflow_buf bufs[TERMS + 1] = { floats(got, elems + 16) };

    a.into_at = 16;
    memset(got, 0x5a, sizeof(got));
    for (unsigned i = 0; i < n; i++)
        bufs[i + 1] = rows((int)i);
    run(&dsf_codelet_add_rows, &a, n + 1, bufs);
}

static void rows_add_up_to_the_bits_of_whole_gradients(void **state)
{
    static const int64_t cuts[] = {
        0, 1, WIDTH, 5 * WIDTH + 3, 700, 701, UNIT
    };

    fill(MOST);
    pack_all();
    for (unsigned n = 2; n <= TERMS; n++) {
        add_whole(n);
        for (size_t k = 0; k + 1 < sizeof(cuts) / sizeof(*cuts); k++) {
            int64_t elems = cuts[k + 1] - cuts[k];

            add_range(n, cuts[k], elems);
            assert_memory_equal(got + 16, sum + cuts[k],
                                (size_t)elems * sizeof(*got));
        }
    }
}

static void rows_that_nobody_has_are_zeroes(void **state)
{
    fill(0);
    pack_all();
    add_range(TERMS, 3, 500);
    assert_memory_equal(got + 16, x[0], 500 * sizeof(*got));
}

/* That no step has: better no number than another one. */
static void too_many_rows_are_no_numbers(void **state)
{
    fill(MOST);
    for (int i = 0; i < UNIT; i++)
        x[1][i] = 1;
    pack_all();
    add_range(2, 0, UNIT);
    for (int i = 0; i < UNIT; i++)
        assert_true(got[16 + i] != got[16 + i]);
}

static void what_is_no_row_is_refused(void **state)
{
    struct dsflow_shape shapes[] = { dsflow_shape_of(DSFLOW_FP32, UNIT),
                                     dsflow_shape_of(DSFLOW_BYTES, 100) };
    struct dsf_rows_args a = args_of(0, UNIT);
    struct dsflow_case c = { &dsf_op_pack_rows, shapes, 2, &a };
    struct dsflow_err err;

    assert_int_equal(c.op->check(&c, &err), DSFLOW_EINVAL);
    a.width = 0;
    assert_int_equal(c.op->check(&c, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "pack_rows: 9 rows of 0, 1193 numbers from 0 "
                                 "on: expected some rows");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_add_up_to_the_bits_of_whole_gradients),
        cmocka_unit_test(rows_that_nobody_has_are_zeroes),
        cmocka_unit_test(too_many_rows_are_no_numbers),
        cmocka_unit_test(what_is_no_row_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
