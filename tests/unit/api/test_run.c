/* test_run.c - jobs, runs and models by the public interface alone. */
#include <dsflow.h>

#include "lib/train.h"

#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const char toml[] = "[job]\n"
                           "steps = 4\n"
                           "[model]\n"
                           "layers = 2\n"
                           "heads = 2\n"
                           "width = 32\n"
                           "context = 16\n"
                           "[batch]\n"
                           "sequences = 4\n"
                           "micro = 1\n"
                           "[optimizer]\n"
                           "lr = 1e-2\n";

/* A job of the text above, with an output of its own and another key or two. */
static struct dsflow_job *job_of(const char *output, const char *one,
                                 const char *two)
{
    struct dsflow_job *all, *job;
    struct dsflow_err err;
    char set[128];
    const char *sets[] = { set, one, two };

    snprintf(set, sizeof(set), "job.output=%s/%s", folder, output);
    must(dsflow_job_parse(toml, "test", &all, &err), &err);
    must(dsflow_job_with(all, sets,
                         two != NULL   ? 3
                         : one != NULL ? 2
                                       : 1,
                         &job, &err),
         &err);
    dsflow_job_free(all);
    return job;
}

/* Numbers that count up, a little faster in each sequence; from `fails` on
 * there are none. */
struct source {
    int64_t fails;
    int32_t beyond; /* added to each token */
    atomic_int calls;
};

static int count_by_steps(void *user, int64_t index, int64_t pos, int64_t n,
                          int32_t *tokens, int32_t *targets)
{
    struct source *s = user;
    int64_t step = index % 7 + 1;

    atomic_fetch_add(&s->calls, 1);
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)((pos + i) * step % 50) + s->beyond;
        targets[i] = (int32_t)((pos + i + 1) * step % 50);
    }
    return s->fails > 0 && index >= s->fails;
}

#define BATCHES(source)                                                        \
    DSFLOW_BATCHES(.vocab = 50, .user = (source), .train = count_by_steps,     \
                   .validation = count_by_steps, .validation_sequences = 5)

/* All parameters, one after the other. */
static float *params_of(struct dsflow_run *run, int64_t *n)
{
    struct dsflow_tensor_info t = DSFLOW_TENSOR_INFO();
    struct dsflow_err err;
    float *all = NULL;

    *n = 0;
    for (unsigned i = 0; dsflow_run_tensor(run, i, &t) == DSFLOW_OK; i++) {
        all = realloc(all, (size_t)(*n + t.elems) * sizeof(*all));
        assert_int_equal(t.elems, t.dims[0] * (t.ndims > 1 ? t.dims[1] : 1));
        must(dsflow_run_get(run, t.name, all + *n, t.elems, &err), &err);
        *n += t.elems;
    }
    assert_true(*n > 1000);
    return all;
}

/* Runs the job step by step; its parameters then. */
static float *steps_of(const struct dsflow_job *job,
                       const struct dsflow_train_options *options, int64_t *n)
{
    const struct dsflow_step *step;
    struct dsflow_run *run;
    struct dsflow_err err;
    float *params;

    must(dsflow_run_open(job, options, &run, &err), &err);
    while (dsflow_run_done(run) < dsflow_run_steps(run)) {
        must(dsflow_run_step(run, &step, &err), &err);
        assert_int_equal(step->step, dsflow_run_done(run));
        assert_true(isfinite(step->loss) && step->grad_norm > 0);
    }
    assert_int_equal(dsflow_run_step(run, &step, &err), DSFLOW_EINVAL);
    params = params_of(run, n);
    dsflow_run_close(run);
    return params;
}

/* Of a run in fp16 alone. */
static void a_step_says_its_loss_scale(void **state)
{
    for (int fp16 = 0; fp16 < 2; fp16++) {
        struct dsflow_job *job =
            job_of("scale", fp16 ? "precision.compute=fp16" : "job.steps=3",
                   "precision.initial_scale=512");
        struct source source = { 0 };
        const struct dsflow_batches batches = BATCHES(&source);
        const struct dsflow_train_options options = DSFLOW_TRAIN_OPTIONS(
            .batches = &batches, .start = DSFLOW_START_OVERWRITE);
        const struct dsflow_step *step;
        struct dsflow_run *run;
        struct dsflow_err err;

        must(dsflow_run_open(job, &options, &run, &err), &err);
        must(dsflow_run_step(run, &step, &err), &err);
        assert_true(step->loss_scale == (fp16 ? 512 : 1));
        assert_int_equal(step->overflows, fp16 ? 0 : -1);
        dsflow_run_close(run);
        dsflow_job_free(job);
    }
}

