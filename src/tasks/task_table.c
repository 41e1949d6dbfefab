/* task_table.c - the kinds of task: the built-in ones, and those that a
 * program registers. */
#include "tasks/tasks.h"

#include "base/alloc.h"

#include <string.h>

const struct dsflow_op *const dsf_ops[] = {
    &dsf_op_load_batch,
    &dsf_op_advance,
    &dsf_op_embed_forward,
    &dsf_op_embed_backward_weight,
    &dsf_op_qkv_forward,
    &dsf_op_qkv_backward_input,
    &dsf_op_qkv_backward_weight,
    &dsf_op_attention_forward,
    &dsf_op_attention_backward_input,
    &dsf_op_out_forward,
    &dsf_op_out_backward_input,
    &dsf_op_out_backward_weight,
    &dsf_op_mlp_forward,
    &dsf_op_mlp_hidden,
    &dsf_op_mlp_backward_input,
    &dsf_op_mlp_backward_weight,
    &dsf_op_head_forward,
    &dsf_op_head_backward_input,
    &dsf_op_head_backward_weight,
    &dsf_op_head_logits,
    &dsf_op_norm_forward,
    &dsf_op_norm_backward_input,
    &dsf_op_norm_backward_weight,
    &dsf_op_residual_forward,
    &dsf_op_residual_backward_weight,
    &dsf_op_embed_part_forward,
    &dsf_op_embed_part_backward_weight,
    &dsf_op_qkv_part_forward,
    &dsf_op_qkv_part_backward_input,
    &dsf_op_qkv_part_backward_weight,
    &dsf_op_out_part_forward,
    &dsf_op_mlp_part_forward,
    &dsf_op_mlp_part_hidden,
    &dsf_op_mlp_part_backward_input,
    &dsf_op_mlp_part_backward_weight,
    &dsf_op_head_part_forward,
    &dsf_op_head_part_loss,
    &dsf_op_head_part_backward_input,
    &dsf_op_head_part_backward_weight,
    &dsf_op_schedule,
    &dsf_op_square,
    &dsf_op_sum,
    &dsf_op_clip,
    &dsf_op_add,
    &dsf_op_send,
    &dsf_op_wait,
    &dsf_op_split,
    &dsf_op_gather,
    &dsf_op_reduce_scatter,
    &dsf_op_adam,
    &dsf_op_sgd,
    &dsf_op_lion,
    &dsf_op_report,
    &dsf_op_report_loss,
    NULL,
};

enum { NBUILTIN = sizeof(dsf_ops) / sizeof(*dsf_ops) - 1 };

static const struct dsflow_op **others;
static size_t nothers, cap_others;

const struct dsflow_op *dsflow_op_at(unsigned i)
{
    if (i < NBUILTIN)
        return dsf_ops[i];
    return i - NBUILTIN < nothers ? others[i - NBUILTIN] : NULL;
}

const struct dsflow_op *dsflow_op_find(const char *name)
{
    const struct dsflow_op *op;

    for (unsigned i = 0; (op = dsflow_op_at(i)) != NULL; i++)
        if (strcmp(op->name, name) == 0)
            return op;
    return NULL;
}

int dsflow_op_register(const struct dsflow_op *op, struct dsflow_err *err)
{
    const char *name = op->name != NULL ? op->name : "(no name)";

    if (op->abi != DSFLOW_OP_ABI)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "task %s: made for interface %u: this is %u", name,
                           op->abi, DSFLOW_OP_ABI);
    if (op->name == NULL || op->name[0] == '\0')
        return dsflow_fail(err, DSFLOW_EINVAL, "a kind of task has no name");
    if (dsflow_op_find(op->name) != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "task %s: the name is taken",
                           name);
    if (op->check == NULL || op->cost == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "task %s: has no %s", name,
                           op->check == NULL ? "check" : "cost");
    if (op->nports < 1 || op->nports > DSFLOW_MAX_PORTS ||
        op->noptional >= op->nports)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "task %s: %u ports, %u optional: expected 1 to %d, "
                           "one required",
                           name, op->nports, op->noptional, DSFLOW_MAX_PORTS);
    dsf_grow(&others, &cap_others, nothers + 1, sizeof(*others));
    others[nothers++] = op;
    return DSFLOW_OK;
}
