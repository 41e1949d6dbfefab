/* safetensors.c - everything that the header says is checked before any tensor
 * is read. */
#include "base/safetensors.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/half.h"

#include <assert.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The format's own limit on the header (huggingface/safetensors). */
#define MOST_HEADER 100000000u

/* What the format calls each type; floats first. */
static const struct {
    const char *name;
    enum dsflow_dtype dtype;
} dtypes[] = {
    { "F32", DSFLOW_FP32 },         { "F64", DSFLOW_FP64 },
    { "BF16", DSFLOW_BF16 },        { "F16", DSFLOW_FP16 },
    { "I32", DSFLOW_INT32 },        { "I64", DSFLOW_INT64 },
    { "U8", DSFLOW_UINT8 },         { "BOOL", DSFLOW_BOOLEAN },
    { "I8", DSFLOW_INT8 },          { "I16", DSFLOW_INT16 },
    { "U16", DSFLOW_UINT16 },       { "U32", DSFLOW_UINT32 },
    { "U64", DSFLOW_UINT64 },       { "F8_E4M3", DSFLOW_FP8_E4M3 },
    { "F8_E5M2", DSFLOW_FP8_E5M2 },
};
enum { NDTYPES = sizeof(dtypes) / sizeof(*dtypes) };

struct dsf_st_file {
    char *path;
    int fd;
    size_t bytes;
    struct dsf_st_tensor *tensors; /* in the order of their data */
    unsigned n;
};

void dsf_st_close(struct dsf_st_file *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    for (unsigned i = 0; i < f->n; i++)
        free(f->tensors[i].name);
    free(f->tensors);
    free(f->path);
    free(f);
}

static int open_file(struct dsf_st_file *f, struct dsflow_err *err)
{
    int64_t bytes;
    int status = dsf_file_open(f->path, &f->fd, &bytes, err);

    if (status < 0)
        return status;
    if (bytes < 8)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %lld bytes: expected a safetensors file",
                           f->path, (long long)bytes);
    f->bytes = (size_t)bytes;
    return DSFLOW_OK;
}

static int read_at(const struct dsf_st_file *f, int64_t at, void *to,
                   size_t bytes, struct dsflow_err *err)
{
    return dsf_file_read(f->fd, f->path, (int64_t)f->bytes, at, to, bytes, err);
}

static int damaged(const struct dsf_st_file *f, const char *tensor,
                   const char *what, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %.100s%s%s", f->path, tensor,
                       tensor[0] != '\0' ? ": " : "", what);
}

static int find_dtype(const json_t *name)
{
    const char *text = json_string_value(name);

    for (int i = 0; text != NULL && i < NDTYPES; i++)
        if (strcmp(text, dtypes[i].name) == 0)
            return i;
    return -1;
}

static int fail_dtype(const struct dsf_st_file *f, const char *tensor,
                      const json_t *dtype, struct dsflow_err *err)
{
    const char *name = json_string_value(dtype);
    char known[160] = "";
    size_t at = 0;

    for (int i = 0; i < NDTYPES; i++)
        at += (size_t)snprintf(known + at, sizeof(known) - at, "%s%s",
                               i == 0 ? "" : i + 1 < NDTYPES ? ", " : " or ",
                               dtypes[i].name);
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %.100s: dtype %.20s: expected %s", f->path, tensor,
                       name != NULL ? name : "is missing", known);
}

/* Shape and type of one tensor, and the bytes they make. */
static int read_shape(const struct dsf_st_file *f, struct dsf_st_tensor *t,
                      const json_t *entry, size_t *bytes,
                      struct dsflow_err *err)
{
    const json_t *shape = json_object_get(entry, "shape");
    int dtype = find_dtype(json_object_get(entry, "dtype"));

