/* contents.c - whole tensors from replicas, shards and pieces, and back. */
#include "train/contents.h"

#include "base/alloc.h"
#include "base/units.h"
#include "codelets/cast.h"
#include "exec/exec_memory.h"
#include "model/parts.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Of which of the things of its kind a piece of data is: a unit, a rank or a
 * worker. */
static uint32_t index_of(const struct dsflow_kept *kept,
                         const struct dsflow_data_spec *d)
{
    switch (kept->kind) {
    case DSFLOW_KEPT_BY_RANK:
        return (uint32_t)d->home;
    case DSFLOW_KEPT_BY_WORKER:
        return (uint32_t)d->home << 16 | (uint32_t)d->part;
    case DSFLOW_KEPT_ONE:
        return 0;
    default:
        return (uint32_t)d->unit;
    }
}

static int by_place(const void *a, const void *b)
{
    const struct dsf_holding *x = a, *y = b;

    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->id.i < y->id.i ? -1 : x->id.i > y->id.i;
}

void dsf_contents_init(struct dsf_contents *c, const struct dsf_model *model,
                       struct dsflow_graph *graph, struct dsflow_exec *exec,
                       const struct dsf_kept_list *kept, int32_t tensor)
{
    *c = (struct dsf_contents){ .model = model,
                                .graph = graph,
                                .exec = exec,
                                .kept = kept,
                                .tensor = tensor };
    for (uint32_t i = 0; i < dsflow_graph_ndata(graph); i++) {
        dsflow_data_id id = { i };
        const struct dsflow_data_spec *d = dsflow_graph_data(graph, id);
        if (!d->persistent || d->kept == 0 || d->kept > kept->n)
            continue;
        dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
        c->v[c->n++] = (struct dsf_holding){
            index_of(&kept->v[d->kept - 1], d), d->kept - 1u, d->part, d->at, id
        };
    }
    if (c->n > 0)
        qsort(c->v, c->n, sizeof(*c->v), by_place);
}

void dsf_contents_fini(struct dsf_contents *c)
{
    free(c->v);
    *c = (struct dsf_contents){ 0 };
}

/* The first piece of a unit, and how many there are. */
static size_t find(const struct dsf_contents *c, unsigned unit, unsigned kind,
                   size_t *n)
{
    size_t low = 0, high = c->n, end;

    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct dsf_holding *h = &c->v[mid];

        if (h->unit < unit || (h->unit == unit && h->kind < (uint32_t)kind))
            low = mid + 1;
        else
            high = mid;
    }
    for (end = low; end < c->n && c->v[end].unit == unit &&
                    c->v[end].kind == (uint32_t)kind;)
        end++;
    *n = end - low;
    return low;
}

static const struct dsflow_data_spec *spec_of(const struct dsf_contents *c,
                                              size_t i)
{
    return dsflow_graph_data(c->graph, c->v[i].id);
}

static bool is_tensors(const struct dsf_contents *c, unsigned kind)
{
    return c->kept->v[kind].kind == DSFLOW_KEPT_TENSORS;
}

/* Do its pieces have the numbers of the whole? */
static bool is_plain(const struct dsf_contents *c, unsigned unit,
                           unsigned kind)
{
    size_t n, first = find(c, unit, kind, &n);

    for (size_t i = first; i < first + n; i++)
        if (spec_of(c, i)->dtype != DSFLOW_FP32)
            return false;
    return c->tensor == 1;
}

/* The same, as they are in files? */
static bool is_as_in_files(const struct dsf_contents *c, unsigned unit,
                           unsigned kind)
{
    return dsf_unit_is_as_in_files(&c->model->units[unit]) &&
           is_plain(c, unit, kind);
}

/* The memory of a holding; NULL with a message. On NVMe, until the next one. */
static float *map(struct dsf_contents *c, size_t i, enum dsflow_access access,
                  struct dsflow_err *err)
{
    float *at = dsflow_exec_map(c->exec, c->v[i].id, access);

    if (at == NULL && dsflow_exec_failed(c->exec, err) == DSFLOW_OK)
        dsflow_fail(err, DSFLOW_EIO, "%s: is not in reach",
                    spec_of(c, i)->name);
    return at;
}

bool dsf_contents_stands(const struct dsf_contents *c, unsigned unit,
                         unsigned kind)
{
    size_t n, at = find(c, unit, kind, &n);

    return n == 1 && is_plain(c, unit, kind) &&
           dsf_exec_is_near(c->exec, c->v[at].id);
}

void *dsf_contents_map(struct dsf_contents *c, unsigned unit, unsigned kind,
                       enum dsflow_access access)
{
    size_t n;

    return dsflow_exec_map(c->exec, c->v[find(c, unit, kind, &n)].id, access);
}

/* Copy between the pieces of a part and its numbers in one buffer. */
static int move(struct dsf_contents *c, unsigned unit, unsigned kind,
                int32_t part, float *own, bool get, struct dsflow_err *err)
{
    /* What was unpacked is packed again as it was. */
    const struct dsf_rounding nearest = { .nearest = 1 };
    size_t n, at = find(c, unit, kind, &n);

    for (size_t i = at; i < at + n; i++) {
        const struct dsflow_data_spec *d = spec_of(c, i);
        size_t elems = (size_t)d->elems;
        void *piece;

        if (d->part != part)
            continue;
        piece = map(c, i, get ? DSFLOW_R : DSFLOW_W, err);
        if (piece == NULL)
            return DSFLOW_EIO;
        if (get)
            dsf_unpack(d->dtype, piece, own + d->at, elems);
        else
            dsf_pack(d->dtype, &nearest, own + d->at, piece, elems);
    }
    return DSFLOW_OK;
}

