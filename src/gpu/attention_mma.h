/* attention_mma.h - products of a few rows on tensor cores, as attention has
 * them: both operands in shared memory, or one in registers.
 *
 * What bounds these kernels on sm_80 and sm_90: an ldmatrix.x4 brings 512 bytes
 * in four cycles, in which the tensor cores of a processor can do 4096 to 5200
 * multiplications of mma.sync (2048 each): so an operand from shared memory
 * must be used by two mma each, and better by four. Where registers allow, a
 * warp has 32 rows for that reason, and where they do not, 16. */
#ifndef DSF_GPU_ATTENTION_MMA_H
#define DSF_GPU_ATTENTION_MMA_H

#include "gpu/attention_sight.h"

enum { MMA_WARPS = 4, MMA_THREADS = 32 * MMA_WARPS };

/* Rows of D numbers in shared memory. Eight numbers are a chunk of 16 bytes,
 * and the chunks of a row trade places by its number: eight rows have those of
 * one column, which ldmatrix reads at once, in different banks. */
template <int D> struct mma_tile {
    static_assert(D % 32 == 0, "rows are whole chunks of 64 bytes");
    enum { CHUNKS = D / 8, SPAN = D % 64 == 0 ? 64 : 32 };

    static DEV unsigned turn(unsigned row)
    {
        return SPAN == 64 ? row % 8 : row / 2 % 4;
    }
    static DEV unsigned at(unsigned row, unsigned chunk)
    {
        return row * D + (chunk ^ turn(row)) * 8;
    }
};

/* Bring rows row .. row+ROWS of `rows`, `d` numbers each; zeroes past the last
 * row and the last number. Threads bring as many, and the same columns of each
 * row: so all places follow from the first by additions. */
template <class T, int D, int ROWS>
DEV void load_rows(T *to, const void *from, const head_rows &rows, unsigned row,
                   unsigned d)
{
    enum { WIDE = mma_tile<D>::SPAN / 8, STEP = MMA_THREADS / WIDE };
    const unsigned first = threadIdx.x / WIDE, chunk = threadIdx.x % WIDE;
    const T *at = (const T *)from + rows.at(row + first) + chunk * 8;
    T *const put = to + mma_tile<D>::at(first, chunk);

    static_assert(ROWS % STEP == 0, "all threads bring as many");
    DEV_UNROLL
    for (int r = 0; r < ROWS; r += STEP, at += (size_t)STEP * rows.ld)
        DEV_UNROLL
    for (int c = 0; c < D / 8; c += WIDE)
        dev_copy16(put + r * D + c * 8, at + c * 8,
                   row + first + r < rows.n && (c + chunk) * 8 < d);
}

/* Bring N keys of `rows`, from `key` on, and their values behind them. */
template <class T, int D, int N>
DEV void load_keys(T *to, const dsf_gpu_attention &a, const head_rows &rows,
                   unsigned key)
{
    const T *const kv = (const T *)a.kv;

    load_rows<T, D, N>(to, kv, rows, key, a.head_dim);
    load_rows<T, D, N>(to + N * D, kv + a.kv_heads * a.head_dim, rows, key,
                       a.head_dim);
}

/* What the block's threads have asked for is there for all of them. */
DEV void all_copied()
{
    dev_copy_wait<0>();
    __syncthreads();
}

/* What a lane reads of 16 x 16 numbers of a tile for ldmatrix.x4: `row` and
 * `half` (of the 16 columns) are its. */
template <class T, int D> struct mma_reader {
    const T *tile;
    unsigned first;

    DEV mma_reader(const T *tile_, unsigned row, unsigned half)
        : tile(tile_), first(mma_tile<D>::at(row, half))
    {
    }
    /* Columns 16 step .. 16 step + 16, `down` rows (a multiple of 16) below:
     * chunks of a row trade places by bits of their numbers. */
    DEV const T *at(unsigned step, unsigned down) const
    {
        enum { SPAN = mma_tile<D>::SPAN };
        const unsigned col = step * 16;

        return tile + (first ^ col % SPAN) + down * D + col / SPAN * SPAN;
    }
};

