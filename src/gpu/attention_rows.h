/* attention_rows.h - where the rows of a head are, and what a block of threads
 * has of them: what all attention kernels share. */
#ifndef DSF_GPU_ATTENTION_ROWS_H
#define DSF_GPU_ATTENTION_ROWS_H

#include "gpu/attention.h"
#include "gpu/dev.h"

/* Scores are in powers of 2 where they are in powers of e elsewhere. */
#define ATTENTION_LOG2E 1.44269504f
#define ATTENTION_LN2   0.693147181f

/* The rows of one head of one sequence: `n` of them, `ld` numbers apart, from
 * the first-th number on. */
struct head_rows {
    size_t first;
    unsigned n, ld;

    DEV size_t at(unsigned row) const
    {
        return first + (size_t)row * ld;
    }
};

/* Of q, att, datt and dq. */
DEV head_rows query_rows(const dsf_gpu_attention &a, unsigned seq,
                         unsigned head)
{
    const size_t heads = (size_t)seq * a.queries * a.heads + head;

    return { heads * a.head_dim, a.queries, a.heads * a.head_dim };
}

/* Of the keys (0) or values (1) of kv and dkv. */
DEV head_rows key_rows(const dsf_gpu_attention &a, unsigned seq, unsigned group,
                       unsigned values)
{
    const size_t halves = (size_t)seq * a.keys * 2 + values;

    return { (halves * a.kv_heads + group) * a.head_dim, a.keys,
             2 * a.kv_heads * a.head_dim };
}

/* Of lse and delta: those of a head are `heads` apart. */
DEV size_t query_at(const dsf_gpu_attention &a, unsigned seq, unsigned head,
                    unsigned row)
{
    return ((size_t)seq * a.queries + row) * a.heads + head;
}

/* Query heads that use the same keys. */
__host__ DEV unsigned group_size(const dsf_gpu_attention &a)
{
    return a.heads / a.kv_heads;
}

/* What a block of threads does: some rows of a head. Blocks of a head follow
 * each other, so that what all of them read stays in the cache. */
struct share {
    unsigned seq, head, strip;
};

/* Strips of `of` rows that `rows` are cut into. */
__host__ DEV unsigned strips_of(unsigned rows, unsigned of)
{
    return (rows + of - 1) / of;
}

/* Of the `block`-th block, where a head has so many strips. */
DEV share share_of(unsigned block, unsigned strips, unsigned heads)
{
    const unsigned at = block / strips;

    return { at / heads, at % heads, block % strips };
}

/* The same of queries: the last ones, which see the most, come first, so that
 * no long block is alone at the end. */
DEV share query_share(unsigned strips, unsigned heads)
{
    share s = share_of(blockIdx.x, strips, heads);

    s.strip = strips - 1 - s.strip;
    return s;
}

/* The running maximum (in powers of 2) and sum of a query. */
struct softmax {
    float top, sum;
};

DEV softmax softmax_of(const dsf_gpu_attention &a, unsigned seq, unsigned head,
                       unsigned row)
{
    const size_t at = query_at(a, seq, head, row < a.queries ? row : 0);
    const size_t sums = (size_t)a.nseq * a.queries * a.heads;

    if (a.att.fresh)
        return { -INFINITY, 0 };
    return { a.lse[at] * ATTENTION_LOG2E, a.lse[sums + at] };
}

DEV void softmax_put(const dsf_gpu_attention &a, unsigned seq, unsigned head,
                     unsigned row, softmax s)
{
    const size_t at = query_at(a, seq, head, row);
    const size_t sums = (size_t)a.nseq * a.queries * a.heads;
    const float top = s.top * ATTENTION_LN2;

    a.lse[at] = a.last ? top + logf(s.sum) : top;
    a.lse[sums + at] = a.last ? 1 : s.sum;
}

#endif
