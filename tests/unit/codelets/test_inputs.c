/* test_inputs.c - inputs of products that are rounded, on cores. */
#define INPUTS_CODELET(op) (&dsf_codelet_##op)
#include "unit/codelets/inputs.h"

static void test_qkv(void **state)
{
    (void)state;
    INPUTS_IN_EACH_WAY(inputs_wide);
    INPUTS_IN_EACH_WAY(inputs_qkv);
}

static void test_out(void **state)
{
    (void)state;
    INPUTS_IN_EACH_WAY(inputs_out);
}

static void test_mlp(void **state)
{
    (void)state;
    INPUTS_IN_EACH_WAY(inputs_mlp_forward);
    INPUTS_IN_EACH_WAY(inputs_mlp_backward);
}

/* Of generation: the normed rows, and what the activations leave. */
static void try_columns(struct inputs *i)
{
    size_t at = 0;
    const struct dsflow_mlp_args whole = inputs_mlp_args(i, &at);
    const struct dsf_mlp_up_args up = {
        .tile = i->rounded,
        .w = whole.w1,
        .up = i->way.llama ? whole.w1 + INPUTS_WIDTH * INPUTS_WIDTH : -1,
        .b = whole.b1,
        .norm_w = whole.norm_w,
        .norm_b = whole.norm_b,
    };
    struct dsf_project_args rounds = { .tile = i->rounded,
                                       .w = whole.w2,
                                       .b = whole.b2 },
                            exact = rounds;
    struct tensor unit = unit_new(at), xn, act, act1, y, y1;

    exact.tile = i->exact;
    act = tensor_unset(i->x.n);
    RUN(&dsf_codelet_mlp_up, &up, { DSF_MLP_UP_X, &i->x, i->as },
        { DSF_MLP_UP_UNIT, &unit, i->as }, { DSF_MLP_UP_ACT, &act, i->as });
    y = tensor_unset(i->x.n), y1 = tensor_unset(i->x.n);
    RUN(&dsf_codelet_project, &rounds, { DSF_PROJECT_X, &i->x, i->as },
        { DSF_PROJECT_IN, &act, i->as }, { DSF_PROJECT_UNIT, &unit, i->as },
        { DSF_PROJECT_Y, &y, i->as });
    act1 = tensor_copy(&act);
    round_tensor(i, &act1, act1.n);
    RUN(&dsf_codelet_project, &exact, { DSF_PROJECT_X, &i->x, i->as },
        { DSF_PROJECT_IN, &act1, i->as }, { DSF_PROJECT_UNIT, &unit, i->as },
        { DSF_PROJECT_Y, &y1, i->as });
    assert_rounded(&y, &y1);
    tensor_free(&act1);

    xn = normed_of(i, &unit, whole.norm_w, whole.norm_b);
    act1 = inputs_acted(i, whole, &i->exact, &xn, &unit);
    assert_rounded(&act, &act1);
    TENSORS_FREE(&unit, &xn, &act, &act1, &y, &y1);
}

static void test_columns(void **state)
{
    (void)state;
    INPUTS_IN_EACH_WAY(try_columns);
}

/* What no model has is refused. */
static void test_refused(void **state)
{
    const struct inputs_way *way = &inputs_ways[0];
    struct inputs i = inputs_new(way);
    struct dsf_norm_args a = { .tile = i.rounded, .norm_b = -1 };
    const size_t elems[] = { i.x.n, INPUTS_WIDTH, i.x.n };
    struct dsflow_err err;

    (void)state;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &a, &err), 0);
    a.tile.input_group = 48;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg,
                        "norm.forward: inputs by quantizer 1 of 8 bits "
                        "in groups of 48: there is none");
    a.tile.input_group = 128;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &a, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "norm.forward: rows of 64 inputs: expected "
                                 "groups of 128");
    a.tile.input_quantizer = DSF_TERNARY;
    assert_int_equal(check_elems(&dsf_op_norm_forward, elems, 3, &a, &err),
                     DSFLOW_EINVAL);
    inputs_free(&i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_qkv),     cmocka_unit_test(test_out),
        cmocka_unit_test(test_mlp),     cmocka_unit_test(test_columns),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