static void same_params(const float *a, int64_t na, float *b, int64_t nb)
{
    assert_int_equal(na, nb);
    assert_memory_equal(a, b, (size_t)na * sizeof(*a));
    free(b);
}

struct seen {
    int64_t steps, validations, stop_at;
};

static void on_step(void *user, const struct dsflow_step *step)
{
    struct seen *seen = user;

    assert_int_equal(step->step, ++seen->steps);
}

static void on_validation(void *user, const struct dsflow_validation *v)
{
    struct seen *seen = user;

    seen->validations++;
    assert_true(isfinite(v->loss) && isnan(v->per_byte));
    assert_true(fabs(v->perplexity - exp(v->loss)) < 1e-9);
}

static int should_stop(void *user)
{
    const struct seen *seen = user;

    return seen->stop_at > 0 && seen->steps >= seen->stop_at;
}

/* By steps, in one go, on one thread, on four ranks, stopped and resumed: the
 * same bits. */
static void bits_are_those_of_any_way(void **state)
{
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct seen seen = { 0 };
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches, .on_step = on_step,
                             .on_validation = on_validation,
                             .should_stop = should_stop, .user = &seen);
    struct dsflow_job *one = job_of("one", NULL, NULL);
    struct dsflow_job *two = job_of("two", NULL, NULL);
    struct dsflow_job *serial = job_of("serial", NULL, NULL);
    struct dsflow_job *ranks = job_of("ranks", "mesh.data=2", "batch.groups=2");
    struct dsflow_job *alike = job_of("alike", "batch.groups=2", NULL);
    struct dsflow_err err;
    int64_t n, m;
    float *want = steps_of(one, &options, &n), *got;

    assert_int_equal(seen.steps, 4);
    assert_int_equal(seen.validations, 1);

    /* Stopped after two steps; then the other two. */
    seen = (struct seen){ .stop_at = 2 };
    must(dsflow_train(two, &options, &err), &err);
    assert_true(seen.steps >= 2 && seen.steps < 4);
    seen.stop_at = 0;
    assert_int_equal(dsflow_train(two, &options, &err), DSFLOW_EINVAL);
    options.start = DSFLOW_START_RESUME;
    got = steps_of(two, &options, &m);
    assert_int_equal(seen.steps, 4);
    same_params(want, n, got, m);

    seen = (struct seen){ 0 };
    options.start = DSFLOW_START_NEW;
    options.serial = 1;
    got = steps_of(serial, &options, &m);
    same_params(want, n, got, m);
    options.serial = 0;
    free(want);

    seen = (struct seen){ 0 };
    want = steps_of(alike, &options, &n);
    seen = (struct seen){ 0 };
    got = steps_of(ranks, &options, &m);
    same_params(want, n, got, m);
    free(want);
    dsflow_job_free(one);
    dsflow_job_free(two);
    dsflow_job_free(serial);
    dsflow_job_free(ranks);
    dsflow_job_free(alike);
}

/* Who takes steps stops by taking none. */
static void a_step_that_is_asked_for_is_made(void **state)
{
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct seen seen = { .stop_at = 1 };
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches, .on_step = on_step,
                             .should_stop = should_stop, .user = &seen);
    struct dsflow_job *job = job_of("asked", NULL, NULL);
    const struct dsflow_step *step;
    struct dsflow_run *run;
    struct dsflow_err err;

    must(dsflow_run_open(job, &options, &run, &err), &err);
    for (int64_t n = 1; n <= 3; n++) {
        must(dsflow_run_step(run, &step, &err), &err);
        assert_int_equal(step->step, n);
        assert_int_equal(dsflow_run_done(run), n);
    }
    dsflow_run_close(run);
    dsflow_job_free(job);
}

