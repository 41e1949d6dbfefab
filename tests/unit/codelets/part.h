/* part.h - split tensors of a whole segment among tensor ranks, and compare
 * what the parts give with what the whole gives. */
#ifndef DSF_UNIT_CODELETS_PART_H
#define DSF_UNIT_CODELETS_PART_H

#include "unit/codelets/segment.h"

/* A block of rows x cols numbers, from one matrix to another. */
static inline void copy_block(float *to, size_t ld_to, const float *from,
                              size_t ld_from, size_t rows, size_t cols)
{
    for (size_t r = 0; r < rows; r++)
        memcpy(to + r * ld_to, from + r * ld_from, cols * sizeof(float));
}

static inline struct tensor tensor_copy(const struct tensor *of)
{
    struct tensor t = tensor_unset(of->n);

    memcpy(t.f, of->f, of->n * sizeof(float));
    tensor_from_floats(&t);
    return t;
}

/* Of 0 and not -0, as a gradient begins. */
static inline struct tensor tensor_zero(size_t n)
{
    struct tensor t = tensor_new(n, 0, 1);

    memset(t.f, 0, n * sizeof(float));
    return t;
}

/* As a gradient is before its first task: no contents. */
static inline void forget(struct tensor *t)
{
    memset(t->f, 0xff, t->n * sizeof(float));
}

static inline void add_floats(float *into, const float *from, size_t n)
{
    for (size_t i = 0; i < n; i++)
        into[i] += from[i];
}

#define assert_same_bits(a, b, n)                                              \
    do {                                                                       \
        if (memcmp(a, b, (n) * sizeof(float)) != 0)                            \
            fail_msg("%s and %s differ (%s)", #a, #b, dsf_kernels_isa());      \
    } while (0)

/* A part's numbers and the whole's: the same bits where there is one part. */
static inline void assert_like(const float *part, const float *whole, size_t n,
                               int parts)
{
    double *exact;

    if (parts == 1) {
        assert_same_bits(part, whole, n);
        return;
    }
    exact = zeroes(n);
    for (size_t i = 0; i < n; i++)
        exact[i] = (double)whole[i];
    assert_close(part, exact, n, 1e-6);
    free(exact);
}

#endif
