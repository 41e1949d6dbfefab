/* torch_tree.c - a tree of torch.save, as text and as JSON. */
#include "cli/torch_tree.h"

#include "base/alloc.h"
#include "base/units.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEP = 2,
    WIDEST = 52, /* columns that names are padded to */
    FEW = 6,     /* things of a long list that are shown */
    MANY = 12,   /* a list of more is long */
    TEXT = 60,   /* columns of a text */
};

char *dsf_dims_text(const int64_t *dims, unsigned ndims)
{
    char text[256];

    return dsf_xstrdup(ndims == 0
                           ? "one number"
                           : dsf_shape_str(ndims, dims, text, sizeof(text)));
}

/* Text in quotes, without what a terminal could not show. */
static char *quoted(const char *s, size_t n)
{
    bool cut = n > TEXT;
    char *copy = dsf_xstrndup(s, cut ? TEXT : n), *both;

    dsf_utf8_clean(copy);
    both = dsf_xasprintf("\"%s%s\"", copy, cut ? "…" : "");
    free(copy);
    return both;
}

static char *key_text(const struct dsf_torch_node *key)
{
    char *text;

    if (key->kind == DSF_TORCH_INT && key->integer.big == NULL)
        return dsf_xasprintf("%lld", (long long)key->integer.value);
    if (key->kind != DSF_TORCH_STR)
        return dsf_xasprintf("(%s)", dsf_torch_kind_str(key->kind));
    if (key->n == 0)
        return dsf_xstrdup("\"\"");
    text = dsf_xstrndup(key->str, key->n);
    dsf_utf8_clean(text);
    return text;
}

/* "defaultdict" of "collections.defaultdict"; what has no name of its own: "".
 */
static const char *class_of(const struct dsf_torch_node *n)
{
    const char *dot = n->of != NULL ? strrchr(n->of, '.') : NULL;
    const char *name = dot != NULL ? dot + 1 : n->of;

    if (name == NULL || strcmp(name, "OrderedDict") == 0 ||
        strcmp(name, "Parameter") == 0 || strcmp(name, "ndarray") == 0 ||
        strcmp(name, "generic") == 0 || strcmp(name, "Size") == 0 ||
        strcmp(name, "device") == 0)
        return "";
    return name;
}

/* What stands behind the name of something that has nothing below it, or in
 * front of what is. */
static char *text_of(const struct dsf_torch_node *n);

static bool is_short(const struct dsf_torch_node *n)
{
    return n->kind <= DSF_TORCH_BYTES || n->kind == DSF_TORCH_GLOBAL ||
           ((n->kind == DSF_TORCH_LIST || n->kind == DSF_TORCH_TUPLE ||
             n->kind == DSF_TORCH_SET || n->kind == DSF_TORCH_DICT) &&
            n->n == 0 && n->state == NULL);
}

/* What was an object and has few attributes: "fragment_address(numel=4,
 * start=0)".
 */
static bool is_small_object(const struct dsf_torch_node *n)
{
    if (n->kind != DSF_TORCH_DICT || class_of(n)[0] == '\0' || n->n == 0 ||
        n->n > 4)
        return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (!is_short(dsf_torch_value(n, i)) ||
            dsf_torch_key(n, i)->kind != DSF_TORCH_STR)
            return false;
    return true;
}

/* A list of short things stands in a line. */
static bool is_line(const struct dsf_torch_node *n)
{
    if (n->kind != DSF_TORCH_LIST && n->kind != DSF_TORCH_TUPLE &&
        n->kind != DSF_TORCH_SET)
        return false;
    for (uint32_t i = 0; i < n->n; i++)
        if (!is_short(dsf_torch_item(n, i)))
            return false;
    return true;
}

static void add_text(char **all, const char *more)
{
    char *both = dsf_xasprintf("%s%s", *all, more);

    free(*all);
    *all = both;
}

static char *line_of(const struct dsf_torch_node *n)
{
    static const char *const marks[][2] = {
        [DSF_TORCH_LIST] = { "[", "]" },
        [DSF_TORCH_TUPLE] = { "(", ")" },
        [DSF_TORCH_SET] = { "{", "}" },
    };
    char *all = dsf_xstrdup(marks[n->kind][0]);
    uint32_t shown = n->n > MANY ? FEW : n->n;

    for (uint32_t i = 0; i < shown; i++) {
        char *one = text_of(dsf_torch_item(n, i));

        if (i > 0)
            add_text(&all, ", ");
        add_text(&all, one);
        free(one);
    }
    if (shown < n->n) {
        char *rest = dsf_xasprintf(", … %u more", n->n - shown);

        add_text(&all, rest);
        free(rest);
    }
    add_text(&all, marks[n->kind][1]);
    return all;
}

