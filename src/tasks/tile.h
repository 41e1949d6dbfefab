/* tile.h - what the checks and costs of the segments share. */
#ifndef DSF_TASKS_TILE_H
#define DSF_TASKS_TILE_H

#include <dsflow/graph.h>
#include <dsflow/op.h>
#include "kernels/fake_quantize.h"
#include "tasks/args.h"

/* Attention works on this many queries by this many keys at a time; the head
 * takes this many columns of the vocabulary at a time. Their scratch, and so
 * the sums and their order, follow from these. */
enum {
    DSF_STRIP_FORWARD = 24,
    DSF_STRIP_BACKWARD = 48,
    DSF_KEY_BLOCK = 128,
    DSF_HEAD_COLUMNS = 2048
};

/* Of a tile; products with other sizes, none of which is larger, then fit in 64
 * bits. */
#define DSF_MOST_ROWS (1 << 24)

/* That of a task of a segment, which begins its arguments; NULL: it is none. */
static inline const struct dsflow_tile *
dsf_task_tile(const struct dsflow_task_spec *t)
{
    return t->op->segment != NULL &&
                   t->op->args_size >= sizeof(struct dsflow_tile)
               ? t->args
               : NULL;
}

/* Numbers (floats) of the parts of a tile. */
static inline size_t dsf_tile_x(const struct dsflow_tile *t)
{
    return (size_t)t->rows * (size_t)t->width;
}

static inline size_t dsf_tile_qwidth(const struct dsflow_tile *t)
{
    return (size_t)t->heads * (size_t)t->head_dim;
}

/* Of keys and values together. */
static inline size_t dsf_tile_kvwidth(const struct dsflow_tile *t)
{
    return 2 * (size_t)t->kv_heads * (size_t)t->head_dim;
}

static inline size_t dsf_tile_hwidth(const struct dsflow_tile *t)
{
    return (size_t)t->ffn * (t->swiglu ? 2 : 1);
}

/* Rows of one sequence. */
static inline size_t dsf_tile_length(const struct dsflow_tile *t)
{
    return (size_t)t->rows / (size_t)t->nseq;
}

/* Are the inputs of products as a quantized model has them, and how? */
static inline int dsf_tile_rounds(const struct dsflow_tile *t)
{
    return t->input_quantizer != DSF_UNQUANTIZED;
}

static inline struct dsf_fake_quantizer
dsf_tile_quantizer(const struct dsflow_tile *t)
{
    return (struct dsf_fake_quantizer){ .quantizer = t->input_quantizer,
                                        .bits = t->input_bits,
                                        .group = t->input_group };
}

/* Are there such, and are rows of `n` numbers whole groups of them? Also of what
 * is not rounded. */
int dsf_tile_quantizer_check(const struct dsflow_op *op,
                             const struct dsflow_tile *t, size_t n,
                             struct dsflow_err *err);

/* What rounding `n` inputs costs. */
static inline double dsf_tile_rounding(const struct dsflow_tile *t, double n)
{
    return dsf_tile_rounds(t) ? DSF_QUANTIZE_FLOPS * n : 0;
}

