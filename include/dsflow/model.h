/* model.h - a model's tensors by their Hugging Face names, and text from it.
 *
 * A tensor has the shape that a Hugging Face folder of the model has, in fp32,
 * row-major; where dsflow keeps it otherwise, it is turned on the way.
 *
 * A model that is open does not change: several threads may list and read its
 * tensors at a time. Text is made by one thread at a time, of whichever model.
 */
#ifndef DSFLOW_MODEL_H
#define DSFLOW_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <dsflow/dtype.h>
#include <dsflow/job.h>

DSFLOW_BEGIN_DECLS

struct dsflow_tensor_info {
    uint32_t size;    /* of this structure: DSFLOW_TENSOR_INFO sets it */
    const char *name; /* "transformer.h.0.attn.c_attn.weight"; borrowed as long
                         as the model or the run */
    int32_t layer;    /* -1: before the blocks; their number: after them */
    uint32_t ndims;   /* 1 or 2 */
    int64_t dims[2];
    int64_t elems;
};
#define DSFLOW_TENSOR_INFO()                                                   \
    DSFLOW_OF(dsflow_tensor_info, .size = sizeof(struct dsflow_tensor_info))

/* How the next token is chosen. */
struct dsflow_sampling {
    uint32_t size;      /* of this structure: DSFLOW_SAMPLING sets it */
    int64_t tokens;     /* at most so many */
    double temperature; /* 0: the likeliest token */
    double top_p;       /* of the likeliest whose share is this; 0 or 1: all */
    int64_t top_k;      /* of so many; 0: all */
    uint64_t seed;
};
#define DSFLOW_SAMPLING(...)                                                   \
    DSFLOW_OF(dsflow_sampling, .size = sizeof(struct dsflow_sampling),         \
              __VA_ARGS__)

/* Gets each token as it comes: its text, `bytes` bytes of whole UTF-8
 * characters (none, where a character is not complete yet). Not 0: that was the
 * last one wanted. */
typedef int (*dsflow_token_fn)(void *user, const char *text, size_t bytes);

struct dsflow_model; /* opaque: weights in memory, read only */

enum { DSFLOW_LATEST_STEP = -1 };

/* The weights of the checkpoint of `step` in the output folder of the job, or
 * of the latest one; 0: as the job starts. Errors: DSFLOW_EINVAL where there is
 * none; DSFLOW_EFAIL where it is damaged. */
DSFLOW_API int dsflow_model_open(const struct dsflow_job *job, int64_t step,
                                 struct dsflow_model **model,
                                 struct dsflow_err *err);
DSFLOW_API void
dsflow_model_close(struct dsflow_model *model); /* NULL is fine */

/* The i-th tensor; DSFLOW_EINVAL past the last. */
DSFLOW_API int dsflow_model_tensor(const struct dsflow_model *model, unsigned i,
                                   struct dsflow_tensor_info *tensor);

/* The `elems` numbers of a tensor, exact also where [weights] trains them to be
 * quantized or pruned: text and the folder below have what was trained. Errors:
 * DSFLOW_EINVAL for a name that the model does not have, or another number of
 * elements. */
DSFLOW_API int dsflow_model_get(const struct dsflow_model *model,
                                const char *name, float *to, int64_t elems,
                                struct dsflow_err *err);

/* Text after `prompt` (`bytes` bytes), made in the type in which the job
 * computes. It ends at the end-of-text token, or where the model's context is
 * full. Errors: DSFLOW_EFIT for a prompt longer than the context; DSFLOW_EINVAL
 * where the tokenizer has more tokens than the model. */
DSFLOW_API int dsflow_model_generate(const struct dsflow_model *model,
                                     const char *prompt, size_t bytes,
                                     const struct dsflow_sampling *sampling,
                                     dsflow_token_fn on_token, void *user,
                                     struct dsflow_err *err);

/* The model and its tokenizer, unless that has more tokens than the model, as a
 * Hugging Face folder, which appears whole or
 * not at all, with weights of `dtype`: DSFLOW_FP32, DSFLOW_BF16 or DSFLOW_FP16,
 * rounded to nearest. Errors: DSFLOW_EINVAL for another type, a number that is
 * beyond it, or a folder that is there; DSFLOW_EIO. */
DSFLOW_API int dsflow_model_export(const struct dsflow_model *model,
                                   const char *folder, enum dsflow_dtype dtype,
                                   struct dsflow_err *err);

DSFLOW_END_DECLS

#endif