/* What was ended says nothing, and is made when it is asked for again. */
static void a_validation_that_is_ended_has_no_loss(void **state)
{
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct seen seen = { .stop_at = 1 };
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches, .on_step = on_step,
                             .on_validation = on_validation,
                             .should_stop = should_stop, .user = &seen);
    struct dsflow_job *job = job_of("ended", NULL, NULL);
    struct dsflow_validation v;
    struct dsflow_run *run;
    struct dsflow_err err;

    must(dsflow_run_open(job, &options, &run, &err), &err);
    must(dsflow_run_step(run, NULL, &err), &err);
    must(dsflow_run_validate(run, &v, &err), &err);
    assert_true(v.step == 1 && isnan(v.loss) && isnan(v.perplexity));
    assert_int_equal(seen.validations, 0);
    seen.stop_at = 0;
    must(dsflow_run_validate(run, &v, &err), &err);
    assert_true(isfinite(v.loss));
    assert_int_equal(seen.validations, 1);
    dsflow_run_close(run);
    dsflow_job_free(job);
}

/* What is put is there, on each rank, and in the checkpoint. */
static void tensors_are_written(void **state)
{
    static const char bias[] = "transformer.h.1.attn.c_attn.bias";
    static const char weight[] = "transformer.h.0.mlp.c_fc.weight";
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches);
    struct dsflow_job *job = job_of("tensors", "mesh.tensor=2", "mesh.data=2");
    float *v = calloc(128 * 32, sizeof(*v)), *w = calloc(128 * 32, sizeof(*w));
    struct dsflow_model *model;
    struct dsflow_run *run;
    struct dsflow_err err;

    must(dsflow_run_open(job, &options, &run, &err), &err);
    for (int i = 0; i < 128 * 32; i++)
        v[i] = (float)i / 1000;
    must(dsflow_run_put(run, weight, v, 128 * 32, &err), &err);
    must(dsflow_run_put(run, bias, v, 96, &err), &err);
    must(dsflow_run_get(run, weight, w, 128 * 32, &err), &err);
    assert_memory_equal(v, w, 128 * 32 * sizeof(*v));
    assert_int_equal(dsflow_run_put(run, "bias", v, 96, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "the model has no tensor bias");
    assert_int_equal(dsflow_run_get(run, bias, v, 97, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "transformer.h.1.attn.c_attn.bias: 97 "
                                 "elements: expected 96");
    must(dsflow_run_step(run, NULL, &err), &err);
    must(dsflow_run_save(run, &err), &err);
    /* That step is saved again. */
    must(dsflow_run_put(run, weight, v, 128 * 32, &err), &err);
    must(dsflow_run_save(run, &err), &err);
    dsflow_run_close(run);

    must(dsflow_model_open(job, DSFLOW_LATEST_STEP, &model, &err), &err);
    must(dsflow_model_get(model, weight, w, 128 * 32, &err), &err);
    assert_memory_equal(v, w, 128 * 32 * sizeof(*v));
    dsflow_model_close(model);
    dsflow_job_free(job);
    free(v);
    free(w);
}

/* What fails comes back, and the program goes on. */
static void errors_come_back(void **state)
{
    struct source source = { .fails = 8 };
    struct dsflow_batches batches = BATCHES(&source);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches);
    struct dsflow_job *job = job_of("errors", "checkpoint.every=1", NULL), *bad;
    const char *const sets[] = { "batch.micros=4" };
    struct dsflow_run *run, *second;
    struct dsflow_err err;
    int64_t step = 0;
    char path[128];

    assert_int_equal(dsflow_job_with(job, sets, 1, &bad, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "did you mean micro?"));
    assert_null(bad);
    assert_int_equal(dsflow_train(job, NULL, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "data: train: is missing"));

    must(dsflow_run_open(job, &options, &run, &err), &err);
    assert_int_equal(dsflow_run_open(job, &options, &second, &err),
                     DSFLOW_EINVAL);
    assert_null(second);
    must(dsflow_run_step(run, NULL, &err), &err);
    must(dsflow_run_step(run, NULL, &err), &err);
    assert_int_equal(dsflow_run_step(run, NULL, &err), DSFLOW_EFAIL);
    assert_non_null(strstr(err.msg, ": it returned 1: expected 0"));
    assert_non_null(strstr(err.msg, "the last checkpoint is of step 2"));
    err.msg[0] = '\0';
    assert_int_equal(dsflow_run_save(run, &err), DSFLOW_EFAIL);
    assert_non_null(strstr(err.msg, "batches: train: sequence "));
    dsflow_run_close(run);

    source = (struct source){ .beyond = 1 };
    options.start = DSFLOW_START_RESUME;
    assert_int_equal(dsflow_train(job, &options, &err), DSFLOW_EFAIL);
    assert_non_null(strstr(err.msg, " is 50: expected 0 to 49"));
    source = (struct source){ 0 };
    must(dsflow_train(job, &options, &err), &err);
    snprintf(path, sizeof(path), "%s/errors", folder);
    must(dsflow_checkpoint_latest(path, &step, &err), &err);
    assert_int_equal(step, 4);
    snprintf(path, sizeof(path), "%s/errors/checkpoints/step-4", folder);
    must(dsflow_checkpoint_verify(path, &step, &err), &err);
    assert_int_equal(step, 4);
    assert_int_equal(dsflow_checkpoint_verify(folder, &step, &err),
                     DSFLOW_EFAIL);
    assert_true(source.calls > 0);

    options.start = 5;
    assert_int_equal(dsflow_train(job, &options, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "struct dsflow_train_options: start: 5: "
                                 "expected one of enum dsflow_start");
    options.start = DSFLOW_START_RESUME;
    batches.train = NULL;
    assert_int_equal(dsflow_train(job, &options, &err), DSFLOW_EINVAL);
    options.size = 8;
    assert_int_equal(dsflow_train(job, &options, &err), DSFLOW_EINVAL);
    dsflow_job_free(job);
}

/* A checkpoint for which there is no room comes back, too; with room again, the
 * run goes on and saves. */
static void a_full_disk_comes_back(void **state)
{
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches);
    struct dsflow_job *job = job_of("full", "checkpoint.at_end=false", NULL);
    struct rlimit all, none;
    struct dsflow_run *run;
    struct dsflow_err err;
    int64_t step = 0;
    char path[128];
    int status;

    must(dsflow_run_open(job, &options, &run, &err), &err);
    must(dsflow_run_step(run, NULL, &err), &err);
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &all);
    none = (struct rlimit){ 4096, all.rlim_max };
    setrlimit(RLIMIT_FSIZE, &none);
    status = dsflow_run_save(run, &err);
    setrlimit(RLIMIT_FSIZE, &all);
    assert_true(status < 0);
    assert_non_null(strstr(err.msg, folder));
    snprintf(path, sizeof(path), "%s/full", folder);
    must(dsflow_checkpoint_latest(path, &step, &err), &err);
    assert_int_equal(step, -1);

    must(dsflow_run_step(run, NULL, &err), &err);
    must(dsflow_run_save(run, &err), &err);
    dsflow_run_close(run);
    must(dsflow_checkpoint_latest(path, &step, &err), &err);
    assert_int_equal(step, 2);
    dsflow_job_free(job);
}

