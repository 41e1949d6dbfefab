/* test_evaluation.c - the loss on the validation text, of a checkpoint or of
 * the weights that a run begins with. */
#include "train/evaluation.h"

#include "small.h"

#include <math.h>

#define KEYS "batch.micro=2 data.validation=0.3 validation.sequences=3"

static int evaluate(enum dsflow_exec_kind kind, int64_t step, const char *keys,
                    struct dsf_validation *v, struct dsflow_err *err)
{
    struct dsf_session s;

    open_small(&s, TO_MODEL, keys);
    return dsf_session_evaluate(&s, kind, step, v, err);
}

/* The logits of weights that are drawn are small. */
static void a_model_that_starts_knows_nothing(void **state)
{
    struct dsf_validation v;
    struct dsflow_err err;

    must(evaluate(DSFLOW_SERIAL, DSF_START, KEYS, &v, &err), &err);
    assert_int_equal(v.step, 0);
    assert_float_equal(v.loss, log(256), 0.1);
    assert_true(v.per_byte == v.loss); /* a token is a byte here */
    assert_true(v.perplexity == exp(v.loss));
}

static void a_checkpoint_has_the_loss_of_its_weights(void **state)
{
    struct dsf_validation start, saved, starpu;
    struct dsflow_err err;

    make_run(KEYS, 3);
    must(evaluate(DSFLOW_SERIAL, DSF_START, KEYS, &start, &err), &err);
    must(evaluate(DSFLOW_SERIAL, DSF_LATEST, KEYS, &saved, &err), &err);
    must(evaluate(DSFLOW_STARPU, 3, KEYS, &starpu, &err), &err);
    assert_int_equal(saved.step, 3);
    assert_int_equal(starpu.step, 3);
    assert_true(saved.loss == start.loss && starpu.loss == start.loss);
    must(evaluate(DSFLOW_SERIAL, DSF_START, KEYS " job.seed=9", &saved, &err),
         &err);
    assert_true(saved.loss != start.loss);
}

static void what_is_not_there_is_named(void **state)
{
    struct dsf_validation v = { .step = -5 };
    struct dsflow_err err;

    assert_int_equal(evaluate(DSFLOW_SERIAL, 7, KEYS, &v, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "has no checkpoint of step 7"));
    assert_int_equal(
        evaluate(DSFLOW_SERIAL, DSF_START, "data.validation=0", &v, &err),
        DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "validation"));
    assert_int_equal(v.step, -5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_that_starts_knows_nothing),
        cmocka_unit_test(a_checkpoint_has_the_loss_of_its_weights),
        cmocka_unit_test(what_is_not_there_is_named),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
