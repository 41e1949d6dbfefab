/* test_task_schedule.c - learning rates, against values of DeepSpeed's own
 * schedulers, and the registration of kinds of task. */
#include "tasks/tasks.h"

#include "lib/test.h"

#include <dsflow/codelet.h>

#include <math.h>
#include <string.h>

struct point {
    int64_t i;
    double lr;
};

static void assert_points(const char *schedule, const struct dsflow_lr_keys *a,
                          const struct point *p, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        double lr = dsflow_lr_schedule_find(schedule)->lr(NULL, a, p[k].i);

        if (fabs(lr - p[k].lr) > 1e-5 * fabs(p[k].lr) + 1e-12)
            fail_msg("step %lld: %.8g, not %.8g", (long long)p[k].i, lr,
                     p[k].lr);
    }
}

#define POINTS(schedule, a, ...)                                               \
    assert_points(schedule, a, (struct point[]){ __VA_ARGS__ },                \
                  sizeof((struct point[]){ __VA_ARGS__ }) /                    \
                      sizeof(struct point))

static void warm_up_is_logarithmic_or_linear(void **state)
{
    struct dsflow_lr_keys a = { .log_warmup = 1, .lr = 1e-3, .warmup = 10 };

    POINTS("warmup", &a, { 0, 0 }, { 1, 3.0103e-4 }, { 4, 6.9897e-4 },
           { 9, 1e-3 }, { 19, 1e-3 });
    a.log_warmup = 0;
    POINTS("warmup", &a, { 0, 0 }, { 1, 1e-4 }, { 4, 4e-4 }, { 9, 9e-4 },
           { 10, 1e-3 });
}

static void decay_after_warm_up_is_linear(void **state)
{
    struct dsflow_lr_keys a = { .lr = 1e-3, .warmup = 10, .total = 100 };

    POINTS("warmup_linear", &a, { 9, 9e-4 }, { 10, 1e-3 }, { 50, 5.5555556e-4 },
           { 99, 1.1111111e-5 }, { 100, 0 });
    a.min_ratio = 0.1;
    POINTS("warmup_linear", &a, { 9, 9e-4 }, { 10, 1e-3 }, { 55, 5.5e-4 },
           { 100, 1e-4 }, { 101, 1e-4 });
}

static void decay_after_warm_up_is_a_cosine(void **state)
{
    struct dsflow_lr_keys a = {
        .lr = 1e-3, .warmup = 10, .total = 100, .min_ratio = 1e-4
    };

    POINTS("warmup_cosine", &a, { 0, 0 }, { 9, 9e-4 }, { 10, 9.9969544e-4 },
           { 54, 5.0005e-4 }, { 99, 1e-7 }, { 109, 1e-7 });
}

static void a_range_test_grows_smoothly_or_in_stairs(void **state)
{
    struct dsflow_lr_keys a = { .lr = 1e-4,
                                .range_steps = 20,
                                .range_rate = 1 };

    POINTS("range_test", &a, { 0, 1.05e-4 }, { 9, 1.5e-4 }, { 19, 2e-4 },
           { 20, 2.05e-4 }, { 39, 3e-4 }, { 59, 4e-4 });
    a.staircase = 1;
    POINTS("range_test", &a, { 18, 1e-4 }, { 19, 2e-4 }, { 38, 2e-4 },
           { 39, 3e-4 });
}

static void a_cycle_goes_up_down_and_decays(void **state)
{
    struct dsflow_lr_keys a = { .lr = 1e-3,
                                .cycle_min_ratio = 0.1,
                                .half_cycle = 10,
                                .second_half_cycle = 10,
                                .decay_steps = 5,
                                .decay_rate = 0.5 };

    POINTS("one_cycle", &a, { 0, 1.9e-4 }, { 4, 5.5e-4 }, { 9, 1e-3 },
           { 10, 9.1e-4 }, { 14, 5.5e-4 }, { 19, 1e-4 }, { 20, 9.0909091e-5 },
           { 29, 5e-5 }, { 59, 2e-5 });
}

