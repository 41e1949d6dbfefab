/* attention_sight.h - which keys a query sees: all that are not behind it
 * (sees_all), or of these the ones in its window, and in the blocks of a layout
 * that are on (sees_some). Kernels are compiled for both, so that the first is
 * as fast as without the second. */
#ifndef DSF_GPU_ATTENTION_SIGHT_H
#define DSF_GPU_ATTENTION_SIGHT_H

#include "gpu/attention_rows.h"

struct sees_all {
    enum { HIDES = 0 };
};

struct sees_some : dsf_gpu_sight {
    enum { HIDES = 1 };
};

/* How many of the keys are not behind query `row`? */
DEV unsigned keys_seen(const dsf_gpu_attention &a, sees_all, unsigned row)
{
    return a.diagonal && row + 1 < a.keys ? row + 1 : a.keys;
}

DEV unsigned keys_seen(const dsf_gpu_attention &a, const sees_some &see,
                       unsigned row)
{
    const unsigned seen = row + 1 + see.before;

    return seen < a.keys ? seen : a.keys;
}

/* How many of them are in front of its window? */
DEV unsigned keys_hidden(sees_all, unsigned)
{
    return 0;
}

DEV unsigned keys_hidden(const sees_some &see, unsigned row)
{
    const unsigned seen = row + 1 + see.before;

    return seen > see.window ? seen - see.window : 0;
}

/* The first query that a key is not behind, in whole steps of N. */
template <int N>
DEV unsigned first_query(const dsf_gpu_attention &a, sees_all, unsigned key)
{
    return a.diagonal ? key / N * N : 0;
}

template <int N>
DEV unsigned first_query(const dsf_gpu_attention &, const sees_some &see,
                         unsigned key)
{
    return key > see.before ? (key - see.before) / N * N : 0;
}

/* Whether a row of blocks sees 32 columns from `column` on, as bits. */
DEV uint32_t blocks_seen(const sees_some &see, unsigned head, unsigned row,
                         unsigned column)
{
    const unsigned at = column / 64, shift = column % 64;
    const uint64_t *const words =
        see.layout + head * see.apart + (size_t)row * see.words + at;
    uint64_t bits = words[0] >> shift;

    if (shift > 32 && at + 1 < see.words)
        bits |= words[1] << (64 - shift);
    return (uint32_t)bits;
}

/* The lowest n bits, at most 31. */
DEV uint32_t low_bits(unsigned n)
{
    return (1u << n) - 1;
}

/* Of a head: may a query of row .. end see a key of key .. until? Those past
 * the last ones do not count; they are of 31 blocks at most. */
DEV bool is_met(const dsf_gpu_attention &a, sees_all see, unsigned,
                unsigned row, unsigned end, unsigned key, unsigned)
{
    return row < a.queries && key < keys_seen(a, see, end - 1);
}

DEV bool is_met(const dsf_gpu_attention &a, const sees_some &see, unsigned head,
                unsigned row, unsigned end, unsigned key, unsigned until)
{
    unsigned r, last, column;
    uint32_t columns;

    end = end < a.queries ? end : a.queries;
    if (until > keys_seen(a, see, end - 1))
        until = keys_seen(a, see, end - 1);
    if (row >= end || key >= until || until <= keys_hidden(see, row))
        return false;
    if (see.layout == NULL)
        return true;
    column = (see.key_pos + key) / see.block;
    columns = low_bits((see.key_pos + until - 1) / see.block - column + 1);
    r = (see.pos + row) / see.block;
    last = (see.pos + end - 1) / see.block;
    while (r <= last && !(blocks_seen(see, head, r, column) & columns))
        r++;
    return r <= last;
}

/* Does query `row` see that key? */
DEV bool is_seen(const dsf_gpu_attention &a, sees_all see, unsigned,
                 unsigned row, unsigned key)
{
    return key < keys_seen(a, see, row);
}

DEV bool is_seen(const dsf_gpu_attention &a, const sees_some &see,
                 unsigned head, unsigned row, unsigned key)
{
    if (row >= a.queries || key >= keys_seen(a, see, row) ||
        key < keys_hidden(see, row))
        return false;
    return see.layout == NULL ||
           (blocks_seen(see, head, (see.pos + row) / see.block,
                        (see.key_pos + key) / see.block) &
            1) != 0;
}

