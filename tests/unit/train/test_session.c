/* test_session.c - from a job to a model that runs, stage by stage. */
#include "small.h"

static void what_a_job_lacks_is_said_with_its_place(void **state)
{
    static const struct {
        enum stage to;
        const char *file, *keys, *message;
    } cases[] = {
        { TO_MODEL, "none.toml", "", "/none.toml: No such file or directory" },
        { TO_MODEL, "broken.toml", "",
          "/broken.toml:4: model: wdith: unknown key; did you mean width?" },
        { TO_MODEL, "job.toml", "optimizer.kind=none",
          "--set: optimizer: kind: \"none\": expected adamw, adam, sgd, lion, "
          "adagrad, lamb, muon, onebit_adam, onebit_lamb or "
          "zeroone_adam" },
        { TO_MODEL, "job.toml", "model.segments=[\"qkv\",\"none\"]",
          "--set: model: segments: \"qkv\": expected \"attention\" behind it" },
        { TO_MODEL, "job.toml", "model.heads=3",
          "--set: model: heads: 3: expected a divisor of width, 16" },
        { TO_PLAN, "job.toml", "mesh.data=3",
          "--set: mesh: data: 3: expected a divisor of the 1 micro-batches of "
          "a step (batch: sequences / micro)" },
        { TO_TEXT, "job.toml", "data.train=@/nothing.txt",
          "--set: data: train: /nothing.txt: No such file or directory" },
    };

    write_text("broken.toml", "[job]\nsteps = 3\n[model]\nwdith = 3\n");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        refuse(cases[i].to, cases[i].file, cases[i].keys, DSFLOW_EINVAL,
               cases[i].message);
}

/* Also where the run was moved since. */
static void the_folder_of_a_run_is_its_job(void **state)
{
    struct dsflow_err err;
    struct dsf_session s;
    char *from = in_folder("@/run"), *to = in_folder("@/moved");

    make_run("model.layers=2", 1);
    assert_int_equal(rename(from, to), 0);
    assert_true(dsf_is_run(to));
    assert_false(dsf_is_run(from));
    assert_false(dsf_is_run(folder)); /* its job.toml is somebody's */
    must(open_job(&s, TO_MODEL, "moved", "job.steps=20", &err), &err);
    assert_string_equal(s.job->main.output, to);
    assert_int_equal(s.job->main.steps, 20);
    assert_int_equal(s.model.layers, 2);
    dsf_session_close(&s);
    free(from);
    free(to);
}

static void a_setting_makes_another_job_or_changes_nothing(void **state)
{
    const char *const sets[] = { "batch.micro=2", "optimizer.lr=fast" };
    struct dsflow_err err;
    struct dsf_session s;
    const struct dsf_job *before;

    open_small(&s, TO_MODEL, "");
    before = s.job;
    assert_int_equal(dsf_session_set(&s, DSF_GIVEN, sets, 2, &err),
                     DSFLOW_EINVAL);
    assert_ptr_equal(s.job, before);
    assert_int_equal(s.job->batch.micro, 4);
    must(dsf_session_set(&s, DSF_FOLLOWS, sets, 1, &err), &err);
    assert_int_equal(s.job->batch.micro, 2);
    assert_false(dsf_job_has(s.job, "batch", "micro"));
    must(dsf_session_set_text(&s, "job.name", "a \"b\" \\ c", &err), &err);
    assert_string_equal(s.job->main.name, "a \"b\" \\ c");
    dsf_session_close(&s);
}

