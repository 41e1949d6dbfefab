/* tasks.h - the built-in kinds of task. args.h says what each one does. */
#ifndef DSF_TASKS_TASKS_H
#define DSF_TASKS_TASKS_H

#include <dsflow/op.h>
#include "tasks/args.h"

/* Of 0/1 Adam. */
#define DSF_ZEROONE_OPS(OP)                                                    \
    OP(held_update)                                                            \
    OP(local_step)                                                             \
    OP(local_weights)                                                          \
    OP(local_update)                                                           \
    OP(feed_local)                                                             \
    OP(serve_mean)                                                             \
    OP(local_settle)

/* Of the head in columns. */
#define DSF_HEAD_COLUMNS_OPS(OP)                                               \
    OP(head_forward_columns)                                                   \
    OP(head_loss_columns)                                                      \
    OP(head_backward_columns)                                                  \
    OP(head_backward_input_columns) OP(head_backward_weight_columns)

/* All of them, in the order of lists. BARE: it has no codelet. No executor runs
 * collectives, and no worker messages. */
#define DSF_OPS(OP, BARE)                                                      \
    OP(load_batch)                                                             \
    OP(advance)                                                                \
    OP(embed_forward)                                                          \
    OP(embed_backward_weight)                                                  \
    OP(qkv_forward)                                                            \
    OP(qkv_backward_input)                                                     \
    OP(qkv_backward_weight)                                                    \
    OP(attention_forward) OP(attention_backward_input) OP(out_forward)         \
        OP(out_backward_input) OP(out_backward_weight) OP(mlp_forward) OP(     \
            mlp_hidden) OP(mlp_backward_input) OP(mlp_backward_weight)         \
            OP(head_forward) OP(head_loss) OP(head_backward_input) OP(         \
                head_backward_weight) OP(head_logits)                          \
                DSF_HEAD_COLUMNS_OPS(OP) OP(norm_forward)                      \
                OP(norm_backward_input) OP(norm_backward_weight) OP(           \
                    residual_forward) OP(residual_backward_weight) OP(mlp_up)  \
                    OP(project) OP(columns) OP(begin) OP(square) OP(sum) OP(   \
                        clip) OP(finish) OP(add) OP(send) OP(wait) OP(copy)    \
                        OP(gather) OP(reduce) OP(all_to_all_heads)             \
                        BARE(all_gather) BARE(                                 \
                            reduce_scatter) BARE(all_reduce) BARE(all_to_all)  \
                            BARE(broadcast) BARE(transmit) BARE(receive)       \
                                OP(swap_in) OP(swap_out) OP(cast)              \
                                    OP(fake_quantize) OP(recode)               \
                                    OP(add_recoded) OP(feed_back) OP(compress) \
                                        OP(add_compressed) OP(decompress) OP(  \
                                            gather_coded) OP(pack_rows) OP(add_rows) OP(adam)   \
                                            OP(sgd) OP(lion) OP(adagrad) OP(   \
                                                lamb_moments) OP(lamb_ratio)   \
                                                OP(lamb) OP(feed_momentum) OP( \
                                                    chunk_squares)             \
                                                    OP(chunk_scales) OP(serve) \
                                                        OP(clip_group) OP(send_signs) OP(     \
                                                            chunk_sums)        \
                                                        OP(tensor_scales)      \
                                                        OP(sum_each) OP(       \
                                                            serve_lamb)        \
                                                        OP(lamb_norms) OP(     \
                                                            lamb_totals)       \
                                                        OP(lamb_factor) OP(    \
                                                            lamb_mean)         \
                                                        OP(unite_scales)       \
                                                        OP(muon) OP(report)    \
                                                            OP(report_loss)    \
    DSF_ZEROONE_OPS(OP)

#define DECLARE(name) extern const struct dsflow_op dsf_op_##name;
DSF_OPS(DECLARE, DECLARE)
#undef DECLARE

/* dsf_op_<name>: what is not said here. */
#define DSF_OP(name_, ...)                                                     \
    const struct dsflow_op dsf_op_##name_ = {                                  \
        .abi = DSFLOW_OP_ABI, .name = #name_, __VA_ARGS__                      \
    }

/* Is what `move` takes from port `port` there, and room for it in port 0? */
int dsf_move_check(const struct dsflow_case *c, unsigned port,
                   struct dsf_range move, struct dsflow_err *err);

/* From which number on a sum takes a port that has `elems`. */
int64_t dsf_sum_from(const struct dsf_sum_args *a, int64_t elems);

/* What port `port` of a `gather` takes. */
struct dsf_range dsf_gather_move(const struct dsf_gather_args *a,
                                 unsigned port);

#endif
