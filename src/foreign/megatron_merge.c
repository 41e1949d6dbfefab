/* megatron_merge.c - one tensor out of what tensor ranks have of it, as
 * DeepSpeed's state_dict_factory.py (MegatronSDLoader) merges it, a piece at a
 * time. */
#include "foreign/megatron_private.h"

#include "base/alloc.h"

#include <stdlib.h>

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int read_shard(const struct dsf_shared *t, int64_t rank,
                      enum dsf_source_state state, int64_t at, int64_t n,
                      float *to, struct dsflow_err *err)
{
    const struct dsf_shard *shard = &t->shards[rank];

    return dsf_torch_read_f32(shard->file, shard->state[state], at, n, to, err);
}

/* Block after block, and of each the rows of rank after rank. */
static int read_rows(const struct dsf_shared *t, enum dsf_source_state state,
                     int64_t first, int64_t n, float *to,
                     struct dsflow_err *err)
{
    int64_t each = t->rows / t->blocks * t->cols; /* of a rank in a block */
    int status = DSFLOW_OK;

    while (n > 0 && status == DSFLOW_OK) {
        int64_t block = first / (each * t->ranks);
        int64_t in_block = first % (each * t->ranks);
        int64_t k = least(n, each - in_block % each);

        status = read_shard(t, in_block / each, state,
                            block * each + in_block % each, k, to, err);
        first += k;
        to += k;
        n -= k;
    }
    return status;
}

/* A part of one row. */
static int read_in_row(const struct dsf_shared *t, enum dsf_source_state state,
                       int64_t row, int64_t col, int64_t n, float *to,
                       struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    while (n > 0 && status == DSFLOW_OK) {
        int64_t at = col % t->cols, k = least(n, t->cols - at);

        status =
            read_shard(t, col / t->cols, state, row * t->cols + at, k, to, err);
        col += k;
        to += k;
        n -= k;
    }
    return status;
}

/* Whole rows: some of each rank at a time. */
static int read_whole_rows(const struct dsf_shared *t,
                           enum dsf_source_state state, int64_t row, int64_t n,
                           float *to, struct dsflow_err *err)
{
    enum { MOST = 1 << 16 }; /* numbers at a time */
    int64_t width = t->cols * t->ranks;
    int64_t band = t->cols < MOST ? MOST / t->cols : 1;
    float *part = dsf_xcalloc((size_t)(band * t->cols), sizeof(*part));
    int status = DSFLOW_OK;

    for (int64_t r = 0; r < n && status == DSFLOW_OK; r += band) {
        int64_t k = least(band, n - r);

        for (int64_t rank = 0; rank < t->ranks && status == DSFLOW_OK; rank++) {
            status = read_shard(t, rank, state, (row + r) * t->cols,
                                k * t->cols, part, err);
            for (int64_t i = 0; i < k; i++)
                for (int64_t c = 0; c < t->cols; c++)
                    to[(r + i) * width + rank * t->cols + c] =
                        part[i * t->cols + c];
        }
    }
    free(part);
    return status;
}

static int read_columns(const struct dsf_shared *t, enum dsf_source_state state,
                        int64_t first, int64_t n, float *to,
                        struct dsflow_err *err)
{
    int64_t width = t->cols * t->ranks;
    int status = DSFLOW_OK;

    while (n > 0 && status == DSFLOW_OK) {
        int64_t row = first / width, col = first % width;
        int64_t k = least(n, width - col);

        if (col == 0 && n >= width) {
            k = n / width * width;
            status = read_whole_rows(t, state, row, n / width, to, err);
        } else {
            status = read_in_row(t, state, row, col, k, to, err);
        }
        first += k;
        to += k;
        n -= k;
    }
    return status;
}

int dsf_shared_read(const struct dsf_shared *t, enum dsf_source_state state,
                    int64_t first, int64_t n, float *to, struct dsflow_err *err)
{
    if (t->split == DSF_SPLIT_NONE || t->ranks == 1)
        return read_shard(t, 0, state, first, n, to, err);
    return t->split == DSF_SPLIT_ROWS
               ? read_rows(t, state, first, n, to, err)
               : read_columns(t, state, first, n, to, err);
}
