/* test_params.c - weights from where they are kept: a checkpoint, a Hugging
 * Face folder, or drawn at random. */
#include "small.h"

#include "model/hf.h"

/* Unit `u` as these parameters have it must be `want`, of the model. */
static void check_unit(const struct dsf_session *s, struct dsf_params *p,
                       unsigned u, const float *want)
{
    size_t bytes = (size_t)s->model.units[u].elems * sizeof(float);
    struct dsflow_err err;
    float *got;

    must(dsf_unit_alloc(&s->model, u, &got, &err), &err);
    must(dsf_params_read(p, u, got, &err), &err);
    assert_memory_equal(got, want, bytes);
    free(got);
}

static void a_model_starts_with_the_weights_of_its_seed(void **state)
{
    struct dsf_session s;
    struct dsf_params *p;
    struct dsflow_err err;
    int64_t from;

    open_small(&s, TO_MODEL, "job.seed=11");
    for (int64_t step = 0; step >= DSF_START; step -= 2) { /* 0, DSF_START */
        must(dsf_params_open(&s, step, &p, &from, &err), &err);
        assert_int_equal(from, DSF_START);
        for (unsigned u = 0; u < s.model.nunits; u++) {
            float *want;

            must(dsf_unit_alloc(&s.model, u, &want, &err), &err);
            dsf_model_randomize(&s.model, u, 11, want);
            check_unit(&s, p, u, want);
            free(want);
        }
        dsf_params_close(p);
    }
    dsf_params_close(NULL);
    dsf_session_close(&s);
}

static void count_updates(struct dsf_session *s, int64_t n)
{
    struct dsflow_control *control =
        dsf_contents_map(&s->contents, 0, DSF_KEPT_CONTROL, DSFLOW_RW);

    control->updates = n;
}

/* Two checkpoints, of the weights and of twice them; a step was skipped. */
static void make_two(void)
{
    struct dsf_session s;
    struct dsflow_err err;

    open_small(&s, TO_WEIGHTS, "checkpoint.keep=0");
    count_updates(&s, 2);
    save_run(&s, 2);
    for (unsigned u = 0; u < s.model.nunits; u++) {
        float *at = dsf_contents_map(&s.contents, u, DSF_KEPT_PARAM, DSFLOW_RW);

        for (int64_t i = 0; i < s.model.units[u].elems; i++)
            at[i] *= 2;
    }
    count_updates(&s, 4);
    must(dsf_session_save(&s, 5, &err), &err);
    dsf_session_close(&s);
}

static void each_step_has_its_own(void **state)
{
    static const struct {
        int64_t asked, from, updates;
        float times;
    } cases[] = { { DSF_LATEST, 5, 4, 2 },
                  { 5, 5, 4, 2 },
                  { 2, 2, 2, 1 },
                  { 0, DSF_START, 0, 1 },
                  { DSF_START, DSF_START, 0, 1 } };
    struct dsf_params *p;
    struct dsf_session s;
    struct dsflow_err err;

    make_two();
    open_small(&s, TO_MODEL, "");
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t from = 77, updates = 77;
        float **all, *want;

        must(dsf_params_open(&s, cases[i].asked, &p, &from, &err), &err);
        assert_int_equal(from, cases[i].from);
        assert_int_equal(dsf_params_updates(p), cases[i].updates);
        dsf_params_close(p);
        must(dsf_params_all(&s, cases[i].asked, &all, &updates, &err), &err);
        assert_int_equal(updates, cases[i].updates);
        for (unsigned u = 0; u < s.model.nunits; u++) {
            must(dsf_unit_alloc(&s.model, u, &want, &err), &err);
            dsf_model_randomize(&s.model, u, 1, want);
            for (int64_t k = 0; k < s.model.units[u].elems; k++)
                assert_true(all[u][k] == cases[i].times * want[k]);
            free(want);
        }
        dsf_params_free(&s, all);
    }
    dsf_session_close(&s);
}

