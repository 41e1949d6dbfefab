/* test_try_component.c - what is wrong with an optimizer, a schedule or a
 * policy is found in small jobs; one that refuses a job is within its rights.
 */
#include "verify/try_component.h"

#include "lib/test.h"

#include <dsflow/codelet.h>
#include <dsflow/lr_schedule.h>
#include <dsflow/optimizer.h>
#include <dsflow/policy.h>
#include <math.h>
#include <string.h>

static const struct dsf_verify_options how = { .seed = 1, .cases = 1 };

/* Each is registered and tried in a process of its own, so that none is there
 * for the next. */
static struct dsf_verdict verdict_of(void (*body)(const void *user,
                                                  struct dsf_verdict *verdict),
                                     const void *user)
{
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(body, user, 60, &verdict);
    return verdict;
}

static void must(int status, const struct dsflow_err *err)
{
    if (status < 0)
        dsf_child_fault("the test: %s", err->msg);
}

/* Optimizers: param -= lr grad. */
enum { CONTROL, GRAD, PARAM };

static const struct dsflow_op descent_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "descent",
    .summary = "gradient descent",
    .direction = DSFLOW_DIR_UPDATE,
    .update = 1,
    .args_size = sizeof(struct dsflow_update_args),
    .check = dsflow_update_check,
    .slice = dsflow_update_slice,
    DSFLOW_PORTS([CONTROL] = { "control", DSFLOW_R },
                 [GRAD] = { "grad", DSFLOW_R, DSFLOW_FP32, DSFLOW_ELEMS },
                 [PARAM] = { "param", DSFLOW_RW, DSFLOW_FP32, DSFLOW_ELEMS }),
};

struct update {
    const struct dsflow_update_args *a;
    const float *grad;
    float *param, lr;
};

static struct update update_of(const struct dsflow_call *call)
{
    const struct dsflow_update_args *a = call->args;
    const struct dsflow_control *control = call->bufs[CONTROL].ptr;

    return (struct update){ a, (float *)call->bufs[GRAD].ptr + a->grad_at,
                            (float *)call->bufs[PARAM].ptr + a->param_at,
                            (float)(control->lr * control->scale) };
}

static void descend(const struct dsflow_call *call)
{
    struct update u = update_of(call);

    for (int64_t i = 0; i < u.a->elems; i++)
        u.param[i] -= u.lr * u.grad[i];
}

static void descend_in_padding(const struct dsflow_call *call)
{
    struct update u = update_of(call);

    for (int64_t i = 0; i < u.a->elems; i++)
        u.param[i] -= u.lr * u.grad[i] + 1;
}

static void descend_by_place(const struct dsflow_call *call)
{
    struct update u = update_of(call);

    for (int64_t i = 0; i < u.a->elems; i++)
        u.param[i] -= u.lr * u.grad[i] * (float)(i % 1000);
}

static int fail_to_fill(const void *part,
                        const struct dsflow_optimizer_keys *keys, void *args,
                        struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "lr: %g: expected a prime",
                       keys->lr);
}

struct descent {
    dsflow_cpu_fn cpu;
    int (*fill)(const void *part, const struct dsflow_optimizer_keys *keys,
                void *args, struct dsflow_err *err);
};

static void try_descent(const void *user, struct dsf_verdict *verdict)
{
    static struct dsflow_codelet codelet = { .abi = DSFLOW_CODELET_ABI,
                                             .op = &descent_op };
    static struct dsflow_optimizer optimizer = {
        .abi = DSFLOW_OPTIMIZER_ABI,
        .name = "descent",
        .summary = "gradient descent",
        .op = &descent_op,
    };
    const struct descent *d = user;
    const struct dsf_computes by = { .op = &descent_op, .cpu = d->cpu };
    const struct dsf_computes nothing = { .cpu = NULL };
    struct dsflow_err err;

    codelet.cpu = d->cpu;
    optimizer.fill = d->fill;
    must(dsflow_op_register(&descent_op, &err), &err);
    must(dsflow_codelet_register(&codelet, &err), &err);
    must(dsflow_optimizer_register(&optimizer, &err), &err);
    dsf_try_optimizer(&optimizer, &by, &nothing, &how, verdict);
}

static void an_optimizer_keeps_padding_and_knows_no_places(void **state)
{
    struct dsf_verdict v =
        verdict_of(try_descent, &(struct descent){ descend, NULL });

    assert_string_equal(v.fault, "");
    assert_true(v.cases > 4 && v.seconds > 0 && v.bytes > 0);
    v = verdict_of(try_descent, &(struct descent){ descend_in_padding, NULL });
    assert_string_equal(v.fault, "port param, number 2328 is padding, and "
                                 "becomes -1: expected 0 (GPT-2 on one rank)");
    v = verdict_of(try_descent, &(struct descent){ descend_by_place, NULL });
    assert_string_equal(v.fault,
                        "a shard of numbers 2048 to 4095 differs from the "
                        "whole unit in port param, number 2048: 0.226968899, "
                        "expected 0.179870889 (GPT-2 on one rank)");
    v = verdict_of(try_descent, &(struct descent){ descend, fail_to_fill });
    assert_string_equal(v.fault, "");
    assert_string_equal(v.untried,
                        "refuses GPT-2 on one rank: --set: optimizer: kind: "
                        "descent: lr: 0.0003: expected a prime");
}

