/* axis.h - an axis of the mesh of ranks, and what its ranks share out.
 *
 * A rank is a point of the mesh: it has a coordinate on each axis. The job says
 * how many ranks there are along an axis by a key of [mesh] with the axis's
 * name. A policy does the sharing; the plan answers questions about ranks by
 * what the axes share out (plan.h), so that the other policies need not know
 * which axes there are.
 */
#ifndef DSFLOW_AXIS_H
#define DSFLOW_AXIS_H

#include <stdint.h>
#include <dsflow/error.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_AXIS_ABI 1

/* What the ranks along an axis divide among them; what they do not divide,
 * each of them has or does whole. */
enum dsflow_share {
    DSFLOW_SHARE_SEQUENCES = 1, /* the micro-batches of a step */
    DSFLOW_SHARE_TOKENS = 2,    /* the tokens of a sequence */
    DSFLOW_SHARE_LAYERS = 4,
    DSFLOW_SHARE_TENSORS = 8,   /* heads, rows and columns of each layer */
    DSFLOW_SHARE_EXPERTS = 16
};

struct dsflow_axis {
    unsigned abi;        /* DSFLOW_AXIS_ABI */
    const char *name;    /* "data": its key in [mesh] */
    const char *summary; /* one line, for the manual: what each rank is */
    unsigned shares;     /* of enum dsflow_share, or-ed */

    /* Ranks are numbered by the axes in increasing order: those along the last
     * one follow each other. pipeline has 10, data 20, sequence 25, tensor 30.
     * Two axes of the same order: in that in which they were registered. */
    int order;
    int32_t max;         /* ranks along it */

    /* 1: another number of ranks along it groups sums in another way: a run
     * goes on only with as many as it began with. */
    unsigned regroups;
};

/* Make it known: jobs read from now on have its key. It is borrowed for good:
 * make it static. */
DSFLOW_API int dsflow_axis_register(const struct dsflow_axis *axis,
                                    struct dsflow_err *err);

/* The i-th, in the order of the keys of [mesh]; NULL past the last. */
DSFLOW_API const struct dsflow_axis *dsflow_axis_at(unsigned i);

DSFLOW_END_DECLS

#endif
