/* workers.h - what the tests of optimizers that send in 1 bit share: gradients
 * of workers, and what DeepSpeed makes of them (tests/reference/onebit). */
#ifndef TESTS_UNIT_CODELETS_WORKERS_H
#define TESTS_UNIT_CODELETS_WORKERS_H

#include "unit/codelets/run.h"

#include "kernels/loops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the gradients of the scripts swing with; the weights that they begin
 * with. */
static inline double worker_wave(int worker, int step, int i)
{
    return sin(0.37 * (i + 1) * (1 + step % 13) + 1.7 * worker + 0.11 * step);
}

static inline void first_weights(float *p, int n)
{
    for (int i = 0; i < n; i++)
        p[i] = (float)(0.1 * cos(1.3 * i));
}

static inline struct dsflow_buf floats_of(float *v, int64_t n)
{
    return (struct dsflow_buf){ v, (size_t)n * 4, n, DSFLOW_FP32 };
}

static inline struct dsflow_buf doubles_of(double *v, int64_t n)
{
    return (struct dsflow_buf){ v, (size_t)n * 8, n, DSFLOW_FP64 };
}

/* A file of the scripts. */
static inline FILE *known(const char *name)
{
    const char *src = getenv("srcdir");
    char path[600];
    FILE *in;

    snprintf(path, sizeof(path), "%s/tests/reference/onebit/%s",
             src != NULL ? src : ".", name);
    in = fopen(path, "r");
    assert_non_null(in);
    return in;
}

/* What follows in the file are the numbers of that name. */
static inline void known_title(FILE *in, int workers, const char *what)
{
    char name[20];
    int size;

    assert_int_equal(fscanf(in, "%d %19s", &size, name), 2);
    assert_int_equal(size, workers);
    assert_string_equal(name, what);
}

/* The next number of the file is `is`, to 1e-6 times `unit`, or times the
 * number where that is more; unit = 0: to 1e-6, whatever it is. */
static inline void known_next(FILE *in, int workers, const char *what, int i,
                              double is, double unit)
{
    double x;

    assert_int_equal(fscanf(in, "%lf", &x), 1);
    if (!(fabs(x - is) <= 1e-6 * (unit > 0 ? fmax(unit, fabs(x)) : 1)))
        fail_msg("%d workers: %s[%d]: %.9g: expected %.9g", workers, what, i,
                 is, x);
}

/* `train` leaves the same in `got` with every set of instructions. */
static inline void all_instructions_agree(void (*train)(void *got), void *got,
                                          void *first, size_t size)
{
    static const char *const isas[] = { "portable", "avx2", "avx512",
                                        "avx512_bf16" };
    const struct dsf_loops *own = dsf_loops();

    train(first);
    for (size_t i = 0; i < sizeof(isas) / sizeof(*isas); i++) {
        if (dsf_loops_find(isas[i]) == NULL)
            continue;
        dsf_loops_use(dsf_loops_find(isas[i]));
        train(got);
        assert_memory_equal(got, first, size);
    }
    dsf_loops_use(own);
}

#endif
