/* attention_on_gpu.h - attention as the codelets of unit/codelets/attention.h,
 * by what a test does with a task: `on_gpu`. */
#ifndef DSF_TESTS_ATTENTION_ON_GPU_H
#define DSF_TESTS_ATTENTION_ON_GPU_H

#include "unit/codelets/attention.h"

static void on_gpu(const struct dsflow_op *op, const struct dsflow_call *call);

static void forward_on_gpu(const struct dsflow_call *call)
{
    on_gpu(&dsf_op_attention_forward, call);
}

static void backward_on_gpu(const struct dsflow_call *call)
{
    on_gpu(&dsf_op_attention_backward_input, call);
}

static const struct dsflow_codelet gpu_forward = {
    .op = &dsf_op_attention_forward, .cpu = forward_on_gpu
};
static const struct dsflow_codelet gpu_backward = {
    .op = &dsf_op_attention_backward_input, .cpu = backward_on_gpu
};

#endif
