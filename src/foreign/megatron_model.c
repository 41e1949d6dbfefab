/* megatron_model.c - the tensors of a model in files of Megatron-LM: their
 * names, with layers numbered through all stages, and what each tensor rank has
 * of them.
 */
#include "foreign/megatron_names.h"
#include "foreign/megatron_private.h"

#include "base/alloc.h"
#include "base/units.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- names ---------------------------------------------------------------- */

/* A tensor of a tree, by the keys on the way to it. */
struct leaf {
    char *name;
    const struct dsf_torch_node *node;
};
struct leaves {
    struct leaf *v;
    size_t n, cap;
};

static void free_leaves(struct leaves *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].name);
    free(l->v);
    *l = (struct leaves){ 0 };
}

static void add_leaf(struct leaves *l, const char *name,
                     const struct dsf_torch_node *node)
{
    int layer;

    if (node->kind != DSF_TORCH_TENSOR ||
        dsf_megatron_role_of(name, &layer) == DSF_MEGATRON_BUFFER)
        return;
    dsf_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = (struct leaf){ dsf_xstrdup(name), node };
}

/* As deep as the reader of files allows. */
static void find_leaves(struct leaves *l, const char *above,
                        const struct dsf_torch_node *node)
{
    if (node->kind != DSF_TORCH_DICT) {
        add_leaf(l, above, node);
        return;
    }
    for (uint32_t i = 0; i < node->n; i++) {
        const struct dsf_torch_node *key = dsf_torch_key(node, i);
        char *name;

        if (key->kind != DSF_TORCH_STR)
            continue;
        name = above[0] == '\0' ? dsf_xstrdup(key->str)
                                : dsf_xasprintf("%s.%s", above, key->str);
        find_leaves(l, name, dsf_torch_value(node, i));
        free(name);
    }
}

/* How many layers there are among them. */
static int count_layers(const struct leaves *l)
{
    int most = 0;

    for (size_t i = 0; i < l->n; i++) {
        size_t begin, end;
        int n;

        if (!dsf_megatron_layer_at(l->v[i].name, &begin, &end))
            continue;
        n = atoi(l->v[i].name + begin) + 1;
        most = n > most ? n : most;
    }
    return most;
}

/* Its name in the whole model, where `before` layers are before this stage. */
static char *whole_name(const char *name, int before)
{
    size_t begin, end;

    if (!dsf_megatron_layer_at(name, &begin, &end))
        return dsf_xstrdup(name);
    return dsf_xasprintf("%.*s%d%s", (int)begin, name,
                         atoi(name + begin) + before, name + end);
}

/* --- shapes --------------------------------------------------------------- */

/* Is its feed-forward gated: has it twice as many rows as its second product
 * has columns? */
static bool is_gated(const struct leaves *l, int layer)
{
    int64_t up = 0, down = 0;

    for (size_t i = 0; i < l->n; i++) {
        const struct dsf_torch_tensor *t = l->v[i].node->tensor;
        int of;
        enum dsf_megatron_role role = dsf_megatron_role_of(l->v[i].name, &of);

        if (of != layer || t->ndims != 2)
            continue;
        if (role == DSF_MEGATRON_UP_W)
            up = t->dims[0];
        else if (role == DSF_MEGATRON_DOWN_W)
            down = t->dims[1];
    }
    return up > 0 && up == 2 * down;
}

static unsigned blocks_of(const struct dsf_megatron *m, const struct leaves *l,
                          enum dsf_megatron_role role, int layer)
{
    if (role == DSF_MEGATRON_QKV_W || role == DSF_MEGATRON_QKV_B)
        return m->version == 0 ? 3 : 1;
    if (role == DSF_MEGATRON_UP_W || role == DSF_MEGATRON_UP_B)
        return is_gated(l, layer) ? 2 : 1;
    return 1;
}

