/* orders.h - the same launch in several orders of blocks, warps and lanes. */
#ifndef DSF_GPU_ORDERS_H
#define DSF_GPU_ORDERS_H

#include "gpu/emulation/emulated.h"

enum { ORDERS = 3 };

static inline void assert_no_fault(void)
{
    const char *fault = emulated_fault();

    if (fault != NULL)
        fail_msg("%s", fault);
}

/* CALL, which writes `bytes` at `to`, in ORDERS orders: the same bits in each. It
 * is as before again between two, where BEFORE makes it so. */
#define IN_EACH_ORDER(to, bytes, BEFORE, CALL)                                 \
    do {                                                                       \
        void *first_ = NULL;                                                   \
                                                                               \
        for (uint64_t order_ = 1; order_ <= ORDERS; order_++) {                \
            emulated_order(order_);                                            \
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

#endif