/* Schedules. */
static double keep(const void *part, const struct dsflow_lr_keys *keys,
                   int64_t step)
{
    return keys->lr;
}

static double give_no_number(const void *part,
                             const struct dsflow_lr_keys *keys, int64_t step)
{
    return step < 7 ? keys->lr : NAN;
}

static double count(const void *part, const struct dsflow_lr_keys *keys,
                    int64_t step)
{
    static int calls;

    return ++calls;
}

struct schedule {
    double (*lr)(const void *part, const struct dsflow_lr_keys *keys,
                 int64_t step);
};

static void try_schedule(const void *user, struct dsf_verdict *verdict)
{
    static struct dsflow_lr_schedule schedule = {
        .abi = DSFLOW_LR_SCHEDULE_ABI,
        .name = "own",
        .summary = "one of a test",
    };
    const struct schedule *s = user;
    struct dsflow_err err;

    schedule.lr = s->lr;
    must(dsflow_lr_schedule_register(&schedule, &err), &err);
    dsf_try_schedule(&schedule, &how, verdict);
}

static void a_schedule_gives_numbers_and_remembers_nothing(void **state)
{
    struct dsf_verdict v = verdict_of(try_schedule, &(struct schedule){ keep });

    assert_string_equal(v.fault, "");
    assert_int_equal(v.cases, 6);
    v = verdict_of(try_schedule, &(struct schedule){ give_no_number });
    assert_string_equal(v.fault,
                        "the rate of step 7 is nan: expected a number from 0 "
                        "on (warmup 0, total 10)");
    v = verdict_of(try_schedule, &(struct schedule){ count });
    assert_string_equal(v.fault, "the rate of step 0 is not the same twice "
                                 "(warmup 0, total 1)");
}

/* Policies. */
static int decide_nothing(void *part, struct dsflow_plan *plan,
                          struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "not on a Sunday");
}

static int rewrite_badly(const void *part, const struct dsflow_plan *plan,
                         struct dsflow_graph *in, struct dsflow_graph *out,
                         struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "too late");
}

/* The last one has another priority each time. */
static int rewrite_otherwise(const void *part, const struct dsflow_plan *plan,
                             struct dsflow_graph *in, struct dsflow_graph *out,
                             struct dsflow_err *err)
{
    static int32_t calls;

    dsflow_graph_set_priority(
        in, (dsflow_task_id){ dsflow_graph_ntasks(in) - 1 }, calls++);
    return DSFLOW_UNCHANGED;
}

static int rewrite_nothing(const void *part, const struct dsflow_plan *plan,
                           struct dsflow_graph *in, struct dsflow_graph *out,
                           struct dsflow_err *err)
{
    return DSFLOW_UNCHANGED;
}

static int rewrite_without_tasks(const void *part,
                                 const struct dsflow_plan *plan,
                                 struct dsflow_graph *in,
                                 struct dsflow_graph *out,
                                 struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void try_policy(const void *user, struct dsf_verdict *verdict)
{
    static struct dsflow_policy policy;
    struct dsflow_err err;

    policy = *(const struct dsflow_policy *)user;
    policy.abi = DSFLOW_POLICY_ABI;
    policy.name = "own";
    policy.summary = "one of a test";
    policy.after = "priorities";
    must(dsflow_policy_register(&policy, &err), &err);
    dsf_try_policy(&policy, &how, verdict);
}

static void a_policy_gives_the_same_graph_twice(void **state)
{
    struct dsf_verdict v = verdict_of(
        try_policy, &(struct dsflow_policy){ .rewrite = rewrite_nothing });

    assert_string_equal(v.fault, "");
    assert_int_equal(v.cases, 6);
    v = verdict_of(try_policy,
                   &(struct dsflow_policy){ .rewrite = rewrite_otherwise });
    assert_string_equal(
        v.fault, "does not give the same graph twice (GPT-2 on one rank)");
    v = verdict_of(try_policy,
                   &(struct dsflow_policy){ .rewrite = rewrite_badly });
    assert_string_equal(v.fault, "too late (GPT-2 on one rank)");
    v = verdict_of(try_policy,
                   &(struct dsflow_policy){ .rewrite = rewrite_without_tasks });
    assert_string_equal(v.fault, "program step: 0 tasks report: expected 1, "
                                 "which the training loop waits for (GPT-2 on "
                                 "one rank)");
    v = verdict_of(try_policy,
                   &(struct dsflow_policy){ .decide = decide_nothing,
                                            .rewrite = rewrite_nothing });
    assert_string_equal(v.fault, "");
    assert_string_equal(v.untried,
                        "refuses GPT-2 on one rank: not on a Sunday");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_optimizer_keeps_padding_and_knows_no_places),
        cmocka_unit_test(a_schedule_gives_numbers_and_remembers_nothing),
        cmocka_unit_test(a_policy_gives_the_same_graph_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
