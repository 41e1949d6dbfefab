/* test_job.c - jobs as they are read, and written again. */
#include "config/job.h"

#include "config/job_tables.h"
#include "config/option.h"
#include "config/unknown.h"
#include "lib/job.h"
#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

static const char text[] = "[job]\nsteps = 5\nname = \"a \\\"b\\\" \\u00e9\"\n"
                           "[data]\ntrain = [\"x\", \"y\"]\n"
                           "[optimizer]\nlr = 1e-3\nbetas = [0.8, 0.9]\n"
                           "[batch]\nsequences = 8\nmicro = 2\n"
                           "[machine]\nvirtual_memory = \"512MiB\"\n";

static void read_it(struct dsf_job *job, const char *toml,
                    const char *const *sets, unsigned n)
{
    struct dsflow_err err;

    if (dsf_job_parse(toml, strlen(toml), "job.toml", sets, n, NULL, job,
                      &err) < 0)
        fail_msg("%s", err.msg);
}

static void keys_have_their_values_and_others_their_defaults(void **state)
{
    struct dsf_job job;

    read_it(&job, text, NULL, 0);
    assert_int_equal(job.main.steps, 5);
    assert_string_equal(job.main.name, "a \"b\" \xc3\xa9");
    assert_int_equal(job.data.train.n, 2);
    assert_string_equal(job.data.train.v[1], "y");
    assert_true(job.optimizer.betas[0] == 0.8);
    assert_true(job.optimizer.clip == 1);
    assert_int_equal(job.batch.sequence, -1);
    assert_true(job.machine.virtual_memory == 512LL << 20);
    assert_true(dsf_job_has(&job, "optimizer", "lr"));
    assert_false(dsf_job_has(&job, "optimizer", "clip"));
    dsf_job_fini(&job);
}

static void an_override_comes_last_and_a_bare_word_is_a_string(void **state)
{
    static const char *const sets[] = { "optimizer.kind=lion",
                                        "job.steps=7",
                                        "job.steps=9",
                                        "data.train=[\"z\"]",
                                        "job.output=/tmp/a b",
                                        "job.name=7",
                                        "sparse_attention.layers=03",
                                        "data.tokenizer=\"true\"",
                                        "sample.prompt=true",
                                        "memory.nvme.path=2026-01-01" };
    struct dsf_job job;

    read_it(&job, text, sets, 10);
    assert_string_equal(job.optimizer.kind, "lion");
    assert_int_equal(job.main.steps, 9);
    assert_int_equal(job.data.train.n, 1);
    assert_string_equal(job.main.output, "/tmp/a b");
    assert_string_equal(job.main.name, "7");
    assert_string_equal(job.data.tokenizer, "true");
    assert_string_equal(job.sparse.layers, "03");
    assert_string_equal(job.sample.prompt, "true");
    assert_int_equal(job.nvme.path.n, 1);
    assert_string_equal(job.nvme.path.v[0], "2026-01-01");
    dsf_job_fini(&job);
}

static void an_override_is_no_table(void **state)
{
    static const char *const sets[] = { "job.steps={x=1}", "job.steps={}",
                                        "job.steps=[{}]" };
    struct dsf_job job;
    struct dsflow_err err;

    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        assert_int_equal(dsf_job_parse(text, sizeof(text) - 1, "job.toml",
                                       &sets[i], 1, NULL, &job, &err),
                         DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, ": expected a whole number, 1 to"));
    }
}

static char *written(const struct dsf_job *job)
{
    char *out = NULL;
    size_t n;
    FILE *f = open_memstream(&out, &n);

    assert_int_equal(dsf_job_write(job, f), DSFLOW_OK);
    fclose(f);
    return out;
}

static void a_written_job_reads_back(void **state)
{
    static const char *const sets[] = { "optimizer.lr=0.1",
                                        "job.output=odd \"name\\" };
    struct dsf_job job, again;
    char *once, *twice;

    read_it(&job, text, sets, 2);
    once = written(&job);
    read_it(&again, once, NULL, 0);
    twice = written(&again);
    assert_string_equal(once, twice);
    assert_string_equal(again.main.output, "odd \"name\\");
    assert_string_equal(again.main.name, job.main.name);
    assert_true(again.optimizer.lr == 0.1);
    assert_true(again.machine.virtual_memory == job.machine.virtual_memory);
    free(once);
    free(twice);
    dsf_job_fini(&job);
    dsf_job_fini(&again);
}