struct said {
    char text[256];
    int tokens;
};

static int on_token(void *user, const char *text, size_t bytes)
{
    struct said *said = user;

    strncat(said->text, text, bytes);
    return ++said->tokens == 6;
}

/* A run and the model it leaves say the same. */
static void text_comes_by_tokens(void **state)
{
    struct dsflow_sampling sampling = DSFLOW_SAMPLING(.tokens = 9);
    struct said a = { .tokens = 0 }, b = { .tokens = 0 };
    struct dsflow_validation v;
    struct dsflow_model *model;
    struct dsflow_job *job;
    struct dsflow_run *run;
    struct dsflow_err err;
    char set[128], path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/text", folder);
    file = fopen(path, "w");
    for (int i = 0; i < 300; i++)
        fprintf(file, "word %d\n", i);
    fclose(file);
    snprintf(set, sizeof(set), "data.train=%s/text", folder);
    job = job_of("said", set, "data.validation=0.2");
    must(dsflow_run_open(job, NULL, &run, &err), &err);
    must(dsflow_run_step(run, NULL, &err), &err);
    must(dsflow_run_validate(run, &v, &err), &err);
    assert_true(v.step == 1 && v.loss > 0 && v.per_byte == v.loss);
    must(dsflow_run_generate(run, "word", 4, &sampling, on_token, &a, &err),
         &err);
    assert_int_equal(a.tokens, 6);
    must(dsflow_run_save(run, &err), &err);
    dsflow_run_close(run);
    assert_int_equal(dsflow_model_open(job, -7, &model, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "step -7: expected the number of a step, or "
                                 "DSFLOW_LATEST_STEP");
    assert_int_equal(dsflow_evaluate(job, NULL, -2, &v, &err), DSFLOW_EINVAL);
    must(dsflow_model_open(job, 1, &model, &err), &err);
    must(dsflow_model_generate(model, "word", 4, &sampling, on_token, &b, &err),
         &err);
    assert_string_equal(a.text, b.text);
    sampling.top_p = 2;
    assert_int_equal(
        dsflow_model_generate(model, "word", 4, &sampling, on_token, &b, &err),
        DSFLOW_EINVAL);
    dsflow_model_close(model);
    dsflow_job_free(job);
}

/* Of a checkpoint as of the run that wrote it, by either executor. */
static void a_checkpoint_has_the_loss_of_its_run(void **state)
{
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches);
    struct dsflow_job *job = job_of("evaluated", "mesh.data=2", NULL);
    struct dsflow_validation in_run, start, latest;
    struct dsflow_run *run;
    struct dsflow_err err;

    must(dsflow_run_open(job, &options, &run, &err), &err);
    must(dsflow_run_step(run, NULL, &err), &err);
    must(dsflow_run_validate(run, &in_run, &err), &err);
    must(dsflow_run_save(run, &err), &err);
    assert_int_equal(dsflow_evaluate(job, &options, 0, &start, &err),
                     DSFLOW_EINVAL); /* a run is open */
    dsflow_run_close(run);
    must(dsflow_evaluate(job, &options, 0, &start, &err), &err);
    must(dsflow_evaluate(job, &options, DSFLOW_LATEST_STEP, &latest, &err),
         &err);
    assert_true(latest.step == 1 && start.step == 0);
    assert_true(latest.loss == in_run.loss && latest.loss != start.loss);
    options.serial = 1;
    must(dsflow_evaluate(job, &options, 1, &latest, &err), &err);
    assert_true(latest.loss == in_run.loss);
    assert_int_equal(dsflow_evaluate(job, &options, 2, &latest, &err),
                     DSFLOW_EINVAL);
    source.beyond = 50;
    assert_int_equal(dsflow_evaluate(job, &options, 1, &latest, &err),
                     DSFLOW_EFAIL);
    assert_string_equal(err.msg, "batches: validation: sequence 0: the token "
                                 "at 0 is 50: expected 0 to 49");
    dsflow_job_free(job);
}

