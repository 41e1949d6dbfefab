/* test_resume.c - a run goes on from a checkpoint with the job it had; with
 * another one only where that is asked for, and possible. */
#include "small.h"

#include "train/resume.h"

enum { STEP = 3 };

/* How a run is asked to go on. */
static const struct dsf_resume plainly = { .asked = true };
static const struct dsf_resume changed = { .asked = true, .changes = true };

/* From the checkpoint to what can be known of it; *r and *s are to be ended in
 * any case. */
static int go_on(struct dsf_resume *r, struct dsf_session *s,
                 const struct dsf_resume *asked, const char *keys,
                 enum stage to, struct dsflow_err *err)
{
    char *all = dsf_xasprintf("job.output=@/run batch.micro=auto %s", keys);
    struct dsf_machine_model machine;
    int status;

    hush();
    err->msg[0] = '\0';
    *r = *asked;
    dsf_machine_model_init(&machine); /* as if it had been measured */
    status = open_job(s, TO_MODEL, "job.toml", all, err);
    free(all);
    if (status == DSFLOW_OK)
        status = dsf_machine_probe(&s->machine, err);
    if (status == DSFLOW_OK)
        status = dsf_resume_find(r, s, err);
    if (status == DSFLOW_OK)
        status = dsf_resume_check(r, s, err);
    if (status == DSFLOW_OK && to >= TO_PLAN)
        status = dsf_session_fit(s, &machine, NULL, err);
    dsf_machine_model_fini(&machine);
    if (status == DSFLOW_OK && to >= TO_TEXT)
        status = dsf_session_text(s, err);
    return status == DSFLOW_OK ? dsf_resume_check(r, s, err) : status;
}

static void end(struct dsf_resume *r, struct dsf_session *s)
{
    dsf_resume_fini(r);
    dsf_session_close(s);
}

/* What comes of these keys, and what is said. */
static void check(const struct dsf_resume *asked, const char *keys,
                  const char *message, const char *lines)
{
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;
    int status = go_on(&r, &s, asked, keys, TO_TEXT, &err);

    check_message(&err, message);
    assert_int_equal(status, message[0] == '\0' ? DSFLOW_OK : DSFLOW_EINVAL);
    assert_string_equal(said, lines);
    end(&r, &s);
}

static void without_a_word_of_it_a_run_is_not_touched(void **state)
{
    static const struct dsf_resume nothing = { .asked = false };
    static const struct dsf_resume over = { .overwrite = true };
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;

    check(&nothing, "",
          "--set: job: output: /run has checkpoints: go on with --resume, or "
          "start over with --overwrite, which removes them",
          "");
    must(go_on(&r, &s, &over, "", TO_TEXT, &err), &err);
    assert_null(r.folder);
    end(&r, &s);
    assert_true(is_there("@/run/checkpoints/step-3"));
    must(go_on(&r, &s, &nothing, "job.output=@/new", TO_TEXT, &err), &err);
    assert_null(r.folder);
    end(&r, &s);
}

static void the_same_job_goes_on_from_the_last_step(void **state)
{
    static const char *const alike[] = { "", "batch.micro=2 batch.groups=2",
                                         "machine.workers=1" };

    for (size_t i = 0; i < sizeof(alike) / sizeof(*alike); i++) {
        struct dsf_resume r;
        struct dsf_session s;
        struct dsflow_err err;

        must(go_on(&r, &s, &plainly, alike[i], TO_TEXT, &err), &err);
        assert_int_equal(r.meta.step, STEP);
        assert_non_null(strstr(r.folder, "/run/checkpoints/step-3"));
        assert_false(r.differs);
        end(&r, &s);
    }
}

/* batch.micro and batch.groups are "auto" here, and were 2 and 2. */
static void open_sizes_are_those_of_the_run(void **state)
{
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;

    must(go_on(&r, &s, &plainly, "mesh.data=2 zero.stage=1", TO_TEXT, &err),
         &err);
    assert_int_equal(s.job->batch.micro, 2);
    assert_int_equal(s.job->batch.groups, 2);
    end(&r, &s);
    check(
        &plainly, "mesh.data=4 batch.sequences=4",
        "/run/checkpoints/step-3: the job has changed (batch.micro, "
        "batch.groups): set them back, or go on with --resume=changed, which "
        "is not bit for bit",
        "batch.micro: 2 in the run, now 1: sums have another order, and so "
        "other last bits\n"
        "batch.groups: 2 in the run, now 4: sums have another order, and so "
        "other last bits\n"
        "batch.groups: \"auto\" is mesh.data; a run that has batch.groups = 4 "
        "from its start goes on bit for bit on 1 to 4 data ranks\n"
        "mesh.data: 1 in the run, now 4: the checkpoint does not depend on "
        "it\n");
}

/* "the job has changed (…): set it back, …". */
#define CHANGED(keys, back)                                                    \
    "/run/checkpoints/step-3: the job has changed (" keys "): set " back       \
    " back, or go on with --resume=changed, which is not bit for bit"
#define BROKEN(key, why)                                                       \
    "/run/checkpoints/step-3: cannot go on with another " key ": " why         \
    ": set it back, or train into another job.output"
