/* bad_cuda.h - the CUDA sides of the plug-in bad_cuda.c: that of a task
 * `good` is good_cuda. */
#ifndef DSF_TESTS_BAD_CUDA_H
#define DSF_TESTS_BAD_CUDA_H

#include <dsflow/codelet.h>
#include <dsflow/optimizer.h>

enum { IN, OUT, SUM };         /* of a task */
enum { CONTROL, GRAD, PARAM }; /* of an optimizer */

#define BAD_TASKS(XX)                                                          \
    XX(good)                                                                   \
    XX(bad_row)                                                                \
    XX(bad_past)                                                               \
    XX(bad_before)                                                             \
    XX(bad_sum)                                                                \
    XX(bad_order)                                                              \
    XX(bad_barrier)                                                            \
    XX(bad_scratch)                                                            \
    XX(bad_launch)                                                             \
    XX(bad_place)
#define BAD_OPTIMIZERS(XX)                                                     \
    XX(good_update)                                                            \
    XX(bad_skip)

DSFLOW_BEGIN_DECLS
#define XX(f)                                                                  \
    const char *f##_cuda(const struct dsflow_call *call, void *stream);
BAD_TASKS(XX)
BAD_OPTIMIZERS(XX)
#undef XX
DSFLOW_END_DECLS

#endif
