/* numbers.h - tensors of fp32, bf16 or fp16 beside their doubles, and what a
 * kernel leaves in them in several orders of blocks, warps and lanes. */
#ifndef DSF_GPU_TEST_NUMBERS_H
#define DSF_GPU_TEST_NUMBERS_H

#include "unit/kernels/narrow.h"

#include "gpu/place.h"

/* How many; fewer where a case is large. */
static uint64_t orders = 3;

static inline void assert_no_fault(void)
{
    const char *fault = place_fault();

    if (fault != NULL)
        fail_msg("%s", fault);
}

/* CALL, which writes `bytes` at `to`, in several orders: the same bits in each.
 * It is as before again between two, where BEFORE makes it so. */
#define IN_EACH_ORDER(to, bytes, BEFORE, CALL)                                 \
    do {                                                                       \
        void *first_ = NULL;                                                   \
                                                                               \
        for (uint64_t order_ = 1; order_ <= orders; order_++) {                \
            place_order(order_);                                               \
            BEFORE;                                                            \
            CALL;                                                              \
            assert_no_fault();                                                 \
            if (first_ == NULL) {                                              \
                first_ = malloc((bytes) + 1);                                  \
                memcpy(first_, to, bytes);                                     \
            }                                                                  \
            assert_memory_equal(to, first_, bytes);                            \
        }                                                                      \
        free(first_);                                                          \
    } while (0)

/* CALL, which writes x, and does not read it. */
#define WRITES(x, CALL) IN_EACH_ORDER(at(x), bytes_of(x), unset(x), CALL)

struct numbers {
    struct tensor wide;
    struct tensor16 narrow;
    int is_narrow;
};

static inline struct numbers numbers_new(enum dsflow_dtype type, size_t n,
                                  double spread, uint64_t seed)
{
    struct numbers x = { .is_narrow = dsf_is_narrow(type) };

    if (x.is_narrow)
        x.narrow = tensor16_new(type, n, spread, seed);
    else
        x.wide = tensor_new(n, spread, seed);
    return x;
}

static inline void numbers_free(struct numbers *x)
{
    if (x->is_narrow)
        tensor16_free(&x->narrow);
    else
        tensor_free(&x->wide);
}

static inline void *at(struct numbers *x)
{
    return x->is_narrow ? (void *)x->narrow.h : (void *)x->wide.f;
}

static inline double *ref(struct numbers *x)
{
    return x->is_narrow ? x->narrow.d : x->wide.d;
}

static inline size_t bytes_of(const struct numbers *x)
{
    return x->is_narrow ? x->narrow.mem.bytes : x->wide.mem.bytes;
}

static inline void unset(struct numbers *x)
{
    memset(at(x), 0xff, bytes_of(x));
}

/* They are the doubles, rounded once. */
static inline void check(struct numbers *x)
{
    if (x->is_narrow)
        assert_rounded(&x->narrow, 2e-6);
    else
        assert_close(x->wide.f, x->wide.d, x->wide.n, 2e-6);
}

static const enum dsflow_dtype number_types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                                  DSFLOW_FP16 };
#define EACH_TYPE(type)                                                        \
    for (unsigned i_ = 0; i_ < 3; i_++)                                        \
        for (enum dsflow_dtype type = number_types[i_], once_ = type;          \
             once_ == type; once_ = DSFLOW_NDTYPES)

#endif
