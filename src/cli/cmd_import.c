/* cmd_import.c - a job from the configuration of another program. */
#include "cli/cmd.h"
#include "cli/job_flags.h"
#include "import/ds_config.h"

#include <stdlib.h>

enum { MOST_RANKS = 65536 };

static void refused(const char *line)
{
    fprintf(stderr, "dsflow: %s\n", line);
}

static int import(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct dsf_ds_wish wish = { .ranks = 1,
                                .model = dsf_flag_value(args, "model") };
    int status = dsf_flag_whole(args, "ranks", 1, MOST_RANKS, &wish.ranks, err);

    if (status < 0)
        return status;
    wish.data = dsf_flag_values(args, "data", &wish.ndata);
    wish.drop = dsf_flag_values(args, "drop", &wish.ndrop);
    wish.sets = dsf_flag_values(args, "set", &wish.nsets);
    status = dsf_ds_import(args->words[0], &wish, stdout, refused, err);
    free((void *)wish.data);
    free((void *)wish.drop);
    free((void *)wish.sets);
    return status;
}

static const struct dsf_flag import_flags[] = {
    DSF_FLAG_SET,
    { "ranks", "N", "ranks in all, DeepSpeed's world size (1)", 'n' },
    { "model", "FOLDER", "a Hugging Face folder to start from" },
    { "data", "FILES", "text to train on; may be given several times" },
    { "drop", "KEY", "take a key of the configuration as not being there" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_import = {
    .name = "import",
    .args = "DS_CONFIG",
    .summary = "a job from a configuration of DeepSpeed",
    .help =
        "Prints a job.toml that does what DS_CONFIG, the JSON that DeepSpeed\n"
        "reads, asks for, with the key that each line comes from. Keys that\n"
        "nothing here needs (buckets, pinning, overlap_comm) fall away;\n"
        "dsflow list deepspeed says of each what becomes of it. Where a key\n"
        "asks for what dsflow has not, every such key is named with its line,\n"
        "and nothing is printed; --drop KEY goes on without it. What the\n"
        "configuration leaves to others (\"auto\", the model, the text) has a "
        "#\n"
        "in front, and is set by --set, --model and --data.",
    .flags = import_flags,
    .least = 1,
    .most = 1,
    .run = import,
};