/* Strips in ascending order, of which some are met: each lane looks at one of
 * the next 32. All warps of a block go the same way. */
struct strip_walk {
    unsigned next; /* that nobody has looked at */
    uint32_t left; /* of the 32 before it */

    /* `end` where there is none before that. */
    template <class F> DEV unsigned after(unsigned end, const F &is_one)
    {
        unsigned i;

        while (left == 0) {
            const unsigned at = next + threadIdx.x % 32;

            if (next >= end)
                return end;
            left = __ballot_sync(0xffffffffu, at < end && is_one(at));
            next += 32;
        }
        i = (unsigned)__ffs((int)left) - 1;
        left &= left - 1;
        return next - 32 + i;
    }
};

/* The keys that ROWS queries of a head, from `first` on, meet, N at a time:
 * from begin() until all that are seen, or past them. */
template <class S, int ROWS, int N> struct key_walk;

template <int ROWS, int N> struct key_walk<sees_all, ROWS, N> {
    DEV key_walk(const dsf_gpu_attention &, sees_all, unsigned, unsigned)
    {
    }
    DEV unsigned begin()
    {
        return 0;
    }
    DEV unsigned after(unsigned key)
    {
        return key + N;
    }
};

template <int ROWS, int N> struct key_walk<sees_some, ROWS, N> {
    const dsf_gpu_attention &a;
    const sees_some &see;
    unsigned head, first;
    strip_walk walk;

    DEV key_walk(const dsf_gpu_attention &a_, const sees_some &see_,
                 unsigned head_, unsigned first_)
        : a(a_), see(see_), head(head_), first(first_),
          walk({ keys_hidden(see_, first_) / N, 0 })
    {
    }
    DEV unsigned begin()
    {
        return after(0);
    }
    DEV unsigned after(unsigned)
    {
        const unsigned end = strips_of(keys_seen(a, see, first + ROWS - 1), N);

        return N * walk.after(end, [this](unsigned i) {
            return is_met(a, see, head, first, first + ROWS, i * N, i * N + N);
        });
    }
};

/* Where a block of keys is: N queries of a head, from `query` on. */
struct step {
    unsigned head, query;
};

/* The queries that ROWS keys from `first` on meet: N at a time, of heads from
 * `head` until `heads`. */
template <class S, int ROWS, int N> struct query_walk;

template <int ROWS, int N> struct query_walk<sees_all, ROWS, N> {
    const dsf_gpu_attention &a;
    unsigned least, head;

    DEV query_walk(const dsf_gpu_attention &a_, sees_all see, unsigned first,
                   unsigned head_, unsigned)
        : a(a_), least(first_query<N>(a_, see, first)), head(head_)
    {
    }
    DEV step begin()
    {
        return { head, least };
    }
    DEV step after(step now)
    {
        return now.query + N < a.queries ? step{ now.head, now.query + N }
                                         : step{ now.head + 1, least };
    }
};

template <int ROWS, int N> struct query_walk<sees_some, ROWS, N> {
    const dsf_gpu_attention &a;
    const sees_some &see;
    unsigned first, head, heads;
    strip_walk walk;

    DEV query_walk(const dsf_gpu_attention &a_, const sees_some &see_,
                   unsigned first_, unsigned head_, unsigned heads_)
        : a(a_), see(see_), first(first_), head(head_), heads(heads_),
          walk({ first_query<N>(a_, see_, first_) / N, 0 })
    {
    }
    DEV step begin()
    {
        return after({ head, 0 });
    }
    DEV step after(step now)
    {
        /* Of the queries that have the last key in their window. */
        const unsigned rows = first + ROWS < a.keys ? first + ROWS : a.keys;
        const unsigned past = rows - 1 + see.window;
        const unsigned seen = past > see.before ? past - see.before : 0;
        const unsigned end = strips_of(seen < a.queries ? seen : a.queries, N);

        for (; now.head < heads; now.head++) {
            const unsigned i = walk.after(end, [&](unsigned at) {
                return is_met(a, see, now.head, at * N, at * N + N, first,
                              first + ROWS);
            });

            if (i < end)
                return { now.head, i * N };
            walk = { first_query<N>(a, see, first) / N, 0 };
        }
        return now;
    }
};

#endif
