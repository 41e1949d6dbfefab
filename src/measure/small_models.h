/* small_models.h - the small models that the speed of a machine is measured
 * with. */
#ifndef DSF_MEASURE_SMALL_MODELS_H
#define DSF_MEASURE_SMALL_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/graph.h>

/* A model, a batch, and a mesh: what moves data, and what works on parts. */
struct dsf_small_model {
    const char *family, *optimizer;
    int layers, heads, width, vocab, sequences, micro, sequence;
    bool quick;
    int zero, data, pipeline, tensor;
    bool coded; /* gradients and parameters, for the wire */
};

/* Of cores; and of GPUs, the quick ones first. */
extern const struct dsf_small_model dsf_small_models[], dsf_gpu_models[];
extern const unsigned dsf_nsmall_models, dsf_ngpu_models;

/* The job of a shape that computes in this type. */
void dsf_small_model_job(const struct dsf_small_model *s,
                         enum dsflow_dtype type, char *text, size_t size);

/* About the operations of a step, to say how much longer one takes. */
double dsf_small_model_size(const struct dsf_small_model *s);

#endif
