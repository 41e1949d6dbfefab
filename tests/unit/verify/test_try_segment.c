/* test_try_segment.c - gradients that are not those of the forward pass are
 * found, and random cases follow from a segment's description. */
#include "verify/try_segment.h"

#include "../examples/plugins/gated_norm.c"

#include "segments/segment.h"

#include "lib/test.h"

#include <string.h>

static const struct dsf_verify_options how = { .seed = 1, .cases = 2 };

/* Of one op of a segment, in a process of its own. */
struct attempt {
    const char *replaced; /* "mlp.backward_input", or NULL: … */
    const char *builtin;  /* … this one is tried as it is */
    const char *spoiled;  /* port of the one that is replaced, or NULL */
};

static dsflow_cpu_fn right;

static void compute(const struct dsflow_call *call)
{
    right(call);
}

/* The port of the op whose numbers are a tenth too large. */
static unsigned spoiled;

static void compute_too_much(const struct dsflow_call *call)
{
    const struct dsflow_buf *buf = &call->bufs[spoiled];

    right(call);
    for (int64_t i = 0; i < buf->elems; i++)
        ((float *)buf->ptr)[i] *= 1.1f;
}

/* A segment with one op of its own, which computes the same, or too much. */
static const struct dsflow_op *replace(const struct attempt *a)
{
    static struct dsflow_op op;
    static struct dsflow_codelet codelet;
    static struct dsflow_segment segment;
    const struct dsflow_op *of = dsflow_op_find(a->replaced);
    const struct dsflow_segment *was = dsf_segment_of_op(of);
    struct dsflow_err err = { .msg = "" };

    op = *of;
    op.name = "own.op";
    codelet = *dsflow_codelet_find(of);
    right = codelet.cpu;
    codelet.op = &op;
    codelet.cpu = a->spoiled != NULL ? compute_too_much : compute;
    for (unsigned i = 0; i < op.nports && a->spoiled != NULL; i++)
        if (op.ports[i].name != NULL &&
            strcmp(op.ports[i].name, a->spoiled) == 0)
            spoiled = i;
    segment = (struct dsflow_segment){
        .abi = DSFLOW_SEGMENT_ABI,
        .name = "own",
        .summary = "one of a test",
        .replaces = was->name,
        .forward = of == was->forward ? &op : was->forward,
        .backward_input = of == was->backward_input ? &op : NULL,
        .backward_weight = of == was->backward_weight ? &op : NULL,
    };
    if (dsflow_op_register(&op, &err) < 0 ||
        dsflow_codelet_register(&codelet, &err) < 0 ||
        dsflow_segment_register(&segment, &err) < 0)
        dsf_child_fault("the test: %s", err.msg);
    return &op;
}

/* A segment that has no random cases but those of its description. */
static void add_gated_norm(void)
{
    struct dsflow_err err;

    if (dsflow_plugin_add(&dsflow_plugin, "gated_norm", &err) < 0)
        dsf_child_fault("the test: %s", err.msg);
}

static void try_it(const void *user, struct dsf_verdict *verdict)
{
    const struct attempt *a = user;
    const struct dsflow_op *original, *op;
    const struct dsflow_segment *segment;

    add_gated_norm();
    op = a->replaced != NULL ? replace(a) : dsflow_op_find(a->builtin);
    segment = dsf_segment_of(op, &original);
    if (segment == NULL)
        dsf_child_fault("is of no segment");
    if (strcmp(original->name,
               a->replaced != NULL ? a->replaced : a->builtin) != 0)
        dsf_child_fault("takes the place of %s", original->name);
    dsf_try_gradients(segment, op, &how);
    verdict->cases = how.cases;
}

static struct dsf_verdict verdict_of(const struct attempt *a)
{
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(try_it, a, 60, &verdict);
    return verdict;
}

static const struct {
    const char *op, *gradient; /* the last that it writes */
} backward[] = {
    { "embed.backward_weight", "grad" },
    { "qkv.backward_input", "dx" },
    { "qkv.backward_weight", "grad" },
    { "attention.backward_input", "dkv" },
    { "out.backward_input", "datt" },
    { "out.backward_weight", "grad" },
    { "mlp.backward_input", "dx" },
    { "mlp.backward_weight", "grad" },
    { "head.backward_input", "dx" },
    { "head.backward_weight", "grad" },
    { "head.backward_weight", "norm_grad" },
};
enum { NBACKWARD = sizeof(backward) / sizeof(*backward) };

