/* cmd_help.c - what a command is for, and its flags. */
#include "cli/help.h"

static int help(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const struct dsf_cmd *cmd = &dsf_program;

    if (args->nwords > 0)
        cmd = dsf_cmd_find(args->words[0], err);
    if (cmd == NULL)
        return DSFLOW_EINVAL;
    dsf_help_print(stdout, cmd);
    return DSFLOW_OK;
}

const struct dsf_cmd dsf_cmd_help = {
    .name = "help",
    .args = "[COMMAND]",
    .summary = "what a command is for, and its options",
    .help = "Prints what a command does and what it takes, as the command\n"
            "with --help does; without a COMMAND, which ones there are.",
    .most = 1,
    .run = help,
};
