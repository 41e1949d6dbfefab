/* torch_node.c - nodes: made, filled and looked at. */
#include "torch/torch_private.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct dsf_torch_node *dsf_torch_leaf(struct dsf_torch_file *f,
                                      enum dsf_torch_kind kind)
{
    struct dsf_torch_node *n = dsf_blocks_take(&f->mem, sizeof(*n), 8);

    *n = (struct dsf_torch_node){ .kind = kind };
    return n;
}

struct node *dsf_torch_node_new(struct dsf_torch_file *f,
                                enum dsf_torch_kind kind)
{
    struct node *n = dsf_blocks_take(&f->mem, sizeof(*n), 8);

    *n = (struct node){ .pub.kind = kind };
    return n;
}

struct dsf_torch_node *dsf_torch_text(struct dsf_torch_file *f, const char *s,
                                      size_t n)
{
    struct dsf_torch_node *node = dsf_torch_leaf(f, DSF_TORCH_STR);
    char *text = dsf_blocks_take(&f->mem, n + 1, 1);

    memcpy(text, s, n);
    text[n] = '\0';
    node->str = text;
    node->n = (uint32_t)n;
    return node;
}

struct dsf_torch_node *dsf_torch_number(struct dsf_torch_file *f, int64_t x)
{
    struct dsf_torch_node *node = dsf_torch_leaf(f, DSF_TORCH_INT);

    node->integer.value = x;
    return node;
}

void dsf_torch_put(struct dsf_torch_file *f, struct node *to,
                   struct dsf_torch_node *const *items, size_t n)
{
    size_t each = to->pub.kind == DSF_TORCH_DICT ? 2 : 1;
    size_t had = to->pub.n * each;
    struct dsf_torch_node **v = (struct dsf_torch_node **)to->pub.items;

    if (n == 0)
        return;
    if (had + n > to->cap) {
        size_t cap = had > 0 && had + n < had * 2 ? had * 2 : had + n;

        v = dsf_blocks_take(&f->mem, cap * sizeof(*v), 8);
        if (had > 0)
            memcpy(v, to->pub.items, had * sizeof(*v));
        to->cap = (uint32_t)cap;
        to->pub.items = v;
    }
    memcpy(v + had, items, n * sizeof(*v));
    to->pub.n += (uint32_t)(n / each);
}

const char *dsf_torch_kind_str(enum dsf_torch_kind kind)
{
    static const char *const names[] = {
        "None",     "a bool",    "a whole number", "a number",  "a text",
        "bytes",    "a list",    "a tuple",        "a set",     "a dict",
        "a tensor", "a storage", "a name",         "an object",
    };

    _Static_assert(sizeof(names) / sizeof(*names) == DSF_TORCH_NKINDS,
                   "a name for each kind");
    return kind < DSF_TORCH_NKINDS ? names[kind] : "?";
}

/* --- looking --- */

const struct dsf_torch_node *dsf_torch_key(const struct dsf_torch_node *dict,
                                           uint32_t i)
{
    return dict->items[2 * (size_t)i];
}

const struct dsf_torch_node *dsf_torch_value(const struct dsf_torch_node *dict,
                                             uint32_t i)
{
    return dict->items[2 * (size_t)i + 1];
}

const struct dsf_torch_node *dsf_torch_item(const struct dsf_torch_node *list,
                                            uint32_t i)
{
    return list->items[i];
}

int dsf_torch_key_order(const struct dsf_torch_node *a,
                        const struct dsf_torch_node *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == DSF_TORCH_STR) {
        int order = memcmp(a->str, b->str, a->n < b->n ? a->n : b->n);

        return order != 0 ? order : (a->n > b->n) - (a->n < b->n);
    }
    if (a->kind != DSF_TORCH_INT)
        return 0;
    if (a->integer.big != NULL && b->integer.big != NULL)
        return strcmp(a->integer.big, b->integer.big);
    if (a->integer.big != NULL || b->integer.big != NULL)
        return a->integer.big != NULL ? 1 : -1;
    return (a->integer.value > b->integer.value) -
           (a->integer.value < b->integer.value);
}

