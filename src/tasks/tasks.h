/* tasks.h - the built-in kinds of task. args.h says what each one does. */
#ifndef DSF_TASKS_TASKS_H
#define DSF_TASKS_TASKS_H

#include <dsflow/op.h>
#include "tasks/args.h"

extern const struct dsflow_op dsf_op_embed_forward, dsf_op_embed_backward_weight;
extern const struct dsflow_op dsf_op_qkv_forward, dsf_op_qkv_backward_input,
    dsf_op_qkv_backward_weight;
extern const struct dsflow_op dsf_op_attention_forward,
    dsf_op_attention_backward_input;
extern const struct dsflow_op dsf_op_out_forward, dsf_op_out_backward_input,
    dsf_op_out_backward_weight;
extern const struct dsflow_op dsf_op_mlp_forward, dsf_op_mlp_hidden,
    dsf_op_mlp_backward_input,
    dsf_op_mlp_backward_weight;
extern const struct dsflow_op dsf_op_head_forward, dsf_op_head_loss,
    dsf_op_head_backward_input, dsf_op_head_backward_weight, dsf_op_head_logits;
extern const struct dsflow_op dsf_op_norm_forward, dsf_op_norm_backward_input,
    dsf_op_norm_backward_weight;
extern const struct dsflow_op dsf_op_residual_forward,
    dsf_op_residual_backward_weight;
extern const struct dsflow_op dsf_op_load_batch, dsf_op_advance;
extern const struct dsflow_op dsf_op_schedule, dsf_op_clip;
extern const struct dsflow_op dsf_op_square, dsf_op_sum, dsf_op_add;
extern const struct dsflow_op dsf_op_adam, dsf_op_sgd, dsf_op_lion;
extern const struct dsflow_op dsf_op_send, dsf_op_wait, dsf_op_copy, dsf_op_gather,
    dsf_op_reduce;
extern const struct dsflow_op dsf_op_all_gather, dsf_op_reduce_scatter,
    dsf_op_all_reduce, dsf_op_all_to_all, dsf_op_broadcast;
extern const struct dsflow_op dsf_op_swap_in, dsf_op_swap_out;
extern const struct dsflow_op dsf_op_cast;
extern const struct dsflow_op dsf_op_report, dsf_op_report_loss;

/* Is what `move` takes from port `port` there, and room for it in port 0? */
int dsf_move_check(const struct dsflow_op *op,
                   const struct dsflow_shape *shapes, unsigned port,
                   struct dsf_range move, struct dsflow_err *err);

/* What port `port` of a `gather` takes. */
struct dsf_range dsf_gather_move(const struct dsf_gather_args *a, unsigned port);

/* All of the above, in the order they are listed; ends with NULL. */
extern const struct dsflow_op *const dsf_ops[];

#endif
