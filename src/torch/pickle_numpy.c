/* pickle_numpy.c - numpy's numbers and arrays in a pickle (numpy/core/src/
 * multiarray/methods.c, array_reduce and array_setstate). An array of numbers
 * is a tensor whose storage is the bytes in the pickle. */
#include "torch/pickle_call.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    enum dsflow_dtype dtype;
} dtypes[] = {
    { "f4", DSFLOW_FP32 },   { "f8", DSFLOW_FP64 },   { "f2", DSFLOW_FP16 },
    { "i1", DSFLOW_INT8 },   { "i2", DSFLOW_INT16 },  { "i4", DSFLOW_INT32 },
    { "i8", DSFLOW_INT64 },  { "u1", DSFLOW_UINT8 },  { "u2", DSFLOW_UINT16 },
    { "u4", DSFLOW_UINT32 }, { "u8", DSFLOW_UINT64 }, { "b1", DSFLOW_BOOLEAN },
};

/* numpy.dtype("f8", False, True), whose state is (3, "<", …). DSFLOW_BYTES: a
 * type of other things, or of numbers of the other byte order. */
static enum dsflow_dtype dtype_of(const struct dsf_torch_node *node)
{
    const struct dsf_torch_node *args, *state;

    if (node->kind != DSF_TORCH_OBJECT ||
        strcmp(node->object.name, "numpy.dtype") != 0)
        return DSFLOW_BYTES;
    args = node->object.args;
    state = node->state;
    if (args == NULL || args->n == 0 || args->items[0]->kind != DSF_TORCH_STR)
        return DSFLOW_BYTES;
    if (state != NULL && state->kind == DSF_TORCH_TUPLE && state->n > 1 &&
        state->items[1]->kind == DSF_TORCH_STR &&
        state->items[1]->str[0] == '>')
        return DSFLOW_BYTES;
    for (size_t i = 0; i < sizeof(dtypes) / sizeof(*dtypes); i++)
        if (strcmp(args->items[0]->str, dtypes[i].name) == 0)
            return dtypes[i].dtype;
    return DSFLOW_BYTES;
}

static struct dsf_torch_node *number(struct dsf_torch_file *f,
                                     enum dsflow_dtype dtype, uint64_t bits)
{
    struct dsf_torch_storage storage = { .dtype = dtype,
                                         .elems = 1,
                                         .bytes = &bits };
    struct dsf_torch_tensor t = { .storage = &storage,
                                  .dtype = dtype,
                                  .elems = 1 };
    struct dsf_torch_node *node;

    if (dtype == DSFLOW_FP64 || dtype == DSFLOW_FP32 || dtype == DSFLOW_FP16) {
        float x;

        node = dsf_torch_leaf(f, DSF_TORCH_FLOAT);
        if (dtype == DSFLOW_FP64)
            memcpy(&node->real, &bits, sizeof(bits));
        else if (dsf_torch_read_f32(f, &t, 0, 1, &x, NULL) == DSFLOW_OK)
            node->real = x;
        return node;
    }
    if (dtype == DSFLOW_BOOLEAN) {
        node = dsf_torch_leaf(f, DSF_TORCH_BOOL);
        node->truth = bits != 0;
        return node;
    }
    if (dtype == DSFLOW_INT8)
        bits = (uint64_t)(int64_t)(int8_t)bits;
    if (dtype == DSFLOW_INT16)
        bits = (uint64_t)(int64_t)(int16_t)bits;
    if (dtype == DSFLOW_INT32)
        bits = (uint64_t)(int64_t)(int32_t)bits;
    if (dtype == DSFLOW_UINT64 && bits > INT64_MAX)
        return NULL;
    return dsf_torch_number(f, (int64_t)bits);
}

/* scalar(dtype, bytes); NULL: it is no number that is known. */
static struct dsf_torch_node *scalar(struct dsf_torch_file *f,
                                     const struct dsf_torch_node *args,
                                     struct dsflow_err *err)
{
    enum dsflow_dtype dtype;
    struct dsf_torch_node *made;
    uint64_t bits = 0;

