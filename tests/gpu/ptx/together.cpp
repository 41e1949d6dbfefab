/* together.cpp - what threads of a block do together, copies that land when
 * they like, and where a thread goes on. */
#include "operations.h"

using namespace emulated;

namespace ptx {

namespace {

void all_meet(frame &, const instruction &i)
{
    barrier(i.file, i.line);
}
void warp_meets(frame &f, const instruction &i)
{
    from_lane(get<uint32_t>(f, i, 0), 0, now->lane, i.file, i.line);
}

enum shuffle { BFLY, DOWN, UP, IDX };
template <shuffle S> void shfl(frame &f, const instruction &i)
{
    const unsigned b = get<uint32_t>(f, i, 3), c = get<uint32_t>(f, i, 4);
    const unsigned lane = now->lane, segment = c >> 8 & 31;
    const unsigned least = lane & segment, most = least | (c & 31 & ~segment);
    unsigned from = S == BFLY   ? lane ^ b
                    : S == DOWN ? lane + b
                    : S == UP   ? lane - b
                                : least | (b & 31 & ~segment);
    const bool there = S == UP ? (int)from >= (int)most : from <= most;

    if (!there)
        from = lane;
    put<uint32_t>(f, i, 0,
                  from_lane(get<uint32_t>(f, i, 5), get<uint32_t>(f, i, 2),
                            from, i.file, i.line));
    put<bool>(f, i, 1, there);
}
void vote_ballot(frame &f, const instruction &i)
{
    put<uint32_t>(
        f, i, 0,
        ballot(get<uint32_t>(f, i, 2), get<bool>(f, i, 1), i.file, i.line));
}
void vote_any(frame &f, const instruction &i)
{
    put<bool>(f, i, 0,
              ballot(get<uint32_t>(f, i, 2), get<bool>(f, i, 1), i.file,
                     i.line) != 0);
}
void vote_all(frame &f, const instruction &i)
{
    const uint32_t mask = get<uint32_t>(f, i, 2);

    put<bool>(f, i, 0,
              ballot(mask, get<bool>(f, i, 1), i.file, i.line) == mask);
}

template <class H> void mma(frame &f, const instruction &i)
{
    uint32_t a[4], b[2];
    float c[4], d[4];
    mma_args args = { a, b, c, d };

    for (unsigned k = 0; k < 4; k++) {
        a[k] = get<uint32_t>(f, i, 4 + k);
        c[k] = get<float>(f, i, 10 + k);
    }
    for (unsigned k = 0; k < 2; k++)
        b[k] = get<uint32_t>(f, i, 8 + k);
    warp(~0u, mma_all<H>, &args, i.file, i.line);
    for (unsigned k = 0; k < 4; k++)
        put<float>(f, i, k, one_nan(d[k]));
}
template <bool TRANSPOSED> void ldmatrix(frame &f, const instruction &i)
{
    const uint64_t a = get<uint32_t>(f, i, 4) + (uint64_t)i.plus[0];
    uint32_t r[4];

    ldmatrix4(r, (char *)shared_memory() + a, TRANSPOSED, i.file, i.line);
    for (unsigned k = 0; k < 4; k++)
        put<uint32_t>(f, i, k, r[k]);
}

/* Of 16 bytes as many as the last operand says, and zeroes. */
void cp_async(frame &f, const instruction &i)
{
    const uint32_t bytes = i.n > 3 ? get<uint32_t>(f, i, 3) : 16;

    if (get<uint32_t>(f, i, 2) != 16 || (bytes != 0 && bytes != 16))
        stop(i.file, i.line, "a copy of %u of %u bytes", bytes,
             get<uint32_t>(f, i, 2));
    copy16((char *)shared_memory() + get<uint32_t>(f, i, 0) + i.plus[0],
           (const void *)(uintptr_t)(f.r[i.at[1]] + (uint64_t)i.plus[1]),
           bytes != 0, i.file, i.line);
}
void cp_async_commit(frame &, const instruction &)
{
    copy_commit();
}
void cp_async_wait(frame &f, const instruction &i)
{
    copy_wait(get<uint32_t>(f, i, 0));
}

void branch(frame &f, const instruction &i)
{
    f.next = i.target;
}
void leave(frame &f, const instruction &)
{
    f.done = true;
}

} // namespace

void add_together(table &t)
{
    t.insert({
        { "bar.sync", all_meet },
        { "bar.warp.sync", warp_meets },
        { "shfl.sync.bfly.b32", shfl<BFLY> },
        { "shfl.sync.down.b32", shfl<DOWN> },
        { "shfl.sync.up.b32", shfl<UP> },
        { "shfl.sync.idx.b32", shfl<IDX> },
        { "vote.sync.ballot.b32", vote_ballot },
        { "vote.sync.any.pred", vote_any },
        { "vote.sync.all.pred", vote_all },
        { "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", mma<bf16> },
        { "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", mma<fp16> },
        { "ldmatrix.sync.aligned.m8n8.x4.shared.b16", ldmatrix<false> },
        { "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", ldmatrix<true> },
        { "cp.async.cg.shared.global", cp_async },
        { "cp.async.commit_group", cp_async_commit },
        { "cp.async.wait_group", cp_async_wait },
        { "bra", branch },
        { "bra.uni", branch },
        { "ret", leave },
        { "exit", leave },
    });
}

} // namespace ptx
