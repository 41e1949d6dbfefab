/* train.h - what tests of whole jobs have in common: a folder, tokens, and a
 * machine. */
#ifndef DSF_TESTS_LIB_TRAIN_H
#define DSF_TESTS_LIB_TRAIN_H

#include "lib/folder.h"

#include "base/alloc.h"
#include "machine/machine_model.h"

static inline void must(int status, const struct dsflow_err *err)
{
    if (status < 0)
        fail_msg("%s", err->msg);
}

/* Tokens below 50 that count up, as struct dsflow_batches has them. */
static inline int count_up(void *user, int64_t index, int64_t pos, int64_t n,
                           int32_t *tokens, int32_t *targets)
{
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)((index + pos + i) % 50);
        targets[i] = (int32_t)((index + pos + i + 1) % 50);
    }
    return 0;
}

/* A machine that is described, as measuring one takes time. */
static inline void read_laptop(struct dsf_machine_model *m)
{
    const char *source = getenv("srcdir");
    char *path = dsf_xasprintf("%s/examples/machines/laptop.toml",
                               source != NULL ? source : ".");
    struct dsflow_err err;

    must(dsf_machine_model_read(path, m, &err), &err);
    free(path);
}

#endif
