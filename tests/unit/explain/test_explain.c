/* test_explain.c - what a trace says, in words and as JSON, with the changes
 * that somebody has found. */
#include "unit/train/small.h"

#include "explain/explain.h"
#include "train/record.h"

#include <jansson.h>

/* The simulation of the small job with these keys, as a trace that was read. */
static void simulate(struct dsf_trace *trace, const char *keys)
{
    const char *source = getenv("srcdir");
    char *machine = dsf_xasprintf("%s/examples/machines/laptop.toml",
                                  source != NULL ? source : ".");
    char *path = in_folder("@/trace.dsflow");
    struct dsf_machine_model m;
    struct dsf_session s;
    struct dsflow_err err;

    must(dsf_machine_model_read(machine, &m, &err), &err);
    open_small(&s, TO_PLAN, keys);
    must(dsf_record_simulation(&s, &m, path, &err), &err);
    must(dsf_trace_read(path, trace, &err), &err);
    dsf_session_close(&s);
    dsf_machine_model_fini(&m);
    free(path);
    free(machine);
}

/* What is found, in the place of a search. */
struct found {
    const char *limit, *missing;
    unsigned n, tried, left; /* changes, of those below */
    double reproduced;
};
static const struct found *given;

static const struct {
    const char *cause, *key, *from, *to, *also;
    double share, bytes;
    bool fits, rounds, machine, narrows;
} changes[] = {
    { "tasks are small", "batch.tile", "auto", "64", "batch.micro=2", 0.75,
      2048, true, true, false },
    { "tasks are small", "batch.micro", "1", "2", NULL, 0.9, -4096, true, false,
      false },
    { "links are slow", "link.bandwidth", "1", "2", NULL, 0.95, 8192, false,
      false, true },
    { "fp32 is slow", "precision.compute", "fp32", "bf16", NULL, 0.5, -8192,
      true, false, false, true },
};

static char *copy(const char *text)
{
    return text != NULL ? dsf_xstrdup(text) : NULL;
}

static void advise(struct dsf_advices *to, const struct dsf_account *a,
                   dsf_load_fn load)
{
    *to = (struct dsf_advices){
        .v = dsf_xcalloc(given->n + 1, sizeof(*to->v)),
        .n = given->n,
        .missing = copy(given->missing),
        .limit = copy(given->limit),
        .reproduced = given->reproduced,
        .tried = given->tried,
        .left = given->left,
    };
    for (unsigned i = 0; i < given->n; i++)
        to->v[i] = (struct dsf_advice){
            .cause = copy(changes[i].cause),
            .key = copy(changes[i].key),
            .from = copy(changes[i].from),
            .to = copy(changes[i].to),
            .also = copy(changes[i].also),
            .share = changes[i].share,
            .bytes = changes[i].bytes,
            .fits = changes[i].fits,
            .rounds = changes[i].rounds,
            .machine = changes[i].machine,
            .narrows = changes[i].narrows,
        };
}

static char *explain(const struct dsf_trace *trace, bool json)
{
    struct dsflow_err err;
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    must(dsf_explain(trace, json, advise, NULL, out, &err), &err);
    assert_int_equal(fclose(out), 0);
    return text;
}

static void check(const struct dsf_trace *trace, const struct found *found,
                  const char *const *parts)
{
    char *text;

    given = found;
    text = explain(trace, false);
    for (; *parts != NULL; parts++)
        if (strstr(text, *parts) == NULL)
            fail_msg("%s: expected %s", text, *parts);
    free(text);
}

#define PARTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static const struct found nothing_helps = {
    "the workers are busy", NULL, 0, 7, 0, 1
};
static const struct found all_long = {
    "the workers are busy", NULL, 0, 0, 21, 1
};
static const struct found some_help = { "", NULL, 4, 9, 2, 1.5 };
static const struct found unknown = {
    "the workers are busy", "the job has a plug-in", 0, 0, 0, 1
};

static void changes_are_said_with_what_they_cost(void **state)
{
    struct dsf_trace trace;

    simulate(&trace, "");
    check(&trace, &nothing_helps,
          PARTS("\nthe workers are busy;\n"
                "none of 7 changes that were tried saves 3 %\n"));
    check(&trace, &all_long,
          PARTS("\nthe workers are busy\n"
                "  21 changes were not tried: they take long to simulate\n"));
    check(&trace, &unknown,
          PARTS("\nthe workers are busy\n"
                "what would make it shorter is not known: the job has a "
                "plug-in\n"));
    check(
        &trace, &some_help,
        PARTS("\nWhat would make it shorter\n"
              "  tasks are small\n"
              "    batch.tile = 64 (now auto), batch.micro = 2: 25 % less "
              "time, +2.0 KiB a rank",
              " [1]\n"
              "    batch.micro = 2 (now 1): 10 % less time, -4.0 KiB a rank\n"
              "  links are slow\n"
              "    link.bandwidth = 2 (now 1): 5 % less time, +8.0 KiB a "
              "rank, too much [2]\n"
              "  fp32 is slow\n"
              "    precision.compute = bf16 (now fp32): 50 % less time, "
              "-8.0 KiB a rank [3]\n"
              "  [1] sums in another order",
              "  [2] another machine, not another job\n"
              "  [3] rounds numbers to fewer bits: other losses; this run can "
              "be resumed with it\n",
              "  (the best of 9 changes, each simulated by itself)\n"
              "  2 more were not tried: they take long to simulate\n"
              "  these are rough: with nothing changed the simulation says "));
    dsf_trace_fini(&trace);
}

