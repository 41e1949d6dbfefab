/* args.h - the arguments of the built-in kinds of task that are no segment
 * (those are in dsflow/segments.h): plain bytes without pointers, copied into
 * the graph.
 * Offsets (…_at) are in elements within a unit; -1: none.
 */
#ifndef DSF_TASKS_ARGS_H
#define DSF_TASKS_ARGS_H

#include <stdint.h>
#include <dsflow/lr_schedule.h>
#include <dsflow/optimizer.h>
#include <dsflow/segments.h>

#include "config/choice.h"
#include "tasks/collective.h"
#include "tasks/loss_scale.h"
#include "tasks/weight_form.h"

/* load_batch               { cursor R, batch W }
 *   cursor: int64[DSF_CURSOR], [0] is the step to load; [1] is the program's
 *   own, 0 at first: sequences that come before those of step 0. Calls
 * host->load_batch for sequences seq .. seq+nseq of the step. */
enum { DSF_CURSOR = 4 };
struct dsf_load_args {
    int32_t rows, nseq, pos;
    int32_t zero; /* no padding: equal arguments have equal bytes */
    int64_t seq;
};

/* advance                  { cursor RW }                  cursor[0] += 1
 *   (no arguments) */

/* begin                    { control RW, scaler RW? }
 *   step = updates + 1; lr and corrections of it; loss_scale (without a scaler,
 *   1); scale = 1; norm = 0. */
enum { DSF_SCHEDULE_NAME = 48 };
struct dsf_begin_args {
    char schedule[DSF_SCHEDULE_NAME]; /* the name of one that is registered */
    struct dsflow_lr_keys keys;
    double beta1, beta2;
    struct dsf_loss_scale scale;
    __attribute__((aligned(16))) unsigned char part[DSFLOW_LR_SCHEDULE_PART];
};

/* finish                   { control RW }
 *   The step counts as an update, or as skipped. (no arguments) */

/* square                   { in R, out W }
 *   out: double[n], the sums of the squares of in[at .. at+elems) in n equal
 *   blocks. A shard is whole blocks: the sums do not depend on how a unit is
 *   cut. */
struct dsf_square_args {
    int64_t elems, at;
};

/* sum                      { out RW, in R, ... }
 *   out: double[1] += every number of every in (doubles), left to right; from 0
 *   where out is fresh. (no arguments) */

/* clip                     { norm2 R, loss R, control RW, scaler RW? }
 *   norm = sqrt(norm2) / (unscaled ? 1 : loss_scale); scale = (limit > 0 ?
 *   min(1, limit / (norm + 1e-6)) : 1) / loss_scale
 *   (torch.nn.utils.clip_grad_norm_); skip, where norm or loss is not finite;
 *   the loss scale of the next step. */
enum dsf_nonfinite {
    DSF_NONFINITE_KEEP, /* the updates do not wait for the norm: too late */
    DSF_NONFINITE_SKIP, /* this step */
    DSF_NONFINITE_STOP, /* this step, and, where a smaller loss scale does not
                           help, all that follow */
};
struct dsf_clip_args {
    double limit;
    int32_t nonfinite; /* enum dsf_nonfinite */
    int32_t unscaled;  /* norm2 is of momenta, which no loss scale is in */
    struct dsf_loss_scale scale; /* that of `begin` */
};

/* clip_group               { control R, grad RW, norm2 R }
 *   With norm = groups sqrt(norm2) / loss_scale, that of the gradient of a
 * group whose share of the mean is in[at .. at+elems): these numbers times
 * min(1, limit / (norm + 1e-6)), or NaNs where norm is not finite. */
struct dsf_clip_group_args {
    int64_t elems, at, groups;
    double limit;
};

/* add                      { into RW, from R, ... }
 *   As `reduce` below, of what one rank has: sums of gradients of groups. */
struct dsf_sum_args {
    int64_t elems, at, from;
    int64_t self; /* place of what `into` has among what is added */
};

/* What follows moves numbers between ranks. Offsets are in elements.
 *
 * send                     { in R, out W }
 *   out = in, a copy in the memory of another rank. (no arguments)
 *
 * wait                     { data RW, after R?, ... }
 *   Nothing: who reads data waits for `after` too, and for who wrote parts of
 *   data beside each other. (no arguments)
 *
 * copy                     { out RW, in R }                   struct dsf_range
 *   out[at .. at+elems) = in[from .. from+elems).
 *
 * gather                   { out RW, in R, ... }
 *   What several members have, in one buffer. take < 0: the pieces of all are
 *   cut in `runs` runs, of one or more pieces; every `in` is one of them, from
 *   `first` on but for `skip` and those without elements, and goes to its place
 *   in out, where `first` is at 0. Else every `in` is all that a member has; its
 *   piece `take` goes to out, one behind the other. */
