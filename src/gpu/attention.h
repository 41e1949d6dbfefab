/* attention.h - attention on a GPU: what its kernels are told. */
#ifndef DSF_GPU_ATTENTION_H
#define DSF_GPU_ATTENTION_H

#include <dsflow/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers that tasks add to, one after the other. */
struct dsf_gpu_sum {
    void *p;
    int narrow; /* 1: of the type of the task, 0: fp32 */
    int fresh;  /* 1: set them, whatever they are; so are all narrow ones */
};

/* A task of dsflow/segments.h: its ports and arguments. */
struct dsf_gpu_attention {
    enum dsflow_dtype type;       /* of q, kv and datt */
    unsigned nseq, queries, keys; /* the latter two of each sequence */
    unsigned heads, kv_heads, head_dim;
    int diagonal, last;
    float scale; /* of the scores */
    const void *q, *kv, *datt;
    float *lse; /* backward only reads it */
    const float *delta;
    struct dsf_gpu_sum att, dq, dkv;
};

/* These enqueue on `stream`. On tensor cores (mma): bf16 or fp16, heads of a
 * multiple of 8 numbers, 256 at most; they are rounded to that type where one
 * product is an operand of the next, and sums are fp32. Plain: any type and
 * width, in fp32 throughout. */
void dsf_gpu_attention_forward_mma(const struct dsf_gpu_attention *a,
                                   void *stream);
void dsf_gpu_attention_backward_mma(const struct dsf_gpu_attention *a,
                                    void *stream);
void dsf_gpu_attention_forward_plain(const struct dsf_gpu_attention *a,
                                     void *stream);
void dsf_gpu_attention_backward_plain(const struct dsf_gpu_attention *a,
                                      void *stream);

#ifdef __cplusplus
}
#endif

#endif