/* Keys of LLaMA have no effect on a model that is none, and are not given. */
static void the_family_follows_from_the_folder(void **state)
{
    struct dsflow_err err;
    struct dsf_session s;

    make_subfolder("llama");
    write_text("llama/config.json",
               "{\"model_type\": \"llama\", \"hidden_size\": 16, "
               "\"num_attention_heads\": 2, \"num_hidden_layers\": 1, "
               "\"intermediate_size\": 32, \"vocab_size\": 256, "
               "\"max_position_embeddings\": 16, \"rms_norm_eps\": 1e-6, "
               "\"hidden_act\": \"silu\"}");
    must(open_job(&s, TO_MODEL, "bare.toml", "model.init=@/llama", &err), &err);
    assert_int_equal(s.job->model.family, DSF_LLAMA);
    assert_false(dsf_job_has(s.job, "model", "family"));
    dsf_session_close(&s);
}

/* "auto" is chosen, and why is said. */
static void open_sizes_are_chosen(void **state)
{
    struct dsflow_err err;
    struct dsf_session s;
    struct dsf_machine_model m;

    dsf_machine_model_init(&m);
    open_small(&s, TO_MODEL, "batch.micro=auto");
    must(dsf_machine_probe(&s.machine, &err), &err);
    must(dsf_session_fit(&s, &m, NULL, &err), &err);
    assert_true(s.job->batch.micro > 0);
    assert_non_null(strstr(s.why, "batch.micro"));
    dsf_session_close(&s);
    dsf_machine_model_fini(&m);
}

/* What it needs is a matter of the plan, and is not looked at here. */
static void check_memory(struct dsf_session *s, const char *begin,
                         const char *end)
{
    struct dsflow_err err;

    assert_int_equal(dsf_session_check_memory(s, &err), DSFLOW_EFIT);
    cut_folder(err.msg);
    if (strncmp(err.msg, begin, strlen(begin)) != 0 ||
        strstr(err.msg, end) == NULL)
        fail_msg("%s: expected %s … %s", err.msg, begin, end);
    dsf_session_close(s);
}

static void a_job_needs_the_memory_that_there_is(void **state)
{
    struct dsflow_err err;
    struct dsf_session s;

    open_small(&s, TO_PLAN, "");
    must(dsf_session_check_memory(&s, &err), &err);
    s.machine.available = 1000;
    check_memory(&s, "/job.toml: memory: device: rank 0 needs ",
                 " and has 750 B");
    open_small(&s, TO_PLAN, "memory.device=10KiB");
    check_memory(&s, "--set: memory: device: rank 0 needs ",
                 " and has 10.0 KiB");
    /* What is given makes no memory. */
    open_small(&s, TO_PLAN, "memory.device=10GiB");
    s.machine.available = 1000;
    check_memory(&s, "/job.toml: the job needs ",
                 " of memory and 1000 B are free (dsflow plan says for what)");
}

/* Whole units stand where they are; parts are put together. */
static void weights_come_as_whole_units(void **state)
{
    static const struct {
        const char *keys;
        bool copies;
    } cases[] = { { "", false }, { "mesh.tensor=2", true } };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_err err;
        struct dsf_session s;
        float **units, *want;

        open_small(&s, TO_WEIGHTS, cases[i].keys);
        assert_int_equal(dsf_session_copies(&s) > 0, cases[i].copies);
        must(dsf_session_units(&s, &units, &err), &err);
        for (unsigned u = 0; u < s.model.nunits; u++) {
            must(dsf_unit_alloc(&s.model, u, &want, &err), &err);
            dsf_model_randomize(&s.model, u, 1, want);
            assert_memory_equal(units[u], want,
                                (size_t)s.model.units[u].elems * sizeof(*want));
            free(want);
        }
        dsf_session_units_free(&s, units);
        dsf_session_close(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_job_lacks_is_said_with_its_place),
        cmocka_unit_test(the_folder_of_a_run_is_its_job),
        cmocka_unit_test(a_setting_makes_another_job_or_changes_nothing),
        cmocka_unit_test(the_family_follows_from_the_folder),
        cmocka_unit_test(open_sizes_are_chosen),
        cmocka_unit_test(a_job_needs_the_memory_that_there_is),
        cmocka_unit_test(weights_come_as_whole_units),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
