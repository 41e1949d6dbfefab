/* zero_universal.c - universal checkpoints: zero/NAME/fp32.pt, exp_avg.pt, …
 * are whole tensors, each a dict with "param" (tensor ranks were merged, and
 * padding of the vocabulary taken away, when it was made), or, of ZeRO 3, the
 * numbers alone, in one dimension. */
#include "foreign/zero_private.h"

#include "base/alloc.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The shape that the files of the model give a parameter; NULL: none. */
static const struct dsf_torch_node *find_shape(const struct dsf_zero_source *z,
                                               const char *name)
{
    const struct dsf_torch_node *lists =
        dsf_torch_find(z->root, "param_shapes");
    const struct dsf_torch_node *shape = NULL;

    for (uint32_t i = 0; lists != NULL && lists->kind == DSF_TORCH_LIST &&
                         i < lists->n && shape == NULL;
         i++)
        shape = dsf_torch_find(dsf_torch_item(lists, i), name);
    return shape;
}

/* The shape of a tensor, of its own file; numbers alone have that of the model.
 */
static int set_shape(struct dsf_zero_source *z, struct dsf_source_tensor *t,
                     const struct dsf_torch_file *file,
                     const struct dsf_torch_tensor *own, struct dsflow_err *err)
{
    bool alone = dsf_torch_root(file)->kind == DSF_TORCH_TENSOR;
    const struct dsf_torch_node *shape = alone ? find_shape(z, t->name) : NULL;

    if (shape != NULL)
        return dsf_zero_shape(z, z->model, shape, t, err);
    if (t->ndims > 0 &&
        (t->ndims != own->ndims ||
         memcmp(t->dims, own->dims, t->ndims * sizeof(*t->dims)) != 0))
        return dsf_torch_fail(file, dsf_torch_root(file), err,
                              "another shape than that of fp32.pt");
    t->ndims = own->ndims;
    memcpy(t->dims, own->dims, own->ndims * sizeof(*t->dims));
    return DSFLOW_OK;
}

/* One file of a parameter, if it is there. */
static int add_file(struct dsf_zero_source *z, struct dsf_source_tensor *t,
                    enum dsf_source_state state, const char *path,
                    struct dsflow_err *err)
{
    const struct dsf_torch_tensor *tensor;
    struct dsf_torch_file *file;
    int status;

    if (access(path, F_OK) < 0)
        return DSFLOW_OK;
    status = dsf_torch_open(path, &file, err);
    if (status < 0)
        return status;
    status = dsf_pieces_alone(file, &tensor, err);
    if (status == DSFLOW_OK)
        status = set_shape(z, t, file, tensor, err);
    if (status == DSFLOW_OK && tensor->elems != dsf_source_elems(t))
        status = dsf_torch_fail(
            file, dsf_torch_root(file), err, "has %lld numbers: %s has %lld",
            (long long)tensor->elems, t->name, (long long)dsf_source_elems(t));
    if (status == DSFLOW_OK)
        dsf_pieces_add_file(z->source, t, state, path);
    dsf_torch_close(file);
    return status;
}

/* step.pt, where nothing has said how many updates there were. */
static void add_step(struct dsf_zero_source *z, const char *path)
{
    struct dsf_torch_file *file;

    if (z->source->updates >= 0 || dsf_torch_open(path, &file, NULL) < 0)
        return;
    dsf_state_dict_step(z->source, file, dsf_torch_root(file));
    dsf_torch_close(file);
}

/* A parameter that no optimizer had, or another one's: the head of a tied model
 * is there by its weights alone. One that has lost a moment is not. */
static void mark(const struct dsf_zero_source *z, struct dsf_source_tensor *t,
                 const char *step)
{
    const struct dsf_torch_node *shared =
        dsf_torch_find(z->root, "shared_params");
    const struct dsf_pieces_list *states =
        dsf_pieces_of(z->source)->v[t->at].states;

    if (states[DSF_SOURCE_FIRST].n > 0 || states[DSF_SOURCE_SECOND].n > 0 ||
        (!z->weights_only && access(step, F_OK) == 0))
        return;
    t->frozen = !z->weights_only;
    t->again = shared != NULL && shared->kind == DSF_TORCH_DICT &&
               dsf_torch_find(shared, t->name) != NULL;
}

static int add_param(struct dsf_zero_source *z, const char *name,
                     struct dsflow_err *err)
{
    static const struct {
        const char *file;
        enum dsf_source_state state;
    } states[] = {
        { "fp32.pt", DSF_SOURCE_WEIGHT },
        { "exp_avg.pt", DSF_SOURCE_FIRST },
        { "momentum_buffer.pt", DSF_SOURCE_FIRST },
        { "exp_avg_sq.pt", DSF_SOURCE_SECOND },
    };
    struct dsf_source_tensor *t;
    char *path = dsf_xasprintf("%s/zero/%s/fp32.pt", z->folder.path, name);
    int status = DSFLOW_OK;

    if (access(path, F_OK) < 0) { /* no folder of a parameter */
        free(path);
        return DSFLOW_OK;
    }
    free(path);
    t = dsf_pieces_tensor(z->source, name);
    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++) {
        if (i > 0 && z->weights_only)
            break;
        path = dsf_xasprintf("%s/zero/%s/%s", z->folder.path, name,
                             states[i].file);
        if (status == DSFLOW_OK)
            status = add_file(z, t, states[i].state, path, err);
        free(path);
    }
    path = dsf_xasprintf("%s/zero/%s/step.pt", z->folder.path, name);
    if (status == DSFLOW_OK && !z->weights_only)
        add_step(z, path);
    if (status == DSFLOW_OK)
        mark(z, t, path);
    free(path);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int dsf_zero_universal(struct dsf_zero_source *z, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/zero", z->folder.path), **names = NULL;
    DIR *d = opendir(path);
    size_t n = 0, cap = 0;
    struct dirent *e;
    int status = DSFLOW_OK;

    while (d != NULL && (e = readdir(d)) != NULL)
        if (e->d_name[0] != '.') {
            dsf_grow(&names, &cap, n + 1, sizeof(*names));
            names[n++] = dsf_xstrdup(e->d_name);
        }
    if (d != NULL)
        closedir(d);
    if (n > 0)
        qsort(names, n, sizeof(*names), by_name);
    for (size_t i = 0; i < n; i++) {
        if (status == DSFLOW_OK)
            status = add_param(z, names[i], err);
        free(names[i]);
    }
    free(names);
    free(path);
    return status;
}
