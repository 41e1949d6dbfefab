/* test_tunables.c - what may be changed in a job, and to what: of keys of
 * policies, what the policies say; of others, what suits the plan. */
#include "tune/tunables.h"

#include "policies/keys.h"
#include "same/trial.h"

#include "lib/test.h"

#include <dsflow/rewrite.h>
#include <stdlib.h>
#include <string.h>

/* The changes of a key that a list of its row gives: "now>then ". */
static void assert_listed_on(const struct dsf_machine_model *m, const char *job,
                             const char *key, bool less, const char *expected)
{
    char executor[] = "starpu";
    struct dsf_trace trace = { .facts = { .executor = executor, .cores = 4 } };
    struct dsf_rank_use use[8] = { [0] = { .did.computing = 1 } };
    struct dsf_account account = { .trace = &trace, .ranks = use };
    struct dsf_tunables table;
    struct dsf_changes c;
    struct trial t;
    char text[400] = "";

    plan_trial(&t, job);
    dsf_tunables_init(&table);
    trace.facts.nranks = account.nranks = (unsigned)t.plan->nranks;
    c = (struct dsf_changes){ .row = dsf_tunables_find(&table, key),
                              .job = &t.job,
                              .plan = t.plan,
                              .account = &account,
                              .machine = m };
    assert_non_null(c.row);
    (less ? c.row->less : c.row->better)(&c);
    for (unsigned i = 0; i < c.n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s>%s%s%s ",
                 c.v[i]->from, c.v[i]->to, c.v[i]->nsets > 1 ? "+" : "",
                 c.v[i]->nsets > 1 ? c.v[i]->sets[1] : "");
    assert_string_equal(text, expected);
    dsf_changes_fini(&c);
    dsf_tunables_fini(&table);
    end_trial(&t);
}

static void assert_listed(const char *job, const char *key, bool less,
                          const char *expected)
{
    struct dsf_machine_model m;

    dsf_machine_model_init(&m);
    assert_listed_on(&m, job, key, less, expected);
    dsf_machine_model_fini(&m);
}

static void assert_tried(const char *job, const char *key, const char *expected)
{
    assert_listed(job, key, false, expected);
}

/* Each key is one that a job has, and is of one row. */
static void every_row_is_of_a_key(void **state)
{
    struct dsf_tunables table;

    dsf_tunables_init(&table);
    for (unsigned i = 0; i < table.n; i++) {
        const struct dsf_tunable *row = &table.v[i];

        if (row->of == DSF_OF_JOB && row->better != NULL)
            assert_non_null(row->option);
        assert_true(row->better != NULL || row->less != NULL);
        assert_true((row->open[0] != '\0') == (row->values != NULL));
        assert_ptr_equal(dsf_tunables_find(&table, row->key), row);
    }
    assert_null(dsf_tunables_find(&table, "batch.none"));
    dsf_tunables_fini(&table);
}

static void what_is_tried_is_what_the_policy_says(void **state)
{
    /* What is faster, the nearest first; nothing of a key without effect. */
    assert_tried("gpt2 recompute.what=block", "recompute.what",
                 "block>attention block>none ");
    assert_tried("gpt2 recompute.what=none", "recompute.what", "");
    assert_tried("gpt2 mesh.data=2 zero.stage=2", "zero.stage", "2>1 2>0 ");
    assert_tried("gpt2 zero.stage=2", "zero.stage", "");
    /* All others. */
    assert_tried("gpt2 mesh.pipeline=2 pipeline.schedule=gpipe",
                 "pipeline.schedule",
                 "gpipe>1f1b gpipe>interleaved+pipeline.split=[] "
                 "gpipe>zero_bubble ");
    /* The default. */
    assert_tried("gpt2 mesh.pipeline=2", "pipeline.strict", "");
    assert_tried("gpt2 mesh.pipeline=2 pipeline.strict=true", "pipeline.strict",
                 "true>false ");
    /* More, larger and smaller, within what the key may be. */
    assert_tried("gpt2 mesh.data=2 zero.stage=3 zero.prefetch=61",
                 "zero.prefetch", "61>62 61>63 ");
    assert_tried("gpt2 offload.optimizer=cpu offload.piece=128KiB",
                 "offload.piece", "128KiB>64KiB 128KiB>256KiB 128KiB>512KiB ");
    assert_tried("gpt2 offload.optimizer=cpu offload.share=0.6",
                 "offload.share", "0.60>0.85 0.60>1.00 ");
}

