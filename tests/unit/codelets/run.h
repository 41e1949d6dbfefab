/* run.h - one task of a codelet, alone. */
#ifndef TESTS_UNIT_CODELETS_RUN_H
#define TESTS_UNIT_CODELETS_RUN_H

#include "lib/test.h"

#include <dsflow/codelet.h>
#include <dsflow/op.h>

/* As an executor would: checked, with the scratch that it asks for, of which
 * there are `room` bytes. A port without a buffer is left out. */
static inline void run_codelet(const struct dsflow_codelet *codelet,
                               const void *args, unsigned n,
                               const struct dsflow_buf *bufs, void *scratch,
                               size_t room)
{
    struct dsflow_shape shapes[16] = { { 0 } };
    const struct dsflow_case c = { codelet->op, shapes, n, args };
    struct dsflow_err err;

    assert_in_range(n, 1, 16);
    for (unsigned i = 0; i < n; i++)
        if (bufs[i].ptr != NULL)
            shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    if (codelet->op->check(&c, &err) < 0)
        fail_msg("%s", err.msg);
    if (codelet->op->scratch != NULL)
        assert_true(codelet->op->scratch(&c) <= room);
    codelet->cpu(&(struct dsflow_call){
        .bufs = bufs, .nbufs = n, .args = args, .scratch = scratch });
}

#endif
