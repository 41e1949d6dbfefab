/* merge.c - one tensor out of what tensor ranks have of it, a piece at a time:
 * as DeepSpeed's state_dict_factory.py (MegatronSDLoader) and
 * ds_to_universal.py merge it. */
#include "foreign/merge.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 1 << 16 }; /* numbers at a time */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void dsf_merge_join(struct dsf_merge *m, int ranks, unsigned blocks,
                    unsigned dim, unsigned ndims, const int64_t *dims)
{
    size_t nwidths = (size_t)ranks * blocks;

    *m = (struct dsf_merge){ .kind = DSF_MERGE_JOIN,
                             .ranks = ranks,
                             .blocks = blocks,
                             .outer = 1,
                             .inner = 1 };
    for (unsigned d = 0; d < ndims; d++)
        if (d < dim)
            m->outer *= dims[d];
        else if (d > dim)
            m->inner *= dims[d];
    m->widths = dsf_xcalloc(nwidths, sizeof(*m->widths));
    for (size_t i = 0; i < nwidths; i++)
        m->widths[i] = dims[dim] / blocks;
}

void dsf_merge_fini(struct dsf_merge *m)
{
    free(m->widths);
    *m = (struct dsf_merge){ 0 };
}

static int64_t width(const struct dsf_merge *m, unsigned block, int rank)
{
    return m->widths[block * (unsigned)m->ranks + (unsigned)rank];
}

int64_t dsf_merge_share(const struct dsf_merge *m, int rank)
{
    int64_t n = 0;

    for (unsigned b = 0; b < m->blocks; b++)
        n += width(m, b, rank);
    return n;
}

int64_t dsf_merge_length(const struct dsf_merge *m)
{
    int64_t n = 0;

    for (int r = 0; r < m->ranks; r++)
        n += dsf_merge_share(m, r);
    return n;
}

int dsf_merge_find(const struct dsf_merge *m, int64_t at, int64_t *there,
                   int64_t *run)
{
    int64_t whole = dsf_merge_length(m) * m->inner;
    int64_t outer = at / whole, left = at % whole;
    unsigned block = 0;
    int64_t before = 0;
    int rank = 0;

    while (left >= width(m, block, rank) * m->inner) {
        left -= width(m, block, rank) * m->inner;
        if (++rank == m->ranks) {
            rank = 0;
            block++;
        }
    }
    for (unsigned b = 0; b < block; b++)
        before += width(m, b, rank);
    *run = width(m, block, rank) * m->inner - left;
    *there = (outer * dsf_merge_share(m, rank) + before) * m->inner + left;
    return rank;
}

/* Run after run. */
static int read_runs(const struct dsf_merge *m, dsf_merge_fn read, void *of,
                     int64_t first, int64_t n, float *to,
                     struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    while (n > 0 && status == DSFLOW_OK) {
        int64_t there, k;
        int rank = dsf_merge_find(m, first, &there, &k);

        k = least(k, n);
        status = read(of, rank, there, k, to, err);
        first += k;
        to += k;
        n -= k;
    }
    return status;
}

/* The share of `rank` in `n` of the outermost dimension, which `part` has, to
 * its places. */
static void scatter(const struct dsf_merge *m, int rank, int64_t n,
                    const float *part, float *to)
{
    int64_t whole = dsf_merge_length(m) * m->inner;

    for (int64_t i = 0; i < n; i++) {
        float *at = to + i * whole;

        for (unsigned b = 0; b < m->blocks; b++)
            for (int r = 0; r < m->ranks; r++) {
                int64_t k = width(m, b, r) * m->inner;

                if (r == rank) {
                    memcpy(at, part, (size_t)k * sizeof(*at));
                    part += k;
                }
                at += k;
            }
    }
}

/* The whole of `n` of the outermost dimension: some of each rank at a time, as
 * runs may be short. */
static int read_bands(const struct dsf_merge *m, dsf_merge_fn read, void *of,
                      int64_t outer, int64_t n, float *to,
                      struct dsflow_err *err)
{
    int64_t whole = dsf_merge_length(m) * m->inner;
    int64_t band = whole < MOST ? MOST / whole : 1;
    float *part = dsf_xcalloc((size_t)(band * whole), sizeof(*part));
    int status = DSFLOW_OK;

    for (int64_t i = 0; i < n && status == DSFLOW_OK; i += band) {
        int64_t k = least(band, n - i);

        for (int r = 0; r < m->ranks && status == DSFLOW_OK; r++) {
            int64_t share = dsf_merge_share(m, r) * m->inner;

            if (share == 0)
                continue;
            status = read(of, r, (outer + i) * share, k * share, part, err);
            if (status == DSFLOW_OK)
                scatter(m, r, k, part, to + i * whole);
        }
    }
    free(part);
    return status;
}

static int join(const struct dsf_merge *m, dsf_merge_fn read, void *of,
                int64_t first, int64_t n, float *to, struct dsflow_err *err)
{
    int64_t whole = dsf_merge_length(m) * m->inner;
    int status = DSFLOW_OK;

    if (m->outer == 1)
        return read_runs(m, read, of, first, n, to, err);
    while (n > 0 && status == DSFLOW_OK) {
        int64_t k = least(n, whole - first % whole);

        if (first % whole == 0 && n >= whole) {
            k = n / whole * whole;
            status = read_bands(m, read, of, first / whole, n / whole, to, err);
        } else {
            status = read_runs(m, read, of, first, k, to, err);
        }
        first += k;
        to += k;
        n -= k;
    }
    return status;
}

/* What another rank has of the same elements: compared, or added. */
static int take_other(const struct dsf_merge *m, int rank, const float *other,
                      int64_t first, int64_t n, float *to,
                      struct dsflow_err *err)
{
    for (int64_t i = 0; i < n; i++)
        if (m->kind == DSF_MERGE_AVERAGE)
            to[i] += other[i];
        else if (memcmp(&to[i], &other[i], sizeof(*to)) != 0)
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "element %lld is %g on tensor rank 0 and %g on %d: expected "
                "that all have the same",
                (long long)(first + i), (double)to[i], (double)other[i], rank);
    return DSFLOW_OK;
}

static int read_all(const struct dsf_merge *m, dsf_merge_fn read, void *of,
                    int64_t first, int64_t n, float *to, struct dsflow_err *err)
{
    float *other = dsf_xcalloc(MOST, sizeof(*other));
    int status = read(of, 0, first, n, to, err);

    for (int r = 1; r < m->ranks; r++)
        for (int64_t i = 0; i < n && status == DSFLOW_OK; i += MOST) {
            int64_t k = least(MOST, n - i);

            status = read(of, r, first + i, k, other, err);
            if (status == DSFLOW_OK)
                status = take_other(m, r, other, first + i, k, to + i, err);
        }
    for (int64_t i = 0; i < n && m->kind == DSF_MERGE_AVERAGE; i++)
        to[i] /= (float)m->ranks;
    free(other);
    return status;
}

int dsf_merge_read(const struct dsf_merge *m, dsf_merge_fn read, void *of,
                   int64_t first, int64_t n, float *to, struct dsflow_err *err)
{
    switch (m->kind) {
    case DSF_MERGE_FIRST:
        return read(of, 0, first, n, to, err);
    case DSF_MERGE_JOIN:
        return m->ranks == 1 ? read(of, 0, first, n, to, err)
                             : join(m, read, of, first, n, to, err);
    default:
        return read_all(m, read, of, first, n, to, err);
    }
}