static const struct dsf_torch_node *find(const struct dsf_torch_node *dict,
                                         const struct dsf_torch_node *key)
{
    const uint32_t *sorted;
    uint32_t from = 0, end;

    /* An object's attributes are its state. */
    if (dict != NULL && dict->kind == DSF_TORCH_OBJECT)
        dict = dict->object.filled != NULL &&
                       dict->object.filled->kind == DSF_TORCH_DICT
                   ? dict->object.filled
                   : dict->state;
    if (dict == NULL || dict->kind != DSF_TORCH_DICT)
        return NULL;
    sorted = node_of(dict)->sorted;
    end = dict->n;
    if (sorted == NULL) {
        for (uint32_t i = 0; i < end; i++)
            if (dsf_torch_key(dict, i)->kind == key->kind &&
                dsf_torch_key_order(dsf_torch_key(dict, i), key) == 0)
                return dsf_torch_value(dict, i);
        return NULL;
    }
    while (from < end) {
        uint32_t i = from + (end - from) / 2;
        int order = dsf_torch_key_order(dsf_torch_key(dict, sorted[i]), key);

        if (order == 0)
            return dsf_torch_value(dict, sorted[i]);
        if (order < 0)
            from = i + 1;
        else
            end = i;
    }
    return NULL;
}

const struct dsf_torch_node *dsf_torch_find(const struct dsf_torch_node *dict,
                                            const char *key)
{
    struct dsf_torch_node k = { .kind = DSF_TORCH_STR,
                                .n = (uint32_t)strlen(key),
                                .str = key };

    return find(dict, &k);
}

const struct dsf_torch_node *
dsf_torch_find_int(const struct dsf_torch_node *dict, int64_t key)
{
    struct dsf_torch_node k = { .kind = DSF_TORCH_INT,
                                .integer = { .value = key } };

    return find(dict, &k);
}

/* --- where --- */

/* The way from a node to another one, as text in reverse order of its steps. */
struct way {
    const struct dsf_torch_node *to;
    char *text;
};

static void put_before(struct way *w, char *step)
{
    bool dot = w->text[0] != '\0' && w->text[0] != '[';
    char *both = dsf_xasprintf("%s%s%s", step, dot ? "." : "", w->text);

    free(step);
    free(w->text);
    w->text = both;
}

static char *step_of(const struct dsf_torch_node *n, uint32_t i)
{
    const struct dsf_torch_node *key;

    if (n->kind != DSF_TORCH_DICT)
        return dsf_xasprintf("[%u]", i);
    key = dsf_torch_key(n, i);
    if (key->kind == DSF_TORCH_STR)
        return dsf_xasprintf("%.200s", key->str);
    if (key->kind == DSF_TORCH_INT && key->integer.big == NULL)
        return dsf_xasprintf("[%lld]", (long long)key->integer.value);
    return dsf_xasprintf("[%s]", dsf_torch_kind_str(key->kind));
}

static bool seek(struct way *w, const struct dsf_torch_node *at)
{
    if (at == w->to)
        return true;
    if (at == NULL)
        return false;
    if (at->kind == DSF_TORCH_OBJECT) {
        if (seek(w, at->object.filled))
            return true;
        if (seek(w, at->object.args)) {
            put_before(w, dsf_xstrdup("arguments"));
            return true;
        }
    } else if (at->kind >= DSF_TORCH_LIST && at->kind <= DSF_TORCH_DICT) {
        for (uint32_t i = 0; i < at->n; i++)
            if (seek(w, at->kind == DSF_TORCH_DICT ? dsf_torch_value(at, i)
                                                   : dsf_torch_item(at, i))) {
                put_before(w, step_of(at, i));
                return true;
            }
    }
    return at->state != NULL && seek(w, at->state);
}

char *dsf_torch_where(const struct dsf_torch_file *file,
                      const struct dsf_torch_node *node)
{
    struct way w = { .to = node, .text = dsf_xstrdup("") };

    seek(&w, file->root);
    return w.text;
}

int dsf_torch_fail(const struct dsf_torch_file *file,
                   const struct dsf_torch_node *node, struct dsflow_err *err,
                   const char *fmt, ...)
{
    char *where = dsf_torch_where(file, node), *what;
    va_list ap;
    int status;

    va_start(ap, fmt);
    what = dsf_xvasprintf(fmt, ap);
    va_end(ap);
    status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %s%s%s", file->path, where,
                         where[0] != '\0' ? ": " : "", what);
    free(where);
    free(what);
    return status;
}

/* --- what must be there --- */

static bool is_kind_of(const struct dsf_torch_node *node,
                       enum dsf_torch_kind kind)
{
    return node->kind == kind ||
           (kind == DSF_TORCH_LIST && node->kind == DSF_TORCH_TUPLE) ||
           (kind == DSF_TORCH_INT && node->kind == DSF_TORCH_BOOL) ||
           (kind == DSF_TORCH_FLOAT && node->kind == DSF_TORCH_INT &&
            node->integer.big == NULL);
}