/* An object that is its few arguments, as an enumeration's value is. */
static bool is_call(const struct dsf_torch_node *n)
{
    return n->kind == DSF_TORCH_OBJECT && n->state == NULL &&
           n->object.filled == NULL && n->object.args != NULL &&
           n->object.args->n > 0 && n->object.args->n <= 4 &&
           is_line(n->object.args);
}

/* "OptimizerNames("adamw")" */
static char *call_line(const struct dsf_torch_node *n)
{
    char *args = line_of(n->object.args);
    char *text = dsf_xasprintf("%s%s", class_of(n), args);

    free(args);
    return text;
}

static char *object_line(const struct dsf_torch_node *n)
{
    char *all = dsf_xasprintf("%s(", class_of(n));

    for (uint32_t i = 0; i < n->n; i++) {
        char *key = key_text(dsf_torch_key(n, i));
        char *value = text_of(dsf_torch_value(n, i));
        char *both = dsf_xasprintf("%s%s=%s", i > 0 ? ", " : "", key, value);

        add_text(&all, both);
        free(key);
        free(value);
        free(both);
    }
    add_text(&all, ")");
    return all;
}

static char *tensor_text(const struct dsf_torch_tensor *t)
{
    char *shape = dsf_dims_text(t->dims, t->ndims);
    char *text = dsf_xasprintf("%-5s %s", dsflow_dtype_str(t->dtype), shape);

    free(shape);
    return text;
}

static char *text_of(const struct dsf_torch_node *n)
{
    switch (n->kind) {
    case DSF_TORCH_BOOL:
        return dsf_xstrdup(n->truth ? "True" : "False");
    case DSF_TORCH_INT:
        return n->integer.big != NULL
                   ? dsf_xasprintf("%.60s", n->integer.big)
                   : dsf_xasprintf("%lld", (long long)n->integer.value);
    case DSF_TORCH_FLOAT:
        return dsf_xstrdup(dsf_real_text(n->real).s);
    case DSF_TORCH_STR:
        return quoted(n->str, n->n);
    case DSF_TORCH_BYTES:
        return dsf_xasprintf("%u bytes", n->n);
    case DSF_TORCH_TENSOR:
        return tensor_text(n->tensor);
    case DSF_TORCH_STORAGE:
        return dsf_xasprintf("a storage of %lld x %s",
                             (long long)n->storage->elems,
                             dsflow_dtype_str(n->storage->dtype));
    case DSF_TORCH_GLOBAL:
        return dsf_xasprintf("%.100s", n->global);
    case DSF_TORCH_LIST:
    case DSF_TORCH_TUPLE:
    case DSF_TORCH_SET:
        return is_line(n)
                   ? line_of(n)
                   : dsf_xasprintf("%s of %u", dsf_torch_kind_str(n->kind) + 2,
                                   n->n);
    case DSF_TORCH_DICT:
        return is_small_object(n) ? object_line(n)
                                  : dsf_xstrdup(n->n == 0 ? "{}" : "");
    case DSF_TORCH_OBJECT:
        return is_call(n) ? call_line(n)
                          : dsf_xasprintf("%.100s", n->object.name);
    default:
        return dsf_xstrdup("None");
    }
}

/* Columns of a text: what it has of characters. */
static int columns(const char *s)
{
    int n = 0;

    for (; *s != '\0'; s++)
        n += (*s & 0xc0) != 0x80;
    return n;
}

static void print_below(const struct dsf_torch_node *n, int indent);

/* A line: a name, and what it is; then what is below it. */
static void print_named(const char *name, const struct dsf_torch_node *n,
                        int indent, int width)
{
    char *text = text_of(n);
    const char *of = is_small_object(n) ? "" : class_of(n);
    bool behind = text[0] != '\0' || of[0] != '\0';
    int pad = behind && columns(name) < width ? width - columns(name) : 0;

    printf("%*s%s%*s%s%s", indent, "", name, pad, "", behind ? "  " : "", text);
    if (of[0] != '\0' && n->kind != DSF_TORCH_OBJECT)
        printf("%s(%s)", text[0] != '\0' ? " " : "", of);
    putchar('\n');
    free(text);
    print_below(n, indent + STEP);
}

/* Numbered things of which one looks like the other, as states of an optimizer.
 */
static bool is_long(const struct dsf_torch_node *dict)
{
    for (uint32_t i = 0; i < dict->n; i++)
        if (dsf_torch_key(dict, i)->kind != DSF_TORCH_INT ||
            is_short(dsf_torch_value(dict, i)))
            return false;
    return dict->n > MANY;
}

static void print_more(uint32_t n, int indent)
{
    if (n > 0)
        printf("%*s… %u more\n", indent, "", n);
}

