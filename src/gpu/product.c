/* product.c - a product by the library, with what follows it in the same pass
 * where the library does that, or else by kernels behind it. */
#include "gpu/product.h"

#include "gpu/kernels.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char failed[256];
static atomic_int tf32; /* of the whole program */

static size_t number(enum dsflow_dtype type)
{
    return type == DSFLOW_FP32 ? 4 : 2;
}

/* Rows of a matrix, or what is NULL. */
static int fits(const void *at, size_t ld, enum dsflow_dtype type)
{
    return at == NULL || ((uintptr_t)at % DSF_GPU_ALIGNMENT == 0 &&
                          ld * number(type) % DSF_GPU_ALIGNMENT == 0);
}

static int is_aligned(const struct dsf_gpu_product *p)
{
    return fits(p->a, p->lda, p->type) && fits(p->b, p->ldb, p->type) &&
           fits(p->c, p->ldc, p->out) && fits(p->add, p->ldc, p->out);
}

static int fuses(const struct dsf_gpu_product *p)
{
    return p->type != DSFLOW_FP32 && p->out == p->type && is_aligned(p) &&
           fits(p->bias, 0, p->type) && fits(p->aux, p->n, p->type);
}

static void note(const char *why)
{
    if (why != NULL && failed[0] == 0)
        snprintf(failed, sizeof(failed), "%s", why);
}

static const char *multiply(const struct dsf_gpu_product *p, void *stream)
{
    struct dsf_gpu_product rounded = *p;

    rounded.tf32 = p->type == DSFLOW_FP32 && atomic_load(&tf32);
    return dsf_gpu_matmul(
        &rounded, is_aligned(p) ? DSF_GPU_ALIGNMENT : number(p->type), stream);
}

void dsf_gpu_products_round(int to_tf32)
{
    atomic_store(&tf32, to_tf32);
}

/* `z` is A B, of which C is made. */
static void follow(const struct dsf_gpu_product *p, const float *z,
                   void *stream)
{
    const enum dsflow_dtype type = p->out;
    const size_t ldz = z == p->c ? p->ldc : p->n;

    if (p->epilogue == DSF_GPU_GELU)
        dsf_gpu_gelu_forward(type, z, p->bias, p->aux, p->c, p->m, p->n,
                             stream);
    else if (p->epilogue == DSF_GPU_DGELU)
        dsf_gpu_gelu_backward(type, p->aux, z, p->c, p->m * p->n, stream);
    else if (p->add != NULL && z != p->c)
        dsf_gpu_residual(type, z, p->add, p->bias, p->c, p->m, p->n, stream);
    else
        dsf_gpu_narrow(type, z, ldz, p->bias, p->c, p->ldc, p->m, p->n, stream);
}

/* In two passes. A B stands in fp32 between them: where C is of that, there, or
 * where `aux` will. */
static void split(const struct dsf_gpu_product *p, void *stream)
{
    const int wide = p->out == DSFLOW_FP32;
    struct dsf_gpu_product first = *p;

    first.bias = first.aux = NULL;
    first.epilogue = DSF_GPU_AS_IT_IS;
    first.out = DSFLOW_FP32;
    first.c = !wide ? p->wide : p->epilogue == DSF_GPU_GELU ? p->aux : p->c;
    if (!wide) {
        first.add = NULL;
        first.ldc = p->n;
    }
    note(multiply(&first, stream));
    follow(p, first.c, stream);
}

/* `rows` rows of a matrix further on. */
static void *rows_on(const void *at, size_t rows, size_t ld,
                     enum dsflow_dtype type)
{
    return at == NULL ? NULL : (char *)at + rows * ld * number(type);
}

/* The same, of as many rows at a time as `wide` has of a product that fuses: a
 * multiple of 8, so that all are aligned. */
static void split_in_rows(const struct dsf_gpu_product *p, void *stream)
{
    const size_t few = dsf_gpu_product_few(p->m, p->n) / p->n;
    const size_t most = few < p->m ? few / 8 * 8 : p->m;

    for (size_t at = 0; at < p->m; at += most) {
        struct dsf_gpu_product some = *p;

        some.m = p->m - at < most ? p->m - at : most;
        some.a = rows_on(p->a, at, p->ta ? 1 : p->lda, p->type);
        some.c = rows_on(p->c, at, p->ldc, p->out);
        some.add = rows_on(p->add, at, p->ldc, p->out);
        some.aux = rows_on(p->aux, at, p->n, p->type);
        split(&some, stream);
    }
}

void dsf_gpu_multiply(const struct dsf_gpu_product *p, void *stream)
{
    const int follows = p->bias != NULL || p->epilogue != DSF_GPU_AS_IT_IS;
    const char *why;

    if (p->out != DSFLOW_FP32 && p->out != p->type) {
        split_in_rows(p, stream);
        return;
    }
    if (follows && !fuses(p)) {
        split(p, stream);
        return;
    }
    why = multiply(p, stream);
    if (why != NULL && follows)
        split_in_rows(p, stream);
    else
        note(why);
    if (why == NULL && p->epilogue == DSF_GPU_DGELU)
        dsf_gpu_gelu(p->type, p->aux, p->m * p->n, stream);
}

const char *dsf_gpu_multiply_failed(void)
{
    static _Thread_local char told[sizeof(failed)];

    if (failed[0] == 0)
        return NULL;
    memcpy(told, failed, sizeof(told));
    failed[0] = 0;
    return told;
}
