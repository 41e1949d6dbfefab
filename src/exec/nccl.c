/* nccl.c - find and open the module with NCCL, and what that takes. */
#include "exec/nccl.h"

#include "base/module.h"
#include "exec/exec_direct_private.h"

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

/* As of NCCL 2.28 (p2p.cc, net.cc): two GPUs of a node have 12 MiB for each
 * channel between them, whatever goes through it; there are up to 32 by NVLink,
 * and 4 at most where GPUs of other nodes are in the communicator, which then
 * has 64 MiB for what goes, or comes, by the network. */
size_t dsf_nccl_takes(unsigned near, unsigned far)
{
    const size_t channel = 12 << 20, network = 64 << 20;

    if (far == 0)
        return near * 32 * channel;
    return near * 4 * channel + dsf_direct_comms(near + far + 1) * network;
}
