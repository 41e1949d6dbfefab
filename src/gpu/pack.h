/* pack.h - launches that round numbers at random into 16 and 8 bits, or to the
 * nearest, and unpack them: dsf_pack16 and its like of kernels/kernels.h, with
 * the same bits. */
#ifndef DSF_GPU_PACK_H
#define DSF_GPU_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/optimizer.h>

/* At random: by the step of the control and this stream (tasks/args.h: cast).
 * control NULL: to the nearest. `block`: that which the numbers begin with. */
struct dsf_gpu_rounding {
    uint64_t stream, block;
    const struct dsflow_control *control;
};

void dsf_gpu_pack16(const struct dsf_gpu_rounding *r, const float *in,
                    uint16_t *out, size_t n, void *stream);
void dsf_gpu_pack8(const struct dsf_gpu_rounding *r, const float *in,
                   uint16_t *heads, uint8_t *codes, size_t n, void *stream);
void dsf_gpu_unpack8(const uint16_t *heads, const uint8_t *codes, float *out,
                     size_t n, void *stream);

/* Packed numbers from some element on. Of int8_block, codes stand behind the
 * scales of all blocks. */
struct dsf_gpu_packed {
    void *numbers; /* or scales */
    uint8_t *codes;
};

/* From number `at` on of `elems` at `packed`: of int8_block, the first of a
 * block. */
static inline size_t dsf_gpu_scales_bytes(int64_t n)
{
    return (size_t)(n + DSFLOW_BLOCK_ELEMS - 1) / DSFLOW_BLOCK_ELEMS *
           sizeof(uint16_t);
}
static inline struct dsf_gpu_packed dsf_gpu_packed_at(enum dsflow_dtype type,
                                                      void *packed,
                                                      int64_t elems, int64_t at)
{
    const size_t width = type == DSFLOW_FP32 ? 4 : type == DSFLOW_FP64 ? 8 : 2;
    uint8_t *v = (uint8_t *)packed;
    struct dsf_gpu_packed p = { v + (size_t)at * width, NULL };

    if (type == DSFLOW_INT8_BLOCK) {
        p.numbers = v + dsf_gpu_scales_bytes(at);
        p.codes = v + dsf_gpu_scales_bytes(elems) + at;
    }
    return p;
}

#endif
