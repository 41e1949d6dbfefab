/* test_product.c - products of bf16 and fp16, by whatever this processor has
 * and by what any has. */
#include "unit/kernels/narrow.h"

#include <pthread.h>
#include <sys/wait.h>

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
    { 0, 1, 3, 769, 384, 384, 384, 769, 0 }, /* B in two blocks */
    { 0, 0, 5, 1100, 260, 260, 1100, 1100, 1 },
    { 0, 1, 2, 40, 9000, 9000, 9000, 40, 1 }, /* the smallest blocks */
    { 1, 0, 17, 300, 1024, 17, 301, 300, 1 },
};

enum { NSHAPES = sizeof(shapes) / sizeof(*shapes) };

/* A product with its operands. */
struct work {
    const struct shape *s;
    struct tensor16 a, b;
    struct tensor c;
    struct guarded scratch;
};

static struct work work_new(enum dsflow_dtype type, const struct shape *s)
{
    struct work w = {
        .s = s,
        .a = tensor16_new(type, (s->ta ? s->k : s->m) * s->lda, 1, 1),
        .b = tensor16_new(type, (s->tb ? s->n : s->k) * s->ldb, 1, 2),
        .c = tensor_new(s->m * s->ldc, 1, 3),
        .scratch = guarded_new(dsf_product_scratch(s->m, s->n, s->k))
    };

    for (size_t i = 0; i < w.c.n && s->beta == 0; i++)
        w.c.f[i] = i % s->ldc < s->n ? NAN : w.c.f[i]; /* must not be read */
    return w;
}

static void work_free(struct work *w)
{
    tensor16_free(&w->a);
    tensor16_free(&w->b);
    tensor_free(&w->c);
    guarded_free(&w->scratch);
}

static void multiply(const struct work *w)
{
    const struct shape *s = w->s;

    dsf_product(&(struct dsf_product){ w->a.type, s->ta, s->tb, s->m, s->n,
                                       s->k, w->a.h, s->lda, w->b.h, s->ldb,
                                       s->beta, w->c.f, s->ldc, w->scratch.p });
}

static double element(const double *p, size_t ld, int t, size_t i, size_t j)
{
    return t ? p[j * ld + i] : p[i * ld + j];
}

/* How far is C from the sums in double precision? */
static double error_of(struct work *w)
{
    const struct shape *s = w->s;

    for (size_t i = 0; i < s->m; i++) {
        for (size_t j = 0; j < s->n; j++) {
            double sum = s->beta == 0 ? 0 : w->c.d[i * s->ldc + j];

            for (size_t k = 0; k < s->k; k++)
                sum += element(w->a.d, s->lda, s->ta, i, k) *
                       element(w->b.d, s->ldb, s->tb, k, j);
            w->c.d[i * s->ldc + j] = sum;
        }
    }
    return distance(w->c.f, w->c.d, w->c.n);
}

/* Returns how many products are wrong; a second time has the same bits. */
static int wrong_products(enum dsflow_dtype type)
{
    int wrong = 0;

    for (size_t i = 0; i < NSHAPES; i++) {
        struct work w = work_new(type, &shapes[i]);
        struct work again = work_new(type, &shapes[i]);

        multiply(&w);
        multiply(&again);
        wrong += memcmp(w.c.f, again.c.f, w.c.n * sizeof(float)) != 0;
        wrong += !(error_of(&w) <= 1e-6);
        work_free(&w);
        work_free(&again);
    }
    return wrong;
}

static void products_are_those_of_double_precision(void **state)
{
    assert_int_equal(wrong_products(DSFLOW_BF16), 0);
    assert_int_equal(wrong_products(DSFLOW_FP16), 0);
}

/* In a process where oneDNN and the loops may use no more than this. */
static int right_with(const char *onednn, const char *loops)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        setenv("ONEDNN_MAX_CPU_ISA", onednn, 1);
        setenv("DSFLOW_ISA", loops, 1);
        _exit(wrong_products(DSFLOW_BF16) + wrong_products(DSFLOW_FP16) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Before any product: what there is is found out once. */
static void lesser_instructions_compute_them_too(void **state)
{
    assert_true(right_with("AVX2", "avx2"));
    assert_true(right_with("AVX2", "portable"));
    assert_true(right_with("AVX512_CORE", "avx512"));
}

static void *bits_of_one(void *user)
{
    static const struct shape s = { 0, 1, 70, 90, 300, 304, 304, 96, 1 };
    struct work w = work_new(*(const enum dsflow_dtype *)user, &s);
    uint32_t sum = 0, bits;

    multiply(&w);
    for (size_t i = 0; i < w.c.n; i++) {
        memcpy(&bits, w.c.f + i, sizeof(bits));
        sum = sum * 31 + bits;
    }
    work_free(&w);
    return (void *)(uintptr_t)sum;
}

/* More shapes than are kept for a thread. */
static void multiply_many(enum dsflow_dtype type)
{
    for (size_t n = 1; n <= 100; n++) {
        const struct shape s = { 0, 1, 3, n, 8, 8, 8, n, 0 };
        struct work w = work_new(type, &s);

        multiply(&w);
        assert_true(error_of(&w) <= 1e-6);
        work_free(&w);
    }
}

static void neither_thread_nor_what_ran_before_changes_a_bit(void **state)
{
    static enum dsflow_dtype types[] = { DSFLOW_BF16, DSFLOW_FP16 };

    for (size_t i = 0; i < 2; i++) {
        void *first = bits_of_one(&types[i]), *other;
        pthread_t thread;

        multiply_many(types[i]);
        assert_ptr_equal(bits_of_one(&types[i]), first);
        assert_int_equal(pthread_create(&thread, NULL, bits_of_one, &types[i]),
                         0);
        assert_int_equal(pthread_join(thread, &other), 0);
        assert_ptr_equal(other, first);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lesser_instructions_compute_them_too),
        cmocka_unit_test(products_are_those_of_double_precision),
        cmocka_unit_test(neither_thread_nor_what_ran_before_changes_a_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
