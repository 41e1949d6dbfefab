/* zero_flat.c - ZeRO 1 and 2, and BF16_Optimizer: the parameters of a group
 * stand one after the other in a vector, of which each rank has a part. */
#include "foreign/zero_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* A group, or what a rank has of it. */
struct flat {
    struct dsf_zero_source *z;
    const struct dsf_zero_shards *shards;
    uint32_t group;
};

/* The tensor of the masters that rank `r` has. */
static int find_masters(const struct flat *f, size_t r,
                        const struct dsf_torch_node **node,
                        struct dsflow_err *err)
{
    const struct dsf_torch_file *file = f->shards->files[r];
    const struct dsf_torch_node *list;
    int status = dsf_torch_entry(file, f->shards->states[r],
                                 "single_partition_of_fp32_groups",
                                 DSF_TORCH_LIST, &list, err);

    if (status < 0)
        return status;
    if (f->group >= list->n)
        return dsf_torch_fail(file, list, err,
                              "has %u groups: expected %u and more", list->n,
                              f->group + 1);
    *node = dsf_torch_item(list, f->group);
    return DSFLOW_OK;
}

/* Its moments: a dict of tensors of that size or, with padding, a longer one.
 * In base_optimizer_state as a state_dict of torch, whose groups have one
 * parameter each, or, of "elastic" checkpoints, one dict for each group. */
static int find_moments(const struct flat *f, size_t r,
                        const struct dsf_torch_node **state,
                        const struct dsf_torch_node **groups,
                        struct dsflow_err *err)
{
    const struct dsf_torch_file *file = f->shards->files[r];
    const struct dsf_torch_node *base =
        dsf_torch_find(f->shards->states[r], "base_optimizer_state");
    const struct dsf_torch_node *all, *params;
    int64_t index = f->group;

    *groups = NULL;
    *state = NULL;
    if (base == NULL)
        return dsf_torch_fail(file, f->shards->states[r], err,
                              "has no base_optimizer_state (--weights-only "
                              "goes without)");
    if (base->kind == DSF_TORCH_LIST) {
        if (f->group < base->n)
            *state = dsf_torch_item(base, f->group);
        return DSFLOW_OK;
    }
    if (dsf_torch_entry(file, base, "state", DSF_TORCH_DICT, &all, err) < 0)
        return DSFLOW_EINVAL;
    *groups = dsf_torch_find(base, "param_groups");
    if (*groups != NULL && (*groups)->kind == DSF_TORCH_LIST &&
        f->group < (*groups)->n) {
        params = dsf_torch_find(dsf_torch_item(*groups, f->group), "params");
        if (params != NULL && params->kind == DSF_TORCH_LIST && params->n > 0)
            dsf_torch_int(file, dsf_torch_item(params, 0), &index, NULL);
    }
    *state = dsf_torch_find_int(all, index);
    return DSFLOW_OK;
}

/* What rank `r` has of a group of Muon's may be the momentum of all of each
 * matrix that it has any of, one after the other: `before` and `all` count
 * those numbers. (With offload, and in BF16_Optimizer, it is cut as the masters
 * are.)
 */
struct wholes {
    int64_t before, all; /* 0: not known */
};

/* The place of a moment, of which `done` numbers came from ranks before. */
static int64_t moment_at(const struct wholes *w, int64_t elems, int64_t masters,
                         int64_t at, int64_t done)
{
    return w->all > 0 && elems == w->all && elems != masters ? w->before + done
                                                             : at;
}

static int add_moment(const struct flat *f, const struct wholes *w,
                      const struct dsf_source_tensor *t,
                      enum dsf_source_state which,
                      const struct dsf_torch_file *file,
                      const struct dsf_torch_node *node, int64_t masters,
                      int64_t at, int64_t n, struct dsflow_err *err)
{
    const struct dsf_torch_tensor *tensor;
    int64_t done;

    if (dsf_torch_tensor(file, node, &tensor, err) < 0)
        return DSFLOW_EINVAL;
    done = dsf_pieces_of(f->z->source)->v[t->at].states[which].elems;
    return dsf_pieces_add(f->z->source, t, which, file, node,
                          moment_at(w, tensor->elems, masters, at, done), n,
                          err);
}

