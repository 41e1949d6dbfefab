/* attention_backward.cu - the gradients of attention of narrow types on tensor
 * cores, in two launches that leave nothing for each other, so that every sum
 * has one order: blocks of keys meet the queries that see them (dK, dV), blocks
 * of queries the keys that they see (dQ). Scores are computed in both: seven
 * products, where one launch that adds dQ with atomics has five.
 *
 * What bounds it, of 1024 pairs of a query and a key with heads of 128, in
 * cycles of a processor of an H200: dK and dV (16 keys a warp) 400 for 256 mma,
 * 576 for 144 ldmatrix.x4 and 190 for 760 instructions; dQ (32 queries a warp)
 * 300 for 192 mma, 320 for 80 ldmatrix.x4 and 165 for 650 instructions. So
 * shared memory bounds both, at 330 TFLOP/s of five products, and 220 are aimed
 * at. 32 keys a warp would need 256 registers for dK and dV alone. */
#include "gpu/attention_mma.h"

#include "tasks/attention_tiles.h"

namespace {

/* Keys of a warp (16 M), queries at a time (N), and blocks for the columns of
 * dK and dV of wide heads: accumulators of them are M D / PARTS registers, and
 * scores and their gradients M N. */
template <int D> struct keys_size {
    enum {
        M = D <= 64 ? 2 : 1,
        N = D > 192               ? 16
            : D == 64 || D == 192 ? 32
                                  : 64,
        PARTS = D <= 128 ? 1 : 2,
        COLS = D / PARTS,
        ROWS = MMA_WARPS * 16 * M,
        BYTES = (2 * ROWS + 4 * N) * D * 2 + 4 * N * sizeof(float)
    };
    static_assert(ROWS == DSF_BACKWARD_KEYS(D), "as plans count them");
    static_assert(PARTS == DSF_BACKWARD_KEYS_PARTS(D), "as plans count them");
    static_assert(N == DSF_BACKWARD_KEYS_QUERIES(D), "as plans count them");
};

/* Queries of a warp (16 M), and keys at a time (N). */
template <int D, bool HIDES> struct queries_size {
    enum {
        M = D <= 128 ? 2 : 1,
        N = D > 192 ? 16 : 32,
        ROWS = MMA_WARPS * 16 * M,
        KEPT = D <= 64, /* operands of queries, in registers */
        STEPS = KEPT    ? D / 16
                : HIDES ? 1
                        : D / 32, /* or registers spill */
        BYTES = (2 * ROWS + 4 * N) * D * 2
    };
    static_assert(ROWS == DSF_BACKWARD_QUERIES(D), "as plans count them");
    static_assert(N == DSF_BACKWARD_QUERIES_KEYS(D), "as plans count them");
};

/* A place in shared memory with two stages of N queries: q, datt, and a number
 * of each: lse in powers of 2, delta. */
template <class T, int D, int N> struct query_stages {
    T *rows;
    float *numbers;

    DEV T *q(unsigned stage) const
    {
        return rows + stage * 2 * N * D;
    }
    DEV T *datt(unsigned stage) const
    {
        return q(stage) + N * D;
    }
    DEV float *lse(unsigned stage) const
    {
        return numbers + stage * 2 * N;
    }
    DEV float *delta(unsigned stage) const
    {
        return lse(stage) + N;
    }
};

template <class T, int D, int N>
DEV void load_step(const dsf_gpu_attention &a, const query_stages<T, D, N> &to,
                   unsigned stage, unsigned seq, step s)
{
    const head_rows rows = query_rows(a, seq, s.head);

    load_rows<T, D, N>(to.q(stage), a.q, rows, s.query, a.head_dim);
    load_rows<T, D, N>(to.datt(stage), a.datt, rows, s.query, a.head_dim);
    dev_copy_commit();
}

/* What a thread brings of the numbers of a step: lse or delta of a query. What
 * is made of one past the last is multiplied by its q and datt, zeroes. */
template <int N>
DEV float step_number(const dsf_gpu_attention &a, unsigned seq, step s)
{
    const unsigned row = s.query + threadIdx.x % N;

    if (row >= a.queries)
        return 0;
    if (threadIdx.x < N)
        return a.lse[query_at(a, seq, s.head, row)] * ATTENTION_LOG2E;
    return a.delta[query_at(a, seq, s.head, row)];
}

/* Queries in blocks that do not see that of a key give it no weight. */
template <int M, int N>
DEV void mask_query_blocks(const dsf_gpu_attention &a, const sees_some &see,
                           float (&s)[M][N / 8][4], unsigned key, step now)
{
    const unsigned at = see.pos + now.query, first = at / see.block;
    const unsigned end = now.query + N < a.queries ? now.query + N : a.queries;
    const unsigned rows = (see.pos + end - 1) / see.block - first + 1;
    const unsigned column = (see.key_pos + key) / see.block;
    const int left = (int)((first + 1) * see.block - at - lane_col(0));
    uint32_t on[M][2] = {};

    for (unsigned r = 0; r < rows; r++) {
        const uint32_t bits = blocks_seen(see, now.head, first + r, column);

        DEV_UNROLL
        for (int m = 0; m < M; m++)
            DEV_UNROLL
        for (int i = 0; i < 2; i++) {
            const unsigned k = see.key_pos + key + m * 16 + lane_row(i);

            on[m][i] |= (bits >> (k / see.block - column) & 1) << r;
        }
    }
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++)
        if (on[m][i] != low_bits(rows))
            mask_blocks<N>(s[m], i, on[m][i], left, see.block);
}