/* 16 M rows of a tile, over D numbers, as operands of mma: read each time, or
 * once (KEPT), where there are registers for it. */
template <class T, int D, int M, bool KEPT> struct mma_rows;

template <class T, int D, int M> struct mma_rows<T, D, M, false> {
    mma_reader<T, D> from;

    DEV mma_rows(const T *tile)
        : from(tile, threadIdx.x % 16, threadIdx.x % 32 / 16)
    {
    }
    DEV void at(uint32_t (&f)[M][4], int step) const
    {
        DEV_UNROLL
        for (int m = 0; m < M; m++)
            dev_ldmatrix4(f[m], from.at(step, m * 16));
    }
};

template <class T, int D, int M> struct mma_rows<T, D, M, true> {
    uint32_t kept[D / 16][M][4];

    DEV mma_rows(const T *tile)
    {
        const mma_rows<T, D, M, false> rows(tile);

        DEV_UNROLL
        for (int s = 0; s < D / 16; s++)
            rows.at(kept[s], s);
    }
    DEV void at(uint32_t (&f)[M][4], int step) const
    {
        DEV_UNROLL
        for (int m = 0; m < M; m++)
            DEV_UNROLL
        for (int i = 0; i < 4; i++)
            f[m][i] = kept[step][m][i];
    }
};

/* c += A B^T: 16 M rows a, N rows of tile b, over D numbers, of which 16 STEPS
 * are unrolled. */
template <class T, int D, int M, int N, int STEPS = D / 16, class A>
DEV void rows_by_rows(float (&c)[M][N / 8][4], const A &a, const T *b)
{
    const unsigned lane = threadIdx.x % 32;
    const mma_reader<T, D> rb(b, lane / 16 * 8 + lane % 8, lane / 8 % 2);

    DEV_UNROLL_BY(STEPS)
    for (int s = 0; s < D / 16; s++) {
        uint32_t fa[M][4];

        a.at(fa, s);
        DEV_UNROLL
        for (int n = 0; n < N / 16; n++) {
            uint32_t fb[4];

            dev_ldmatrix4(fb, rb.at(s, n * 16));
            DEV_UNROLL
            for (int m = 0; m < M; m++) {
                dev_mma<T>(c[m][2 * n], fa[m], fb, c[m][2 * n]);
                dev_mma<T>(c[m][2 * n + 1], fa[m], fb + 2, c[m][2 * n + 1]);
            }
        }
    }
}

/* c += P B: P is what rows_by_rows left, rounded to T; B is N rows of tile b,
 * COLS columns of them from `col` on. The accumulators of one product are the
 * operand of the next, in the same lanes. */
template <class T, int D, int M, int N, int COLS>
DEV void weigh_rows(float (&c)[M][COLS / 8][4], const float (&p)[M][N / 8][4],
                    const T *b, unsigned col)
{
    const unsigned lane = threadIdx.x % 32;
    const mma_reader<T, D> rb(b, lane % 16, lane / 16);

    DEV_UNROLL
    for (int n = 0; n < N / 16; n++) {
        uint32_t fp[M][4];

        DEV_UNROLL
        for (int m = 0; m < M; m++)
            DEV_UNROLL
        for (int i = 0; i < 4; i++) {
            const float *from = &p[m][2 * n + i / 2][i % 2 * 2];

            fp[m][i] = dev_pair<T>(from[0], from[1]);
        }
        DEV_UNROLL
        for (int s = 0; s < COLS / 16; s++) {
            uint32_t fb[4];

            dev_ldmatrix4t(fb, rb.at(col / 16 + s, n * 16));
            DEV_UNROLL
            for (int m = 0; m < M; m++) {
                dev_mma<T>(c[m][2 * s], fp[m], fb, c[m][2 * s]);
                dev_mma<T>(c[m][2 * s + 1], fp[m], fb + 2, c[m][2 * s + 1]);
            }
        }
    }
}