static void print_dict(const struct dsf_torch_node *n, int indent)
{
    uint32_t shown = is_long(n) ? FEW : n->n;
    int width = 0;

    for (uint32_t i = 0; i < shown; i++) {
        char *name = key_text(dsf_torch_key(n, i));
        int wide = columns(name);

        if (wide > width && wide <= WIDEST)
            width = wide;
        free(name);
    }
    for (uint32_t i = 0; i < shown; i++) {
        char *name = key_text(dsf_torch_key(n, i));

        print_named(name, dsf_torch_value(n, i), indent, width);
        free(name);
    }
    print_more(n->n - shown, indent);
}

static void print_list(const struct dsf_torch_node *n, int indent)
{
    uint32_t shown = n->n > MANY ? FEW : n->n;

    for (uint32_t i = 0; i < shown; i++) {
        char name[16];

        snprintf(name, sizeof(name), "[%u]", i);
        print_named(name, dsf_torch_item(n, i), indent, 4);
    }
    print_more(n->n - shown, indent);
}

static void print_below(const struct dsf_torch_node *n, int indent)
{
    if (is_small_object(n) || is_call(n))
        return;
    if (n->kind == DSF_TORCH_DICT) {
        print_dict(n, indent);
    } else if (n->kind == DSF_TORCH_OBJECT) {
        if (n->object.args != NULL && n->object.args->n > 0)
            print_named("arguments", n->object.args, indent, 0);
        if (n->object.filled != NULL)
            print_below(n->object.filled, indent);
        if (n->state != NULL && n->state->kind == DSF_TORCH_DICT)
            print_dict(n->state, indent);
        else if (n->state != NULL)
            print_named("state", n->state, indent, 0);
    } else if ((n->kind == DSF_TORCH_LIST || n->kind == DSF_TORCH_TUPLE ||
                n->kind == DSF_TORCH_SET) &&
               !is_line(n)) {
        print_list(n, indent);
    }
}

void dsf_tree_print(const struct dsf_torch_node *root, int indent)
{
    if (root->kind == DSF_TORCH_DICT && root->n > 0)
        print_below(root, indent);
    else
        print_named("", root, indent - STEP, 0);
}

/* --- JSON --- */

static json_t *tensor_json(const struct dsf_torch_tensor *t)
{
    json_t *shape = json_array();

    for (unsigned d = 0; d < t->ndims; d++)
        json_array_append_new(shape, json_integer(t->dims[d]));
    return json_pack("{s:s, s:o}", "dtype", dsflow_dtype_str(t->dtype), "shape",
                     shape);
}

static json_t *list_json(const struct dsf_torch_node *n)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < n->n; i++)
        json_array_append_new(list, dsf_tree_json(dsf_torch_item(n, i)));
    return list;
}

static json_t *dict_json(const struct dsf_torch_node *n)
{
    json_t *dict = json_object();

    for (uint32_t i = 0; i < n->n; i++) {
        char *name = key_text(dsf_torch_key(n, i));

        /* "1" and 1 are two keys of Python's. */
        if (json_object_get(dict, name) != NULL) {
            char *other = dsf_xasprintf("%s #%u", name, i);

            free(name);
            name = other;
        }
        json_object_set_new(dict, name, dsf_tree_json(dsf_torch_value(n, i)));
        free(name);
    }
    return dict;
}

static json_t *object_json(const struct dsf_torch_node *n)
{
    json_t *object = json_pack("{s:s}", "class", n->object.name);

    if (n->object.args != NULL && n->object.args->n > 0)
        json_object_set_new(object, "arguments", list_json(n->object.args));
    if (n->object.filled != NULL)
        json_object_set_new(object, "contents",
                            dsf_tree_json(n->object.filled));
    if (n->state != NULL)
        json_object_set_new(object, "state", dsf_tree_json(n->state));
    return object;
}

json_t *dsf_tree_json(const struct dsf_torch_node *n)
{
    char *text;
    json_t *json;

    switch (n->kind) {
    case DSF_TORCH_NONE:
        return json_null();
    case DSF_TORCH_BOOL:
        return json_boolean(n->truth);
    case DSF_TORCH_INT:
        return n->integer.big != NULL ? json_string(n->integer.big)
                                      : json_integer(n->integer.value);
    case DSF_TORCH_FLOAT:
        json = json_real(n->real); /* NULL: JSON has no such number */
        return json != NULL ? json : json_string(dsf_real_text(n->real).s);
    case DSF_TORCH_STR:
        return json_stringn(n->str, n->n);
    case DSF_TORCH_BYTES:
        return json_pack("{s:I}", "bytes", (json_int_t)n->n);
    case DSF_TORCH_LIST:
    case DSF_TORCH_TUPLE:
    case DSF_TORCH_SET:
        return list_json(n);
    case DSF_TORCH_DICT:
        return dict_json(n);
    case DSF_TORCH_TENSOR:
        return tensor_json(n->tensor);
    case DSF_TORCH_OBJECT:
        return object_json(n);
    default:
        text = text_of(n);
        json = json_string(text);
        free(text);
        return json;
    }
}
