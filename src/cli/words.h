/* words.h - from argv to the words of a command. */
#ifndef DSF_CLI_WORDS_H
#define DSF_CLI_WORDS_H

#include "cli/cmd.h"

/* argv from the command's name on; borrowed until fini, which is called
 * whatever this returns. Flags may stand anywhere before "--", be cut short,
 * and have their value behind "=". Where --help is among them, nothing else is
 * asked of the words. */
int dsf_cli_args_read(const struct dsf_cmd *cmd, int argc, char **argv,
                      struct dsf_cli_args *words, struct dsflow_err *err);
void dsf_cli_args_fini(struct dsf_cli_args *words);

/* The i-th flag of a command, and behind its own those that every command has;
 * NULL past the last. */
const struct dsf_flag *dsf_flag_at(const struct dsf_cmd *cmd, unsigned i);

/* The flag that the first `n` bytes of `name` mean: its name, or the beginning
 * of no other. NULL: of none, or of several. */
const struct dsf_flag *dsf_flag_find(const struct dsf_cmd *cmd,
                                     const char *name, size_t n);

/* The words of "a|b|C" or "[=a|b]", one after the other: `*at` begins as the
 * text, and is behind the word that is returned, which has `*n` bytes. NULL
 * past the last. */
const char *dsf_next_alternative(const char **at, size_t *n);

/* Is it a word to be typed as it is, in small letters? */
bool dsf_is_fixed(const char *word, size_t n);

#endif
