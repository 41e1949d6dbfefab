/* test_sides.c - the CUDA side of each kind of task on random cases, beside its
 * CPU side: each case several times, in another order of blocks, warps and lanes
 * every time, with the same bits. */
#include "lib/test.h"

#include "codelets/codelets.h"
#include "codelets/trials.h"
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

/* Of any shapes; and of segments, in bf16 or fp16, with sizes that are multiples
 * of 8, so that what is computed by rows of 16 bytes and in one pass with its
 * product is tried too. */
enum { CASES = 24, ALIGNED = 6 };

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

/* A case of a tensor rank for every other seed. */
static void try_seed(const struct dsflow_codelet *codelet, uint64_t seed,
                     struct dsf_verdict *verdict)
{
    const struct dsflow_trials *trials = codelet->trials;
    struct dsflow_op on_gpu = *codelet->op;
    const struct dsf_computes gpu = { &on_gpu, compute };
    const struct dsf_computes cpu = { codelet->op, codelet->cpu };
    struct dsf_case c;

    on_gpu.scratch = side->scratch;
    if (trials == &dsf_trials_segment && seed % 2 == 1)
        trials = &dsf_trials_part;
    dsf_case_make(&c, codelet->op, trials, seed);
    if (c.n > 0)
        dsf_case_try(&c, &gpu, &cpu);
    verdict->cases += c.n > 0;
    dsf_case_free(&c);
}

/* Is it a small case of narrow numbers whose sizes are multiples of 8? */
static int is_aligned(uint64_t seed)
{
    uint64_t state = seed;
    const struct dsflow_tile t = dsf_any_tile(&state);

    return seed % 3 != 0 && (t.width | t.ffn | t.head_dim) % 8 == 0 &&
           t.width < 256;
}

static void try_side(const void *user, struct dsf_verdict *verdict)
{
    const struct dsflow_codelet *codelet = NULL;
    const struct dsflow_op *op;
    unsigned aligned = 0;

    side = user;
    op = dsflow_op_find(side->op);
    if (op != NULL)
        codelet = dsflow_codelet_find(op);
    if (codelet == NULL || codelet->cpu == NULL || codelet->trials == NULL)
        dsf_child_fault("is no kind of task that can be tried");
    for (uint64_t seed = 1; seed <= CASES; seed++)
        try_seed(codelet, seed, verdict);
    for (uint64_t seed = 1; aligned < ALIGNED && op->segment != NULL; seed++)
        if (is_aligned(seed)) {
            try_seed(codelet, seed, verdict);
            aligned++;
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
    dsf_trials_wide_gradients = true; /* GPUs take no others */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
