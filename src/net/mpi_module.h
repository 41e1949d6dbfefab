/* mpi_module.h - what the module with the MPI side offers (mpi_module.c): the
 * one file of dsflow that knows MPI, opened by a job of several processes. */
#ifndef DSF_NET_MPI_MODULE_H
#define DSF_NET_MPI_MODULE_H

#include "net/wire.h"

#define DSF_MPI_SYMBOL "dsf_mpi_module"
enum { DSF_MPI_ABI = 3 };

/* Functions return NULL, or the text of what went wrong, which lives as long as
 * the program. */
struct dsf_mpi {
    unsigned abi;
    /* Join the others that were started together. Once in a process. What is
     * of a wire lives until it is closed. */
    const char *(*open)(int32_t *process, int32_t *nprocesses,
                        const int32_t **hosts);
    void (*post)(struct dsf_message *m); /* as a wire's */
    /* Once all that was posted has ended; waits until the others get there. */
    const char *(*close)(void);
    const char *(*version)(void); /* "Open MPI 4.1.4" */
};

#endif
