/* torch_read.c - the numbers of a tensor, from where they stand. A range of
 * them, row by row, is cut into boxes; each is read along the dimension in
 * which they lie side by side. */
#include "torch/torch_private.h"

#include "base/half.h"

#include <assert.h>
#include <string.h>

enum { CHUNK = 1 << 16 }; /* bytes on the stack */

/* Where elements come from and go to. */
struct copy {
    const struct dsf_torch_file *file;
    const struct dsf_torch_tensor *t;
    size_t size; /* of an element */
    struct dsflow_err *err;
};

static int read_storage(const struct copy *c, int64_t elem, size_t n, void *to)
{
    const struct dsf_torch_storage *s = c->t->storage;

    if (s->bytes != NULL) {
        memcpy(to, (const char *)s->bytes + (size_t)elem * c->size,
               n * c->size);
        return DSFLOW_OK;
    }
    return dsf_torch_read_file(c->file, s->at + elem * (int64_t)c->size, to,
                               n * c->size, c->err);
}

/* n elements, `stride` apart, to places `step` apart. */
static int read_run(const struct copy *c, int64_t from, int64_t n,
                    int64_t stride, char *to, int64_t step)
{
    char chunk[CHUNK];
    int64_t room = CHUNK / (int64_t)c->size;

    if (stride == 1 && step == 1)
        return read_storage(c, from, (size_t)n, to);
    while (n > 0) {
        /* As many as a chunk of what lies there has; one, where they are far
         * from each other. */
        int64_t some = stride == 0 ? n : (room - 1) / stride + 1;
        int64_t span;
        int status;

        if (some > n)
            some = n;
        span = (some - 1) * stride + 1;
        status = read_storage(c, from, (size_t)span, chunk);
        if (status < 0)
            return status;
        for (int64_t i = 0; i < some; i++)
            memcpy(to + (size_t)(i * step) * c->size,
                   chunk + (size_t)(i * stride) * c->size, c->size);
        from += some * stride;
        to += (size_t)(some * step) * c->size;
        n -= some;
    }
    return DSFLOW_OK;
}

/* A box of the tensor: `counts` from element `from` of the storage on. */
static int read_box(const struct copy *c, int64_t from, const int64_t *counts,
                    char *to)
{
    const struct dsf_torch_tensor *t = c->t;
    int64_t steps[DSF_TORCH_MOST_DIMS], at[DSF_TORCH_MOST_DIMS] = { 0 };
    int64_t step = 1;
    unsigned run = 0;

    if (t->ndims == 0)
        return read_storage(c, from, 1, to);
    for (unsigned d = t->ndims; d-- > 0;) {
        steps[d] = step;
        step *= counts[d];
    }
    /* The longest of those in which elements are neighbours, else the last. */
    run = t->ndims - 1;
    for (unsigned d = t->ndims; d-- > 0;)
        if (counts[d] > 1 &&
            (counts[run] == 1 || t->strides[d] < t->strides[run]))
            run = d;
    for (;;) {
        int64_t source = from, place = 0;
        unsigned d;
        int status;

        for (d = 0; d < t->ndims; d++) {
            source += at[d] * t->strides[d];
            place += at[d] * steps[d];
        }
        status = read_run(c, source, counts[run], t->strides[run],
                          to + (size_t)place * c->size, steps[run]);
        if (status < 0)
            return status;
        for (d = t->ndims; d-- > 0;) {
            if (d == run)
                continue;
            if (++at[d] < counts[d])
                break;
            at[d] = 0;
        }
        if (d == (unsigned)-1)
            return DSFLOW_OK;
    }
}

static bool is_contiguous(const struct dsf_torch_tensor *t)
{
    int64_t stride = 1;

    for (unsigned d = t->ndims; d-- > 0;) {
        if (t->dims[d] > 1 && t->strides[d] != stride)
            return false;
        stride *= t->dims[d];
    }
    return true;
}

/* The largest box that begins with number `at`: its counts, and how many. */
static int64_t box_at(const struct dsf_torch_tensor *t, int64_t at, int64_t n,
                      int64_t *from, int64_t *counts)
{
    int64_t index[DSF_TORCH_MOST_DIMS], inner = 1;
    unsigned d = t->ndims;

    *from = t->offset;
    for (unsigned e = t->ndims; e-- > 0;) {
        index[e] = at % t->dims[e];
        at /= t->dims[e];
        *from += index[e] * t->strides[e];
        counts[e] = 1;
    }
    if (d == 0)
        return 1;
    /* Whole dimensions, from the last on; then a part of the next one. */
    while (d > 1 && index[d - 1] == 0 && inner * t->dims[d - 1] <= n) {
        d--;
        counts[d] = t->dims[d];
        inner *= t->dims[d];
    }
    d--;
    counts[d] = t->dims[d] - index[d];
    if (counts[d] > n / inner)
        counts[d] = n / inner;
    return counts[d] * inner;
}