/* The first tensor of a model; freed by the caller. */
static float *first_of(const struct dsflow_model *model, int64_t *n)
{
    struct dsflow_tensor_info t = DSFLOW_TENSOR_INFO();
    struct dsflow_err err;
    float *v;

    assert_int_equal(dsflow_model_tensor(model, 0, &t), DSFLOW_OK);
    v = malloc((size_t)t.elems * sizeof(*v));
    must(dsflow_model_get(model, t.name, v, t.elems, &err), &err);
    *n = t.elems;
    return v;
}

/* What is written as a Hugging Face folder is the model that a job starts from.
 */
static void a_model_is_exported(void **state)
{
    struct dsflow_job *job = job_of("export", NULL, NULL), *other;
    struct dsflow_model *model, *read;
    struct dsflow_err err;
    char path[128], init[160];
    int64_t n, nread;
    float *want, *got;

    snprintf(path, sizeof(path), "%s/hf", folder);
    snprintf(init, sizeof(init), "model.init=%s", path);
    must(dsflow_model_open(job, 0, &model, &err), &err);
    must(dsflow_model_export(model, path, DSFLOW_FP32, &err), &err);
    assert_int_equal(dsflow_model_export(model, path, DSFLOW_FP32, &err),
                     DSFLOW_EINVAL);
    assert_int_equal(dsflow_model_export(model, path, DSFLOW_INT8, &err),
                     DSFLOW_EINVAL);
    other = job_of("exported", init, NULL);
    must(dsflow_model_open(other, 0, &read, &err), &err);
    want = first_of(model, &n);
    got = first_of(read, &nread);
    same_params(want, n, got, nread);
    free(want);
    dsflow_model_close(read);
    dsflow_model_close(model);
    dsflow_job_free(other);
    dsflow_job_free(job);
}

