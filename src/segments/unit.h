/* unit.h - what a layer is made of, and the units of its parameters: how large
 * they are, where each tensor stands, and what each tensor rank has of it.
 *
 * A unit is the parameters of one segment in one flat fp32 buffer; ZeRO shards
 * it, NVMe swaps it, Adam updates it. In a unit, the tensors that decay
 * (matrices) come first.
 *
 * Inside dsflow a linear layer is W[out][in], row-major, y = x W^T + b.
 * Hugging Face's GPT-2 keeps W[in][out]: `transposed` says so. Fused tensors
 * (GPT-2's c_attn, LLaMA's q/k/v, gate/up) are consecutive rows.
 */
#ifndef DSF_SEGMENTS_UNIT_H
#define DSF_SEGMENTS_UNIT_H

#include <dsflow/optimizer.h>
#include <dsflow/segment.h>
#include <stdbool.h>

#include "config/job.h"

/* What a layer is made of; goes into the arguments of its tasks as it is. All
 * layers have the same width, vocab and context. */
struct dsf_dims {
    int32_t width, heads, kv_heads, head_dim, ffn, context, vocab;
    /* The matrices of the vocabulary have so many rows, and logits so many
     * columns: `vocab`, or more where ranks are GPUs (dsf_dims_pad); each tensor
     * rank has a multiple of vocab_step of them. */
    int32_t vocab_rows, vocab_step;
    int32_t rms;    /* 1: RMSNorm (no bias, no mean), 0: LayerNorm */
    int32_t swiglu; /* 1: SwiGLU (W1 has 2*ffn rows: gate, then up), 0: GELU */
    int32_t rope;   /* 1: rotary positions, 0: learned */
    int32_t qkv_bias, out_bias, mlp_bias;
    int32_t window; /* tokens that a token sees, itself included; 0: all before
                       it */
    float eps;
    int16_t input_quantizer, input_bits; /* as those of tiles */
    int32_t input_group;
};

struct dsf_tensor {
    char name[96]; /* Hugging Face's: "transformer.h.0.attn.c_attn.weight" */
    int64_t rows, cols; /* in dsflow's layout; a vector has rows 1 */
    int64_t offset;     /* in elements, within its unit; a multiple of 16 */
    int64_t file_offset; /* the same in a checkpoint, which has no padding of
                            the vocabulary */
    bool transposed;    /* the file has [cols][rows] */
    bool vector;        /* one dimension in the file */
    uint8_t number;     /* of a list (dsflow_tensor_spec): its place there, */
    uint8_t cut, role;  /* how it is cut, and what it is */
    float init_std;     /* 0: constant init_value */
    float init_value;
};

#define DSF_MAX_TENSORS 12

struct dsf_unit {
    char name[48]; /* "embed", "layer3.qkv", "norm", "head" */
    const struct dsflow_segment *segment;
    unsigned index; /* among the units of its segment */
    int32_t layer;  /* -1 before the blocks, their number after them */
    int32_t kind;   /* of a block's unit: the same number where segment and size
                       are the same, from 0; -1: of no block */
    enum dsflow_tensor_kind matrices; /* what its matrices are */
    int32_t padding;                  /* rows of zeroes behind its matrix of the
                                         vocabulary, that no file has */
    int64_t elems;                    /* with padding (zeroes that stay zero) */
    int64_t file_elems;               /* of them in a checkpoint */
    int64_t decay;                    /* elements [0, decay) decay */
    int64_t block; /* elems is a multiple of it: where it may be cut */
    int64_t at[DSFLOW_SEGMENT_TENSORS]; /* where its tensors begin, as its
                                           segment numbers them; -1: none */
    unsigned ntensors;
    struct dsf_tensor tensors[DSF_MAX_TENSORS];
};

/* For segments: lay a unit out. A tensor follows the one before without a gap;
 * a new matrix or vector begins with dsf_unit_align, which returns where. */
struct dsf_tensor *dsf_unit_matrix(struct dsf_unit *u, int64_t rows,
                                   int64_t cols, float std, const char *fmt,
                                   ...) __attribute__((format(printf, 5, 6)));
