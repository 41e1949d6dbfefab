/* codelets.h - the kernels of the built-in kinds of task. */
#ifndef DSF_CODELETS_CODELETS_H
#define DSF_CODELETS_CODELETS_H

#include <dsflow/codelet.h>

#include "base/registry.h"

#define DSF_CODELETS(XX)                                                       \
    XX(load_batch)                                                             \
    XX(advance)                                                                \
    XX(embed_forward)                                                          \
    XX(embed_backward_weight)                                                  \
    XX(qkv_forward)                                                            \
    XX(qkv_backward_input)                                                     \
    XX(qkv_backward_weight)                                                    \
    XX(attention_forward)                                                      \
    XX(attention_backward_input)                                               \
    XX(out_forward)                                                            \
    XX(out_backward_input)                                                     \
    XX(out_backward_weight)                                                    \
    XX(mlp_forward)                                                            \
    XX(mlp_hidden)                                                             \
    XX(mlp_backward_input)                                                     \
    XX(mlp_backward_weight)                                                    \
    XX(head_forward)                                                           \
    XX(head_loss)                                                              \
    XX(head_backward_input)                                                    \
    XX(head_backward_weight)                                                   \
    XX(head_logits)                                                            \
    XX(norm_forward)                                                           \
    XX(norm_backward_input)                                                    \
    XX(norm_backward_weight)                                                   \
    XX(residual_forward)                                                       \
    XX(residual_backward_weight)                                               \
    XX(schedule)                                                               \
    XX(square)                                                                 \
    XX(sum)                                                                    \
    XX(clip)                                                                   \
    XX(add)                                                                    \
    XX(send)                                                                   \
    XX(wait)                                                                   \
    XX(copy)                                                                   \
    XX(gather)                                                                 \
    XX(reduce)                                                                 \
    XX(swap_in)                                                                \
    XX(swap_out)                                                               \
    XX(cast)                                                                   \
    XX(adam)                                                                   \
    XX(sgd)                                                                    \
    XX(lion)                                                                   \
    XX(report)                                                                 \
    XX(report_loss)

#define XX(name) extern const struct dsflow_codelet dsf_codelet_##name;
DSF_CODELETS(XX)
#undef XX

/* One for each of dsf_ops; ends with NULL. */
extern const struct dsflow_codelet *const dsf_codelets[];

/* All that are known, by the name of their kind of task. */
extern struct dsf_registry dsf_codelet_kinds;

#endif