static void what_fits_the_plan_is_tried_of_other_keys(void **state)
{
    assert_tried("gpt2 batch.in_flight=2", "batch.in_flight", "2>3 2>4 2>6 ");
    assert_tried("gpt2 batch.in_flight=8", "batch.in_flight", "");
    assert_tried("gpt2 batch.micro=2", "batch.micro", "2>4 2>8 2>1 ");
    assert_tried("gpt2 batch.micro=4 batch.tile=32", "batch.micro",
                 "4>8+batch.tile=auto 4>2 ");
    assert_tried("gpt2 batch.micro=2 batch.tile=32", "batch.tile",
                 "32>64 32>16 ");
    assert_tried("gpt2 machine.workers=3", "machine.workers", "3>4 ");
    assert_tried("gpt2 machine.workers=4", "machine.workers", "");
    assert_tried("gpt2 mesh.pipeline=2 pipeline.split=[3,1]", "pipeline.split",
                 "[3, 1]>[] [3, 1]>[2, 2] ");
    assert_tried("gpt2", "pipeline.split", "");
    assert_tried("gpt2 batch.order=layer_major", "batch.order",
                 "layer_major>micro_major ");
    assert_tried("gpt2", "link.bandwidth", ""); /* cores have no links */
    assert_tried("gpt2", "--executor", "");     /* it was starpu */
}

static void what_needs_less_memory_is_listed(void **state)
{
    assert_listed("gpt2 batch.micro=8", "batch.micro", true, "8>4 8>2 8>1 ");
    assert_listed("gpt2 batch.in_flight=2", "batch.in_flight", true, "2>1 ");
    assert_listed("gpt2 batch.in_flight=1", "batch.in_flight", true, "");
    assert_listed("gpt2 batch.order=layer_major", "batch.in_flight", true, "");
    assert_listed("gpt2 recompute.what=none", "recompute.what", true,
                  "none>attention none>block ");
    /* One rank has nothing to share out. */
    assert_listed("gpt2", "zero.stage", true, "");
    assert_listed("gpt2 mesh.data=2 zero.stage=1", "zero.stage", true,
                  "1>2 1>3 ");
}

/* "key: value value …" of what is open. */
static void assert_open(const char *job, const char *key, const char *expected)
{
    struct dsf_tunables table;
    struct dsf_changes c;
    struct trial t;
    char text[1000] = "";

    plan_trial_until(&t, job, "reference");
    dsf_tunables_init(&table);
    c = (struct dsf_changes){ .row = dsf_tunables_find(&table, key),
                              .job = &t.job };
    assert_int_equal(dsf_tunable_is_open(c.row, &t.job), *expected != '\0');
    assert_int_equal(dsf_tunables_any_open(&t.job), *expected != '\0');
    if (*expected != '\0')
        c.row->values(&c);
    for (unsigned i = 0; i < c.n; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s ",
                 c.v[i]->sets[0]);
    assert_memory_equal(text, expected, strlen(expected));
    dsf_changes_fini(&c);
    dsf_tunables_fini(&table);
    end_trial(&t);
}

