/* cmd_eval.c - loss on the validation text. */
#include "base/alloc.h"
#include "base/log.h"
#include "cli/early.h"
#include "cli/feed.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The weights of the newest checkpoint, where there is one. */
static int load(struct dsf_session *s, const char *path, struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s), *folder = NULL;
    struct dsf_ckpt_meta meta;
    int status = DSFLOW_OK;

    if (dsf_is_run(path))
        status = dsf_ckpt_latest(dir, 0, &folder, &meta, err);
    if (status == DSFLOW_OK && folder != NULL) {
        dsf_info("step %lld of %s", (long long)meta.step, path);
        status = dsf_session_load(s, folder, err);
    } else if (status == DSFLOW_OK) {
        dsf_info("the model as it starts, without training");
        status = dsf_session_start(s, err);
    }
    free(folder);
    free(dir);
    return status;
}

static int eval(const struct dsf_words *words, struct dsflow_err *err)
{
    struct dsf_session s = { 0 };
    struct dsf_feed feed;
    double loss;
    int status = dsf_session_model(&s, words->words[0], words, err);

    dsf_feed_init(&feed, &s);
    if (status == DSFLOW_OK)
        status = dsf_early_check(&s, words, err);
    if (status == DSFLOW_OK)
        status = dsf_session_plan(&s, NULL, err);
    if (status == DSFLOW_OK)
        status = dsf_session_check_memory(&s, err);
    if (status == DSFLOW_OK)
        status = dsf_session_text(&s, err);
    if (status == DSFLOW_OK)
        status = dsf_session_open(&s, words, &feed.host, err);
    if (status == DSFLOW_OK)
        status = load(&s, words->words[0], err);
    if (status == DSFLOW_OK)
        status = dsf_validate(&feed, s.job.validation.sequences, &loss, err);
    if (status == DSFLOW_OK)
        printf("loss %.8f\nnats per byte %.8f\nperplexity %.4f\n", loss,
               dsf_per_byte(&s, loss), exp(loss));
    dsf_session_close(&s);
    dsf_feed_fini(&feed);
    return status;
}

static const struct dsf_flag eval_flags[] = {
    DSF_FLAG_SET,
    DSF_FLAG_EXECUTOR,
    { 0 },
};

const struct dsf_cmd dsf_cmd_eval = {
    .name = "eval",
    .args = "RUN|job.toml [--set …]…",
    .summary = "loss and perplexity on the validation text",
    .help = "Of a run (its output folder), the newest checkpoint; of a job.toml,\n"
            "the model it starts from: a Hugging Face folder, or random.",
    .flags = eval_flags,
    .least = 1,
    .most = 1,
    .run = eval,
};
