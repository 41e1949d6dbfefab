/* run.cpp - a thread of an emulated block, instruction by instruction. */
#include "launch.h"
#include "program.h"

#include <cstring>

using namespace emulated;

namespace ptx {

void program::check_arguments(const std::vector<size_t> &at, size_t bytes) const
{
    bool same = parameters.size() == at.size();

    for (size_t k = 0; same && k < at.size(); k++)
        same = parameters[k].at == at[k];
    if (same && !at.empty())
        same = parameters.back().at + parameters.back().bytes == bytes;
    if (!same)
        throw unknown(name + ": nvcc's arguments lie elsewhere");
}

void program::check_block(size_t threads_of_block) const
{
    if (threads > 0 && threads_of_block > threads)
        throw unknown(name + ": blocks of " + std::to_string(threads_of_block) +
                      " threads: it is compiled for " +
                      std::to_string(threads));
}

/* Slots of the threads of a block; they outlive a launch that is stopped. */
static uint64_t *slots_of(const program &p)
{
    static thread_local std::vector<std::vector<uint64_t>> slots;
    const dim3 &t = now->thread, &n = now->block_dim;
    const size_t index = t.x + n.x * (t.y + (size_t)n.y * t.z);

    if (slots.size() < n.count())
        slots.resize(n.count());
    slots[index] = p.first;
    return slots[index].data();
}

void run(const program &p, const unsigned char *arguments)
{
    const place &at = *now;
    const uint64_t values[SPECIALS] = {
        at.thread.x,    at.thread.y,
        at.thread.z,    at.block_dim.x,
        at.block_dim.y, at.block_dim.z,
        at.block.x,     at.block.y,
        at.block.z,     at.grid_dim.x,
        at.grid_dim.y,  at.grid_dim.z,
        at.lane,        (uint64_t)(uintptr_t)arguments
    };
    frame f = { slots_of(p), 0, false };

    for (int s = 0; s < SPECIALS; s++)
        if (p.where[s] >= 0)
            f.r[p.where[s]] = values[s];
    while (!f.done) {
        const instruction &i = p.code[f.next++];

        if (i.guard < 0 || (f.r[i.guard] != 0) != i.unless)
            i.act(f, i);
    }
}

} // namespace ptx
