/* pickle_names.c - what the names in a pickle mean: one table of those that are
 * more than the name of a class. */
#include "torch/pickle_call.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

struct dsf_torch_node *dsf_torch_refuse(const struct dsf_torch_call *c,
                                        const char *fmt, ...)
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

struct dsf_torch_node *dsf_torch_object(const struct dsf_torch_call *c)
{
    struct node *node = dsf_torch_node_new(c->file, DSF_TORCH_OBJECT);

    node->pub.of = c->name;
    node->pub.object.name = c->name;
    node->pub.object.args = c->args;
    return &node->pub;
}

/* --- Python's own --- */

/* A list of pairs, as OrderedDict is called with. */
static bool put_pairs(const struct dsf_torch_call *c, struct node *dict,
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

static struct dsf_torch_node *make_dict(const struct dsf_torch_call *c)
{
    struct node *dict = dsf_torch_node_new(c->file, DSF_TORCH_DICT);
    /* defaultdict's first argument makes what is missing. */
    const struct dsf_torch_node *from =
        arg(c, strcmp(c->name, "collections.defaultdict") == 0);

    dict->pub.of = c->name;
    if (is_kind(from, DSF_TORCH_DICT))
        dsf_torch_put(c->file, dict, from->items, 2 * (size_t)from->n);
    else if (from != NULL && (!is_sequence(from) || !put_pairs(c, dict, from)))
        return dsf_torch_refuse(c, "expected a dict, or a list of pairs");
    return &dict->pub;
}

/* set([…]), list(…), tuple(…), torch.Size(…) */
static struct dsf_torch_node *make_list(const struct dsf_torch_call *c)
{
    const char *name = strrchr(c->name, '.') + 1;
    struct node *list =
        dsf_torch_node_new(c->file, strcmp(name, "list") == 0 ? DSF_TORCH_LIST
                                    : strstr(name, "set")     ? DSF_TORCH_SET
                                                          : DSF_TORCH_TUPLE);
    const struct dsf_torch_node *from = arg(c, 0);

    if (from != NULL && !is_sequence(from) && !is_kind(from, DSF_TORCH_SET))
        return dsf_torch_refuse(c, "expected a list");
    if (strcmp(c->name, "torch.Size") == 0)
        list->pub.of = c->name;
    if (from != NULL)
        dsf_torch_put(c->file, list, from->items, from->n);
    return &list->pub;
}

/* Protocol 2 has no bytes: it has a text of their codes, to be encoded. */
static struct dsf_torch_node *make_bytes(const struct dsf_torch_call *c)
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
        return dsf_torch_refuse(c, "expected a text in latin1");
    node->bytes.here = to = dsf_blocks_take(&c->file->mem, text->n + 1, 8);
    for (uint32_t i = 0; i < text->n; i++) {
        unsigned char x = (unsigned char)text->str[i];

        if (x >= 0x80) { /* U+0080 to U+00FF, in two bytes */
            if (x > 0xc3)
                return dsf_torch_refuse(c, "expected a text in latin1");
            x = (unsigned char)(x << 6 | (text->str[++i] & 0x3f));
        }
        to[node->n++] = x;
    }
    return node;
}

/* copyreg._reconstructor(class, base, state of the base) */
static struct dsf_torch_node *make_reconstructed(const struct dsf_torch_call *c)
{
    struct dsf_torch_call as = *c;

    if (!is_kind(arg(c, 0), DSF_TORCH_GLOBAL))
        return dsf_torch_refuse(c, "expected a class");
    as.name = arg(c, 0)->global;
    as.args = &dsf_torch_node_new(c->file, DSF_TORCH_TUPLE)->pub;
    return dsf_torch_call(c->file, as.name, as.args, c->err);
}

/* An enumeration is its value. */
static struct dsf_torch_node *make_value(const struct dsf_torch_call *c)
{
    struct dsf_torch_node *node;

    if (c->args->n != 1 ||
        (!is_int(arg(c, 0)) && !is_kind(arg(c, 0), DSF_TORCH_STR)))
        return dsf_torch_object(c);
    node = dsf_torch_leaf(c->file, arg(c, 0)->kind);
    *node = *arg(c, 0);
    node->of = c->name;
    return node;
}

/* --- the table --- */

static const struct {
    const char *name;
    struct dsf_torch_node *(*call)(const struct dsf_torch_call *c);
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
    { "torch._utils._rebuild_tensor", dsf_torch_make_tensor },
    { "torch._utils._rebuild_tensor_v2", dsf_torch_make_tensor },
    { "torch._utils._rebuild_tensor_v3", dsf_torch_make_tensor },
    { "torch._utils._rebuild_parameter", dsf_torch_make_parameter },
    { "torch._utils._rebuild_parameter_with_state", dsf_torch_make_parameter },
    { "torch._tensor._rebuild_from_type_v2", dsf_torch_make_subclass },
    { "torch.Size", make_list },
    { "torch.device", dsf_torch_make_device },
    { "numpy.core.multiarray.scalar", dsf_torch_make_scalar },
    { "numpy.core.numeric._frombuffer", dsf_torch_make_from_buffer },
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
    struct dsf_torch_call c = { f, usual_name(f, name), args, err };

    for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
        if (strcmp(c.name, meanings[i].name) == 0)
            return meanings[i].call(&c);
    return dsf_torch_object(&c);
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
