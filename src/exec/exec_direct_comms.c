/* exec_direct_comms.c - which communicator carries a message: so that a GPU has
 * none in which it both sends and receives, and that there are few of them.
 *
 * Each GPU sends in half of them, another half than any other GPU, and receives
 * in the rest. As no half is in another one, there is one in which a GPU sends
 * and the other receives. Of 6 there are 20 halves: as many GPUs may take part;
 * of 13, 1716. NCCL makes two streams of its own for each, in which it waits
 * for its messages, and a GPU has 32 queues for streams: what shares one with
 * such a wait waits too.
 */
#include "exec/exec_direct_private.h"

/* Ways to take k of n. */
static uint64_t choose(unsigned n, unsigned k)
{
    uint64_t ways = 1;

    for (unsigned i = 1; i <= k; i++)
        ways = ways * (n - k + i) / i;
    return k <= n ? ways : 0;
}

unsigned dsf_direct_comms(size_t gpus)
{
    unsigned n = 2;

    while (choose(n, n / 2) < gpus)
        n++;
    return n;
}

/* Those in which a GPU sends, a bit for each: the halves in their order. */
static uint64_t half_of(unsigned comms, size_t gpu)
{
    unsigned left = comms / 2;
    uint64_t half = 0, before = gpu;

    for (unsigned i = comms; i-- > 0 && left > 0;) {
        const uint64_t without = choose(i, left);

        if (before < without)
            continue;
        before -= without;
        half |= UINT64_C(1) << i;
        left--;
    }
    return half;
}

unsigned dsf_direct_comm(unsigned comms, size_t from, size_t to)
{
    const uint64_t fit = half_of(comms, from) & ~half_of(comms, to);
    unsigned comm = 0;

    while (!(fit >> comm & 1))
        comm++;
    return comm;
}
