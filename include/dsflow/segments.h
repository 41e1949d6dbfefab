/* segments.h - the pieces of a layer: what each built-in one computes.
 * segment.h has how one is described.
 *
 * A *tile* is the rows of one task: `rows` tokens, either `nseq` whole
 * sequences of rows/nseq tokens, or (nseq = 1) tokens pos .. pos+rows of one.
 * Activations are row-major, one row a token; they and the parameters are fp32,
 * or bf16 or fp16 (op.h: floats), and sums are fp32. Offsets of tensors (w, b,
 * norm_w, …) are in elements within a *unit*, the parameters of a segment in
 * one flat buffer; -1: the model has none.
 *
 * The tasks of a segment share one list of ports, and each has some of them:
 * the places in `ports` of an op that it does not have have no name. A kernel
 * finds the data of a port at its number in `bufs`, and NULL where the task
 * leaves it out ("?" below).
 *
 * One of T tensor ranks does a *part* of a segment with the same tasks (Shoeybi
 * et al. 2019): some of the heads, of the columns of the feed-forward, of the
 * vocabulary, which the tile gives. What is done once for all parts is left
 * out: the norm before (`x` is normed already, and rounded where the tile says
 * so, and norm_w is -1) and what is added after (`y` is a partial product).
 */
#ifndef DSFLOW_SEGMENTS_H
#define DSFLOW_SEGMENTS_H

#include <stdint.h>
#include <dsflow/op.h>

DSFLOW_BEGIN_DECLS

/* The shape of a block and of the tile: first in every segment's arguments. */
struct dsflow_tile {
    int32_t rows, nseq, pos;
    int32_t width, heads, kv_heads, head_dim, ffn, vocab, context;
    int32_t rms;    /* 1: RMSNorm, 0: LayerNorm */
    int32_t swiglu; /* 1: SwiGLU, 0: GELU */
    int32_t rope;   /* 1: rotary positions, 0: learned */
    float eps;
    /* What is multiplied with a matrix is rounded before, as a quantized model
     * has it: numbers of a row that follow each other, `input_group` of them
     * (16 to 128; 0: all, a multiple of 16), have `input_bits` bits (2 to 16)
     * and a scale of their own.
     * Its gradient stays that of the rounded numbers (the straight-through
     * estimator). 0: as it is; 1: symmetric; 2: asymmetric. */
    int16_t input_quantizer, input_bits;
    int32_t input_group;
};

/* embed.forward            { batch R, unit R, x W }
 * embed.backward_weight    { batch R, dx R, grad RW }
 *   batch: int32 tokens[rows], targets[rows]; x = wte[token] (+ wpe[pos]).
 *   The unit has rows first .. first + tile.vocab of wte, and rows first_pos ..
 *   first_pos + npos of wpe (npos 0: none); what it has not counts as zeroes.
 */
enum dsflow_embed_port {
    DSFLOW_EMBED_BATCH,
    DSFLOW_EMBED_UNIT,
    DSFLOW_EMBED_X,
    DSFLOW_EMBED_DX,
    DSFLOW_EMBED_GRAD,
    DSFLOW_EMBED_NPORTS
};
struct dsflow_embed_args {
    struct dsflow_tile tile;
    int64_t wte, wpe;
    int32_t first, first_pos, npos;
    int32_t zero; /* no padding: equal arguments have equal bytes */
};

/* q: [rows][heads*head_dim]; kv: [rows][2][kv_heads*head_dim], keys first.
 * dnorm: [2][width], the sums over the rows of the gradients of norm_w, norm_b.
 *
 * qkv.forward              { x R, unit R, q W, kv RW, rope R?, shared R? }
 *   [q|k|v] = norm(x) W^T + b, q and k rotated (pairs i, i + head_dim/2).
 * qkv.backward_input       { x R?, unit R, rope R?, shared R?, dq RW, dkv RW,
 *                            dres R?, dx W, dnorm W? }
 *   Rotates dq and the keys of dkv back, in place (what backward_weight
 *   reads); dx = dres + norm_backward([dq|dkv] W), or [dq|dkv] W of a part.
 * qkv.backward_weight      { x R, unit R?, dq R, dkv R, dnorm R?, grad RW,
 *                            shared_grad RW? }
 *
 * W and b of queries, keys and values follow each other in the unit. Where
 * fewer heads of keys than parts are, several parts use the same one, and the
 * rows of all are in `shared`: k and v are where this part's begin there, kb
 * and vb those of their biases (-1: none). Otherwise k is -1.
 *
 * kv and dkv may be those of several tiles that follow each other (kv_rows >
 * 0): so many rows, of which the tile's are kv_at and on. forward then writes
 * these rows alone; its kv is fresh where they are the first. 0: they are those
 * of the tile. */