int dsf_torch_expect(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *node,
                     enum dsf_torch_kind kind, struct dsflow_err *err)
{
    if (is_kind_of(node, kind))
        return DSFLOW_OK;
    return dsf_torch_fail(file, node, err, "%s%s%.100s: expected %s",
                          dsf_torch_kind_str(node->kind),
                          node->kind == DSF_TORCH_OBJECT ? " of class " : "",
                          node->kind == DSF_TORCH_OBJECT ? node->object.name
                                                         : "",
                          dsf_torch_kind_str(kind));
}

int dsf_torch_entry(const struct dsf_torch_file *file,
                    const struct dsf_torch_node *dict, const char *key,
                    enum dsf_torch_kind kind,
                    const struct dsf_torch_node **value, struct dsflow_err *err)
{
    *value = dsf_torch_find(dict, key);
    if (*value != NULL && is_kind_of(*value, kind))
        return DSFLOW_OK;
    /* By way of the dict, as the value may stand in several places. */
    if (*value != NULL)
        return dsf_torch_fail(file, dict, err, "%.100s: %s: expected %s", key,
                              dsf_torch_kind_str((*value)->kind),
                              dsf_torch_kind_str(kind));
    if (dict->kind != DSF_TORCH_DICT && dict->kind != DSF_TORCH_OBJECT)
        return dsf_torch_expect(file, dict, DSF_TORCH_DICT, err);
    return dsf_torch_fail(file, dict, err, "has no %.100s: expected %s", key,
                          dsf_torch_kind_str(kind));
}

int dsf_torch_int(const struct dsf_torch_file *file,
                  const struct dsf_torch_node *node, int64_t *x,
                  struct dsflow_err *err)
{
    int status = dsf_torch_expect(file, node, DSF_TORCH_INT, err);

    if (status < 0)
        return status;
    if (node->kind == DSF_TORCH_BOOL)
        *x = node->truth;
    else if (node->integer.big != NULL)
        return dsf_torch_fail(file, node, err, "%.40s: expected 64 bits",
                              node->integer.big);
    else
        *x = node->integer.value;
    return DSFLOW_OK;
}

int dsf_torch_real(const struct dsf_torch_file *file,
                   const struct dsf_torch_node *node, double *x,
                   struct dsflow_err *err)
{
    int status = dsf_torch_expect(file, node, DSF_TORCH_FLOAT, err);

    if (status == DSFLOW_OK)
        *x = node->kind == DSF_TORCH_INT ? (double)node->integer.value
                                         : node->real;
    return status;
}

int dsf_torch_str(const struct dsf_torch_file *file,
                  const struct dsf_torch_node *node, const char **s,
                  struct dsflow_err *err)
{
    int status = dsf_torch_expect(file, node, DSF_TORCH_STR, err);

    if (status == DSFLOW_OK && strlen(node->str) != node->n)
        return dsf_torch_fail(file, node, err, "a text with a NUL in it");
    if (status == DSFLOW_OK)
        *s = node->str;
    return status;
}

int dsf_torch_tensor(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *node,
                     const struct dsf_torch_tensor **t, struct dsflow_err *err)
{
    int status = dsf_torch_expect(file, node, DSF_TORCH_TENSOR, err);

    if (status == DSFLOW_OK)
        *t = node->tensor;
    return status;
}

bool dsf_torch_is_floats(const struct dsf_torch_node *node)
{
    static const enum dsflow_dtype floats[] = {
        DSFLOW_FP32, DSFLOW_FP64,     DSFLOW_BF16,
        DSFLOW_FP16, DSFLOW_FP8_E4M3, DSFLOW_FP8_E5M2,
    };

    for (size_t i = 0; i < sizeof(floats) / sizeof(*floats); i++)
        if (node->kind == DSF_TORCH_TENSOR && node->tensor->dtype == floats[i])
            return true;
    return false;
}

int dsf_torch_floats(const struct dsf_torch_file *file,
                     const struct dsf_torch_node *node,
                     const struct dsf_torch_tensor **t, struct dsflow_err *err)
{
    int status = dsf_torch_tensor(file, node, t, err);

    if (status == DSFLOW_OK && !dsf_torch_is_floats(node))
        return dsf_torch_fail(file, node, err,
                              "a tensor of %s: expected one of floating point",
                              dsflow_dtype_str((*t)->dtype));
    return status;
}
