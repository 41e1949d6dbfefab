/* test_inputs_cuda.c - inputs of products that are rounded, on a GPU: one
 * that is not there, in several orders of blocks, warps and lanes, or a real
 * one (test_module). */
#include "codelets/codelets.h"
#include "gpu/kernels.h"
#include "gpu/place.h"

/* The CUDA side of a codelet in the place of the CPU's. */
static const struct dsf_gpu_side *side;

static void on_gpu(const struct dsflow_call *call);
static const struct dsflow_codelet *with_gpu(const char *op,
                                             const struct dsflow_codelet *of);
#define INPUTS_CODELET(op) with_gpu(#op, &dsf_codelet_##op)
#include "unit/codelets/inputs.h"

static void on_gpu(const struct dsflow_call *call)
{
    const char *fault = place_run(side, call);

    if (fault != NULL)
        fail_msg("%s: %s", side->op, fault);
}

static const struct dsflow_codelet *with_gpu(const char *op,
                                             const struct dsflow_codelet *of)
{
    static struct dsflow_codelet codelet;
    static struct dsflow_op with_scratch;

    side = place_side(of->op->name);
    if (side == NULL)
        fail_msg("%s has no CUDA side", op);
    with_scratch = *of->op;
    with_scratch.scratch = place_scratch(side);
    codelet = (struct dsflow_codelet){ .op = &with_scratch, .cpu = on_gpu };
    return &codelet;
}

enum { ORDERS = 3 };

static void test_segments(void **state)
{
    (void)state;
    for (uint64_t order = 0; order < ORDERS; order++) {
        place_order(order);
        INPUTS_IN_EACH_WAY(inputs_wide);
        INPUTS_IN_EACH_WAY(inputs_qkv);
        INPUTS_IN_EACH_WAY(inputs_out);
        INPUTS_IN_EACH_WAY(inputs_mlp_forward);
        INPUTS_IN_EACH_WAY(inputs_mlp_backward);
    }
}

#ifndef TEST_MODULE
/* Whatever the address, the same. */
static void try_address(enum dsflow_dtype type, size_t bytes, int32_t group)
{
    enum { ROWS = 2, COLS = 4608 };
    const struct dsflow_tile t = { .input_quantizer = DSF_ASYMMETRIC,
                                   .input_bits = 4,
                                   .input_group = group };
    const size_t n = ROWS * COLS;
    struct tensor x = tensor_new(n, 1, 16);
    struct guarded in = guarded_new((n + 1) * bytes);
    struct guarded out = guarded_new((n + 1) * bytes);

    for (size_t k = 0; k < n && type == DSFLOW_BF16; k++)
        ((uint16_t *)(void *)x.f)[k] = narrow_of(type, x.f[k]);
    memcpy(in.p + bytes, x.f, n * bytes);
    dsf_gpu_round_inputs(&t, type, in.p + bytes, out.p + bytes, ROWS, COLS,
                         NULL);
    dsf_gpu_round_inputs(&t, type, x.f, x.f, ROWS, COLS, NULL);
    assert_null(place_fault());
    assert_memory_equal(out.p + bytes, x.f, n * bytes);
    guarded_free(&in);
    guarded_free(&out);
    tensor_free(&x);
}

static void test_addresses(void **state)
{
    static const int32_t groups[] = { 0, 16, 128 };

    (void)state;
    for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++) {
        try_address(DSFLOW_FP32, 4, groups[i]);
        try_address(DSFLOW_BF16, 2, groups[i]);
    }
}
#endif

int PLACE_MAIN(inputs)(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_segments),
#ifndef TEST_MODULE
        cmocka_unit_test(test_addresses),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
