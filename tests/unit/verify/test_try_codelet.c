/* test_try_codelet.c - what is wrong with a codelet is found on random cases,
 * and said with the port and the element. */
#include "verify/try_codelet.h"

#include "base/half.h"
#include "lib/test.h"

#include <math.h>
#include <string.h>

/* y = factor x, z += x: a port of each access. */
struct args {
    int64_t elems;
    float factor;
};

enum { X, Y, Z };

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct args *a = c->args;

    if (c->shapes[Y].elems != a->elems)
        return dsflow_fail(err, DSFLOW_EINVAL, "y: %lld numbers: expected %lld",
                           (long long)c->shapes[Y].elems, (long long)a->elems);
    return DSFLOW_OK;
}

static size_t scratch_of(const struct dsflow_case *c)
{
    return sizeof(float);
}

#define OP(...)                                                                \
    {                                                                          \
        .abi = DSFLOW_OP_ABI, .name = "scale", .summary = "y = factor x",      \
        .args_size = sizeof(struct args), .check = check,                      \
        .scratch = scratch_of,                                                 \
        DSFLOW_PORTS([X] = { "x", DSFLOW_R, DSFLOW_FP32 },                     \
                     [Y] = { "y", DSFLOW_W, DSFLOW_FP32 },                     \
                     [Z] = { "z", DSFLOW_RW, DSFLOW_FP32 }),                   \
        __VA_ARGS__                                                            \
    }
static const struct dsflow_op op = OP();

static int make(const struct dsflow_op *of, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    struct args *a = args;

    if (seed % 5 == 4) /* there is no such case */
        return DSFLOW_EINVAL;
    *a = (struct args){ 3 + (int64_t)(seed % 40), 0.5f };
    for (*n = 0; *n < 3; ++*n)
        shapes[*n] = dsflow_shape_of(DSFLOW_FP32, a->elems);
    *fresh = seed % 2 == 0 ? 1u << Z : 0;
    return DSFLOW_OK;
}

/* All that a codelet has to do, and what comes after it, which is wrong. */
struct view {
    const struct args *a;
    float *x, *y, *z, *scratch;
    bool fresh;
};

static struct view scale(const struct dsflow_call *call)
{
    struct view v = {
        call->args,        call->bufs[X].ptr, call->bufs[Y].ptr,
        call->bufs[Z].ptr, call->scratch,     call->fresh >> Z & 1
    };

    for (int64_t i = 0; i < v.a->elems; i++) {
        v.y[i] = v.a->factor * v.x[i];
        v.z[i] = (v.fresh ? 0 : v.z[i]) + v.x[i];
    }
    return v;
}

static void is_well(const struct dsflow_call *call)
{
    scale(call);
}

static void writes_what_it_reads(const struct dsflow_call *call)
{
    scale(call).x[0] = 1;
}

static void writes_past_the_end(const struct dsflow_call *call)
{
    struct view v = scale(call);

    v.y[(v.a->elems + 15) / 16 * 16] = 1;
}

static void writes_a_little_past_the_end(const struct dsflow_call *call)
{
    struct view v = scale(call);

    v.y[v.a->elems] = 1;
}

static void writes_before_the_beginning(const struct dsflow_call *call)
{
    scale(call).z[-1] = 1;
}

static void adds_to_what_is_fresh(const struct dsflow_call *call)
{
    struct view v = { .z = call->bufs[Z].ptr };
    float held = v.z[1];

    v = scale(call);
    v.z[1] = (isnan(held) ? 0 : held) + v.x[1];
}

static void reads_what_it_writes(const struct dsflow_call *call)
{
    const struct args *a = call->args;
    float held = ((const float *)call->bufs[Y].ptr)[a->elems - 1];

    scale(call).y[0] = isnan(held) ? 0 : 1;
}

static void reads_its_scratch(const struct dsflow_call *call)
{
    struct view v = scale(call);

    v.y[1] += isnan(*v.scratch) ? 0 : 1;
}

static void counts_its_calls(const struct dsflow_call *call)
{
    static float calls;

    scale(call).y[2] = ++calls;
}

static void forgets_one(const struct dsflow_call *call)
{
    const struct args *a = call->args;
    float *y = call->bufs[Y].ptr, held = y[a->elems - 1];

    scale(call);
    y[a->elems - 1] = held;
}

static void gives_no_number(const struct dsflow_call *call)
{
    scale(call).y[1] = NAN;
}

