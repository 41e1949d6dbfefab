/* trials.h - random cases of the built-in kinds of task. */
#ifndef DSF_CODELETS_TRIALS_H
#define DSF_CODELETS_TRIALS_H

#include <dsflow/codelet.h>

#define DSF_TRIALS(XX)                                                         \
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
    XX(head_backward_input)                                                    \
    XX(head_backward_weight)                                                   \
    XX(head_logits)                                                            \
    XX(adam)                                                                   \
    XX(sgd)                                                                    \
    XX(lion)                                                                   \
    XX(add)                                                                    \
    XX(square)                                                                 \
    XX(sum)                                                                    \
    XX(clip)

#define XX(name) extern const struct dsflow_trials dsf_trials_##name;
DSF_TRIALS(XX)
#undef XX

#endif