struct dsf_tensor *dsf_unit_vector(struct dsf_unit *u, int64_t n, float value,
                                   const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* That of the vocabulary: `rows` rows, the last u->padding of which are zeroes.
 */
struct dsf_tensor *dsf_unit_vocabulary(struct dsf_unit *u, int64_t rows,
                                       int64_t cols, const char *name);
int64_t dsf_unit_align(struct dsf_unit *u);
void dsf_unit_end_matrices(struct dsf_unit *u); /* from here, nothing decays */
/* The norm of a segment: weight, and bias unless it is RMSNorm. */
void dsf_unit_norm(struct dsf_unit *u, const struct dsflow_tile *sizes,
                   const char *name, int64_t *w, int64_t *b);
/* The tensors that a segment lists. */
void dsf_unit_list(struct dsf_unit *u, const struct dsflow_layout *layout);
/* What stands before the names of a layer's tensors. */
struct dsf_prefix {
    char s[48];
};
struct dsf_prefix dsf_unit_prefix(const struct dsflow_layout *layout);

/* GPT-2's rule: weights are normal(0, 0.02), and those that write to the
 * residual stream are scaled down with the depth (Radford et al. 2019, 2.3). */
#define DSF_INIT_STD 0.02f
float dsf_residual_std(const struct dsflow_layout *layout);

/* How finely a unit of `elems` numbers may be cut: about 4096 blocks of whole
 * pages. The norm is summed by block, so that shards do not change it. */
int64_t dsf_unit_block(int64_t elems);

/* The tensor of a unit that has element `at`, or is followed by it. */
unsigned dsf_unit_tensor_at(const struct dsf_unit *unit, int64_t at);

/* What each of T tensor ranks has of a unit: the rows of its heads, its columns
 * of the feed-forward, its rows of the vocabulary; and what all of them need
 * whole, which is a small part of its own (norms, the biases that are added
 * once, keys and values of fewer heads than ranks). Padding is zeroes in both.
 *
 * Part p < T is tensor rank p's. Part T is what they share, and rank 0 keeps it
 * for all. A part that would be empty has no elems. */

/* Rows of a tensor in a part, and where they stand in the whole unit. */
struct dsf_block {
    int64_t at_part, at_whole, rows, cols, ld_part, ld_whole;
};

#define DSF_MAX_BLOCKS DSFLOW_SEGMENT_TENSORS

struct dsf_part {
    char name[64]; /* "layer3.qkv.p1", "layer3.qkv.shared" */
    unsigned unit;
    int32_t part, parts;
    int64_t elems, decay, block; /* as of a unit */
    unsigned nblocks;
    struct dsf_block blocks[DSF_MAX_BLOCKS];

    /* Offsets within the part, -1 where it has none: of tensors by number, of
     * mlp, out and the segments of a list; of the others w: the first matrix
     * (wte, qkv, head; in a shared part the rows of all keys, then of all
     * values); w2: wpe; b: the bias of the first, or in a shared part of any
     * segment the one that it adds to its output. */
    int64_t at[DSFLOW_SEGMENT_TENSORS];
    int64_t w, w2, b, norm_w, norm_b;
    /* Rows first .. first + count of the vocabulary, and of the positions. */
    int32_t first, count, first_pos, npos;
};

/* Of `n` things in order, how many are of part `p`, and the first. The first
 * n mod parts have one more. */
int32_t dsf_share(int32_t n, int32_t parts, int32_t p, int32_t *first);

/* Let the rows of the vocabulary be what products on GPUs are fast with. */
void dsf_dims_pad(struct dsf_dims *d);

/* What part `p` has of d->vocab_rows. */
int32_t dsf_share_vocabulary(const struct dsf_dims *d, int32_t parts, int32_t p,
                             int32_t *first);

/* Are there fewer heads of keys than ranks? Then several ranks use the same. */
static inline bool dsf_shares_kv(int32_t kv_heads, int32_t parts)
{
    return parts > kv_heads;
}

/* For segments: the next numbers of a part, `rows` x `cols` of the whole unit
 * from `at` on, whose rows are `ld` apart; and a vector of the unit, at the
 * next aligned place, which is returned (-1: the unit has none). */
void dsf_part_take(struct dsf_part *p, int64_t at, int64_t rows, int64_t cols,
                   int64_t ld);
int64_t dsf_part_vector(struct dsf_part *p, int64_t at, int64_t n);
int64_t dsf_part_align(struct dsf_part *p);
/* What the part has of a unit whose segment lists its tensors. */
void dsf_part_list(struct dsf_part *p, const struct dsf_unit *unit);

#endif