static void right_gradients_are_right(void **state)
{
    static const char *const described[] = { "gated_norm.backward_input",
                                             "gated_norm.backward_weight" };

    for (int i = 0; i < 2; i++)
        assert_string_equal(
            verdict_of(&(struct attempt){ .builtin = described[i] }).fault, "");
    for (int i = 0; i < NBACKWARD; i++) {
        struct dsf_verdict v =
            verdict_of(&(struct attempt){ .builtin = backward[i].op });

        if (v.fault[0] != '\0' || v.cases != how.cases)
            fail_msg("%s: %s", backward[i].op, v.fault);
        v = verdict_of(&(struct attempt){ .replaced = backward[i].op });
        if (v.fault[0] != '\0')
            fail_msg("in the place of %s: %s", backward[i].op, v.fault);
    }
}

static void wrong_gradients_are_found(void **state)
{
    for (int i = 0; i < NBACKWARD; i++) {
        struct attempt a = { .replaced = backward[i].op,
                             .spoiled = backward[i].gradient };
        char want[100];

        snprintf(want, sizeof(want), "its gradient is wrong: port %s is ",
                 backward[i].gradient);
        if (strstr(verdict_of(&a).fault, want) == NULL)
            fail_msg("%s: %s: expected %s", a.replaced, verdict_of(&a).fault,
                     want);
    }
}

static void fill_otherwise(const struct dsflow_site *site, void *args)
{
    fill(site, args);
    ((struct args *)args)->tile.rows++;
}

static void make_case(const void *user, struct dsf_verdict *verdict)
{
    static struct dsflow_segment other;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    struct dsflow_err err = { .msg = "" };
    struct args args = { .w = 0 };
    unsigned n, fresh = 0;

    other = gated_norm;
    other.fill = fill_otherwise;
    if (dsflow_segment_register(&other, &err) < 0)
        dsf_child_fault("the test: %s", err.msg);
    dsf_trials_described.make(&forward_op, 1, shapes, &n, &args, &fresh);
}

static void arguments_begin_with_the_tile(void **state)
{
    struct dsf_verdict verdict = { .cases = 0 };

    dsf_child_run(make_case, NULL, 60, &verdict);
    assert_string_equal(verdict.fault, "its fill: expected arguments that "
                                       "begin with the tile");
}

/* A forward pass that computes something else has other gradients than those
 * that are built in. */
static void a_forward_pass_answers_for_the_gradients_it_has(void **state)
{
    struct attempt a = { .replaced = "out.forward", .spoiled = "y" };

    assert_non_null(
        strstr(verdict_of(&a).fault, "its gradient is wrong: port datt is "));
    a.spoiled = NULL;
    assert_string_equal(verdict_of(&a).fault, "");
}

/* The cases of a description are those that the op's check accepts. */
static void try_described(const void *user, struct dsf_verdict *verdict)
{
    const struct dsflow_op *op;
    struct dsf_case c;
    size_t bytes[2] = { 0 };

    add_gated_norm();
    op = dsflow_op_find(user);
    for (uint64_t seed = 1; seed <= 20; seed++) {
        dsf_case_make(&c, op, &dsf_trials_described, seed);
        if (c.n != op->nports)
            dsf_child_fault("%u ports", c.n);
        bytes[seed % 2] += c.shapes[0].bytes;
        for (unsigned i = 0; i < c.n; i++)
            if ((c.before[i] == NULL) !=
                (c.fresh >> i & 1 || op->ports[i].access == DSFLOW_W))
                dsf_child_fault("port %u", i);
        verdict->cases++;
        dsf_case_free(&c);
    }
    if (bytes[0] == bytes[1])
        dsf_child_fault("the same shapes for each seed");
}

static void cases_follow_from_a_description(void **state)
{
    static const char *const described[] = { "gated_norm.forward",
                                             "gated_norm.backward_input",
                                             "gated_norm.backward_weight" };

    for (size_t i = 0; i < sizeof(described) / sizeof(*described); i++) {
        struct dsf_verdict v = { .cases = 0 };

        dsf_child_run(try_described, described[i], 60, &v);
        assert_string_equal(v.fault, "");
        assert_int_equal(v.cases, 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_gradients_are_right),
        cmocka_unit_test(wrong_gradients_are_found),
        cmocka_unit_test(arguments_begin_with_the_tile),
        cmocka_unit_test(a_forward_pass_answers_for_the_gradients_it_has),
        cmocka_unit_test(cases_follow_from_a_description),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
