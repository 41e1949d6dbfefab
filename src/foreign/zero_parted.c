/* zero_parted.c - a tensor in parts, such as queries, keys and values, of each
 * of which tensor ranks have shares: parameter_with_sub_params. */
#include "foreign/zero_joining.h"

#include "base/alloc.h"

#include <string.h>

enum { MOST_BLOCKS = 64 };
static const int64_t most = (int64_t)1 << 50; /* numbers of a tensor */

int dsf_parted_find(const struct dsf_joining *g, struct dsf_parted *p,
                    struct dsflow_err *err)
{
    const struct dsf_torch_file *file = g->z->info_of;
    const struct dsf_torch_node *list = dsf_torch_find(
                                    g->z->info, "parameter_with_sub_params"),
                                *dim;
    int found = 0;

    for (uint32_t i = 0; list != NULL && list->kind == DSF_TORCH_LIST &&
                         i < list->n && found == 0;
         i++) {
        p->at = dsf_torch_item(list, i);
        found = dsf_joining_matches(g, dsf_torch_find(p->at, "patterns"),
                                    &p->pattern, err);
    }
    if (found <= 0)
        return found;
    if (dsf_torch_entry(file, p->at, "shape", DSF_TORCH_LIST, &p->shape, err) <
            0 ||
        dsf_torch_entry(file, p->at, "partition_dim", DSF_TORCH_INT, &dim,
                        err) < 0 ||
        dsf_torch_int(file, dim, &p->dim, err) < 0)
        return DSFLOW_EINVAL;
    if (p->shape->n < 1 || p->shape->n > 8 || p->dim < 0 ||
        p->dim >= (int64_t)p->shape->n)
        return dsf_torch_fail(file, p->at, err,
                              "partition_dim %lld of %u dimensions: expected "
                              "one of 1 to 8",
                              (long long)p->dim, p->shape->n);
    return 1;
}

static bool is_list(const struct dsf_torch_node *n)
{
    return n != NULL &&
           (n->kind == DSF_TORCH_LIST || n->kind == DSF_TORCH_TUPLE);
}

/* A number of the shape; of several, their sum. */
static int sum_of(const struct dsf_joining *g, const struct dsf_torch_node *n,
                  int64_t *sum, struct dsflow_err *err)
{
    int64_t x;

    if (!is_list(n))
        return dsf_torch_int(g->z->info_of, n, sum, err);
    *sum = 0;
    for (uint32_t i = 0; i < n->n; i++) {
        if (dsf_torch_int(g->z->info_of, dsf_torch_item(n, i), &x, err) < 0)
            return DSFLOW_EINVAL;
        if (x < 0 || x > most || *sum > most)
            return dsf_torch_fail(g->z->info_of, n, err,
                                  "%lld: expected sizes of tensors",
                                  (long long)x);
        *sum += x;
    }
    return DSFLOW_OK;
}

/* The shape as numbers; one that is negative is what is left of `elems`. The
 * parted one is `length`. */
static int shape_of(const struct dsf_joining *g, const struct dsf_parted *p,
                    int64_t elems, int64_t length, int64_t dims[8],
                    struct dsflow_err *err)
{
    int64_t known = 1;
    int open = -1;

    for (uint32_t d = 0; d < p->shape->n; d++) {
        if (d == p->dim)
            dims[d] = length;
        else if (sum_of(g, dsf_torch_item(p->shape, d), &dims[d], err) < 0)
            return DSFLOW_EINVAL;
        if (dims[d] < 0 && open < 0) {
            open = (int)d;
            continue;
        }
        if (dims[d] < 1 || known > most / dims[d])
            return dsf_torch_fail(g->z->info_of, p->shape, err,
                                  "%lld: expected sizes of %s",
                                  (long long)dims[d], g->name);
        known *= dims[d];
    }
    if (open >= 0)
        dims[open] = elems / known;
    if ((open >= 0 && elems % known != 0) || (open < 0 && known != elems))
        return dsf_torch_fail(g->z->info_of, p->shape, err,
                              "%s has %lld numbers: expected those of this "
                              "shape",
                              g->name, (long long)elems);
    return DSFLOW_OK;
}

