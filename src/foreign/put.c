/* put.c - the numbers of a source into a file, in bounded memory. */
#include "foreign/put.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 1 << 20 }; /* numbers in memory at a time */

int dsf_put_zeroes(struct dsf_st_writer *out, int64_t n, struct dsflow_err *err)
{
    static const float zeroes[4096];
    int status = DSFLOW_OK;

    while (n > 0 && status == DSFLOW_OK) {
        int64_t k = n < 4096 ? n : 4096;

        status = dsf_st_put(out, zeroes, (size_t)k * sizeof(float), err);
        n -= k;
    }
    return status;
}

/* One state of one tensor of the job, on its way. */
struct passing {
    struct dsf_source *from;
    const struct dsf_match *match;
    enum dsf_source_state state;
    struct dsf_st_writer *out;
};

/* Elements [first, first + n) as the source has them, all of them finite. */
static int fetch(const struct passing *p, int64_t first, int64_t n, float *to,
                 struct dsflow_err *err)
{
    int status = p->from->read(p->from, p->match->from, p->state, first,
                               (size_t)n, to, err);

    for (int64_t i = 0; i < n && status == DSFLOW_OK; i++)
        if (!isfinite(to[i]))
            status = dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: %s: element %lld of its %s is %s: expected finite numbers",
                p->from->path, p->match->from->name, (long long)(first + i),
                dsf_source_state_str(p->state),
                isnan(to[i]) ? "nan" : "infinite");
    return status;
}

static int put_rows(const struct passing *p, int64_t cols, float *block,
                    struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (size_t i = 0; i < p->match->nruns && status == DSFLOW_OK; i++) {
        int64_t at = p->match->runs[i].from * cols;
        int64_t left = p->match->runs[i].rows * cols;

        while (left > 0 && status == DSFLOW_OK) {
            int64_t n = left < BLOCK ? left : BLOCK;

            status = fetch(p, at, n, block, err);
            if (status == DSFLOW_OK)
                status =
                    dsf_st_put(p->out, block, (size_t)n * sizeof(float), err);
            at += n;
            left -= n;
        }
    }
    return status;
}

/* The source has [cols][rows]: bands of rows, each as wide as the memory
 * allows, are read as pieces of its rows. */
static int put_flipped(const struct passing *p, const struct dsf_tensor *t,
                       struct dsflow_err *err)
{
    int64_t band = BLOCK / t->cols < 1 ? 1 : BLOCK / t->cols;
    float *flipped = dsf_xcalloc((size_t)(band * t->cols), sizeof(*flipped));
    float *row = dsf_xcalloc((size_t)band, sizeof(*row));
    int status = DSFLOW_OK;

    for (int64_t r = 0; r < t->rows && status == DSFLOW_OK; r += band) {
        int64_t n = t->rows - r < band ? t->rows - r : band;

        for (int64_t c = 0; c < t->cols && status == DSFLOW_OK; c++) {
            status = fetch(p, c * t->rows + r, n, row, err);
            for (int64_t i = 0; i < n; i++)
                flipped[i * t->cols + c] = row[i];
        }
        if (status == DSFLOW_OK)
            status = dsf_st_put(p->out, flipped,
                                (size_t)(n * t->cols) * sizeof(float), err);
    }
    free(row);
    free(flipped);
    return status;
}

int dsf_put_unit(struct dsf_source *from, const struct dsf_matches *matches,
                 unsigned u, enum dsf_source_state state,
                 struct dsf_st_writer *out, struct dsflow_err *err)
{
    const struct dsf_unit *unit = &matches->model->units[u];
    float *block = dsf_xcalloc(BLOCK, sizeof(*block));
    int64_t done = 0;
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < unit->ntensors && status == DSFLOW_OK; i++) {
        const struct dsf_tensor *t = &unit->tensors[i];
        const struct passing p = { from, &matches->units[u][i], state, out };
        int64_t n = t->rows * t->cols;

        status = dsf_put_zeroes(out, t->file_offset - done, err);
        if (status == DSFLOW_OK && (p.match->from->has & 1u << state) == 0)
            status = dsf_put_zeroes(out, n, err); /* it was not trained */
        else if (status == DSFLOW_OK && p.match->transposed)
            status = put_flipped(&p, t, err);
        else if (status == DSFLOW_OK)
            status = put_rows(&p, t->vector ? 1 : t->cols, block, err);
        done = t->file_offset + n;
    }
    if (status == DSFLOW_OK)
        status = dsf_put_zeroes(out, unit->file_elems - done, err);
    free(block);
    return status;
}
