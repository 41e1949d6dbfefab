/* safetensors.h - the file format: 8 bytes little-endian length, a JSON header,
 * then the tensors (huggingface/safetensors, README "Format"). Reading trusts
 * nothing in the file, and takes no more of it into memory than it is asked
 * for; writing takes tensors whole or piece by piece. */
#ifndef DSF_BASE_SAFETENSORS_H
#define DSF_BASE_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

struct dsf_st_tensor {
    char *name;
    enum dsflow_dtype dtype; /* one that files have: not bytes or int8_block */
    unsigned ndims;
    int64_t dims[8];
    const void *data; /* to be written; NULL: it comes in pieces */
    int64_t at;       /* of a file that is read: its first byte */
    size_t bytes;
};

struct dsf_st_file; /* opaque */

/* Errors: DSFLOW_EINVAL when it is damaged, with the file, the tensor and what
 * was expected; DSFLOW_EIO when it cannot be read. */
int dsf_st_open(const char *path, struct dsf_st_file **file,
                struct dsflow_err *err);
void dsf_st_close(struct dsf_st_file *file);
const char *dsf_st_dtype_name(enum dsflow_dtype dtype); /* "BF16" */
const char *dsf_st_path(const struct dsf_st_file *file);
unsigned dsf_st_count(const struct dsf_st_file *file);
const struct dsf_st_tensor *dsf_st_at(const struct dsf_st_file *file,
                                      unsigned i);
const struct dsf_st_tensor *dsf_st_find(const struct dsf_st_file *file,
                                        const char *name); /* or NULL */

/* `bytes` bytes from byte `from` of a tensor on. Errors: DSFLOW_EIO, also where
 * the file has become shorter. */
int dsf_st_read(const struct dsf_st_file *file, const struct dsf_st_tensor *t,
                size_t from, size_t bytes, void *to, struct dsflow_err *err);

/* Can dsf_st_read_f32 read it? */
bool dsf_st_is_float(enum dsflow_dtype dtype);

/* Elements [first, first + n) as fp32, whatever the float type. */
int dsf_st_read_f32(const struct dsf_st_file *file,
                    const struct dsf_st_tensor *t, size_t first, size_t n,
                    float *to, struct dsflow_err *err);

struct dsf_st_writer; /* opaque */

/* Hand all bytes of tensor `i` to dsf_st_put, in order. */
typedef int (*dsf_st_put_fn)(void *user, unsigned i, struct dsf_st_writer *out,
                             struct dsflow_err *err);
int dsf_st_put(struct dsf_st_writer *out, const void *data, size_t bytes,
               struct dsflow_err *err);

/* The next bytes are another process's: they stay as they are. In a new file
 * they are zeroes, which take no room on the disk. */
int dsf_st_skip(struct dsf_st_writer *out, size_t bytes,
                struct dsflow_err *err);

/* Write a file: names, types and shapes are given at once, in the order they
 * are stored; `put` gives those that have no data here (NULL: all have). Writes
 * to `fd`, which the caller syncs and closes; `metadata` is pairs of strings
 * ending with NULL, or NULL. If `sum` is not NULL it gets that of base/crc64.h
 * of all bytes written. */
int dsf_st_write(int fd, const char *path, const struct dsf_st_tensor *tensors,
                 unsigned n, const char *const *metadata, dsf_st_put_fn put,
                 void *user, uint64_t *sum, struct dsflow_err *err);

/* A file that several write: one of them begins it, with its header and its
 * size; then it writes as above, and each of the others its bytes of the
 * tensors of `file`, which is that one, to `fd`: `put` puts or skips all of
 * each. */
int dsf_st_begin(int fd, const char *path, const struct dsf_st_tensor *tensors,
                 unsigned n, struct dsflow_err *err);
int dsf_st_write_some(const struct dsf_st_file *file, int fd, dsf_st_put_fn put,
                      void *user, uint64_t *sum, struct dsflow_err *err);

/* The bytes of that file. */
int64_t dsf_st_bytes(const struct dsf_st_tensor *tensors, unsigned n,
                     const char *const *metadata);

#endif
