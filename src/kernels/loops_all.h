/* loops_all.h - all the loops, for one instruction set: included by each of
 * isa_*.c, and only there. No guard: it defines the table of that set. */
#include "kernels/vec.h"
#include "kernels/vec_half.h"
#include "kernels/loops_lanes.h"

#define NUM      float
#define LOAD     vload
#define STORE    vstore
#define OF(name) name
#define NORM     dsf_norm
#include "kernels/loops_types.h"
#undef NUM
#undef LOAD
#undef STORE
#undef OF
#undef NORM

#include "kernels/loops_basic.h"
#include "kernels/loops_rotate.h"
#include "kernels/loops_mm.h"
#include "kernels/loops_strips.h"
#include "kernels/loops_runs.h"
#include "kernels/loops_attention.h"
#include "kernels/loops_attention_back.h"
#include "kernels/loops_in_place.h"
#include "kernels/loops_key_tiles.h"
#include "kernels/loops_pack.h"
#include "kernels/loops_wire.h"
#include "kernels/loops_fake_quantize.h"
#include "kernels/loops_signs.h"

#define NUM  uint16_t
#define NORM dsf_narrow_norm

#define LOAD     vload_bf16
#define STORE    vstore_bf16
#define OF(name) name##_bf16
#include "kernels/loops_types.h"
#include "kernels/loops_narrow.h"
#undef LOAD
#undef STORE
#undef OF

#define LOAD     vload_fp16
#define STORE    vstore_fp16
#define OF(name) name##_fp16
#include "kernels/loops_types.h"
#include "kernels/loops_narrow.h"
#undef LOAD
#undef STORE
#undef OF

#undef NUM
#undef NORM

const struct dsf_loops DSF_LOOPS = {
    .isa = DSF_LOOPS_ISA,
    .exp = exp_loop,
    .sigmoid = sigmoid_loop,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .add_bias = add_bias,
    .residual = residual,
    .column_sums = column_sums,
    .add = add,
    .sum2 = sum2,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .swiglu_forward = swiglu_forward,
    .swiglu_backward = swiglu_backward,
    .rotate = rotate,
    .head_dots = head_dots,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .exp_columns = exp_columns,
    .scale = scale,
    .square_sum = square_sum,
    .square_signs = square_signs,
    .adam = adam,
    .sgd = sgd,
    .lion = lion,
    .adagrad = adagrad,
    .lamb_moments = lamb_moments,
    .lamb = lamb,
    .pack16 = pack16,
    .pack8 = pack8,
    .unpack8 = unpack8,
    .wire8_encode = wire8_encode,
    .wire8_decode = wire8_decode,
    .wire4_encode = wire4_encode,
    .wire4_decode = wire4_decode,
    .fake_quantize = fake_quantize,
    .see_extremes = see_extremes,
    .quantize_between = quantize_between,
    .wire1_encode = wire1_encode,
    .wire1_decode = wire1_decode,
    .error_add = error_add,
    .error_keep = error_keep,
    .momentum_mean = momentum_mean,
    .wire1_serve = wire1_serve,
    .wire1_send = wire1_send,
    .lamb_refresh = lamb_refresh,
    .lamb_weigh = lamb_weigh,
    .held_update = held_update,
    .local_update = local_update,
    .local_share = local_share,
    .local_settle = local_settle,
    .row_product = row_product,
    .narrow = { &loops_bf16, &loops_fp16 },
};
