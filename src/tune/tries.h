/* tries.h - the values of keys that policies say are worth trying (policy.h):
 * for what is auto, for what would fit, and for advice. */
#ifndef DSF_TUNE_TRIES_H
#define DSF_TUNE_TRIES_H

#include "policies/policies.h"

struct dsf_try {
    const struct dsf_table *table;
    const struct dsflow_option *option;
    const struct dsflow_try *how;
};

/* The i-th, in the order of the policies; false past the last. */
bool dsf_try_at(unsigned i, struct dsf_try *t);

/* Of a key that is a choice or a number among a few, where its values are from
 * 0 on: how many there are but for "auto" (1 where the key has no effect), and
 * which the job has (-1: auto). */
int dsf_try_count(const struct dsf_try *t, const struct dsf_job *job);
int dsf_try_get(const struct dsf_try *t, const struct dsf_job *job);

/* "none", "3", "auto"; the key with its table; and "recompute.what=block", for
 * dsf_job_with. Freed by the caller. */
char *dsf_try_text(const struct dsf_try *t, int value);
char *dsf_try_key(const struct dsf_try *t);
char *dsf_try_set(const struct dsf_try *t, int value);

/* Each value that is worth trying instead of the one the job has, the nearest
 * first. */
void dsf_try_each(const struct dsf_try *t, const struct dsf_job *job,
                  void (*each)(void *user, const struct dsf_try *t,
                               const char *from, const char *to),
                  void *user);

#endif