/* Its shape, from that of the first rank, and how it is joined. */
static int take_shape(struct dsf_source_tensor *t, struct dsf_shared *shared,
                      int ranks, int along, unsigned blocks,
                      const struct dsf_torch_file *file,
                      const struct dsf_torch_node *node, struct dsflow_err *err)
{
    const struct dsf_torch_tensor *in;
    int status = dsf_torch_floats(file, node, &in, err);

    if (status < 0)
        return status;
    if (in->ndims < 1 || in->ndims > 2 || in->elems == 0 ||
        (int)in->ndims <= along)
        return dsf_torch_fail(file, node, err,
                              "has %u dimensions: expected a %s", in->ndims,
                              along == 1 ? "matrix" : "matrix or a vector");
    if (in->dims[0] % blocks != 0)
        return dsf_torch_fail(file, node, err,
                              "has %lld rows: expected a multiple of %u",
                              (long long)in->dims[0], blocks);
    t->ndims = in->ndims;
    memcpy(t->dims, in->dims, in->ndims * sizeof(*t->dims));
    if (along < 0) {
        shared->merge.ranks = ranks; /* the first one's */
        return DSFLOW_OK;
    }
    t->dims[along] *= ranks;
    dsf_merge_join(&shared->merge, ranks, blocks, (unsigned)along, in->ndims,
                   in->dims);
    return DSFLOW_OK;
}

static int check_same_shape(const struct dsf_torch_file *file,
                            const struct dsf_torch_node *node,
                            const struct dsf_torch_file *other,
                            const struct dsf_torch_tensor *as,
                            struct dsflow_err *err)
{
    const struct dsf_torch_tensor *t = node->tensor;
    char has[200], wanted[200];

    if (t->ndims == as->ndims &&
        memcmp(t->dims, as->dims, t->ndims * sizeof(*t->dims)) == 0)
        return DSFLOW_OK;
    return dsf_torch_fail(
        file, node, err, "shape %s: in %s it is %s",
        dsf_shape_str(t->ndims, t->dims, has, sizeof(has)),
        dsf_torch_path(other),
        dsf_shape_str(as->ndims, as->dims, wanted, sizeof(wanted)));
}

/* --- tensors of a source -------------------------------------------------- */

static int add_tensor(struct dsf_source *s, struct dsf_megatron *m,
                      const struct leaves *l, size_t i, const char *name,
                      const struct dsf_megatron_file *file,
                      struct dsflow_err *err)
{
    int layer;
    enum dsf_megatron_role role = dsf_megatron_role_of(l->v[i].name, &layer);
    struct dsf_source_tensor *t;
    struct dsf_shared *shared;

    if (dsf_source_find(s, name) != NULL)
        return dsf_torch_fail(file->torch, l->v[i].node, err,
                              "is %s, which another stage has, too", name);
    t = dsf_source_add(s, name);
    dsf_grow(&m->tensors, &m->cap, m->n + 1, sizeof(*m->tensors));
    shared = &m->tensors[m->n];
    *shared = (struct dsf_shared){
        .shards =
            dsf_xcalloc((size_t)m->folder.tensor, sizeof(*shared->shards)),
    };
    t->at = m->n++;
    t->has = 1u << DSF_SOURCE_WEIGHT;
    return take_shape(
        t, shared, m->folder.tensor, dsf_megatron_shared_along(role),
        blocks_of(m, l, role, layer), file->torch, l->v[i].node, err);
}

/* Leaf `i` of a chunk in `file`: what its tensor rank has of a tensor, which
 * the first tensor rank adds. */
static int take_leaf(struct dsf_source *s, struct dsf_megatron *m,
                     const struct leaves *l, size_t i, int before,
                     struct dsf_megatron_file *file, struct dsflow_err *err)
{
    char *name = whole_name(l->v[i].name, before);
    const struct dsf_torch_node *node = l->v[i].node;
    const struct dsf_source_tensor *t;
    struct dsf_shared *shared;
    int status = DSFLOW_OK;

