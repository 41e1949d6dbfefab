/* virtual.h - is there a virtual device? */
#ifndef TESTS_UNIT_EXEC_VIRTUAL_H
#define TESTS_UNIT_EXEC_VIRTUAL_H

#include "lib/test.h"

#include <dsflow/exec.h>

/* Skips the test where neither PoCL nor StarPU offers one. They read what devices
 * there are once in a process, so this comes first in it. */
static inline void need_virtual_device(struct dsflow_exec_options options)
{
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_host host = { 0 };
    struct dsflow_exec *exec = NULL;
    struct dsflow_err err;
    int status = dsflow_exec_open(g, &options, &host, &exec, &err);

    dsflow_exec_close(exec);
    dsflow_graph_free(g);
    if (status == DSFLOW_EFIT || status == DSFLOW_ENOSYS) {
        print_message("%s\n", err.msg);
        skip();
    }
    assert_int_equal(status, DSFLOW_OK);
}

#endif
