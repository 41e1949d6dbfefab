/* fuzz_metrics.c - any bytes as metrics.jsonl: who follows the run shows what it
 * can, and a run that goes on leaves whole lines only. */
#include "train/follow.h"

#include "fuzz/fuzz.h"

static const char *const words[] = {
    "{",      "}",           "[]",      "\"",     "\n",   ":",       "null",
    "-1",     "1e999",       "0.5",     "true",   "\xff", "\\u0000", "[[[[",
    "\"step\"",              "\"ended\":\"finished\"",    "\"why\":\"x\"",
    "9223372036854775807",   "\"validation_loss\":2",     "\"share\":{}",
    NULL,
};

static char *sound(size_t *n)
{
    static const char text[] =
        "{\"step\":1,\"loss\":2.5,\"lr\":0.001,\"grad_norm\":1.5,"
        "\"loss_scale\":1.0,\"skipped\":false,\"tokens\":192,\"seconds\":0.5,"
        "\"efficiency\":0.87,\"share\":{\"forward\":0.31,\"backward\":0.5,"
        "\"update\":0.06,\"move\":0.05,\"idle\":0.08},\"peak_bytes\":"
        "{\"device\":1,\"cpu\":2,\"nvme\":3},\"bytes\":{\"gather\":4},"
        "\"io_seconds\":0.1,\"io_hidden\":0.9,\"program\":\"average\"}\n"
        "{\"step\":1,\"validation_loss\":2.4,\"validation_nats_per_byte\":1.0,"
        "\"validation_perplexity\":11.0}\n"
        "{\"step\":2,\"loss\":null,\"skipped\":true,\"tokens\":192}\n"
        "{\"step\":2,\"ended\":\"failed\",\"why\":\"the loss is nan\"}\n";

    *n = sizeof(text) - 1;
    return fuzz_copy(text, *n);
}

static void check_followed(const struct dsf_follow *f)
{
    for (size_t i = 0; i < f->nlosses; i++)
        if (!(f->losses[i].loss - f->losses[i].loss == 0) ||
            (i > 0 && f->losses[i].step <= f->losses[i - 1].step))
            fuzz_die("losses that cannot be drawn");
}

/* What a run that goes on from step 1 leaves of it. */
static void check_begun(const char *path)
{
    struct dsf_metrics m;
    struct dsflow_err err = { .msg = "" };
    size_t n;
    char *left;

    if (dsf_metrics_open(&m, path, &err) < 0)
        fuzz_die(err.msg);
    if (dsf_metrics_begin(&m, 1, &err) < 0)
        fuzz_refused(&err);
    dsf_metrics_close(&m);
    left = fuzz_load(path, &n);
    if (err.msg[0] == '\0' && n > 0 && left[n - 1] != '\n')
        fuzz_die("half a line is left");
    free(left);
}

static bool accepts(const char *text, size_t n)
{
    const char *path = fuzz_file("metrics.jsonl", text, n);
    struct dsflow_err err;
    struct dsf_follow f;
    bool any;

    if (dsf_follow_open(&f, fuzz_folder(), &err) < 0)
        fuzz_die(err.msg);
    dsf_follow_poll(&f);
    check_followed(&f);
    any = f.has_step;
    dsf_follow_close(&f);
    check_begun(path);
    return any;
}

const struct fuzz_reader fuzz_reader = {
    .name = "metrics",
    .rounds = 4000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
