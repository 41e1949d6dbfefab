/* hf_tensor.h - what reading and writing the tensors of a folder share. */
#ifndef DSF_MODEL_HF_TENSOR_H
#define DSF_MODEL_HF_TENSOR_H

#include "base/safetensors.h"

/* Where element `i` of a tensor is: "[3, 17]", in `text`. */
const char *dsf_hf_place(const struct dsf_st_tensor *t, size_t i, char *text,
                         size_t size);

/* Element `i` of a tensor is NaN or infinite. */
int dsf_hf_not_finite(const char *path, const struct dsf_st_tensor *t, size_t i,
                      float value, struct dsflow_err *err);

#endif