static void gives_infinity(const struct dsflow_call *call)
{
    scale(call).z[1] = INFINITY;
}

static void is_a_little_off(const struct dsflow_call *call)
{
    scale(call).y[1] += 0.01f;
}

static float *volatile nowhere = (float *)(uintptr_t)64;

static void crashes(const struct dsflow_call *call)
{
    scale(call);
    *nowhere = 1;
}

static double costs_less_than_nothing = -1;

static void bad_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->flops = costs_less_than_nothing;
}

static const struct dsflow_op bad_cost_op = OP(.cost = bad_cost);

static int make_two_ports(const struct dsflow_op *of, uint64_t seed,
                          struct dsflow_shape *shapes, unsigned *n, void *args,
                          unsigned *fresh)
{
    int status = make(of, seed, shapes, n, args, fresh);

    *n = 2;
    return status;
}

static int make_other_shapes(const struct dsflow_op *of, uint64_t seed,
                             struct dsflow_shape *shapes, unsigned *n,
                             void *args, unsigned *fresh)
{
    int status = make(of, seed, shapes, n, args, fresh);

    ((struct args *)args)->elems++;
    return status;
}

static int make_fewer_than_none(const struct dsflow_op *of, uint64_t seed,
                                struct dsflow_shape *shapes, unsigned *n,
                                void *args, unsigned *fresh)
{
    int status = make(of, seed, shapes, n, args, fresh);

    shapes[1] = dsflow_shape_of(DSFLOW_FP32, -2);
    return status;
}

static int make_no_type(const struct dsflow_op *of, uint64_t seed,
                        struct dsflow_shape *shapes, unsigned *n, void *args,
                        unsigned *fresh)
{
    int status = make(of, seed, shapes, n, args, fresh);

    shapes[0].dtype = DSFLOW_NDTYPES;
    return status;
}

static int make_nothing(const struct dsflow_op *of, uint64_t seed,
                        struct dsflow_shape *shapes, unsigned *n, void *args,
                        unsigned *fresh)
{
    return DSFLOW_EINVAL;
}

static const struct dsflow_trials trials = { .make = make };
static const struct dsflow_trials wide = { .make = make, .tolerance = 0.1 };
static const struct dsflow_trials two_ports = { .make = make_two_ports };
static const struct dsflow_trials other_shapes = { .make = make_other_shapes };
static const struct dsflow_trials fewer = { .make = make_fewer_than_none };
static const struct dsflow_trials no_type = { .make = make_no_type };
static const struct dsflow_trials none = { .make = make_nothing };

struct attempt {
    const struct dsflow_op *op;
    dsflow_cpu_fn cpu, reference;
    const struct dsflow_trials *trials;
    uint64_t seed;
    unsigned cases;
    bool same_bits; /* as those of the reference */
};

static void try_it(const void *user, struct dsf_verdict *verdict)
{
    const struct attempt *a = user;
    const struct dsf_computes codelet = { .op = a->op, .cpu = a->cpu };
    const struct dsf_computes reference = { .op = a->op,
                                            .cpu = a->reference,
                                            .same_bits = a->same_bits };
    const struct dsf_verify_options how = { .seed = a->seed,
                                            .cases = a->cases };

    dsf_try_codelet(&codelet, &reference, a->trials, &how, verdict);
}

/* What is found of a codelet on the case of a seed. */
static struct dsf_verdict verdict_of(const struct attempt *a)
{
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(try_it, a, 60, &verdict);
    return verdict;
}

static void one_that_is_well_is_timed(void **state)
{
    struct attempt a = { &op, is_well, is_well, &trials, 1, 5 };
    struct dsf_verdict verdict = verdict_of(&a);

    assert_string_equal(verdict.fault, "");
    assert_int_equal(verdict.cases, 4); /* seed 4 gives none */
    assert_true(verdict.seconds > 0 && verdict.reference > 0);
    /* Of the largest case, of 8 numbers: x once, y once, z twice. */
    assert_true(verdict.bytes == 8 * 4 * sizeof(float));
    a.reference = NULL;
    verdict = verdict_of(&a);
    assert_string_equal(verdict.fault, "");
    assert_true(verdict.reference == 0);
    a = (struct attempt){ &op, is_a_little_off, is_well, &wide, 1, 5 };
    assert_string_equal(verdict_of(&a).fault, "");
}

#define CASE    "x 4 fp32, y 4 fp32, z 4 fp32; "
#define SEED(n) "--seed " #n " --cases 1"

