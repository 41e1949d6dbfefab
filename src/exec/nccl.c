/* nccl.c - find and open the module with NCCL. */
#include "exec/nccl.h"

#include "base/module.h"

#include <stdio.h>

static const struct dsf_module file = {
    .file = "dsflow-nccl.so",
    .variable = "DSFLOW_NCCL",
    .lacking = "NCCL",
    .symbol = DSF_NCCL_SYMBOL,
    .abi = DSF_NCCL_ABI,
};

const struct dsf_nccl *dsf_nccl_module_open(struct dsflow_err *err)
{
    static const struct dsf_nccl *module;

    if (module == NULL)
        module = dsf_module_open(&file, err);
    return module;
}

struct dsf_nccl_version dsf_nccl_version(struct dsflow_err *err)
{
    const struct dsf_nccl *nccl = dsf_nccl_module_open(err);
    const int v = nccl != NULL ? nccl->version() : 0;
    struct dsf_nccl_version text = { "" };

    if (nccl != NULL)
        snprintf(text.s, sizeof(text.s), "%d.%d.%d", v / 10000, v / 100 % 100,
                 v % 100);
    return text;
}