/* What each rank has of each part: as it is said, or equal shares. */
static int widths_of(const struct dsf_joining *g, const struct dsf_parted *p,
                     int64_t elems, unsigned blocks,
                     const struct dsf_torch_node *sizes, int64_t *widths,
                     struct dsflow_err *err)
{
    const struct dsf_torch_file *file = g->z->info_of;
    const struct dsf_torch_node *said = dsf_torch_find(
        dsf_torch_find(g->z->info, "sub_param_shard_widths"), p->pattern->str);
    int64_t rank0 = dsf_joining_rank(g, 0)->ndims > p->dim
                        ? dsf_joining_rank(g, 0)->dims[p->dim]
                        : dsf_source_elems(dsf_joining_rank(g, 0));
    int n = g->j->n;

    for (unsigned b = 0; b < blocks; b++)
        for (int r = 0; r < n; r++) {
            int64_t *w = &widths[b * (unsigned)n + (unsigned)r], size;
            const struct dsf_torch_node *row =
                is_list(said) && b < said->n ? dsf_torch_item(said, b) : NULL;
            int status = DSFLOW_OK;

            if (is_list(row) && r < (int)row->n) {
                status = dsf_torch_int(file, dsf_torch_item(row, (uint32_t)r),
                                       w, err);
            } else if (said != NULL) {
                return dsf_torch_fail(file, said, err,
                                      "expected a width of each of %d ranks, "
                                      "of %u parts",
                                      n, blocks);
            } else if (is_list(sizes)) {
                status =
                    dsf_torch_int(file, dsf_torch_item(sizes, b), &size, err);
                *w = size / n;
                if (status == DSFLOW_OK && size % n != 0)
                    return dsf_torch_fail(file, sizes, err,
                                          "%lld: expected a multiple of the %d "
                                          "ranks",
                                          (long long)size, n);
            } else {
                *w = rank0 / blocks;
            }
            if (status < 0)
                return status;
            if (*w < 0 || *w > elems)
                return dsf_torch_fail(file, p->at, err,
                                      "a width of %lld: %s has %lld numbers",
                                      (long long)*w, g->name, (long long)elems);
        }
    return DSFLOW_OK;
}

int dsf_parted_join(const struct dsf_joining *g, const struct dsf_parted *p,
                    struct dsflow_err *err)
{
    const struct dsf_torch_node *sizes =
        dsf_torch_item(p->shape, (uint32_t)p->dim);
    struct dsf_merge *m = &g->of->merge;
    int64_t elems = 0, blocks, dims[8];
    int status = DSFLOW_OK;

    for (int r = 0; r < g->j->n; r++)
        elems += dsf_source_elems(dsf_joining_rank(g, r));
    blocks = is_list(sizes) ? sizes->n : 0;
    if (!is_list(sizes))
        status = dsf_torch_int(g->z->info_of, sizes, &blocks, err);
    if (status == DSFLOW_OK && (blocks < 1 || blocks > MOST_BLOCKS))
        status = dsf_torch_fail(g->z->info_of, p->shape, err,
                                "%lld parts: expected 1 to %d",
                                (long long)blocks, MOST_BLOCKS);
    if (status < 0)
        return status;
    *m = (struct dsf_merge){ .kind = DSF_MERGE_JOIN,
                             .ranks = g->j->n,
                             .blocks = (unsigned)blocks,
                             .outer = 1,
                             .inner = 1 };
    m->widths = dsf_xcalloc((size_t)(blocks * g->j->n), sizeof(*m->widths));
    status = widths_of(g, p, elems, (unsigned)blocks, sizes, m->widths, err);
    if (status == DSFLOW_OK)
        status = shape_of(g, p, elems, dsf_merge_length(m), dims, err);
    if (status < 0)
        return status;
    for (uint32_t d = 0; d < p->shape->n; d++)
        if (d < p->dim)
            m->outer *= dims[d];
        else if (d > p->dim)
            m->inner *= dims[d];
    for (int r = 0; r < g->j->n; r++)
        if (m->outer * dsf_merge_share(m, r) * m->inner !=
            dsf_source_elems(dsf_joining_rank(g, r)))
            return dsf_joining_fail(g, r, "what its widths say", err);
    if (g->t->ndims == p->shape->n)
        memcpy(g->t->dims, dims, p->shape->n * sizeof(*dims));
    else /* the shape is a view */
        g->t->dims[0] = elems / (dsf_source_elems(g->t) / g->t->dims[0]);
    return DSFLOW_OK;
}
