/* zero_layers.c - the files of the layers of a pipeline: what its stages have,
 * by the number of the layer. What is tied is in the first layer alone. */
#include "foreign/zero_private.h"

#include "base/alloc.h"

#include <string.h>

/* The tensors of one layer. */
static int add_layer(struct dsf_zero_source *z, const struct dsf_folder_file *f,
                     size_t *cap, struct dsflow_err *err)
{
    const struct dsf_torch_file *file;
    const struct dsf_torch_node *root;
    const char *name;
    int status =
        dsf_pieces_open(z->source, z->folder.path, f->name, &file, err);

    if (status < 0)
        return status;
    root = dsf_torch_root(file);
    status = dsf_torch_expect(file, root, DSF_TORCH_DICT, err);
    for (uint32_t i = 0; status == DSFLOW_OK && i < root->n; i++) {
        const struct dsf_torch_node *node = dsf_torch_value(root, i);

        status = dsf_torch_str(file, dsf_torch_key(root, i), &name, err);
        if (status < 0 || !dsf_torch_is_floats(node))
            continue;
        dsf_grow(&z->layers, cap, z->nlayers + 1, sizeof(*z->layers));
        z->layers[z->nlayers++] = (struct dsf_zero_param){
            .name = dsf_xasprintf("%d.%s", f->layer, name),
            .file = file,
            .node = node,
        };
    }
    return status;
}

int dsf_zero_layers(struct dsf_zero_source *z, struct dsflow_err *err)
{
    const struct dsf_folder_file *f;
    int model = z->tensors > 1 ? z->tensor : -1;
    size_t cap = 0;
    int status = DSFLOW_OK;

    if (z->layers != NULL)
        return DSFLOW_OK;
    for (size_t i = 0;
         status == DSFLOW_OK &&
         (f = dsf_folder_at(&z->folder, DSF_FOLDER_LAYER, model, i)) != NULL;
         i++) {
        status = add_layer(z, f, &cap, err);
        if (i == 0)
            z->first = z->nlayers;
    }
    return status;
}
