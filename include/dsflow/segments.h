/* segments.h - the pieces of a layer: what each one computes, and how another
 * implementation takes the place of a built-in one.
 *
 * A *tile* is the rows of one task: `rows` tokens, either `nseq` whole
 * sequences of rows/nseq tokens, or (nseq = 1) tokens pos .. pos+rows of one.
 * Activations are fp32, row-major, one row a token. Offsets of tensors (w, b,
 * norm_w, …) are in elements within a *unit*, the parameters of a segment in
 * one flat buffer; -1: the model has none.
 */
#ifndef DSFLOW_SEGMENTS_H
#define DSFLOW_SEGMENTS_H

#include <stdint.h>
#include <dsflow/op.h>

DSFLOW_BEGIN_DECLS

#define DSFLOW_SEGMENT_ABI 2

/* The shape of a block and of the tile: first in every segment's arguments. */
struct dsflow_tile {
    int32_t rows, nseq, pos;
    int32_t width, heads, kv_heads, head_dim, ffn, vocab, context;
    int32_t rms;    /* 1: RMSNorm, 0: LayerNorm */
    int32_t swiglu; /* 1: SwiGLU, 0: GELU */
    int32_t rope;   /* 1: rotary positions, 0: learned */
    float eps;
};

/* embed.forward            { batch R, embed R, x W }
 * embed.backward_weight    { batch R, dx R, grad RW }
 *   batch: int32 tokens[rows], targets[rows]; x = wte[token] (+ wpe[pos]). */
struct dsflow_embed_args {
    struct dsflow_tile tile;
    int64_t wte, wpe;
};

/* q: [rows][heads*head_dim]; kv: [rows][2][kv_heads*head_dim], keys first.
 * dnorm: [2][width], the sums over the rows of the gradients of norm_w, norm_b.
 *
 * qkv.forward              { x R, unit R, q W, kv W, rope R? }
 *   [q|k|v] = norm(x) W^T + b, q and k rotated (pairs i, i + head_dim/2).
 * qkv.backward_input       { dq RW, dkv RW, x R, unit R, dres R, dx W, dnorm W,
 *                            rope R? }
 *   Rotates dq and the keys of dkv back, in place (what backward_weight
 *   reads); dx = dres + norm_backward([dq|dkv] W).
 * qkv.backward_weight      { dq R, dkv R, x R, unit R, dnorm R, grad RW } */
struct dsflow_qkv_args {
    struct dsflow_tile tile;
    int64_t w, b, norm_w, norm_b;
};

/* Softmax attention without the whole score matrix (Dao et al. 2022; Milakov &
 * Gimelshein 2018): queries of one tile against keys of one tile, causal.
 *
 * attention.forward        { q R, kv R, att RW, lse RW }
 *   att: [rows][heads*head_dim]; lse: [2][rows][heads], running maximum and
 *   sum. `first` (its att and lse are fresh): start; `last`: att is divided by
 *   the sum and lse[0] becomes max + log(sum).
 * attention.backward_input { q R, kv R, datt R, lse R, delta R, dq RW, dkv RW }
 *   dq and dkv are added to; where `first_q` / `first_kv` (fresh), set.
 *
 * `tile` is the queries'. `diagonal`: the keys are of the same tile, and causal
 * within each sequence; otherwise one sequence, and all `keys` keys precede. */
struct dsflow_attention_args {
    struct dsflow_tile tile;
    int32_t keys; /* rows of kv */
    int32_t diagonal, first, last, first_q, first_kv;
};

/* out.forward              { x R, att R, unit R, y W }    y = x + att W^T + b
 * out.backward_input       { dy R, att R, unit R, datt W, delta W }
 *   datt = dy W; delta[rows][heads] = sum over head_dim of datt * att.
 * out.backward_weight      { dy R, att R, grad RW } */
struct dsflow_out_args {
    struct dsflow_tile tile;
    int64_t w, b;
};

/* h: [rows][ffn], or [rows][2*ffn] with SwiGLU (gate, then up).
 *
 * mlp.forward              { x R, unit R, h W, y W }
 *   h = norm(x) W1^T + b1; y = x + act(h) W2^T + b2.
 * mlp.hidden               { x R, unit R, h W }         h alone, once more
 * mlp.backward_input       { dy R, x R, unit R, h RW, dh W, dx W, dnorm W }
 *   dh; h becomes act(h) ([rows][ffn], packed at its start);
 *   dx = dy + norm_backward(dh W1).
 * mlp.backward_weight      { dy R, x R, unit R, h R, dh R, dnorm R, grad RW }
 */
struct dsflow_mlp_args {
    struct dsflow_tile tile;
    int64_t w1, b1, w2, b2, norm_w, norm_b;
};

/* weight: the unit that has W[vocab][width] ("head", or "embed" when tied).
 * Each tile's logits stand in one slot of a ring: never all of them.
 *
 * head.forward             { x R, norm R, weight R, batch R, logits W, loss W }
 *   logits = norm(x) W^T, then overwritten by their gradient,
 *   (softmax - onehot(target)) * scale; loss: double[1], the sum over rows of
 *   -log softmax[target]. Rows whose target is negative count for nothing.
 * head.backward_input      { logits R, x R, norm R, weight R, dx W, dnorm W }
 * head.backward_weight     { logits R, x R, norm R, dnorm R, grad RW,
 *                            norm_grad RW }
 * head.logits              { x R, norm R, weight R, logits W }
 *   The logits themselves, without a loss: generation reads them. */
struct dsflow_head_args {
    struct dsflow_tile tile;
    int64_t w, norm_w, norm_b;
    float scale; /* 1 / (tokens of a step) */
    int32_t zero; /* no padding: equal arguments have equal bytes */
};

/* An implementation of a segment: kinds of task that take the place of the
 * built-in ones where the job says so, as in [model] attention = "mine". Each
 * has the ports (names, access, which may be left out) and the args_size of the
 * one it replaces, and leaves in them what is said above; what is NULL stays as
 * it is. A forward that computes something else has a backward of its own. */
struct dsflow_segment {
    unsigned abi;         /* DSFLOW_SEGMENT_ABI */
    const char *name;     /* "mine": a value of model.<replaces> */
    const char *summary;  /* one line, for `dsflow list segments` */
    const char *replaces; /* "embed", "qkv", "attention", "out", "mlp" or
                             "head" */
    const struct dsflow_op *forward;
    const struct dsflow_op *hidden; /* mlp: h once more, when recomputed */
    const struct dsflow_op *backward_input;  /* embed has none */
    const struct dsflow_op *backward_weight; /* attention has none */
    const struct dsflow_op *logits; /* head: without a loss, for generation */
};

/* Make it known by `replaces` and its name. It is borrowed for good: make it
 * static. */
DSFLOW_API int dsflow_segment_register(const struct dsflow_segment *segment,
                                       struct dsflow_err *err);
DSFLOW_API const struct dsflow_segment *
dsflow_segment_find(const char *replaces, const char *name);

/* The i-th known, in order of registration; NULL past the last. */
DSFLOW_API const struct dsflow_segment *dsflow_segment_at(unsigned i);

DSFLOW_END_DECLS

#endif