    if (file->tensor == 0)
        status = add_tensor(s, m, l, i, name, file, err);
    t = dsf_source_find(s, name);
    if (t == NULL)
        status = dsf_torch_fail(file->torch, node, err,
                                "tensor rank 0 does not have it");
    free(name);
    if (status < 0)
        return status;
    shared = &m->tensors[t->at];
    status =
        file->tensor == 0
            ? DSFLOW_OK
            : check_same_shape(file->torch, node, shared->shards[0].file,
                               shared->shards[0].state[DSF_SOURCE_WEIGHT], err);
    shared->shards[file->tensor] =
        (struct dsf_shard){ file->torch,
                            { [DSF_SOURCE_WEIGHT] = node->tensor } };
    dsf_grow(&file->params, &file->cap, file->nparams + 1,
             sizeof(*file->params));
    file->params[file->nparams++] =
        (struct dsf_megatron_param){ (size_t)(t - s->tensors),
                                     node->tensor->ndims == 1, node->tensor };
    return status;
}

/* "model", or "model0", "model1", … of a stage with several chunks. */
static const struct dsf_torch_node *chunk_of(const struct dsf_megatron *m,
                                             const struct dsf_torch_node *root,
                                             int chunk)
{
    char key[32];

    if (m->folder.layout == DSF_MEGATRON_DEEPSPEED)
        return chunk == 0 ? dsf_torch_find(root, "module") : NULL;
    if (chunk == 0 && dsf_torch_find(root, "model") != NULL)
        return dsf_torch_find(root, "model");
    snprintf(key, sizeof(key), "model%d", chunk);
    return dsf_torch_find(root, key);
}

/* Every tensor of tensor rank 0 must be there of all. */
static int check_ranks(const struct dsf_source *s, const struct dsf_megatron *m,
                       struct dsflow_err *err)
{
    for (size_t i = 0; i < s->n; i++)
        for (int r = 0; r < m->folder.tensor; r++)
            if (m->tensors[s->tensors[i].at].shards[r].file == NULL)
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s: %s: tensor rank %d does not have it",
                                   m->folder.path, s->tensors[i].name, r);
    return DSFLOW_OK;
}

/* Chunk after chunk, and of each stage after stage: so layers follow each
 * other. `*there`: is there such a chunk? */
static int take_chunk(struct dsf_source *s, struct dsf_megatron *m, int chunk,
                      int *before, bool *there, struct dsflow_err *err)
{
    size_t nfiles = (size_t)m->folder.tensor * (size_t)m->folder.stages;
    int layers = 0, status = DSFLOW_OK;

    *there = false;
    for (size_t f = 0; f < nfiles && status == DSFLOW_OK; f++) {
        struct dsf_megatron_file *file = &m->files[f];
        const struct dsf_torch_node *tree =
            chunk_of(m, dsf_torch_root(file->torch), chunk);
        struct leaves l = { 0 };

        if (tree == NULL)
            continue;
        *there = true;
        find_leaves(&l, "", tree);
        for (size_t i = 0; i < l.n && status == DSFLOW_OK; i++)
            status = take_leaf(s, m, &l, i, *before, file, err);
        layers = count_layers(&l);
        if (file->tensor + 1 == m->folder.tensor)
            *before += layers;
        free_leaves(&l);
    }
    return status;
}

int dsf_megatron_take_model(struct dsf_source *s, struct dsf_megatron *m,
                            struct dsflow_err *err)
{
    int before = 0, status = DSFLOW_OK;
    bool there = true;

    for (int chunk = 0; there && status == DSFLOW_OK; chunk++)
        status = take_chunk(s, m, chunk, &before, &there, err);
    if (status == DSFLOW_OK && s->n == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has no %s with tensors: expected a file of "
                           "Megatron-LM",
                           dsf_torch_path(m->first),
                           m->folder.layout == DSF_MEGATRON_DEEPSPEED
                               ? "\"module\""
                               : "\"model\"");
    return status == DSFLOW_OK ? check_ranks(s, m, err) : status;
}

bool dsf_megatron_has_qkv(const struct dsf_torch_node *module)
{
    struct leaves l = { 0 };
    bool has = false;
    int layer;

    find_leaves(&l, "", module);
    for (size_t i = 0; i < l.n && !has; i++)
        has = dsf_megatron_role_of(l.v[i].name, &layer) == DSF_MEGATRON_QKV_W;
    free_leaves(&l);
    return has;
}
