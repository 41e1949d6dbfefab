/* dtype.h - what the elements of data are: their type, and how many there are.
 */
#ifndef DSFLOW_DTYPE_H
#define DSFLOW_DTYPE_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/export.h>

DSFLOW_BEGIN_DECLS

enum dsflow_dtype {
    DSFLOW_BYTES, /* a structure, or whatever its tasks make of it */
    DSFLOW_FP32,
    DSFLOW_BF16, /* the upper half of an fp32 */
    DSFLOW_FP16, /* IEEE 754 half precision */
    DSFLOW_FP64,
    DSFLOW_INT8,
    DSFLOW_INT32,
    DSFLOW_INT64,
    /* Packed: blocks of numbers, a byte each, with a scale of two bytes for
     * each block; the scales come first. */
    DSFLOW_INT8_BLOCK,
    /* In files of others; no kernel knows them. */
    DSFLOW_INT16,
    DSFLOW_UINT8,
    DSFLOW_UINT16,
    DSFLOW_UINT32,
    DSFLOW_UINT64,
    DSFLOW_BOOLEAN, /* a byte */
    DSFLOW_FP8_E4M3,
    DSFLOW_FP8_E5M2,
    DSFLOW_NDTYPES
};

/* Elements that share a scale; a packed buffer is only cut between blocks. */
#define DSFLOW_BLOCK_ELEMS 256

/* "fp32"; "?" for no type. */
DSFLOW_API const char *dsflow_dtype_str(enum dsflow_dtype dtype);

/* The bytes of `elems` elements; 0 where there are none. */
DSFLOW_API size_t dsflow_dtype_bytes(enum dsflow_dtype dtype, int64_t elems);

/* A piece of data as the functions of an op see it. `bytes` is
 * dsflow_dtype_bytes of the rest. */
struct dsflow_shape {
    size_t bytes;
    int64_t elems;
    enum dsflow_dtype dtype;
};
DSFLOW_API struct dsflow_shape dsflow_shape_of(enum dsflow_dtype dtype,
                                               int64_t elems);

DSFLOW_END_DECLS

#endif