    if (dtype < 0)
        return fail_dtype(f, t->name, json_object_get(entry, "dtype"), err);
    if (!json_is_array(shape) || json_array_size(shape) > 8)
        return damaged(f, t->name, "expected a shape of up to 8 numbers", err);
    t->dtype = dtypes[dtype].dtype;
    t->ndims = (unsigned)json_array_size(shape);
    *bytes = dsflow_dtype_bytes(t->dtype, 1);
    for (unsigned d = 0; d < t->ndims; d++) {
        json_int_t n = json_integer_value(json_array_get(shape, d));

        if (!json_is_integer(json_array_get(shape, d)) || n < 0 ||
            __builtin_mul_overflow(*bytes, (size_t)n, bytes))
            return damaged(f, t->name, "a shape that no file can hold", err);
        t->dims[d] = n;
    }
    return DSFLOW_OK;
}

static int read_tensor(struct dsf_st_file *f, const char *name,
                       const json_t *entry, size_t data,
                       struct dsflow_err *err)
{
    struct dsf_st_tensor *t = &f->tensors[f->n];
    const json_t *offsets = json_object_get(entry, "data_offsets");
    json_int_t begin, end;
    size_t bytes = 0;
    int status;

    t->name = dsf_xstrdup(name);
    f->n++;
    if (!json_is_object(entry))
        return damaged(f, name, "expected an object", err);
    status = read_shape(f, t, entry, &bytes, err);
    if (status < 0)
        return status;
    if (json_array_size(offsets) != 2 ||
        !json_is_integer(json_array_get(offsets, 0)) ||
        !json_is_integer(json_array_get(offsets, 1)))
        return damaged(f, name, "expected two data_offsets", err);
    begin = json_integer_value(json_array_get(offsets, 0));
    end = json_integer_value(json_array_get(offsets, 1));
    if (begin < 0 || end < begin || (size_t)end > f->bytes - data)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.100s: bytes %lld to %lld: expected within "
                           "the %zu bytes of data (is the file truncated?)",
                           f->path, name, (long long)begin, (long long)end,
                           f->bytes - data);
    if ((size_t)(end - begin) != bytes)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.100s: %lld bytes: its shape makes %zu",
                           f->path, name, (long long)(end - begin), bytes);
    t->at = (int64_t)data + begin;
    t->bytes = bytes;
    return DSFLOW_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct dsf_st_tensor *x = a, *y = b;

    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The data of all tensors cover the rest of the file, each byte once. */
static int check_cover(struct dsf_st_file *f, size_t data,
                       struct dsflow_err *err)
{
    size_t at = data;

    qsort(f->tensors, f->n, sizeof(*f->tensors), by_place);
    for (unsigned i = 0; i < f->n; i++) {
        if ((size_t)f->tensors[i].at != at)
            return damaged(f, f->tensors[i].name,
                           "its bytes do not follow those of the tensor before "
                           "it", err);
        at += f->tensors[i].bytes;
    }
    if (at != f->bytes)
        return damaged(f, "", "bytes after the last tensor", err);
    return DSFLOW_OK;
}

static int read_header(struct dsf_st_file *f, struct dsflow_err *err)
{
    unsigned char raw[8];
    uint64_t length = 0;
    json_error_t why;
    json_t *header = NULL, *entry;
    const char *name;
    char *text;
    int status = read_at(f, 0, raw, sizeof(raw), err);

    if (status < 0)
        return status;
    for (int i = 0; i < 8; i++)
        length |= (uint64_t)raw[i] << 8 * i;
    if (length > MOST_HEADER || length > f->bytes - 8)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: a header of %llu bytes in a file of %zu (is "
                           "the file truncated?)",
                           f->path, (unsigned long long)length, f->bytes);
    text = dsf_xcalloc((size_t)length + 1, 1);
    status = read_at(f, 8, text, (size_t)length, err);
    if (status < 0)
        goto out;
    header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &why);
    if (!json_is_object(header)) {
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: header: %s", f->path,
                             header == NULL ? why.text
                                            : "expected an object");
        goto out;
    }
    f->tensors =
        dsf_xcalloc(json_object_size(header) + 1, sizeof(*f->tensors));
    json_object_foreach(header, name, entry) {
        if (strcmp(name, "__metadata__") == 0)
            continue;
        status = read_tensor(f, name, entry, 8 + (size_t)length, err);
        if (status < 0)
            goto out;
    }
    status = check_cover(f, 8 + (size_t)length, err);
