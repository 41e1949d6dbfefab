/* gpu.h - what the module with the CUDA side offers to the program that opens it.
 * The module is a shared library of its own: the program links nothing of CUDA,
 * and the module nothing of the program.
 *
 * Functions that can fail return NULL, or what went wrong in CUDA's words, which
 * are valid for good. Streams and events are CUDA's, as pointers. */
#ifndef DSF_GPU_GPU_H
#define DSF_GPU_GPU_H

#include <dsflow/codelet.h>
#include <dsflow/op.h>

DSFLOW_BEGIN_DECLS

#define DSF_GPU_ABI    6
#define DSF_GPU_SYMBOL "dsf_gpu_module"

/* Bytes of scratch memory that a product of matrices works in; emulated ones
 * need less. */
#ifndef DSF_GPU_WORKSPACE
#define DSF_GPU_WORKSPACE (32 << 20)
#endif

/* How a kind of task is computed on a GPU. */
struct dsf_gpu_side {
    const char *op; /* its name */
    /* Only enqueue on `stream`, as dsflow_cuda_fn says; `launched` tells what
     * CUDA refused. What is in main memory (control, tokens, losses) is reached
     * there by kernels; nothing of it may be read here, as it is not there yet.
     * An optimizer's update leaves all as it is where the control it reads says
     * `skip`. */
    void (*run)(const struct dsflow_call *call, void *stream);
    /* Bytes of device memory in call->scratch, with DSF_GPU_WORKSPACE where it
     * multiplies matrices. NULL: none. */
    size_t (*scratch)(const struct dsflow_case *c);
    int same_bits; /* 1: it leaves the bits that the CPU side leaves */
    /* Tasks that it does not compute, by their arguments: what they have, such
     * as "a window"; cores do them. NULL, or of other tasks: none. */
    const char *(*lacks)(const void *args);
};

struct dsf_gpu_about {
    char name[128];
    size_t memory, free;        /* bytes */
    int major, minor;           /* compute capability */
    unsigned processors;        /* streaming multiprocessors */
    int reaches_main_memory;    /* 1: at the addresses that the program has */
};

/* One end of a copy: `gpu` -1 is main memory. rows: of so many rows `bytes`
 * each, which are so many bytes apart; 0: there is one. */
struct dsf_gpu_copy {
    void *to;
    const void *from;
    size_t bytes;
    int to_gpu, from_gpu;
    size_t rows, to_apart, from_apart;
};

struct dsf_gpu {
    unsigned abi;
    int runtime; /* version of CUDA that it was built with, as 13000 */
    const struct dsf_gpu_side *const *sides; /* NULL after the last */

    const char *(*driver)(int *version); /* 0: there is none */
    const char *(*count)(unsigned *n);
    const char *(*about)(unsigned gpu, struct dsf_gpu_about *about);

    /* From now on the calling thread works with this GPU: */
    const char *(*use)(unsigned gpu);
    const char *(*allocate)(size_t bytes, void **at); /* zeroed */
    const char *(*release)(void *at);
    /* The version of cuBLASLt, as 130100; 0: there is none. */
    unsigned long (*products)(void);
    /* Are operands of products in fp32 rounded to TF32 from now on? 0 at first.
     */
    void (*round)(int to_tf32);
    /* What its library of products takes of its memory is taken now. */
    const char *(*prepare)(void);
    /* Lets its kernels reach memory of that GPU, and copy between them directly;
     * *can is 0 where the two cannot. */
    const char *(*reach)(unsigned gpu, int *can);
    const char *(*stream_new)(void **stream);
    const char *(*stream_free)(void *stream);
    const char *(*event_new)(void **event);
    const char *(*event_free)(void *event);

    /* Main memory, in whole pages, for all GPUs. What is pinned already, or is
     * not pinned any more, is left as it is. */
    const char *(*pin)(void *at, size_t bytes);
    const char *(*unpin)(void *at);

    /* Put into a stream of the GPU that the thread works with. */
    const char *(*copy)(const struct dsf_gpu_copy *copy, void *stream);
    const char *(*record)(void *event, void *stream);
    /* What went wrong when this thread last launched kernels. */
    const char *(*launched)(void);

    /* Until the stream got to where the event was recorded; sleeps. What went
     * wrong in a kernel before it is found here. */
    const char *(*await)(void *event);
    /* Between two that the stream got to; less than 0 where `to` was first. */
    const char *(*elapsed)(void *from, void *to, double *seconds);
};

/* The one symbol of the module. */
extern DSFLOW_API const struct dsf_gpu dsf_gpu_module;

/* In the module: the sides of sides.h. */
#define DSF_GPU_SIDE(name) extern const struct dsf_gpu_side dsf_gpu_side_##name;
#include "gpu/sides.h"
#undef DSF_GPU_SIDE

DSFLOW_END_DECLS

#endif
