/* pieces.c - tensors in pieces, read in order. */
#include "foreign/pieces.h"

#include "base/alloc.h"
#include "base/units.h"

#include <stdlib.h>
#include <string.h>

static void close_pieces(struct dsf_source *s)
{
    struct dsf_tensor_pieces *p = s->of;

    for (size_t i = 0; i < p->n; i++)
        for (unsigned k = 0; k < DSF_SOURCE_STATES; k++) {
            const struct dsf_pieces_list *list = &p->v[i].states[k];

            for (size_t j = 0; j < list->n; j++)
                free(list->v[j].path);
            free(list->v);
        }
    dsf_torch_close(p->last_file);
    for (size_t i = 0; i < p->nfiles; i++)
        dsf_torch_close(p->files[i]);
    free(p->v);
    free(p->files);
    free(p);
}

int dsf_pieces_alone(const struct dsf_torch_file *file,
                     const struct dsf_torch_tensor **tensor,
                     struct dsflow_err *err)
{
    const struct dsf_torch_node *root = dsf_torch_root(file);

    if (root->kind == DSF_TORCH_DICT &&
        dsf_torch_entry(file, root, "param", DSF_TORCH_TENSOR, &root, err) < 0)
        return DSFLOW_EINVAL;
    return dsf_torch_floats(file, root, tensor, err);
}

/* Of a file that is opened for it, unless it was the last. */
static int read_alone(struct dsf_tensor_pieces *p,
                      const struct dsf_piece_of *piece, int64_t at, int64_t n,
                      float *to, struct dsflow_err *err)
{
    const struct dsf_torch_tensor *tensor;
    int status = DSFLOW_OK;

    if (p->last != piece->path) {
        dsf_torch_close(p->last_file);
        p->last_file = NULL;
        p->last = NULL;
        status = dsf_torch_open(piece->path, &p->last_file, err);
        if (status == DSFLOW_OK)
            p->last = piece->path;
    }
    if (status == DSFLOW_OK)
        status = dsf_pieces_alone(p->last_file, &tensor, err);
    if (status == DSFLOW_OK && tensor->elems != piece->n)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: has changed", piece->path);
    return status == DSFLOW_OK
               ? dsf_torch_read_f32(p->last_file, tensor, at, n, to, err)
               : status;
}

static int read_pieces(struct dsf_source *s, const struct dsf_source_tensor *t,
                       enum dsf_source_state state, int64_t first, size_t n,
                       float *to, struct dsflow_err *err)
{
    const struct dsf_pieces_list *list =
        &dsf_pieces_of(s)->v[t->at].states[state];
    int64_t before = 0, left = (int64_t)n;
    int status = DSFLOW_OK;

    for (size_t i = 0; i < list->n && left > 0 && status == DSFLOW_OK; i++) {
        const struct dsf_piece_of *p = &list->v[i];
        int64_t skip = first - before;
        int64_t k = p->n - skip < left ? p->n - skip : left;

        before += p->n;
        if (k <= 0)
            continue;
        status = p->path != NULL
                     ? read_alone(dsf_pieces_of(s), p, skip, k, to, err)
                     : dsf_torch_read_f32(p->file, p->tensor, p->at + skip, k,
                                          to, err);
        to += k;
        first += k;
        left -= k;
    }
    return status;
}

struct dsf_tensor_pieces *dsf_pieces_begin(struct dsf_source *s)
{
    s->of = dsf_xcalloc(1, sizeof(struct dsf_tensor_pieces));
    s->read = read_pieces;
    s->close = close_pieces;
    return s->of;
}

struct dsf_tensor_pieces *dsf_pieces_of(struct dsf_source *s)
{
    return s->of;
}

int dsf_pieces_open(struct dsf_source *s, const char *folder, const char *name,
                    const struct dsf_torch_file **file, struct dsflow_err *err)
{
    struct dsf_tensor_pieces *p = dsf_pieces_of(s);
    char *path = dsf_xasprintf("%s/%s", folder, name);
    int status;

    dsf_grow(&p->files, &p->cap_files, p->nfiles + 1, sizeof(*p->files));
    status = dsf_torch_open(path, &p->files[p->nfiles], err);
    if (status == DSFLOW_OK)
        *file = p->files[p->nfiles++];
    free(path);
    return status;
}

