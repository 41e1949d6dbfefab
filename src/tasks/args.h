/* args.h - the arguments of the built-in kinds of task: plain numbers, copied
 * into the graph. Offsets (…_at) are in elements within a unit; -1: none.
 *
 * A *tile* is the rows of one task: `rows` tokens, either `nseq` whole
 * sequences of rows/nseq tokens, or (nseq = 1) tokens pos .. pos+rows of one.
 * Activations are fp32, row-major, one row a token.
 */
#ifndef DSF_TASKS_ARGS_H
#define DSF_TASKS_ARGS_H

#include <stdint.h>
#include <dsflow/op.h>

/* The shape of a block and of the tile: first in every segment's arguments. */
struct dsf_tile {
    int32_t rows, nseq, pos;
    int32_t width, heads, kv_heads, head_dim, ffn, vocab, context;
    int32_t rms, swiglu, rope;
    float eps;
};

/* embed.forward            { batch R, embed R, x W }
 * embed.backward_weight    { batch R, dx R, grad RW }
 *   batch: int32 tokens[rows], targets[rows]; x = wte[token] (+ wpe[pos]). */
struct dsf_embed_args {
    struct dsf_tile tile;
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
struct dsf_qkv_args {
    struct dsf_tile tile;
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
struct dsf_attention_args {
    struct dsf_tile tile;
    int32_t keys; /* rows of kv */
    int32_t diagonal, first, last, first_q, first_kv;
};

/* out.forward              { x R, att R, unit R, y W }    y = x + att W^T + b
 * out.backward_input       { dy R, att R, unit R, datt W, delta W }
 *   datt = dy W; delta[rows][heads] = sum over head_dim of datt * att.
 * out.backward_weight      { dy R, att R, grad RW } */
struct dsf_out_args {
    struct dsf_tile tile;
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
 * mlp.backward_weight      { dy R, x R, unit R, h R, dh R, dnorm R, grad RW } */
struct dsf_mlp_args {
    struct dsf_tile tile;
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
struct dsf_head_args {
    struct dsf_tile tile;
    int64_t w, norm_w, norm_b;
    float scale; /* 1 / (tokens of a step) */
};

/* load_batch               { cursor R, batch W }
 *   cursor: int64[4], [0] is the step to load. Calls host->load_batch for
 *   sequences seq .. seq+nseq of the step. */
struct dsf_load_args {
    int32_t rows, nseq, pos;
    int64_t seq;
};

/* advance                  { cursor RW }                  cursor[0] += 1
 *   (no arguments) */

/* The learning rate of a step, in the words of deepspeed.md's schedules. */
struct dsf_schedule_args {
    int32_t kind, shape; /* enum dsf_schedule; 0 linear, 1 log warm-up */
    double lr, beta1, beta2;
    int64_t warmup, total;
    double warmup_ratio, min_ratio;
    int64_t half_cycle, second_half_cycle, decay_steps;
    double cycle_min_ratio, decay_rate;
    int64_t range_steps;
    double range_rate;
    int32_t staircase;
};

/* control: what the optimizer of this step reads. */
struct dsf_control {
    int64_t step;       /* of this update, from 1 */
    double lr;
    double correction1; /* 1 - beta1^step */
    double correction2; /* 1 - beta2^step */
    double norm;        /* of the whole gradient, before clipping */
    double scale;       /* the gradient is multiplied by this */
};

/* schedule                 { control RW }
 *   step += 1; lr and corrections of it; scale = 1; norm = 0. */

/* square                   { in R, out W }
 *   out: double[elems / block], the sum of the squares of each `block` numbers
 *   of in[at .. at+elems). A shard is whole blocks: the sums do not depend on
 *   how a unit is cut. */
struct dsf_square_args {
    int64_t elems, at, block;
};

/* sum                      { out RW, in R, ... }
 *   out: double[1] += every number of every in (doubles), left to right; from 0
 *   where out is fresh. (no arguments) */

/* clip                     { norm2 R, control RW }
 *   norm = sqrt(norm2); scale = limit > 0 ? min(1, limit / (norm + 1e-6)) : 1
 *   (deepspeed.md B4; torch.nn.utils.clip_grad_norm_). */
struct dsf_clip_args {
    double limit;
};

/* add                      { into RW, from R }
 *   into[i] += from[from_at + i]; = that where into is fresh. */
struct dsf_add_args {
    int64_t elems, from_at;
};

/* What follows moves numbers between ranks. Offsets are in elements.
 *
 * send                     { in R, out W }
 *   out = in, a copy in the memory of another rank. (no arguments)
 *
 * wait                     { data RW, after R, ... }
 *   Nothing: who reads data waits for `after` too. (no arguments)
 *
 * split                    { in R, out W, ... }       on the rank that has `in`
 *   out[i][0 .. elems[i]) = in[at[i] ..]: the pieces that others will read.
 *
 * gather                   { whole RW, in R, ... }
 *   whole[at[i] ..] = in[i][from[i] .. from[i]+elems[i]).
 *
 * reduce_scatter           { into RW, in R, ... }
 *   into[at[0] .. at[0]+elems[0]) = the sum of in[i][from[i] ..] and, where
 *   self >= 0, of what stands there, as leaf `self` among them, in a tree of
 *   pairs: leaves at strides of 1, 2, 4 … are added. */
#define DSF_MAX_PIECES (DSFLOW_MAX_PORTS - 1)
struct dsf_move_args {
    int64_t elems[DSF_MAX_PIECES], at[DSF_MAX_PIECES], from[DSF_MAX_PIECES];
    int32_t self;
};

/* adam                     { control R, grad R, param RW, m RW, v RW }
 * sgd                      { control R, grad R, param RW, m RW? }  m: momentum
 * lion                     { control R, grad R, param RW, m RW }
 *   All: g = grad * control.scale. Elements [0, decay) decay.
 *   adam: deepspeed.md B21 (decoupled: AdamW; else L2, g += wd * p).
 *   sgd: as torch.optim.SGD (L2 decay; m = momentum * m + g).
 *   lion: Chen et al. 2023, algorithm 2. */
/*   They work on numbers grad_at .. of grad and param_at .. of param, and from 0
 *   on of m and v: what a shard has of each. */
struct dsf_update_args {
    int64_t elems, decay, grad_at, param_at;
    double beta1, beta2;
    float eps, weight_decay, momentum;
    int32_t decoupled, nesterov;
};

/* report                   { control R, loss R, cursor R }
 *   Calls host->report with { control.step, loss (a sum), lr, norm, scale }. */

/* report_loss              { loss R }
 *   Evaluation: calls host->report with { loss (a sum) }. */

#include "tasks/part_args.h"

#endif