#define GOES_ON(text)                                                          \
    "/run/checkpoints/step-3: goes on with the job as it is now, not bit for " \
    "bit; the text " text "\n"
#define WEIGHTS "its weights do not fit"
#define STATES  "its states of the optimizer do not fit"

static void what_has_changed_is_said(void **state)
{
    static const struct {
        const struct dsf_resume *asked;
        const char *keys, *message, *said;
    } cases[] = {
        { &plainly, "optimizer.lr=0.5", "",
          "optimizer.lr: 3e-4 in the run, now 0.5: the checkpoint does not "
          "depend on it\n" },
        { &plainly, "job.seed=2", CHANGED("job.seed", "it"),
          "job.seed: 1 in the run, now 2: the text would begin anew\n" },
        { &plainly, "batch.sequences=8", CHANGED("batch.sequences", "it"),
          "batch.sequences: 4 in the run, now 8: the steps have another "
          "size\n" },
        { &plainly, "data.validation=0.1",
          CHANGED("data.train, data.validation", "them"),
          "data.train: the text is another than in the run (its files, what is "
          "in them, or data.validation): the text would begin anew\n"
          "data.validation: 0.05 in the run, now 0.1: the text would begin "
          "anew\n" },
        { &plainly, "model.norm_eps=1e-6", CHANGED("model.norm_eps", "it"),
          "model.norm_eps: 1e-05 in the run, now 1e-06: the model computes "
          "something else\n" },
        { &plainly, "batch.groups=1", CHANGED("batch.groups", "it"),
          "batch.groups: 2 in the run, now 1: sums have another order, and so "
          "other last bits\n" },
        { &plainly, "optimizer.kind=sgd", BROKEN("optimizer.kind", STATES),
          "optimizer.kind: adamw in the run, now sgd: " STATES "\n" },
        { &plainly, "model.layers=2", BROKEN("model.layers", WEIGHTS),
          "model.layers: 1 in the run, now 2: " WEIGHTS "\n" },
        { &changed, "batch.sequences=8", "",
          "batch.sequences: 4 in the run, now 8: the steps have another "
          "size\n" GOES_ON("goes on after what was read of it") },
        { &changed, "job.seed=2", "",
          "job.seed: 1 in the run, now 2: the text would begin anew\n" GOES_ON(
              "begins anew") },
        { &changed, "model.ffn_width=32", BROKEN("model.ffn_width", WEIGHTS),
          "model.ffn_width: 64 in the run, now 32: " WEIGHTS "\n" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        check(cases[i].asked, cases[i].keys, cases[i].message, cases[i].said);
}

/* So are the tokens of another tokenizer, before the text is known. */
static void weights_mean_the_tokens_they_were_trained_with(void **state)
{
    write_tokenizer("tokenizer.json");
    check(&plainly, "data.tokenizer=@/tokenizer.json model.vocab=300",
          BROKEN("model.vocab", WEIGHTS),
          "model.vocab: 256 in the run, now 300: " WEIGHTS "\n"
          "data.tokenizer: /tokenizer.json is another than in the run: its "
          "weights mean other tokens\n");
}

/* Tiles follow from the size of a step, which goes without saying. */
static void tiles_of_another_size_are_not_said(void **state)
{
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;
    int tiles;

#define LONG                                                                   \
    "job.output=@/long model.context=512 data.validation=0 batch.sequences=2 "
    open_small(&s, TO_WEIGHTS, LONG "batch.micro=2");
    tiles = s.plan->ntiles;
    save_run(&s, STEP);
    dsf_session_close(&s);
    assert_int_equal(
        go_on(&r, &s, &plainly, LONG "batch.micro=1", TO_TEXT, &err),
        DSFLOW_EINVAL);
    assert_int_not_equal(s.plan->ntiles, tiles);
    assert_string_equal(said,
                        "batch.micro: 2 in the run, now 1: sums have another "
                        "order, and so other last bits\n");
    end(&r, &s);
}

/* Where the text goes on after a change. */
static void the_text_goes_on_or_begins_anew(void **state)
{
    static const struct {
        const char *keys;
        bool new_text;
        int64_t first; /* of step 0, so that step 3 goes on where it should */
    } cases[] = {
        { "optimizer.lr=0.5", false, 5 },
        { "batch.sequences=8", false, 5 + 3 * 4 - 3 * 8 },
        { "data.validation=0.1", true, -3 * 4 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        static const struct dsflow_host host;
        struct dsf_resume r;
        struct dsf_session s;
        struct dsflow_err err;

        must(go_on(&r, &s, &changed, cases[i].keys, TO_TEXT, &err), &err);
        assert_int_equal(r.new_text, cases[i].new_text);
        must(dsf_session_open(&s, DSFLOW_SERIAL, &host, &err), &err);
        must(dsf_resume_load(&r, &s, &err), &err);
        assert_int_equal(s.first, cases[i].first);
        end(&r, &s);
    }
}

static void a_job_that_ended_earlier_is_refused(void **state)
{
    check(&plainly, "job.steps=2",
          "--set: job: steps: 2: /run/checkpoints/step-3 is of step 3 already: "
          "expected at least that many",
          "");
}

/* A copy of the run that a test may change. */
static void copy_run(const char *name)
{
    char *command = dsf_xasprintf("cp -r %s/run %s/%s", folder, folder, name);

    assert_int_equal(system(command), 0);
    free(command);
}

static void a_run_whose_job_is_gone_goes_on_too(void **state)
{
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;

    copy_run("jobless");
    write_text("jobless/job.toml", "this is no job");
    must(go_on(&r, &s, &plainly, "job.output=@/jobless optimizer.lr=0.5",
               TO_TEXT, &err),
         &err);
    assert_null(r.job);
    assert_string_equal(said, ""); /* nobody knows what the rate was */
    assert_int_equal(s.job->batch.groups, 2);
    end(&r, &s);
}

/* A schedule that ends with the run changes where there are more steps. */
static void a_longer_run_has_other_rates(void **state)
{
    static const struct {
        const char *keys, *said;
    } cases[] = {
        { "schedule.kind=constant", "" },
        { "schedule.kind=warmup_cosine",
          "schedule.total: \"auto\" is job.steps: the steps so far had the "
          "rates of a run of 10 steps; one that has schedule.total = 60 from "
          "its start, or is stopped by a signal, goes on bit for bit\n" },
        { "schedule.kind=warmup_cosine schedule.total=60", "" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        char *keys = dsf_xasprintf("job.output=@/longer%zu schedule.warmup=0 "
                                   "batch.micro=2 batch.groups=2 %s",
                                   i, cases[i].keys);
        char *now = dsf_xasprintf("%s job.steps=60", keys);
        char *lines = dsf_xasprintf("job.steps: 10 in the run, now 60: the "
                                    "checkpoint does not depend on it\n%s",
                                    cases[i].said);

        make_run(keys, STEP);
        check(&plainly, now, "", lines);
        free(lines);
        free(now);
        free(keys);
    }
}

static void a_damaged_checkpoint_is_named(void **state)
{
    static const struct dsf_resume good = { .asked = true, .good = true };
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;

    open_small(&s, TO_WEIGHTS,
               "job.output=@/two batch.micro=2 batch.groups=2 "
               "checkpoint.keep=2");
    save_run(&s, 2);
    save_run(&s, 3);
    dsf_session_close(&s);
    edit("two/checkpoints/step-3/manifest.json", "params.safetensors",
         "parrot.safetensors");
    assert_int_equal(go_on(&r, &s, &plainly, "job.output=@/two", TO_TEXT, &err),
                     DSFLOW_EFAIL);
    check_message(&err, "/two/checkpoints/step-3/parrot.safetensors: No such "
                        "file or directory; --resume=latest-good would take "
                        "step 2");
    assert_null(r.folder);
    end(&r, &s);
    must(go_on(&r, &s, &good, "job.output=@/two", TO_TEXT, &err), &err);
    assert_int_equal(r.meta.step, 2);
    end(&r, &s);
}

static void those_of_before_go_where_that_is_asked_for(void **state)
{
    static const struct dsf_resume over = { .overwrite = true };
    struct dsf_resume r;
    struct dsf_session s;
    struct dsflow_err err;

    copy_run("gone");
    must(go_on(&r, &s, &plainly, "job.output=@/gone", TO_TEXT, &err), &err);
    must(dsf_resume_begin(&r, &s, &err), &err);
    assert_true(is_there("@/gone/checkpoints/step-3"));
    end(&r, &s);
    must(go_on(&r, &s, &over, "job.output=@/gone", TO_TEXT, &err), &err);
    must(dsf_resume_begin(&r, &s, &err), &err);
    assert_false(is_there("@/gone/checkpoints/step-3"));
    assert_false(is_there("@/gone/checkpoints/latest"));
    end(&r, &s);
}

/* The run that the others go on with: of micro-batches of 2 in 2 groups, whose
 * text began with sequence 5. */
static int make_one(void **state)
{
    struct dsf_session s;

    if (make_small(state) < 0)
        return -1;
    open_small(&s, TO_WEIGHTS, "batch.micro=2 batch.groups=2");
    dsf_session_set_first(&s, 5);
    save_run(&s, STEP);
    dsf_session_close(&s);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_word_of_it_a_run_is_not_touched),
        cmocka_unit_test(the_same_job_goes_on_from_the_last_step),
        cmocka_unit_test(open_sizes_are_those_of_the_run),
        cmocka_unit_test(what_has_changed_is_said),
        cmocka_unit_test(weights_mean_the_tokens_they_were_trained_with),
        cmocka_unit_test(tiles_of_another_size_are_not_said),
        cmocka_unit_test(the_text_goes_on_or_begins_anew),
        cmocka_unit_test(a_job_that_ended_earlier_is_refused),
        cmocka_unit_test(a_run_whose_job_is_gone_goes_on_too),
        cmocka_unit_test(a_longer_run_has_other_rates),
        cmocka_unit_test(a_damaged_checkpoint_is_named),
        cmocka_unit_test(those_of_before_go_where_that_is_asked_for),
    };

    return cmocka_run_group_tests(tests, make_one, remove_small);
}