/* Of fewer tokens than a tokenizer has: all goes but text. */
static void a_model_of_the_callers_tokens_has_no_text(void **state)
{
    struct source source = { 0 };
    struct dsflow_batches batches = BATCHES(&source);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches);
    struct dsflow_sampling sampling = DSFLOW_SAMPLING(.tokens = 3);
    struct dsflow_job *job = job_of("fifty", "model.vocab=50", NULL), *other;
    struct said said = { .tokens = 0 };
    struct dsflow_model *model;
    struct dsflow_run *run;
    struct dsflow_err err;
    char path[128], init[160];
    const char *why =
        "--set: model: vocab: 50: expected at least the 256 tokens of bytes";

    must(dsflow_run_open(job, &options, &run, &err), &err);
    must(dsflow_run_step(run, NULL, &err), &err);
    assert_int_equal(
        dsflow_run_generate(run, "word", 4, &sampling, on_token, &said, &err),
        DSFLOW_EINVAL);
    assert_string_equal(err.msg, why);
    must(dsflow_run_save(run, &err), &err);
    dsflow_run_close(run);

    must(dsflow_model_open(job, 1, &model, &err), &err);
    assert_int_equal(dsflow_model_generate(model, "word", 4, &sampling,
                                           on_token, &said, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, why);
    assert_int_equal(said.tokens, 0);
    snprintf(path, sizeof(path), "%s/fifty-hf", folder);
    must(dsflow_model_export(model, path, DSFLOW_FP32, &err), &err);
    dsflow_model_close(model);

    snprintf(init, sizeof(init), "model.init=%s", path);
    other = job_of("from-fifty", init, NULL);
    must(dsflow_model_open(other, 0, &model, &err), &err);
    dsflow_model_close(model);
    dsflow_job_free(other);
    dsflow_job_free(job);
}

/* A job is a value: what is made of it leaves it alone, and a file has it all.
 */
static void jobs_are_values(void **state)
{
    struct dsflow_job *job = job_of("values", "mesh.data=2", NULL), *again;
    struct dsflow_prediction p = DSFLOW_PREDICTION();
    struct dsflow_planned *planned;
    struct dsflow_machine *machine;
    struct dsflow_err err;
    char path[128], want[4096] = "", got[4096] = "";
    FILE *file;

    snprintf(path, sizeof(path), "%s/job.toml", folder);
    must(dsflow_job_write(job, path, &err), &err);
    file = fopen(path, "r");
    assert_true(fread(want, 1, sizeof(want) - 1, file) > 0);
    fclose(file);
    must(dsflow_job_read(path, &again, &err), &err);
    must(dsflow_machine_present(&machine, &err), &err);
    must(dsflow_plan_job(again, machine, NULL, &planned, &err), &err);
    must(dsflow_predict(planned, &p, &err), &err);
    assert_true(p.step_seconds >= p.bound_seconds && p.bound_seconds > 0);
    assert_true(p.device_bytes > 0 && p.nvme_bytes == 0);
    assert_int_equal(dsflow_plan_ranks(dsflow_planned_plan(planned)), 2);
    assert_true(dsflow_graph_ntasks(dsflow_planned_graph(planned)) > 50);
    dsflow_planned_free(planned);
    must(dsflow_plan_job(again, NULL, "zero", &planned, &err), &err);
    assert_int_equal(dsflow_predict(planned, &p, &err), DSFLOW_EINVAL);
    dsflow_planned_free(planned);
    assert_int_equal(dsflow_plan_job(again, NULL, "no", &planned, &err),
                     DSFLOW_EINVAL);
    must(dsflow_job_write(again, path, &err), &err);
    file = fopen(path, "r");
    assert_true(fread(got, 1, sizeof(got) - 1, file) > 0);
    fclose(file);
    assert_string_equal(want, got);
    dsflow_machine_free(machine);
    dsflow_job_free(again);
    dsflow_job_free(job);
}

static void quiet(void *user, enum dsflow_log_level level, const char *line)
{
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_says_its_loss_scale),
        cmocka_unit_test(bits_are_those_of_any_way),
        cmocka_unit_test(a_step_that_is_asked_for_is_made),
        cmocka_unit_test(a_validation_that_is_ended_has_no_loss),
        cmocka_unit_test(tensors_are_written),
        cmocka_unit_test(errors_come_back),
        cmocka_unit_test(a_full_disk_comes_back),
        cmocka_unit_test(text_comes_by_tokens),
        cmocka_unit_test(a_checkpoint_has_the_loss_of_its_run),
        cmocka_unit_test(a_model_is_exported),
        cmocka_unit_test(a_model_of_the_callers_tokens_has_no_text),
        cmocka_unit_test(jobs_are_values),
    };

    dsflow_log_sink_set(quiet, NULL);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