static void a_later_complaint_names_the_line(void **state)
{
    static const char *const sets[] = { "batch.micro=4" };
    struct dsflow_err err;
    struct dsf_job job;

    read_it(&job, text, sets, 1);
    dsf_job_fail(&job, &err, DSFLOW_EINVAL, "optimizer", "lr", "%d: odd", 3);
    assert_string_equal(err.msg, "job.toml:7: optimizer: lr: 3: odd");
    dsf_job_fail(&job, &err, DSFLOW_EINVAL, "batch", "micro", "odd");
    assert_string_equal(err.msg, "--set: batch: micro: odd");
    dsf_job_fail(&job, &err, DSFLOW_EINVAL, "optimizer", "eps", "odd");
    assert_string_equal(err.msg, "job.toml: optimizer: eps: odd");
    dsf_job_fini(&job);
}

static void every_key_has_a_help_and_a_default_that_it_accepts(void **state)
{
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            assert_true(o->help != NULL && strlen(o->help) > 2);
            assert_true(strlen(dsf_option_expected(o).s) > 0);
        }
}

/* Every name that is listed is accepted, and another one is not. */
static void names_of_values_are_those_that_are_accepted(void **state)
{
    const struct dsf_table *t;
    struct dsflow_err err;
    struct dsf_job job;
    unsigned nkeys = 0;

    read_it(&job, text, NULL, 0);
    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (const struct dsflow_option *o = t->options; o->key != NULL; o++) {
            const char *word;
            char set[128];

            for (unsigned k = 0; (word = dsf_option_word(o, k)) != NULL; k++) {
                snprintf(set, sizeof(set), "%s.%s=%s", t->name, o->key, word);
                assert_int_equal(job_set(&job, set, &err), DSFLOW_OK);
                assert_true(strcmp(word, "auto") == 0 ||
                            strstr(dsf_option_expected(o).s, word) != NULL);
            }
            if (dsf_option_word(o, 0) == NULL || o->type == DSFLOW_SIZE)
                continue;
            nkeys++;
            snprintf(set, sizeof(set), "%s.%s=nothing", t->name, o->key);
            assert_int_equal(job_set(&job, set, &err), DSFLOW_EINVAL);
            assert_non_null(strstr(err.msg, dsf_option_expected(o).s));
        }
    assert_true(nkeys > 30);
    dsf_job_fini(&job);
}

