/* codelet_table.c - the kernels there are: the built-in ones, and those that a
 * plug-in or a program registers. */
#include "codelets/codelets.h"

static const struct dsflow_codelet *const codelets[] = {
#define ENTRY(name) &dsf_codelet_##name,
    DSF_OPS(ENTRY, DSF_NO_CODELET)
#undef ENTRY
        NULL,
};

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    const struct dsflow_codelet *codelet = thing;
    const struct dsflow_op *op = codelet->op;
    const char *name = op != NULL && op->name != NULL ? op->name : "(no name)";
    int status =
        dsf_registry_check(&dsf_codelet_kinds, codelet->abi, name, "", err);

    if (status < 0)
        return status;
    if (op == NULL || op->name == NULL || dsflow_op_find(op->name) != op)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet %.60s: its kind of task is not registered",
                           name);
    if (codelet->cpu == NULL && codelet->cuda == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet %.60s: has neither a CPU nor a GPU "
                           "function",
                           op->name);
    if (codelet->trials != NULL && codelet->trials->make == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "codelet %.60s: its trials have no function make",
                           op->name);
    return dsf_registry_add(&dsf_codelet_kinds, op->name, codelet, origin, err);
}

/* By the name of the kind of task. */
struct dsf_registry dsf_codelet_kinds = {
    .sort = "codelet",
    .abi = DSFLOW_CODELET_ABI,
    .add = add,
    .builtin = (const void *const *)codelets,
};

int dsflow_codelet_register(const struct dsflow_codelet *codelet,
                            struct dsflow_err *err)
{
    return dsf_codelet_kinds.add(codelet, "the program", err);
}

const struct dsflow_codelet *dsflow_codelet_find(const struct dsflow_op *op)
{
    const struct dsflow_codelet *found =
        dsf_registry_thing(&dsf_codelet_kinds, op->name);

    return found != NULL && found->op == op ? found : NULL;
}

const struct dsflow_codelet *dsflow_codelet_at(unsigned i)
{
    return dsf_registry_thing_at(&dsf_codelet_kinds, i);
}