/* Of accumulators: row i (0 or 1) of a lane in its 16 rows; its column in n-th
 * eight columns, of which it has two. */
DEV unsigned lane_row(int i)
{
    return threadIdx.x % 32 / 4 + 8 * i;
}

DEV unsigned lane_col(int n)
{
    return n * 8 + threadIdx.x % 4 * 2;
}

/* Of a row of a lane: columns in blocks that are off have no weight. Bit b of
 * `on` is the b-th block that it has columns of; of the first one those `left`
 * from the lane's first on. */
template <int N>
DEV void mask_blocks(float (&s)[N / 8][4], int row, uint32_t on, int left,
                     unsigned block)
{
    DEV_UNROLL
    for (int n = 0; n < N / 8; n++)
        DEV_UNROLL
    for (int c = 0; c < 2; c++) {
        if (n * 8 + c >= left) {
            left += (int)block;
            on >>= 1;
        }
        if (!(on & 1))
            s[n][2 * row + c] = -INFINITY;
    }
}

/* Keys in blocks that a query of a head does not see have no weight. */
template <int M, int N>
DEV void mask_key_blocks(const dsf_gpu_attention &a, const sees_some &see,
                         float (&s)[M][N / 8][4], unsigned head, unsigned row,
                         unsigned key)
{
    const unsigned at = see.key_pos + key, first = at / see.block;
    const uint32_t all = low_bits((at + N - 1) / see.block - first + 1);
    const int left = (int)((first + 1) * see.block - at - lane_col(0));

    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned r = row + m * 16 + lane_row(i);
        const unsigned near = r < a.queries ? r : a.queries - 1;
        const uint32_t on =
            blocks_seen(see, head, (see.pos + near) / see.block, first);

        if ((on & all) != all)
            mask_blocks<N>(s[m], i, on, left, see.block);
    }
}

/* Keys behind a query, or in front of its window, have no weight. */
template <int M, int N, class S>
DEV void mask_key_ends(const dsf_gpu_attention &a, const S &see,
                       float (&s)[M][N / 8][4], unsigned row, unsigned key)
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned r = row + m * 16 + lane_row(i), at = key + lane_col(0);
        const int left = (int)keys_seen(a, see, r) - (int)at;
        const int hidden = (int)keys_hidden(see, r) - (int)at;

        DEV_UNROLL
        for (int n = 0; n < N / 8; n++)
            DEV_UNROLL
        for (int c = 0; c < 2; c++)
            if (n * 8 + c >= left || (S::HIDES && n * 8 + c < hidden))
                s[m][n][2 * i + c] = -INFINITY;
    }
}

/* Keys that a query of a head does not see have no weight. `key` is the first.
 */
template <int M, int N, class S>
DEV void mask_keys(const dsf_gpu_attention &a, const S &see,
                   float (&s)[M][N / 8][4], unsigned head, unsigned row,
                   unsigned key)
{
    if constexpr (S::HIDES)
        if (see.layout != NULL)
            mask_key_blocks<M, N>(a, see, s, head, row, key);
    if (key + N > keys_seen(a, see, row) ||
        (S::HIDES && key < keys_hidden(see, row + 16 * M - 1)))
        mask_key_ends<M, N>(a, see, s, row, key);
}

/* to = c by, rows row .. row + 16 M and `cols` columns; by way of `mine`, as
 * many rows of a tile that only this warp reads, so that each lane writes 16
 * bytes. */
template <class T, int D, int M, int COLS>
DEV void put_narrow(T *to, const head_rows &rows, unsigned row, unsigned cols,
                    const float (&c)[M][COLS / 8][4], const float (&by)[M][2],
                    T *mine)
{
    __syncwarp(); /* other lanes have read their part of it */
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int n = 0; n < COLS / 8; n++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const float *v = &c[m][n][2 * i];
        T *at = mine + mma_tile<D>::at(m * 16 + lane_row(i), n);
        uint32_t pair = dev_pair<T>(v[0] * by[m][i], v[1] * by[m][i]);

        dev_store_word(at + lane_col(0), pair);
    }
    __syncwarp();
    for (unsigned i = threadIdx.x % 32; i < M * 16 * COLS / 8; i += 32) {
        const unsigned r = i / (COLS / 8), n = i % (COLS / 8);

        if (row + r < rows.n && n * 8 < cols)
            dev_store16(to + rows.at(row + r) + n * 8,
                        dev_load16(mine + mma_tile<D>::at(r, n)));
    }
}

