/* test_sides.c - the CUDA side of each kind of task on random cases, beside its
 * CPU side: each case several times, in another order of blocks, warps and
 * lanes every time, with the same bits.
 *
 *     test_sides [--here] [--models] [--without-products] [KIND]
 *
 * --here: in this process, which ends at the first fault; for tools that follow
 * no children. --models: cases as wide as models are; emulated GPUs take
 * minutes. --without-products: of kinds that have none, as kernels of the library
 * do not start under all tools. DSFLOW_GPU_CASES says how many cases,
 * DSFLOW_GPU_SECONDS after how many a case hangs. */
#include "lib/test.h"

#include "base/units.h"
#include "codelets/trials.h"
#include "gpu/place.h"
#include "verify/try_codelet.h"

#include <stdlib.h>
#include <string.h>

/* Of any shapes; and of segments, in bf16 or fp16, with sizes that are
 * multiples of 8, so that what is computed by rows of 16 bytes and in one pass
 * with its product is tried too. */
enum { CASES = 24, ALIGNED = 6, SECONDS = 60 };

/* Some rows as wide as those of GPT-2 124M and 1.5B and of a LLaMA, with fewer
 * words and hidden numbers. */
static const struct dsflow_tile models[] = {
    { .rows = 96,
      .nseq = 3,
      .width = 768,
      .heads = 12,
      .kv_heads = 12,
      .head_dim = 64,
      .ffn = 1536,
      .vocab = 1003,
      .context = 1024,
      .eps = 1e-5f },
    { .rows = 72,
      .nseq = 1,
      .width = 1600,
      .heads = 25,
      .kv_heads = 25,
      .head_dim = 64,
      .ffn = 800,
      .vocab = 504,
      .context = 128,
      .eps = 1e-5f },
    { .rows = 264,
      .nseq = 2,
      .width = 1024,
      .heads = 8,
      .kv_heads = 2,
      .head_dim = 128,
      .ffn = 704,
      .vocab = 800,
      .context = 4096,
      .rms = 1,
      .swiglu = 1,
      .rope = 1,
      .eps = 1e-5f },
};
static bool of_models;

/* Of whole segments, in bf16. */
enum { MODEL_SEED = 4 };

/* The one that is tried, in the process that tries it. */
static const struct dsf_gpu_side *side;

static void compute(const struct dsflow_call *call)
{
    const char *fault = place_run(side, call);

    if (fault != NULL)
        dsf_child_fault("%s", fault);
}

/* A case of a tensor rank for every other seed. */
static void try_seed(const struct dsflow_codelet *codelet, uint64_t seed,
                     struct dsf_verdict *verdict)
{
    const struct dsflow_trials *trials = codelet->trials;
    struct dsflow_op on_gpu = *codelet->op;
    const struct dsf_computes gpu = { .op = &on_gpu, .cpu = compute };
    const struct dsf_computes cpu = { .op = codelet->op, .cpu = codelet->cpu };
    struct dsf_case c;

    on_gpu.scratch = place_scratch(side);
    if (trials == &dsf_trials_segment && seed % 2 == 1)
        trials = &dsf_trials_part;
    dsf_case_make(&c, codelet->op, trials, seed);
    if (c.n > 0 && side->lacks != NULL && side->lacks(c.args) != NULL) {
        dsf_case_free(&c);
        return;
    }
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

/* But for logits, whose exponentials in bf16 are not near enough: numbers of so
 * wide a case are larger than a model's. */
static void try_models(const struct dsflow_codelet *codelet,
                       struct dsf_verdict *verdict)
{
    if (codelet->op->segment == NULL || strcmp(side->op, "head.forward") == 0)
        return;
    for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++) {
        dsf_trials_tile = &models[i];
        try_seed(codelet, MODEL_SEED, verdict);
    }
}

static uint64_t number(const char *variable, uint64_t otherwise)
{
    const char *wanted = getenv(variable);

    return wanted != NULL ? strtoull(wanted, NULL, 10) : otherwise;
}

static uint64_t cases(void)
{
    return number("DSFLOW_GPU_CASES", CASES);
}

