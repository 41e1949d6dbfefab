/* attention_forward.cu - attention of narrow types on tensor cores (Dao 2023):
 * a block of threads has some queries of a head and meets all keys that they
 * see, some at a time, while the next ones are on their way.
 *
 * What bounds it, of a warp (32 queries, 64 keys) with heads of 128, in cycles
 * of a processor of an H200: 256 mma take 400, 96 ldmatrix.x4 384, its 900
 * instructions 225, 2048 exponentials 128. Two blocks are on a processor at
 * once, so that one multiplies while the other exponentiates. If all but mma
 * were hidden, this would be 580 TFLOP/s, and 270 are aimed at. More needs
 * wgmma, which reads keys once for four warps. */
#include "gpu/attention_mma.h"

#include "tasks/attention_tiles.h"

namespace {

/* Queries of a warp (16 M), and keys at a time: 255 registers are not exceeded,
 * nor 99 KiB of shared memory, which all since sm_80 have. */
template <int D> struct forward_size {
    enum {
        M = D <= 128 ? 2 : 1,
        ROWS = MMA_WARPS * 16 * M,
        KEYS = D <= 64 ? 64 : 32,
        KEPT = D <= 64, /* queries, in registers */
        BYTES = (ROWS + 4 * KEYS) * D * 2
    };
    static_assert(ROWS == DSF_FORWARD_QUERIES(D), "as plans count them");
    static_assert(KEYS == DSF_FORWARD_KEYS(D), "as plans count them");
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

/* The maximum that weights of a query are relative to stays until a score is so
 * much greater, in powers of 2 (Zadouri et al. 2026): sums then mostly stay as
 * they are. Weights are 2^STAYS at most, which fp16 has. Only of a last task:
 * others leave the maximum to the next. */
enum { STAYS = 8 };

/* Scores of a query become weights. Returns what its sums so far shrink by:
 * where HIDES, it may have seen nothing, and -inf stays. A lane sums what it
 * has; row_sum comes at the end. */
template <bool HIDES, int N>
DEV float soften(float (&s)[N / 8][4], int i, softmax &of, float scale,
                 float stays)
{
    float most = s[0][2 * i], part = 0, shrink = 1, base;

    DEV_UNROLL
    for (int n = 0; n < N / 8; n++)
        most = fmaxf(most, fmaxf(s[n][2 * i], s[n][2 * i + 1]));
    most = row_max(most) * scale;
    if (most > of.top + stays) {
        shrink = dev_exp2(of.top - most);
        of.top = most;
    }
    base = HIDES && of.top == -INFINITY ? 0 : of.top;
    DEV_UNROLL
    for (int n = 0; n < N / 8; n++)
        DEV_UNROLL
    for (int c = 0; c < 2; c++) {
        float &x = s[n][2 * i + c];

        x = dev_exp2(__fmaf_rn(x, scale, -base));
        part += x;
    }
    of.sum = __fmaf_rn(of.sum, shrink, part);
    return shrink;
}

/* The same for all queries of a warp, whose sums o shrink, too. */
template <bool HIDES, int M, int N, int D>
DEV void soften_all(float (&s)[M][N / 8][4], float (&o)[M][D / 8][4],
                    softmax (&of)[M][2], float scale, float stays)
{
    float shrink[M][2];
    bool some = false;

    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        shrink[m][i] = soften<HIDES, N>(s[m], i, of[m][i], scale, stays);
        some |= shrink[m][i] != 1;
    }
    if (!__any_sync(0xffffffffu, some))
        return;
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int n = 0; n < D / 8; n++)
        DEV_UNROLL
    for (int i = 0; i < 4; i++)
        o[m][n][i] *= shrink[m][i / 2];
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

/* What it is told in one piece, of which sees_all takes nothing: nvcc has no
 * more than 128 bytes in registers from the start, and spills if it has `see`
 * there. */
template <class S> struct told : dsf_gpu_attention, S {
};

template <class T, int D, class S>
__global__ void __launch_bounds__(MMA_THREADS, 2)
    attention_forward_mma(const told<S> t)
{
    const dsf_gpu_attention &a = t;
    const S &see = t;
    typedef forward_size<D> size;
    enum { M = size::M, ROWS = size::ROWS, KEYS = size::KEYS };
    T *const sq = dev_shared<T>(), *const stages = sq + ROWS * D;
    const unsigned strips = strips_of(a.queries, ROWS);
    const share at = query_share(strips, a.heads);
    const unsigned first = at.strip * ROWS, warp = threadIdx.x / 32 * 16 * M;
    const unsigned row = first + warp, group = at.head / group_size(a);
    const head_rows k = key_rows(a, at.seq, group, 0);
    const unsigned seen = keys_seen(a, see, first + ROWS - 1);
    const float scale = a.scale * ATTENTION_LOG2E, stays = a.last ? STAYS : 0;
    key_walk<S, ROWS, KEYS> walk(a, see, at.head, first);
    unsigned key = walk.begin();
    float o[M][D / 8][4] = {};
    softmax of[M][2];

    load_rows<T, D, ROWS>(sq, a.q, query_rows(a, at.seq, at.head), first,
                          a.head_dim);
    load_keys<T, D, KEYS>(stages, a, k, key);
    dev_copy_commit();
    resume<M, D>(a, at, row, o, of);
    if (size::KEPT)
        all_copied();

    const mma_rows<T, D, M, size::KEPT> q(sq + warp * D);

    for (unsigned stage = 0, after; key < seen; key = after, stage ^= 1) {
        T *const sk = stages + stage * 2 * KEYS * D, *const sv = sk + KEYS * D;
        T *const next = stages + (stage ^ 1) * 2 * KEYS * D;
        float s[M][KEYS / 8][4] = {};

        after = walk.after(key);
        /* What was copied is there, and all have read what is in `next`. */
        dev_copy_wait<0>();
        __syncthreads();
        if (after < seen) {
            load_keys<T, D, KEYS>(next, a, k, after);
            dev_copy_commit();
        }
        if (!is_met(a, see, at.head, row, row + 16 * M, key, key + KEYS))
            continue;
        rows_by_rows<T, D, M, KEYS>(s, q, sk);
        mask_keys<M, KEYS>(a, see, s, at.head, row, key);
        soften_all<S::HIDES, M, KEYS, D>(s, o, of, scale, stays);
        weigh_rows<T, D, M, KEYS, D>(o, s, sv, 0);
    }
    if (S::HIDES && !size::KEPT) /* nobody has waited if no key was met */
        all_copied();
    finish<T, M, D>(a, query_share(dev_anew(strips), a.heads), dev_anew(row), o,
                    of, sq + warp * D);
}

template <class T, int D, class S> struct forward {
    typedef forward_size<D> size;

    static void launch(const dsf_gpu_attention &a, const S &see, void *stream)
    {
        const unsigned strips = strips_of(a.queries, size::ROWS);

        dev_launch((attention_forward_mma<T, D, S>), a.nseq * a.heads * strips,
                   MMA_THREADS, size::BYTES, stream, (told<S>{ a, see }));
    }
};

} // namespace

void dsf_gpu_attention_forward_mma(const dsf_gpu_attention *a,
                                   const dsf_gpu_sight *sight, void *stream)
{
    mma_launch<forward>(*a, sight, stream);
}
