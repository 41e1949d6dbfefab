/* test_run.c - runs one after the other in one process: each gives its bits,
 * also after one that failed. */
#include "train/run.h"

#include "lib/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_job(void **state)
{
    FILE *text, *job;

    if (make_folder(state) < 0)
        return -1;
    text = fopen(path_in("text.txt"), "w");
    for (int i = 0; i < 400; i++)
        fprintf(text, "Line %d of a text: the number is %d.\n", i, i * i);
    fclose(text);
    job = fopen(path_in("job.toml"), "w");
    fprintf(job,
            "[job]\nsteps = 3\noutput = \"%s/run\"\n"
            "[model]\nlayers = 2\nheads = 2\nwidth = 32\ncontext = 32\n"
            "[data]\ntrain = \"%s/text.txt\"\n"
            "[batch]\nsequences = 4\nmicro = 1\ngroups = 2\n"
            "[schedule]\nkind = \"warmup_cosine\"\nwarmup = 1\n"
            "[machine]\nworkers = 2\n",
            folder, folder);
    fclose(job);
    return 0;
}

/* A run from its job to its last step. */
static int train(struct dsf_run *r, const char *const *sets,
                 enum dsflow_exec_kind executor, struct dsflow_err *err)
{
    unsigned n = 0;
    int status;

    while (sets[n] != NULL)
        n++;
    dsf_run_init(r);
    r->executor = executor;
    r->start.overwrite = true;
    read_laptop(&r->machine);
    r->has_machine = true;
    status = dsf_session_model(&r->s, path_in("job.toml"), sets, n, err);
    if (status == DSFLOW_OK)
        status = dsf_run_check(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_plan(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_text(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_predict(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_open(r, err);
    return status == DSFLOW_OK ? dsf_run_train(r, err) : status;
}

/* The same to its end; its error is `err`. */
static int run(const char *const *sets, enum dsflow_exec_kind executor,
               struct dsflow_err *err)
{
    struct dsf_run r;
    int status = train(&r, sets, executor, err);

    dsf_run_end(&r, status == DSFLOW_OK ? DSF_FINISHED : DSF_FAILED, NULL);
    dsf_run_close(&r);
    return status;
}

/* The parameters and states that a run has saved. */
static char *saved(size_t *n)
{
    static const char *const files[] = { "params", "states" };
    char *all = NULL;

    *n = 0;
    for (int i = 0; i < 2; i++) {
        char name[100];
        FILE *f;
        long size;

        snprintf(name, sizeof(name), "run/checkpoints/step-3/%s.safetensors",
                 files[i]);
        f = fopen(path_in(name), "rb");
        assert_non_null(f);
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        all = realloc(all, *n + (size_t)size);
        assert_int_equal(fread(all + *n, 1, (size_t)size, f), size);
        *n += (size_t)size;
        fclose(f);
    }
    return all;
}

static const char *const plain[] = { NULL };
static const char *const shared[] = { "mesh.data=2", "zero.stage=3", NULL };
static const char *const offloaded[] = { "offload.optimizer=cpu",
                                         "offload.params=cpu", NULL };

static void is_whole(const char *const *sets, enum dsflow_exec_kind executor,
                     const char *expected, size_t n)
{
    struct dsflow_err err;
    char *got;
    size_t size;

    if (run(sets, executor, &err) < 0)
        fail_msg("%s", err.msg);
    got = saved(&size);
    assert_int_equal(size, n);
    assert_memory_equal(got, expected, n);
    free(got);
}

static char *first(size_t *n)
{
    struct dsflow_err err;

    if (run(plain, DSFLOW_SERIAL, &err) < 0)
        fail_msg("%s", err.msg);
    return saved(n);
}

static void runs_one_after_the_other_give_the_same_bits(void **state)
{
    size_t n;
    char *expected = first(&n);

    is_whole(plain, DSFLOW_STARPU, expected, n);
    is_whole(shared, DSFLOW_STARPU, expected, n);
    is_whole(plain, DSFLOW_SERIAL, expected, n);
    is_whole(offloaded, DSFLOW_STARPU, expected, n);
    is_whole(plain, DSFLOW_STARPU, expected, n);
    free(expected);
}

/* Where a program goes back to a checkpoint after a stop: what that does not
 * name is as at the start. */
static void a_checkpoint_says_all_of_the_state_of_a_step(void **state)
{
    struct dsflow_control *control;
    struct dsflow_err err;
    struct dsf_run r;

    if (train(&r, plain, DSFLOW_SERIAL, &err) < 0)
        fail_msg("%s", err.msg);
    control = dsf_contents_map(&r.s.contents, 0, DSF_KEPT_CONTROL, DSFLOW_RW);
    *control = (struct dsflow_control){ .updates = 7, .skipped = 5, .skip = 1 };
    if (dsf_session_load(&r.s, path_in("run/checkpoints/step-3"), &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(control->updates, 3);
    assert_int_equal(control->skipped, 0);
    assert_int_equal(control->skip, 0);
    dsf_run_close(&r);
}

static void a_run_that_fails_leaves_the_next_one_whole(void **state)
{
    static const char *const wrong[][3] = {
        { "model.wdith=32" },
        { "mesh.data=3" },
        { "optimizer.kind=\"nobody\"" },
    };
    static const char *const diverges[] = {
        "optimizer.kind=sgd",     "optimizer.lr=1000",
        "optimizer.clip=0",       "job.steps=30",
        "schedule.kind=constant", "schedule.warmup=0",
        "checkpoint.every=1",     NULL
    };
    struct dsflow_err err;
    size_t n;
    char *expected = first(&n);

    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        assert_int_equal(run(wrong[i], DSFLOW_STARPU, &err), DSFLOW_EINVAL);
        assert_non_null(strstr(err.msg, "--set: "));
    }
    assert_int_equal(run(diverges, DSFLOW_STARPU, &err), DSFLOW_EFAIL);
    assert_non_null(strstr(err.msg, "the largest norms of parameters: "));
    is_whole(plain, DSFLOW_STARPU, expected, n);
    free(expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_one_after_the_other_give_the_same_bits),
        cmocka_unit_test(a_run_that_fails_leaves_the_next_one_whole),
        cmocka_unit_test(a_checkpoint_says_all_of_the_state_of_a_step),
    };

    return cmocka_run_group_tests(tests, write_job, remove_folder);
}
