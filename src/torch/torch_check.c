/* torch_check.c - what a pickle can say and no tree can be: a list that is in
 * itself, one that is as large as the world because it has the same ones in it
 * over and over, a dict with a key twice. */
#include "torch/torch_private.h"

#include "base/alloc.h"

#include <stdlib.h>

/* Nodes, each counted wherever it stands. */
#define MOST_WEIGHT 50000000u
enum { SMALL = 8 }; /* entries that are found without an order */

struct check {
    struct dsf_torch_file *file;
    struct dsflow_err *err;
};

static int order_of(const void *a, const void *b, void *dict)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order =
        dsf_torch_key_order(dsf_torch_key(dict, x), dsf_torch_key(dict, y));

    return order != 0 ? order : (x > y) - (x < y);
}

static bool is_text_or_int(const struct dsf_torch_node *key)
{
    return key->kind == DSF_TORCH_STR || key->kind == DSF_TORCH_INT;
}

static int check_keys(const struct check *c, struct node *dict)
{
    uint32_t n = dict->pub.n, *sorted = dsf_xcalloc(n, sizeof(*sorted));
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < n; i++)
        sorted[i] = i;
    qsort_r(sorted, n, sizeof(*sorted), order_of, &dict->pub);
    for (uint32_t i = 1; i < n && status == DSFLOW_OK; i++) {
        const struct dsf_torch_node *a =
            dsf_torch_key(&dict->pub, sorted[i - 1]);
        const struct dsf_torch_node *b = dsf_torch_key(&dict->pub, sorted[i]);

        if (!is_text_or_int(a) || dsf_torch_key_order(a, b) != 0)
            continue;
        status =
            a->kind == DSF_TORCH_STR
                ? dsflow_fail(c->err, DSFLOW_EINVAL,
                              "%s: its pickle: a dict has key %.100s twice",
                              c->file->path, a->str)
                : dsflow_fail(c->err, DSFLOW_EINVAL,
                              "%s: its pickle: a dict has key %lld twice",
                              c->file->path, (long long)a->integer.value);
    }
    if (status == DSFLOW_OK && n > SMALL)
        dict->sorted =
            dsf_blocks_copy(&c->file->mem, sorted, n * sizeof(*sorted), 4);
    free(sorted);
    return status;
}

static int visit(const struct check *c, const struct dsf_torch_node *at,
                 unsigned level, struct node *above);

static int visit_below(const struct check *c, struct node *n, unsigned level)
{
    const struct dsf_torch_node *at = &n->pub;
    size_t all = 0;
    int status = DSFLOW_OK;

    if (at->kind >= DSF_TORCH_LIST && at->kind <= DSF_TORCH_DICT)
        all = at->n * (at->kind == DSF_TORCH_DICT ? (size_t)2 : 1);
    for (size_t i = 0; i < all && status == DSFLOW_OK; i++)
        status = visit(c, at->items[i], level + 1, n);
    if (status == DSFLOW_OK && at->kind == DSF_TORCH_OBJECT) {
        status = visit(c, at->object.args, level + 1, n);
        if (status == DSFLOW_OK)
            status = visit(c, at->object.filled, level + 1, n);
    }
    if (status == DSFLOW_OK)
        status = visit(c, at->state, level + 1, n);
    if (status == DSFLOW_OK && at->kind == DSF_TORCH_DICT && at->n > 1)
        status = check_keys(c, n);
    return status;
}

/* Adds what is at and below `at` to `above`. */
static int visit(const struct check *c, const struct dsf_torch_node *at,
                 unsigned level, struct node *above)
{
    uint64_t weight = 1;
    unsigned depth = 1;
    int status;

    if (at == NULL)
        return DSFLOW_OK;
    if (is_grown(at)) {
        struct node *n = node_of(at);

        if (n->visited && !n->ended)
            return dsflow_fail(c->err, DSFLOW_EINVAL,
                               "%s: its pickle: %s is in itself", c->file->path,
                               dsf_torch_kind_str(at->kind));
        if (level + (n->ended ? n->depth : 1u) > DSF_TORCH_MOST_DEPTH)
            return dsflow_fail(c->err, DSFLOW_EINVAL,
                               "%s: its pickle: lists in lists, more than %d "
                               "deep",
                               c->file->path, DSF_TORCH_MOST_DEPTH);
        if (!n->visited) {
            n->visited = true;
            n->weight = 1;
            n->depth = 1;
            status = visit_below(c, n, level);
            if (status < 0)
                return status;
            n->ended = true;
        }
        weight = n->weight;
        depth = n->depth;
    }
    if (above->weight + weight > MOST_WEIGHT)
        return dsflow_fail(c->err, DSFLOW_EINVAL,
                           "%s: its pickle: more than %u things, as it has the "
                           "same ones over and over",
                           c->file->path, MOST_WEIGHT);
    above->weight += (uint32_t)weight;
    if (depth + 1 > above->depth)
        above->depth = (uint16_t)(depth + 1);
    return DSFLOW_OK;
}

int dsf_torch_check(struct dsf_torch_file *f, const struct dsf_torch_node *root,
                    struct dsflow_err *err)
{
    struct check c = { .file = f, .err = err };
    struct node top = { .weight = 0 };

    return visit(&c, root, 1, &top);
}