/* What is refused, from the step that is asked for. */
static void check_refused(const char *keys, int64_t step, int status,
                          const char *message)
{
    struct dsf_session s;
    struct dsflow_err err = { .msg = "" };
    float **all = NULL;
    int64_t updates;
    int got;

    open_small(&s, TO_MODEL, keys);
    got = dsf_params_all(&s, step, &all, &updates, &err);
    check_message(&err, message);
    assert_int_equal(got, status);
    assert_null(all);
    dsf_session_close(&s);
}

static void what_is_not_there_is_said(void **state)
{
    check_refused("", 3, DSFLOW_EINVAL,
                  "/run: has no checkpoint of step 3 (dsflow checkpoint "
                  "list)");
    check_refused("job.output=@/none", DSF_LATEST, DSFLOW_EINVAL,
                  "/none: has no checkpoint: train it first (dsflow run), or "
                  "look at the model as it starts (step 0)");
    check_refused("model.layers=2", DSF_LATEST, DSFLOW_EINVAL,
                  "/run/checkpoints/step-5: model.layers is 1 in it, and 2 in "
                  "the job: its weights do not fit");
    check_refused("model.ffn_width=32", 2, DSFLOW_EINVAL,
                  "/run/checkpoints/step-2: model.ffn_width is 64 in it, and "
                  "32 in the job: its weights do not fit");
}

/* The weights of the seed 11 as a Hugging Face folder. */
static void export(const char *name)
{
    char *path = in_folder(name);
    struct dsf_hf_export_spec spec = { .folder = path, .dtype = DSFLOW_FP32 };
    struct dsf_session s;
    struct dsf_params *p;
    struct dsflow_err err;
    int64_t from;

    open_small(&s, TO_MODEL, "job.seed=11");
    must(dsf_params_open(&s, DSF_START, &p, &from, &err), &err);
    must(dsf_hf_export(&s.model, &spec, dsf_params_read, p, &err), &err);
    dsf_params_close(p);
    dsf_session_close(&s);
    free(path);
}

static void a_folder_of_weights_is_read(void **state)
{
    struct dsf_session s;
    struct dsflow_err err;
    int64_t updates;
    float **all, *want;

    export("@/hf");
    must(open_job(&s, TO_MODEL, "bare.toml",
                  "model.init=@/hf job.output=@/none", &err),
         &err);
    hush();
    must(dsf_params_all(&s, DSF_LATEST, &all, &updates, &err), &err);
    assert_int_equal(updates, 0);
    dsf_params_say(&s, DSF_LATEST, DSF_START);
    dsf_params_say(&s, DSF_START, DSF_START);
    assert_string_equal(said, "/none has no checkpoint: the weights of "
                              "model.init, /hf\n"
                              "the weights of model.init, /hf\n");
    for (unsigned u = 0; u < s.model.nunits; u++) {
        must(dsf_unit_alloc(&s.model, u, &want, &err), &err);
        dsf_model_randomize(&s.model, u, 11, want);
        assert_memory_equal(all[u], want,
                            (size_t)s.model.units[u].elems * sizeof(*want));
        free(want);
    }
    dsf_params_free(&s, all);
    dsf_session_close(&s);
}

static void which_weights_they_are_is_said(void **state)
{
    struct dsf_session s;

    hush();
    open_small(&s, TO_MODEL, "");
    dsf_params_say(&s, DSF_LATEST, 5);
    dsf_params_say(&s, 0, DSF_START);
    assert_string_equal(said, "step 5 of /run\n"
                              "the model as it starts, without training\n");
    dsf_session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_model_starts_with_the_weights_of_its_seed),
        cmocka_unit_test(each_step_has_its_own),
        cmocka_unit_test(what_is_not_there_is_said),
        cmocka_unit_test(a_folder_of_weights_is_read),
        cmocka_unit_test(which_weights_they_are_is_said),
    };

    return cmocka_run_group_tests(tests, make_small, remove_small);
}
