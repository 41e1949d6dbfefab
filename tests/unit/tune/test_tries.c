/* test_tries.c - the values of keys that policies say are worth trying. */
#include "tune/tries.h"

#include "same/trial.h"

#include "lib/test.h"

#include <dsflow/rewrite.h>
#include <stdlib.h>
#include <string.h>

static struct dsf_try try_of(const char *table, const char *key)
{
    struct dsf_try t;

    for (unsigned i = 0; dsf_try_at(i, &t); i++)
        if (strcmp(t.table->name, table) == 0 &&
            strcmp(t.option->key, key) == 0)
            return t;
    fail_msg("nothing to try of %s.%s", table, key);
    return t;
}

static void note(void *user, const struct dsf_try *t, const char *from,
                 const char *to)
{
    char *text = user;

    snprintf(text + strlen(text), 200 - strlen(text), "%s>%s ", from, to);
}

static void assert_tried(const char *job, const char *table, const char *key,
                         const char *expected)
{
    struct dsf_try t = try_of(table, key);
    char text[200] = "";
    struct trial trial;

    plan_trial(&trial, job);
    dsf_try_each(&t, &trial.job, note, text);
    assert_string_equal(text, expected);
    end_trial(&trial);
}

static void what_is_tried_is_what_the_policy_says(void **state)
{
    /* What is faster, the nearest first; nothing of a key without effect. */
    assert_tried("gpt2 recompute.what=block", "recompute", "what",
                 "block>attention block>none ");
    assert_tried("gpt2 recompute.what=none", "recompute", "what", "");
    assert_tried("gpt2 mesh.data=2 zero.stage=2", "zero", "stage", "2>1 2>0 ");
    assert_tried("gpt2 zero.stage=2", "zero", "stage", "");
    /* All others. */
    assert_tried("gpt2 mesh.pipeline=2 pipeline.schedule=gpipe", "pipeline",
                 "schedule", "gpipe>1f1b gpipe>interleaved gpipe>zero_bubble ");
    /* The default. */
    assert_tried("gpt2 mesh.pipeline=2", "pipeline", "strict", "");
    assert_tried("gpt2 mesh.pipeline=2 pipeline.strict=true", "pipeline",
                 "strict", "true>false ");
    /* More, larger and smaller, within what the key may be. */
    assert_tried("gpt2 mesh.data=2 zero.stage=3 zero.prefetch=61", "zero",
                 "prefetch", "61>62 61>63 ");
    assert_tried("gpt2 offload.optimizer=cpu offload.piece=128KiB", "offload",
                 "piece", "128KiB>64KiB 128KiB>256KiB 128KiB>512KiB ");
    assert_tried("gpt2 offload.optimizer=cpu offload.share=0.6", "offload",
                 "share", "0.60>0.85 0.60>1.00 ");
}

static void a_key_that_is_auto_has_values_and_may_be_given_one(void **state)
{
    struct dsf_try stage = try_of("zero", "stage");
    struct dsf_try what = try_of("recompute", "what");
    struct trial t;
    char *text, *sets[2];
    struct dsflow_err err;
    struct dsf_job job;

    plan_trial(&t, "gpt2 mesh.data=2 zero.stage=auto recompute.what=auto");
    assert_int_equal(dsf_try_get(&stage, &t.job), -1);
    assert_int_equal(dsf_try_get(&what, &t.job), -1);
    assert_int_equal(dsf_try_count(&stage, &t.job), 4);
    assert_int_equal(dsf_try_count(&what, &t.job), 3);
    sets[0] = dsf_try_set(&stage, 3);
    sets[1] = dsf_try_set(&what, 1);
    assert_int_equal(dsf_job_with(&t.job, DSF_FOLLOWS,
                                  (const char *const *)sets, 2, &job, &err),
                     DSFLOW_OK);
    assert_int_equal(dsf_zero_keys(&job)->stage, 3);
    assert_int_equal(dsf_recompute_keys(&job)->what, DSF_RECOMPUTE_ATTENTION);
    assert_int_equal(dsf_zero_keys(&t.job)->stage, -1);
    dsf_job_fini(&job);
    free(sets[0]);
    free(sets[1]);
    text = dsf_try_text(&what, 1);
    assert_string_equal(text, "attention");
    free(text);
    text = dsf_try_set(&stage, -1);
    assert_string_equal(text, "zero.stage=auto");
    free(text);
    end_trial(&t);

    plan_trial(&t, "gpt2 zero.stage=auto");
    assert_int_equal(dsf_try_count(&stage, &t.job), 1);
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
    struct dsf_try n;

    register_mine("mine", TRY("m", DSFLOW_VALUES_ANY, DSFLOW_CAUSE_DISK, 0),
                  "policy mine: tries: m: unknown key");
    register_mine("mine", TRY("list", DSFLOW_VALUES_ANY, DSFLOW_CAUSE_DISK, 0),
                  "policy mine: tries: list: a key of this type has no such "
                  "values");
    register_mine("mine", TRY("n", DSFLOW_VALUES_MORE, DSFLOW_CAUSE_DISK, 0),
                  "policy mine: tries: n: a key of this type has no such "
                  "values");
    register_mine("mine", tries, "");
    n = try_of("mine", "n");
    assert_true(n.option == &mine_options[0]);
    assert_tried("gpt2 mine.n=4", "mine", "n", "4>3 4>2 ");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_tried_is_what_the_policy_says),
        cmocka_unit_test(a_key_that_is_auto_has_values_and_may_be_given_one),
        cmocka_unit_test(policies_of_others_say_it_too),
        cmocka_unit_test(what_does_not_fit_falls_back_to_larger_memories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
