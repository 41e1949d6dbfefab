/* help.h - what a command is, from its table. */
#ifndef DSF_CLI_HELP_H
#define DSF_CLI_HELP_H

#include "cli/cmd.h"

/* "dsflow run [OPTION]… job.toml". */
struct dsf_usage {
    char s[300];
};
struct dsf_usage dsf_usage(const struct dsf_cmd *cmd);

/* Usage, help and flags; of dsflow itself, its commands too. */
void dsf_help_print(FILE *out, const struct dsf_cmd *cmd);

#endif
