/* option.h - from a value of job.toml to a field of a structure. */
#ifndef DSF_CONFIG_OPTION_H
#define DSF_CONFIG_OPTION_H

#include <stdbool.h>
#include <dsflow/option.h>

#include "config/toml_read.h"

/* Is the table itself right: each key with a help, a field within `size` bytes,
 * a default that it accepts, and a condition of keys that exist? For tables
 * that others bring, which are not known by their `name` yet. */
int dsf_options_check(const char *name, const struct dsflow_option *options,
                      size_t size, struct dsflow_err *err);

/* Every field gets its default; keys without one keep zero. */
void dsf_options_default(const struct dsflow_option *options, void *base);

/* Free what the fields own. */
void dsf_options_fini(const struct dsflow_option *options, void *base);

/* NULL when there is no such key. */
const struct dsflow_option *dsf_option_find(const struct dsflow_option *options,
                                            const char *key);

/* Set the field of `option`. On error the message is "VALUE: expected …". */
int dsf_option_set(const struct dsflow_option *option, void *base,
                   const struct dsf_toml_value *value, struct dsflow_err *err);

/* What people write without a file: TOML's "x = value", one entry. A bare word
 * is a string, and so is anything without quotes, as 3 or true, where the
 * option (NULL: any) is of strings. */
void dsf_option_read(const struct dsflow_option *option, const char *value,
                     struct dsf_toml *toml);

/* Does the option accept this value, as TOML has it? Errors as above. */
int dsf_option_check(const struct dsflow_option *option, const char *value,
                     struct dsflow_err *err);

/* The fields of `to`, which has nothing yet, get what those of `from` have. */
void dsf_options_copy(const struct dsflow_option *options, void *to,
                      const void *from);

/* Do two structures have the same value of it? */
bool dsf_option_same(const struct dsflow_option *option, const void *a,
                     const void *b);

/* The i-th word that a value may be: a choice, a name, true, auto; NULL past
 * the last. */
const char *dsf_option_word(const struct dsflow_option *option, unsigned i);

/* What an option accepts, in words: "1 to 64", "true or false". */
struct dsf_expected {
    char s[300];
};
struct dsf_expected dsf_option_expected(const struct dsflow_option *option);

#endif
