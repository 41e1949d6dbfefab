/* safetensors.h - the file format: 8 bytes little-endian length, a JSON header,
 * then the tensors (huggingface/safetensors, README "Format"). Reading trusts
 * nothing in the file, and takes no more of it into memory than it is asked
 * for. For writing: safetensors_write.h. */
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

#endif