    if (args->n != 2 || args->items[1]->kind != DSF_TORCH_BYTES)
        return NULL;
    dtype = dtype_of(args->items[0]);
    if (dtype == DSFLOW_BYTES ||
        args->items[1]->n != dsflow_dtype_bytes(dtype, 1) ||
        dsf_torch_read_bytes(f, args->items[1], 0, args->items[1]->n, &bits,
                             err) < 0)
        return NULL;
    made = number(f, dtype, le64toh(bits));
    if (made != NULL)
        made->of = "numpy.generic";
    return made;
}

static void reverse_strides(struct dsf_torch_tensor *t)
{
    int64_t stride = 1;

    for (unsigned d = 0; d < t->ndims; d++) {
        t->strides[d] = stride;
        stride *= t->dims[d];
    }
}

/* The state of an array: (version, sizes, dtype, is Fortran's order, bytes).
 * What is no array of numbers stays an object. */
int dsf_torch_numpy_array(struct dsf_torch_file *f, struct dsf_torch_node *node,
                          const struct dsf_torch_node *state,
                          struct dsflow_err *err)
{
    struct dsf_torch_tensor t = { .dtype = DSFLOW_BYTES };
    struct dsf_torch_storage storage = { .key = "" };
    const struct dsf_torch_node *bytes;
    struct dsflow_err why = { .msg = "" };

    if (state->kind == DSF_TORCH_TUPLE && state->n == 5)
        t.dtype = dtype_of(state->items[2]);
    if (t.dtype == DSFLOW_BYTES || state->items[4]->kind != DSF_TORCH_BYTES) {
        node->state = state;
        return DSFLOW_OK;
    }
    bytes = state->items[4];
    storage.dtype = t.dtype;
    storage.elems = (int64_t)(bytes->n / dsflow_dtype_bytes(t.dtype, 1));
    storage.at = bytes->bytes.at;
    storage.bytes = bytes->bytes.here;
    t.storage = &storage;
    if (dsf_torch_shape(&t, state->items[1], NULL, &why) < 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "numpy.ndarray: %s", why.msg);
    if (t.elems != storage.elems)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "numpy.ndarray: %lld numbers in %u bytes",
                           (long long)t.elems, bytes->n);
    if (state->items[3]->kind == DSF_TORCH_BOOL && state->items[3]->truth)
        reverse_strides(&t);
    t.storage = dsf_blocks_copy(&f->mem, &storage, sizeof(storage), 8);
    node->kind = DSF_TORCH_TENSOR;
    node->n = 0;
    node->of = "numpy.ndarray";
    node->tensor = dsf_blocks_copy(&f->mem, &t, sizeof(t), 8);
    return DSFLOW_OK;
}

struct dsf_torch_node *dsf_torch_make_scalar(const struct dsf_torch_call *c)
{
    struct dsf_torch_node *made = scalar(c->file, c->args, c->err);

    return made != NULL ? made : dsf_torch_object(c);
}

/* (bytes, type, sizes, "C"), of protocol 5 */
struct dsf_torch_node *
dsf_torch_make_from_buffer(const struct dsf_torch_call *c)
{
    struct dsf_torch_node *object = dsf_torch_object(c);

    /* In the order of the state of an array. */
    if (c->args->n == 4 && is_kind(arg(c, 3), DSF_TORCH_STR)) {
        bool fortran = strcmp(arg(c, 3)->str, "F") == 0;
        struct dsf_torch_node order = { .kind = DSF_TORCH_BOOL,
                                        .truth = fortran };
        struct dsf_torch_node *items[] = { NULL, arg(c, 2), arg(c, 1), &order,
                                           arg(c, 0) };
        struct dsf_torch_node state = { .kind = DSF_TORCH_TUPLE,
                                        .n = 5,
                                        .items = items };

        if (dsf_torch_numpy_array(c->file, object, &state, c->err) < 0)
            return NULL;
    }
    return object;
}