/* The same in fp32; four lanes write 32 bytes that follow each other. */
template <int M, int COLS>
DEV void put_wide(float *to, bool add, const head_rows &rows, unsigned row,
                  unsigned cols, const float (&c)[M][COLS / 8][4],
                  const float (&by)[M][2])
{
    DEV_UNROLL
    for (int m = 0; m < M; m++)
        DEV_UNROLL
    for (int i = 0; i < 2; i++) {
        const unsigned r = row + m * 16 + lane_row(i);

        if (r >= rows.n)
            continue;
        DEV_UNROLL
        for (int n = 0; n < COLS / 8; n++) {
            float *at = to + rows.at(r) + lane_col(n);
            float2 v = make_float2(c[m][n][2 * i] * by[m][i],
                                   c[m][n][2 * i + 1] * by[m][i]);

            if (lane_col(n) >= cols)
                continue;
            if (add) {
                const float2 was = dev_load_word<float2>(at);

                v = make_float2(v.x + was.x, v.y + was.y);
            }
            dev_store_word(at, v);
        }
    }
}

/* As `to` says: its columns from `col` on. */
template <class T, int D, int M, int COLS>
DEV void put_rows(const dsf_gpu_sum &to, head_rows rows, unsigned row,
                  unsigned col, unsigned d, const float (&c)[M][COLS / 8][4],
                  const float (&by)[M][2], T *mine)
{
    rows.first += col;
    if (to.narrow)
        put_narrow<T, D, M, COLS>((T *)to.p, rows, row, d - col, c, by, mine);
    else
        put_wide<M, COLS>((float *)to.p, !to.fresh, rows, row, d - col, c, by);
}

/* F<T, D, S>::launch, with the type of the task, and the next width of a head
 * that kernels are compiled for: where keys are hidden, of fewer. */
template <template <class, int, class> class F, class T>
void mma_by_width(const dsf_gpu_attention &a, sees_all see, void *stream)
{
    if (a.head_dim <= 32)
        F<T, 32, sees_all>::launch(a, see, stream);
    else if (a.head_dim <= 64)
        F<T, 64, sees_all>::launch(a, see, stream);
    else if (a.head_dim <= 96)
        F<T, 96, sees_all>::launch(a, see, stream);
    else if (a.head_dim <= 128)
        F<T, 128, sees_all>::launch(a, see, stream);
    else if (a.head_dim <= 192)
        F<T, 192, sees_all>::launch(a, see, stream);
    else
        F<T, 256, sees_all>::launch(a, see, stream);
}

template <template <class, int, class> class F, class T>
void mma_by_width(const dsf_gpu_attention &a, const sees_some &see,
                  void *stream)
{
    if (a.head_dim <= 64)
        F<T, 64, sees_some>::launch(a, see, stream);
    else if (a.head_dim <= 128)
        F<T, 128, sees_some>::launch(a, see, stream);
    else
        F<T, 256, sees_some>::launch(a, see, stream);
}

template <template <class, int, class> class F, class S>
void mma_by_type(const dsf_gpu_attention &a, const S &see, void *stream)
{
    if (a.type == DSFLOW_BF16)
        mma_by_width<F, bf16>(a, see, stream);
    else
        mma_by_width<F, fp16>(a, see, stream);
}

template <template <class, int, class> class F>
void mma_launch(const dsf_gpu_attention &a, const dsf_gpu_sight *sight,
                void *stream)
{
    if (sight != NULL)
        mma_by_type<F>(a, sees_some{ *sight }, stream);
    else
        mma_by_type<F>(a, sees_all(), stream);
}

#endif
