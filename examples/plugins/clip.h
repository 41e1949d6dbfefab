/* clip.h - what clip.c and its CUDA side, clip.cu, have in common. */
#include <dsflow/codelet.h>

struct args { /* of a task; copied into the graph */
    int64_t elems;
    double norm;
};

/* How many blocks add up the squares: it follows from the shape, never from the
 * GPU, so that the order of the sums, and the result, is the same on each. */
static inline int blocks(const struct args *a)
{
    return a->elems >= 128 * 1024 ? 128 : (int)(a->elems / 1024) + 1;
}

DSFLOW_BEGIN_DECLS
const char *unit_clip_cuda(const struct dsflow_call *call, void *stream);
DSFLOW_END_DECLS
