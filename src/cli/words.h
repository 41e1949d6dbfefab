/* words.h - from argv to the words of a command. */
#ifndef DSF_CLI_WORDS_H
#define DSF_CLI_WORDS_H

#include "cli/cmd.h"

/* argv without the command's name; borrowed until fini, which is called
 * whatever this returns. */
int dsf_cli_args_read(const struct dsf_cmd *cmd, int argc, char **argv,
                      struct dsf_cli_args *words, struct dsflow_err *err);
void dsf_cli_args_fini(struct dsf_cli_args *words);

#endif