static void what_a_step_is_made_of_is_said(void **state)
{
    struct dsf_trace trace;

    simulate(&trace, "");
    check(&trace, &nothing_helps,
          PARTS("small: simulated, 1 rank, ", "\nefficiency ",
                "\nShare of the time", "\nTasks of a step",
                "\nThe chain of tasks that step "));
    trace.cut = true;
    check(&trace, &nothing_helps,
          PARTS("the trace breaks off: the run did not end by itself\n"));
    dsf_trace_fini(&trace);
    simulate(&trace, "model.layers=2 mesh.pipeline=2 mesh.data=2 batch.micro=1 "
                     "machine.workers=4");
    check(&trace, &nothing_helps,
          PARTS("small: simulated, 4 ranks, 4 workers ", "\nrank 0, stage 0 ",
                "\nrank 3, stage 1 ",
                "The bubble, in which stages wait for "
                "each other, is ",
                "\nLongest waits of workers in a step\n", " rank 1, "));
    dsf_trace_fini(&trace);
}

static void the_loss_scale_is_said(void **state)
{
    struct dsf_trace trace;
    struct dsf_lap *laps;

    simulate(&trace, "");
    laps = trace.laps.v;
    laps[0].skipped = true;
    check(&trace, &nothing_helps,
          PARTS("\n1 of 3 steps was skipped: the loss or the gradient was not "
                "finite\n"));
    for (unsigned k = 0; k < trace.laps.n; k++)
        laps[k].loss_scale = 1024;
    laps[0].skipped = false;
    check(&trace, &nothing_helps, PARTS("\nloss scale 1024\n"));
    laps[0].skipped = laps[1].skipped = true;
    laps[2].loss_scale = 512;
    check(
        &trace, &nothing_helps,
        PARTS("\nloss scale 512 to 1024; 2 of 3 steps were skipped: gradients "
              "overflowed\n"));
    dsf_trace_fini(&trace);
}

static double real(const json_t *o, const char *key)
{
    const json_t *n = json_object_get(o, key);

    assert_true(json_is_number(n));
    return json_number_value(n);
}

/* The same for programs. */
static void numbers_agree_with_each_other(void **state)
{
    struct dsf_trace trace;
    const json_t *ranks, *advice, *change, *narrower, *each;
    json_t *root;
    char *text;

    simulate(&trace, "mesh.data=2 batch.micro=1");
    trace.laps.v[1].loss_scale = 512;
    trace.laps.v[1].skipped = true;
    given = &some_help;
    text = explain(&trace, true);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    each = json_object_get(root, "each_step");
    assert_int_equal(json_array_size(each), 3);
    assert_true(
        json_is_null(json_object_get(json_array_get(each, 0), "loss_scale")));
    assert_true(
        json_is_false(json_object_get(json_array_get(each, 0), "skipped")));
    assert_int_equal(real(json_array_get(each, 1), "step"), 2);
    assert_float_equal(real(json_array_get(each, 1), "loss_scale"), 512, 0);
    assert_true(
        json_is_true(json_object_get(json_array_get(each, 1), "skipped")));
    assert_float_equal(
        real(root, "efficiency"),
        real(root, "bound_seconds") / real(root, "mean_step_seconds"), 0.02);
    assert_true(real(root, "critical_seconds") <=
                real(root, "bound_seconds") * 1.000001);
    ranks = json_object_get(root, "ranks");
    assert_int_equal(json_array_size(ranks), 2);
    assert_int_equal(real(json_array_get(ranks, 1), "rank"), 1);
    advice = json_object_get(root, "advice");
    assert_int_equal(real(advice, "tried"), 9);
    assert_int_equal(real(advice, "left"), 2);
    change = json_array_get(json_object_get(advice, "changes"), 0);
    assert_string_equal(json_string_value(json_object_get(change, "key")),
                        "batch.tile");
    assert_string_equal(json_string_value(json_object_get(change, "also")),
                        "batch.micro=2");
    narrower = json_array_get(json_object_get(advice, "changes"), 3);
    assert_true(json_is_true(json_object_get(narrower, "changes_bits")));
    assert_true(json_is_true(json_object_get(narrower, "fewer_bits")));
    assert_true(json_is_true(json_object_get(change, "changes_bits")));
    assert_true(real(change, "share") == 0.75);
    json_decref(root);
    free(text);
    dsf_trace_fini(&trace);
}

static void what_cannot_be_said_is_an_error(void **state)
{
    FILE *full = fopen("/dev/full", "w");
    struct dsf_trace trace;
    struct dsflow_err err;

    assert_non_null(full);
    simulate(&trace, "");
    given = &nothing_helps;
    assert_int_equal(dsf_explain(&trace, false, advise, NULL, full, &err),
                     DSFLOW_EIO);
    assert_string_equal(err.msg,
                        "summary: cannot be written: No space left on device");
    fclose(full);
    trace.timeline.n = 3; /* no step is whole */
    assert_int_equal(dsf_explain(&trace, false, advise, NULL, stderr, &err),
                     DSFLOW_EINVAL);
    dsf_trace_fini(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_are_said_with_what_they_cost),
        cmocka_unit_test(what_a_step_is_made_of_is_said),
        cmocka_unit_test(the_loss_scale_is_said),
        cmocka_unit_test(numbers_agree_with_each_other),
        cmocka_unit_test(what_cannot_be_said_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
