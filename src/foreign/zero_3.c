/* zero_3.c - ZeRO 3: each rank has an equal share of each parameter, the last
 * of them with zeroes behind it; shares stand one after the other in
 * sub-groups. */
#include "foreign/zero_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* What a rank has, sub-group after sub-group. */
struct shares {
    struct dsf_zero_source *z;
    const struct dsf_torch_file *file;
    const struct dsf_torch_node *groups; /* fp32_flat_groups */
    const struct dsf_torch_node *states; /* of torch's optimizer, or NULL */
    const struct dsf_torch_node *param_groups;
};

static int open_shares(struct dsf_zero_source *z,
                       const struct dsf_zero_shards *shards, size_t r,
                       struct shares *s, struct dsflow_err *err)
{
    const struct dsf_torch_node *optimizer;
    int status;

    *s = (struct shares){ .z = z, .file = shards->files[r] };
    status = dsf_torch_entry(s->file, shards->states[r], "fp32_flat_groups",
                             DSF_TORCH_LIST, &s->groups, err);
    if (status < 0 || z->weights_only)
        return status;
    status = dsf_torch_entry(s->file, shards->states[r], "optimizer_state_dict",
                             DSF_TORCH_DICT, &optimizer, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_entry(s->file, optimizer, "state", DSF_TORCH_DICT,
                                 &s->states, err);
    s->param_groups = dsf_torch_find(optimizer, "param_groups");
    return status;
}

/* The next `n` elements of `t`, from `at` of sub-group `g` on. */
static int add(const struct shares *s, const struct dsf_source_tensor *t,
               uint32_t g, int64_t at, int64_t n, struct dsflow_err *err)
{
    const struct dsf_torch_node *state =
        s->states == NULL ? NULL : dsf_torch_find_int(s->states, g);
    const struct dsf_torch_node *moment;
    enum dsf_source_state which;
    uint32_t i = 0;
    int status = dsf_pieces_add(s->z->source, t, DSF_SOURCE_WEIGHT, s->file,
                                dsf_torch_item(s->groups, g), at, n, err);

    while (status == DSFLOW_OK &&
           dsf_state_dict_next(state, &i, &which, &moment))
        status =
            dsf_pieces_add(s->z->source, t, which, s->file, moment, at, n, err);
    if (status == DSFLOW_OK && s->states != NULL)
        dsf_state_dict_said(s->z->source, s->file, s->param_groups, state);
    return status;
}

/* The share of `t` begins at `at` of all that a rank has, and may cross from
 * one sub-group into the next. */
static int add_share(const struct shares *s, const struct dsf_source_tensor *t,
                     int64_t at, int64_t n, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (uint32_t g = 0; g < s->groups->n && n > 0 && status == DSFLOW_OK;
         g++) {
        const struct dsf_torch_tensor *tensor;
        int64_t k;

        status = dsf_torch_tensor(s->file, dsf_torch_item(s->groups, g),
                                  &tensor, err);
        if (status < 0)
            break;
        if (at >= tensor->elems) {
            at -= tensor->elems;
            continue;
        }
        k = tensor->elems - at < n ? tensor->elems - at : n;
        status = add(s, t, g, at, k, err);
        n -= k;
        at = 0;
    }
    if (status == DSFLOW_OK && n > 0)
        return dsf_torch_fail(s->file, s->groups, err,
                              "ends before the last %lld elements of %s",
                              (long long)n, t->name);
    return status;
}

/* All parameters in order, as dicts of names and shapes; what every rank has of
 * them. */
static int read_names(struct dsf_zero_source *z,
                      const struct dsf_torch_node *shapes,
                      const struct shares *all, size_t n, int64_t *at,
                      struct dsflow_err *err)
{
    int status = dsf_torch_expect(z->model, shapes, DSF_TORCH_DICT, err);

    for (uint32_t i = 0; status == DSFLOW_OK && i < shapes->n; i++) {
        struct dsf_source_tensor *t;
        const char *name;
        int64_t elems, share;

        status = dsf_torch_str(z->model, dsf_torch_key(shapes, i), &name, err);
        if (status < 0)
            break;
        t = dsf_pieces_tensor(z->source, name);
        status =
            dsf_zero_shape(z, z->model, dsf_torch_value(shapes, i), t, err);
        if (status < 0)
            break;
        elems = dsf_source_elems(t);
        share = (elems + (int64_t)n - 1) / (int64_t)n;
        for (size_t r = 0; r < n && elems > 0 && status == DSFLOW_OK; r++) {
            status =
                add_share(&all[r], t, *at, share < elems ? share : elems, err);
            elems -= share < elems ? share : elems;
        }
        *at += share;
    }
    return status;
}

int dsf_zero_3(struct dsf_zero_source *z, const struct dsf_zero_shards *shards,
               struct dsflow_err *err)
{
    const struct dsf_torch_node *lists;
    struct shares *all = dsf_xcalloc(shards->n, sizeof(*all));
    int64_t at = 0;
    int status = dsf_torch_entry(z->model, z->root, "param_shapes",
                                 DSF_TORCH_LIST, &lists, err);

    for (size_t r = 0; r < shards->n && status == DSFLOW_OK; r++)
        status = open_shares(z, shards, r, &all[r], err);
    for (uint32_t i = 0; status == DSFLOW_OK && i < lists->n; i++)
        status =
            read_names(z, dsf_torch_item(lists, i), all, shards->n, &at, err);
    free(all);
    return status;
}
