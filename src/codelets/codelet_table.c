/* codelet_table.c - the kernels there are: the built-in ones, and those that a
 * program registers. */
#include "codelets/codelets.h"

#include "base/alloc.h"

#include <string.h>

const struct dsflow_codelet *const dsf_codelets[] = {
#define XX(name) &dsf_codelet_##name,
    DSF_CODELETS(XX)
#undef XX
        NULL,
};

static const struct dsflow_codelet **others;
static size_t nothers, cap_others;

const struct dsflow_codelet *dsflow_codelet_find(const struct dsflow_op *op)
{
    for (unsigned i = 0; dsf_codelets[i] != NULL; i++)
        if (dsf_codelets[i]->op == op)
            return dsf_codelets[i];
    for (size_t i = 0; i < nothers; i++)
        if (others[i]->op == op)
            return others[i];
    return NULL;
}

int dsflow_codelet_register(const struct dsflow_codelet *codelet,
                            struct dsflow_err *err)
{
    const struct dsflow_op *op = codelet->op;

    if (codelet->abi != DSFLOW_CODELET_ABI)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet: made for interface %u: this is %u",
                           codelet->abi, DSFLOW_CODELET_ABI);
    if (op == NULL || op->name == NULL || dsflow_op_find(op->name) != op)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet: its kind of task is not registered");
    if (codelet->cpu == NULL && codelet->cuda == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet %s: has neither a CPU nor a GPU function",
                           op->name);
    if (dsflow_codelet_find(op) != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet %s: there is one already", op->name);
    dsf_grow(&others, &cap_others, nothers + 1, sizeof(*others));
    others[nothers++] = codelet;
    return DSFLOW_OK;
}
