/* hf.h - models as Hugging Face folders: config.json + safetensors. */
#ifndef DSF_MODEL_HF_H
#define DSF_MODEL_HF_H

#include "model/model.h"

/* Read config.json of `folder` into the [model] part of a job: called by
 * dsf_model_init. */
int dsf_hf_read_config(const char *folder, struct dsf_job_model *out,
                       struct dsflow_err *err);

/* Read every tensor of the model from `folder` (model.safetensors, or shards
 * named by model.safetensors.index.json; fp32, bf16, fp16), into
 * params[u] (units[u].elems floats each). Missing, extra (except known
 * buffers such as attn.bias, masked_bias, rotary inv_freq), misshapen tensors
 * are errors that name file and tensor. */
int dsf_hf_load(const struct dsf_model *model, const char *folder,
                float *const *params, struct dsflow_err *err);

/* Write a folder that transformers loads: config.json, model.safetensors
 * (fp32), and, where `tokenizer_files` (NULL-terminated paths) are given,
 * copies of them. The folder appears whole or not at all. */
int dsf_hf_export(const struct dsf_model *model, const char *folder,
                  float *const *params, const char *const *tokenizer_files,
                  struct dsflow_err *err);

#endif
