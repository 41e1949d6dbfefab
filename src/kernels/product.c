/* product.c - products of matrices of bf16 or fp16, with sums in fp32: by
 * oneDNN's matmul where the processor has instructions for them, else of their
 * numbers in fp32. */
#include "kernels/gemm.h"
#include "kernels/narrow.h"

#include "base/fatal.h"

#include <dnnl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* What a matmul is made for; no padding, for it is compared as bytes. */
struct shape {
    size_t m, n, k, lda, ldb, ldc, ta, tb, adds;
};

/* A matmul of one thread, and the memory objects that it is run on. */
struct matmul {
    struct shape shape;
    uint64_t used;              /* when it was run last */
    dnnl_primitive_t primitive; /* NULL: oneDNN has none for this shape */
    dnnl_memory_t a, b, c;
};

/* More shapes than a job has: three products for each matrix of a layer, for
 * full and last tiles. */
enum { MATMULS = 64 };

struct matmuls {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    uint64_t clock;
    size_t n;
    struct matmul of[MATMULS];
};

static pthread_key_t own; /* struct matmuls of each thread */
static bool have_bf16;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void matmul_free(struct matmul *m)
{
    if (m->a)
        dnnl_memory_destroy(m->a);
    if (m->b)
        dnnl_memory_destroy(m->b);
    if (m->c)
        dnnl_memory_destroy(m->c);
    if (m->primitive)
        dnnl_primitive_destroy(m->primitive);
    *m = (struct matmul){ .primitive = NULL };
}

static void matmuls_free(void *user)
{
    struct matmuls *all = user;

    for (size_t i = 0; i < all->n; i++)
        matmul_free(&all->of[i]);
    if (all->stream)
        dnnl_stream_destroy(all->stream);
    if (all->engine)
        dnnl_engine_destroy(all->engine);
    free(all);
}

/* NULL: there is no memory for it. */
static struct matmuls *matmuls_new(void)
{
    struct matmuls *all = calloc(1, sizeof(*all));

    dsf_gemm_alone();
    if (all && dnnl_engine_create(&all->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&all->stream, all->engine,
                           dnnl_stream_default_flags) == dnnl_success)
        return all;
    if (all)
        matmuls_free(all);
    return NULL;
}

/* What the version of oneDNN makes of a shape. Descriptors are values up to
 * version 2, and objects from 3 on. */
#if DNNL_VERSION_MAJOR < 3

typedef dnnl_memory_desc_t desc;

static dnnl_status_t desc_new(desc *d, dnnl_data_type_t type, size_t rows,
                              size_t cols, size_t down, size_t right)
{
    const dnnl_dims_t dims = { (dnnl_dim_t)rows, (dnnl_dim_t)cols };
    const dnnl_dims_t strides = { (dnnl_dim_t)down, (dnnl_dim_t)right };

    return dnnl_memory_desc_init_by_strides(d, 2, dims, type, strides);
}

static void desc_free(desc *d)
{
    (void)d;
}

