/* words.h - from argv to the words of a command. */
#ifndef DSF_CLI_WORDS_H
#define DSF_CLI_WORDS_H

#include "cli/cmd.h"

/* argv without the command's name; borrowed until fini, which is called
 * whatever this returns. */
int dsf_words_read(const struct dsf_cmd *cmd, int argc, char **argv,
                   struct dsf_words *words, struct dsflow_err *err);
void dsf_words_fini(struct dsf_words *words);

#endif
