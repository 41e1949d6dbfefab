/* mpi_begins_cuda.c - the module with MPI, of an MPI that begins CUDA when it
 * begins itself, as one does that can send what GPUs have (over UCX, say). MPI
 * itself is the module that REAL_MPI names. */
#include "gpu/gpu.h"
#include "net/mpi_module.h"

#include <dlfcn.h>
#include <stdlib.h>

extern DSFLOW_API struct dsf_mpi dsf_mpi_module;

static const struct dsf_mpi *mpi;

static const void *symbol_of(const char *variable, const char *symbol)
{
    const char *file = getenv(variable);
    void *library = dlopen(file != NULL ? file : "", RTLD_NOW);

    return library != NULL ? dlsym(library, symbol) : NULL;
}

static const char *begin(int32_t *process, int32_t *nprocesses,
                         const int32_t **hosts)
{
    const struct dsf_gpu *cuda = symbol_of("DSFLOW_CUDA", DSF_GPU_SYMBOL);
    unsigned n;

    mpi = symbol_of("REAL_MPI", DSF_MPI_SYMBOL);
    if (cuda == NULL || mpi == NULL)
        return "a module is not there";
    cuda->count(&n);
    dsf_mpi_module.post = mpi->post;
    return mpi->open(process, nprocesses, hosts);
}

static const char *end(void)
{
    return mpi->close();
}

static const char *version(void)
{
    return "one that begins CUDA";
}

struct dsf_mpi dsf_mpi_module = { .abi = DSF_MPI_ABI,
                                  .open = begin,
                                  .close = end,
                                  .version = version };
