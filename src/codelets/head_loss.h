/* head_loss.h - cross entropy of a row of logits that are in parts, or in
 * blocks of columns. */
#ifndef DSF_CODELETS_HEAD_LOSS_H
#define DSF_CODELETS_HEAD_LOSS_H

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/codelet.h>
#include <dsflow/optimizer.h>

#include "tasks/args.h"

/* The column of the target of a row, if this part has it, or -1. */
static inline int64_t dsf_own_target(const struct dsflow_head_args *a,
                                     int32_t target)
{
    int64_t column = (int64_t)target - a->first;

    assert(target < a->whole);
    return target >= 0 && column >= 0 && column < a->tile.vocab ? column : -1;
}

static inline const int32_t *dsf_targets_of(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;

    return (const int32_t *)call->bufs[DSFLOW_HEAD_BATCH].ptr + a->tile.rows;
}

/* Row `r` of the whole vocabulary, from what all parts say, in their order. */
static inline struct dsflow_head_stats
dsf_whole_row(const struct dsflow_head_args *a,
              const struct dsflow_head_stats *stats, size_t r)
{
    const size_t rows = (size_t)a->tile.rows, parts = (size_t)a->parts;
    struct dsflow_head_stats s = { stats[r].top, 0, 0 };

    for (size_t p = 1; p < parts; p++)
        s.top = fmax(s.top, stats[p * rows + r].top);
    for (size_t p = 0; p < parts; p++) {
        const struct dsflow_head_stats *part = &stats[p * rows + r];

        s.sum += part->sum * exp(part->top - s.top);
        s.target += part->target; /* all but one are 0 */
    }
    return s;
}

/* What the exponentials of block `b` are multiplied by, of a row whose sums are
 * `s`: the gradients of its logits. */
static inline float
dsf_loss_factor(float top, const struct dsflow_head_stats *s, double scale)
{
    return (float)(exp((double)top - s->top) / s->sum * scale);
}

/* What the gradient of a logit is multiplied by. */
static inline double dsf_loss_scale_of(const struct dsflow_call *call)
{
    const struct dsflow_head_args *a = call->args;
    const struct dsflow_control *c = call->bufs[DSFLOW_HEAD_CONTROL].ptr;

    return a->scale * (c != NULL ? c->loss_scale : 1);
}

#endif
