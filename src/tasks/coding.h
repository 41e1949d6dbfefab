/* coding.h - numbers of a unit in a format for the wire: which of them, and how
 * many bytes they are. */
#ifndef DSF_TASKS_CODING_H
#define DSF_TASKS_CODING_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/error.h>
#include <dsflow/wire_format.h>

/* What a key says that names no format. */
#define DSF_NO_FORMAT "none"

/* Numbers of a unit, from `at` on: of its tensor `number`, of which a part of
 * the unit may have several pieces. */
struct dsf_coded_tensor {
    int64_t at, elems, number;
};
enum { DSF_CODED_TENSORS = 12 };

/* Blocks begin at multiples of `block` of the unit's own numbering, and what is
 * cut is cut there, so that shards, pieces and ranks change no bit. Numbers
 * from `coded` on, the vectors behind the matrices, stay as they are, in fp32.
 *
 * With a format of one scale for a tensor (wire_format.h: encode_by) the
 * matrices are told apart: blocks that are not wholly of one of them stay as
 * they are, too, among them padding, which is to stay zeroes.
 * Part of arguments: no pointers, no padding. */
struct dsf_coding {
    char format[DSFLOW_WIRE_FORMAT_NAME]; /* one that is registered */
    int64_t block;
    int64_t coded; /* a multiple of block */
    int64_t ntensors; /* 0: each block has its own scale */
    struct dsf_coded_tensor tensors[DSF_CODED_TENSORS]; /* whole blocks */
};

bool dsf_coding_is_block(int64_t block);

/* For a unit, or a part of one, that may be cut at multiples of `cut` numbers,
 * and whose first `matrices` numbers are matrices: its blocks divide `cut`. */
void dsf_coding_fit(struct dsf_coding *c, int64_t cut, int64_t matrices);

/* It has a scale for each of these matrices of the unit, in order. */
void dsf_coding_by_tensor(struct dsf_coding *c, unsigned n,
                          const struct dsf_coded_tensor *matrices);

/* The scales of the tensors, of all numbers of a unit. */
struct dsf_scales {
    float of[DSF_CODED_TENSORS];
};
struct dsf_scales dsf_coding_scales(const struct dsf_coding *c,
                                    const float *unit);

/* The bytes of numbers at .. at+elems of the unit. */
int64_t dsf_coding_bytes(const struct dsf_coding *c, int64_t at, int64_t elems);

/* They, and back; both are whole blocks. `scales`: of tensors; NULL: each block
 * gets its own. */
void dsf_coding_encode(const struct dsf_coding *c,
                       const struct dsf_scales *scales, int64_t at,
                       int64_t elems, const float *in, uint8_t *out);
/* The same of the first numbers of a unit, by the scales of its tensors, which
 * are among them. */
void dsf_coding_encode_whole(const struct dsf_coding *c, int64_t elems,
                             const float *unit, uint8_t *out);
void dsf_coding_decode(const struct dsf_coding *c, int64_t at, int64_t elems,
                       const uint8_t *in, float *out);

/* Is there such a format, and do the numbers at .. at+elems begin and end with
 * blocks? */
int dsf_coding_check(const struct dsf_coding *c, const char *op, int64_t at,
                     int64_t elems, struct dsflow_err *err);

/* Are all tensors that have a scale among these numbers? Whoever encodes has to
 * have them whole. */
int dsf_coding_check_whole(const struct dsf_coding *c, const char *op,
                           int64_t at, int64_t elems, struct dsflow_err *err);

#endif
