/* bench_generate.c - how close generation comes to what the machine can do, of
 * GPT-2 124M with random weights:
 *
 *   bench_generate [TURNS [WORKERS [TYPE]]]
 *
 * TYPE is that of the computation: fp32, bf16 or fp16.
 *
 * Tokens against a plain read of the weights by as many threads (a token needs
 * each of them once), and a prompt against the forward pass of training, the
 * validation of the same number of tokens. All are measured in turn; medians,
 * and the ratios of each turn. */
#include <dsflow/train.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/by_value.h"
#include "policies/keys.h"
#include "train/generate.h"

enum { CONTEXT = 1024, PROMPT = 32, TOKENS = 24, MOST_TURNS = 99 };

static const char toml[] =
    "[job]\nsteps = 1\noutput = \"bench_generate.run\"\n"
    "[model]\nfamily = \"gpt2\"\nlayers = 12\nheads = 12\nwidth = 768\n"
    "context = 1024\nvocab = 50257\n"
    "[batch]\nsequences = 1\nmicro = 1\nsequence = 1024\n"
    "[checkpoint]\nat_end = false\n";

static char precision[40]; /* the setting of the job */

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void must(int status, const struct dsflow_err *err)
{
    if (status == DSFLOW_OK)
        return;
    fprintf(stderr, "bench_generate: %s\n", err->msg);
    exit(1);
}

struct bench {
    struct dsf_job job;
    struct dsf_model model;
    struct dsf_text_weights weights;
    enum dsflow_dtype type;
    double bytes; /* that a token reads */
    unsigned workers;
};

/* Small numbers that need no time to draw. */
static void fill(float *v, int64_t n)
{
    uint32_t s = 12345;

    for (int64_t i = 0; i < n; i++) {
        s = s * 1664525 + 1013904223;
        v[i] = ((float)(s >> 8) / 8388608.0f - 1) * 0.02f;
    }
}

/* A dsf_unit_fn. */
static int draw(void *user, unsigned unit, float *to, struct dsflow_err *err)
{
    const struct dsf_model *m = user;

    fill(to, m->units[unit].elems);
    return DSFLOW_OK;
}

/* Bytes of a unit that a token reads: of the embedding, which the head has too,
 * the rows of words only. */
static size_t bytes_of(const struct bench *b, unsigned u)
{
    const struct dsf_model *m = &b->model;

    return dsflow_dtype_bytes(
        b->type, m->units[u].elems - (u == 0 ? CONTEXT * m->dims.width : 0));
}

static void make(struct bench *b, const char *type)
{
    struct dsflow_err err;

    snprintf(precision, sizeof(precision), "precision.compute=%s", type);
    must(dsf_job_parse(toml, sizeof(toml) - 1, "bench",
                       (const char *[]){ precision }, 1, NULL, &b->job, &err),
         &err);
    must(dsf_model_init(&b->model, &b->job, &err), &err);
    must(dsf_text_weights_read(&b->weights, &b->model, &b->job, 0, draw,
                               &b->model, &err),
         &err);
    b->type = dsf_compute_type(&b->job);
    for (unsigned u = 0; u < b->model.nunits; u++)
        b->bytes += (double)bytes_of(b, u);
}

/* --- a plain read -------------------------------------------------------- */

typedef uint64_t words __attribute__((vector_size(32)));

struct reader {
    const struct bench *b;
    unsigned number;
    uint64_t sum;
    pthread_t thread;
};

/* Its part of every unit. */
static void *read_part(void *arg)
{
    struct reader *r = arg;
    words s[4] = { { 0 } };

    for (unsigned u = 0; u < r->b->model.nunits; u++) {
        size_t n = bytes_of(r->b, u) / sizeof(s);
        const words *v = r->b->weights.v[u];

        for (size_t i = n * r->number / r->b->workers;
             i < n * (r->number + 1) / r->b->workers; i++)
            for (unsigned k = 0; k < 4; k++)
                s[k] ^= v[4 * i + k];
    }
    s[0] ^= s[1] ^ s[2] ^ s[3];
    r->sum = s[0][0] ^ s[0][1] ^ s[0][2] ^ s[0][3];
    return NULL;
}

static double read_seconds(const struct bench *b)
{
    struct reader r[64];
    double since = now();

    for (unsigned i = 0; i < b->workers; i++) {
        r[i] = (struct reader){ .b = b, .number = i };
        if (pthread_create(&r[i].thread, NULL, read_part, &r[i]) != 0)
            exit(1);
    }
    for (unsigned i = 0; i < b->workers; i++)
        pthread_join(r[i].thread, NULL);
    return now() - since;
}

/* --- generation ---------------------------------------------------------- */

