/* place_emulated.c - sides on emulated kernels, on the thread that calls. */
#include "gpu/place.h"

#include "gpu/emulation/emulated.h"

#include <string.h>

static const struct dsf_gpu_side *const sides[] = {
#define DSF_GPU_SIDE(name) &dsf_gpu_side_##name,
#include "gpu/sides.h"
#undef DSF_GPU_SIDE
    NULL
};

const struct dsf_gpu_side *const *place_sides(void)
{
    return sides;
}

const struct dsf_gpu_side *place_side(const char *op)
{
    for (size_t i = 0; sides[i] != NULL; i++)
        if (strcmp(sides[i]->op, op) == 0)
            return sides[i];
    return NULL;
}

size_t (*place_scratch(const struct dsf_gpu_side *side))(
    const struct dsflow_case *c)
{
    return side->scratch;
}

const char *place_run(const struct dsf_gpu_side *side,
                      const struct dsflow_call *call)
{
    side->run(call, NULL);
    return emulated_fault();
}

const char *place_fault(void)
{
    return emulated_fault();
}

void place_order(uint64_t seed)
{
    emulated_order(seed);
}