static void what_is_auto_has_values(void **state)
{
    assert_open("gpt2 batch.micro=auto", "batch.micro",
                "batch.micro=1 batch.micro=2 batch.micro=4 batch.micro=8 ");
    assert_open("gpt2 batch.micro=auto mesh.data=2", "batch.micro",
                "batch.micro=1 batch.micro=2 batch.micro=4 ");
    assert_open("gpt2 mesh.data=2 zero.stage=auto", "zero.stage",
                "zero.stage=0 zero.stage=1 zero.stage=2 zero.stage=3 ");
    assert_open("gpt2 zero.stage=auto", "zero.stage", "zero.stage=0 ");
    assert_open("gpt2 recompute.what=auto", "recompute.what",
                "recompute.what=none recompute.what=attention "
                "recompute.what=block ");
    assert_open("gpt2 offload.params=nvme memory.nvme.path=.", "batch.order",
                "batch.order=layer_major batch.order=micro_major ");
    assert_open("gpt2 offload.optimizer=cpu offload.share=auto",
                "offload.share", "offload.share=0 offload.share=0.01 ");
    assert_open("gpt2 mesh.sequence=2", "mesh.sequence_kind",
                "mesh.sequence_kind=keys mesh.sequence_kind=heads ");
    assert_open("gpt2", "mesh.sequence_kind", "");
    assert_open("gpt2 mesh.sequence=8 mesh.pipeline=4 mesh.data=4",
                "mesh.sequence_kind", "");
    assert_open("gpt2 mesh.sequence=2 mesh.sequence_kind=keys",
                "mesh.sequence_kind", "");
    assert_open("gpt2", "batch.micro", "");
    assert_open("gpt2", "batch.order", "");
    assert_open("gpt2", "offload.share", "");
}

/* Each with all that is set together; a machine without a disk has none. */
static void larger_memories_are_listed(void **state)
{
    struct dsf_machine_model m;
    struct dsf_tunables table;
    struct dsf_changes c;
    struct trial t;
    unsigned n;

    plan_trial(&t, "gpt2");
    dsf_machine_model_init(&m);
    dsf_tunables_init(&table);
    c = (struct dsf_changes){ .row = dsf_tunables_find(&table, "offload"),
                              .job = &t.job };
    c.row->less(&c);
    n = c.n;
    assert_true(n > 4);
    assert_string_equal(c.v[1]->sets[0], "offload.optimizer=\"cpu\"");
    dsf_changes_fini(&c);
    c.machine = &m;
    c.row->less(&c);
    assert_in_range(c.n, 1, n - 1);
    for (unsigned i = 0; i < c.n; i++)
        for (unsigned k = 0; k < c.v[i]->nsets; k++)
            assert_null(strstr(c.v[i]->sets[k], "nvme"));
    dsf_changes_fini(&c);
    dsf_tunables_fini(&table);
    dsf_machine_model_fini(&m);
    end_trial(&t);
}

static int rewrite(const void *part, const struct dsflow_plan *plan,
                   struct dsflow_graph *in, struct dsflow_graph *out,
                   struct dsflow_err *err)
{
    dsflow_rewrite_all(in, out, NULL, NULL);
    return DSFLOW_OK;
}

struct mine {
    int64_t n, list;
};
static const struct dsflow_option mine_options[] = {
    DSFLOW_OPTION_AUTO(struct mine, n, "\"auto\"", 2, 5, "a number"),
    DSFLOW_OPTION_INT(struct mine, list, "1", 0, 9, "another"),
    { 0 },
};

/* Registered, or refused with the message. */
static void register_mine(const char *name, const struct dsflow_try *tries,
                          const char *message)
{
    struct dsflow_policy *policy = calloc(1, sizeof(*policy)); /* for good */
    struct dsflow_err err = { .msg = "" };

    *policy = (struct dsflow_policy){ .abi = DSFLOW_POLICY_ABI,
                                      .name = name,
                                      .summary = "of the test",
                                      .after = "priorities",
                                      .options = mine_options,
                                      .part_size = sizeof(struct mine),
                                      .tries = tries,
                                      .rewrite = rewrite };
    dsflow_policy_register(policy, &err);
    assert_string_equal(err.msg, message);
    if (message[0] != '\0')
        free(policy);
}