/* Elements [at, at + n) that rank `r` has of the group are the next of `t`. */
static int add(const struct flat *f, size_t r, const char *name, int64_t at,
               int64_t n, const struct wholes *w, struct dsflow_err *err)
{
    const struct dsf_torch_file *file = f->shards->files[r];
    const struct dsf_torch_node *node, *state = NULL, *groups = NULL;
    const struct dsf_source_tensor *t = dsf_pieces_tensor(f->z->source, name);
    const struct dsf_torch_tensor *masters;
    const struct dsf_torch_node *moment;
    enum dsf_source_state which;
    uint32_t i = 0;
    int status = DSFLOW_OK;

    if (dsf_zero_is_known(f->z, t))
        return DSFLOW_OK;
    status = find_masters(f, r, &node, err);
    if (status == DSFLOW_OK)
        status = dsf_pieces_add(f->z->source, t, DSF_SOURCE_WEIGHT, file, node,
                                at, n, err);
    if (status < 0 || f->z->weights_only)
        return status;
    status = dsf_torch_tensor(file, node, &masters, err);
    if (status == DSFLOW_OK)
        status = find_moments(f, r, &state, &groups, err);
    if (status < 0)
        return status;
    while (status == DSFLOW_OK &&
           dsf_state_dict_next(state, &i, &which, &moment))
        status = add_moment(f, w, t, which, file, moment, masters->elems, at, n,
                            err);
    if (status == DSFLOW_OK)
        dsf_state_dict_said(f->z->source, file, groups, state);
    return status;
}

/* Where a fragment of the map is. */
static int read_address(const struct dsf_torch_file *file,
                        const struct dsf_torch_node *map, uint32_t i,
                        const char **name, int64_t *at, int64_t *n,
                        struct dsflow_err *err)
{
    const struct dsf_torch_node *address = dsf_torch_value(map, i);
    const struct dsf_torch_node *start, *numel;
    int status = dsf_torch_str(file, dsf_torch_key(map, i), name, err);

    if (status == DSFLOW_OK)
        status =
            dsf_torch_entry(file, address, "start", DSF_TORCH_INT, &start, err);
    if (status == DSFLOW_OK)
        status =
            dsf_torch_entry(file, address, "numel", DSF_TORCH_INT, &numel, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_int(file, start, at, err);
    return status == DSFLOW_OK ? dsf_torch_int(file, numel, n, err) : status;
}

/* Of the tensors that the map has: those before `at`, and all. */
static int count_wholes(const struct flat *f, const struct dsf_torch_file *file,
                        const struct dsf_torch_node *map, int64_t at,
                        struct wholes *w, struct dsflow_err *err)
{
    *w = (struct wholes){ 0 };
    for (uint32_t i = 0; i < map->n; i++) {
        const struct dsf_source_tensor *t;
        const char *name;
        int64_t start, n;

        if (read_address(file, map, i, &name, &start, &n, err) < 0)
            return DSFLOW_EINVAL;
        t = dsf_source_find(f->z->source, name);
        if (t == NULL)
            return dsf_torch_fail(file, map, err,
                                  "%s: is not in param_shapes of the model",
                                  name);
        w->all += dsf_source_elems(t);
        if (start < at)
            w->before += dsf_source_elems(t);
    }
    return DSFLOW_OK;
}

/* Is it a group of Muon's? */
static bool is_muon(const struct flat *f, size_t r)
{
    const struct dsf_torch_node *groups = dsf_torch_find(
        dsf_torch_find(f->shards->states[r], "base_optimizer_state"),
        "param_groups");
    const struct dsf_torch_node *use =
        groups != NULL && groups->kind == DSF_TORCH_LIST && f->group < groups->n
            ? dsf_torch_find(dsf_torch_item(groups, f->group), "use_muon")
            : NULL;

    return use != NULL && use->kind == DSF_TORCH_BOOL && use->truth;
}

/* What each rank says itself of where fragments are. */
static int add_mapped(const struct flat *f, size_t r,
                      const struct dsf_torch_node *map, struct dsflow_err *err)
{
    const struct dsf_torch_file *file = f->shards->files[r];
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < map->n && status == DSFLOW_OK; i++) {
        struct wholes w = { 0 };
        const char *name;
        int64_t at, n;

        status = read_address(file, map, i, &name, &at, &n, err);
        if (status == DSFLOW_OK && is_muon(f, r))
            status = count_wholes(f, file, map, at, &w, err);
        if (status == DSFLOW_OK)
            status = add(f, r, name, at, n, &w, err);
    }
    return status;
}

