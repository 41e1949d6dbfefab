/* list_keys.h - the keys of job.toml, from their tables. */
#ifndef DSF_CLI_LIST_KEYS_H
#define DSF_CLI_LIST_KEYS_H

#include <stdbool.h>
#include <dsflow/error.h>

enum dsf_keys_form { DSF_KEYS_TEXT, DSF_KEYS_JSON, DSF_KEYS_ROFF };

/* Print the keys of the `n` tables and keys that are named ("optimizer",
 * "optimizer.lr", "lr"), or all where n is 0, to standard output. */
int dsf_list_keys(const char *const *names, unsigned n, enum dsf_keys_form form,
                  struct dsflow_err *err);

#endif
