/* narrow.h - tensors of bf16 or fp16 beside their doubles. */
#ifndef DSF_UNIT_KERNELS_NARROW_H
#define DSF_UNIT_KERNELS_NARROW_H

#include "unit/kernels/reference.h"

#include "base/half.h"
#include "kernels/narrow.h"

static inline float from16(enum dsflow_dtype type, uint16_t h)
{
    return type == DSFLOW_BF16 ? dsf_from_bf16(h) : dsf_from_fp16(h);
}

static inline uint16_t to16(enum dsflow_dtype type, float x)
{
    return type == DSFLOW_BF16 ? dsf_to_bf16(x) : dsf_to_fp16(x);
}

struct tensor16 {
    struct guarded mem;
    enum dsflow_dtype type;
    uint16_t *h;
    double *d; /* as of struct tensor */
    size_t n;
};

/* Filled with noise times `spread`, rounded. */
static inline struct tensor16 tensor16_new(enum dsflow_dtype type, size_t n,
                                           double spread, uint64_t seed)
{
    struct tensor16 t = { .mem = guarded_new(n * sizeof(uint16_t)),
                          .type = type,
                          .d = zeroes(n),
                          .n = n };

    t.h = (uint16_t *)t.mem.p;
    for (size_t i = 0; i < n; i++) {
        t.h[i] = to16(type, (float)(noise(&seed) * spread));
        t.d[i] = (double)from16(type, t.h[i]);
    }
    return t;
}

/* What a kernel must write: not a number until then. */
static inline struct tensor16 tensor16_unset(enum dsflow_dtype type, size_t n)
{
    struct tensor16 t = tensor16_new(type, n, 1, 1);

    for (size_t i = 0; i < n; i++)
        t.h[i] = 0x7fff;
    return t;
}

static inline void tensor16_free(struct tensor16 *t)
{
    guarded_free(&t->mem);
    free(t->d);
}

/* Half of a last place of a number of this size. */
static inline double half_place(enum dsflow_dtype type, double size)
{
    return type == DSFLOW_BF16 ? size * 0x1p-8 : fmax(size * 0x1p-11, 0x1p-25);
}

/* The numbers are t->d rounded once, of fp32 results that are off by as much
 * as `slack` times the largest of them. */
#define assert_rounded(t, slack)                                               \
    do {                                                                       \
        double most_ = 0;                                                      \
                                                                               \
        for (size_t i_ = 0; i_ < (t)->n; i_++)                                 \
            most_ = fmax(most_, fabs((t)->d[i_]));                             \
        for (size_t i_ = 0; i_ < (t)->n; i_++) {                               \
            double is_ = (double)from16((t)->type, (t)->h[i_]);                \
            double ref_ = (t)->d[i_];                                          \
                                                                               \
            if (!(fabs(is_ - ref_) <=                                          \
                  half_place((t)->type, fabs(ref_)) + (slack)*most_))          \
                fail_msg("%s: number %zu is %g, not %g (%s, %s)", #t, i_, is_, \
                         ref_, dsflow_dtype_str((t)->type),                    \
                         dsf_kernels_isa());                                   \
        }                                                                      \
    } while (0)

/* Run `test` with every type and every set of instructions there is. */
static void (*of_each_type)(enum dsflow_dtype type);

static inline void run_each_type(void)
{
    of_each_type(DSFLOW_BF16);
    of_each_type(DSFLOW_FP16);
}

static inline void with_every_type(void (*test)(enum dsflow_dtype type))
{
    of_each_type = test;
    with_every_isa(run_each_type);
}

#endif