/* The same from the order of the parameters: rank after rank, each from where
 * the one before ends. `paddings`: gaps behind each, or NULL. */
static int add_in_order(const struct flat *f,
                        const struct dsf_torch_node *shapes,
                        const struct dsf_torch_node *paddings,
                        struct dsflow_err *err)
{
    size_t r = 0;
    int64_t at = 0; /* within what rank r has */
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < shapes->n && status == DSFLOW_OK; i++) {
        const char *name = dsf_torch_key(shapes, i)->str;
        int64_t left = dsf_source_elems(dsf_source_find(f->z->source, name));
        int64_t gap = 0;

        if (paddings != NULL && paddings->kind == DSF_TORCH_LIST &&
            i < paddings->n)
            status = dsf_torch_int(f->shards->files[0],
                                   dsf_torch_item(paddings, i), &gap, err);
        while (left + gap > 0 && status == DSFLOW_OK && r < f->shards->n) {
            const struct dsf_torch_node *node;
            const struct dsf_torch_tensor *tensor;
            int64_t n, skip;

            status = find_masters(f, r, &node, err);
            if (status == DSFLOW_OK)
                status =
                    dsf_torch_tensor(f->shards->files[r], node, &tensor, err);
            if (status < 0)
                break;
            n = tensor->elems - at < left ? tensor->elems - at : left;
            if (n > 0)
                status = add(f, r, name, at, n, &(struct wholes){ 0 }, err);
            at += n;
            left -= n;
            skip = left > 0                   ? 0
                   : tensor->elems - at < gap ? tensor->elems - at
                                              : gap;
            at += skip;
            gap -= skip;
            if (left + gap > 0) {
                r++;
                at = 0;
            }
        }
    }
    return status;
}

/* Names and shapes of a group. */
static int read_shapes(const struct flat *f,
                       const struct dsf_torch_node *shapes,
                       struct dsflow_err *err)
{
    struct dsf_zero_source *z = f->z;
    const char *name;
    int status = dsf_torch_expect(z->model, shapes, DSF_TORCH_DICT, err);

    for (uint32_t i = 0; status == DSFLOW_OK && i < shapes->n; i++) {
        status = dsf_torch_str(z->model, dsf_torch_key(shapes, i), &name, err);
        if (status == DSFLOW_OK)
            status = dsf_zero_shape(z, z->model, dsf_torch_value(shapes, i),
                                    dsf_pieces_tensor(z->source, name), err);
    }
    return status;
}

/* Where every rank says what it has of the group, that; else the order. */
static int read_group(const struct flat *f, const struct dsf_torch_node *shapes,
                      struct dsflow_err *err)
{
    const struct dsf_zero_shards *shards = f->shards;
    const struct dsf_torch_node *paddings =
        dsf_torch_find(shards->states[0], "param_alignment_paddings");
    const struct dsf_torch_node **maps = dsf_xcalloc(shards->n, sizeof(*maps));
    bool mapped = true;
    int status = read_shapes(f, shapes, err);

    for (size_t r = 0; r < shards->n; r++) {
        const struct dsf_torch_node *all =
            dsf_torch_find(shards->states[r], "param_slice_mappings");

        mapped = mapped && all != NULL && all->kind == DSF_TORCH_LIST &&
                 f->group < all->n;
        if (mapped)
            maps[r] = dsf_torch_item(all, f->group);
        mapped = mapped && maps[r]->kind == DSF_TORCH_DICT;
    }
    for (size_t r = 0; r < shards->n && mapped && status == DSFLOW_OK; r++)
        status = add_mapped(f, r, maps[r], err);
    if (!mapped && status == DSFLOW_OK)
        status =
            add_in_order(f, shapes,
                         paddings != NULL && paddings->kind == DSF_TORCH_LIST &&
                                 f->group < paddings->n
                             ? dsf_torch_item(paddings, f->group)
                             : NULL,
                         err);
    free(maps);
    return status;
}

int dsf_zero_flat(struct dsf_zero_source *z,
                  const struct dsf_zero_shards *shards, struct dsflow_err *err)
{
    const struct dsf_torch_node *groups;
    int status = dsf_torch_entry(z->model, z->root, "param_shapes",
                                 DSF_TORCH_LIST, &groups, err);

    for (uint32_t g = 0; status == DSFLOW_OK && g < groups->n; g++)
        status = read_group(&(struct flat){ z, shards, g },
                            dsf_torch_item(groups, g), err);
    return status;
}