struct dsf_source_tensor *dsf_pieces_tensor(struct dsf_source *s,
                                            const char *name)
{
    struct dsf_tensor_pieces *p = dsf_pieces_of(s);
    struct dsf_source_tensor *t = dsf_source_find(s, name);

    if (t != NULL)
        return t;
    t = dsf_source_add(s, name);
    dsf_grow(&p->v, &p->cap, p->n + 1, sizeof(*p->v));
    p->v[p->n] = (struct dsf_pieces_of){ 0 };
    t->at = p->n++;
    return t;
}

int dsf_pieces_add(struct dsf_source *s, const struct dsf_source_tensor *t,
                   enum dsf_source_state state,
                   const struct dsf_torch_file *file,
                   const struct dsf_torch_node *node, int64_t at, int64_t n,
                   struct dsflow_err *err)
{
    struct dsf_pieces_list *list = &dsf_pieces_of(s)->v[t->at].states[state];
    const struct dsf_torch_tensor *tensor;
    int status;

    if (n == 0)
        return DSFLOW_OK;
    status = dsf_torch_floats(file, node, &tensor, err);
    if (status < 0)
        return status;
    if (n < 0 || at < 0 || at > tensor->elems || n > tensor->elems - at)
        return dsf_torch_fail(file, node, err,
                              "has %lld elements: %s should be those from %lld "
                              "to %lld",
                              (long long)tensor->elems, t->name, (long long)at,
                              (long long)(at + n));
    dsf_grow(&list->v, &list->cap, list->n + 1, sizeof(*list->v));
    list->v[list->n++] = (struct dsf_piece_of){ file, tensor, at, n, NULL };
    list->elems += n;
    return DSFLOW_OK;
}

void dsf_pieces_add_file(struct dsf_source *s,
                         const struct dsf_source_tensor *t,
                         enum dsf_source_state state, const char *path)
{
    struct dsf_pieces_list *list = &dsf_pieces_of(s)->v[t->at].states[state];
    int64_t n = dsf_source_elems(t);

    dsf_grow(&list->v, &list->cap, list->n + 1, sizeof(*list->v));
    list->v[list->n++] =
        (struct dsf_piece_of){ .n = n, .path = dsf_xstrdup(path) };
    list->elems += n;
}

void dsf_pieces_again(struct dsf_source *s, const struct dsf_source_tensor *of,
                      struct dsf_source_tensor *t)
{
    struct dsf_tensor_pieces *p = dsf_pieces_of(s);

    t->ndims = of->ndims;
    memcpy(t->dims, of->dims, sizeof(t->dims));
    t->again = true;
    t->frozen = of->frozen;
    for (unsigned k = 0; k < DSF_SOURCE_STATES; k++) {
        const struct dsf_pieces_list *from = &p->v[of->at].states[k];
        struct dsf_pieces_list *to = &p->v[t->at].states[k];

        dsf_grow(&to->v, &to->cap, from->n, sizeof(*to->v));
        for (size_t i = 0; i < from->n; i++) {
            to->v[i] = from->v[i];
            if (from->v[i].path != NULL)
                to->v[i].path = dsf_xstrdup(from->v[i].path);
        }
        to->n = from->n;
        to->elems = from->elems;
    }
}

int dsf_pieces_end(struct dsf_source *s, struct dsflow_err *err)
{
    const struct dsf_tensor_pieces *p = dsf_pieces_of(s);
    char shape[200];

    for (size_t i = 0; i < s->n; i++) {
        struct dsf_source_tensor *t = &s->tensors[i];

        for (unsigned k = 0; k < DSF_SOURCE_STATES; k++) {
            const struct dsf_pieces_list *list = &p->v[t->at].states[k];

            if (list->n == 0)
                continue;
            if (list->elems != dsf_source_elems(t))
                return dsflow_fail(
                    err, DSFLOW_EINVAL,
                    "%s: %s: its files have %lld numbers of the %s: expected "
                    "those of its shape, %s",
                    s->path, t->name, (long long)list->elems,
                    dsf_source_state_str((enum dsf_source_state)k),
                    dsf_shape_str(t->ndims, t->dims, shape, sizeof(shape)));
            t->has |= 1u << k;
        }
    }
    return DSFLOW_OK;
}
