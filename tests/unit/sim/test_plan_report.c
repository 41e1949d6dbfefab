/* test_plan_report.c - what is said of a plan, to people and to programs. */
#include "unit/train/small.h"

#include "sim/plan_report.h"
#include "tune/budget.h"

#include <jansson.h>
#include <math.h>

static void read_machine(struct dsf_machine_model *m, const char *name)
{
    const char *source = getenv("srcdir");
    char *path = dsf_xasprintf("%s/examples/machines/%s.toml",
                               source != NULL ? source : ".", name);
    struct dsflow_err err;

    must(dsf_machine_model_read(path, m, &err), &err);
    free(path);
}

/* A plan, and all that is said with it. */
struct reported {
    struct dsf_session s;
    struct dsf_machine_model machine;
    struct dsf_prediction prediction;
    struct dsf_weights weights;
    struct dsf_plan_facts facts;
};

static void plan(struct reported *r, const char *machine, const char *keys)
{
    struct dsflow_err err;

    read_machine(&r->machine, machine);
    open_small(&r->s, TO_PLAN, keys);
    must(dsf_predict(r->s.plan, r->s.graph, &r->machine, &r->prediction, &err),
         &err);
    must(dsf_predict_programs(r->s.plan, r->s.graph, &r->machine,
                              &r->prediction, &err),
         &err);
    dsf_fit_weigh(r->s.plan, r->s.graph, &r->machine, &r->weights);
    r->facts =
        (struct dsf_plan_facts){ .machine = &r->machine,
                                 .weights = &r->weights,
                                 .prediction = &r->prediction,
                                 .budget = { 1 << 30, INFINITY, INFINITY } };
}

static void end(struct reported *r)
{
    dsf_weights_fini(&r->weights);
    dsf_prediction_fini(&r->prediction);
    dsf_machine_model_fini(&r->machine);
    dsf_session_close(&r->s);
}