/* A number of floats, rounded up to whole cache lines: parts of scratch. */
static inline size_t dsf_round16(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Blocks of DSF_HEAD_COLUMNS columns of the vocabulary. */
static inline size_t dsf_head_blocks(const struct dsflow_tile *t)
{
    return ((size_t)t->vocab + DSF_HEAD_COLUMNS - 1) / DSF_HEAD_COLUMNS;
}

/* The columns that are words: those behind them are padding, fewer than
 * DSF_HEAD_PADDING. */
enum { DSF_HEAD_PADDING = 64 };
static inline size_t dsf_head_words(const struct dsflow_head_args *a)
{
    const int32_t left = a->whole - a->first;

    return (size_t)(a->tile.vocab < left ? a->tile.vocab : left);
}

/* Bytes of a number of a tile: segments compute in fp32. */
#define DSF_CELL dsflow_dtype_bytes(DSFLOW_FP32, 1)

/* Numbers that a part of the head says of a row. */
enum { DSF_HEAD_STATS = sizeof(struct dsflow_head_stats) / sizeof(double) };

/* Where the parts of head.forward's scratch begin, in bytes. A part of the head
 * has no more than the sums: the rest is data of other tasks. */
struct dsf_head_scratch {
    size_t sums;  /* double [rows][blocks]: of e^(logit - top) */
    size_t stats; /* struct dsflow_head_stats [rows] */
    size_t tops;  /* float [rows][blocks] */
    size_t normed, bytes;
};
struct dsf_head_scratch dsf_head_scratch(const struct dsflow_head_args *a);

/* A matrix of floats. */
static inline struct dsflow_need dsf_matrix(size_t rows, size_t cols)
{
    return (struct dsflow_need){ (int64_t)rows, (int64_t)cols, DSFLOW_FP32 };
}

/* `cols` floats for each row of the tile. */
static inline struct dsflow_need dsf_rows_of(const struct dsflow_tile *t,
                                             size_t cols)
{
    return dsf_matrix((size_t)t->rows, cols);
}

/* int32 tokens[rows], targets[rows]. */
static inline struct dsflow_need dsf_batch_of(const struct dsflow_tile *t)
{
    return (struct dsflow_need){ 2, t->rows, DSFLOW_INT32 };
}

dsflow_needs_fn dsf_embed_needs, dsf_qkv_needs, dsf_attention_needs,
    dsf_out_needs, dsf_mlp_needs, dsf_head_needs, dsf_norm_needs,
    dsf_residual_needs, dsf_mlp_up_needs, dsf_project_needs;

/* May a task of `op` leave the port out? */
static inline int dsf_is_optional(const struct dsflow_op *op, unsigned port)
{
    return port < op->nports && op->ports[port].optional;
}

/* <segment>_check, of its ops: have the ports what dsf_<segment>_needs says? */
#define DSF_SEGMENT_CHECK(segment)                                             \
    static int segment##_check(const struct dsflow_case *c,                    \
                               struct dsflow_err *err)                         \
    {                                                                          \
        return dsflow_segment_check(c, dsf_##segment##_needs, err);            \
    }

/* Port DSFLOW_<segment>_<port> of an op, which reads (R), writes (W) or does both
 * (RW) to the data there. */
#define DSF_PORT(segment, port, name, access, ...)                             \
    [DSFLOW_##segment##_##port] = { name, DSFLOW_##access, __VA_ARGS__ }

/* dsf_op_<segment>_<name>, an op of a segment: what is not said here. */
#define DSF_SEGMENT_OP(segment_, name_, direction_, args, ...)                 \
    const struct dsflow_op dsf_op_##segment_##_##name_ = {                     \
        .abi = DSFLOW_OP_ABI,                                                  \
        .name = #segment_ "." #name_,                                          \
        .segment = #segment_,                                                  \
        .direction = DSFLOW_DIR_##direction_,                                  \
        .args_size = sizeof(args),                                             \
        .check = segment_##_check,                                             \
        __VA_ARGS__                                                            \
    }

/* Are the numbers of a tile in range, and do they agree? `op` is named in the
 * message. */
int dsf_tile_check(const struct dsflow_op *op, const struct dsflow_tile *t,
                   struct dsflow_err *err);

/* The type in which a task of a segment computes: that of its narrow ports. */
enum dsflow_dtype dsf_case_type(const struct dsflow_case *c);

/* Bytes of `n` numbers of that type. */
static inline double dsf_case_bytes(const struct dsflow_case *c, double n)
{
    return n * (double)dsflow_dtype_bytes(dsf_case_type(c), 1);
}

/* Tensors of a unit: `n` numbers at `at`, which may be -1 when `optional`.
 * *need becomes a row as long as the unit has to be. */
struct dsf_in_unit {
    const char *name;
    int64_t at;
    size_t n;
    int optional;
};
int dsf_unit_needs(const struct dsflow_op *op,
                   const struct dsf_in_unit *tensors, unsigned n,
                   struct dsflow_need *need, struct dsflow_err *err);

/* Bytes read and written: those of the ports, counted once, and twice where a
 * port is both; not of the ports in `but` (bit i: port i). */
double dsf_ports_bytes(const struct dsflow_case *c, unsigned but);

/* Scratch of the rows of a tile, normed, or of the gradient of them; a part,
 * whose norm_w is -1, has none. */
static inline size_t dsf_normed_bytes(const struct dsflow_tile *t,
                                      int64_t norm_w)
{
    return norm_w < 0 ? 0 : dsf_tile_x(t) * DSF_CELL;
}

#endif
