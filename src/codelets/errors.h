/* errors.h - what coding takes from what a worker sends in 1 bit, which it adds
 * to what it sends next. */
#ifndef DSF_CODELETS_ERRORS_H
#define DSF_CODELETS_ERRORS_H

#include <dsflow/codelet.h>

#include "tasks/coding.h"

/* Numbers x of a unit, and errors from number `at` of `buf` on. `scratch` has
 * room for three blocks of the coding in fp32. */
struct dsf_errors {
    const struct dsf_coding *coding;
    int64_t elems, at;
    float *x;
    const struct dsflow_buf *buf;
    void *scratch;
    bool clear; /* what is kept is 0 */
};

/* x += error, in the block that begins with number `i`. */
void dsf_errors_add(const struct dsf_errors *e, int64_t i);

/* error = x - x as it is when it has been sent, or as it was where that is not
 * finite: when all of x is there. */
void dsf_errors_keep(const struct dsf_errors *e);

#endif
