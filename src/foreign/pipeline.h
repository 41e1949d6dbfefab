/* pipeline.h - names of the layers of a PipelineModule of DeepSpeed: by number,
 * as "3.attn.c_attn.weight", and "tied_modules.embed.wte.weight". */
#ifndef DSF_FOREIGN_PIPELINE_H
#define DSF_FOREIGN_PIPELINE_H

#include "foreign/source.h"

/* Does it have such names? */
bool dsf_pipeline_is(const struct dsf_source *s);

/* Give its tensors the names that they have in a model that is no pipeline, of
 * Hugging Face or Megatron, whichever the layers are of: numbers of layers
 * begin at the embedding, norm and head follow the blocks. What is tied is
 * there twice: the second time, it is said to be there again. What is not known
 * keeps its name. */
void dsf_pipeline_rename(struct dsf_source *s);

#endif
