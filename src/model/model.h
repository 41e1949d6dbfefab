/* model.h - a transformer as a list of units: what its layers are called, how
 * large they are, where each tensor stands in its unit. No memory of tensors.
 *
 * A unit is the parameters of one segment in one flat fp32 buffer; ZeRO shards
 * it, NVMe swaps it, Adam updates it. In a unit, the tensors that decay
 * (matrices) come first.
 *
 * Inside dsflow a linear layer is W[out][in], row-major, y = x W^T + b.
 * Hugging Face's GPT-2 keeps W[in][out]: `transposed` says so. Fused tensors
 * (GPT-2's c_attn, LLaMA's q/k/v, gate/up) are consecutive rows.
 */
#ifndef DSF_MODEL_MODEL_H
#define DSF_MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>
#include <stddef.h>
#include <dsflow/error.h>

#include "config/job.h"

/* What a block is made of; goes into the arguments of its tasks as it is. */
struct dsf_dims {
    int32_t width, heads, kv_heads, head_dim, ffn, context, vocab;
    int32_t rms;    /* 1: RMSNorm (no bias, no mean), 0: LayerNorm */
    int32_t swiglu; /* 1: SwiGLU (W1 has 2*ffn rows: gate, then up), 0: GELU */
    int32_t rope;   /* 1: rotary positions, 0: learned */
    int32_t qkv_bias, out_bias, mlp_bias;
    float eps;
};

enum dsf_segment { DSF_EMBED, DSF_QKV, DSF_OUT, DSF_MLP, DSF_NORM, DSF_HEAD };

struct dsf_tensor {
    char name[96];   /* Hugging Face's: "transformer.h.0.attn.c_attn.weight" */
    int64_t rows, cols; /* in dsflow's layout; a vector has rows 1 */
    int64_t offset;     /* in elements, within its unit; a multiple of 16 */
    bool transposed;    /* the file has [cols][rows] */
    bool vector;        /* one dimension in the file */
    float init_std;     /* 0: constant init_value */
    float init_value;
};

#define DSF_MAX_TENSORS 12

/* Offsets below are in elements within the unit; -1: there is none. */
struct dsf_unit {
    char name[48];         /* "embed", "layer3.qkv", "norm", "head" */
    enum dsf_segment segment;
    int32_t layer;         /* of the block; -1 before, nlayers after */
    int64_t elems;         /* with padding (zeroes that stay zero) */
    int64_t decay;         /* elements [0, decay) decay */
    int64_t block;         /* elems is a multiple of it: where it may be cut */
    unsigned ntensors;
    struct dsf_tensor tensors[DSF_MAX_TENSORS];
};

/* Layouts, the same for every layer. w/b are matrices and biases. */
struct dsf_embed_at { int64_t wte, wpe; };
struct dsf_qkv_at { int64_t w, b, norm_w, norm_b; };
struct dsf_out_at { int64_t w, b; };
struct dsf_mlp_at { int64_t w1, b1, w2, b2, norm_w, norm_b; };
struct dsf_norm_at { int64_t w, b; };
struct dsf_head_at { int64_t w; };

struct dsf_model {
    enum dsf_family family;
    struct dsf_dims dims;
    int32_t layers;
    bool tied;
    double rope_theta;
    bool rope_llama3;
    double rope_factor, rope_low_freq_factor, rope_high_freq_factor;
    int64_t rope_original_context;
    struct dsf_embed_at embed_at;
    struct dsf_qkv_at qkv_at;
    struct dsf_out_at out_at;
    struct dsf_mlp_at mlp_at;
    struct dsf_norm_at norm_at;
    struct dsf_head_at head_at; /* of unit "head", or of "embed" when tied */

    /* embed, then qkv, out, mlp of each layer, then norm, then head unless it
     * is tied. */
    struct dsf_unit *units;
    unsigned nunits;
    int64_t params; /* without padding */
};

/* Fill from [model] of the job and, when init is a folder, its config.json
 * (keys given in the job must then agree with it). */
int dsf_model_init(struct dsf_model *model, const struct dsf_job *job,
                   struct dsflow_err *err);
void dsf_model_fini(struct dsf_model *model);

/* How finely a unit of `elems` numbers may be cut: about 4096 blocks of whole
 * pages. The norm is summed by block, so that shards do not change it. */
int64_t dsf_unit_block(int64_t elems);

/* Position in `units`. `layer` is ignored where there is one only. */
unsigned dsf_model_unit(const struct dsf_model *model,
                        enum dsf_segment segment, int32_t layer);

/* cos and sin of every position: out[pos][head_dim/2][2], pos < context
 * (RoFormer eq. 34; Llama 3's scaling of the frequencies). Angles are computed
 * in double. */
void dsf_model_rope_table(const struct dsf_model *model, float *out);

/* Whoever has parameters: fill `to` (units[unit].elems floats) with those of a
 * unit. */
typedef int (*dsf_unit_fn)(void *user, unsigned unit, float *to,
                           struct dsflow_err *err);

/* Memory for a unit, freed with free(). Error: DSFLOW_ENOMEM. */
int dsf_unit_alloc(const struct dsf_model *model, unsigned unit, float **to,
                   struct dsflow_err *err);

/* Random parameters of unit `u`: normal(0, init_std), the same for the same
 * seed whatever the number of workers (a counter-based generator). */
void dsf_model_randomize(const struct dsf_model *model, unsigned u,
                         uint64_t seed, float *params);

#endif