out:
    json_decref(header);
    free(text);
    return status;
}

int dsf_st_open(const char *path, struct dsf_st_file **file,
                struct dsflow_err *err)
{
    struct dsf_st_file *f = dsf_xcalloc(1, sizeof(*f));
    int status;

    f->path = dsf_xstrdup(path);
    f->fd = -1;
    status = open_file(f, err);
    if (status == DSFLOW_OK)
        status = read_header(f, err);
    if (status < 0) {
        dsf_st_close(f);
        return status;
    }
    *file = f;
    return DSFLOW_OK;
}

const char *dsf_st_dtype_name(enum dsflow_dtype dtype)
{
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].dtype == dtype)
            return dtypes[i].name;
    return "?";
}

bool dsf_st_is_float(enum dsflow_dtype dtype)
{
    return dtype == DSFLOW_FP32 || dtype == DSFLOW_FP64 ||
           dtype == DSFLOW_BF16 || dtype == DSFLOW_FP16;
}

const char *dsf_st_path(const struct dsf_st_file *f)
{
    return f->path;
}

unsigned dsf_st_count(const struct dsf_st_file *f)
{
    return f->n;
}

const struct dsf_st_tensor *dsf_st_at(const struct dsf_st_file *f, unsigned i)
{
    return i < f->n ? &f->tensors[i] : NULL;
}

const struct dsf_st_tensor *dsf_st_find(const struct dsf_st_file *f,
                                        const char *name)
{
    for (unsigned i = 0; i < f->n; i++)
        if (strcmp(f->tensors[i].name, name) == 0)
            return &f->tensors[i];
    return NULL;
}

int dsf_st_read(const struct dsf_st_file *f, const struct dsf_st_tensor *t,
                size_t from, size_t bytes, void *to, struct dsflow_err *err)
{
    assert(from <= t->bytes && bytes <= t->bytes - from);
    return read_at(f, t->at + (int64_t)from, to, bytes, err);
}

static void widen(enum dsflow_dtype dtype, const char *from, size_t n,
                  float *to)
{
    for (size_t i = 0; i < n; i++) {
        uint16_t h;
        double d;

        if (dtype == DSFLOW_FP64) {
            memcpy(&d, from + 8 * i, sizeof(d));
            to[i] = (float)d;
            continue;
        }
        memcpy(&h, from + 2 * i, sizeof(h));
        to[i] = dtype == DSFLOW_BF16 ? dsf_from_bf16(h) : dsf_from_fp16(h);
    }
}

int dsf_st_read_f32(const struct dsf_st_file *f, const struct dsf_st_tensor *t,
                    size_t first, size_t n, float *to, struct dsflow_err *err)
{
    enum { CHUNK = 1 << 16 }; /* elements */
    size_t each = dsflow_dtype_bytes(t->dtype, 1);
    char *chunk;
    int status = DSFLOW_OK;

    if (t->dtype == DSFLOW_FP32)
        return dsf_st_read(f, t, first * each, n * each, to, err);
    chunk = dsf_xcalloc(CHUNK, each);
    for (size_t i = 0; i < n && status == DSFLOW_OK; i += CHUNK) {
        size_t k = n - i < CHUNK ? n - i : CHUNK;

        status = dsf_st_read(f, t, (first + i) * each, k * each, chunk, err);
        if (status == DSFLOW_OK)
            widen(t->dtype, chunk, k, to + i);
    }
    free(chunk);
    return status;
}