/* So do queries before it, and those that have it not in their window: the last
 * that have are `within` behind the first. */
template <int M, int N, bool HIDES>
DEV void mask_query_ends(float (&s)[M][N / 8][4], unsigned key, unsigned query,
                         unsigned within)
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const int first =
            (int)(key + m * 16 + lane_row(i)) - (int)(query + lane_col(0));
        const int end = first + (int)within;

        DEV_UNROLL
        for (int n = 0; n < N / 8; n++)
            DEV_UNROLL
        for (int c = 0; c < 2; c++)
            if (n * 8 + c < first || (HIDES && n * 8 + c >= end))
                s[m][n][2 * i + c] = -INFINITY;
    }
}

/* Queries that do not see a key give it no weight. `key` is the warp's first.
 */
template <int M, int N>
DEV void mask_queries(const dsf_gpu_attention &a, sees_all,
                      float (&s)[M][N / 8][4], unsigned key, step now)
{
    if (a.diagonal && now.query < key + 16 * M - 1)
        mask_query_ends<M, N, false>(s, key, now.query, 0);
}

template <int M, int N>
DEV void mask_queries(const dsf_gpu_attention &a, const sees_some &see,
                      float (&s)[M][N / 8][4], unsigned key, step now)
{
    const unsigned at = now.query + see.before;

    if (see.layout != NULL)
        mask_query_blocks<M, N>(a, see, s, key, now);
    if (at < key + 16 * M - 1 || at + N - 1 >= key + see.window)
        mask_query_ends<M, N, true>(s, key, at, see.window);
}

/* Of keys and queries: s, scores, become weights, and g, gradients of weights,
 * those of scores. */
template <int M, int N>
DEV void weigh_queries(float (&s)[M][N / 8][4], float (&g)[M][N / 8][4],
                       const float *lse, const float *delta, float scale)
{
    DEV_UNROLL
    for (int n = 0; n < N / 8; n++)
        DEV_UNROLL
    for (int c = 0; c < 2; c++) {
        const float l = lse[lane_col(n) + c], d = delta[lane_col(n) + c];

        DEV_UNROLL
        for (int m = 0; m < M; m++)
            DEV_UNROLL
        for (int i = c; i < 4; i += 2) {
            float &x = s[m][n][i];

            x = dev_exp2(__fmaf_rn(x, scale, -l));
            g[m][n][i] = x * (g[m][n][i] - d);
        }
    }
}

/* A number for each row of a lane. */
template <int M> DEV void same(float (&by)[M][2], float v)
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        by[m][0] = by[m][1] = v;
}

/* From all query heads that use the keys, in their order, N queries after N
 * queries. */