enum dsflow_qkv_port {
    DSFLOW_QKV_X,
    DSFLOW_QKV_UNIT,
    DSFLOW_QKV_Q,
    DSFLOW_QKV_KV,
    DSFLOW_QKV_ROPE,
    DSFLOW_QKV_SHARED,
    DSFLOW_QKV_DQ,
    DSFLOW_QKV_DKV,
    DSFLOW_QKV_DRES,
    DSFLOW_QKV_DX,
    DSFLOW_QKV_DNORM,
    DSFLOW_QKV_GRAD,
    DSFLOW_QKV_SHARED_GRAD,
    DSFLOW_QKV_NPORTS
};
struct dsflow_qkv_args {
    struct dsflow_tile tile;
    int64_t w, b, norm_w, norm_b;
    int64_t k, v, kb, vb;
    int32_t kv_rows, kv_at;
};

/* Softmax attention without the whole score matrix (Dao et al. 2022; Milakov &
 * Gimelshein 2018): queries of one tile against keys of one or several, causal.
 *
 * attention.forward        { q R, kv R, att RW, lse RW, layout R? }
 *   att: [rows][heads*head_dim]; lse: [2][rows][heads], running maximum and
 *   sum. `first` (its att and lse are fresh): start; `last`: att is divided by
 *   the sum, lse[0] becomes max + log(sum) and lse[1] 1.
 * attention.backward_input { q R, kv R, lse R, datt R, delta R, dq RW, dkv RW,
 *                            layout R? }
 *   dq and dkv are added to; where `first_q` / `first_kv` (fresh), set.
 *
 * `tile` is the queries'. `diagonal`: the keys are of the same tile, and causal
 * within each sequence; otherwise one sequence, and all `keys` keys precede.
 * `key_tile` > 0: the keys are of several tiles that follow each other, each of
 * so many rows, but for the last; they are taken one after the other, forward,
 * and from the last back. Where that is the diagonal, the last tile is the
 * queries', and `before` keys are in front of it.
 *
 * `window` > 0: a query sees its own token and the window - 1 before it, of
 * keys that stand at key_pos .. key_pos + keys of their sequence (Beltagy et
 * al. 2020; Jiang et al. 2023). 0 where that hides none of the keys; key_pos
 * then counts only with a layout.
 *
 * `block` > 0: a query also sees only the blocks of `layout` that are on (Child
 * et al. 2019), of so many tokens. layout: [layouts][blocks] rows of
 * ceil(blocks / 64) words of 64 bits, block c of keys being bit c % 64 of word
 * c / 64, 0 where c is behind the row; `layouts` is 1 where all heads have the
 * same, and `head` is the one of the tile's first head otherwise. `packed` keys
 * or fewer are those of all blocks that a head of keys is seen in, each rounded
 * up to 16; `seen` pairs of a query and a key there are, in all heads and
 * sequences. 0 where none of the keys is left out, and then so are the others,
 * and the port. `in_place`: cores pack keys of fp32 (-1), use them where they
 * are (1), or as `packed` and `seen` say (0); with a window the bits may
 * differ.
 */
enum dsflow_attention_port {
    DSFLOW_ATTENTION_Q,
    DSFLOW_ATTENTION_KV,
    DSFLOW_ATTENTION_ATT,
    DSFLOW_ATTENTION_LSE,
    DSFLOW_ATTENTION_DATT,
    DSFLOW_ATTENTION_DELTA,
    DSFLOW_ATTENTION_DQ,
    DSFLOW_ATTENTION_DKV,
    DSFLOW_ATTENTION_LAYOUT,
    DSFLOW_ATTENTION_NPORTS
};
struct dsflow_attention_args {
    struct dsflow_tile tile;
    int32_t keys; /* rows of kv */
    int32_t diagonal, first, last, first_q, first_kv;
    int32_t window, key_pos;
    int32_t block, blocks, layouts, head, packed;
    int32_t key_tile, before;
    int32_t in_place;
    double seen;
};

