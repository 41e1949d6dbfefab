/* batches.h - tokens of the caller's own, in place of the text of a job. */
#ifndef DSFLOW_BATCHES_H
#define DSFLOW_BATCHES_H

#include <stdint.h>
#include <dsflow/export.h>

DSFLOW_BEGIN_DECLS

struct dsflow_batches {
    uint32_t size; /* of this structure: DSFLOW_BATCHES sets it */
    int32_t vocab; /* tokens are numbers from 0 below this: model.vocab of the
                      job, or fewer */
    void *user;

    /* Fill `tokens` with tokens pos .. pos + n of training sequence `index`,
     * and `targets` with the one after each. -1: none is asked for, which adds
     * nothing to the loss; that is divided by all tokens, as gradients are.
     * Step s (from 0) takes the sequences s * batch.sequences and on: numbers
     * that have no end, as the order, and how often a text is read, is the
     * caller's. The same numbers must give the same tokens, as a run goes on
     * from a checkpoint by them. Called from several threads at once. Not 0
     * where it fails: the run ends with that step, of which nothing is saved.
     */
    int (*train)(void *user, int64_t index, int64_t pos, int64_t n,
                 int32_t *tokens, int32_t *targets);

    /* The same of validation sequence `index`, below `validation_sequences`; 0
     * of them: there is none, and this may be NULL. */
    int (*validation)(void *user, int64_t index, int64_t pos, int64_t n,
                      int32_t *tokens, int32_t *targets);
    int64_t validation_sequences;

    /* What tells this source from another one: a checkpoint does not go on with
     * tokens of another number. */
    uint64_t identity;
};

#define DSFLOW_BATCHES(...)                                                    \
    DSFLOW_OF(dsflow_batches, .size = sizeof(struct dsflow_batches),           \
              __VA_ARGS__)

DSFLOW_END_DECLS

#endif
