/* zero_tensors.c - what the layouts of DeepSpeed have in common of tensors:
 * shapes, names of states, tied and frozen ones. */
#include "foreign/zero_private.h"

#include "base/units.h"

#include <string.h>

int dsf_zero_shape(struct dsf_zero_source *z, const struct dsf_torch_file *file,
                   const struct dsf_torch_node *shape,
                   struct dsf_source_tensor *t, struct dsflow_err *err)
{
    int64_t dims[8], elems = 1;
    char text[200];
    int status = dsf_torch_expect(file, shape, DSF_TORCH_LIST, err);

    if (status < 0)
        return status;
    if (shape->n > 8)
        return dsf_torch_fail(file, shape, err,
                              "%u dimensions: expected at "
                              "most 8",
                              shape->n);
    for (uint32_t d = 0; d < shape->n; d++) {
        status = dsf_torch_int(file, dsf_torch_item(shape, d), &dims[d], err);
        if (status < 0)
            return status;
        /* Some tensor ranks may have none of a tensor. */
        if (dims[d] < (z->tensors > 1 ? 0 : 1) ||
            (dims[d] > 0 && elems > ((int64_t)1 << 50) / dims[d]))
            return dsf_torch_fail(file, shape, err,
                                  "%s: %lld: expected sizes "
                                  "of 1 and more, of at most 2^50 numbers",
                                  t->name, (long long)dims[d]);
        elems *= dims[d];
    }
    if (t->ndims > 0 && (t->ndims != shape->n ||
                         memcmp(dims, t->dims, t->ndims * sizeof(*dims)) != 0))
        return dsf_torch_fail(
            file, shape, err,
            "%s: another shape than in a file before: "
            "expected %s",
            t->name, dsf_shape_str(t->ndims, t->dims, text, sizeof(text)));
    t->ndims = shape->n;
    memcpy(t->dims, dims, shape->n * sizeof(*dims));
    return DSFLOW_OK;
}

int dsf_zero_whole(struct dsf_zero_source *z, const struct dsf_torch_file *file,
                   const char *name, const struct dsf_torch_node *node,
                   enum dsf_source_state state, struct dsflow_err *err)
{
    const struct dsf_torch_tensor *tensor;
    struct dsf_source_tensor *t;
    int status = dsf_torch_tensor(file, node, &tensor, err);

    if (status < 0)
        return status;
    t = dsf_pieces_tensor(z->source, name);
    if (t->ndims == 0) {
        t->ndims = tensor->ndims;
        memcpy(t->dims, tensor->dims, tensor->ndims * sizeof(*t->dims));
    }
    return dsf_pieces_add(z->source, t, state, file, node, 0, tensor->elems,
                          err);
}

bool dsf_zero_is_param(const struct dsf_zero_source *z, const char *name,
                       const struct dsf_torch_node *node)
{
    const struct dsf_torch_node *list = dsf_torch_find(z->root, "buffer_names");

    for (uint32_t i = 0;
         list != NULL && list->kind == DSF_TORCH_LIST && i < list->n; i++) {
        const struct dsf_torch_node *n = dsf_torch_item(list, i);

        if (n->kind == DSF_TORCH_STR && strcmp(n->str, name) == 0)
            return false;
    }
    return dsf_torch_is_floats(node);
}

int dsf_zero_shared(struct dsf_zero_source *z, struct dsflow_err *err)
{
    const struct dsf_torch_node *shared =
        dsf_torch_find(z->root, "shared_params");
    struct dsf_source *s = z->source;

    for (uint32_t i = 0;
         shared != NULL && shared->kind == DSF_TORCH_DICT && i < shared->n;
         i++) {
        const char *name, *other;
        struct dsf_source_tensor *t, *of;
        int status =
            dsf_torch_str(z->model, dsf_torch_key(shared, i), &name, err);

        if (status == DSFLOW_OK)
            status = dsf_torch_str(z->model, dsf_torch_value(shared, i), &other,
                                   err);
        if (status < 0)
            return status;
        if (dsf_source_find(s, other) == NULL ||
            dsf_source_find(s, name) != NULL)
            continue;
        t = dsf_pieces_tensor(s, name);
        of = dsf_source_find(s, other);
        dsf_pieces_again(s, of, t);
    }
    return DSFLOW_OK;
}

/* Of one rank, or of several whose fragments follow each other; zeroes behind
 * them fill the last. */
static int add_fragments(struct dsf_zero_source *z, struct dsf_source_tensor *t,
                         struct dsflow_err *err)
{
    int64_t left = dsf_source_elems(t);
    const struct dsf_folder_file *f;
    int status = DSFLOW_OK;

    for (size_t i = 0;
         status == DSFLOW_OK && left > 0 &&
         (f = dsf_folder_at(&z->folder, DSF_FOLDER_SHARD, z->rank, i)) != NULL;
         i++) {
        const struct dsf_torch_file *file = z->model;
        const struct dsf_torch_node *node, *all;
        const struct dsf_torch_tensor *tensor;
        int64_t n;

        if (i > 0)
            status =
                dsf_pieces_open(z->source, z->folder.path, f->name, &file, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_entry(file, dsf_torch_root(file),
                                     "frozen_param_fragments", DSF_TORCH_DICT,
                                     &all, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_entry(file, all, t->name, DSF_TORCH_TENSOR,
                                     &node, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_tensor(file, node, &tensor, err);
        if (status < 0)
            break;
        n = tensor->elems < left ? tensor->elems : left;
        status = dsf_pieces_add(z->source, t, DSF_SOURCE_WEIGHT, file, node, 0,
                                n, err);
        left -= n;
    }
    return status;
}

int dsf_zero_frozen(struct dsf_zero_source *z,
                    const struct dsf_zero_shards *shards,
                    struct dsflow_err *err)
{
    const struct dsf_torch_node *shapes =
        dsf_torch_find(z->root, "frozen_param_shapes");
    const struct dsf_torch_node *module = dsf_torch_find(z->root, "module");
    struct dsf_source *s = z->source;
    const char *name;
    int status = DSFLOW_OK;

    for (uint32_t i = 0;
         z->stage == 3 && shapes != NULL && shapes->kind == DSF_TORCH_DICT &&
         i < shapes->n && status == DSFLOW_OK;
         i++) {
        struct dsf_source_tensor *t;

        status = dsf_torch_str(z->model, dsf_torch_key(shapes, i), &name, err);
        if (status < 0)
            break;
        t = dsf_pieces_tensor(s, name);
        t->frozen = true;
        status =
            dsf_zero_shape(z, z->model, dsf_torch_value(shapes, i), t, err);
        if (status == DSFLOW_OK)
            status = add_fragments(z, t, err);
    }
    /* Before stage 3 the module has all of them. */
    for (uint32_t i = 0;
         z->stage != 3 && module != NULL && module->kind == DSF_TORCH_DICT &&
         i < module->n && status == DSFLOW_OK;
         i++) {
        status = dsf_torch_str(z->model, dsf_torch_key(module, i), &name, err);
        if (status < 0 ||
            !dsf_zero_is_param(z, name, dsf_torch_value(module, i)) ||
            dsf_source_find(s, name) != NULL)
            continue;
        status = dsf_zero_whole(z, z->model, name, dsf_torch_value(module, i),
                                DSF_SOURCE_WEIGHT, err);
        if (status == DSFLOW_OK)
            dsf_source_find(s, name)->frozen = true;
    }
    return status;
}

bool dsf_zero_is_known(const struct dsf_zero_source *z,
                       const struct dsf_source_tensor *t)
{
    return (size_t)(t - z->source->tensors) < z->before;
}
