/* workers.h - what the tests of optimizers that send in 1 bit share: gradients
 * of workers, and what DeepSpeed makes of them (tests/reference/onebit). */
#ifndef TESTS_UNIT_CODELETS_WORKERS_H
#define TESTS_UNIT_CODELETS_WORKERS_H

#include "unit/codelets/run.h"

#include "kernels/loops.h"
#include "tasks/args.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8, BLOCK = 16 }; /* workers; numbers of a block of signs */

/* The gradients of the scripts, `size` times as large; the weights that they
 * begin with. */
static inline double gradient_of(int worker, int step, int i, double size)
{
    const double wave =
        sin(0.37 * (i + 1) * (1 + step % 13) + 1.7 * worker + 0.11 * step);

    return (double)(float)(wave * ((0.5 + i % 7) / 7 * size));
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

static inline struct dsflow_buf control_of(struct dsflow_control *c)
{
    return (struct dsflow_buf){ c, sizeof(*c), sizeof(*c), DSFLOW_BYTES };
}

/* A unit is cut where its tensors begin, and all of it is sent in signs. */
static inline struct dsf_coding
signs_of(unsigned n, const struct dsf_coded_tensor *tensors, int64_t elems)
{
    struct dsf_coding c = { .format = "sign", .block = BLOCK, .coded = elems };

    dsf_coding_by_tensor(&c, n, tensors);
    return c;
}

/* Those of the scripts, but for its tensors. */
static inline struct dsf_update_args update_of(int64_t elems)
{
    return (struct dsf_update_args){
        .at = { .elems = elems, .decay = elems, .block = elems },
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-6f,
        .weight_decay = 0.01f,
        .decoupled = 1,
        .uncorrected = 1
    };
}

/* Each worker's share onto that of the first. */
static inline void add_up(float *grad, int n, int workers)
{
    for (int i = 0; i < n; i++)
        for (int w = 1; w < workers; w++)
            grad[i] += grad[w * n + i];
}

static inline void run(const struct dsflow_codelet *codelet, const void *args,
                       unsigned n, const struct dsflow_buf *bufs)
{
    static _Alignas(64) float scratch[4096];

    run_codelet(codelet, args, n, bufs, scratch, sizeof(scratch));
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

/* The next `n` numbers of the file are these, times `by`. */
static inline void compare(FILE *in, int workers, const char *what,
                           const float *v, int n, double by, double unit)
{
    known_title(in, workers, what);
    for (int i = 0; i < n; i++)
        known_next(in, workers, what, i, (double)v[i] * by, unit);
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
