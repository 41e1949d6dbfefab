/* contents_files.c - whole tensors to and from files: what stands as a file has
 * it goes piece by piece, the rest by way of memory. */
#include "train/contents.h"
#include "train/contents_private.h"

#include "base/units.h"
#include "codelets/cast.h"
#include "model/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static bool is_tensors(const struct dsf_contents *c, unsigned kind)
{
    return c->kept->v[kind].kind == DSFLOW_KEPT_TENSORS;
}

/* Do its pieces have the numbers of the file? */
static bool is_as_in_files(const struct dsf_contents *c, unsigned unit,
                           unsigned kind)
{
    return dsf_unit_is_as_in_files(&c->model->units[unit]) &&
           dsf_contents_is_plain(c, unit, kind);
}

static int skip(struct dsf_st_writer *out, int64_t n, struct dsflow_err *err)
{
    return n > 0 ? dsf_st_skip(out, (size_t)n * sizeof(float), err) : DSFLOW_OK;
}

/* The pieces one after the other: a replica begins where another has been.
 * Between them and behind them are zeroes. */
static int write_pieces(struct dsf_contents *c, unsigned unit, unsigned kind,
                        struct dsf_st_writer *out, struct dsflow_err *err)
{
    size_t n, first = dsf_contents_find(c, unit, kind, &n);
    int64_t done = 0;
    int status = DSFLOW_OK;

    for (size_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        const struct dsflow_data_spec *d = dsf_contents_spec(c, i);
        const float *piece;

        if (d->at < done)
            continue;
        piece = dsf_contents_near(c, i, DSFLOW_R, err);
        if (piece == NULL)
            return DSFLOW_EIO;
        status = skip(out, d->at - done, err);
        if (status == DSFLOW_OK)
            status = dsf_st_put(out, piece, d->bytes, err);
        done = d->at + d->elems;
    }
    return status == DSFLOW_OK
               ? skip(out, c->model->units[unit].elems - done, err)
               : status;
}

/* What is kept as it is: one piece of data, or the first of its replicas. */
static int write_one(struct dsf_contents *c, unsigned index, unsigned kind,
                     struct dsf_st_writer *out, struct dsflow_err *err)
{
    size_t n, first = dsf_contents_find(c, index, kind, &n);
    const void *at = dsf_contents_near(c, first, DSFLOW_R, err);

    return at == NULL
               ? DSFLOW_EIO
               : dsf_st_put(out, at, dsf_contents_spec(c, first)->bytes, err);
}

static int read_each(struct dsf_contents *c, unsigned index, unsigned kind,
                     const struct dsf_st_file *file,
                     const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    size_t n, first = dsf_contents_find(c, index, kind, &n);
    int status = DSFLOW_OK;

    for (size_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        void *at = dsf_contents_near(c, i, DSFLOW_W, err);

        if (at == NULL)
            return DSFLOW_EIO;
        status =
            dsf_st_read(file, from, 0, dsf_contents_spec(c, i)->bytes, at, err);
    }
    return status;
}

int dsf_contents_write(struct dsf_contents *c, unsigned unit, unsigned kind,
                       struct dsf_st_writer *out, struct dsflow_err *err)
{
    const struct dsf_unit *u;
    float *whole;
    int status;

    if (!is_tensors(c, kind))
        return write_one(c, unit, kind, out, err);
    u = &c->model->units[unit];
    if (is_as_in_files(c, unit, kind))
        return write_pieces(c, unit, kind, out, err);
    status = dsf_unit_alloc(c->model, unit, &whole, err);
    if (status < 0)
        return status;
    status = dsf_contents_get(c, unit, kind, whole, err);
    if (status == DSFLOW_OK) {
        dsf_unit_to_file(u, whole);
        status =
            dsf_st_put(out, whole, (size_t)u->file_elems * sizeof(*whole), err);
    }
    free(whole);
    return status;
}

/* The holding that piece `p` is of. */
static size_t holding_of(const struct dsf_contents *c,
                         const struct dsf_piece *p)
{
    size_t n, first = dsf_contents_find(c, p->unit, p->kind, &n), i = first;

    for (; i < first + n; i++) {
        const struct dsflow_data_spec *d = dsf_contents_spec(c, i);

        if (d->part == p->part && d->at <= p->at &&
            p->at + p->elems <= d->at + d->elems)
            break;
    }
    assert(i < first + n);
    return i;
}

/* Pieces that have the numbers of the file. */
static int write_plain(struct dsf_contents *c, const struct dsf_piece *pieces,
                       size_t n, size_t bytes, struct dsf_st_writer *out,
                       struct dsflow_err *err)
{
    size_t mapped = SIZE_MAX, done = 0;
    const float *at = NULL;
    int status = DSFLOW_OK;

    for (size_t i = 0; i < n && status == DSFLOW_OK; i++) {
        size_t holding = holding_of(c, &pieces[i]);
        size_t from = (size_t)pieces[i].at * sizeof(*at);
        size_t own = (size_t)pieces[i].elems * sizeof(*at);

        if (holding != mapped)
            at = dsf_contents_near(c, holding, DSFLOW_R, err);
        mapped = holding;
        if (at == NULL)
            return DSFLOW_EIO;
        status = dsf_st_skip(out, from - done, err);
        if (status == DSFLOW_OK)
            status = dsf_st_put(
                out, at + (pieces[i].at - dsf_contents_spec(c, holding)->at),
                own, err);
        done = from + own;
    }
    return status == DSFLOW_OK ? dsf_st_skip(out, bytes - done, err) : status;
}

/* The numbers of the pieces of a part into `own`, and where they are as 1 into
 * `marks`. */
