/* pickle_torch.c - tensors, parameters, storages, types and devices in a pickle
 * (torch/_utils.py, torch/serialization.py). */
#include "torch/pickle_call.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

/* Numbers of a tensor whose strides use them more than once. */
#define MOST_REPEATED ((int64_t)1 << 24)

static const struct {
    const char *storage, *name; /* of "torch." */
    enum dsflow_dtype dtype;
} dtypes[] = {
    { "FloatStorage", "float32", DSFLOW_FP32 },
    { "DoubleStorage", "float64", DSFLOW_FP64 },
    { "HalfStorage", "float16", DSFLOW_FP16 },
    { "BFloat16Storage", "bfloat16", DSFLOW_BF16 },
    { "LongStorage", "int64", DSFLOW_INT64 },
    { "IntStorage", "int32", DSFLOW_INT32 },
    { "ShortStorage", "int16", DSFLOW_INT16 },
    { "CharStorage", "int8", DSFLOW_INT8 },
    { "ByteStorage", "uint8", DSFLOW_UINT8 },
    { "BoolStorage", "bool", DSFLOW_BOOLEAN },
    { "UntypedStorage", NULL, DSFLOW_UINT8 },
    { "_UntypedStorage", NULL, DSFLOW_UINT8 },
    { NULL, "uint16", DSFLOW_UINT16 },
    { NULL, "uint32", DSFLOW_UINT32 },
    { NULL, "uint64", DSFLOW_UINT64 },
    { NULL, "float8_e4m3fn", DSFLOW_FP8_E4M3 },
    { NULL, "float8_e5m2", DSFLOW_FP8_E5M2 },
    /* The same types by their older names. */
    { NULL, "float", DSFLOW_FP32 },
    { NULL, "double", DSFLOW_FP64 },
    { NULL, "half", DSFLOW_FP16 },
    { NULL, "long", DSFLOW_INT64 },
    { NULL, "int", DSFLOW_INT32 },
};
enum { NDTYPES = sizeof(dtypes) / sizeof(*dtypes) };

enum dsflow_dtype dsf_torch_dtype(const struct dsf_torch_node *node)
{
    if (!is_kind(node, DSF_TORCH_GLOBAL) ||
        strncmp(node->global, "torch.", 6) != 0)
        return DSFLOW_BYTES;
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].name != NULL &&
            strcmp(node->global + 6, dtypes[i].name) == 0)
            return dtypes[i].dtype;
    return DSFLOW_BYTES;
}

/* "torch.FloatStorage", "torch.cuda.FloatStorage", "torch.storage.…" */
static enum dsflow_dtype storage_dtype(const struct dsf_torch_node *node)
{
    const char *last;

    if (!is_kind(node, DSF_TORCH_GLOBAL) ||
        strncmp(node->global, "torch.", 6) != 0)
        return DSFLOW_BYTES;
    last = strrchr(node->global, '.') + 1;
    for (int i = 0; i < NDTYPES; i++)
        if (dtypes[i].storage != NULL && strcmp(last, dtypes[i].storage) == 0)
            return dtypes[i].dtype;
    return DSFLOW_BYTES;
}

/* ("storage", class, key, location, elements[, view]) */
struct dsf_torch_node *dsf_torch_persistent(struct dsf_torch_file *f,
                                            const struct dsf_torch_node *id,
                                            struct dsflow_err *err)
{
    struct dsf_torch_call c = { f, "a storage",
                                (struct dsf_torch_node *)(void *)id, err };
    struct dsf_torch_storage *storage;
    struct dsf_torch_node *node;
    enum dsflow_dtype dtype;

