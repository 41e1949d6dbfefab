/* safetensors_write.c - the header is known at once, and the tensors stream
 * past the sum. */
#include "base/safetensors_write.h"

#include "base/crc64.h"

#include <assert.h>
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static json_t *header_json(const struct dsf_st_tensor *tensors, unsigned n,
                           const char *const *metadata)
{
    json_t *header = json_object();
    size_t at = 0;

    if (metadata != NULL && metadata[0] != NULL) {
        json_t *meta = json_object();

        for (; metadata[0] != NULL; metadata += 2)
            json_object_set_new(meta, metadata[0], json_string(metadata[1]));
        json_object_set_new(header, "__metadata__", meta);
    }
    for (unsigned i = 0; i < n; i++) {
        json_t *shape = json_array();

        for (unsigned d = 0; d < tensors[i].ndims; d++)
            json_array_append_new(shape, json_integer(tensors[i].dims[d]));
        json_object_set_new(header, tensors[i].name,
                            json_pack("{s:s, s:o, s:[I, I]}", "dtype",
                                      dsf_st_dtype_name(tensors[i].dtype),
                                      "shape", shape, "data_offsets",
                                      (json_int_t)at,
                                      (json_int_t)(at + tensors[i].bytes)));
        at += tensors[i].bytes;
    }
    return header;
}

/* Everything written goes through here, and into the sum. */
struct dsf_st_writer {
    int fd;
    const char *path;
    bool sums; /* is it wanted? */
    uint64_t sum;
    uint64_t put; /* bytes */
    bool skipped; /* the last ones */
};

int dsf_st_put(struct dsf_st_writer *out, const void *data, size_t bytes,
               struct dsflow_err *err)
{
    const char *from = data;

    if (out->sums)
        out->sum = dsf_crc64_add(out->sum, data, bytes);
    out->put += bytes;
    out->skipped = false;
    while (bytes > 0) {
        size_t chunk = bytes < (64u << 20) ? bytes : 64u << 20;
        ssize_t n = write(out->fd, from, chunk);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (n == 0)
                errno = ENOSPC;
            return dsflow_fail(err, DSFLOW_EIO,
                               "%s: cannot be written: %m (%zu bytes left)",
                               out->path, bytes);
        }
        from += n;
        bytes -= (size_t)n;
    }
    return DSFLOW_OK;
}

int dsf_st_skip(struct dsf_st_writer *out, size_t bytes, struct dsflow_err *err)
{
    if (out->sums)
        out->sum = dsf_crc64_skip(out->sum, bytes);
    out->put += bytes;
    out->skipped = true;
    return lseek(out->fd, (off_t)bytes, SEEK_CUR) < 0
               ? dsflow_fail(err, DSFLOW_EIO, "%s: %m", out->path)
               : DSFLOW_OK;
}

/* The header as text, freed by the caller. It is followed by spaces, so that
 * the data start on 8 bytes. */
static char *header_text(const struct dsf_st_tensor *tensors, unsigned n,
                         const char *const *metadata, size_t *length,
                         size_t *padded)
{
    json_t *header = header_json(tensors, n, metadata);
    char *text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);

    json_decref(header);
    *length = strlen(text);
    *padded = (*length + 7) / 8 * 8;
    return text;
}

int64_t dsf_st_bytes(const struct dsf_st_tensor *tensors, unsigned n)
{
    size_t length, padded;
    int64_t bytes;

    free(header_text(tensors, n, NULL, &length, &padded));
    bytes = 8 + (int64_t)padded;
    for (unsigned i = 0; i < n; i++)
        bytes += (int64_t)tensors[i].bytes;
    return bytes;
}

static int put_header(struct dsf_st_writer *out,
                      const struct dsf_st_tensor *tensors, unsigned n,
                      const char *const *metadata, struct dsflow_err *err)
{
    size_t length, padded;
    char *text = header_text(tensors, n, metadata, &length, &padded);
    unsigned char raw[8];
    int status;

    for (int i = 0; i < 8; i++)
        raw[i] = (unsigned char)(padded >> 8 * i);
    status = dsf_st_put(out, raw, sizeof(raw), err);
    if (status == DSFLOW_OK)
        status = dsf_st_put(out, text, length, err);
    if (status == DSFLOW_OK)
        status = dsf_st_put(out, "        ", padded - length, err);
    free(text);
    return status;
}

int dsf_st_write(int fd, const char *path, const struct dsf_st_tensor *tensors,
                 unsigned n, const char *const *metadata, dsf_st_put_fn put,
                 void *user, uint64_t *sum, struct dsflow_err *err)
{
    struct dsf_st_writer out = { .fd = fd, .path = path, .sums = sum != NULL };
    int status = put_header(&out, tensors, n, metadata, err);

    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++) {
        out.put = 0;
        if (tensors[i].data != NULL)
            status = dsf_st_put(&out, tensors[i].data, tensors[i].bytes, err);
        else
            status = put(user, i, &out, err);
        assert(status < 0 || out.put == tensors[i].bytes);
    }
    if (status == DSFLOW_OK && out.skipped &&
        ftruncate(fd, lseek(fd, 0, SEEK_CUR)) < 0)
        status =
            dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m", path);
    if (sum != NULL)
        *sum = out.sum;
    return status;
}

int dsf_st_begin(int fd, const char *path, const struct dsf_st_tensor *tensors,
                 unsigned n, struct dsflow_err *err)
{
    struct dsf_st_writer out = { .fd = fd, .path = path };
    int status = put_header(&out, tensors, n, NULL, err);

    if (status == DSFLOW_OK && ftruncate(fd, dsf_st_bytes(tensors, n)) < 0)
        status =
            dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m", path);
    return status;
}

int dsf_st_write_some(const struct dsf_st_file *f, int fd, dsf_st_put_fn put,
                      void *user, uint64_t *sum, struct dsflow_err *err)
{
    struct dsf_st_writer out = { .fd = fd,
                                 .path = dsf_st_path(f),
                                 .sums = true };
    const unsigned n = dsf_st_count(f);
    int status = DSFLOW_OK;

    if (n > 0)
        status = dsf_st_skip(&out, (size_t)dsf_st_at(f, 0)->at, err);
    for (unsigned i = 0; i < n && status == DSFLOW_OK; i++) {
        out.put = 0;
        status = put(user, i, &out, err);
        assert(status < 0 || out.put == dsf_st_at(f, i)->bytes);
    }
    *sum = out.sum;
    return status;
}