static dnnl_status_t memory_new(dnnl_memory_t *memory, const desc *d,
                                dnnl_engine_t engine)
{
    return dnnl_memory_create(memory, d, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *made, const desc d[3],
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    dnnl_matmul_desc_t op;
    dnnl_status_t status =
        dnnl_matmul_desc_init(&op, &d[0], &d[1], NULL, &d[2]);

    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(made, &op, attr, engine, NULL);
    return status;
}

#else

typedef dnnl_memory_desc_t desc;

static dnnl_status_t desc_new(desc *d, dnnl_data_type_t type, size_t rows,
                              size_t cols, size_t down, size_t right)
{
    const dnnl_dims_t dims = { (dnnl_dim_t)rows, (dnnl_dim_t)cols };
    const dnnl_dims_t strides = { (dnnl_dim_t)down, (dnnl_dim_t)right };

    return dnnl_memory_desc_create_with_strides(d, 2, dims, type, strides);
}

static void desc_free(desc *d)
{
    if (*d)
        dnnl_memory_desc_destroy(*d);
}

static dnnl_status_t memory_new(dnnl_memory_t *memory, const desc *d,
                                dnnl_engine_t engine)
{
    return dnnl_memory_create(memory, *d, engine, DNNL_MEMORY_NONE);
}

static dnnl_status_t append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static dnnl_status_t describe(dnnl_primitive_desc_t *made, const desc d[3],
                              dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    return dnnl_matmul_primitive_desc_create(made, engine, d[0], d[1], NULL,
                                             d[2], attr);
}

#endif

/* NULL where nothing is added to. */
static dnnl_status_t attr_new(dnnl_primitive_attr_t *attr, bool adds)
{
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status;

    *attr = NULL;
    if (!adds)
        return dnnl_success;
    if ((status = dnnl_primitive_attr_create(attr)) != dnnl_success)
        return status;
    if ((status = dnnl_post_ops_create(&ops)) == dnnl_success)
        status = append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(*attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    return status;
}

/* The primitive of a description. A reference of oneDNN's, slower than what
 * there is without it, counts as none. */
static dnnl_status_t build(struct matmul *m, const desc d[3],
                           dnnl_primitive_attr_t attr, dnnl_engine_t engine)
{
    dnnl_primitive_desc_t made = NULL;
    const char *name = "";
    dnnl_status_t status = describe(&made, d, attr, engine);

    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_query(made, dnnl_query_impl_info_str, 0, &name);
    if (status == dnnl_success && strncmp(name, "ref", 3) == 0)
        status = dnnl_unimplemented;
    if (status == dnnl_success)
        status = dnnl_primitive_create(&m->primitive, made);
    if (made)
        dnnl_primitive_desc_destroy(made);
    return status;
}

static dnnl_status_t matmul_new(struct matmul *m, const struct shape *s,
                                dnnl_engine_t engine)
{
    desc d[3];
    dnnl_primitive_attr_t attr = NULL;
    dnnl_status_t status;

    *m = (struct matmul){ .shape = *s };
    memset(d, 0, sizeof(d));
    status = desc_new(&d[0], dnnl_bf16, s->m, s->k, s->ta ? 1 : s->lda,
                      s->ta ? s->lda : 1);
    if (status == dnnl_success)
        status = desc_new(&d[1], dnnl_bf16, s->k, s->n, s->tb ? 1 : s->ldb,
                          s->tb ? s->ldb : 1);
    if (status == dnnl_success)
        status = desc_new(&d[2], dnnl_f32, s->m, s->n, s->ldc, 1);
    if (status == dnnl_success)
        status = attr_new(&attr, s->adds);
    if (status == dnnl_success)
        status = build(m, d, attr, engine);
    if (status == dnnl_success)
        status = memory_new(&m->a, &d[0], engine);
    if (status == dnnl_success)
        status = memory_new(&m->b, &d[1], engine);
    if (status == dnnl_success)
        status = memory_new(&m->c, &d[2], engine);
    if (attr)
        dnnl_primitive_attr_destroy(attr);
    for (int i = 0; i < 3; i++)
        desc_free(&d[i]);
    if (status != dnnl_success)
        matmul_free(m);
    m->shape = *s;
    return status;
}

/* Has the processor, or what ONEDNN_MAX_CPU_ISA leaves of it, instructions for
 * products of bf16? With AVX-512 alone oneDNN converts, and is no faster than
 * with fp32. */
static bool has_instructions(void)
{
    const int bf16 = dnnl_cpu_isa_avx512_core_bf16; /* a set of bits */

    return ((int)dnnl_get_effective_cpu_isa() & bf16) == bf16;
}

/* Are products of bf16 oneDNN's here? */
static void find_out(void)
{
    const struct shape small = { 32, 32, 32, 32, 32, 32, 0, 0, 0 };
    struct matmuls *all = matmuls_new();

    if (pthread_key_create(&own, matmuls_free) != 0 || !all)
        dsf_fatal("no memory for oneDNN");
    have_bf16 = has_instructions() &&
                matmul_new(&all->of[0], &small, all->engine) == dnnl_success;
    all->n = 1;
    matmuls_free(all);
}

/* Those of this thread; they go when it ends. */
static struct matmuls *matmuls_here(void)
{
    struct matmuls *all = pthread_getspecific(own);

    if (all)
        return all;
    all = matmuls_new();
    if (all && pthread_setspecific(own, all) == 0)
        return all;
    if (all)
        matmuls_free(all);
    return NULL;
}

/* A place for one more: where there is none, that of the one not run for the
 * longest time. */
static struct matmul *room_for_one(struct matmuls *all)
{
    struct matmul *oldest = &all->of[0];

    if (all->n < MATMULS)
        return &all->of[all->n++];
    for (size_t i = 1; i < all->n; i++)
        if (all->of[i].used < oldest->used)
            oldest = &all->of[i];
    matmul_free(oldest);
    return oldest;
}

/* *status: dnnl_unimplemented where oneDNN has none for this shape. */
static struct matmul *matmul_of(struct matmuls *all, const struct shape *s,
                                dnnl_status_t *status)
{
    struct matmul *m = NULL;

    *status = dnnl_success;
    for (size_t i = 0; i < all->n && !m; i++)
        if (memcmp(&all->of[i].shape, s, sizeof(*s)) == 0)
            m = &all->of[i];
    if (!m) {
        m = room_for_one(all);
        *status = matmul_new(m, s, all->engine);
        /* One that memory was missing for is made again. */
        if (*status != dnnl_success && *status != dnnl_unimplemented)
            m->shape.m = 0;
    } else if (!m->primitive)
        *status = dnnl_unimplemented;
    m->used = ++all->clock;
    return m;
}

static dnnl_status_t run(const struct matmuls *all, const struct matmul *m,
                         const struct dsf_product *p)
{
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, m->a },
                                     { DNNL_ARG_WEIGHTS, m->b },
                                     { DNNL_ARG_DST, m->c } };
    dnnl_status_t status = dnnl_memory_set_data_handle(m->a, (void *)p->a);

    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(m->b, (void *)p->b);
    if (status == dnnl_success)
        status = dnnl_memory_set_data_handle(m->c, p->c);
    if (status == dnnl_success)
        status = dnnl_primitive_execute(m->primitive, all->stream, 3, args);
    if (status == dnnl_success)
        status = dnnl_stream_wait(all->stream);
    return status;
}

