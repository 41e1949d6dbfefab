/* net.c - the module with the MPI side, and the wire over it. */
#include "config.h"

#include "net/net.h"

#include "base/module.h"
#include "net/mpi_module.h"
#include "net/same_version.h"

#include <stdlib.h>

static const struct dsf_module file = {
    .file = "dsflow-mpi.so",
    .variable = "DSFLOW_MPI",
    .lacking = "MPI (libopenmpi-dev)",
    .symbol = DSF_MPI_SYMBOL,
    .abi = DSF_MPI_ABI,
    .shared = true,
};

static const struct dsf_mpi *module;

static void post(struct dsf_wire *wire, struct dsf_message *m)
{
    module->post(m);
}

static struct dsf_wire wire = { .post = post };

bool dsf_net_is_one_of_several(void)
{
    static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE",
                                         "SLURM_STEP_NUM_TASKS" };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        const char *size = getenv(sizes[i]);

        if (size != NULL && atoi(size) > 1)
            return true;
    }
    return false;
}

bool dsf_net_is_inside(void)
{
    /* srun gives a shell, in which all may be started, the size 1. */
    return getenv("OMPI_COMM_WORLD_SIZE") != NULL || dsf_net_is_one_of_several();
}

/* Without PMIx, or the PMI of an older Slurm, MPI ends the process in a page of
 * text. */
static bool can_meet(void)
{
    return getenv("SLURM_STEP_NUM_TASKS") == NULL ||
           getenv("OMPI_COMM_WORLD_SIZE") != NULL ||
           getenv("PMIX_RANK") != NULL || getenv("PMI_RANK") != NULL;
}

static const struct dsf_mpi *open_module(struct dsflow_err *err)
{
    if (module == NULL)
        module = dsf_module_open(&file, err);
    return module;
}

int dsf_net_open(struct dsf_wire **out, struct dsflow_err *err)
{
    const struct dsf_mpi *mpi = open_module(err);
    const char *why;

    if (mpi == NULL)
        return DSFLOW_ENOSYS;
    if (!can_meet())
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "srun started several processes that cannot find "
                           "each other: expected srun --mpi=pmix");
    why = mpi->open(&wire.process, &wire.nprocesses, &wire.hosts);
    if (why != NULL)
        return dsflow_fail(err, DSFLOW_ENOSYS, "MPI: %s", why);
    *out = &wire;
    return dsf_same_version(&wire, PACKAGE_VERSION, err);
}

int dsf_net_close(struct dsflow_err *err)
{
    const char *why = module->close();

    return why == NULL ? DSFLOW_OK
                       : dsflow_fail(err, DSFLOW_EIO, "MPI: %s", why);
}

const char *dsf_net_version(struct dsflow_err *err)
{
    const struct dsf_mpi *mpi = open_module(err);

    return mpi != NULL ? mpi->version() : NULL;
}
