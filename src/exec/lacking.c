/* lacking.c - kinds of tasks that devices have no kernels for. */
#include "exec/lacking.h"

#include "base/alloc.h"
#include "exec/exec_private.h"
#include "exec/spread_private.h"

#include <stdlib.h>

/* Is it the first of its kind among those? */
static bool is_first(const struct dsflow_exec *exec, uint32_t task)
{
    for (uint32_t i = 0; i < task; i++)
        if (exec->calls[i].lacking &&
            exec->calls[i].codelet == exec->calls[task].codelet)
            return false;
    return exec->calls[task].lacking;
}

char *dsf_exec_lacking(const struct dsflow_exec *exec, double *share)
{
    double all = 0, lacking = 0;
    char *names = NULL;

    if (exec->spread != NULL)
        return dsf_exec_lacking(exec->spread->own, share);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        char *before = names;

        if (!exec->calls[i].lacking || !is_first(exec, i))
            continue;
        names = dsf_xasprintf(
            "%s%s%s%s%s", before != NULL ? before : "",
            before != NULL ? ", " : "", exec->calls[i].task->op->name,
            exec->calls[i].lacks != NULL ? " with " : "",
            exec->calls[i].lacks != NULL ? exec->calls[i].lacks : "");
        free(before);
    }
    for (unsigned w = 0; w < exec->nworkers; w++) {
        all += exec->workers[w].busy;
        lacking += exec->workers[w].lacking;
    }
    *share = all > 0 ? lacking / all : 0;
    return names;
}