static char *text_of(struct reported *r, bool json)
{
    struct dsflow_err err;
    char *text;
    size_t n;
    FILE *out = open_memstream(&text, &n);

    must(json
             ? dsf_plan_report_json(r->s.plan, r->s.graph, &r->facts, out, &err)
             : dsf_plan_report(r->s.plan, r->s.graph, &r->facts, out),
         &err);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Each line of `lines` must begin one of the text; none of `absent` may. */
static void check_text(const char *machine, const char *keys,
                       const char *const *lines, const char *const *absent)
{
    struct reported r;
    char *text;

    plan(&r, machine, keys);
    text = text_of(&r, false);
    for (; *lines != NULL; lines++)
        if (strstr(text, *lines) == NULL)
            fail_msg("%s: %s: expected %s", keys, text, *lines);
    for (; *absent != NULL; absent++)
        if (strstr(text, *absent) != NULL)
            fail_msg("%s: %s: expected no %s", keys, text, *absent);
    free(text);
    end(&r);
}

#define LINES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void people_are_told_what_there_is_of_it(void **state)
{
    check_text("laptop", "",
               LINES("model   gpt2, 1 layer, width 16, 2 heads of 8, "
                     "vocabulary 256: 0.007",
                     "step    4 sequences of 16 tokens in 1 micro-batch of 4, "
                     "1 tile of up to 64 tokens\n",
                     "\nworkers ", "\nstep  ", "\neval  ", "\nmlp.forward  ",
                     "\nparams  ",
                     "\nlargest data                       size\n"
                     "head.logits                    64.0 KiB  1 of [64, 256] "
                     "fp32, activations\n",
                     "\npredicted step  ", "\nno faster than  ",
                     "\nheld back most by  "),
               LINES("\nmesh ", "traffic", "nvme", "rank"));
    check_text("laptop", "precision.compute=bf16",
               LINES("32.0 KiB  1 of [64, 256] bf16, activations\n"),
               LINES("rank"));
    check_text("laptop", "batch.head_columns=64",
               LINES("\nhead    64 columns of the vocabulary at a time: 16.0 "
                     "KiB of logits in the scratch of a worker\n",
                     "\nhead.forward_columns ",
                     "\nhead.backward_input_columns ",
                     "\nhead.backward_weight_columns "),
               LINES("head.logits", "\nhead.backward_weight "));
    check_text("laptop", "mesh.data=2 batch.micro=1",
               LINES("\nmesh    data 2", ": 2 ranks\n", "traffic\n",
                     "all ranks   least rank    most rank",
                     "\nlargest data of rank 0 ", "\nwork of each rank  "),
               LINES("nvme", "traffic of a step"));
    check_text("laptop", "offload.optimizer=nvme memory.nvme.path=@",
               LINES("\ntraffic of a step  ", "\nnvme  ", "budget of a rank",
                     "\nreading and writing nvme  "),
               LINES("\nmesh "));
    check_text("workstation-1gpu", "",
               LINES("\nmachine ", "\npredicted step  "), LINES("\nworkers 1"));
}

/* Without a prediction nothing is said of time. */
static void what_is_not_known_is_not_said(void **state)
{
    struct reported r;
    json_t *root;
    char *text;

    plan(&r, "laptop", "");
    r.facts.prediction = NULL;
    r.facts.machine = NULL;
    text = text_of(&r, false);
    assert_null(strstr(text, "predicted"));
    assert_null(strstr(text, " of laptop"));
    free(text);
    text = text_of(&r, true);
    root = json_loads(text, 0, NULL);
    assert_null(json_object_get(root, "predicted"));
    assert_non_null(json_object_get(root, "ranks"));
    json_decref(root);
    free(text);
    end(&r);
}

static json_int_t number(const json_t *o, const char *a, const char *b)
{
    const json_t *n = json_object_get(json_object_get(o, a), b);

    if (!json_is_integer(n))
        fail_msg("%s.%s is no whole number", a, b);
    return json_integer_value(n);
}

/* What all ranks have of a kind must be what there is of it. */
static void check_sums(const json_t *root)
{
    const json_t *ranks = json_object_get(root, "ranks"), *rank, *n;
    const char *kind;
    size_t i;

    json_object_foreach(json_object_get((json_t *)root, "tasks"), kind, n) {
        json_int_t sum = 0;

        json_array_foreach(ranks, i, rank)
        {
            const json_t *of = json_object_get(rank, "tasks");

            sum += json_integer_value(json_object_get(of, kind));
        }
        if (sum != json_integer_value(n))
            fail_msg("%s: %d of %d", kind, (int)sum,
                     (int)json_integer_value(n));
    }
}

/* In order of their size; all that they are of is in the memory of the rank. */
static void check_largest(const json_t *root, const struct reported *r)
{
    const json_t *list = json_object_get(root, "largest"), *x;
    unsigned rank = dsf_weights_neediest(&r->weights);
    json_int_t before = INT64_MAX, sum = 0;
    size_t i;

    assert_true(json_array_size(list) > 3);
    json_array_foreach(list, i, x)
    {
        json_int_t bytes = json_integer_value(json_object_get(x, "bytes"));

        assert_true(bytes > 0 && bytes <= before);
        assert_int_equal(json_integer_value(json_object_get(x, "rank")), rank);
        before = bytes;
        sum += bytes;
    }
    assert_true(sum <= (json_int_t)(r->weights.ranks[rank].peak));
    assert_true(sum > (json_int_t)(r->weights.ranks[rank].peak / 2));
}

static void programs_are_told_the_same(void **state)
{
    struct reported r;
    const json_t *rank, *predicted;
    json_t *root;
    char *text;

    plan(&r, "laptop",
         "mesh.data=2 zero.stage=3 batch.micro=1 offload.optimizer=nvme "
         "memory.nvme.path=@");
    text = text_of(&r, true);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    assert_int_equal(json_array_size(json_object_get(root, "ranks")), 2);
    assert_int_equal(number(root, "mesh", "data"), 2);
    assert_int_equal(number(root, "mesh", "expert"), 1);
    assert_int_equal(json_integer_value(json_object_get(root, "edges")),
                     r.weights.nedges);
    check_sums(root);
    check_largest(root, &r);
    rank = json_array_get(json_object_get(root, "ranks"), 1);
    assert_int_equal(number(rank, "coords", "data"), 1);
    assert_int_equal(number(rank, "peak_bytes", "device"),
                     (json_int_t)r.weights.ranks[1].peak);
    assert_true(number(rank, "peak_bytes", "nvme") > 0);
    assert_int_equal(number(rank, "budget_bytes", "device"), 1 << 30);
    assert_true(json_is_null(
        json_object_get(json_object_get(rank, "budget_bytes"), "cpu")));
    assert_true(number(rank, "bytes", "swap_in") > 0);
    predicted = json_object_get(root, "predicted");
    assert_true(json_real_value(json_object_get(predicted, "step_seconds")) >=
                json_real_value(json_object_get(predicted, "bound_seconds")));
    json_decref(root);
    free(text);
    end(&r);
}

/* How many checkpoints there are, and the room that they take. */
static void checkpoints_are_counted(void **state)
{
    static const struct {
        struct dsf_plan_saves saves;
        const char *line;
    } cases[] = {
        { { 1 << 20, 0, 0, 0 }, "\nsaves   no checkpoint\n" },
        { { 1 << 20, 1, 1, 1 }, "\nsaves   1 checkpoint of 1.0 MiB\n" },
        { { 1 << 20, 5, 2, 3 },
          "\nsaves   5 checkpoints of 1.0 MiB, 2 kept: up to 3.0 MiB on "
          "disk\n" },
        { { 1 << 20, 5, 5, 5 },
          "\nsaves   5 checkpoints of 1.0 MiB, all kept: up to 5.0 MiB on "
          "disk\n" },
        { { 1 << 20, INFINITY, 2, 3 },
          "\nsaves   checkpoints of 1.0 MiB, 2 kept: up to 3.0 MiB on disk\n" },
        { { 1 << 20, INFINITY, INFINITY, INFINITY },
          "\nsaves   checkpoints of 1.0 MiB, all kept\n" },
    };
    struct reported r;

    plan(&r, "laptop", "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const struct dsf_plan_saves *s = &cases[i].saves;
        const json_t *told;
        json_t *root;
        char *text;

        r.facts.saves = s;
        text = text_of(&r, false);
        if (strstr(text, cases[i].line) == NULL)
            fail_msg("%s: expected %s", text, cases[i].line);
        free(text);
        text = text_of(&r, true);
        root = json_loads(text, 0, NULL);
        told = json_object_get(root, "checkpoints");
        assert_int_equal(number(root, "checkpoints", "bytes"), 1 << 20);
        if (isinf(s->n))
            assert_true(json_is_null(json_object_get(told, "saves")));
        else
            assert_true((double)number(root, "checkpoints", "saves") == s->n);
        if (isinf(s->most))
            assert_true(json_is_null(json_object_get(told, "disk_bytes")));
        else
            assert_true((double)number(root, "checkpoints", "disk_bytes") ==
                        s->most * s->bytes);
        json_decref(root);
        free(text);
    }
    end(&r);
}

static void a_full_disk_is_an_error(void **state)
{
    FILE *full = fopen("/dev/full", "w");
    struct dsflow_err err;
    struct reported r;

    assert_non_null(full);
    plan(&r, "laptop", "");
    assert_int_equal(
        dsf_plan_report_json(r.s.plan, r.s.graph, &r.facts, full, &err),
        DSFLOW_EIO);
    assert_string_equal(err.msg,
                        "plan: cannot be written: No space left on device");
    fclose(full);
    end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(people_are_told_what_there_is_of_it),
        cmocka_unit_test(what_is_not_known_is_not_said),
        cmocka_unit_test(programs_are_told_the_same),
        cmocka_unit_test(checkpoints_are_counted),
        cmocka_unit_test(a_full_disk_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
