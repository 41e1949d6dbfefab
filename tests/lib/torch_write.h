/* torch_write.h - files as torch.save wrote them before torch 1.6, for tests: a
 * stream of pickles, and behind them the numbers. */
#ifndef DSF_TESTS_LIB_TORCH_WRITE_H
#define DSF_TESTS_LIB_TORCH_WRITE_H

#include "lib/test.h"

#include "base/alloc.h"
#include "base/half.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct torch_out {
    FILE *memory;
    char *pickle;
    size_t bytes;
    struct {
        void *data;
        size_t bytes;
        int64_t elems;
    } storages[512];
    int nstorages;
};

static inline void put_bytes(struct torch_out *o, const void *v, size_t n)
{
    assert_int_equal(fwrite(v, 1, n, o->memory), n);
}

static inline void put_ops(struct torch_out *o, const char *ops)
{
    put_bytes(o, ops, strlen(ops));
}

/* x86's order of bytes, as pickles have it. */
static inline void put_u32(struct torch_out *o, uint32_t x)
{
    put_bytes(o, &x, sizeof(x));
}

static inline void put_str(struct torch_out *o, const char *s)
{
    put_ops(o, "X");
    put_u32(o, (uint32_t)strlen(s));
    put_ops(o, s);
}

static inline void put_int(struct torch_out *o, int32_t x)
{
    put_ops(o, "J");
    put_u32(o, (uint32_t)x);
}

static inline void put_real(struct torch_out *o, double x)
{
    unsigned char v[8];
    uint64_t bits;

    memcpy(&bits, &x, sizeof(bits));
    for (int i = 0; i < 8; i++)
        v[i] = (unsigned char)(bits >> (56 - 8 * i));
    put_ops(o, "G");
    put_bytes(o, v, sizeof(v));
}

static inline void put_bool(struct torch_out *o, bool x)
{
    put_ops(o, x ? "\x88" : "\x89");
}

/* Between them are keys and values, or items. */
static inline void begin_dict(struct torch_out *o)
{
    put_ops(o, "}(");
}
static inline void end_dict(struct torch_out *o)
{
    put_ops(o, "u");
}
static inline void begin_list(struct torch_out *o)
{
    put_ops(o, "](");
}
static inline void end_list(struct torch_out *o)
{
    put_ops(o, "e");
}

/* argparse.Namespace: between them are the entries of a dict. */
static inline void begin_args(struct torch_out *o)
{
    put_ops(o, "cargparse\nNamespace\n)\x81}(");
}
static inline void end_args(struct torch_out *o)
{
    put_ops(o, "ub");
}

static inline void put_ints(struct torch_out *o, const int64_t *v, unsigned n)
{
    put_ops(o, "(");
    for (unsigned i = 0; i < n; i++)
        put_int(o, (int32_t)v[i]);
    put_ops(o, "t");
}

/* `half`: of 16 bits, rounded. */
static inline void put_tensor(struct torch_out *o, unsigned ndims,
                              const int64_t *dims, const float *v, bool half)
{
    int64_t n = 1, strides[4] = { 1 };
    char key[16];
    size_t size = half ? 2 : 4;
    void *data;

    for (unsigned d = ndims; d-- > 0; n *= dims[d])
        strides[d] = n;
    data = dsf_xcalloc((size_t)n + 1, size);
    for (int64_t i = 0; i < n; i++)
        if (half)
            ((uint16_t *)data)[i] = dsf_to_fp16(v[i]);
        else
            ((float *)data)[i] = v[i];
    assert_true(o->nstorages < 512);
    o->storages[o->nstorages].data = data;
    o->storages[o->nstorages].bytes = (size_t)n * size;
    o->storages[o->nstorages].elems = n;
    snprintf(key, sizeof(key), "%d", o->nstorages++);
    put_ops(o, "ctorch._utils\n_rebuild_tensor_v2\n((");
    put_str(o, "storage");
    put_ops(o, half ? "ctorch\nHalfStorage\n" : "ctorch\nFloatStorage\n");
    put_str(o, key);
    put_str(o, "cpu");
    put_int(o, (int32_t)n);
    put_ops(o, "NtQ");
    put_int(o, 0);
    put_ints(o, dims, ndims);
    put_ints(o, strides, ndims);
    put_ops(o, "\x89"
               "ccollections\nOrderedDict\n)RtR");
}

/* What is put next is one object, which is the file's. */
static inline void torch_begin(struct torch_out *o)
{
    *o = (struct torch_out){ 0 };
    o->memory = open_memstream(&o->pickle, &o->bytes);
    assert_non_null(o->memory);
    put_ops(o, "\x80\x02");
}

static inline void torch_end(struct torch_out *o, const char *path)
{
    static const char magic[] = "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
    static const char protocol[] = "\x80\x02M\xe9\x03.";
    FILE *f = fopen(path, "w");
    char key[16];

    assert_non_null(f);
    put_ops(o, ".");
    put_ops(o, "\x80\x02");
    begin_list(o);
    for (int i = 0; i < o->nstorages; i++) {
        snprintf(key, sizeof(key), "%d", i);
        put_str(o, key);
    }
    end_list(o);
    put_ops(o, ".");
    fclose(o->memory);
    fwrite(magic, 1, sizeof(magic) - 1, f);
    fwrite(protocol, 1, sizeof(protocol) - 1, f);
    fwrite("\x80\x02}.", 1, 4, f); /* about the machine that wrote it */
    fwrite(o->pickle, 1, o->bytes, f);
    for (int i = 0; i < o->nstorages; i++) {
        fwrite(&o->storages[i].elems, sizeof(int64_t), 1, f);
        fwrite(o->storages[i].data, 1, o->storages[i].bytes, f);
        free(o->storages[i].data);
    }
    assert_int_equal(fclose(f), 0);
    free(o->pickle);
}

#endif
