/* test_types.c - runs and models in bf16 and fp16, by the public interface
 * alone. */
#include <dsflow.h>

#include "lib/train.h"

#include <stdio.h>
#include <string.h>

static const char toml[] = "[job]\n"
                           "steps = 4\n"
                           "[model]\n"
                           "layers = 2\n"
                           "heads = 2\n"
                           "width = 32\n"
                           "context = 16\n"
                           "vocab = 256\n"
                           "[batch]\n"
                           "sequences = 4\n"
                           "micro = 1\n"
                           "[optimizer]\n"
                           "lr = 1e-2\n";

/* The types, and where copies of the parameters are: on each rank, gathered
 * from shards, written by casts. */
static const char *const ways[][3] = {
    { "precision.compute=bf16", "mesh.data=1", "zero.stage=0" },
    { "precision.compute=fp16", "mesh.data=2", "zero.stage=1" },
    { "precision.compute=bf16", "mesh.data=2", "zero.stage=3" },
    { "precision.compute=bf16", "mesh.tensor=2", "offload.params=cpu" },
    { "precision.compute=bf16", "precision.master=false", "zero.stage=0" },
};
#define NWAYS (sizeof(ways) / sizeof(*ways))

/* With a text of its own, or (NULL) none. */
static struct dsflow_job *job_of(const char *output, size_t way,
                                 const char *text)
{
    struct dsflow_job *all, *job;
    struct dsflow_err err;
    char set[128], train[128];
    const char *sets[] = { set, ways[way][0], ways[way][1], ways[way][2],
                           train };

    snprintf(set, sizeof(set), "job.output=%s/%s%zu", folder, output, way);
    snprintf(train, sizeof(train), "data.train=%s/%s", folder,
             text != NULL ? text : "");
    must(dsflow_job_parse(toml, "test", &all, &err), &err);
    must(dsflow_job_with(all, sets, text != NULL ? 5 : 4, &job, &err), &err);
    dsflow_job_free(all);
    return job;
}

#define BATCHES()                                                              \
    DSFLOW_BATCHES(.vocab = 50, .train = count_up, .validation = count_up,     \
                   .validation_sequences = 5)

static const char bias[] = "transformer.h.1.mlp.c_fc.bias";
enum { BIASES = 128 };

/* Numbers that bf16 has. */
static void put(struct dsflow_run *run, float by)
{
    float v[BIASES];
    struct dsflow_err err;

    for (int i = 0; i < BIASES; i++)
        v[i] = by * (float)(i % 8);
    must(dsflow_run_put(run, bias, v, BIASES, &err), &err);
}

static double loss_of(struct dsflow_run *run)
{
    struct dsflow_validation v;
    struct dsflow_err err;

    must(dsflow_run_validate(run, &v, &err), &err);
    return v.loss;
}

static double step_loss(struct dsflow_run *run)
{
    const struct dsflow_step *step;
    struct dsflow_err err;

    must(dsflow_run_step(run, &step, &err), &err);
    return step->loss;
}

/* The next validation and the next step see them, as do those that begin with
 * the checkpoint they are in. */
static void what_is_put_is_used(void **state)
{
    for (size_t w = 0; w < NWAYS; w++) {
        const struct dsflow_batches batches = BATCHES();
        struct dsflow_train_options options =
            DSFLOW_TRAIN_OPTIONS(.batches = &batches, .serial = w % 2);
        struct dsflow_job *job = job_of("put", w, NULL);
        struct dsflow_validation v;
        struct dsflow_run *run;
        struct dsflow_err err;
        double loss, second;

        must(dsflow_run_open(job, &options, &run, &err), &err);
        step_loss(run);
        loss = loss_of(run);
        put(run, 0.25f);
        assert_true(loss_of(run) != loss);
        loss = loss_of(run);
        put(run, 0.5f);
        must(dsflow_run_save(run, &err), &err);
        second = step_loss(run); /* nothing is validated before it */
        dsflow_run_close(run);

        options.start = DSFLOW_START_RESUME;
        must(dsflow_run_open(job, &options, &run, &err), &err);
        assert_int_equal(dsflow_run_done(run), 1);
        assert_true(step_loss(run) == second);
        put(run, 0.25f);
        loss = loss_of(run);
        must(dsflow_run_save(run, &err), &err);
        dsflow_run_close(run);
        must(dsflow_evaluate(job, &options, DSFLOW_LATEST_STEP, &v, &err),
             &err);
        assert_true(v.step == 2 && v.loss == loss);
        dsflow_job_free(job);
    }
}

static int on_token(void *user, const char *text, size_t bytes)
{
    strncat(user, text, bytes);
    return 0;
}

/* Of a run as of its checkpoint, which has what was put. */
static void text_is_that_of_the_run(void **state)
{
    const struct dsflow_sampling sampling = DSFLOW_SAMPLING(.tokens = 9);
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/text", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 300; i++)
        fprintf(file, "word %d\n", i);
    fclose(file);
    for (size_t w = 0; w < NWAYS; w += 3) {
        char run_says[256] = "", says[256] = "", again[256] = "";
        struct dsflow_job *job = job_of("said", w, "text");
        struct dsflow_model *model;
        struct dsflow_run *run;
        struct dsflow_err err;

        must(dsflow_run_open(job, NULL, &run, &err), &err);
        must(dsflow_run_step(run, NULL, &err), &err);
        put(run, 0.25f);
        must(dsflow_run_generate(run, "w", 1, &sampling, on_token, run_says,
                                 &err),
             &err);
        must(dsflow_run_save(run, &err), &err);
        dsflow_run_close(run);
        must(dsflow_model_open(job, 1, &model, &err), &err);
        must(dsflow_model_generate(model, "w", 1, &sampling, on_token, says,
                                   &err),
             &err);
        must(dsflow_model_generate(model, "w", 1, &sampling, on_token, again,
                                   &err),
             &err);
        assert_string_equal(says, run_says);
        assert_string_equal(again, run_says);
        dsflow_model_close(model);
        dsflow_job_free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_put_is_used),
        cmocka_unit_test(text_is_that_of_the_run),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