    if (id->kind != DSF_TORCH_TUPLE || id->n < 5 || id->n > 6 ||
        !is_kind(arg(&c, 0), DSF_TORCH_STR) ||
        strcmp(arg(&c, 0)->str, "storage") != 0 ||
        !is_kind(arg(&c, 1), DSF_TORCH_GLOBAL) ||
        !is_kind(arg(&c, 2), DSF_TORCH_STR) ||
        !is_kind(arg(&c, 3), DSF_TORCH_STR) || !is_int(arg(&c, 4)))
        return dsf_torch_refuse(&c, "expected its class, key, place and size");
    dtype = storage_dtype(arg(&c, 1));
    if (dtype == DSFLOW_BYTES)
        return dsf_torch_refuse(&c, "%.60s: a type that is not read",
                                arg(&c, 1)->global);
    if (id->n == 6 && arg(&c, 5)->kind != DSF_TORCH_NONE)
        return dsf_torch_refuse(&c, "%.60s is a view of another one",
                                arg(&c, 2)->str);
    storage = dsf_torch_storage_named(f, arg(&c, 2)->str, dtype,
                                      arg(&c, 4)->integer.value, err);
    if (storage == NULL)
        return NULL;
    node = dsf_torch_leaf(f, DSF_TORCH_STORAGE);
    node->storage = storage;
    return node;
}

static int fail_shape(struct dsflow_err *err, const char *why)
{
    return dsflow_fail(err, DSFLOW_EINVAL, "%s", why);
}

/* The numbers of a storage in the type of the tensor. */
static int64_t numbers_of(const struct dsf_torch_tensor *t)
{
    size_t all = dsflow_dtype_bytes(t->storage->dtype, t->storage->elems);

    return (int64_t)(all / dsflow_dtype_bytes(t->dtype, 1));
}

static int check_shape(const struct dsf_torch_tensor *t, struct dsflow_err *err)
{
    int64_t last = t->offset, there = numbers_of(t);

    if (t->offset < 0 || t->offset > there)
        return fail_shape(err, "begins outside its storage");
    if (t->elems == 0)
        return DSFLOW_OK;
    for (unsigned d = 0; d < t->ndims; d++) {
        int64_t span;

        if (t->strides[d] < 0)
            return fail_shape(err, "a stride below 0");
        if (__builtin_mul_overflow(t->dims[d] - 1, t->strides[d], &span) ||
            __builtin_add_overflow(last, span, &last))
            return fail_shape(err, "too large");
    }
    if (last >= there)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "has number %lld of a storage of %lld",
                           (long long)last, (long long)there);
    if (t->elems > there && t->elems > MOST_REPEATED)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%lld numbers of a storage of %lld",
                           (long long)t->elems, (long long)there);
    return DSFLOW_OK;
}

int dsf_torch_shape(struct dsf_torch_tensor *t,
                    const struct dsf_torch_node *dims,
                    const struct dsf_torch_node *strides,
                    struct dsflow_err *err)
{
    if (!is_sequence(dims) || (strides != NULL && !is_sequence(strides)) ||
        (strides != NULL && strides->n != dims->n))
        return fail_shape(err, "expected its sizes and strides");
    if (dims->n > DSF_TORCH_MOST_DIMS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%u dimensions: expected %d at most", dims->n,
                           DSF_TORCH_MOST_DIMS);
    t->ndims = dims->n;
    t->elems = 1;
    for (unsigned d = dims->n; d-- > 0;) {
        const struct dsf_torch_node *dim = dims->items[d];

        if (!is_int(dim) || dim->integer.value < 0 ||
            (strides != NULL && !is_int(strides->items[d])))
            return fail_shape(err, "expected sizes that are whole numbers");
        t->dims[d] = dim->integer.value;
        t->strides[d] =
            strides != NULL ? strides->items[d]->integer.value : t->elems;
        if (__builtin_mul_overflow(t->elems, t->dims[d], &t->elems))
            return fail_shape(err, "too large");
    }
    return check_shape(t, err);
}

/* Does the metadata say that the numbers are others than those that are stored?
 */
static bool is_lazy(const struct dsf_torch_node *metadata)
{
    static const char *const views[] = { "neg", "conj" };

    for (size_t i = 0; i < sizeof(views) / sizeof(*views); i++) {
        const struct dsf_torch_node *on = dsf_torch_find(metadata, views[i]);

        if (on != NULL && on->kind == DSF_TORCH_BOOL && on->truth)
            return true;
    }
    return false;
}

/* (storage, offset, sizes, strides[, requires_grad, hooks[, …]]), and of v3 the
 * type in the place of what follows; else metadata may follow. */