struct dsf_gather_args {
    struct dsf_pieces pieces;
    int32_t take, skip; /* -1: none */
    int32_t runs, first;
};

/* add, reduce: struct dsf_sum_args
 *
 * reduce                   { into RW, in R, ... }
 *   into[at .. at+elems) = the sum of in[i][from .. from+elems), of an in[i]
 * that has just so many numbers of all of them, and, where into is not fresh,
 * of what stands there, as number `self` of them, in a tree of pairs: numbers
 * at strides of 1, 2, 4 … are added. In bf16 each sum of two is rounded, as
 * some are stored where ranks have parts of the tree. */

/* Messages between processes, of the numbers of one piece of data in the memory
 * of a rank: their `tag` is a number that both ends have for it.
 *
 * transmit                 { in R }                  struct dsf_message_args
 *   in[at .. at+elems) goes to `process`.
 *
 * receive                  { out RW }                struct dsf_receive_args
 *   For each part: out[at .. at+elems) comes from `process`.
 *
 * Where `row` is not 0, the numbers are bytes: an int64_t that says how many
 * rows there are, and room for rows of so many bytes. Those that are there go;
 * what is behind them stays as it was.
 *
 * Where the numbers are in main memory at both ends, `rank` is -1. Else it is
 * the one at the other end: they go from its GPU to this one, or the other way.
 * (No padding: equal arguments have equal bytes.) */
struct dsf_message_args {
    int64_t elems, at;
    int32_t process;
    uint32_t tag;
    int32_t rank;
    uint32_t row;
};
enum { DSF_RECEIVE_PARTS = 8 };
struct dsf_receive_args {
    uint32_t n, zero;
    struct dsf_message_args part[DSF_RECEIVE_PARTS];
};

/* Collectives (collective.h): the task of member m of n. Piece i of x: x_i.
 *
 * all_gather               { out RW, in R, ... }     out_i = in[i], for each i
 * reduce_scatter           { out RW, in R, ... }     out = sum of in[i]_m
 * all_reduce               { out RW, in R, ... }     out = sum of in[i]
 * all_to_all               { out RW, in R, ... }     out_i = in[i]_m: pieces
 *                                     of the size of piece m, from member 0 on
 * broadcast                { out RW, in R }          out = in, the owner's
 *
 * Those of one collective have one number in the graph (graph.h: collective).
 * No executor knows them: the policy `collectives` leaves copy, gather and
 * reduce in their place. */

/* swap_in                  { home R, slot W }
 * swap_out                 { slot R, home W }
 *   The numbers of a piece of data that is kept in another memory of the rank
 *   (offload), between its home and a buffer that may be larger: as many bytes
 *   as the smaller of the two has. (no arguments) */

/* cast                     { in R, out RW, control R? }
 *   out[out_at ..] = in[in_at ..], `elems` of them, in the type of out; one of
 *   the two is fp32, the other bf16, fp16, fp64 or int8_block. To the nearest,
 *   ties to even (of int8_block: kernels.h); or up or down at random, into bf16
 *   and int8_block, by a hash of `stream`, control.step and the place: the
 *   numbers are those from `at` on of their unit, a multiple of
 *   DSFLOW_BLOCK_ELEMS, and how a unit is cut at such places changes no bit.
 *   What was cast from that type gets its bits again, in a step that is skipped
 *   too. */
enum dsf_round { DSF_ROUND_NEAREST, DSF_ROUND_STOCHASTIC };
struct dsf_cast_args {
    int64_t elems, at;
    uint64_t stream;  /* of the data; 0: to the nearest */
    int32_t rounding; /* enum dsf_round */
    int32_t zero;     /* no padding: equal arguments have equal bytes */
    int64_t in_at, out_at; /* multiples of DSFLOW_BLOCK_ELEMS of int8_block */
    int64_t packed; /* elements of the int8_block numbers, behind whose scales the
                       codes are, in a buffer that may be longer; 0: as many as
                       the buffer has */
};

/* fake_quantize            { control R, in R, out RW }
 *   out[out_at ..] = in[in_at ..], numbers at .. at+elems of the unit, as
 *   `form` has them after as many updates as control says; out may be bf16 or
 *   fp16, and is rounded to the nearest. */
