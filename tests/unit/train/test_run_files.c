/* test_run_files.c - the folder of a run, and the job and the plan in it. */
#include "small.h"

#include "train/run.h"

#include <dirent.h>
#include <jansson.h>
#include <sys/stat.h>
#include <unistd.h>

/* The small job with its output there. */
static void open_with_output(struct dsf_session *s, const char *output)
{
    char *keys = dsf_xasprintf("job.output=%s", output);

    open_small(s, TO_MODEL, keys);
    free(keys);
}

static void make_file(const char *name)
{
    char *path = in_folder(name);
    FILE *f = fopen(path, "w");

    assert_non_null(f);
    fclose(f);
    free(path);
}

static void a_folder_that_cannot_be_is_refused(void **state)
{
    static const struct {
        const char *output, *message;
    } cases[] = {
        { "@/a", "" },
        { "@/deep/er/than/that", "" },
        { "@/slash//es/", "" },
        { "@", "--set: job: output: : has a job.toml that no run wrote, and "
               "would lose it: expected a folder of its own" },
        { "@/text.txt", "--set: job: output: /text.txt: Not a directory" },
        { "@/text.txt/x", "--set: job: output: /text.txt/x: Not a directory" },
        { "@/file", "--set: job: output: /file/checkpoints: Not a directory" },
        { "@/link",
          "--set: job: output: /link/checkpoints: No such file or directory" },
    };
    char *link;

    make_subfolder("file");
    make_file("@/file/checkpoints");
    make_subfolder("link");
    link = in_folder("@/link/checkpoints");
    assert_int_equal(symlink("not-mounted", link), 0);
    free(link);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_err err = { .msg = "" };
        struct dsf_metrics first, second;
        struct dsf_session s;
        int status;

        open_with_output(&s, cases[i].output);
        status = dsf_run_check_output(s.job, &err);
        check_message(&err, cases[i].message);
        assert_int_equal(status,
                         err.msg[0] == '\0' ? DSFLOW_OK : DSFLOW_EINVAL);
        if (status == DSFLOW_OK) {
            assert_false(is_there(cases[i].output)); /* nothing is made yet */
            status = dsf_run_take_output(s.job, &first, &err);
            must(status, &err);
            assert_true(is_there(cases[i].output));
            assert_int_equal(dsf_run_take_output(s.job, &second, &err),
                             DSFLOW_EINVAL); /* one at a time */
            dsf_metrics_close(&second);
            dsf_metrics_close(&first);
            must(dsf_run_take_output(s.job, &first, &err), &err);
            dsf_metrics_close(&first);
            must(dsf_run_check_output(s.job, &err), &err);
        }
        dsf_session_close(&s);
    }
}

/* What was made of a folder goes again, and what was there stays. */
static void a_folder_is_as_it_was_before_it_was_taken(void **state)
{
    static const struct {
        const char *output, *there, *gone;
    } cases[] = {
        { "@/new", "@", "@/new" },
        { "@/far/off//new/", "@", "@/far" },
        { "@/old", "@/old", "@/old/metrics.jsonl" },
        { "@/used", "@/used/metrics.jsonl", "@/used/checkpoints" },
        { "@/used", "@/used/cache/tokens", "@/used/checkpoints" },
    };

    make_subfolder("old");
    make_subfolder("used");
    make_subfolder("used/cache");
    make_file("@/used/metrics.jsonl");
    make_file("@/used/cache/tokens");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_output_before before;
        struct dsf_metrics m;
        struct dsf_session s;
        struct dsflow_err err;
        char *checkpoints;

        open_with_output(&s, cases[i].output);
        before = dsf_run_look(s.job);
        must(dsf_run_take_output(s.job, &m, &err), &err);
        checkpoints = dsf_session_checkpoints(&s);
        assert_int_equal(mkdir(checkpoints, 0777), 0);
        free(checkpoints);
        dsf_run_clear_output(s.job, &before, &m);
        dsf_metrics_close(&m);
        assert_true(is_there(cases[i].there));
        assert_false(is_there(cases[i].gone));
        dsf_session_close(&s);
    }
}

/* A run that could write its files. */
static void open_run(struct dsf_run *r, const char *keys)
{
    struct dsflow_err err;

    dsf_run_init(r);
    dsf_machine_model_init(&r->machine);
    r->has_machine = true;
    open_small(&r->s, TO_PLAN, keys);
    must(dsf_run_take_output(r->s.job, &r->metrics, &err), &err);
    must(dsf_run_predict(r, &err), &err);
}

static void note(void *user, const char *table, const char *key,
                 const char *was, const char *now)
{
    fail_msg("%s.%s: %s, then %s", table, key, was, now);
}

static void the_job_in_the_folder_is_the_one_that_runs(void **state)
{
    struct dsflow_err err;
    struct dsf_session again;
    struct dsf_run r;
    char *plan;
    json_t *json;

    open_run(&r, "job.output=@/out optimizer.lr=0.25 batch.micro=2");
    must(dsf_run_write_files(&r, &err), &err);
    must(open_job(&again, TO_MODEL, "out/job.toml", "", &err), &err);
    dsf_job_compare(r.s.job, again.job, note, NULL);
    assert_true(again.job->optimizer.lr == 0.25);
    dsf_session_close(&again);
    plan = read_text("@/out/plan.json");
    json = json_loads(plan, 0, NULL);
    assert_non_null(json);
    assert_int_equal(json_array_size(json_object_get(json, "ranks")), 1);
    json_decref(json);
    free(plan);
    dsf_run_close(&r);
}

/* Those of a folder beside "." and "..". */
static unsigned count_entries(const char *name)
{
    char *path = in_folder(name);
    DIR *dir = opendir(path);
    unsigned n = 0;

    assert_non_null(dir);
    while (readdir(dir) != NULL)
        n++;
    closedir(dir);
    free(path);
    return n - 2;
}

static void a_file_that_cannot_be_written_is_named(void **state)
{
    struct dsflow_err err;
    struct dsf_run r;

    open_run(&r, "job.output=@/blocked");
    make_subfolder("blocked/plan.json");
    assert_int_equal(dsf_run_write_files(&r, &err), DSFLOW_EIO);
    check_message(&err, "/blocked/plan.json: Is a directory");
    assert_true(is_there("@/blocked/job.toml"));
    /* Beside the metrics: nothing is half done. */
    assert_int_equal(count_entries("@/blocked"), 3);
    dsf_run_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_cannot_be_is_refused),
        cmocka_unit_test(a_folder_is_as_it_was_before_it_was_taken),
        cmocka_unit_test(the_job_in_the_folder_is_the_one_that_runs),
        cmocka_unit_test(a_file_that_cannot_be_written_is_named),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