/* out.forward              { x R?, att R, unit R, y W }
 *   y = x + att W^T + b; of a part y = att W^T.
 * out.backward_input       { att R, unit R, dy R, datt W, delta W }
 *   datt = dy W; delta[rows][heads] = sum over head_dim of datt * att.
 * out.backward_weight      { att R, dy R, grad RW } */
enum dsflow_out_port {
    DSFLOW_OUT_X,
    DSFLOW_OUT_ATT,
    DSFLOW_OUT_UNIT,
    DSFLOW_OUT_Y,
    DSFLOW_OUT_DY,
    DSFLOW_OUT_DATT,
    DSFLOW_OUT_DELTA,
    DSFLOW_OUT_GRAD,
    DSFLOW_OUT_NPORTS
};
struct dsflow_out_args {
    struct dsflow_tile tile;
    int64_t w, b;
    int32_t residual; /* 1: x is added, and b; 0: of a part */
    int32_t zero; /* no padding: equal arguments have equal bytes */
};

/* h: [rows][ffn], or [rows][2*ffn] with SwiGLU (gate, then up).
 *
 * mlp.forward              { x R, unit R, h W, y W }
 *   h = norm(x) W1^T + b1; y = x + act(h) W2^T + b2; of a part h = x W1^T + b1
 *   and y = act(h) W2^T.
 * mlp.hidden               { x R, unit R, h W }         h alone, once more
 * mlp.backward_input       { x R?, unit R, h RW, dy R, dh W, dx W, dnorm W? }
 *   dh; h becomes act(h) ([rows][ffn], packed at its start);
 *   dx = dy + norm_backward(dh W1); of a part dx = dh W1.
 * mlp.backward_weight      { x R, unit R?, h R, dy R, dh R, dnorm R?, grad RW }
 */
enum dsflow_mlp_port {
    DSFLOW_MLP_X,
    DSFLOW_MLP_UNIT,
    DSFLOW_MLP_H,
    DSFLOW_MLP_Y,
    DSFLOW_MLP_DY,
    DSFLOW_MLP_DH,
    DSFLOW_MLP_DX,
    DSFLOW_MLP_DNORM,
    DSFLOW_MLP_GRAD,
    DSFLOW_MLP_NPORTS
};
struct dsflow_mlp_args {
    struct dsflow_tile tile;
    int64_t w1, b1, w2, b2, norm_w, norm_b;
};

/* weight: the unit that has W[vocab][width] ("head", or "embed" when tied).
 * Each tile's logits stand in one slot of a ring: never all of them.
 *
 * head.forward             { x R, norm R?, weight R, batch R, logits W, loss W?,
 *                            stats W?, tops W?, control R? }
 *   logits = norm(x) W^T, then overwritten by their gradient,
 *   (softmax - onehot(target)) * scale * control.loss_scale (left out: 1);
 *   loss: double[1], the sum over rows of -log softmax[target], which is not
 *   scaled. Rows whose target is negative count for nothing.
 *   A part has no norm and no loss, but stats and tops: its logits become
 *   e^(logit - top of its block of columns), tops[rows][blocks of columns] has
 *   those tops, and stats[rows] (struct dsflow_head_stats) what it says of each
 *   row to the other parts.
 * head.loss                { batch R, logits RW, loss W, tops R, all_stats R,
 *                            control R? }
 *   The rest of forward, of a part. all_stats: [parts][rows], the stats of all
 *   parts in order. The loss is that of the whole vocabulary, and the same
 *   number in every part.
 * head.backward_input      { x R?, norm R?, weight R, logits R, dx W, dnorm W? }
 * head.backward_weight     { x R, norm R?, logits R, dnorm R?, grad RW,
 *                            norm_grad RW? }
 * head.logits              { x R, norm R?, weight R, logits W }
 *   The logits themselves, without a loss: generation reads them.
 *
 * With [batch] head_columns, the logits of so many columns are in scratch at a
 * time, and are computed once more for their gradients, in the place of forward,
 * loss and the backward tasks:
 *
 * head.forward_columns     { x R, norm R?, weight R, batch R, loss W?, stats W?,
 *                            sums W? }
 *   The loss, and in `sums` what the whole vocabulary says of each row (struct
 *   dsflow_head_stats); of a part, stats alone.
 * head.loss_columns        { batch R, loss W, all_stats R, sums W }
 *   The same of a part, from the stats of all parts.
 * head.backward_columns    { x R, norm R?, weight R, batch R, sums R, dx W,
 *                            dnorm W?, grad RW, norm_grad RW?, control R? }
 *   All gradients; of a part, dx of its columns and the gradient of its matrix.
 * head.backward_input_columns { x R, norm R?, weight R, batch R, sums R, dx W,
 *                            dnorm W?, control R? }
 * head.backward_weight_columns { x R, norm R?, weight R, batch R, sums R,
 *                            dnorm R?, grad RW, norm_grad RW?, control R? }
 *   The same in two tasks, each with the logits once more: the same bits. Plans
 *   for many workers have these.
 *
 * A part has columns first .. first + tile.vocab of `whole`. Those from `whole`
 * on, fewer than 64, are padding where ranks are GPUs: rows of zeroes in W, and no
 * words. forward leaves zeroes there, and so do gradients. */