template <class T, int D, class S>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_backward_keys(const dsf_gpu_attention a, const S see)
{
    typedef keys_size<D> size;
    enum { M = size::M, N = size::N, COLS = size::COLS, ROWS = size::ROWS };
    T *const sk = dev_shared<T>(), *const sv = sk + ROWS * D;
    const query_stages<T, D, N> stages = {
        sv + ROWS * D, (float *)(void *)(sv + (ROWS + 4 * N) * D)
    };
    const unsigned col = blockIdx.x % size::PARTS * COLS, d = a.head_dim;
    const share at =
        share_of(blockIdx.x / size::PARTS, strips_of(a.keys, ROWS), a.kv_heads);
    const unsigned first = at.strip * ROWS, warp = threadIdx.x / 32 * 16 * M;
    const unsigned key = first + warp;
    const unsigned heads = (at.head + 1) * group_size(a);
    const head_rows k = key_rows(a, at.seq, at.head, 0);
    const head_rows v = key_rows(a, at.seq, at.head, 1);
    const float scale = a.scale * ATTENTION_LOG2E;
    float dk[M][COLS / 8][4] = {}, dv[M][COLS / 8][4] = {}, by[M][2];
    float number = 0;
    query_walk<S, ROWS, N> walk(a, see, first, at.head * group_size(a), heads);
    step now = walk.begin();

    load_keys<T, D, ROWS>(sk, a, k, first);
    if (S::HIDES && now.head == heads) { /* no query sees them */
        dev_copy_commit();
    } else {
        load_step(a, stages, 0, at.seq, now);
        number = step_number<N>(a, at.seq, now);
    }
    for (unsigned stage = 0; now.head < heads; stage ^= 1) {
        const T *const sq = stages.q(stage), *const so = stages.datt(stage);
        const step next = walk.after(now);

        /* What was copied is there, and all have read the other stage. */
        if (threadIdx.x < 2 * N)
            stages.lse(stage)[threadIdx.x] = number;
        dev_copy_wait<0>();
        __syncthreads();
        if (next.head < heads) {
            load_step(a, stages, stage ^ 1, at.seq, next);
            number = step_number<N>(a, at.seq, next);
        }
        if (is_met(a, see, now.head, now.query, now.query + N, key,
                   key + 16 * M)) {
            const mma_rows<T, D, M, false> mk(sk + warp * D);
            const mma_rows<T, D, M, false> mv(sv + warp * D);
            float s[M][N / 8][4] = {}, g[M][N / 8][4] = {};

            rows_by_rows<T, D, M, N>(s, mk, sq);
            rows_by_rows<T, D, M, N>(g, mv, so);
            mask_queries<M, N>(a, see, s, key, now);
            weigh_queries<M, N>(s, g, stages.lse(stage), stages.delta(stage),
                                scale);
            weigh_rows<T, D, M, N, COLS>(dv, s, so, col);
            weigh_rows<T, D, M, N, COLS>(dk, g, sq, col);
        }
        now = next;
    }
    if (S::HIDES) /* nobody has waited if no query was met */
        all_copied();
    same<M>(by, a.scale);
    put_rows<T, D, M, COLS>(a.dkv, k, dev_anew(key), col, d, dk, by,
                            sk + warp * D);
    same<M>(by, 1);
    put_rows<T, D, M, COLS>(a.dkv, v, dev_anew(key), col, d, dv, by,
                            sv + warp * D);
}

/* lse in powers of 2, and delta, of a lane's rows. */
template <int M>
DEV void row_numbers(const dsf_gpu_attention &a, const share &at, unsigned row,
                     float (&lse)[M][2], float (&delta)[M][2])
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned r = row + m * 16 + lane_row(i);
        const unsigned near = r < a.queries ? r : a.queries - 1;
        const size_t i_at = query_at(a, at.seq, at.head, near);

        lse[m][i] = a.lse[i_at] * ATTENTION_LOG2E;
        delta[m][i] = a.delta[i_at];
    }
}

/* Of queries and keys, what weigh_queries does; lse and delta are of rows. */
template <int M, int N>
DEV void weigh_keys(float (&s)[M][N / 8][4], float (&g)[M][N / 8][4],
                    const float (&lse)[M][2], const float (&delta)[M][2],
                    float scale)
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int n = 0; n < N / 8; n++)
        DEV_UNROLL
    for (int i = 0; i < 4; i++) {
        const float p = dev_exp2(__fmaf_rn(s[m][n][i], scale, -lse[m][i / 2]));

        g[m][n][i] = p * (g[m][n][i] - delta[m][i / 2]);
    }
}

