/* emulated.h - what tests, and an emulated runtime, ask of emulated kernels. All
 * of it is of the calling thread, but for the queue. */
#ifndef DSF_GPU_EMULATED_H
#define DSF_GPU_EMULATED_H

#include <stdint.h>

#ifdef __cplusplus
#include <functional>
#include <vector>
extern "C" {
#endif

/* From here on, the order of blocks, warps and lanes, and when copies land, are
 * this seed's. Before: that of DSFLOW_EMULATED_SEED, or of 1. */
void emulated_order(uint64_t seed);

/* What was first wrong with a launch since this was last asked, with file and
 * line; NULL: nothing was. Valid until the next launch. A launch ends where it is
 * wrong. */
const char *emulated_fault(void);

/* Launches so far, switches between threads of blocks, and barriers that blocks
 * passed. */
struct emulated_work {
    uint64_t launches, blocks, switches, barriers;
};
struct emulated_work emulated_work_done(void);

#ifdef __cplusplus
}

/* A kernel, or a product of the library: its name, what it does, and the words
 * of 8 bytes that it is given, those of pointers among them. */
struct emulated_launch {
    const char *name;
    std::function<void()> run;
    std::vector<const void *> given;
};

/* Who runs what is launched on a stream, in the order of the launches: the
 * emulated runtime puts its own in. NULL, and on the stream NULL: it runs at
 * once, on the thread that launches. */
typedef void (*emulated_queue)(void *stream, emulated_launch launch);
extern emulated_queue emulated_enqueue;
#endif

#endif
