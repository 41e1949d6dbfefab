/* hf.h - models as Hugging Face folders: config.json + safetensors. */
#ifndef DSF_MODEL_HF_H
#define DSF_MODEL_HF_H

#include <jansson.h>

#include "base/safetensors.h"
#include "model/model.h"

/* The layers whose attention slides; NULL where there is no window. */
struct dsf_hf_windows {
    bool *layers; /* [layers], which the caller frees */
};

/* Read config.json of `folder` into the [model] part of a job, but for
 * window_layers, which `windows` has: called by dsf_model_init. */
int dsf_hf_read_config(const char *folder, struct dsf_job_model *out,
                       struct dsf_hf_windows *windows, struct dsflow_err *err);

/* The weights of a folder (model.safetensors, or shards named by
 * model.safetensors.index.json; fp32, fp64, bf16, fp16), read a unit at a time.
 * Missing, extra (except known buffers such as attn.bias, masked_bias, rotary
 * inv_freq) and misshapen tensors are found when it is opened; numbers that are
 * not finite, and a head that is not the embedding it is tied to, when they are
 * read. The errors name file and tensor. The model is borrowed. */
struct dsf_hf; /* opaque */
int dsf_hf_open(const struct dsf_model *model, const char *folder,
                struct dsf_hf **hf, struct dsflow_err *err);
void dsf_hf_close(struct dsf_hf *hf); /* NULL is fine */

/* Unit `unit` (units[unit].elems floats) into `to`. `hf` is a struct dsf_hf: a
 * dsf_unit_fn. */
int dsf_hf_read(void *hf, unsigned unit, float *to, struct dsflow_err *err);

/* A file that stands beside the weights. */
struct dsf_hf_file {
    const char *name, *text;
    size_t n;
};

struct dsf_hf_export_spec {
    const char *folder;
    enum dsflow_dtype
        dtype; /* of the weights: DSFLOW_FP32, DSFLOW_BF16 or DSFLOW_FP16 */
    const json_t *config; /* more keys for config.json, or NULL */
    const struct dsf_hf_file *files;
    unsigned nfiles;
};

/* Write a folder that transformers loads: config.json, model.safetensors of the
 * units that `read` gives in their order, and the files. Sixteen bits are
 * rounded to nearest, ties to even; a number that is beyond the type, or none,
 * is an error. The folder appears whole or not at all. */
int dsf_hf_export(const struct dsf_model *model,
                  const struct dsf_hf_export_spec *spec, dsf_unit_fn read,
                  void *user, struct dsflow_err *err);

#endif
