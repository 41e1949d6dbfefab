/* list_keys.h - the keys of job.toml, from their tables. */
#ifndef DSF_CLI_LIST_KEYS_H
#define DSF_CLI_LIST_KEYS_H

#include "cli/cmd.h"

/* Print the keys of the tables and keys that are named behind "keys"
 * ("optimizer", "optimizer.lr", "lr"), or all where none is, to standard
 * output: as text, or as --json or --roff ask. */
int dsf_list_keys(const struct dsf_cli_args *args, struct dsflow_err *err);

/* Is the word a library, and no name of a table or a key? */
bool dsf_is_library(const char *word);

#endif