/* The same of one of the parts of a unit. */
static int move_part(struct dsf_contents *c, unsigned unit, unsigned kind,
                     int32_t p, float *whole, bool get, struct dsflow_err *err)
{
    struct dsf_part part;
    float *own;
    int status;

    dsf_part_init(&part, c->model, c->tensor, unit, p);
    if (part.elems == 0)
        return DSFLOW_OK;
    /* There is none of a part where nobody needs it: those are zeroes. */
    own = calloc((size_t)part.elems, sizeof(*own));
    if (own == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %s for a part of unit %s",
                           dsf_size_text((double)part.elems * sizeof(*own)).s,
                           c->model->units[unit].name);
    if (!get)
        dsf_part_split(&part, whole, own);
    status = move(c, unit, kind, p, own, get, err);
    if (get && status == DSFLOW_OK)
        dsf_part_merge(&part, own, whole);
    free(own);
    return status;
}

static int move_unit(struct dsf_contents *c, unsigned unit, unsigned kind,
                     float *whole, bool get, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    /* What nobody needs is not kept: that is zeroes. */
    if (get)
        memset(whole, 0, (size_t)c->model->units[unit].elems * sizeof(*whole));
    if (c->tensor == 1)
        return move(c, unit, kind, 0, whole, get, err);
    for (int32_t p = 0; p <= c->tensor && status == DSFLOW_OK; p++)
        status = move_part(c, unit, kind, p, whole, get, err);
    return status;
}

int dsf_contents_get(struct dsf_contents *c, unsigned unit, unsigned kind,
                     float *whole, struct dsflow_err *err)
{
    return move_unit(c, unit, kind, whole, true, err);
}

int dsf_contents_put(struct dsf_contents *c, unsigned unit, unsigned kind,
                     const float *whole, struct dsflow_err *err)
{
    return move_unit(c, unit, kind, (float *)whole, false, err);
}

int dsf_contents_fill(struct dsf_contents *c, unsigned unit, unsigned kind,
                      dsf_unit_fn read, void *user, struct dsflow_err *err)
{
    size_t n, at = find(c, unit, kind, &n);
    float *whole;
    int status;

    if (n == 0)
        return DSFLOW_OK;
    /* Of several processes, this one may have a shard of it. */
    if (n == 1 && is_plain(c, unit, kind) &&
        spec_of(c, at)->elems == c->model->units[unit].elems) {
        whole = map(c, at, DSFLOW_W, err);
        return whole == NULL ? DSFLOW_EIO : read(user, unit, whole, err);
    }
    status = dsf_unit_alloc(c->model, unit, &whole, err);
    if (status < 0)
        return status;
    status = read(user, unit, whole, err);
    if (status == DSFLOW_OK)
        status = dsf_contents_put(c, unit, kind, whole, err);
    free(whole);
    return status;
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
    size_t n, first = find(c, unit, kind, &n);
    int64_t done = 0;
    int status = DSFLOW_OK;

    for (size_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        const struct dsflow_data_spec *d = spec_of(c, i);
        const float *piece;

        if (d->at < done)
            continue;
        piece = map(c, i, DSFLOW_R, err);
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
    size_t n, first = find(c, index, kind, &n);
    const void *at = map(c, first, DSFLOW_R, err);

    return at == NULL
               ? DSFLOW_EIO
               : dsf_st_put(out, at, spec_of(c, first)->bytes, err);
}

static int read_each(struct dsf_contents *c, unsigned index, unsigned kind,
                     const struct dsf_st_file *file,
                     const struct dsf_st_tensor *from, struct dsflow_err *err)
{
    size_t n, first = find(c, index, kind, &n);
    int status = DSFLOW_OK;

    for (size_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        void *at = map(c, i, DSFLOW_W, err);

        if (at == NULL)
            return DSFLOW_EIO;
        status = dsf_st_read(file, from, 0, spec_of(c, i)->bytes, at, err);
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
        status = dsf_st_put(out, whole, (size_t)u->file_elems * sizeof(*whole),
                            err);
    }
    free(whole);
    return status;
}

/* The holding that piece `p` is of. */
static size_t holding_of(const struct dsf_contents *c,
                         const struct dsf_piece *p)
{
    size_t n, first = find(c, p->unit, p->kind, &n), i = first;

    for (; i < first + n; i++) {
        const struct dsflow_data_spec *d = spec_of(c, i);

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
            at = map(c, holding, DSFLOW_R, err);
        mapped = holding;
        if (at == NULL)
            return DSFLOW_EIO;
        status = dsf_st_skip(out, from - done, err);
        if (status == DSFLOW_OK)
            status = dsf_st_put(
                out, at + (pieces[i].at - spec_of(c, holding)->at), own, err);
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
            const struct dsflow_data_spec *d = spec_of(c, holding);
            const void *at = map(c, holding, DSFLOW_R, err);

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
    size_t n, first = find(c, unit, kind, &n);
    int status = DSFLOW_OK;

    for (size_t i = first; i < first + n && status == DSFLOW_OK; i++) {
        const struct dsflow_data_spec *d = spec_of(c, i);
        float *piece = map(c, i, DSFLOW_W, err);

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

    find(c, unit, kind, &n);
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
