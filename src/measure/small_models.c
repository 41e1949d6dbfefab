/* small_models.c - the small models that the speed of a machine is measured
 * with. */
#include "measure/small_models.h"

#include <stdio.h>

/* Narrow and wide, long and short, in the caches and out of them. */
const struct dsf_small_model dsf_small_models[] = {
    { "gpt2", "adamw", 2, 4, 64, 256, 4, 2, 64, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 4, 128, 256, 8, 4, 128, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 4, 256, 4096, 4, 2, 256, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 1, 8, 512, 1024, 4, 2, 512, false, 0, 1, 1, 1 },
    { "gpt2", "adamw", 1, 6, 384, 32768, 2, 1, 1024, false, 0, 1, 1, 1 },
    { "gpt2", "adamw", 1, 16, 1024, 8192, 2, 1, 128, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 12, 192, 256, 2, 1, 768, true, 0, 1, 1, 1 },
    { "llama", "adamw", 2, 8, 320, 2048, 2, 1, 384, false, 0, 1, 1, 1 },
    { "llama", "lion", 1, 8, 640, 16384, 4, 4, 64, false, 0, 1, 1, 1 },
    { "llama", "sgd", 1, 6, 768, 256, 2, 1, 640, false, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 3, 96, 512, 6, 3, 192, false, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 4, 128, 256, 4, 2, 64, true, 3, 2, 1, 1 },
    { "gpt2", "adamw", 2, 8, 512, 4096, 4, 1, 128, false, 3, 4, 1, 1 },
    { "gpt2", "adamw", 2, 4, 384, 512, 4, 1, 256, true, 1, 2, 2, 1 },
    { "gpt2", "adamw", 1, 4, 128, 512, 4, 2, 128, true, 0, 1, 1, 2 },
    { "llama", "adamw", 2, 8, 512, 2048, 2, 1, 256, false, 0, 1, 1, 2 },
    { "gpt2", "adamw", 1, 8, 768, 8192, 2, 1, 256, false, 0, 1, 1, 4 },
    { "gpt2", "adamw", 1, 4, 128, 512, 4, 2, 64, true, 0, 1, 1, 1, true },
    { "gpt2", "adamw", 1, 4, 256, 512, 4, 2, 64, true, 1, 2, 1, 1, true },
    { "gpt2", "adamw", 1, 8, 512, 4096, 4, 2, 64, false, 3, 2, 1, 1, true },
};

const unsigned dsf_nsmall_models =
    sizeof(dsf_small_models) / sizeof(*dsf_small_models);

/* On GPUs, each some times the one before: from what emulated ones do in an
 * instant to what fills a large one. The quick ones go as far, but for tall
 * matrices: what is fitted to narrow ones alone says little of wide ones. */
const struct dsf_small_model dsf_gpu_models[] = {
    { "gpt2", "adamw", 1, 2, 32, 128, 2, 1, 32, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 1, 4, 64, 256, 4, 2, 64, true, 0, 1, 1, 1 },
    { "llama", "adamw", 1, 4, 128, 256, 2, 1, 128, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 4, 128, 256, 4, 2, 128, true, 3, 2, 1, 1 },
    { "gpt2", "adamw", 2, 8, 512, 4096, 8, 4, 512, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 8, 512, 4096, 8, 4, 512, true, 3, 2, 1, 1 },
    { "gpt2", "adamw", 2, 12, 768, 50257, 8, 4, 1024, true, 0, 1, 1, 1 },
    { "llama", "adamw", 2, 16, 2048, 32000, 4, 2, 2048, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 1, 25, 1600, 50257, 32, 16, 1024, true, 0, 1, 1, 1 },
    { "llama", "adamw", 1, 32, 4096, 32000, 4, 2, 4096, true, 0, 1, 1, 1 },
    { "gpt2", "adamw", 2, 12, 768, 50257, 128, 64, 1024, false, 0, 1, 1, 1 },
};

const unsigned dsf_ngpu_models =
    sizeof(dsf_gpu_models) / sizeof(*dsf_gpu_models);

void dsf_small_model_job(const struct dsf_small_model *s,
                         enum dsflow_dtype type, char *text, size_t size)
{
    int groups = s->sequences > s->micro ? 2 : 1;

    snprintf(text, size,
             "[job]\nsteps = 9\n"
             "[model]\nfamily = \"%s\"\nlayers = %d\nheads = %d\n"
             "width = %d\ncontext = %d\nvocab = %d\n"
             "[data]\ntrain = \"-\"\n"
             "[batch]\nsequences = %d\nmicro = %d\ngroups = %d\n"
             "[optimizer]\nkind = \"%s\"\n"
             "[mesh]\ndata = %d\npipeline = %d\ntensor = %d\n"
             "[zero]\nstage = %d\n"
             "[precision]\ncompute = \"%s\"\n"
             "[compress]\ngradients = \"%s\"\nparams = \"%s\"\n"
             "error = \"%s\"\n",
             s->family, s->layers, s->heads, s->width, s->sequence, s->vocab,
             s->sequences, s->micro, s->data > groups ? s->data : groups,
             s->optimizer, s->data, s->pipeline, s->tensor, s->zero,
             dsflow_dtype_str(type), s->coded ? "int8" : "none",
             s->coded ? "int8" : "none", s->coded ? "int8" : "none");
}

double dsf_small_model_size(const struct dsf_small_model *s)
{
    double block = (12.0 * s->width + s->sequence) * s->width;

    return s->sequences * s->sequence *
           (s->layers * block + (double)s->vocab * s->width);
}