template <class T, int D, class S>
__global__ void __launch_bounds__(MMA_THREADS)
    attention_backward_queries(const dsf_gpu_attention a, const S see)
{
    typedef queries_size<D, S::HIDES> size;
    enum { M = size::M, N = size::N, ROWS = size::ROWS };
    T *const sq = dev_shared<T>(), *const so = sq + ROWS * D;
    T *const stages = so + ROWS * D;
    const unsigned strips = strips_of(a.queries, ROWS), d = a.head_dim;
    const share at = query_share(strips, a.heads);
    const unsigned first = at.strip * ROWS, warp = threadIdx.x / 32 * 16 * M;
    const unsigned row = first + warp, group = at.head / group_size(a);
    const head_rows q = query_rows(a, at.seq, at.head);
    const head_rows k = key_rows(a, at.seq, group, 0);
    const unsigned seen = keys_seen(a, see, first + ROWS - 1);
    const float scale = a.scale * ATTENTION_LOG2E;
    key_walk<S, ROWS, N> walk(a, see, at.head, first);
    unsigned key = walk.begin();
    float dq[M][D / 8][4] = {}, lse[M][2], delta[M][2], by[M][2];

    load_rows<T, D, ROWS>(sq, a.q, q, first, d);
    load_rows<T, D, ROWS>(so, a.datt, q, first, d);
    load_keys<T, D, N>(stages, a, k, key);
    dev_copy_commit();
    row_numbers<M>(a, at, row, lse, delta);
    if (size::KEPT)
        all_copied();

    const mma_rows<T, D, M, size::KEPT> mq(sq + warp * D), mo(so + warp * D);

    for (unsigned stage = 0, after; key < seen; key = after, stage ^= 1) {
        const T *const sk = stages + stage * 2 * N * D, *const sv = sk + N * D;
        T *const next = stages + (stage ^ 1) * 2 * N * D;
        float s[M][N / 8][4] = {}, g[M][N / 8][4] = {};

        after = walk.after(key);
        dev_copy_wait<0>();
        __syncthreads();
        if (after < seen) {
            load_keys<T, D, N>(next, a, k, after);
            dev_copy_commit();
        }
        if (!is_met(a, see, at.head, row, row + 16 * M, key, key + N))
            continue;
        rows_by_rows<T, D, M, N, size::STEPS>(s, mq, sk);
        rows_by_rows<T, D, M, N, size::STEPS>(g, mo, sv);
        mask_keys<M, N>(a, see, s, at.head, row, key);
        weigh_keys<M, N>(s, g, lse, delta, scale);
        weigh_rows<T, D, M, N, D>(dq, g, sk, 0);
    }
    if (S::HIDES && !size::KEPT)
        all_copied();
    same<M>(by, a.scale);
    put_rows<T, D, M, D>(a.dq, q, dev_anew(row), 0, d, dq, by, sq + warp * D);
}

template <class T, int D, class S> struct backward {
    typedef keys_size<D> keys;
    typedef queries_size<D, S::HIDES> queries;

    static void launch(const dsf_gpu_attention &a, const S &see, void *stream)
    {
        const unsigned of_keys = strips_of(a.keys, keys::ROWS) * keys::PARTS;
        const unsigned of_queries = strips_of(a.queries, queries::ROWS);

        dev_launch((attention_backward_keys<T, D, S>),
                   a.nseq * a.kv_heads * of_keys, MMA_THREADS, keys::BYTES,
                   stream, a, see);
        dev_launch((attention_backward_queries<T, D, S>),
                   a.nseq * a.heads * of_queries, MMA_THREADS, queries::BYTES,
                   stream, a, see);
    }
};

} // namespace

void dsf_gpu_attention_backward_mma(const dsf_gpu_attention *a,
                                    const dsf_gpu_sight *sight, void *stream)
{
    mma_launch<backward>(*a, sight, stream);
}