static dnnl_status_t by_matmul(const struct dsf_product *p)
{
    const struct shape s = { p->m,       p->n,       p->k,
                             p->lda,     p->ldb,     p->ldc,
                             p->ta != 0, p->tb != 0, p->beta != 0 };
    struct matmuls *all = matmuls_here();
    struct matmul *m;
    dnnl_status_t status;

    if (!all)
        return dnnl_out_of_memory;
    m = matmul_of(all, &s, &status);
    return status == dnnl_success ? run(all, m, p) : status;
}

/* Floats of a block of B, and what its columns are a multiple of. */
enum { BLOCK = 1 << 18, WHOLE = 16 };

static size_t round_up(size_t n)
{
    return (n + WHOLE - 1) / WHOLE * WHOLE;
}

/* Columns of C that are computed at a time. */
static size_t block_cols(size_t n, size_t k)
{
    size_t cols = BLOCK / k / WHOLE * WHOLE;

    cols = cols < WHOLE ? WHOLE : cols;
    return cols < n ? cols : n;
}

size_t dsf_product_scratch(size_t m, size_t n, size_t k)
{
    return (round_up(m * k) + round_up(block_cols(n, k) * k)) * sizeof(float);
}

static void widen_rows(enum dsflow_dtype type, const uint16_t *in, size_t ld,
                       float *out, size_t rows, size_t cols)
{
    const struct dsf_narrow_loops *loops = dsf_narrow(type);

    for (size_t r = 0; r < rows; r++)
        loops->widen(in + r * ld, out + r * cols, cols);
}

static void by_floats(const struct dsf_product *p)
{
    const size_t m = p->m, k = p->k, cols = block_cols(p->n, k);
    float *a = p->scratch, *b = a + round_up(m * k);

    widen_rows(p->type, p->a, p->lda, a, p->ta ? k : m, p->ta ? m : k);
    for (size_t j = 0; j < p->n; j += cols) {
        size_t n = p->n - j < cols ? p->n - j : cols;

        if (p->tb)
            widen_rows(p->type, p->b + j * p->ldb, p->ldb, b, n, k);
        else
            widen_rows(p->type, p->b + j, p->ldb, b, k, n);
        dsf_gemm(p->ta, p->tb, m, n, k, a, p->ta ? m : k, b, p->tb ? k : n,
                 p->beta, p->c + j, p->ldc);
    }
}

void dsf_product(const struct dsf_product *p)
{
    dnnl_status_t status = dnnl_unimplemented;

    pthread_once(&once, find_out);
    if (have_bf16 && p->type == DSFLOW_BF16)
        status = by_matmul(p);
    if (status == dnnl_unimplemented)
        by_floats(p);
    else if (status != dnnl_success)
        dsf_gemm_failed((int)status, p->m, p->n, p->k);
}
