/* attention_forward.cu - attention of narrow types on tensor cores (Dao 2023):
 * a block of threads has some queries of a head and meets all keys that they
 * see, some at a time, while the next ones are on their way.
 *
 * What bounds it, of a warp (32 queries, 64 keys) with heads of 128, in cycles
 * of a processor of an H200: 256 mma take 400, 80 ldmatrix.x4 320, 2048
 * exponentials 128. Two blocks are on a processor at once, so that one
 * multiplies while the other exponentiates. If all but mma were hidden, this
 * would be 580 TFLOP/s, and 270 are aimed at. More needs wgmma, which reads
 * keys once for four warps. */
#include "gpu/attention_mma.h"

namespace {

/* Queries of a warp (16 M), and keys at a time: 255 registers are not exceeded,
 * nor 99 KiB of shared memory, which all since sm_80 have. */
template <int D> struct forward_size {
    enum {
        M = D <= 128 ? 2 : 1,
        ROWS = MMA_WARPS * 16 * M,
        KEYS = D <= 128 ? 64 : 32,
        STEPS = D == 96 || D == 128 ? 1 : D / 16, /* or registers spill */
        BYTES = (ROWS + 4 * KEYS) * D * 2
    };
};

/* Of all four lanes that have numbers of a row. */
DEV float row_max(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

DEV float row_sum(float x)
{
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

/* Scores become weights, and what was summed so far shrinks to the new maximum.
 * A lane sums what it has; row_sum comes at the end. */
template <int M, int N, int D>
DEV void soften(float (&s)[M][N / 8][4], float (&o)[M][D / 8][4],
                softmax (&of)[M][2], float scale)
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        float most = s[m][0][2 * i], part = 0, shrink;

        DEV_UNROLL
        for (int n = 0; n < N / 8; n++)
            most = fmaxf(most, fmaxf(s[m][n][2 * i], s[m][n][2 * i + 1]));
        most = fmaxf(of[m][i].top, row_max(most) * scale);
        shrink = dev_exp2(of[m][i].top - most);
        DEV_UNROLL
        for (int n = 0; n < N / 8; n++)
            DEV_UNROLL
        for (int c = 0; c < 2; c++) {
            float &x = s[m][n][2 * i + c];

            x = dev_exp2(__fmaf_rn(x, scale, -most));
            part += x;
        }
        of[m][i].sum = __fmaf_rn(of[m][i].sum, shrink, part);
        of[m][i].top = most;
        DEV_UNROLL
        for (int n = 0; n < D / 8; n++) {
            o[m][n][2 * i] *= shrink;
            o[m][n][2 * i + 1] *= shrink;
        }
    }
}

/* Sums of tasks before this one. The sum is in one lane of the four. */
template <int M, int D>
DEV void resume(const dsf_gpu_attention &a, const share &at, unsigned row,
                float (&o)[M][D / 8][4], softmax (&of)[M][2])
{
    const head_rows rows = query_rows(a, at.seq, at.head);

    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned r = row + m * 16 + lane_row(i);
        const float *att = (const float *)a.att.p + rows.at(r);

        of[m][i] = softmax_of(a, at.seq, at.head, r);
        if (lane_col(0) != 0)
            of[m][i].sum = 0;
        if (a.att.fresh || r >= a.queries)
            continue;
        DEV_UNROLL
        for (int n = 0; n < D / 8; n++)
            if (lane_col(n) < a.head_dim) {
                o[m][n][2 * i] = att[lane_col(n)];
                o[m][n][2 * i + 1] = att[lane_col(n) + 1];
            }
    }
}

template <class T, int M, int D>
DEV void finish(const dsf_gpu_attention &a, const share &at, unsigned row,
                const float (&o)[M][D / 8][4], softmax (&of)[M][2], T *mine)
{
    dsf_gpu_sum att = a.att;
    float by[M][2];

    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned r = row + m * 16 + lane_row(i);

        of[m][i].sum = row_sum(of[m][i].sum);
        by[m][i] = a.last ? 1 / of[m][i].sum : 1;
        if (r < a.queries && lane_col(0) == 0)
            softmax_put(a, at.seq, at.head, r, of[m][i]);
    }
    att.fresh = 1; /* what was there is in o */
    put_rows<T, D, M, D>(att, query_rows(a, at.seq, at.head), row, 0,
                         a.head_dim, o, by, mine);
}

template <class T, int D>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_forward_mma(const dsf_gpu_attention a)
{
    typedef forward_size<D> size;
    enum { M = size::M, ROWS = size::ROWS, KEYS = size::KEYS };
    T *const sq = dev_shared<T>(), *const stages = sq + ROWS * D;
    const unsigned strips = strips_of(a.queries, ROWS), d = a.head_dim;
    const share at = query_share(strips, a.heads);
    const unsigned first = at.strip * ROWS, warp = threadIdx.x / 32 * 16 * M;
    const unsigned row = first + warp, group = at.head / group_size(a);
    const head_rows k = key_rows(a, at.seq, group, 0);
    const head_rows v = key_rows(a, at.seq, group, 1);
    const unsigned seen = keys_seen(a, first + ROWS - 1);
    const float scale = a.scale * ATTENTION_LOG2E;
    float o[M][D / 8][4] = {};
    softmax of[M][2];

    load_rows<T, D, ROWS>(sq, a.q, query_rows(a, at.seq, at.head), first, d);
    load_rows<T, D, KEYS>(stages, a.kv, k, 0, d);
    load_rows<T, D, KEYS>(stages + KEYS * D, a.kv, v, 0, d);
    dev_copy_commit();
    resume<M, D>(a, at, row, o, of);
    for (unsigned key = 0, stage = 0; key < seen; key += KEYS, stage ^= 1) {
        T *const sk = stages + stage * 2 * KEYS * D, *const sv = sk + KEYS * D;
        T *const next = stages + (stage ^ 1) * 2 * KEYS * D;
        float s[M][KEYS / 8][4] = {};

        /* What was copied is there, and all have read what is in `next`. */
        dev_copy_wait<0>();
        __syncthreads();
        if (key + KEYS < seen) {
            load_rows<T, D, KEYS>(next, a.kv, k, key + KEYS, d);
            load_rows<T, D, KEYS>(next + KEYS * D, a.kv, v, key + KEYS, d);
            dev_copy_commit();
        }
        if (row >= a.queries || key >= keys_seen(a, row + 16 * M - 1))
            continue;
        rows_by_rows<T, D, M, KEYS, size::STEPS>(s, sq + warp * D, sk);
        if (key + KEYS > keys_seen(a, row))
            mask_keys<M, KEYS>(a, s, row, key);
        soften<M, KEYS, D>(s, o, of, scale);
        weigh_rows<T, D, M, KEYS, D>(o, s, sv, 0);
    }
    finish<T, M, D>(a, at, row, o, of, sq + warp * D);
}

template <class T, int D> struct forward {
    typedef forward_size<D> size;

    static void launch(const dsf_gpu_attention &a, void *stream)
    {
        const unsigned strips = strips_of(a.queries, size::ROWS);

        dev_launch((attention_forward_mma<T, D>), a.nseq * a.heads * strips,
                   MMA_THREADS, size::BYTES, stream, a);
    }
};

} // namespace

void dsf_gpu_attention_forward_mma(const dsf_gpu_attention *a, void *stream)
{
    mma_launch<forward>(*a, stream);
}
