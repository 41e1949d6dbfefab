/* pickle_write.h - what torch_write.c needs of a tree that is to be written. */
#ifndef DSF_TORCH_PICKLE_WRITE_H
#define DSF_TORCH_PICKLE_WRITE_H

#include "torch/torch_write.h"

/* The pickle, whole; valid until the tree is freed. */
const void *dsf_torch_tree_pickle(const struct dsf_torch_tree *t, size_t *n);
/* The tensors' bytes. */
unsigned dsf_torch_tree_count(const struct dsf_torch_tree *t);
int64_t dsf_torch_tree_bytes(const struct dsf_torch_tree *t, unsigned i);

#endif