static void what_is_wrong_is_said(void **state)
{
    static const struct {
        struct attempt a;
        const char *fault, *where;
    } cases[] = {
        { { &op, writes_what_it_reads, NULL, &trials, 1, 1 },
          "writes port x, which it declares as R, at byte 0",
          CASE SEED(1) },
        { { &op, writes_past_the_end, NULL, &trials, 1, 1 },
          "writes past the end of port y, at byte 64 of 16",
          CASE SEED(1) },
        { { &op, writes_a_little_past_the_end, NULL, &trials, 1, 1 },
          "writes 4 bytes past the end of port y",
          CASE SEED(1) },
        { { &op, writes_before_the_beginning, NULL, &trials, 1, 1 },
          "writes 4 bytes before the beginning of port z",
          CASE SEED(1) },
        { { &op, reads_what_it_writes, NULL, &trials, 1, 1 },
          "depends on what port y held before, which it declares as W",
          CASE SEED(1) },
        { { &op, adds_to_what_is_fresh, NULL, &trials, 1, 2 },
          "depends on what port z held before, which is fresh in this case",
          "x 5 fp32, y 5 fp32, z 5 fp32; " SEED(2) },
        { { &op, reads_its_scratch, NULL, &trials, 1, 1 },
          "depends on what its scratch held before: port y, element 1: "
          "-0.487343788, then 0.512656212",
          CASE SEED(1) },
        { { &op, counts_its_calls, NULL, &trials, 1, 1 },
          "is not the same twice: port y, element 2: 1, then 2",
          CASE SEED(1) },
        { { &op, forgets_one, NULL, &trials, 1, 1 },
          "does not write port y, element 3",
          CASE SEED(1) },
        { { &op, gives_no_number, NULL, &trials, 1, 1 },
          "returns NaN in port y, element 1",
          CASE SEED(1) },
        { { &op, gives_infinity, NULL, &trials, 1, 1 },
          "returns infinity in port z, element 1",
          CASE SEED(1) },
        { { &op, is_a_little_off, is_well, &trials, 1, 1 },
          "differs from its reference in port y, element 1: -0.477343798, "
          "expected -0.487343788",
          CASE SEED(1) },
        { { &op, crashes, NULL, &trials, 1, 1 },
          "crashes: SIGSEGV at address 0x40, outside its buffers",
          CASE SEED(1) },
        { { &op, is_well, crashes, &trials, 1, 1 },
          "its reference crashes: SIGSEGV at address 0x40, outside its buffers",
          CASE SEED(1) },
        { { &bad_cost_op, is_well, NULL, &trials, 1, 1 },
          "the op's cost: -1 operations, 0 bytes",
          SEED(1) },
        { { &op, is_well, NULL, &two_ports, 1, 1 },
          "its trials: a case has 2 ports: expected 3",
          SEED(1) },
        { { &op, is_well, NULL, &other_shapes, 1, 1 },
          "its trials: the op's check refuses a case: y: 4 numbers: expected 5",
          SEED(1) },
        { { &op, is_well, NULL, &fewer, 1, 1 },
          "its trials: port y: -2 elements of type fp32 in 0 bytes: expected "
          "what dsflow_shape_of makes",
          SEED(1) },
        { { &op, is_well, NULL, &no_type, 1, 1 },
          "its trials: port x: 4 elements of type ? in 16 bytes: expected what "
          "dsflow_shape_of makes",
          SEED(1) },
        { { &op, is_well, NULL, &none, 1, 3 },
          "its trials: none of 3 seeds gives a case",
          "--seed 1 --cases 3" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_verdict verdict = verdict_of(&cases[i].a);
        char want[400];

        snprintf(want, sizeof(want), "%s (%s)", cases[i].fault, cases[i].where);
        assert_string_equal(verdict.fault, want);
    }
}

/* What a reference leaves as it was, a codelet may leave too. */
static void what_the_reference_does_not_write_is_not_asked_for(void **state)
{
    struct attempt a = { &op, forgets_one, forgets_one, &trials, 1, 1 };

    assert_string_equal(verdict_of(&a).fault, "");
}

/* y = 3 x in the type of x, sum += x in that or fp32. */
static const struct dsflow_op narrow_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "triple",
    .args_size = sizeof(struct args),
    DSFLOW_PORTS([X] = { "x", DSFLOW_R, .floats = DSFLOW_NARROW },
                 [Y] = { "y", DSFLOW_W, .floats = DSFLOW_NARROW },
                 [Z] = { "sum", DSFLOW_RW, .floats = DSFLOW_NARROW_SUM }),
};

