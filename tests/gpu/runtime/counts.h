/* counts.h - what tests ask of the emulated runtime: the module has the
 * symbols, which dlsym finds. */
#ifndef DSF_TESTS_GPU_COUNTS_H
#define DSF_TESTS_GPU_COUNTS_H

#include <stdint.h>

enum { EMULATED_MOST_GPUS = 8 };

struct emulated_runtime_counts {
    uint64_t allocations, frees; /* of device memory */
    uint64_t waits;              /* for a whole GPU, or its stream NULL */
    uint64_t unpinned;           /* copies of main memory that was not pinned */
    uint64_t pins;
    uint64_t pinned, most_pinned; /* bytes of main memory */
    uint64_t peers; /* pairs of GPUs that may reach each other's memory */
    uint64_t copies, launches; /* copies: and fillings */
    uint64_t bytes_in, bytes_out; /* copied from main memory, and into it */
    uint64_t used[EMULATED_MOST_GPUS], peak[EMULATED_MOST_GPUS]; /* bytes */
};

#ifdef __cplusplus
extern "C" {
#endif

__attribute__((visibility("default"))) void
emulated_runtime_count(struct emulated_runtime_counts *counts);

/* A kernel: what(arg), when the stream gets there. */
__attribute__((visibility("default"))) void
emulated_runtime_run(void *stream, void (*what)(void *arg), void *arg);

#ifdef __cplusplus
}
#endif

#endif
