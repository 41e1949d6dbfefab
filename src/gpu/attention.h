/* attention.h - attention on a GPU: what its kernels are told. */
#ifndef DSF_GPU_ATTENTION_H
#define DSF_GPU_ATTENTION_H

#include <stddef.h>
#include <stdint.h>
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

/* No window hides a key. */
#define DSF_GPU_ANY_WINDOW (1u << 30)

/* Which keys a query sees, where it does not see all that are before it. */
struct dsf_gpu_sight {
    unsigned before;        /* tokens of the first key before the first query */
    unsigned window;        /* tokens, with that of the query */
    const uint64_t *layout; /* of the first head; NULL: all blocks are seen */
    unsigned pos, key_pos;  /* with a layout: where queries and keys begin */
    unsigned block, words;  /* these and `apart` as in kernels/layout.h */
    size_t apart;
};

/* A task of dsflow/segments.h: its ports and arguments. In 128 bytes, as nvcc
 * needs more registers for a kernel that is told more. */
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

/* These enqueue on `stream`. `sight` is NULL where each query sees all keys
 * that are not behind it. On tensor cores (mma): bf16 or fp16, heads of a
 * multiple of 8 numbers, 256 at most; they are rounded to that type where one
 * product is an operand of the next, and sums are fp32. Plain: any type and
 * width, in fp32 throughout. */
void dsf_gpu_attention_forward_mma(const struct dsf_gpu_attention *a,
                                   const struct dsf_gpu_sight *sight,
                                   void *stream);
void dsf_gpu_attention_backward_mma(const struct dsf_gpu_attention *a,
                                    const struct dsf_gpu_sight *sight,
                                    void *stream);
void dsf_gpu_attention_forward_plain(const struct dsf_gpu_attention *a,
                                     const struct dsf_gpu_sight *sight,
                                     void *stream);
void dsf_gpu_attention_backward_plain(const struct dsf_gpu_attention *a,
                                      const struct dsf_gpu_sight *sight,
                                      void *stream);

#ifdef __cplusplus
}
#endif

#endif