enum dsflow_head_port {
    DSFLOW_HEAD_X,
    DSFLOW_HEAD_NORM,
    DSFLOW_HEAD_WEIGHT,
    DSFLOW_HEAD_BATCH,
    DSFLOW_HEAD_LOGITS,
    DSFLOW_HEAD_LOSS,
    DSFLOW_HEAD_STATS,
    DSFLOW_HEAD_TOPS,
    DSFLOW_HEAD_ALL_STATS,
    DSFLOW_HEAD_DX,
    DSFLOW_HEAD_DNORM,
    DSFLOW_HEAD_GRAD,
    DSFLOW_HEAD_NORM_GRAD,
    DSFLOW_HEAD_CONTROL,
    DSFLOW_HEAD_SUMS,
    DSFLOW_HEAD_NPORTS
};
struct dsflow_head_args {
    struct dsflow_tile tile;
    int64_t w, norm_w, norm_b;
    int32_t first, whole, parts; /* of the vocabulary: 0, its words, 1 */
    float scale;                 /* 1 / (tokens of a step) */
};
struct dsflow_head_stats {
    double top;    /* the largest logit */
    double sum;    /* of e^(logit - top) */
    double target; /* the target's logit, 0 where it is of another part */
};

/* What tensor ranks do once for all parts of a segment, each on its own rows.
 *
 * norm.forward             { x R, unit R, y W }
 * norm.backward_input      { x R, unit R, dy R, dx W, dnorm W, dres R? }
 *   dx = dres (left out: 0) + norm_backward(dy).
 * norm.backward_weight     { dnorm R, grad RW }
 *   grad += dnorm, which is [2][width]. */
enum dsflow_norm_port {
    DSFLOW_NORM_X,
    DSFLOW_NORM_UNIT,
    DSFLOW_NORM_Y,
    DSFLOW_NORM_DY,
    DSFLOW_NORM_DX,
    DSFLOW_NORM_DNORM,
    DSFLOW_NORM_DRES,
    DSFLOW_NORM_GRAD,
    DSFLOW_NORM_NPORTS
};
/* residual.forward         { x R, in R, y W, unit R? }    y = x + b + in
 * residual.backward_weight { dy R, grad RW }            grad[b] += rows of dy
 */
enum dsflow_residual_port {
    DSFLOW_RESIDUAL_X,
    DSFLOW_RESIDUAL_IN,
    DSFLOW_RESIDUAL_Y,
    DSFLOW_RESIDUAL_UNIT,
    DSFLOW_RESIDUAL_DY,
    DSFLOW_RESIDUAL_GRAD,
    DSFLOW_RESIDUAL_NPORTS
};

enum { DSFLOW_SEGMENT_PORTS = 16 }; /* of a segment, at most */

/* What the data on a port of a task has at least. 0 rows: a task with these
 * arguments leaves the port out. */
struct dsflow_need {
    int64_t rows, cols;
    enum dsflow_dtype dtype;
};

/* Fill `need`, by port, from the arguments of a task of a segment; all are 0
 * before. Errors are about the arguments. */
typedef int dsflow_needs_fn(const struct dsflow_op *op, const void *args,
                            struct dsflow_need *need, struct dsflow_err *err);

/* Does the data on the ports have what `needs` asks for? What the check of an op
 * of a segment calls. */
DSFLOW_API int dsflow_segment_check(const struct dsflow_case *c,
                                    dsflow_needs_fn *needs,
                                    struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
