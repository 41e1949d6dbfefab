/* pickle_names.c - what the names in a pickle mean: one table of those that are
 * more than the name of a class, and the list of those that run something. */
#include "torch/torch_private.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of a tensor whose strides use them more than once. */
#define MOST_REPEATED ((int64_t)1 << 24)

struct call {
    struct dsf_torch_file *file;
    const char *name;
    struct dsf_torch_node *args; /* a TUPLE */
    struct dsflow_err *err;
};

static struct dsf_torch_node *refuse(const struct call *c, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

static struct dsf_torch_node *refuse(const struct call *c, const char *fmt, ...)
{
    va_list ap;
    char *why;

    va_start(ap, fmt);
    why = dsf_xvasprintf(fmt, ap);
    va_end(ap);
    dsflow_fail(c->err, DSFLOW_EINVAL, "%.100s: %s", c->name, why);
    free(why);
    return NULL;
}

/* Argument i, or NULL. */
static struct dsf_torch_node *arg(const struct call *c, uint32_t i)
{
    return i < c->args->n ? c->args->items[i] : NULL;
}

static bool is_kind(const struct dsf_torch_node *n, enum dsf_torch_kind kind)
{
    return n != NULL && n->kind == kind;
}

static bool is_int(const struct dsf_torch_node *n)
{
    return is_kind(n, DSF_TORCH_INT) && n->integer.big == NULL;
}

static bool is_sequence(const struct dsf_torch_node *n)
{
    return is_kind(n, DSF_TORCH_TUPLE) || is_kind(n, DSF_TORCH_LIST);
}

/* --- Python's own --- */

static struct dsf_torch_node *make_object(const struct call *c)
{
    struct node *node = dsf_torch_node_new(c->file, DSF_TORCH_OBJECT);

    node->pub.of = c->name;
    node->pub.object.name = c->name;
    node->pub.object.args = c->args;
    return &node->pub;
}

/* A list of pairs, as OrderedDict is called with. */
static bool put_pairs(const struct call *c, struct node *dict,
                      const struct dsf_torch_node *pairs)
{
    for (uint32_t i = 0; i < pairs->n; i++) {
        const struct dsf_torch_node *pair = pairs->items[i];

        if (!is_sequence(pair) || pair->n != 2)
            return false;
        dsf_torch_put(c->file, dict, pair->items, 2);
    }
    return true;
}

static struct dsf_torch_node *make_dict(const struct call *c)
{
    struct node *dict = dsf_torch_node_new(c->file, DSF_TORCH_DICT);
    /* defaultdict's first argument makes what is missing. */
    const struct dsf_torch_node *from =
        arg(c, strcmp(c->name, "collections.defaultdict") == 0);

    dict->pub.of = c->name;
    if (is_kind(from, DSF_TORCH_DICT))
        dsf_torch_put(c->file, dict, from->items, 2 * (size_t)from->n);
    else if (from != NULL && (!is_sequence(from) || !put_pairs(c, dict, from)))
        return refuse(c, "expected a dict, or a list of pairs");
    return &dict->pub;
}

/* set([…]), list(…), tuple(…), torch.Size(…) */
static struct dsf_torch_node *make_list(const struct call *c)
{
    const char *name = strrchr(c->name, '.') + 1;
    struct node *list =
        dsf_torch_node_new(c->file, strcmp(name, "list") == 0 ? DSF_TORCH_LIST
                                    : strstr(name, "set")     ? DSF_TORCH_SET
                                                          : DSF_TORCH_TUPLE);
    const struct dsf_torch_node *from = arg(c, 0);

    if (from != NULL && !is_sequence(from) && !is_kind(from, DSF_TORCH_SET))
        return refuse(c, "expected a list");
    if (strcmp(c->name, "torch.Size") == 0)
        list->pub.of = c->name;
    if (from != NULL)
        dsf_torch_put(c->file, list, from->items, from->n);
    return &list->pub;
}

/* Protocol 2 has no bytes: it has a text of their codes, to be encoded. */
static struct dsf_torch_node *make_bytes(const struct call *c)
{
    const struct dsf_torch_node *text = arg(c, 0), *code = arg(c, 1);
    struct dsf_torch_node *node = dsf_torch_leaf(c->file, DSF_TORCH_BYTES);
    unsigned char *to;

    if (text == NULL) /* bytes() */
        return node;
    if (is_kind(text, DSF_TORCH_BYTES) && code == NULL) {
        *node = *text;
        return node;
    }
    if (!is_kind(text, DSF_TORCH_STR) || !is_kind(code, DSF_TORCH_STR) ||
        (strcmp(code->str, "latin1") != 0 && strcmp(code->str, "latin-1") != 0))
        return refuse(c, "expected a text in latin1");
    node->bytes.here = to = dsf_blocks_take(&c->file->mem, text->n + 1, 8);
    for (uint32_t i = 0; i < text->n; i++) {
        unsigned char x = (unsigned char)text->str[i];

        if (x >= 0x80) { /* U+0080 to U+00FF, in two bytes */
            if (x > 0xc3)
                return refuse(c, "expected a text in latin1");
            x = (unsigned char)(x << 6 | (text->str[++i] & 0x3f));
        }
        to[node->n++] = x;
    }
    return node;
}

/* copyreg._reconstructor(class, base, state of the base) */
static struct dsf_torch_node *make_reconstructed(const struct call *c)
{
    struct call as = *c;

    if (!is_kind(arg(c, 0), DSF_TORCH_GLOBAL))
        return refuse(c, "expected a class");
    as.name = arg(c, 0)->global;
    as.args = &dsf_torch_node_new(c->file, DSF_TORCH_TUPLE)->pub;
    return dsf_torch_call(c->file, as.name, as.args, c->err);
}

/* An enumeration is its value. */
static struct dsf_torch_node *make_value(const struct call *c)
{
    struct dsf_torch_node *node;

    if (c->args->n != 1 ||
        (!is_int(arg(c, 0)) && !is_kind(arg(c, 0), DSF_TORCH_STR)))
        return make_object(c);
    node = dsf_torch_leaf(c->file, arg(c, 0)->kind);
    *node = *arg(c, 0);
    node->of = c->name;
    return node;
}

/* --- torch --- */

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
    struct call c = { f, "a storage", (struct dsf_torch_node *)(void *)id,
                      err };
    struct dsf_torch_storage *storage;
    struct dsf_torch_node *node;
    enum dsflow_dtype dtype;

    if (id->kind != DSF_TORCH_TUPLE || id->n < 5 || id->n > 6 ||
        !is_kind(arg(&c, 0), DSF_TORCH_STR) ||
        strcmp(arg(&c, 0)->str, "storage") != 0 ||
        !is_kind(arg(&c, 1), DSF_TORCH_GLOBAL) ||
        !is_kind(arg(&c, 2), DSF_TORCH_STR) ||
        !is_kind(arg(&c, 3), DSF_TORCH_STR) || !is_int(arg(&c, 4)))
        return refuse(&c, "expected its class, key, place and size");
    dtype = storage_dtype(arg(&c, 1));
    if (dtype == DSFLOW_BYTES)
        return refuse(&c, "%.60s: a type that is not read", arg(&c, 1)->global);
    if (id->n == 6 && arg(&c, 5)->kind != DSF_TORCH_NONE)
        return refuse(&c, "%.60s is a view of another one", arg(&c, 2)->str);
    storage = dsf_torch_storage_named(f, arg(&c, 2)->str, arg(&c, 3)->str,
                                      dtype, arg(&c, 4)->integer.value, err);
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

/* (storage, offset, sizes, strides[, requires_grad, hooks[, …]]), and of v3 the
 * type in the place of what follows. */
static struct dsf_torch_node *make_tensor(const struct call *c)
{
    struct node *node = dsf_torch_node_new(c->file, DSF_TORCH_TENSOR);
    struct dsf_torch_tensor *t = dsf_blocks_take(&c->file->mem, sizeof(*t), 8);
    struct dsflow_err why = { .msg = "" };
    bool typed = strcmp(c->name, "torch._utils._rebuild_tensor_v3") == 0;

    if (!is_kind(arg(c, 0), DSF_TORCH_STORAGE) || !is_int(arg(c, 1)) ||
        !is_sequence(arg(c, 2)) || !is_sequence(arg(c, 3)))
        return refuse(c, "expected a storage, where the tensor begins in it, "
                         "sizes and strides");
    *t = (struct dsf_torch_tensor){ .storage = arg(c, 0)->storage,
                                    .dtype = arg(c, 0)->storage->dtype,
                                    .offset = arg(c, 1)->integer.value };
    if (typed)
        t->dtype = dsf_torch_dtype(arg(c, 6));
    if (t->dtype == DSFLOW_BYTES)
        return refuse(c, "%.60s: a type that is not read",
                      is_kind(arg(c, 6), DSF_TORCH_GLOBAL) ? arg(c, 6)->global
                                                           : "its type");
    if (is_kind(arg(c, 4), DSF_TORCH_BOOL))
        t->requires_grad = arg(c, 4)->truth;
    if (dsf_torch_shape(t, arg(c, 2), arg(c, 3), &why) < 0)
        return refuse(c, "%s", why.msg);
    node->pub.tensor = t;
    return &node->pub;
}

/* (tensor, requires_grad, hooks[, state]) */
static struct dsf_torch_node *make_parameter(const struct call *c)
{
    struct node *node = dsf_torch_node_new(c->file, DSF_TORCH_TENSOR);
    struct dsf_torch_tensor *t;

    if (!is_kind(arg(c, 0), DSF_TORCH_TENSOR))
        return refuse(c, "expected a tensor");
    t = dsf_blocks_copy(&c->file->mem, arg(c, 0)->tensor, sizeof(*t), 8);
    t->requires_grad = is_kind(arg(c, 1), DSF_TORCH_BOOL) && arg(c, 1)->truth;
    node->pub.of = "torch.nn.Parameter";
    node->pub.tensor = t;
    node->pub.state = arg(c, 3);
    return &node->pub;
}

/* (function, class, arguments, state): a tensor of a class of its own. */
static struct dsf_torch_node *make_subclass(const struct call *c)
{
    struct dsf_torch_node *made;

    if (!is_kind(arg(c, 0), DSF_TORCH_GLOBAL) ||
        !is_kind(arg(c, 1), DSF_TORCH_GLOBAL) ||
        !is_kind(arg(c, 2), DSF_TORCH_TUPLE))
        return refuse(c, "expected a function, a class and arguments");
    /* A name that calls itself this way would never end. */
    if (strcmp(arg(c, 0)->global, c->name) == 0)
        return make_object(c);
    made = dsf_torch_call(c->file, arg(c, 0)->global, arg(c, 2), c->err);
    if (made == NULL || made->kind != DSF_TORCH_TENSOR)
        return made;
    made->of = arg(c, 1)->global;
    made->state = arg(c, 3);
    return made;
}

/* torch.device("cuda", 0) is "cuda:0". */
static struct dsf_torch_node *make_device(const struct call *c)
{
    struct dsf_torch_node *made;
    char *text;

    if (!is_kind(arg(c, 0), DSF_TORCH_STR))
        return refuse(c, "expected a text");
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

/* --- numpy --- */

static struct dsf_torch_node *make_scalar(const struct call *c)
{
    struct dsf_torch_node *made =
        dsf_torch_numpy_scalar(c->file, c->args, c->err);

    return made != NULL ? made : make_object(c);
}

/* (bytes, type, sizes, "C"), of protocol 5 */
static struct dsf_torch_node *make_from_buffer(const struct call *c)
{
    struct dsf_torch_node *object = make_object(c);

    /* In the order of the state of an array. */
    if (c->args->n == 4 && is_kind(arg(c, 3), DSF_TORCH_STR)) {
        bool fortran = strcmp(arg(c, 3)->str, "F") == 0;
        struct dsf_torch_node order = { .kind = DSF_TORCH_BOOL,
                                        .truth = fortran };
        struct dsf_torch_node *items[] = { NULL, arg(c, 2), arg(c, 1), &order,
                                           arg(c, 0) };
        struct dsf_torch_node state = { .kind = DSF_TORCH_TUPLE,
                                        .n = 5,
                                        .items = items };

        if (dsf_torch_numpy_array(c->file, object, &state, c->err) < 0)
            return NULL;
    }
    return object;
}

/* --- the table --- */

static const struct {
    const char *name;
    struct dsf_torch_node *(*call)(const struct call *c);
} meanings[] = {
    { "collections.OrderedDict", make_dict },
    { "collections.defaultdict", make_dict },
    { "collections.Counter", make_dict },
    { "builtins.dict", make_dict },
    { "builtins.list", make_list },
    { "builtins.tuple", make_list },
    { "builtins.set", make_list },
    { "builtins.frozenset", make_list },
    { "builtins.bytes", make_bytes },
    { "builtins.bytearray", make_bytes },
    { "_codecs.encode", make_bytes },
    { "copyreg._reconstructor", make_reconstructed },
    { "torch._utils._rebuild_tensor", make_tensor },
    { "torch._utils._rebuild_tensor_v2", make_tensor },
    { "torch._utils._rebuild_tensor_v3", make_tensor },
    { "torch._utils._rebuild_parameter", make_parameter },
    { "torch._utils._rebuild_parameter_with_state", make_parameter },
    { "torch._tensor._rebuild_from_type_v2", make_subclass },
    { "torch.Size", make_list },
    { "torch.device", make_device },
    { "numpy.core.multiarray.scalar", make_scalar },
    { "numpy.core.numeric._frombuffer", make_from_buffer },
    { "deepspeed.runtime.zero.config.ZeroStageEnum", make_value },
    { "deepspeed.runtime.zero.offload_config.OffloadDeviceEnum", make_value },
    { "megatron.core.enums.ModelType", make_value },
    { "megatron.model.enums.AttnMaskType", make_value },
    { "megatron.model.enums.ModelType", make_value },
    { "megatron.model.enums.LayerType", make_value },
    { "megatron.model.enums.PositionEmbeddingType", make_value },
};

/* Classes that are their attributes and nothing else. */
static const char *const plain[] = {
    "argparse.Namespace",
    "types.SimpleNamespace",
    "deepspeed.checkpoint.utils.SubparamShape",
    "deepspeed.module_inject.layers.SubparamShape",
    "deepspeed.runtime.fp16.loss_scaler.DynamicLossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScaler",
    "deepspeed.runtime.fp16.loss_scaler.LossScalerBase",
    "deepspeed.runtime.zero.utils.fragment_address",
    "deepspeed.utils.tensor_fragment.fragment_address",
};

/* As Python 3 and numpy 1 say it. */
static const char *usual_name(struct dsf_torch_file *f, const char *name)
{
    static const struct {
        const char *was, *is;
    } old[] = {
        { "__builtin__.", "builtins." },
        { "copy_reg.", "copyreg." },
        { "numpy._core.", "numpy.core." },
    };

    for (size_t i = 0; i < sizeof(old) / sizeof(*old); i++) {
        size_t n = strlen(old[i].was);
        char *both;

        if (strncmp(name, old[i].was, n) != 0)
            continue;
        both = dsf_xasprintf("%s%s", old[i].is, name + n);
        name = dsf_blocks_copy(&f->mem, both, strlen(both) + 1, 1);
        free(both);
        return name;
    }
    return name;
}

struct dsf_torch_node *dsf_torch_call(struct dsf_torch_file *f,
                                      const char *name,
                                      struct dsf_torch_node *args,
                                      struct dsflow_err *err)
{
    struct call c = { f, usual_name(f, name), args, err };

    for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
        if (strcmp(c.name, meanings[i].name) == 0)
            return meanings[i].call(&c);
    return make_object(&c);
}

static bool is_plain(const char *name)
{
    for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
        if (strcmp(name, plain[i]) == 0)
            return true;
    return false;
}

int dsf_torch_build(struct dsf_torch_file *f, struct dsf_torch_node *node,
                    struct dsf_torch_node *state, struct dsflow_err *err)
{
    const struct dsf_torch_node *attributes = state;

    if (!is_grown(node) || node->kind == DSF_TORCH_TUPLE)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "sets attributes of %s: expected an object",
                           dsf_torch_kind_str(node->kind));
    if (node->state != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "sets attributes twice");
    if (node->kind == DSF_TORCH_OBJECT &&
        strcmp(node->object.name, "numpy.core.multiarray._reconstruct") == 0)
        return dsf_torch_numpy_array(f, node, state, err);
    /* Of a class with slots: what is in its dict, and what is in them. */
    if (is_kind(state, DSF_TORCH_TUPLE) && state->n == 2)
        attributes = state->items[is_kind(state->items[1], DSF_TORCH_DICT)];
    if (node->kind == DSF_TORCH_OBJECT && is_plain(node->object.name) &&
        is_kind(attributes, DSF_TORCH_DICT) && node->object.filled == NULL) {
        node->kind = DSF_TORCH_DICT;
        node->n = 0;
        dsf_torch_put(f, node_of(node), attributes->items,
                      2 * (size_t)attributes->n);
        return DSFLOW_OK;
    }
    node->state = state;
    return DSFLOW_OK;
}

/* --- what runs --- */

static bool is_among(const char *const *v, const char *s, size_t n)
{
    for (; *v != NULL; v++)
        if (strlen(*v) == n && memcmp(*v, s, n) == 0)
            return true;
    return false;
}

/* Modules by which programs are run, files and connections opened, code made or
 * other pickles loaded. */
static const char *const running_modules[] = {
    "os",
    "posix",
    "nt",
    "sys",
    "subprocess",
    "_posixsubprocess",
    "commands",
    "popen2",
    "importlib",
    "_imp",
    "imp",
    "pkgutil",
    "zipimport",
    "runpy",
    "ctypes",
    "_ctypes",
    "cffi",
    "pty",
    "shutil",
    "socket",
    "_socket",
    "ssl",
    "code",
    "codeop",
    "pdb",
    "bdb",
    "cProfile",
    "profile",
    "timeit",
    "trace",
    "marshal",
    "pickle",
    "cPickle",
    "_pickle",
    "pickletools",
    "shelve",
    "dill",
    "_dill",
    "cloudpickle",
    "joblib",
    "multiprocessing",
    "_multiprocessing",
    "threading",
    "_thread",
    "asyncio",
    "concurrent",
    "webbrowser",
    "urllib",
    "urllib2",
    "urllib3",
    "requests",
    "http",
    "httplib",
    "ftplib",
    "smtplib",
    "telnetlib",
    "xmlrpc",
    "socketserver",
    "fileinput",
    "io",
    "_io",
    "inspect",
    "gc",
    "signal",
    "_signal",
    "mmap",
    "fcntl",
    "resource",
    "platform",
    "distutils",
    "setuptools",
    "pip",
    "ensurepip",
    "venv",
    "site",
    "sched",
    "atexit",
    "operator",
    "_operator",
    "doctest",
    "unittest",
    "idlelib",
    "lib2to3",
    "tempfile",
    "tarfile",
    "zipfile",
    "sqlite3",
    "bz2",
    "gzip",
    "lzma",
    NULL,
};

/* Those that are reached through a module that imports them. */
static const char *const reached_modules[] = {
    "os",        "posix",         "nt",     "sys",     "subprocess",
    "importlib", "runpy",         "ctypes", "pty",     "shutil",
    "socket",    "builtins",      "pickle", "marshal", "multiprocessing",
    "hub",       "cpp_extension", NULL,
};

/* Of builtins, these are harmless; others look up, import or run. */
static const char *const harmless_builtins[] = {
    "bool",
    "bytearray",
    "bytes",
    "complex",
    "dict",
    "float",
    "frozenset",
    "int",
    "list",
    "object",
    "range",
    "set",
    "slice",
    "str",
    "tuple",
    "type",
    "NotImplementedType",
    "Ellipsis",
    "ellipsis",
    "unicode",
    "long",
    "xrange",
    NULL,
};

/* As the last part of a name, wherever it is from. */
static const char *const running_names[] = {
    "eval",         "exec",         "execfile",
    "compile",      "getattr",      "setattr",
    "delattr",      "system",       "popen",
    "Popen",        "loads",        "load",
    "read_pickle",  "load_module",  "import_module",
    "run_module",   "run_path",     "_load_from_bytes",
    "CodeType",     "FunctionType", "LambdaType",
    "ModuleType",   "MethodType",   "attrgetter",
    "methodcaller", "runstring",    "_make_function",
    "_load_type",   NULL,
};

bool dsf_torch_name_runs(const char *name)
{
    const char *part = name, *first_end = strchr(name, '.');
    bool builtin = strncmp(name, "builtins.", 9) == 0 ||
                   strncmp(name, "__builtin__.", 12) == 0 ||
                   strncmp(name, "__builtins__.", 13) == 0;

    if (builtin)
        return !is_among(harmless_builtins, first_end + 1,
                         strlen(first_end + 1));
    for (;;) {
        size_t n = strcspn(part, ".");
        bool first = part == name, last = part[n] == '\0';

        if (!last &&
            is_among(first ? running_modules : reached_modules, part, n))
            return true;
        if (last && is_among(running_names, part, n))
            return true;
        /* __import__, __globals__, __subclasses__ … */
        if (!first && n > 4 && strncmp(part, "__", 2) == 0 &&
            strncmp(part + n - 2, "__", 2) == 0)
            return true;
        if (last)
            return false;
        part += n + 1;
    }
}
