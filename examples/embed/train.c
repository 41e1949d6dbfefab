/* train.c - a program that trains a model on tokens of its own:
 *
 *     cc train.c -o train $(pkg-config --cflags --libs dsflow)
 *     ./train TEXT FOLDER
 *
 * Its tokens are the bytes of TEXT. FOLDER gets what `dsflow run` writes, and
 * embedding.f32 the matrix of the tokens. */
#include <dsflow.h>

#include <stdio.h>
#include <stdlib.h>

static const char toml[] = "[job]\n"
                           "name = \"embedded\"\n"
                           "steps = 20\n"
                           "[model]\n"
                           "layers = 2\n"
                           "heads = 2\n"
                           "width = 64\n"
                           "context = 64\n"
                           "[batch]\n"
                           "sequences = 8\n"
                           "[optimizer]\n"
                           "lr = 1e-3\n";

enum { SEQUENCE = 64 };

struct text {
    unsigned char *bytes;
    size_t n;
};

/* Sequence after sequence, and again from the start. */
static int read_tokens(void *user, int64_t index, int64_t pos, int64_t n,
                       int32_t *tokens, int32_t *targets)
{
    const struct text *text = user;
    int64_t sequences = (int64_t)(text->n - 1) / SEQUENCE;
    int64_t first = index % sequences * SEQUENCE + pos;

    for (int64_t i = 0; i < n; i++) {
        tokens[i] = text->bytes[first + i];
        targets[i] = text->bytes[first + i + 1];
    }
    return 0;
}

static int read_file(const char *path, struct text *text)
{
    FILE *file = fopen(path, "rb");
    size_t room = 64 << 20;

    text->bytes = malloc(room);
    if (file == NULL || text->bytes == NULL)
        return 0;
    text->n = fread(text->bytes, 1, room, file);
    fclose(file);
    return text->n > SEQUENCE;
}

static void on_step(void *user, const struct dsflow_step *step)
{
    printf("step %lld  loss %.4f\n", (long long)step->step, step->loss);
}

/* The embedding as it is now, into a file of plain numbers. */
static int save_embedding(struct dsflow_run *run, struct dsflow_err *err)
{
    struct dsflow_tensor_info tensor = DSFLOW_TENSOR_INFO();
    FILE *file = fopen("embedding.f32", "wb");
    float *v;
    int status = dsflow_run_tensor(run, 0, &tensor);

    v = malloc((size_t)tensor.elems * sizeof(*v));
    status = dsflow_run_get(run, tensor.name, v, tensor.elems, err);
    if (file == NULL || !fwrite(v, sizeof(*v), (size_t)tensor.elems, file))
        status = dsflow_fail(err, DSFLOW_EIO, "embedding.f32: %m");
    if (file != NULL)
        fclose(file);
    free(v);
    return status;
}

int main(int argc, char **argv)
{
    struct text text = { 0 };
    struct dsflow_batches batches =
        DSFLOW_BATCHES(.vocab = 256, .user = &text, .train = read_tokens);
    struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches, .on_step = on_step,
                             .start = DSFLOW_START_RESUME);
    struct dsflow_job *job = NULL, *here = NULL;
    struct dsflow_run *run = NULL;
    struct dsflow_err err;
    char set[4096];
    const char *sets[] = { set };
    int status;

    if (argc != 3 || !read_file(argv[1], &text)) {
        fprintf(stderr, "expected: train TEXT FOLDER\n");
        return 2;
    }
    snprintf(set, sizeof(set), "job.output=%s", argv[2]);
    status = dsflow_job_parse(toml, "train.c", &job, &err);
    if (status == DSFLOW_OK)
        status = dsflow_job_with(job, sets, 1, &here, &err);
    if (status == DSFLOW_OK)
        status = dsflow_run_open(here, &options, &run, &err);
    while (status == DSFLOW_OK && dsflow_run_done(run) < dsflow_run_steps(run))
        status = dsflow_run_step(run, NULL, &err);
    if (status == DSFLOW_OK)
        status = save_embedding(run, &err);
    if (status < 0)
        fprintf(stderr, "train: %s\n", err.msg);
    dsflow_run_close(run);
    dsflow_job_free(here);
    dsflow_job_free(job);
    free(text.bytes);
    return dsflow_status_exit(status);
}