static struct dsf_generator *generator(const struct bench *b)
{
    struct dsf_generator *g;
    struct dsflow_err err;

    must(
        dsf_generator_new(&(struct dsf_generator_spec){ .model = &b->model,
                                                        .job = &b->job,
                                                        .weights = &b->weights,
                                                        .workers = b->workers },
                          &g, &err),
        &err);
    return g;
}

static void feed(struct dsf_generator *g, int32_t first, size_t n)
{
    int32_t tokens[CONTEXT];
    struct dsflow_err err;

    for (size_t i = 0; i < n; i++)
        tokens[i] = (first + (int32_t)i * 7) % 50000;
    must(dsf_generator_feed(g, tokens, n, &err), &err);
}

/* Of a token, after a prompt. */
static double token_seconds(const struct bench *b)
{
    struct dsf_generator *g = generator(b);
    double since;

    feed(g, 1, PROMPT);
    feed(g, 2, 1);
    since = now();
    for (int32_t i = 0; i < TOKENS; i++)
        feed(g, i, 1);
    since = (now() - since) / TOKENS;
    dsf_generator_free(g);
    return since;
}

static double prompt_seconds(const struct bench *b)
{
    struct dsf_generator *g = generator(b);
    double since = now();

    feed(g, 1, CONTEXT);
    since = now() - since;
    dsf_generator_free(g);
    return since;
}

/* --- the forward pass of training ---------------------------------------- */

static int read_tokens(void *user, int64_t index, int64_t pos, int64_t n,
                       int32_t *tokens, int32_t *targets)
{
    for (int64_t i = 0; i < n; i++)
        tokens[i] = targets[i] = (int32_t)((index + pos + 7 * i) % 50000);
    return 0;
}

/* The second time: the first touches memory. Workers of an open run do not
 * leave the cores to others, so it is closed. */
static double forward_seconds(const struct bench *b)
{
    const struct dsflow_batches batches =
        DSFLOW_BATCHES(.vocab = 50257, .train = read_tokens,
                       .validation = read_tokens, .validation_sequences = 1);
    const struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.start = DSFLOW_START_OVERWRITE,
                             .batches = &batches);
    struct dsflow_job *any, *job;
    struct dsflow_validation v;
    struct dsflow_run *run;
    struct dsflow_err err;
    char workers[40];
    double since;

    snprintf(workers, sizeof(workers), "machine.workers=%u", b->workers);
    must(dsflow_job_parse(toml, "bench", &any, &err), &err);
    must(dsflow_job_with(any, (const char *[]){ workers, precision }, 2, &job,
                         &err),
         &err);
    must(dsflow_run_open(job, &options, &run, &err), &err);
    must(dsflow_run_validate(run, &v, &err), &err);
    since = now();
    must(dsflow_run_validate(run, &v, &err), &err);
    since = now() - since;
    dsflow_run_close(run);
    dsflow_job_free(any);
    dsflow_job_free(job);
    return since;
}

/* --- */

static double median(double *v, unsigned n)
{
    qsort(v, n, sizeof(*v), dsf_by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

int main(int argc, char **argv)
{
    double read[MOST_TURNS], token[MOST_TURNS], bound[MOST_TURNS];
    double prompt[MOST_TURNS], forward[MOST_TURNS], share[MOST_TURNS];
    unsigned turns = argc > 1 ? (unsigned)atoi(argv[1]) : 5;
    struct bench b = { .workers = argc > 2 ? (unsigned)atoi(argv[2]) : 2 };

    if (turns < 1 || turns > MOST_TURNS || b.workers < 1 || b.workers > 64) {
        fprintf(stderr, "usage: bench_generate [TURNS [WORKERS [TYPE]]]\n");
        return 2;
    }
    make(&b, argc > 3 ? argv[3] : "fp32");
    for (unsigned i = 0; i < turns; i++) {
        read[i] = read_seconds(&b);
        token[i] = token_seconds(&b);
        bound[i] = read[i] / token[i];
    }
    printf("%s: reading %.0f MB: %.1f GB/s; %.1f tokens/s; %.3f of that\n",
           dsflow_dtype_str(b.type), b.bytes / 1e6,
           b.bytes / 1e9 / median(read, turns), 1 / median(token, turns),
           median(bound, turns));
    fflush(stdout);
    for (unsigned i = 0; i < turns; i++) {
        prompt[i] = prompt_seconds(&b);
        forward[i] = forward_seconds(&b);
        share[i] = forward[i] / prompt[i];
    }
    printf("a prompt of %d: %.0f tokens/s; forward of training %.0f; %.3f of "
           "that\n",
           CONTEXT, CONTEXT / median(prompt, turns),
           CONTEXT / median(forward, turns), median(share, turns));
    return 0;
}
