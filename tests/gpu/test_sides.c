/* test_sides.c - the CUDA side of each kind of task on random cases, beside its
 * CPU side: each case several times, in another order of blocks, warps and lanes
 * every time, with the same bits. */
#include "lib/test.h"

#include "codelets/codelets.h"
#include "gpu/emulation/emulated.h"
#include "gpu/gpu.h"
#include "tasks/tasks.h"
#include "verify/try_codelet.h"

#include <string.h>

static const struct dsf_gpu_side *const sides[] = {
#define DSF_GPU_SIDE(name) &dsf_gpu_side_##name,
#include "gpu/sides.h"
#undef DSF_GPU_SIDE
    NULL
};

enum { CASES = 24 };

/* The one that is tried, in the process that tries it. */
static const struct dsf_gpu_side *side;

static void compute(const struct dsflow_call *call)
{
    const char *fault;

    side->run(call, NULL);
    fault = emulated_fault();
    if (fault != NULL)
        dsf_child_fault("%s", fault);
}

static void try_side(const void *user, struct dsf_verdict *verdict)
{
    const struct dsflow_op *op;
    const struct dsflow_codelet *codelet;
    struct dsflow_op on_gpu;

    side = user;
    op = dsflow_op_find(side->op);
    codelet = op == NULL ? NULL : dsflow_codelet_find(op);
    if (codelet == NULL || codelet->cpu == NULL || codelet->trials == NULL)
        dsf_child_fault("is no kind of task that can be tried");
    on_gpu = *op;
    on_gpu.scratch = side->scratch;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        const struct dsf_computes gpu = { &on_gpu, compute };
        const struct dsf_computes cpu = { op, codelet->cpu };
        struct dsf_case c;

        dsf_case_make(&c, op, codelet->trials, seed);
        if (c.n > 0)
            dsf_case_try(&c, &gpu, &cpu);
        verdict->cases += c.n > 0;
        dsf_case_free(&c);
    }
}

/* An argument names one of them. */
static const char *only;

static void each_side_leaves_what_cores_do(void **state)
{
    unsigned wrong = 0;

    for (size_t i = 0; sides[i] != NULL; i++) {
        struct dsf_verdict verdict;

        if (only != NULL && strcmp(only, sides[i]->op) != 0)
            continue;
        dsf_child_run(try_side, sides[i], 60, &verdict);
        if (verdict.fault[0] != 0)
            print_error("%s: %s\n", sides[i]->op, verdict.fault);
        else
            assert_true(verdict.cases > 0);
        wrong += verdict.fault[0] != 0;
    }
    assert_int_equal(wrong, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_side_leaves_what_cores_do),
    };

    only = argc > 1 ? argv[1] : NULL;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