static void a_job_with_other_keys_leaves_the_first_as_it_is(void **state)
{
    static const char *const given[] = { "batch.micro=2", "job.name=other",
                                         "data.train=[\"a\", \"b\"]" };
    static const char *const wrong[] = { "batch.micro=2", "batch.micro=0" };
    struct dsf_job job, other, third;
    char *before, *after;
    struct dsflow_err err;

    read_it(&job, text, NULL, 0);
    before = written(&job);
    assert_int_equal(dsf_job_with(&job, DSF_GIVEN, given, 3, &other, &err), 0);
    assert_int_equal(other.batch.micro, 2);
    assert_int_equal(other.data.train.n, 2);
    assert_string_equal(other.main.name, "other");
    assert_true(dsf_job_has(&other, "batch", "micro"));
    /* What follows is not written. */
    assert_int_equal(dsf_job_with(&job, DSF_FOLLOWS, given, 3, &third, &err),
                     0);
    assert_string_equal(third.main.name, "other");
    after = written(&third);
    assert_string_equal(after, before);
    free(after);
    after = written(&job);
    assert_string_equal(after, before);
    dsf_job_fini(&third);
    dsf_job_fini(&other);
    assert_int_equal(dsf_job_with(&job, DSF_GIVEN, wrong, 2, &other, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "--set: batch: micro: 0: expected \"auto\", "
                                 "or 1 to 65536");
    free(before);
    free(after);
    dsf_job_fini(&job);
}

static void checkpoints_are_saved_after_steps_or_after_a_time(void **state)
{
    static const char *const wrong[] = { "0min", "-1",     "1.5", "5 steps",
                                         "soon", "1e400h", "true" };
    static const char *const sets[] = { "checkpoint.every=30min" };
    struct dsflow_err err;
    struct dsf_job job;

    read_it(&job, text, NULL, 0);
    assert_int_equal(job.checkpoint.every.steps, 0);
    assert_true(job.checkpoint.every.seconds == 0);
    assert_int_equal(job_set(&job, "checkpoint.every=7", &err), 0);
    assert_int_equal(job.checkpoint.every.steps, 7);
    assert_int_equal(job_set(&job, "checkpoint.every=1.5h", &err), 0);
    assert_int_equal(job.checkpoint.every.steps, 0);
    assert_true(job.checkpoint.every.seconds == 5400);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        char set[64];

        snprintf(set, sizeof(set), "checkpoint.every=%s", wrong[i]);
        assert_int_equal(job_set(&job, set, &err), DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, "or a time such as \"30min\""));
    }
    assert_true(job.checkpoint.every.seconds == 5400);
    dsf_job_fini(&job);
    read_it(&job, text, sets, 1);
    assert_true(job.checkpoint.every.seconds == 1800);
    dsf_job_fini(&job);
}

static void names_of_others_are_known(void **state)
{
    struct dsf_meant m = dsf_meant("hidden_size");

    assert_string_equal(m.s, "dsflow's is model.width");
    assert_string_equal(dsf_meant("Micro-Batch-Size").s,
                        "dsflow's is batch.micro");
    assert_string_equal(dsf_meant("momentum").s,
                        "it is optimizer.momentum or muon.momentum");
    assert_string_equal(dsf_meant("depth").s, "it is memory.nvme.depth");
    assert_string_equal(dsf_meant("hidden_sizes").s, "");
    assert_string_equal(dsf_meant("").s, "");
}

/* What is said to be dsflow's must be. */
static void what_they_are_told_is_there(void **state)
{
    static const char *const theirs[] = {
        "hidden_size",
        "num_layers",
        "vocab_size",
        "tie_word_embeddings",
        "rms_norm_eps",
        "intermediate_size",
        "max_position_embeddings",
        "num_key_value_heads",
        "train_micro_batch_size_per_gpu",
        "learning_rate",
        "lr_scheduler_type",
        "save_steps",
        "eval_steps",
        "logging_steps",
        "tensor_parallel_size",
        "zero_stage",
        "nvme_path",
        "queue_depth",
        "offload_param",
        "num_threads",
        "max_new_tokens",
        "report_to",
        "tokenizer_name",
        "model_type",
        "total_num_steps",
    };

    for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++) {
        struct dsf_meant m = dsf_meant(theirs[i]);
        char *key = strrchr(m.s, '.');
        const struct dsf_table *t;

        assert_non_null(key);
        *key++ = '\0';
        t = dsf_job_find_table(strrchr(m.s, ' ') + 1);
        if (t == NULL || dsf_option_find(t->options, key) == NULL)
            fail_msg("%s: %s.%s", theirs[i], m.s, key);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_have_their_values_and_others_their_defaults),
        cmocka_unit_test(an_override_comes_last_and_a_bare_word_is_a_string),
        cmocka_unit_test(an_override_is_no_table),
        cmocka_unit_test(a_written_job_reads_back),
        cmocka_unit_test(a_later_complaint_names_the_line),
        cmocka_unit_test(every_key_has_a_help_and_a_default_that_it_accepts),
        cmocka_unit_test(names_of_values_are_those_that_are_accepted),
        cmocka_unit_test(a_job_with_other_keys_leaves_the_first_as_it_is),
        cmocka_unit_test(checkpoints_are_saved_after_steps_or_after_a_time),
        cmocka_unit_test(names_of_others_are_known),
        cmocka_unit_test(what_they_are_told_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
