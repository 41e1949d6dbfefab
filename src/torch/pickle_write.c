/* pickle_write.c - a tree as a pickle of protocol 2, as torch.save's own but
 * for its memo, which saves some bytes. */
#include "torch/pickle_write.h"

#include "base/alloc.h"

#include <assert.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 32 };

struct dsf_torch_tree {
    unsigned char *v;
    size_t n, cap;
    char open[DEEPEST]; /* the operation that ends each */
    unsigned depth;
    int64_t *bytes; /* of each tensor */
    size_t ntensors, cap_tensors;
};

struct dsf_torch_tree *dsf_torch_tree_new(void)
{
    struct dsf_torch_tree *t = dsf_xcalloc(1, sizeof(*t));

    dsf_grow(&t->v, &t->cap, 4096, 1);
    memcpy(t->v, "\x80\x02", 2);
    t->n = 2;
    return t;
}

void dsf_torch_tree_free(struct dsf_torch_tree *t)
{
    if (t == NULL)
        return;
    free(t->v);
    free(t->bytes);
    free(t);
}

static void put(struct dsf_torch_tree *t, const void *p, size_t n)
{
    /* Always a byte more, for STOP. */
    dsf_grow(&t->v, &t->cap, t->n + n + 1, 1);
    memcpy(t->v + t->n, p, n);
    t->n += n;
}

static void put_op(struct dsf_torch_tree *t, unsigned char op)
{
    put(t, &op, 1);
}

static void begin(struct dsf_torch_tree *t, const char *ops, char end)
{
    assert(t->depth < DEEPEST);
    put(t, ops, strlen(ops));
    t->open[t->depth++] = end;
}

void dsf_torch_put_dict(struct dsf_torch_tree *t)
{
    begin(t, "}(", 'u'); /* EMPTY_DICT MARK … SETITEMS */
}

void dsf_torch_put_list(struct dsf_torch_tree *t)
{
    begin(t, "](", 'e'); /* EMPTY_LIST MARK … APPENDS */
}

void dsf_torch_put_tuple(struct dsf_torch_tree *t)
{
    begin(t, "(", 't'); /* MARK … TUPLE */
}

void dsf_torch_put_end(struct dsf_torch_tree *t)
{
    assert(t->depth > 0);
    put_op(t, (unsigned char)t->open[--t->depth]);
}

void dsf_torch_put_none(struct dsf_torch_tree *t)
{
    put_op(t, 'N');
}

void dsf_torch_put_bool(struct dsf_torch_tree *t, bool x)
{
    put_op(t, x ? 0x88 : 0x89); /* NEWTRUE, NEWFALSE */
}

void dsf_torch_put_int(struct dsf_torch_tree *t, int64_t x)
{
    uint64_t le = htole64((uint64_t)x);

    if (x >= INT32_MIN && x <= INT32_MAX) {
        put_op(t, 'J'); /* BININT */
        put(t, &le, 4);
    } else {
        put(t, "\x8a\x08", 2); /* LONG1 of 8 bytes */
        put(t, &le, 8);
    }
}

void dsf_torch_put_real(struct dsf_torch_tree *t, double x)
{
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    bits = htobe64(bits);
    put_op(t, 'G'); /* BINFLOAT */
    put(t, &bits, sizeof(bits));
}

void dsf_torch_put_text(struct dsf_torch_tree *t, const char *s)
{
    uint32_t le = htole32((uint32_t)strlen(s));

    put_op(t, 'X'); /* BINUNICODE */
    put(t, &le, sizeof(le));
    put(t, s, strlen(s));
}

void dsf_torch_put_key(struct dsf_torch_tree *t, const char *s)
{
    assert(t->depth > 0 && t->open[t->depth - 1] == 'u');
    dsf_torch_put_text(t, s);
}