int dsf_torch_read(const struct dsf_torch_file *file,
                   const struct dsf_torch_tensor *t, int64_t at, int64_t n,
                   void *to, struct dsflow_err *err)
{
    struct copy c = { file, t, dsflow_dtype_bytes(t->dtype, 1), err };
    int64_t counts[DSF_TORCH_MOST_DIMS], from;
    char *into = to;

    assert(at >= 0 && n >= 0 && n <= t->elems && at <= t->elems - n);
    if (t->storage->entry != NULL) {
        int status = dsf_torch_zip_check(file, t->storage->entry, err);

        if (status < 0)
            return status;
    }
    if (is_contiguous(t))
        return read_storage(&c, t->offset + at, (size_t)n, to);
    while (n > 0) {
        int64_t some = box_at(t, at, n, &from, counts);
        int status = read_box(&c, from, counts, into);

        if (status < 0)
            return status;
        at += some;
        n -= some;
        into += (size_t)some * c.size;
    }
    return DSFLOW_OK;
}

/* --- as fp32 --- */

static float from_fp8(unsigned char x, int fraction_bits, int bias, bool finite)
{
    int fraction = x & ((1 << fraction_bits) - 1);
    int exponent = (x & 0x7f) >> fraction_bits;
    float sign = x & 0x80 ? -1.0f : 1.0f, scale = 1;

    /* Of E4M3 "fn" there is no infinity, and one NaN (arXiv:2209.05433). */
    if (finite ? (x & 0x7f) == 0x7f : exponent == 0x1f)
        return dsf_float_of(
            (uint32_t)(x & 0x80) << 24 |
            (!finite && fraction == 0 ? 0x7f800000 : 0x7fc00000));
    for (int e = (exponent > 0 ? exponent : 1) - bias - fraction_bits; e < 0;
         e++)
        scale /= 2;
    for (int e = (exponent > 0 ? exponent : 1) - bias - fraction_bits; e > 0;
         e--)
        scale *= 2;
    return sign * scale *
           (float)(fraction + (exponent > 0 ? 1 << fraction_bits : 0));
}

#define NUMBERS(type)                                                          \
    for (int64_t i = 0; i < n; i++) {                                          \
        type x;                                                                \
                                                                               \
        memcpy(&x, from + (size_t)i * sizeof(x), sizeof(x));                   \
        to[i] = (float)x;                                                      \
    }                                                                          \
    break

static void widen(enum dsflow_dtype dtype, const char *from, int64_t n,
                  float *to)
{
    uint16_t h;

    switch (dtype) {
    case DSFLOW_FP32:
        memcpy(to, from, (size_t)n * sizeof(*to));
        break;
    case DSFLOW_BF16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&h, from + 2 * i, 2);
            to[i] = dsf_from_bf16(h);
        }
        break;
    case DSFLOW_FP16:
        for (int64_t i = 0; i < n; i++) {
            memcpy(&h, from + 2 * i, 2);
            to[i] = dsf_from_fp16(h);
        }
        break;
    case DSFLOW_FP8_E4M3:
        for (int64_t i = 0; i < n; i++)
            to[i] = from_fp8((unsigned char)from[i], 3, 7, true);
        break;
    case DSFLOW_FP8_E5M2:
        for (int64_t i = 0; i < n; i++)
            to[i] = from_fp8((unsigned char)from[i], 2, 15, false);
        break;
    case DSFLOW_FP64:
        NUMBERS(double);
    case DSFLOW_INT8:
        NUMBERS(int8_t);
    case DSFLOW_INT16:
        NUMBERS(int16_t);
    case DSFLOW_INT32:
        NUMBERS(int32_t);
    case DSFLOW_INT64:
        NUMBERS(int64_t);
    case DSFLOW_UINT16:
        NUMBERS(uint16_t);
    case DSFLOW_UINT32:
        NUMBERS(uint32_t);
    case DSFLOW_UINT64:
        NUMBERS(uint64_t);
    default: /* uint8, boolean */
        NUMBERS(uint8_t);
    }
}

int dsf_torch_read_f32(const struct dsf_torch_file *file,
                       const struct dsf_torch_tensor *t, int64_t at, int64_t n,
                       float *to, struct dsflow_err *err)
{
    size_t size = dsflow_dtype_bytes(t->dtype, 1);
    _Alignas(8) char chunk[CHUNK];

    if (t->dtype == DSFLOW_FP32)
        return dsf_torch_read(file, t, at, n, to, err);
    while (n > 0) {
        int64_t some = CHUNK / (int64_t)size;
        int status;

        if (some > n)
            some = n;
        status = dsf_torch_read(file, t, at, some, chunk, err);
        if (status < 0)
            return status;
        widen(t->dtype, chunk, some, to);
        at += some;
        n -= some;
        to += some;
    }
    return DSFLOW_OK;
}

int dsf_torch_read_bytes(const struct dsf_torch_file *file,
                         const struct dsf_torch_node *node, uint32_t from,
                         uint32_t n, void *to, struct dsflow_err *err)
{
    assert(node->kind == DSF_TORCH_BYTES && from <= node->n &&
           n <= node->n - from);
    if (node->bytes.here != NULL) {
        memcpy(to, (const char *)node->bytes.here + from, n);
        return DSFLOW_OK;
    }
    return dsf_torch_read_file(file, node->bytes.at + from, to, n, err);
}
