/* hf_tensor.h - what reading and writing the tensors of a folder share. */
#ifndef DSF_MODEL_HF_TENSOR_H
#define DSF_MODEL_HF_TENSOR_H

#include "base/safetensors.h"

/* Element `i` of a tensor is NaN or infinite. */
int dsf_hf_not_finite(const char *path, const struct dsf_st_tensor *t, size_t i,
                      float value, struct dsflow_err *err);

#endif
