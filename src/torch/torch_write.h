/* torch_write.h - files that torch.load reads: a pickle of dicts, lists,
 * numbers, texts and tensors, and the numbers of those, in an archive.
 *
 * The tree is said in order, from the outside in, and then written:
 *
 *     dsf_torch_put_dict(t);
 *     dsf_torch_put_key(t, "step");
 *     dsf_torch_put_int(t, 7);
 *     dsf_torch_put_key(t, "param");
 *     dsf_torch_put_tensor(t, DSFLOW_FP32, 2, dims);
 *     dsf_torch_put_end(t);
 */
#ifndef DSF_TORCH_TORCH_WRITE_H
#define DSF_TORCH_TORCH_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/error.h>

struct dsf_torch_tree; /* opaque */

struct dsf_torch_tree *dsf_torch_tree_new(void);
void dsf_torch_tree_free(struct dsf_torch_tree *t); /* NULL is fine */

/* Begin what holds others; `end` ends what was begun last. In a dict, a key
 * stands before each value. */
void dsf_torch_put_dict(struct dsf_torch_tree *t);
void dsf_torch_put_list(struct dsf_torch_tree *t);
void dsf_torch_put_tuple(struct dsf_torch_tree *t);
void dsf_torch_put_end(struct dsf_torch_tree *t);

void dsf_torch_put_none(struct dsf_torch_tree *t);
void dsf_torch_put_bool(struct dsf_torch_tree *t, bool x);
void dsf_torch_put_int(struct dsf_torch_tree *t, int64_t x);
void dsf_torch_put_real(struct dsf_torch_tree *t, double x);
void dsf_torch_put_text(struct dsf_torch_tree *t, const char *s); /* UTF-8 */
void dsf_torch_put_key(struct dsf_torch_tree *t, const char *s);

/* A tensor, row by row, of a type that torch has a storage of: fp32, fp64,
 * bf16, fp16, int8 to int64, uint8, boolean. Returns its number, from 0. */
unsigned dsf_torch_put_tensor(struct dsf_torch_tree *t, enum dsflow_dtype dtype,
                              unsigned ndims, const int64_t *dims);

struct dsf_torch_out; /* opaque: what the numbers go to */
int dsf_torch_out(struct dsf_torch_out *out, const void *data, size_t bytes,
                  struct dsflow_err *err);

/* Hand all bytes of tensor `i` to dsf_torch_out, in order. */
typedef int dsf_torch_out_fn(void *user, unsigned i, struct dsf_torch_out *out,
                             struct dsflow_err *err);

/* A new file, on disk when it returns; the top folder in it has its name.
 * Numbers begin at multiples of 64 bytes. Errors: DSFLOW_EIO; those of `put`.
 * What is not whole is left for the caller to remove. */
int dsf_torch_write(const struct dsf_torch_tree *t, const char *path,
                    dsf_torch_out_fn *put, void *user, struct dsflow_err *err);

#endif
