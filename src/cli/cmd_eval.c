/* cmd_eval.c - loss on the validation text. */
#include "cli/job_flags.h"
#include "train/evaluation.h"
#include "train/params.h"

static int eval(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct dsf_session s = { 0 };
    struct dsf_validation v;
    int64_t step = DSF_LATEST;
    int status = dsf_flag_whole(args, "step", 0, 1000000000, &step, err);

    if (status == DSFLOW_OK)
        status = dsf_open_job(&s, args->words[0], args, err);
    if (status < 0) {
        dsf_session_close(&s);
        return status;
    }
    status = dsf_session_evaluate(&s, dsf_flag_executor(args), step, &v, err);
    if (status == DSFLOW_OK)
        printf("loss %.8f\nnats per byte %.8f\nperplexity %.4f\n", v.loss,
               v.per_byte, v.perplexity);
    return status;
}

static const struct dsf_flag eval_flags[] = {
    DSF_FLAG_SET,
    DSF_FLAG_EXECUTOR,
    { "step", "N",
      "the checkpoint of step N, not the latest; 0: the model as "
      "it starts" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_eval = {
    .name = "eval",
    .args = "RUN|job.toml",
    .summary = "loss and perplexity on the validation text",
    .help =
        "Prints the loss on the validation text, per token and per byte, and\n"
        "the perplexity of the newest checkpoint of a run: its output folder,\n"
        "or the job.toml that has this folder. Where there is none, of the\n"
        "folder that model.init names, which is said. Where the job names\n"
        "data.validation_files, no other text is read.",
    .flags = eval_flags,
    .least = 1,
    .most = 1,
    .run = eval,
};
