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

/* Blocks begin at multiples of `block` of the unit's own numbering, and what is
 * cut is cut there, so that shards, pieces and ranks change no bit. Numbers
 * from `coded` on, the vectors behind the matrices, stay as they are, in fp32.
 * Part of arguments: no pointers, no padding. */
struct dsf_coding {
    char format[DSFLOW_WIRE_FORMAT_NAME]; /* one that is registered */
    int64_t block;
    int64_t coded; /* a multiple of block */
};

bool dsf_coding_is_block(int64_t block);

/* For a unit, or a part of one, that may be cut at multiples of `cut` numbers,
 * and whose first `matrices` numbers are matrices: its blocks divide `cut`. */
void dsf_coding_fit(struct dsf_coding *c, int64_t cut, int64_t matrices);

/* The bytes of numbers at .. at+elems of the unit. */
int64_t dsf_coding_bytes(const struct dsf_coding *c, int64_t at, int64_t elems);

/* They, and back; both are whole blocks. */
void dsf_coding_encode(const struct dsf_coding *c, int64_t at, int64_t elems,
                       const float *in, uint8_t *out);
void dsf_coding_decode(const struct dsf_coding *c, int64_t at, int64_t elems,
                       const uint8_t *in, float *out);

/* Is there such a format, and do the numbers at .. at+elems begin and end with
 * blocks? */
int dsf_coding_check(const struct dsf_coding *c, const char *op, int64_t at,
                     int64_t elems, struct dsflow_err *err);

#endif
