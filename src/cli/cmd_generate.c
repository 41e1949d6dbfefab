/* cmd_generate.c - sample from a model. */
#include "base/alloc.h"
#include "cli/generate.h"
#include "cli/session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_file(const char *folder, const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    bool has = access(path, R_OK) == 0;

    free(path);
    return has;
}

/* A Hugging Face folder is a job of its own: a model and its tokenizer. */
static int open_folder(struct dsf_session *s, const char *folder,
                       struct dsflow_err *err)
{
    static const char text[] = "[job]\nsteps = 1\n[data]\ntrain = \"-\"\n";
    char *init = dsf_xasprintf("model.init=%s", folder);
    char *tok = dsf_xasprintf("data.tokenizer=%s", folder);
    const char *sets[] = { init, tok };
    int status = dsf_job_parse(text, sizeof(text) - 1, folder, sets, 2,
                               &s->job, err);

    if (status == DSFLOW_OK)
        status = dsf_tokenizer_open(folder, &s->tok, err);
    if (status == DSFLOW_OK)
        status = dsf_model_init(&s->model, &s->job, err);
    if (status == DSFLOW_OK &&
        s->model.dims.vocab < dsf_tokenizer_vocab(s->tok))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: a vocabulary of %d for a tokenizer of %d "
                             "tokens",
                             folder, s->model.dims.vocab,
                             dsf_tokenizer_vocab(s->tok));
    free(tok);
    free(init);
    return status;
}

static int read_sampling(const struct dsf_words *words,
                         struct dsf_sampling *sampling, double *tokens,
                         struct dsflow_err *err)
{
    double top_k = 0, seed = 1;
    int status =
        dsf_flag_number(words, "temperature", 0, 100, &sampling->temperature,
                        err);

    if (status == DSFLOW_OK)
        status = dsf_flag_number(words, "top-p", 0, 1, &sampling->top_p, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_number(words, "top-k", 0, 1e9, &top_k, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_number(words, "seed", 0, 9e15, &seed, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_number(words, "tokens", 0, 1e9, tokens, err);
    sampling->top_k = (int64_t)top_k;
    sampling->seed = (uint64_t)seed;
    return status;
}

static int generate(const struct dsf_words *words, struct dsflow_err *err)
{
    const char *path = words->words[0];
    const char *prompt = dsf_flag_value(words, "prompt");
    struct dsf_sampling sampling = { .temperature = 0.8, .top_p = 1 };
    struct dsf_session s = { 0 };
    double tokens = 100, step = -1;
    float **params = NULL;
    int64_t from;
    int status = read_sampling(words, &sampling, &tokens, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_number(words, "step", 0, 9e15, &step, err);
    if (status < 0)
        return status;
    if (has_file(path, "config.json") && !has_file(path, "job.toml"))
        status = open_folder(&s, path, err);
    else
        status = dsf_session_model(&s, path, words, err);
    if (status == DSFLOW_OK)
        status = dsf_session_params(&s, (int64_t)step, &params, &from, err);
    if (status == DSFLOW_OK)
        status = dsf_generate_print(
            &s.model, params, s.tok, prompt != NULL ? prompt : "",
            prompt != NULL ? strlen(prompt) : 0, (int64_t)tokens, &sampling,
            stdout, err);
    dsf_params_free(&s, params);
    dsf_session_close(&s);
    return status;
}

static const struct dsf_flag generate_flags[] = {
    { "prompt", "TEXT", "text to go on from" },
    { "tokens", "N", "at most so many tokens (100)" },
    { "temperature", "T", "0: always the likeliest token (0.8)" },
    { "top-k", "K", "choose among the K likeliest tokens (0: all)" },
    { "top-p", "P", "choose among the likeliest tokens of share P (1)" },
    { "seed", "S", "of the choices (1): same seed, same text" },
    { "step", "N", "the checkpoint of step N, not the latest" },
    DSF_FLAG_SET,
    { 0 },
};

const struct dsf_cmd dsf_cmd_generate = {
    .name = "generate",
    .args = "RUN|job.toml|FOLDER [--prompt TEXT] [--tokens N] …",
    .summary = "sample text from a model",
    .help = "From the newest checkpoint of a run (its output folder or its\n"
            "job.toml), or from a Hugging Face folder with its tokenizer.\n"
            "Stops at the end-of-text token, or when the model's context is\n"
            "full. The text goes to standard output.",
    .flags = generate_flags,
    .least = 1,
    .most = 1,
    .run = generate,
};
