/* safetensors.h - the file format: 8 bytes little-endian length, a JSON header,
 * then the tensors (huggingface/safetensors, README "Format"). Reading maps the
 * file and trusts nothing in it. */
#ifndef DSF_BASE_SAFETENSORS_H
#define DSF_BASE_SAFETENSORS_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/error.h>

enum dsf_dtype { DSF_F32, DSF_F64, DSF_BF16, DSF_F16, DSF_I32, DSF_I64, DSF_U8 };

struct dsf_st_tensor {
    char *name;
    enum dsf_dtype dtype;
    unsigned ndims;
    int64_t dims[8];
    const void *data; /* mapped, read-only; may be unaligned */
    size_t bytes;
};

struct dsf_st_file; /* opaque */

/* Errors: DSFLOW_EINVAL when it is damaged, with the file, the tensor and what
 * was expected; DSFLOW_EIO when it cannot be read. */
int dsf_st_open(const char *path, struct dsf_st_file **file,
                struct dsflow_err *err);
void dsf_st_close(struct dsf_st_file *file);
unsigned dsf_st_count(const struct dsf_st_file *file);
const struct dsf_st_tensor *dsf_st_at(const struct dsf_st_file *file,
                                      unsigned i);
const struct dsf_st_tensor *dsf_st_find(const struct dsf_st_file *file,
                                        const char *name); /* or NULL */

/* Elements [first, first + n) as fp32, whatever the float type. */
void dsf_st_read_f32(const struct dsf_st_tensor *t, size_t first, size_t n,
                     float *out);

/* Write a file: names, types, shapes and pointers are given at once, in the
 * order they are stored. Writes to `fd`, which the caller syncs and closes;
 * `metadata` is pairs of strings ending with NULL, or NULL. If `hash` is not
 * NULL it gets the XXH3 64-bit hash of all bytes written. */
int dsf_st_write(int fd, const char *path, const struct dsf_st_tensor *tensors,
                 unsigned n, const char *const *metadata, uint64_t *hash,
                 struct dsflow_err *err);

#endif
