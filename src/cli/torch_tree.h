/* torch_tree.h - the tree of a file that torch.save wrote, for people and as
 * JSON: names, types and shapes, no numbers of tensors. */
#ifndef DSF_CLI_TORCH_TREE_H
#define DSF_CLI_TORCH_TREE_H

#include "torch/torch.h"

#include <jansson.h>

/* A line for each thing, indented by `indent`; long lists of like things are
 * cut short. */
void dsf_tree_print(const struct dsf_torch_node *root, int indent);

/* All of it. A dict is an object, a tensor {"dtype": "fp32", "shape": […]}. */
json_t *dsf_tree_json(const struct dsf_torch_node *root);

/* "[2, 3]", "a number" without dimensions; free it. */
char *dsf_dims_text(const int64_t *dims, unsigned ndims);

#endif
