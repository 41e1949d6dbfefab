/* safetensors_write.h - writing files of safetensors.h: tensors whole or piece
 * by piece, by one process or several. */
#ifndef DSF_BASE_SAFETENSORS_WRITE_H
#define DSF_BASE_SAFETENSORS_WRITE_H

#include "base/safetensors.h"

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
int64_t dsf_st_bytes(const struct dsf_st_tensor *tensors, unsigned n);

#endif
