/* numeric.h - memory that notices a wrong step, and comparison with double
 * precision. */
#ifndef DSF_UNIT_KERNELS_NUMERIC_H
#define DSF_UNIT_KERNELS_NUMERIC_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <cmocka.h>

#include "kernels/loops.h"

/* Memory whose first byte is aligned to 64 and whose end is within 63 bytes of
 * a page that cannot be touched; what is between must stay as it was. */
struct guarded {
    char *map;
    size_t mapped, bytes;
    char *p;
};

static inline struct guarded guarded_new(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t room = (bytes + 63) / 64 * 64, whole = (room + page - 1) / page;
    struct guarded g = { .bytes = bytes, .mapped = (whole + 2) * page };

    g.map = mmap(NULL, g.mapped, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(g.map, MAP_FAILED);
    memset(g.map, 0x5a, g.mapped);
    g.p = g.map + (whole + 1) * page - room;
    assert_int_equal(mprotect(g.map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(g.map + (whole + 1) * page, page, PROT_NONE), 0);
    return g;
}

static inline void guarded_free(struct guarded *g)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    for (char *c = g->map + page; c < g->p; c++)
        assert_int_equal(*c, 0x5a);
    for (char *c = g->p + g->bytes; c < g->map + g->mapped - page; c++)
        assert_int_equal(*c, 0x5a);
    munmap(g->map, g->mapped);
}

/* A tensor: floats that a port shows to the kernel, and their doubles, which
 * the reference reads and moves. */
struct tensor {
    struct guarded mem;
    float *f;
    double *d;
    size_t n;
};

/* Numbers in [-1, 1), always the same ones. */
static inline double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(int64_t)*state / 9223372036854775808.0;
}

/* Filled with noise times `spread`. */
static inline struct tensor tensor_new(size_t n, double spread, uint64_t seed)
{
    struct tensor t = { .mem = guarded_new(n * sizeof(float)), .n = n };

    t.f = (float *)t.mem.p;
    t.d = calloc(n + 1, sizeof(double));
    assert_non_null(t.d);
    for (size_t i = 0; i < n; i++) {
        t.f[i] = (float)(noise(&seed) * spread);
        t.d[i] = (double)t.f[i];
    }
    return t;
}

/* What a kernel must write: not a number until then. */
static inline struct tensor tensor_unset(size_t n)
{
    struct tensor t = tensor_new(n, 1, 1);

    for (size_t i = 0; i < n; i++)
        t.f[i] = NAN;
    return t;
}

static inline void tensor_free(struct tensor *t)
{
    guarded_free(&t->mem);
    free(t->d);
}

static inline void tensor_from_floats(struct tensor *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->d[i] = (double)t->f[i];
}

static inline void tensor_from_doubles(struct tensor *t)
{
    for (size_t i = 0; i < t->n; i++)
        t->f[i] = (float)t->d[i];
}

/* |a - b| over |b|, as vectors. */
static inline double distance(const float *a, const double *b, size_t n)
{
    double diff = 0, size = 0;

    for (size_t i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(diff / (size > 0 ? size : 1));
}

#define assert_close(a, b, n, bound)                                           \
    do {                                                                       \
        double distance_ = distance(a, b, n);                                  \
                                                                               \
        if (!(distance_ <= (bound)))                                           \
            fail_msg("%s: distance %g, more than %g (%s)", #a, distance_,      \
                     (double)(bound), dsf_kernels_isa());                      \
    } while (0)

/* Run `test` with every set of instructions this processor has. */
static inline void with_every_isa(void (*test)(void))
{
    static const char *const names[] = { "portable", "avx2", "avx512",
                                         "avx512_bf16" };
    const struct dsf_loops *best = dsf_loops();

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const struct dsf_loops *loops = dsf_loops_find(names[i]);

        if (!loops)
            continue;
        dsf_loops_use(loops);
        test();
    }
    dsf_loops_use(best);
}

static inline double dot_ref(const double *a, const double *b, size_t n)
{
    double s = 0;

    for (size_t i = 0; i < n; i++)
        s += a[i] * b[i];
    return s;
}

static inline double *zeroes(size_t n)
{
    double *p = calloc(n + 1, sizeof(double));

    assert_non_null(p);
    return p;
}

#endif
