/* step.h - a step with every number that is reported of one. */
#ifndef DSF_TESTS_LIB_STEP_H
#define DSF_TESTS_LIB_STEP_H

#include "train/metrics.h"

/* Step `n`; what only a measured step has is times `known` (NAN: not known). */
static inline struct dsf_step step_of(int64_t n, double known)
{
    struct dsf_step s = {
        .step = n,
        .loss = 12.3456789,
        .lr = 1.23456789e-5,
        .grad_norm = 1.5,
        .seconds = 0.5,
        .loss_scale = 1,
        .overflows = -1,
        .tokens = 123456,
        .peak_bytes = 123456789012,
        .device_bytes = 1234567890,
        .nvme_bytes = 12345678901234,
        .io_seconds = 0.25 * known,
        .io_hidden = 0.75 * known,
        .efficiency = 0.875 * known,
        .mfu = 0.4375 * known,
        .share = { 0.31 * known, 0.5 * known, 0.06 * known, 0.05 * known,
                   0.08 * known },
        .moved = { 1, 2, 3, 4, 5 },
    };

    return s;
}

#endif