struct dsf_torch_node *dsf_torch_make_tensor(const struct dsf_torch_call *c)
{
    struct node *node = dsf_torch_node_new(c->file, DSF_TORCH_TENSOR);
    struct dsf_torch_tensor *t = dsf_blocks_take(&c->file->mem, sizeof(*t), 8);
    struct dsflow_err why = { .msg = "" };
    bool typed = strcmp(c->name, "torch._utils._rebuild_tensor_v3") == 0;

    if (!is_kind(arg(c, 0), DSF_TORCH_STORAGE) || !is_int(arg(c, 1)) ||
        !is_sequence(arg(c, 2)) || !is_sequence(arg(c, 3)))
        return dsf_torch_refuse(
            c, "expected a storage, where the tensor begins in it, "
               "sizes and strides");
    *t = (struct dsf_torch_tensor){ .storage = arg(c, 0)->storage,
                                    .dtype = arg(c, 0)->storage->dtype,
                                    .offset = arg(c, 1)->integer.value };
    if (typed)
        t->dtype = dsf_torch_dtype(arg(c, 6));
    if (t->dtype == DSFLOW_BYTES)
        return dsf_torch_refuse(c, "%.60s: a type that is not read",
                                is_kind(arg(c, 6), DSF_TORCH_GLOBAL)
                                    ? arg(c, 6)->global
                                    : "its type");
    if (is_lazy(arg(c, typed ? 7 : 6)))
        return dsf_torch_refuse(c, "a view that negates what is stored: "
                                   "expected the numbers");
    if (dsf_torch_shape(t, arg(c, 2), arg(c, 3), &why) < 0)
        return dsf_torch_refuse(c, "%s", why.msg);
    node->pub.tensor = t;
    return &node->pub;
}

/* (tensor, requires_grad, hooks[, state]) */
struct dsf_torch_node *dsf_torch_make_parameter(const struct dsf_torch_call *c)
{
    struct node *node = dsf_torch_node_new(c->file, DSF_TORCH_TENSOR);
    struct dsf_torch_tensor *t;

    if (!is_kind(arg(c, 0), DSF_TORCH_TENSOR))
        return dsf_torch_refuse(c, "expected a tensor");
    t = dsf_blocks_copy(&c->file->mem, arg(c, 0)->tensor, sizeof(*t), 8);
    node->pub.of = "torch.nn.Parameter";
    node->pub.tensor = t;
    node->pub.state = arg(c, 3);
    return &node->pub;
}

/* (function, class, arguments, state): a tensor of a class of its own. */
struct dsf_torch_node *dsf_torch_make_subclass(const struct dsf_torch_call *c)
{
    struct dsf_torch_node *made;

    if (!is_kind(arg(c, 0), DSF_TORCH_GLOBAL) ||
        !is_kind(arg(c, 1), DSF_TORCH_GLOBAL) ||
        !is_kind(arg(c, 2), DSF_TORCH_TUPLE))
        return dsf_torch_refuse(c,
                                "expected a function, a class and arguments");
    /* A name that calls itself this way would never end. */
    if (strcmp(arg(c, 0)->global, c->name) == 0)
        return dsf_torch_object(c);
    made = dsf_torch_call(c->file, arg(c, 0)->global, arg(c, 2), c->err);
    if (made == NULL || made->kind != DSF_TORCH_TENSOR)
        return made;
    made->of = arg(c, 1)->global;
    made->state = arg(c, 3);
    return made;
}

/* torch.device("cuda", 0) is "cuda:0". */
struct dsf_torch_node *dsf_torch_make_device(const struct dsf_torch_call *c)
{
    struct dsf_torch_node *made;
    char *text;

    if (!is_kind(arg(c, 0), DSF_TORCH_STR))
        return dsf_torch_refuse(c, "expected a text");
    if (is_int(arg(c, 1)))
        text = dsf_xasprintf("%s:%lld", arg(c, 0)->str,
                             (long long)arg(c, 1)->integer.value);
    else
        text = dsf_xstrdup(arg(c, 0)->str);
    made = dsf_torch_text(c->file, text, strlen(text));
    made->of = c->name;
    free(text);
    return made;
}
