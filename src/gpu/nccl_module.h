/* nccl_module.h - what the module with NCCL offers to the program that opens it:
 * bytes that go from a GPU of one process to a GPU of another. A module of its
 * own, so that the rest of what is for GPUs does without NCCL.
 *
 * Functions return NULL, or what went wrong in NCCL's words, which are valid for
 * good. Streams are CUDA's, of the GPU that the thread works with (gpu.h); those
 * of one communicator at one GPU are used by one thread at a time. */
#ifndef DSF_GPU_NCCL_MODULE_H
#define DSF_GPU_NCCL_MODULE_H

#include <stddef.h>
#include <dsflow/export.h>

DSFLOW_BEGIN_DECLS

#define DSF_NCCL_ABI    2
#define DSF_NCCL_SYMBOL "dsf_nccl_module"

enum { DSF_NCCL_ID = 128 };

/* Functions return NULL, or what went wrong, in words of NCCL. Each thread has
 * one such text, of what went wrong last. */
struct dsf_nccl {
    unsigned abi;
    int (*version)(void); /* of the library, as 22809 */

    /* What is asked for between the two is begun with the second: */
    const char *(*group_begin)(void);
    const char *(*group_end)(void);
    /* Become member `number` of the `n` of the communicator of that name, with
     * the GPU that the thread works with; waits for the others. */
    const char *(*name)(char id[DSF_NCCL_ID]);
    const char *(*join)(const char id[DSF_NCCL_ID], int n, int number,
                        void **comm);
    /* Put into a stream, where it stays until the other has come. The first time
     * that two members meet, the thread waits for the other, too. */
    const char *(*send)(const void *at, size_t bytes, int to, void *comm,
                        void *stream);
    const char *(*receive)(void *at, size_t bytes, int from, void *comm,
                           void *stream);
    /* What went wrong since, in the network, say, which none of the others has
     * returned. */
    const char *(*failed)(void *comm);
    /* Leave it, and end what is under way; from any thread, and without the
     * others. */
    const char *(*leave)(void *comm);
};

/* The one symbol of the module. */
extern DSFLOW_API const struct dsf_nccl dsf_nccl_module;

DSFLOW_END_DECLS

#endif