static void policies_of_others_say_it_too(void **state)
{
#define TRY(...)                                                               \
    (const struct dsflow_try[])                                                \
    {                                                                          \
        { __VA_ARGS__ },                                                       \
        {                                                                      \
            0                                                                  \
        }                                                                      \
    }
    static const struct dsflow_try tries[] = {
        { "n", DSFLOW_VALUES_RISING, DSFLOW_CAUSE_SLOTS, 0 },
        { 0 },
    };
    struct dsf_tunables table;

    register_mine("mine", TRY("m", DSFLOW_VALUES_ANY, DSFLOW_CAUSE_DISK, 0),
                  "policy mine: tries: m: unknown key");
    register_mine("mine", TRY("list", DSFLOW_VALUES_ANY, DSFLOW_CAUSE_DISK, 0),
                  "policy mine: tries: list: a key of this type has no such "
                  "values");
    register_mine("mine", TRY("n", DSFLOW_VALUES_MORE, DSFLOW_CAUSE_DISK, 0),
                  "policy mine: tries: n: a key of this type has no such "
                  "values");
    register_mine("mine", tries, "");
    dsf_tunables_init(&table);
    assert_ptr_equal(dsf_tunables_find(&table, "mine.n")->option,
                     &mine_options[0]);
    dsf_tunables_fini(&table);
    assert_tried("gpt2 mine.n=4", "mine.n", "4>3 4>2 ");
}

/* The first is what the job says; each needs no more of the device. */
static void what_does_not_fit_falls_back_to_larger_memories(void **state)
{
    struct dsf_offload_keys asked = { .read_ahead = 2, .piece = 4 << 20 }, keys;
    unsigned n = 0;

    asked.home[DSFLOW_GRADS] = DSFLOW_NVME;
    while (keys = asked, dsf_offload_fallback(n, &keys)) {
        if (n == 0)
            assert_memory_equal(&keys, &asked, sizeof(keys));
        for (int role = 0; role < DSFLOW_NROLES; role++)
            assert_true(keys.home[role] >= asked.home[role]);
        assert_true(keys.piece <= asked.piece);
        n++;
    }
    assert_true(n > 4);
    dsf_offload_fallback(n - 1, &keys);
    assert_int_equal(keys.home[DSFLOW_STATES], DSFLOW_NVME);
    assert_int_equal(keys.home[DSFLOW_ACTIVATIONS], DSFLOW_NVME);
    assert_int_equal(keys.read_ahead, 0);
}

/* Where the machine's file says that it is faster, or tasks in it were
 * measured.
 */
static void bf16_is_tried_where_the_machine_knows_it(void **state)
{
    static const char key[] = "precision.compute";
    struct dsf_machine_model m;

    dsf_machine_model_init(&m);
    assert_listed_on(&m, "gpt2", key, false, "");
    m.main.bf16 = m.main.fp32;
    assert_listed_on(&m, "gpt2", key, false, "");
    m.main.bf16 = 2 * m.main.fp32;
    assert_listed_on(&m, "gpt2", key, false, "fp32>bf16 ");
    assert_listed_on(&m, "gpt2 precision.compute=bf16", key, false, "");
    assert_listed_on(&m, "gpt2 precision.compute=fp16", key, false, "");
    /* What was measured of tasks is what counts. */
    dsf_machine_model_add_kind(&m, "mlp.forward", false, DSFLOW_BYTES);
    assert_listed_on(&m, "gpt2", key, false, "");
    dsf_machine_model_add_kind(&m, "mlp.forward", false, DSFLOW_BF16);
    assert_listed_on(&m, "gpt2", key, false, "fp32>bf16 ");
    dsf_machine_model_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_of_a_key),
        cmocka_unit_test(what_is_tried_is_what_the_policy_says),
        cmocka_unit_test(what_fits_the_plan_is_tried_of_other_keys),
        cmocka_unit_test(bf16_is_tried_where_the_machine_knows_it),
        cmocka_unit_test(what_needs_less_memory_is_listed),
        cmocka_unit_test(what_is_auto_has_values),
        cmocka_unit_test(larger_memories_are_listed),
        cmocka_unit_test(policies_of_others_say_it_too),
        cmocka_unit_test(what_does_not_fit_falls_back_to_larger_memories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
