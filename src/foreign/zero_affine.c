/* zero_affine.c - maps of AutoTP (checkpoint/affine.py):
 *
 *   affine_map  params  PATTERN  ranks  0  pieces [ shape, source [offset,
 *                                 strides], dest [offset, strides], scale ]
 *
 * Lists of patterns say the same of all models that are known here. */
#include "foreign/zero_affine.h"

#include "foreign/pattern.h"

#include <stdlib.h>

/* The numbers of a piece: in each dimension how many, and how far apart. */
struct piece {
    int64_t shape[8], strides[2][8], offset[2]; /* in the whole, on a rank */
    unsigned ndims;
};

static int take_list(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *n, int64_t v[8],
                     unsigned *count, struct dsflow_err *err)
{
    if (dsf_torch_expect(file, n, DSF_TORCH_LIST, err) < 0)
        return DSFLOW_EINVAL;
    if (n->n > 8)
        return dsf_torch_fail(file, n, err, "%u dimensions: expected at most 8",
                              n->n);
    *count = n->n;
    for (uint32_t i = 0; i < n->n; i++) {
        if (dsf_torch_int(file, dsf_torch_item(n, i), &v[i], err) < 0)
            return DSFLOW_EINVAL;
        if (v[i] < 0 || v[i] > (int64_t)1 << 50)
            return dsf_torch_fail(file, n, err,
                                  "%lld: expected sizes of a tensor",
                                  (long long)v[i]);
    }
    return DSFLOW_OK;
}

static int take_piece(const struct dsf_torch_file *file,
                      const struct dsf_torch_node *n, struct piece *p,
                      struct dsflow_err *err)
{
    static const char *const keys[] = { "source", "dest" };
    const struct dsf_torch_node *x;
    unsigned count;

    if (dsf_torch_entry(file, n, "shape", DSF_TORCH_LIST, &x, err) < 0 ||
        take_list(file, x, p->shape, &p->ndims, err) < 0)
        return DSFLOW_EINVAL;
    for (int k = 0; k < 2; k++) {
        if (dsf_torch_entry(file, n, keys[k], DSF_TORCH_LIST, &x, err) < 0)
            return DSFLOW_EINVAL;
        if (x->n != 2)
            return dsf_torch_fail(file, x, err,
                                  "expected an offset and strides");
        if (dsf_torch_int(file, dsf_torch_item(x, 0), &p->offset[k], err) < 0 ||
            take_list(file, dsf_torch_item(x, 1), p->strides[k], &count, err) <
                0)
            return DSFLOW_EINVAL;
        if (count != p->ndims)
            return dsf_torch_fail(file, x, err, "%u strides of %u dimensions",
                                  count, p->ndims);
    }
    return DSFLOW_OK;
}

/* Is element `from` of the whole element `to` of the rank? */
static bool is_at(const struct dsf_merge *m, int rank, double from, double to)
{
    double whole;
    int64_t there, run;

    if (m->kind != DSF_MERGE_JOIN)
        return from == to;
    whole = (double)m->outer * (double)dsf_merge_length(m) * (double)m->inner;
    if (from < 0 || from >= whole)
        return false;
    return dsf_merge_find(m, (int64_t)from, &there, &run) == rank &&
           to == (double)there;
}

/* The first element of a piece, and the last. */
static bool fits(const struct dsf_merge *m, int rank, const struct piece *p)
{
    double first[2], last[2];

    for (int k = 0; k < 2; k++) {
        first[k] = last[k] = (double)p->offset[k];
        for (unsigned d = 0; d < p->ndims; d++) {
            if (p->shape[d] == 0)
                return true;
            last[k] += (double)(p->shape[d] - 1) * (double)p->strides[k][d];
        }
    }
    return is_at(m, rank, first[0], first[1]) &&
           is_at(m, rank, last[0], last[1]);
}

static int check_piece(const struct dsf_torch_file *file,
                       const struct dsf_torch_node *node, const char *name,
                       const struct dsf_merge *m, int rank,
                       struct dsflow_err *err)
{
    const struct dsf_torch_node *scale = dsf_torch_find(node, "scale");
    struct piece p;
    double x = 1;
    int status = take_piece(file, node, &p, err);
    char *where;

    if (status == DSFLOW_OK && scale != NULL)
        status = dsf_torch_real(file, scale, &x, err);
    if (status < 0 || (x == 1 && fits(m, rank, &p)))
        return status;
    where = dsf_torch_where(file, node);
    status = dsflow_fail(err, DSFLOW_ENOSYS,
                         "%s: %.200s: %s: tensor ranks have it in a layout "
                         "that is not read: expected a universal checkpoint "
                         "(ds_to_universal)",
                         dsf_torch_path(file), where, name);
    free(where);
    return status;
}

static int check_rank(const struct dsf_torch_file *file,
                      const struct dsf_torch_node *ranks, const char *name,
                      const struct dsf_merge *m, int rank,
                      struct dsflow_err *err)
{
    const struct dsf_torch_node *one = dsf_torch_find_int(ranks, rank), *list;
    int status;

    if (one == NULL)
        return DSFLOW_OK;
    status = dsf_torch_entry(file, one, "pieces", DSF_TORCH_LIST, &list, err);
    for (uint32_t i = 0; status == DSFLOW_OK && i < list->n; i++)
        status = check_piece(file, dsf_torch_item(list, i), name, m, rank, err);
    return status;
}

int dsf_zero_check_affine(const struct dsf_zero_source *z, const char *name,
                          const struct dsf_merge *m, struct dsflow_err *err)
{
    const struct dsf_torch_node *maps =
        dsf_torch_find(dsf_torch_find(z->info, "affine_map"), "params");
    const struct dsf_torch_node *map = NULL, *ranks;
    int status = DSFLOW_OK;

    for (uint32_t i = 0; maps != NULL && maps->kind == DSF_TORCH_DICT &&
                         i < maps->n && map == NULL;
         i++) {
        const struct dsf_torch_node *key = dsf_torch_key(maps, i);

        if (key->kind == DSF_TORCH_STR &&
            dsf_pattern_match(key->str, name, NULL) > 0)
            map = dsf_torch_value(maps, i);
    }
    if (map == NULL)
        return DSFLOW_OK;
    status =
        dsf_torch_entry(z->info_of, map, "ranks", DSF_TORCH_DICT, &ranks, err);
    for (int r = 0; r < m->ranks && status == DSFLOW_OK; r++)
        status = check_rank(z->info_of, ranks, name, m, r, err);
    return status;
}