static int get_some(struct dsf_contents *c, int32_t part,
                    const struct dsf_piece *pieces, size_t n, float *own,
                    float *marks, struct dsflow_err *err)
{
    size_t mapped = SIZE_MAX;

    for (size_t i = 0; i < n; i++) {
        size_t holding;

        if (pieces[i].part != part)
            continue;
        holding = holding_of(c, &pieces[i]);
        if (holding != mapped) {
            const struct dsflow_data_spec *d = dsf_contents_spec(c, holding);
            const void *at = dsf_contents_near(c, holding, DSFLOW_R, err);

            if (at == NULL)
                return DSFLOW_EIO;
            dsf_unpack(d->dtype, at, own + d->at, (size_t)d->elems);
            mapped = holding;
        }
        for (int64_t k = 0; k < pieces[i].elems; k++)
            marks[pieces[i].at + k] = 1;
    }
    return DSFLOW_OK;
}

/* The same, as they are in the whole unit. */
static int get_some_of_part(struct dsf_contents *c, int32_t p,
                            const struct dsf_piece *pieces, size_t n,
                            float *whole, float *marks, struct dsflow_err *err)
{
    struct dsf_part part;
    float *own, *own_marks;
    int status;

    dsf_part_init(&part, c->model, c->tensor, pieces[0].unit, p);
    if (part.elems == 0)
        return DSFLOW_OK;
    own = calloc((size_t)part.elems, sizeof(*own));
    own_marks = calloc((size_t)part.elems, sizeof(*own));
    if (own == NULL || own_marks == NULL)
        status = dsflow_fail(
            err, DSFLOW_ENOMEM, "memory: %s for a part of unit %s",
            dsf_size_text(2.0 * (double)part.elems * sizeof(*own)).s,
            c->model->units[pieces[0].unit].name);
    else
        status = get_some(c, p, pieces, n, own, own_marks, err);
    if (status == DSFLOW_OK) {
        dsf_part_merge(&part, own, whole);
        dsf_part_merge(&part, own_marks, marks);
    }
    free(own);
    free(own_marks);
    return status;
}

/* What is marked. */
static int write_marked(const float *whole, const float *marks, size_t n,
                        struct dsf_st_writer *out, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (size_t i = 0, end; i < n && status == DSFLOW_OK; i = end) {
        for (end = i + 1; end < n && marks[end] == marks[i];)
            end++;
        status =
            marks[i] == 0
                ? dsf_st_skip(out, (end - i) * sizeof(*whole), err)
                : dsf_st_put(out, whole + i, (end - i) * sizeof(*whole), err);
    }
    return status;
}

int dsf_contents_write_some(struct dsf_contents *c, unsigned unit,
                            unsigned kind, const struct dsf_piece *pieces,
                            size_t n, size_t bytes, struct dsf_st_writer *out,
                            struct dsflow_err *err)
{
    const struct dsf_unit *u;
    float *whole = NULL, *marks = NULL;
    int status;

    if (n == 0)
        return dsf_st_skip(out, bytes, err);
    if (!is_tensors(c, kind))
        return write_one(c, unit, kind, out, err);
    if (is_as_in_files(c, unit, kind))
        return write_plain(c, pieces, n, bytes, out, err);
    u = &c->model->units[unit];
    status = dsf_unit_alloc(c->model, unit, &whole, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_alloc(c->model, unit, &marks, err);
    if (status < 0)
        goto out_free;
    memset(whole, 0, (size_t)u->elems * sizeof(*whole));
    memset(marks, 0, (size_t)u->elems * sizeof(*marks));
    if (c->tensor == 1)
        status = get_some(c, 0, pieces, n, whole, marks, err);
    for (int32_t p = 0; c->tensor > 1 && p <= c->tensor; p++)
        if (status == DSFLOW_OK)
            status = get_some_of_part(c, p, pieces, n, whole, marks, err);
    if (status == DSFLOW_OK) {
        dsf_unit_to_file(u, whole);
        dsf_unit_to_file(u, marks);
        status = write_marked(whole, marks, (size_t)u->file_elems, out, err);
    }
out_free:
    free(marks);
    free(whole);
    return status;
}

/* Each piece from its place in the file. */
static int read_pieces(struct dsf_contents *c, unsigned unit, unsigned kind,
                       const struct dsf_st_file *file,
                       const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    size_t n, first = dsf_contents_find(c, unit, kind, &n);
    int status = DSFLOW_OK;

    for (size_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        const struct dsflow_data_spec *d = dsf_contents_spec(c, i);
        float *piece = dsf_contents_near(c, i, DSFLOW_W, err);

        if (piece == NULL)
            return DSFLOW_EIO;
        status = dsf_st_read(file, from, (size_t)d->at * sizeof(*piece),
                             d->bytes, piece, err);
    }
    return status;
}

int dsf_contents_read(struct dsf_contents *c, unsigned unit, unsigned kind,
                      const struct dsf_st_file *file,
                      const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    float *whole;
    size_t n;
    int status;

    dsf_contents_find(c, unit, kind, &n);
    if (n == 0)
        return DSFLOW_OK;
    if (!is_tensors(c, kind))
        return read_each(c, unit, kind, file, from, err);
    if (is_as_in_files(c, unit, kind))
        return read_pieces(c, unit, kind, file, from, err);
    status = dsf_unit_alloc(c->model, unit, &whole, err);
    if (status < 0)
        return status;
    status = dsf_st_read(file, from, 0, from->bytes, whole, err);
    if (status == DSFLOW_OK)
        dsf_unit_from_file(&c->model->units[unit], whole);
    if (status == DSFLOW_OK)
        status = dsf_contents_put(c, unit, kind, whole, err);
    free(whole);
    return status;
}
