/* test_origin.c - what a model starts from: a run, one checkpoint of it, or a
 * folder that is neither. */
#include "small.h"

#include "train/origin.h"

/* bare.toml says nothing of the model; its output is another folder. */
static void check(const char *keys, const char *message)
{
    char *all = dsf_xasprintf("job.output=@/new %s", keys);

    hush();
    refuse(TO_MODEL, "bare.toml", all, DSFLOW_EINVAL, message);
    free(all);
}

static void what_is_no_origin_is_refused(void **state)
{
    make_subfolder("empty");
    make_subfolder("begun");
    write_text("begun/job.toml", "[job]\n");
    write_text("begun/metrics.jsonl", "");
    check("model.init=gpt2",
          "--set: model: init: gpt2: no such folder; a name on the Hugging "
          "Face hub: download it first, and name the folder it is in");
    check("model.init=owner/a-name",
          "--set: model: init: owner/a-name: no such folder; a name on the "
          "Hugging Face hub: download it first, and name the folder it is in");
    check("model.init=one/two/three",
          "--set: model: init: one/two/three: no such folder: expected "
          "\"random\", a Hugging Face folder, or the output folder of a run");
    check("model.init=./none",
          "--set: model: init: ./none: no such folder: expected \"random\", a "
          "Hugging Face folder, or the output folder of a run");
    check("model.init=@/text.txt",
          "--set: model: init: /text.txt: not a folder: expected a Hugging "
          "Face folder, or the output folder of a run");
    check("model.init=@/empty",
          "--set: model: init: /empty: has no config.json: expected a Hugging "
          "Face folder, or the output folder of a run");
    check("model.init=@/begun",
          "--set: model: init: /begun: a run that has no checkpoint yet");
    check("model.init=@/run job.output=@/run",
          "--set: model: init: /run: is the output folder of this job: "
          "expected another job.output, or --resume without init");
}

static void its_sizes_are_those_of_the_run(void **state)
{
    static const char *const from[] = { "@/run", "@/run/checkpoints/step-4" };

    for (int i = 0; i < 2; i++) {
        char *keys = dsf_xasprintf("job.output=@/new model.init=%s", from[i]);
        struct dsflow_err err;
        struct dsf_session s;

        must(open_job(&s, TO_MODEL, "bare.toml", keys, &err), &err);
        assert_int_equal(s.model.layers, 1);
        assert_int_equal(s.model.dims.width, 16);
        assert_int_equal(s.model.dims.kv_heads, 1);
        assert_int_equal(s.model.family, DSF_LLAMA);
        assert_non_null(strstr(s.origin.path, "step-4"));
        assert_true(s.job->model.from_run);
        assert_false(dsf_job_has(s.job, "model", "width"));
        dsf_session_close(&s);
        free(keys);
    }
}

static void a_size_that_is_given_must_be_the_same(void **state)
{
    struct dsflow_err err;
    struct dsf_session s;

    must(open_job(&s, TO_MODEL, "bare.toml",
                  "job.output=@/new model.init=@/run model.width=16 "
                  "model.ffn_width=auto",
                  &err),
         &err);
    dsf_session_close(&s);
    check("model.init=@/run model.width=64",
          "--set: model: width: 64: /run says 16");
    check("model.init=@/run model.family=gpt2",
          "--set: model: family: \"gpt2\": /run says llama");
    check("model.init=@/run model.segments=[\"qkv\",\"attention\",\"out\"]",
          "--set: model: segments: qkv, attention, out: the layers of /run are "
          "qkv, attention, out, mlp");
}

static void copy_run(const char *name)
{
    char *command = dsf_xasprintf("cp -r %s/run %s/%s", folder, folder, name);

    assert_int_equal(system(command), 0);
    free(command);
}

static void a_run_that_says_too_little_is_refused(void **state)
{
    copy_run("old");
    edit("old/checkpoints/step-4/manifest.json", "\"of\"", "\"off\"");
    check("model.init=@/old",
          "--set: model: init: /old: its checkpoint does not say what it is "
          "of: export it (dsflow checkpoint export), or go on with the run for "
          "a step");
    copy_run("jobless");
    write_text("jobless/job.toml", "[job]\nstep = 3\n");
    check("model.init=@/jobless",
          "--set: model: init: /jobless: its job cannot be read: "
          "/jobless/job.toml:2: job: step: unknown key; did you mean steps?");
}

static void another_tokenizer_than_that_of_the_run_is_a_warning(void **state)
{
    struct dsflow_err err;
    struct dsf_session s;

    hush();
    must(open_job(&s, TO_MODEL, "bare.toml",
                  "job.output=@/new model.init=@/run data.tokenizer=bytes",
                  &err),
         &err);
    assert_non_null(strstr(said, "data.tokenizer bytes is not the tokenizer of "
                                 "the run in model.init, /run: its tokens mean "
                                 "something else\n"));
    dsf_session_close(&s);
    hush();
    must(open_job(&s, TO_MODEL, "bare.toml",
                  "job.output=@/new model.init=@/run", &err),
         &err);
    assert_string_equal(said, "");
    assert_int_equal(dsf_tokenizer_vocab(s.tok), 274);
    dsf_session_close(&s);
}

static int make_one(void **state)
{
    if (make_small(state) < 0)
        return -1;
    write_tokenizer("tokenizer.json");
    make_run("model.family=llama model.kv_heads=1 "
             "data.tokenizer=@/tokenizer.json",
             4);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_origin_is_refused),
        cmocka_unit_test(its_sizes_are_those_of_the_run),
        cmocka_unit_test(a_size_that_is_given_must_be_the_same),
        cmocka_unit_test(a_run_that_says_too_little_is_refused),
        cmocka_unit_test(another_tokenizer_than_that_of_the_run_is_a_warning),
    };

    return cmocka_run_group_tests(tests, make_one, remove_small);
}
