/* when.h - conditions over the keys of a job: when a key has an effect
 * (`used_with` of dsflow/option.h, which says how they are written). */
#ifndef DSF_CONFIG_WHEN_H
#define DSF_CONFIG_WHEN_H

#include "config/job.h"

enum dsf_truth { DSF_NO, DSF_MAYBE, DSF_YES };

/* Returns whether the value of a key is a name from outside, of which nobody
 * here knows what else it reads. */
typedef bool (*dsf_foreign_fn)(const char *table, const char *key,
                               const char *value);

/* One line of text for people. */
struct dsf_when_text {
    char s[400];
};

/* Does `when` hold for this job? DSF_MAYBE where that depends on a name from
 * outside (`foreign` may be NULL: there are none). `why` receives what does not
 * hold: "schedule.kind is "constant" (needs warmup_cosine)". */
enum dsf_truth dsf_when(const struct dsf_job *job, const char *when,
                        dsf_foreign_fn foreign, struct dsf_when_text *why);

/* The same for a condition of dsflow's own, where names from outside do not
 * matter. */
bool dsf_job_is(const struct dsf_job *job, const char *when);

/* "1", "\"auto\"" or "\"1MiB\"": the value of a key in the structure `base`, as
 * it stands in a job. */
struct dsf_value_text {
    char s[80];
};
struct dsf_value_text dsf_value_text(const struct dsflow_option *option,
                                     const void *base);

/* Is it written as it should be, and of keys that exist? `options` is a table
 * that may not be known by its name `table` yet. */
int dsf_when_check(const char *when, const char *table,
                   const struct dsflow_option *options, struct dsflow_err *err);

/* As people read it: "a|b" is "a or b". */
struct dsf_when_text dsf_when_words(const char *when);

/* Has the key a value, in the structure `base`, that says that something is off
 * (0, false, none, auto or an empty list), which is also its default? */
bool dsf_is_off(const struct dsflow_option *option, const void *base);

#endif
