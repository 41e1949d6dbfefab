/* cmd_checkpoint.c - list, verify, show, export and import
 * checkpoints. */
#include "base/alloc.h"
#include "base/units.h"
#include "cli/job_flags.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Lines printed, and checkpoints that were not whole. */
struct count {
    unsigned all, damaged;
};

static void print_one(void *user, const char *path,
                      const struct dsf_ckpt_meta *meta, int64_t bytes,
                      int status, const struct dsflow_err *why)
{
    struct count *count = user;

    count->all++;
    if (status < 0) {
        count->damaged++;
        printf("step %-8lld damaged: %s\n", (long long)meta->step, why->msg);
    } else {
        printf("step %-8lld %10s  %s  %s\n", (long long)meta->step,
               dsf_size_text((double)bytes).s, meta->job, path);
    }
}

/* Every checkpoint of a run; exit status 1 when one is damaged. */
static int list(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    char *dir = dsf_xasprintf("%s/checkpoints", args->words[1]);
    struct count count = { 0 };
    int status;

    if (access(args->words[1], F_OK) == 0 && access(dir, F_OK) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has no checkpoints: expected the output "
                             "folder of a run%s",
                             args->words[1],
                             strcmp(args->words[0], "verify") == 0
                                 ? ", or the folder of a checkpoint"
                                 : "");
    else
        status = dsf_ckpt_list(dir, print_one, &count, err);
    free(dir);
    return status < 0 ? status : count.damaged > 0;
}

/* Of a run: every checkpoint; of a checkpoint's folder: that one. */
static int verify(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    char *manifest = dsf_xasprintf("%s/manifest.json", args->words[1]);
    struct dsf_ckpt_meta meta;
    int status;

    if (access(manifest, F_OK) == 0) {
        status = dsf_ckpt_verify(args->words[1], &meta, err);
        if (status == DSFLOW_OK)
            printf("step %lld is whole\n", (long long)meta.step);
    } else {
        status = list(args, err);
    }
    free(manifest);
    return status;
}

static const struct {
    const char *name, *args;
    unsigned nwords; /* with the name */
    int (*run)(const struct dsf_cli_args *args, struct dsflow_err *err);
    const char *flags; /* that it takes, each between blanks */
} actions[] = {
    { "list", "RUN", 2, list, "" },
    { "verify", "RUN or FOLDER", 2, verify, "" },
    { "show", "a file or folder", 2, dsf_checkpoint_show, " tag json " },
    { "export", "RUN and FOLDER", 3, dsf_checkpoint_export,
      " set step dtype deepspeed layers heads ffn-width " },
    { "import", "FOLDER and a job.toml", 3, dsf_checkpoint_import,
      " set tag weights-only prefix " },
};

static bool takes(size_t i, const char *flag)
{
    char *between = dsf_xasprintf(" %s ", flag);
    bool found = strstr(actions[i].flags, between) != NULL;

    free(between);
    return found;
}

/* What takes the flag, for messages. */
static const char *taker_of(const char *flag)
{
    size_t i = 0;

    while (!takes(i, flag))
        i++;
    return actions[i].name;
}

/* What one action takes, another must not take and ignore. */
static int run_action(size_t i, const struct dsf_cli_args *args,
                      struct dsflow_err *err)
{
    if (args->nwords != actions[i].nwords)
        return dsflow_fail(err, DSFLOW_EINVAL, "checkpoint %s: expected %s",
                           actions[i].name, actions[i].args);
    for (unsigned o = 0; o < args->nopts; o++)
        if (!takes(i, args->opts[o].flag->name))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "checkpoint %s: --%s: is for %s only",
                               actions[i].name, args->opts[o].flag->name,
                               taker_of(args->opts[o].flag->name));
    return actions[i].run(args, err);
}

static int checkpoint(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++)
        if (strcmp(args->words[0], actions[i].name) == 0)
            return run_action(i, args, err);
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "checkpoint: %.60s: expected list, verify, show, "
                       "export or import",
                       args->words[0]);
}

static const struct dsf_flag checkpoint_flags[] = {
    DSF_FLAG_SET,
    { "step", "N", "export: the checkpoint of step N, not the latest" },
    { "dtype", "fp32|bf16|fp16",
      "export: type of the weights (precision.compute)" },
    { "deepspeed", NULL,
      "export: a universal folder, with moments and step, for DeepSpeed" },
    { "layers", "LIST",
      "export: these layers of the model, in this order, such as 0-5,8" },
    { "heads", "N",
      "export: so many heads of each layer, those that matter most" },
    { "ffn-width", "N", "export: so many inner columns of each MLP" },
    { "tag", "T", "show, import: of the folder's checkpoints, not the latest" },
    { "json", NULL, "show: as JSON" },
    { "weights-only", NULL, "import: a run that begins with the weights" },
    { "prefix", "P", "import: what stands before the names of all tensors" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_checkpoint = {
    .name = "checkpoint",
    .args = "list RUN | verify RUN|FOLDER | show PATH | "
            "export RUN FOLDER | import FOLDER JOB",
    .summary = "list, verify, show, export or import checkpoints",
    .help =
        "list and verify read every byte of the checkpoints of a run (its\n"
        "output folder) and exit with 1 when one is damaged; verify takes the\n"
        "folder of one checkpoint, too. show says what a file or folder is\n"
        "(of dsflow, Hugging Face, DeepSpeed or Megatron; a file of\n"
        "torch.save or safetensors), with the names, types and shapes in it:\n"
        "it runs nothing that the file names and reads no numbers. export\n"
        "writes a Hugging Face folder (config.json, model.safetensors, the\n"
        "tokenizer's files, generation_config.json) that transformers loads;\n"
        "a job reads one with model.init. RUN may be a job, or such a folder,\n"
        "too. Types of 16 bits are rounded to nearest. With --layers, --heads\n"
        "or --ffn-width it is a smaller model, to be trained on: these\n"
        "layers, and of each the heads and inner columns that the loss would\n"
        "miss most, as the second moments of the optimizer tell. With\n"
        "--deepspeed it is a universal folder, from which DeepSpeed goes on,\n"
        "on any number of ranks (checkpoint.load_universal). import reads a\n"
        "folder of DeepSpeed (ZeRO 1 to 3, or without), such as the\n"
        "checkpoint-N that Hugging Face's Trainer writes with it, and writes\n"
        "a checkpoint of the job, with weights, moments and step: dsflow run\n"
        "--resume goes on. Where JOB says nothing of the model, config.json\n"
        "of FOLDER does. What is missing, left over or of another shape is\n"
        "listed, and then nothing is written.",
    .flags = checkpoint_flags,
    .least = 2,
    .most = 3,
    .run = checkpoint,
};
