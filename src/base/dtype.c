/* dtype.c - types of elements, and the bytes they take. */
#include <dsflow/dtype.h>

/* Bytes of one element, without what a block adds. */
static const struct {
    const char *name;
    size_t bytes;
} dtypes[DSFLOW_NDTYPES] = {
    [DSFLOW_BYTES] = { "bytes", 1 },
    [DSFLOW_FP32] = { "fp32", 4 },
    [DSFLOW_BF16] = { "bf16", 2 },
    [DSFLOW_FP16] = { "fp16", 2 },
    [DSFLOW_FP64] = { "fp64", 8 },
    [DSFLOW_INT8] = { "int8", 1 },
    [DSFLOW_INT32] = { "int32", 4 },
    [DSFLOW_INT64] = { "int64", 8 },
    [DSFLOW_INT8_BLOCK] = { "int8_block", 1 },
    [DSFLOW_INT16] = { "int16", 2 },
    [DSFLOW_UINT8] = { "uint8", 1 },
    [DSFLOW_UINT16] = { "uint16", 2 },
    [DSFLOW_UINT32] = { "uint32", 4 },
    [DSFLOW_UINT64] = { "uint64", 8 },
    [DSFLOW_BOOLEAN] = { "bool", 1 },
    [DSFLOW_FP8_E4M3] = { "fp8_e4m3", 1 },
    [DSFLOW_FP8_E5M2] = { "fp8_e5m2", 1 },
};

const char *dsflow_dtype_str(enum dsflow_dtype dtype)
{
    return (unsigned)dtype < DSFLOW_NDTYPES ? dtypes[dtype].name : "?";
}

size_t dsflow_dtype_bytes(enum dsflow_dtype dtype, int64_t elems)
{
    const size_t block = DSFLOW_BLOCK_ELEMS, scale = 2;
    size_t n = (size_t)elems;

    if ((unsigned)dtype >= DSFLOW_NDTYPES || elems <= 0)
        return 0;
    return n * dtypes[dtype].bytes +
           (dtype == DSFLOW_INT8_BLOCK ? (n + block - 1) / block * scale : 0);
}

struct dsflow_shape dsflow_shape_of(enum dsflow_dtype dtype, int64_t elems)
{
    return (struct dsflow_shape){ dsflow_dtype_bytes(dtype, elems), elems,
                                  dtype };
}