static float get(const struct dsflow_buf *b, int64_t i)
{
    const uint16_t *v = b->ptr;

    return b->dtype == DSFLOW_BF16   ? dsf_from_bf16(v[i])
           : b->dtype == DSFLOW_FP16 ? dsf_from_fp16(v[i])
                                     : ((const float *)b->ptr)[i];
}

static void put(const struct dsflow_buf *b, int64_t i, float x)
{
    uint16_t *v = b->ptr;

    if (b->dtype == DSFLOW_BF16)
        v[i] = dsf_to_bf16(x);
    else if (b->dtype == DSFLOW_FP16)
        v[i] = dsf_to_fp16(x);
    else
        ((float *)b->ptr)[i] = x;
}

static void of_any_type(const struct dsflow_call *call, float factor)
{
    const struct dsflow_buf *b = call->bufs;
    bool fresh = call->fresh >> Z & 1;

    for (int64_t i = 0; i < b[X].elems; i++) {
        put(&b[Y], i, factor * get(&b[X], i));
        put(&b[Z], i, (fresh ? 0 : get(&b[Z], i)) + get(&b[X], i));
    }
}

static void takes_any_type(const struct dsflow_call *call)
{
    of_any_type(call, 3);
}

static void is_well_in_fp32_alone(const struct dsflow_call *call)
{
    of_any_type(call, call->bufs[X].dtype == DSFLOW_FP32 ? 3 : 3.3f);
}

static void is_off_in_fp16_alone(const struct dsflow_call *call)
{
    of_any_type(call, call->bufs[X].dtype == DSFLOW_FP16 ? 3.03f : 3);
}

/* Each third seed has a type: what is off in one is found there, beside what
 * the codelet itself makes of the same numbers in fp32, or its reference. */
static void narrow_ports_are_tried_in_every_type(void **state)
{
    struct attempt a = { &narrow_op, takes_any_type, NULL, &trials, 0, 60 };
    struct dsf_verdict verdict;

    verdict = verdict_of(&a);
    assert_string_equal(verdict.fault, "");
    a.reference = takes_any_type;
    assert_string_equal(verdict_of(&a).fault, "");
    a.cpu = is_well_in_fp32_alone;
    assert_non_null(
        strstr(verdict_of(&a).fault, "differs from its reference in port y"));
    a.reference = NULL;
    verdict = verdict_of(&a);
    assert_non_null(
        strstr(verdict.fault, "differs from its reference in port y"));
    assert_non_null(strstr(verdict.fault, "(x 4 bf16, y 4 bf16, sum 4 "));
    a.cpu = is_off_in_fp16_alone;
    assert_non_null(strstr(verdict_of(&a).fault, "y 5 fp16"));
}

static void is_a_bit_off(const struct dsflow_call *call)
{
    struct view v = scale(call);

    v.y[2] = nextafterf(v.y[2], 1);
}

static void is_a_bit_off_in_bf16(const struct dsflow_call *call)
{
    takes_any_type(call);
    if (call->bufs[X].dtype == DSFLOW_BF16)
        ((uint16_t *)call->bufs[Y].ptr)[1] ^= 1;
}

/* Where they are promised: of narrow numbers, too. */
static void a_bit_that_is_not_the_reference_s_is_found(void **state)
{
    struct attempt a = { &op, is_a_bit_off, is_well, &trials, 1, 1, false };

    assert_string_equal(verdict_of(&a).fault, "");
    a.same_bits = true;
    assert_non_null(strstr(verdict_of(&a).fault,
                           "has other bits than its reference in port y, "
                           "element 2: "));
    a.cpu = is_well;
    assert_string_equal(verdict_of(&a).fault, "");
    a = (struct attempt){ &narrow_op, is_a_bit_off_in_bf16, takes_any_type,
                          &trials,    0,                    60,
                          true };
    assert_non_null(strstr(verdict_of(&a).fault, "(x 4 bf16, y 4 bf16, sum"));
    a.same_bits = false;
    assert_string_equal(verdict_of(&a).fault, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_well_is_timed),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(what_the_reference_does_not_write_is_not_asked_for),
        cmocka_unit_test(narrow_ports_are_tried_in_every_type),
        cmocka_unit_test(a_bit_that_is_not_the_reference_s_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
