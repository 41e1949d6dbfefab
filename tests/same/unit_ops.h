/* unit_ops.h - an optimizer and policies that are not dsflow's own, for trials:
 * "optimizer.kind=drift" and "shrink.by=0.9", which work on units number by
 * number; "scaled.initial=1024", a loss scale as fp16 has it. They know nothing
 * of ranks. */
#ifndef DSF_TESTS_SAME_UNIT_OPS_H
#define DSF_TESTS_SAME_UNIT_OPS_H

#include <dsflow/op.h>

/* The optimizer's kind of task, and the policy's. */
extern const struct dsflow_op op_drift, op_shrink;

/* Make them known; once in a program. */
void add_unit_ops(void);

#endif