enum { DSF_FAKE_QUANTIZE_CHUNK = 4096 }; /* numbers at a time, whole groups */
struct dsf_fake_quantize_args {
    struct dsf_weight_form form;
    int64_t elems, at, in_at, out_at;
    int64_t behind; /* 1: it stands behind the update of the step, and counts
                       it; 0: in `prepare`, where all have been counted */
};

/* How many updates there were. */
DSF_WEIGHT_FORM_FN int64_t dsf_fake_quantize_after(
    const struct dsf_fake_quantize_args *a, const struct dsflow_control *c)
{
    return c->updates + (a->behind && !c->skip);
}

/* How long a step of a matrix is: task_muon.c. */
#define DSF_MUON_SCALES(X) X(DSF_MUON_SHAPE, "shape") X(DSF_MUON_RMS, "rms")
enum dsf_muon_scale { DSF_MUON_SCALES(DSF_CHOICE_VALUE) };

/* adam                     { control R, grad R, param RW, m RW, v RW, copy RW?
 * } sgd                      { control R, grad R, param RW, m RW?, copy RW? }
 * lion                     { control R, grad R, param RW, m RW, copy RW? }
 * adagrad                  { control R, grad R, param RW, sum RW, copy RW? }
 * muon                     { control R, grad R, param RW, m RW, v RW?, copy RW?
 * } m of sgd: momentum. copy: the new parameters in bf16 or fp16, rounded to
 * the nearest, from element copy_at on; copies says that the task has this
 * port. All: g = grad * control.scale. Elements [0, decay) decay. adam: Kingma
 * & Ba 2015, algorithm 1; decoupled decay: Loshchilov & Hutter 2019 (AdamW);
 * else L2, g += wd * p; uncorrected: m and v as they are, without the
 * corrections of control. sgd: as torch.optim.SGD (L2 decay; m = momentum * m +
 * g). lion: Chen et al. 2023, algorithm 2. adagrad: Duchi et al. 2011,
 * diagonal; L2 decay; as torch.optim.Adagrad without a decay of the rate. muon:
 * of a matrix of a layer m = mean of g, x = m or, Nesterov's, the mean of g and
 * m, made orthogonal in `steps` steps (Jordan et al. 2024), p -= lr s x with s
 * of `scale`, and decoupled decay, and it has no v. All else as adam, with
 *   decoupled decay and the rate lr adam_rate; v begins at number v_at, and is
 *   left out where that is elems.
 *
 * lamb_moments             { control R, grad R, param R, m RW, v RW, sums W }
 * lamb_ratio               { ratio W, sums R, ... }       struct dsf_ratio_args
 * lamb                     { control R, ratio R?, param RW, m R, v R, copy RW?
 * } LAMB: You et al. 2020 (arXiv 1904.00962), algorithm 2. m and v become those
 *   of adam; u = m^ / (sqrt(v^) + eps) + wd p, of m and v corrected. Of each
 *   tensor ratio = |p| / |u|, within its limits, or 1 where one of the two is
 * 0; p -= lr ratio u; without the ratios they are 1. sums:
 * double[blocks][width], for each block of the unit the sums of p^2 and u^2 of
 * the numbers that each of its tensors has there: [2 number] and [2 number +
 * 1]; 0 for the others. So they do not depend on how a unit is cut, and
 * lamb_ratio adds them block by block. ratio: double[n]. */
struct dsf_update_args {
    struct dsflow_update_args at;
    double beta1, beta2;
    float eps, weight_decay, momentum;
    int32_t decoupled, nesterov;
    int32_t copies, uncorrected;
    int32_t width; /* of lamb: a power of two */
    int64_t copy_at;
    int64_t
        m_at; /* of adam and lamb: in m, which may be whole where v is cut */
    double adam_rate;     /* of muon: the rate of AdamW / lr */
    int32_t steps, scale; /* of muon: enum dsf_muon_scale */
    int64_t v_at; /* of muon: the number of the task that v begins with */
};
struct dsf_ratio_args {
    double least, most;
    int32_t n, width; /* tensors of the unit */
};

/* report                   { control R, loss R, cursor R, scaler R? }
 *   Calls host->report with what they say; the step is that of the cursor.
 *
 * report_loss              { loss R }
 *   Evaluation: calls host->report with the loss alone. */

#include "tasks/columns_args.h"
#include "tasks/compress_args.h"
#include "tasks/head_columns_args.h"
#include "tasks/heads_args.h"
#include "tasks/onebit_args.h"
#include "tasks/onebit_lamb_args.h"
#include "tasks/rows_args.h"
#include "tasks/zeroone_args.h"

#endif
