/* isa_portable.c - the loops for any processor. */
#include "kernels/loops.h"

#include <assert.h>

#define DSF_LOOPS     dsf_loops_portable
#define DSF_LOOPS_ISA "portable"
#include "kernels/loops_all.h"
