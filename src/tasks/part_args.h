/* part_args.h - the arguments of the kinds of task that work on a part of a
 * segment: one of T tensor ranks has some of the heads, of the columns of the
 * feed-forward and of the vocabulary (Shoeybi et al. 2019), and some of the
 * rows of what is between the segments (Korthikanti et al. 2022).
 *
 * `tile` says the part's shape: heads, kv_heads, ffn and vocab are those of the
 * part, so that attention.* is the same for a part. xn: the normed tile, all
 * its rows. Partial products, named y or dxn, are summed over the parts by
 * reduce_scatter. The kinds of out that go backward are those of the whole.
 */
#ifndef DSF_TASKS_PART_ARGS_H
#define DSF_TASKS_PART_ARGS_H

#include "tasks/args.h"

/* Of the rows of one rank: tile.rows of them, of whatever sequences. Only
 * rows, width, rms and eps of the tile are read.
 *
 * norm.forward             { x R, unit R, y W }
 * norm.backward_input      { dy R, x R, unit R, dx W, dnorm W, dres R? }
 *   dx = dres (left out: 0) + norm_backward(dy).
 * norm.backward_weight     { dnorm R, grad RW }
 *   grad += dnorm, which is [2][width] as in args.h. */
struct dsf_norm_args {
    struct dsflow_tile tile;
    int64_t norm_w, norm_b;
};

/* Of the rows of one rank, as above. b: what every rank adds on its own rows,
 * the bias that would be added once by the whole segment.
 *
 * residual.forward         { x R, in R, y W, unit R? }    y = x + b + in
 * residual.backward_weight { dy R, grad RW }            grad[b] += rows of dy
 */
struct dsf_residual_args {
    struct dsflow_tile tile;
    int64_t b;
};

/* The part has rows first .. first + tile.vocab of wte, and rows first_pos ..
 * first_pos + npos of wpe (wpe -1, npos 0: none).
 *
 * embed_part.forward       { batch R, embed R, x W }
 *   What this part has of wte[token] + wpe[pos]; zeroes where it has neither.
 * embed_part.backward_weight { batch R, dx R, grad RW } */
struct dsf_embed_part_args {
    struct dsflow_tile tile;
    int64_t wte, wpe;
    int32_t first, first_pos, npos, zero;
};

/* W and b of queries, keys and values stand in the unit as those of the whole
 * do. Where fewer heads of keys than ranks are, several ranks use the same one,
 * and the rows of all are in `shared`: k and v are where this part's begin
 * there, kb and vb those of their biases (-1: none). Otherwise k is -1.
 *
 * qkv_part.forward         { xn R, unit R, q W, kv W, rope R?, shared R? }
 * qkv_part.backward_input  { dq RW, dkv RW, unit R, dxn W, rope R?, shared R? }
 *   Rotates dq and the keys of dkv back, in place, as qkv.backward_input.
 * qkv_part.backward_weight { dq R, dkv R, xn R, grad RW, shared_grad RW? } */
struct dsf_qkv_part_args {
    struct dsflow_tile tile;
    int64_t w, b, k, v, kb, vb;
};

/* out_part.forward         { att R, unit R, y W }         y = att W^T
 *   struct dsflow_out_args, with b = -1; W is [width][heads*head_dim] of the
 * part. Backward: out.backward_input and out.backward_weight with b = -1. */

/* mlp_part.forward         { xn R, unit R, h W, y W }
 *   h = xn W1^T + b1; y = act(h) W2^T. With SwiGLU W1 has the part's rows of
 *   gate, then those of up; W2 is [width][ffn].
 * mlp_part.hidden          { xn R, unit R, h W }        h alone, once more
 * mlp_part.backward_input  { dy R, unit R, h RW, dh W, dxn W }
 *   As mlp.backward_input: h becomes act(h).
 * mlp_part.backward_weight { dy R, xn R, h R, dh R, grad RW } */
struct dsf_mlp_part_args {
    struct dsflow_tile tile;
    int64_t w1, b1, w2;
};

/* What a part says of a row to all others. */
struct dsf_head_stats {
    double top;    /* the largest logit */
    double sum;    /* of e^(logit - top) */
    double target; /* the target's logit, 0 where it is of another part */
};
enum { DSF_HEAD_STATS = 3 }; /* numbers (fp64) in one */

/* The part has columns first .. first + tile.vocab of `whole`.
 *
 * head_part.forward        { xn R, weight R, batch R, logits W, stats W,
 *                            tops W }
 *   logits: e^(logit - top of its block of columns); tops[rows][blocks] (see
 *   dsf_head_blocks); stats: struct dsf_head_stats [rows].
 * head_part.loss           { logits RW, batch R, stats R, tops R, loss W }
 *   stats: [parts][rows], those of all parts in order. logits become their
 *   gradient, (softmax - onehot(target)) * scale; loss: as head.forward's, of
 *   the whole vocabulary, and the same number in every part.
 * head_part.backward_input { logits R, weight R, dxn W }
 * head_part.backward_weight { logits R, xn R, grad RW } */
struct dsf_head_part_args {
    struct dsflow_tile tile;
    int64_t w;
    int32_t first, whole, parts;
    float scale;
};

#endif
