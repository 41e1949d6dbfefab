/* test_gemm.c - products of matrices. */
#include "unit/kernels/numeric.h"

#include <pthread.h>
#include <sys/resource.h>

struct shape {
    int ta, tb;
    size_t m, n, k, lda, ldb, ldc;
    float beta;
};

static const struct shape shapes[] = {
    { 0, 1, 1, 1, 1, 1, 1, 1, 0 },
    { 0, 1, 7, 33, 48, 48, 48, 33, 0 },
    { 0, 0, 33, 65, 80, 80, 65, 65, 0 },
    { 1, 0, 65, 48, 33, 65, 48, 48, 1 },
    { 0, 1, 33, 31, 65, 100, 70, 96, 1 },
    { 1, 1, 5, 6, 7, 5, 7, 9, 1 },
    { 0, 1, 256, 769, 384, 384, 384, 769, 0 },
    { 1, 0, 259, 129, 256, 50257, 129, 129, 1 },
};

static double element(const double *p, size_t ld, int t, size_t i, size_t j)
{
    return t ? p[j * ld + i] : p[i * ld + j];
}

static void products_are_those_of_double_precision(void **state)
{
    for (size_t s = 0; s < sizeof(shapes) / sizeof(*shapes); s++) {
        const struct shape *p = &shapes[s];
        struct tensor a = tensor_new((p->ta ? p->k : p->m) * p->lda, 1, 1);
        struct tensor b = tensor_new((p->tb ? p->n : p->k) * p->ldb, 1, 2);
        struct tensor c = tensor_new(p->m * p->ldc, 1, 3);

        dsf_gemm(p->ta, p->tb, p->m, p->n, p->k, a.f, p->lda, b.f, p->ldb,
                 p->beta, c.f, p->ldc);
        for (size_t i = 0; i < p->m; i++) {
            for (size_t j = 0; j < p->n; j++) {
                double sum = c.d[i * p->ldc + j] * (double)p->beta;

                for (size_t k = 0; k < p->k; k++)
                    sum += element(a.d, p->lda, p->ta, i, k) *
                           element(b.d, p->ldb, p->tb, k, j);
                c.d[i * p->ldc + j] = sum;
            }
        }
        assert_close(c.f, c.d, c.n, 5e-7);
        tensor_free(&a);
        tensor_free(&b);
        tensor_free(&c);
    }
}

/* The same product with operands at this many bytes from a page. */
struct placed {
    size_t at;
    uint32_t bits; /* a sum of the bits of C */
};

static void *product(void *user)
{
    enum { M = 70, N = 90, K = 300 };
    struct placed *p = user;
    char *mem = aligned_alloc(4096, 3 << 20);
    float *a, *b, *c;
    uint64_t seed = 5;
    uint32_t bits;

    if (!mem)
        return NULL;
    a = (float *)(mem + p->at);
    b = a + 70 * 304;
    c = b + 90 * 304;
    for (size_t i = 0; i < 70 * 304 + 90 * 304 + 70 * 96; i++)
        a[i] = (float)noise(&seed);
    dsf_gemm(0, 1, M, N, K, a, 304, b, 304, 1, c, 96);
    for (size_t i = 0; i < 70 * 96; i++) {
        memcpy(&bits, c + i, sizeof(bits));
        p->bits = p->bits * 31 + bits;
    }
    free(mem);
    return NULL;
}

static void neither_place_nor_thread_changes_a_bit(void **state)
{
    struct placed first = { 0, 0 };

    product(&first);
    for (size_t at = 64; at <= 4096; at += 64) {
        struct placed here = { at, 0 }, there = { at, 0 };
        pthread_t thread;

        product(&here);
        assert_int_equal(here.bits, first.bits);
        if (at % 1024 != 0)
            continue;
        assert_int_equal(pthread_create(&thread, NULL, product, &there), 0);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(there.bits, first.bits);
    }
}

/* oneDNN copies blocks of large operands, and says so where it cannot. */
static void missing_memory_is_told(void **state)
{
    enum { N = 1024 };
    float *a, *b, *c;
    struct dsflow_err err = { .msg = "" };
    struct rlimit was, none;
    int status;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* it needs memory itself */
#endif
    a = malloc(sizeof(*a) * N * N);
    b = malloc(sizeof(*b) * N * N);
    c = malloc(sizeof(*c) * N * N);
    for (size_t i = 0; i < N * N; i++)
        a[i] = b[i] = 1;
    getrlimit(RLIMIT_AS, &was);
    none = (struct rlimit){ 1 << 20, was.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_AS, &none), 0);
    dsf_gemm(1, 1, N, N, N, a, N, b, N, 0, c, N);
    setrlimit(RLIMIT_AS, &was);
    status = dsf_kernels_failed(&err);
    if (status == DSFLOW_OK) { /* there was enough all the same */
        assert_true(c[0] == N && c[N * N - 1] == N);
    } else {
        assert_int_equal(status, DSFLOW_ENOMEM);
        assert_non_null(strstr(err.msg, "1024 x 1024 x 1024"));
    }
    assert_int_equal(dsf_kernels_failed(&err), DSFLOW_OK);
    free(a);
    free(b);
    free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_double_precision),
        cmocka_unit_test(neither_place_nor_thread_changes_a_bit),
        cmocka_unit_test(missing_memory_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
