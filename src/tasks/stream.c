/* stream.c - which random numbers round what. */
#include "tasks/stream.h"

#include "base/random.h"

#include <string.h>

static uint64_t stir(uint64_t into, uint64_t x)
{
    uint64_t state = into ^ x;

    return dsf_random(&state);
}

uint64_t dsf_state_stream(int64_t seed, const char *state, int32_t unit,
                          int32_t part)
{
    size_t n = strlen(state);
    uint64_t h = stir((uint64_t)seed, n);

    for (size_t i = 0; i < n; i++)
        h = stir(h, (unsigned char)state[i]);
    h = stir(stir(h, (uint64_t)unit), (uint64_t)part);
    return h != 0 ? h : 1;
}