static void try_side(struct dsf_verdict *verdict)
{
    const struct dsflow_op *op = dsflow_op_find(side->op);
    const struct dsflow_codelet *codelet =
        op != NULL ? dsflow_codelet_find(op) : NULL;
    uint64_t aligned = cases() < ALIGNED ? cases() : ALIGNED;

    if (codelet == NULL || codelet->cpu == NULL || codelet->trials == NULL)
        dsf_child_fault("is no kind of task that can be tried");
    verdict->cases = 0;
    if (of_models) {
        try_models(codelet, verdict);
        return;
    }
    for (uint64_t seed = 1; seed <= cases() || verdict->cases == 0; seed++)
        try_seed(codelet, seed, verdict);
    for (uint64_t seed = 1; aligned > 0 && op->segment != NULL; seed++)
        if (is_aligned(seed)) {
            try_seed(codelet, seed, verdict);
            aligned--;
        }
}

/* An argument names one of them; others are above. */
static const char *only;
static bool is_here, own_kernels;

static bool has_products(const char *op)
{
    static const char *const segments[] = { "mlp", "qkv", "out", "head" };

    for (unsigned i = 0; i < sizeof(segments) / sizeof(*segments); i++) {
        size_t n = strlen(segments[i]);

        if (strncmp(op, segments[i], n) == 0 && op[n] == '.' &&
            strstr(op, ".loss") == NULL)
            return true;
    }
    return strcmp(op, "muon") == 0;
}

static bool is_wanted(const char *op)
{
    return only != NULL ? strcmp(only, op) == 0
                        : !own_kernels || !has_products(op);
}

/* What is printed says how far it got: tools take their time, and kernels that
 * crash take the process with them. */
static void try_and_say(struct dsf_verdict *verdict)
{
    const double start = dsf_now();

    if (is_here)
        print_message("%s...\n", side->op);
    fflush(stdout);
    try_side(verdict);
    print_message("%-26s %3u cases, %.2f s\n", side->op, verdict->cases,
                  dsf_now() - start);
    fflush(stdout);
}

/* Those from *user on, in one process: CUDA takes its time to begin. The
 * verdict says which one is tried. */
static void try_sides(const void *user, struct dsf_verdict *verdict)
{
    const struct dsf_gpu_side *const *all = user;

    for (; *all != NULL; all++) {
        side = *all;
        snprintf(verdict->note, sizeof(verdict->note), "%s", side->op);
        dsf_child_step("", "");
        if (is_wanted(side->op))
            try_and_say(verdict);
    }
}

static const struct dsf_gpu_side *const *
behind(const struct dsf_gpu_side *const *from, const char *op)
{
    while (*from != NULL && strcmp((*from)->op, op) != 0)
        from++;
    return *from != NULL ? from + 1 : from;
}

static void each_side_leaves_what_cores_do(void **state)
{
    const struct dsf_gpu_side *const *from = place_sides();
    unsigned wrong = 0;

    while (*from != NULL) {
        struct dsf_verdict verdict;

        dsf_child_run(try_sides, from,
                      (double)number("DSFLOW_GPU_SECONDS", SECONDS), &verdict);
        assert_string_equal(verdict.untried, "");
        if (verdict.fault[0] == 0)
            break;
        print_error("%s: %s\n", verdict.note, verdict.fault);
        wrong++;
        from = behind(from, verdict.note);
    }
    assert_int_equal(wrong, 0);
}

static void tell(const struct dsf_verdict *verdict)
{
    print_error("%s: %s\n", verdict->note, verdict->fault);
}

static int try_here(void)
{
    struct dsf_verdict verdict = { 0 };

    dsf_child_here(&verdict, tell);
    try_sides(place_sides(), &verdict);
    return 0;
}

int PLACE_MAIN(sides)(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_side_leaves_what_cores_do),
    };

    only = NULL;
    is_here = of_models = own_kernels = false;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--here") == 0)
            is_here = true;
        else if (strcmp(argv[i], "--models") == 0)
            of_models = true;
        else if (strcmp(argv[i], "--without-products") == 0)
            own_kernels = true;
        else
            only = argv[i];
    if (is_here)
        return try_here();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