static void a_constant_rate_stays(void **state)
{
    struct dsflow_lr_keys a = { .lr = 0.25 };

    POINTS("constant", &a, { 0, 0.25 }, { 1000000, 0.25 });
}

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void a_kind_of_task_that_is_not_whole_is_refused(void **state)
{
    static struct dsflow_op op;
    static struct dsflow_port port;
    struct dsflow_err err;

    op = (struct dsflow_op){ .abi = DSFLOW_OP_ABI + 1, .name = "mine" };
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "task mine: made for interface 6: this dsflow has 5");
    op = (struct dsflow_op){ .abi = DSFLOW_OP_ABI, .name = "mine" };
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task mine: has no summary");
    op.summary = "of mine";
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task mine: has no check");
    op.check = check;
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "task mine: 0 ports: expected one that is required, "
                        "and a name for the last");
    op.nports = 1;
    op.ports = &port;
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "task mine: 1 ports: expected one that is required, "
                        "and a name for the last");
    port.name = "in";
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task mine: port in: expected R, W or RW");
    port = (struct dsflow_port){ "in", DSFLOW_RW };
    op.repeats = 1;
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task mine: port in comes again: expected R "
                                 "or W, not RW");
    op.repeats = 0;
    op.direction = DSFLOW_NDIRECTIONS;
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task mine: direction: 9: expected 0 to 8");
    op.direction = DSFLOW_DIR_NONE;
    op.comm = 7;
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task mine: comm: 7: expected 0 to 3");
    op.comm = DSFLOW_COMM_NONE;
    op.name = "adam";
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "task adam: the name is taken (built-in)");
    op.name = "mine";
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_OK);
    assert_ptr_equal(dsflow_op_find("mine"), &op);
    assert_int_equal(dsflow_op_register(&op, &err), DSFLOW_EINVAL);
}

/* What a process that did not build the graph has of a task. */
static void the_arguments_of_begin_are_bytes_that_can_be_sent(void **state)
{
    struct dsf_begin_args args = { .schedule = "constant",
                                   .keys = { .lr = 0.25, .total = 4 } };
    struct dsflow_control control = { .updates = 2 };
    unsigned char sent[sizeof(args)];
    struct dsflow_buf buf = { .ptr = &control, .bytes = sizeof(control) };
    const struct dsflow_shape shape =
        dsflow_shape_of(DSFLOW_BYTES, sizeof(control));
    const struct dsflow_case c = { &dsf_op_begin, &shape, 1, &args };
    struct dsflow_err err;

    memcpy(sent, &args, sizeof(args));
    memset(&args, 0xee, sizeof(args));
    memcpy(&args, sent, sizeof(args));
    assert_int_equal(dsf_op_begin.check(&c, &err), DSFLOW_OK);
    dsflow_codelet_find(&dsf_op_begin)
        ->cpu(&(struct dsflow_call){ .bufs = &buf, .nbufs = 1, .args = &args });
    assert_true(control.lr == 0.25);
    assert_int_equal(control.step, 3);

    strcpy(args.schedule, "nobody");
    assert_int_equal(dsf_op_begin.check(&c, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "begin: nobody: expected the name of a "
                                 "schedule that is registered");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(warm_up_is_logarithmic_or_linear),
        cmocka_unit_test(decay_after_warm_up_is_linear),
        cmocka_unit_test(decay_after_warm_up_is_a_cosine),
        cmocka_unit_test(a_range_test_grows_smoothly_or_in_stairs),
        cmocka_unit_test(a_cycle_goes_up_down_and_decays),
        cmocka_unit_test(a_constant_rate_stays),
        cmocka_unit_test(a_kind_of_task_that_is_not_whole_is_refused),
        cmocka_unit_test(the_arguments_of_begin_are_bytes_that_can_be_sent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
