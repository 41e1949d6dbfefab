/* compress_args.h - the arguments of the kinds of task for numbers of a unit
 * that ranks send each other in a format for the wire (coding.h). Packed data
 * is bytes. Offsets are in numbers.
 *
 * What a job compresses is said by two kinds, wherever ranks are:
 *
 * recode                   { in R, out RW }           struct dsf_recode_args
 *   out[out_at ..] = in[in_at ..], as they are when they have been coded and
 *   decoded; out may be bf16 or fp16, and is rounded to the nearest.
 *
 * add_recoded              { into RW, from R?, ... }  struct
 * dsf_add_recoded_args As `add` (args.h), of numbers that each have been coded
 * and decoded, `into` among them; also of that alone.
 *
 *   With inner, it is the sum of a node, which feed_back gets its error, and
 *   which is added to those of other nodes by one more task.
 *
 * feed_back                { control R, grad RW, error RW }
 *                                                    struct dsf_feed_back_args
 *   With x = grad + S error, S being the loss scale: grad = x, and error = beta
 *   error + (1 - beta) (x - x as it is when it has been sent) / S, or as it was
 *   where that is not finite. In steps 1, 1 + reset, 1 + 2 reset, … error
 *   counts as 0. It may be int8_block. Of numbers that are not coded, both
 * stay.
 *
 * Where several ranks have the numbers, the policy `zero` makes of these:
 *
 * compress                 { in R, out RW }           struct dsf_compress_args
 *   in[from .. from+elems), coded, in their place in out, which begins with
 *   number out_at of the unit.
 *
 * add_compressed           { into RW, in R, ... }     struct
 * dsf_compressed_args into[into_at ..] = the sum of numbers at .. at+elems of
 * the unit, which each `in` has, coded: those from in_at on, or just these.
 * What stands in `into` does not count. In the tree of pairs.
 *
 * decompress               { out RW, in R, ... }
 *   The pieces of all members are cut in `runs` runs, of one or more pieces
 *   (struct dsf_decompress_args). Each `in` is one of them, coded, from `first`
 *   on: those that are not empty, in order. out = the unit; it may be bf16 or
 *   fp16. With `guarded` the control of the step is in front of them: in a step
 *   that is skipped, `out` stays what it is.
 *
 * gather_coded             { out RW, in R, ... }
 *   The same arguments, of some of the runs: out is what each `in` has, as it
 *   is, one behind the other. */
#ifndef DSF_TASKS_COMPRESS_ARGS_H
#define DSF_TASKS_COMPRESS_ARGS_H

#include "tasks/coding.h"
#include "tasks/collective.h"

/* In all of them, number `at` of the unit is the first. */
struct dsf_recode_args {
    struct dsf_coding coding;
    int64_t elems, at, in_at, out_at;
};

struct dsf_add_recoded_args {
    struct dsf_coding coding;
    int64_t elems, at, into_at, from_at;
    int64_t self; /* place of `into` among what is added */
    int64_t
        node; /* so many of them that follow each other are added first, and
                 their sum is coded and decoded again; 0: there is one level */
    int64_t shards; /* 1: what follows is done on shards of data ranks */
    int64_t inner;  /* 1: it is the sum of a node, which is sent to others */
};

struct dsf_feed_back_args {
    struct dsf_coding coding;
    int64_t elems, at, grad_at, error_at;
    int64_t reset; /* steps; 0: never */
    double beta;
};

struct dsf_compress_args {
    struct dsf_coding coding;
    int64_t elems, at, from, out_at;
    int64_t by_block; /* 1: of tensors, too, each block has its own scale */
};

struct dsf_compressed_args {
    struct dsf_coding coding;
    int64_t elems, at, into_at;
    int64_t in_at; /* the first number of each `in`, where that has more */
};

struct dsf_decompress_args {
    struct dsf_coding coding;
    struct dsf_pieces pieces;
    int32_t runs, first;
    int32_t type; /* that the numbers have where they are not coded */
    int32_t guarded;
};

/* The gradient of an embedding goes as its rows that are not all zeroes, in
 * fp32; packed, they are how many there are, and room for `most` rows with the
 * number of each (codelets/touched.c).
 *
 * pack_rows                { in R, out RW }           struct dsf_rows_args
 *   The rows of in[at .. at+elems).
 *
 * add_rows                 { into RW, in R, ... }     struct dsf_rows_args
 *   into[into_at ..] = the sum of numbers at .. at+elems of the unit, of which
 *   each `in` has rows: others are zeroes. What stands in `into` does not
 * count. In the tree of pairs. */
struct dsf_rows_args {
    int64_t width, most; /* numbers of a row, rows of an `in` at most */
    int64_t elems, at, into_at;
    int64_t dense; /* what each `in` would be, sent whole: numbers */
};

int64_t dsf_row_bytes(const struct dsf_rows_args *a); /* of one */
int64_t dsf_rows_bytes(const struct dsf_rows_args *a);

/* So many numbers are fed back at a time: whole blocks, of the format and of
 * packed errors. */
int64_t dsf_feed_back_step(const struct dsf_feed_back_args *a);

/* What add_compressed reads of an `in` of so many bytes: the bytes from .from
 * on. */
struct dsf_range dsf_compressed_move(const struct dsf_compressed_args *a,
                                     int64_t bytes);

/* Levels of the tree of pairs of so many terms. */
unsigned dsf_tree_levels(unsigned terms);

/* The numbers that are on port `port` of decompress or gather_coded: of the
 * unit. And the bytes that gather_coded takes of it, and where they go. */
struct dsf_range dsf_decompress_move(const struct dsf_decompress_args *a,
                                     unsigned port);
struct dsf_range dsf_gather_coded_move(const struct dsf_decompress_args *a,
                                       unsigned port);

#endif
