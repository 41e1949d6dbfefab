/* pack.h - launches that round numbers at random into 16 and 8 bits, or to the
 * nearest, and unpack them: dsf_pack16 and its like of kernels/kernels.h, with
 * the same bits. */
#ifndef DSF_GPU_PACK_H
#define DSF_GPU_PACK_H

#include <stddef.h>
#include <stdint.h>
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

#endif
