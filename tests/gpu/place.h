/* place.h - where tests run the CUDA sides of tasks: on kernels that are
 * emulated, at once and in main memory (place_emulated.c), or in the memory of
 * GPU 0 of the module that DSFLOW_CUDA names (place_module.c). A test is linked
 * with one of them, or with both, as two programs: test_module is those of the
 * second kind in one. */
#ifndef DSF_TESTS_GPU_PLACE_H
#define DSF_TESTS_GPU_PLACE_H

#include "gpu/gpu.h"

DSFLOW_BEGIN_DECLS

/* NULL after the last. */
const struct dsf_gpu_side *const *place_sides(void);

/* NULL: that kind of task has none. */
const struct dsf_gpu_side *place_side(const char *op);

/* Of call->scratch; NULL: none is needed, as place_run has its own. */
size_t (*place_scratch(const struct dsf_gpu_side *side))(
    const struct dsflow_case *c);

/* Compute a call whose buffers are in main memory, to its end. Returns NULL, or
 * what went wrong; valid until the next. What it writes beside its buffers, or
 * to one that the caller may only read, does not stay hidden. */
const char *place_run(const struct dsf_gpu_side *side,
                      const struct dsflow_call *call);

/* What went wrong with kernels that a test launched itself, since it was last
 * asked; NULL: nothing. */
const char *place_fault(void);

/* What follows is in another order of blocks, warps and lanes, where that can
 * be chosen. */
void place_order(uint64_t seed);

/* Tests of the program test_module, which has several. */
#ifdef TEST_MODULE
#define PLACE_MAIN(name) test_module_##name
int test_module_attention(int argc, char **argv);
int test_module_first(int argc, char **argv);
int test_module_inputs(int argc, char **argv);
int test_module_same_bits(int argc, char **argv);
int test_module_sides(int argc, char **argv);
#else
#define PLACE_MAIN(name) main
#endif

DSFLOW_END_DECLS

#endif
