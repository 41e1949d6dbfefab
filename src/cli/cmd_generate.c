/* cmd_generate.c - sample from a model. */
#include "base/log.h"
#include "cli/job_flags.h"
#include "cli/print_text.h"
#include "train/params.h"

#include <stdlib.h>
#include <string.h>

static int read_sampling(const struct dsf_cli_args *args,
                         struct dsf_sampling *sampling, int64_t *tokens,
                         struct dsflow_err *err)
{
    int64_t seed = 1;
    int status = dsf_flag_number(args, "temperature", 0, 100,
                                 &sampling->temperature, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_number(args, "top-p", 0, 1, &sampling->top_p, err);
    if (status == DSFLOW_OK)
        status =
            dsf_flag_whole(args, "top-k", 0, 4194304, &sampling->top_k, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "seed", 0, INT64_MAX, &seed, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "tokens", 0, 1048576, tokens, err);
    sampling->seed = (uint64_t)seed;
    return status;
}

static int read_weights(const struct dsf_session *s, int64_t step,
                        struct dsf_text_weights *weights, int64_t *from,
                        struct dsflow_err *err)
{
    struct dsf_params *params = NULL;
    int status = dsf_params_open(s, step, &params, from, err);

    if (status == DSFLOW_OK)
        status = dsf_text_weights_read(weights, &s->model, s->job,
                                       dsf_params_updates(params),
                                       dsf_params_read, params, err);
    dsf_params_close(params);
    return status;
}

static int generate(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *path = args->words[0];
    const char *prompt = dsf_flag_value(args, "prompt");
    struct dsf_sampling sampling = { .temperature = 0.8, .top_p = 1 };
    struct dsf_sampled sampled;
    struct dsf_session s = { 0 };
    int64_t tokens = 100, step = DSF_LATEST, from;
    struct dsf_text_weights weights = { .n = 0 };
    int status = read_sampling(args, &sampling, &tokens, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "step", 0, 1000000000, &step, err);
    if (status == DSFLOW_OK)
        status = dsf_open_model(&s, path, args, &step, err);
    if (status == DSFLOW_OK)
        status = read_weights(&s, step, &weights, &from, err);
    if (status == DSFLOW_OK && !dsf_is_hf_folder(path))
        dsf_params_say(&s, step, from);
    if (status == DSFLOW_OK)
        status = dsf_print_text(&s, &weights, prompt != NULL ? prompt : "",
                                tokens, &sampling, &sampled, err);
    if (status == DSFLOW_OK && sampled.full)
        dsf_info("stopped after %lld of %lld tokens: the model's context of %d "
                 "is full",
                 (long long)sampled.tokens, (long long)tokens,
                 s.model.dims.context);
    dsf_text_weights_fini(&weights);
    dsf_session_close(&s);
    return status;
}

static const struct dsf_flag generate_flags[] = {
    { "prompt", "TEXT", "text to go on from" },
    { "tokens", "N", "at most so many tokens (100)" },
    { "temperature", "T", "0: always the likeliest token (0.8)" },
    { "top-k", "K", "choose among the K likeliest tokens (0: all)" },
    { "top-p", "P", "choose among the likeliest tokens of share P (1)" },
    { "seed", "S", "seed of the choices (1): the same seed, the same text" },
    { "step", "N",
      "the checkpoint of step N, not the latest; 0: the model as "
      "it starts" },
    DSF_FLAG_SET,
    { 0 },
};

const struct dsf_cmd dsf_cmd_generate = {
    .name = "generate",
    .args = "RUN|job.toml|FOLDER",
    .summary = "sample text from a model",
    .help =
        "From the newest checkpoint of a run (its output folder or its\n"
        "job.toml; where there is none, from the folder that model.init\n"
        "names), or from a Hugging Face folder with its tokenizer.\n"
        "Stops at the end-of-text token, at one that eos_token_id beside the\n"
        "tokenizer names, or when the model's context is full. The text goes\n"
        "to standard output.",
    .flags = generate_flags,
    .least = 1,
    .most = 1,
    .run = generate,
};