static const char *storage_of(enum dsflow_dtype dtype)
{
    static const struct {
        enum dsflow_dtype dtype;
        const char *name;
    } storages[] = {
        { DSFLOW_FP32, "Float" },    { DSFLOW_FP64, "Double" },
        { DSFLOW_BF16, "BFloat16" }, { DSFLOW_FP16, "Half" },
        { DSFLOW_INT8, "Char" },     { DSFLOW_INT16, "Short" },
        { DSFLOW_INT32, "Int" },     { DSFLOW_INT64, "Long" },
        { DSFLOW_UINT8, "Byte" },    { DSFLOW_BOOLEAN, "Bool" },
    };

    for (size_t i = 0; i < sizeof(storages) / sizeof(*storages); i++)
        if (storages[i].dtype == dtype)
            return storages[i].name;
    assert(!"a type that torch has no storage of");
    return NULL;
}

static void put_global(struct dsf_torch_tree *t, const char *module,
                       const char *name)
{
    char *both = dsf_xasprintf("c%s\n%s\n", module, name);

    put(t, both, strlen(both));
    free(both);
}

/* ("storage", class, key, "cpu", elements) as a persistent id. */
static void put_storage(struct dsf_torch_tree *t, enum dsflow_dtype dtype,
                        int64_t elems)
{
    char *class = dsf_xasprintf("%sStorage", storage_of(dtype)), key[16];

    snprintf(key, sizeof(key), "%zu", t->ntensors);
    dsf_torch_put_tuple(t);
    dsf_torch_put_text(t, "storage");
    put_global(t, "torch", class);
    dsf_torch_put_text(t, key);
    dsf_torch_put_text(t, "cpu");
    dsf_torch_put_int(t, elems);
    dsf_torch_put_end(t);
    put_op(t, 'Q'); /* BINPERSID */
    free(class);
}

/* _rebuild_tensor_v2(storage, 0, sizes, strides, False, OrderedDict()) */
unsigned dsf_torch_put_tensor(struct dsf_torch_tree *t, enum dsflow_dtype dtype,
                              unsigned ndims, const int64_t *dims)
{
    int64_t elems = 1, stride;

    for (unsigned d = 0; d < ndims; d++)
        elems *= dims[d];
    put_global(t, "torch._utils", "_rebuild_tensor_v2");
    dsf_torch_put_tuple(t);
    put_storage(t, dtype, elems);
    dsf_torch_put_int(t, 0);
    dsf_torch_put_tuple(t);
    for (unsigned d = 0; d < ndims; d++)
        dsf_torch_put_int(t, dims[d]);
    dsf_torch_put_end(t);
    dsf_torch_put_tuple(t);
    stride = elems;
    for (unsigned d = 0; d < ndims; d++) {
        stride = dims[d] > 0 ? stride / dims[d] : 1;
        dsf_torch_put_int(t, stride > 0 ? stride : 1);
    }
    dsf_torch_put_end(t);
    dsf_torch_put_bool(t, false);
    put_global(t, "collections", "OrderedDict");
    put(t, ")R", 2); /* EMPTY_TUPLE REDUCE */
    dsf_torch_put_end(t);
    put_op(t, 'R');
    dsf_grow(&t->bytes, &t->cap_tensors, t->ntensors + 1, sizeof(*t->bytes));
    t->bytes[t->ntensors] = (int64_t)dsflow_dtype_bytes(dtype, elems);
    return (unsigned)t->ntensors++;
}

const void *dsf_torch_tree_pickle(const struct dsf_torch_tree *t, size_t *n)
{
    assert(t->depth == 0);
    t->v[t->n] = '.'; /* STOP */
    *n = t->n + 1;
    return t->v;
}

unsigned dsf_torch_tree_count(const struct dsf_torch_tree *t)
{
    return (unsigned)t->ntensors;
}

int64_t dsf_torch_tree_bytes(const struct dsf_torch_tree *t, unsigned i)
{
    return t->bytes[i];
}
