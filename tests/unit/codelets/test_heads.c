/* test_heads.c - heads of attention, shared out between members and put
 * together again. */
#include "codelets/codelets.h"
#include "codelets/copies.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3, ROWS = 5, RUNS = 2, HEADS = 7, SIZE = 4 };
enum { ALL = ROWS * RUNS * HEADS * SIZE };

static const struct dsf_heads_args whole = { ROWS, RUNS,    HEADS,
                                             SIZE, MEMBERS, -1 };

static void run(const struct dsf_heads_args *args, struct dsflow_buf *bufs,
                unsigned n)
{
    const struct dsflow_call call = { .bufs = bufs, .nbufs = n, .args = args };

    dsf_codelet_all_to_all_heads.cpu(&call);
}

static struct dsflow_buf floats(float *v, int64_t n)
{
    return (struct dsflow_buf){ v, (size_t)n * 4, n, DSFLOW_FP32 };
}

/* A task that copies, as devices do it. */
static void copy(const struct dsf_heads_args *args, struct dsflow_buf *bufs,
                 unsigned n)
{
    const struct dsflow_call call = { .bufs = bufs, .nbufs = n, .args = args };
    struct dsf_port_copy v[2 * (MEMBERS + 1)];
    unsigned ncopies = dsf_copies(&dsf_op_all_to_all_heads, &call, v);

    assert_true(ncopies <= 2 * n);
    for (unsigned i = 0; i < ncopies; i++)
        for (size_t row = 0; row < v[i].rows; row++)
            memcpy((char *)bufs[v[i].to].ptr + v[i].to_at + row * v[i].to_apart,
                   (char *)bufs[v[i].from].ptr + v[i].from_at +
                       row * v[i].from_apart,
                   v[i].bytes);
}

static void members_have_whole_heads_and_give_them_back(void **state)
{
    float all[ALL], back[ALL] = { 0 }, part[MEMBERS][ALL], again[ALL];
    struct dsflow_buf bufs[1 + MEMBERS];
    int32_t heads = 0;

    for (int i = 0; i < ALL; i++)
        all[i] = (float)i;
    for (int32_t m = 0; m < MEMBERS; m++) {
        struct dsf_heads_args args = whole;
        int64_t n;

        args.take = m;
        n = dsf_heads_elems(&args, 1);
        bufs[0] = floats(part[m], n);
        bufs[1] = floats(all, ALL);
        run(&args, bufs, 2);
        /* The first number of a run is that of the first head. */
        assert_true(part[m][0] == all[heads * SIZE]);
        assert_true(part[m][n / ROWS / RUNS] ==
                    all[HEADS * SIZE + heads * SIZE]);
        bufs[0] = floats(again, n);
        copy(&args, bufs, 2);
        assert_memory_equal(again, part[m], (size_t)n * 4);
        heads += (int32_t)(n / ROWS / RUNS / SIZE);
    }
    assert_int_equal(heads, HEADS);
    bufs[0] = floats(back, ALL);
    for (int32_t m = 0; m < MEMBERS; m++)
        bufs[m + 1] = floats(part[m], dsf_heads_elems(&whole, (unsigned)m + 1));
    run(&whole, bufs, 1 + MEMBERS);
    assert_memory_equal(back, all, sizeof(all));
    memset(back, 0, sizeof(back));
    copy(&whole, bufs, 1 + MEMBERS);
    assert_memory_equal(back, all, sizeof(all));
}

static int check(const struct dsf_heads_args *args, int64_t out, int64_t in,
                 unsigned n, struct dsflow_err *err)
{
    struct dsflow_shape shapes[1 + MEMBERS];

    for (unsigned i = 0; i <= MEMBERS; i++)
        shapes[i] = dsflow_shape_of(DSFLOW_FP32, i == 0 ? out : in);
    return dsf_op_all_to_all_heads.check(
        &(struct dsflow_case){ &dsf_op_all_to_all_heads, shapes, n, args },
        err);
}

static void what_does_not_fit_is_refused(void **state)
{
    struct dsf_heads_args args = whole;
    struct dsflow_err err;

    assert_int_equal(check(&args, ALL, ALL, 4, &err), DSFLOW_OK);
    assert_int_equal(check(&args, ALL - 1, ALL, 4, &err), DSFLOW_EINVAL);
    assert_int_equal(check(&args, ALL, ALL, 3, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "all_to_all_heads: 3 data: expected 4 for 3 "
                                 "members");
    args.take = 3;
    assert_int_equal(check(&args, ALL, ALL, 2, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "all_to_all_heads: take: 3: expected at most 2");
    args.take = 2;
    assert_int_equal(check(&args, ALL, ALL, 2, &err), DSFLOW_OK);
    assert_int_equal(check(&args, ALL, ALL - 1, 2, &err), DSFLOW_EINVAL);
    args.members = 8;
    assert_int_equal(check(&args, ALL, ALL, 2, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "all_to_all_heads: 8 members: expected 1 to "
                                 "7, as there are heads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_have_whole_heads_and_give_them_back),
        cmocka_unit_test(what_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
