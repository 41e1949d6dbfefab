/* attention_plain.cu - attention in fp32 throughout, of heads of any width: for
 * fp32 (which tensor cores round to TF32), and for heads whose rows are not
 * whole chunks of 16 bytes.
 *
 * Everything is products of tiles of 64 x 64 in shared memory; a thread has 4 x
 * 4 numbers of one, and reads 32 bytes for 16 multiplications: so this runs at
 * up to half of what the processor multiplies. Heads wider than a tile compute
 * their scores once more for every 64 columns. */
#include "gpu/attention_sight.h"

#include "tasks/attention_tiles.h"

namespace {

enum { TILE = DSF_PLAIN_TILE, LD = TILE + 4, THREADS = 256, SIDE = 4 };
enum { TILE_FLOATS = TILE * LD, BYTES = 3 * TILE_FLOATS * sizeof(float) };

/* Of a tile: the first of a thread's four rows and of its four columns. */
DEV unsigned tile_row()
{
    return threadIdx.x / 16 * SIDE;
}

DEV unsigned tile_col()
{
    return threadIdx.x % 16 * SIDE;
}

DEV float4 four_at(const float *p)
{
    return dev_load_word<float4>(p);
}

/* Four numbers of a row, `left` of which there are; `whole`: 16 bytes may be
 * read at once where all are. */
template <class T> DEV float4 four_of(const T *p, unsigned left, bool whole)
{
    float v[SIDE];

    for (unsigned i = 0; i < SIDE; i++)
        v[i] = i < left ? dev_load(p + i) : 0;
    return make_float4(v[0], v[1], v[2], v[3]);
}

template <> DEV float4 four_of<float>(const float *p, unsigned left, bool whole)
{
    if (whole && left >= SIDE) {
        const uint4 v = dev_load16(p);

        return make_float4(__uint_as_float(v.x), __uint_as_float(v.y),
                           __uint_as_float(v.z), __uint_as_float(v.w));
    }
    return make_float4(left > 0 ? p[0] : 0, left > 1 ? p[1] : 0,
                       left > 2 ? p[2] : 0, left > 3 ? p[3] : 0);
}

/* A matrix in memory: rows of a head, `d` numbers each. */
template <class T> struct matrix {
    const T *p;
    head_rows rows;
    unsigned d;

    /* Outside of it everything is 0. */
    DEV float4 four(unsigned row, unsigned col) const
    {
        if (row >= rows.n || col >= d)
            return make_float4(0, 0, 0, 0);
        return four_of(p + rows.at(row) + col, d - col, d % SIDE == 0);
    }
};

template <class T>
DEV matrix<T> matrix_of(const void *p, head_rows rows, unsigned d)
{
    return { (const T *)p, rows, d };
}

/* to[r][c] = m[row + r][col + c], a tile. */
template <class T>
DEV void load_tile(float *to, const matrix<T> &m, unsigned row, unsigned col)
{
    for (unsigned i = 0; i < SIDE; i++) {
        const unsigned r = threadIdx.x / 16 + 16 * i;

        dev_store_word(to + r * LD + tile_col(),
                       m.four(row + r, col + tile_col()));
    }
}

/* to[c][r] = m[row + r][col + c] */
template <class T>
DEV void load_turned(float *to, const matrix<T> &m, unsigned row, unsigned col)
{
    const unsigned r = threadIdx.x % TILE;

    for (unsigned i = 0; i < SIDE; i++) {
        const unsigned c = (threadIdx.x / TILE + 4 * i) * SIDE;
        const float4 v = m.four(row + r, col + c);

        to[c * LD + r] = v.x;
        to[(c + 1) * LD + r] = v.y;
        to[(c + 2) * LD + r] = v.z;
        to[(c + 3) * LD + r] = v.w;
    }
}

/* to[col][row] = c */
DEV void put_turned(float *to, const float (&c)[SIDE][SIDE])
{
    for (unsigned j = 0; j < SIDE; j++)
        dev_store_word(to + (tile_col() + j) * LD + tile_row(),
                       make_float4(c[0][j], c[1][j], c[2][j], c[3][j]));
}

/* c[row][col] += sum over k of a[k][row] b[k][col] */
DEV void multiply(float (&c)[SIDE][SIDE], const float *a, const float *b,
                  unsigned k)
{
    for (unsigned i = 0; i < k; i++) {
        const float4 x4 = four_at(a + i * LD + tile_row());
        const float4 y4 = four_at(b + i * LD + tile_col());
        const float x[SIDE] = { x4.x, x4.y, x4.z, x4.w };
        const float y[SIDE] = { y4.x, y4.y, y4.z, y4.w };

        DEV_UNROLL
        for (int r = 0; r < SIDE; r++)
            DEV_UNROLL
        for (int j = 0; j < SIDE; j++)
            c[r][j] = __fmaf_rn(x[r], y[j], c[r][j]);
    }
}

/* Three tiles in shared memory. */
struct tiles {
    float *x, *y, *p;
};

DEV tiles shared_tiles()
{
    float *const x = dev_shared<float>();

    return { x, x + TILE_FLOATS, x + 2 * TILE_FLOATS };
}

/* c = the products of rows of a (from row_a on) and of b, over all columns. */
template <class T>
DEV void rows_by_rows(float (&c)[SIDE][SIDE], const tiles &t,
                      const matrix<T> &a, unsigned row_a, const matrix<T> &b,
                      unsigned row_b)
{
    for (int r = 0; r < SIDE; r++)
        for (int j = 0; j < SIDE; j++)
            c[r][j] = 0;
    for (unsigned col = 0; col < a.d; col += TILE) {
        __syncthreads();
        load_turned(t.x, a, row_a, col);
        load_turned(t.y, b, row_b, col);
        __syncthreads();
        multiply(c, t.x, t.y, a.d - col < TILE ? a.d - col : (unsigned)TILE);
    }
}

/* c += p m: p is of the block's rows and of 64 rows of m, `row` and on; of m,
 * 64 columns from `col` on. */
template <class T>
DEV void weigh_rows(float (&c)[SIDE][SIDE], const tiles &t,
                    const float (&p)[SIDE][SIDE], const matrix<T> &m,
                    unsigned row, unsigned col)
{
    __syncthreads();
    put_turned(t.p, p);
    load_tile(t.y, m, row, col);
    __syncthreads();
    multiply(c, t.p, t.y, TILE);
}

/* Of the 16 threads that have numbers of the same rows. */
DEV float row_max(float x)
{
    for (int k = 1; k < 16; k *= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    return x;
}

DEV float row_sum(float x)
{
    for (int k = 1; k < 16; k *= 2)
        x += __shfl_xor_sync(0xffffffffu, x, k);
    return x;
}

/* A thread's numbers of columns from `col` on, times `by`, as `to` says. */
template <class T>
DEV void put_tile(const dsf_gpu_sum &to, const head_rows &rows, unsigned row,
                  unsigned col, unsigned d, const float (&c)[SIDE][SIDE],
                  const float (&by)[SIDE])
{
    for (unsigned r = 0; r < SIDE; r++)
        for (unsigned j = 0; j < SIDE; j++) {
            const unsigned at_row = row + tile_row() + r;
            const unsigned at_col = col + tile_col() + j;
            const size_t at = rows.at(at_row) + at_col;
            float v = c[r][j] * by[r];

            if (at_row >= rows.n || at_col >= d)
                continue;
            if (to.narrow)
                dev_store((T *)to.p + at, v);
            else
                ((float *)to.p)[at] = to.fresh ? v : ((float *)to.p)[at] + v;
        }
}

/* Scores become weights; o shrinks to the new maximum, which, where S hides
 * keys, is -inf as long as a query has seen nothing. */
template <class S>
DEV void soften(const dsf_gpu_attention &a, const S &see,
                float (&s)[SIDE][SIDE], float (&o)[SIDE][SIDE],
                softmax (&of)[SIDE], unsigned head, unsigned row, unsigned key)
{
    const float scale = a.scale * ATTENTION_LOG2E;

    for (unsigned r = 0; r < SIDE; r++) {
        float most = of[r].top, sum = 0, shrink, base;

        for (unsigned j = 0; j < SIDE; j++) {
            s[r][j] = is_seen(a, see, head, row + tile_row() + r,
                              key + tile_col() + j)
                          ? s[r][j] * scale
                          : -INFINITY;
            most = fmaxf(most, s[r][j]);
        }
        most = row_max(most);
        base = S::HIDES && most == -INFINITY ? 0 : most;
        shrink = exp2f(of[r].top - base);
        for (unsigned j = 0; j < SIDE; j++) {
            s[r][j] = exp2f(s[r][j] - base);
            sum += s[r][j];
            o[r][j] *= shrink;
        }
        of[r].sum = of[r].sum * shrink + row_sum(sum);
        of[r].top = most;
    }
}

/* Sums of the columns `col` and on so far. */
DEV void resume(const dsf_gpu_attention &a, const share &at,
                const head_rows &rows, unsigned row, unsigned col,
                float (&o)[SIDE][SIDE], softmax (&of)[SIDE])
{
    for (unsigned r = 0; r < SIDE; r++) {
        const unsigned i = row + tile_row() + r;

        of[r] = softmax_of(a, at.seq, at.head, i);
        for (unsigned j = 0; j < SIDE; j++) {
            const unsigned c = col + tile_col() + j;

            o[r][j] = 0;
            if (!a.att.fresh && i < a.queries && c < a.head_dim)
                o[r][j] = ((const float *)a.att.p)[rows.at(i) + c];
        }
    }
}

/* 64 queries of a head; lse is read by all its columns before it is written. */
template <class T, class S>
__global__ void __launch_bounds__(THREADS)
    attention_forward_plain(const dsf_gpu_attention a, const S see)
{
    const tiles t = shared_tiles();
    const share at = query_share(strips_of(a.queries, TILE), a.heads);
    const unsigned row = at.strip * TILE, group = at.head / group_size(a);
    const head_rows rows = query_rows(a, at.seq, at.head);
    const matrix<T> q = matrix_of<T>(a.q, rows, a.head_dim);
    const matrix<T> k =
        matrix_of<T>(a.kv, key_rows(a, at.seq, group, 0), a.head_dim);
    const matrix<T> v =
        matrix_of<T>(a.kv, key_rows(a, at.seq, group, 1), a.head_dim);
    const unsigned seen = keys_seen(a, see, row + TILE - 1);
    const unsigned begin = keys_hidden(see, row) / TILE * TILE;
    dsf_gpu_sum att = a.att;
    softmax of[SIDE];

    att.fresh = 1; /* what was there is in o */
    for (unsigned col = 0; col < a.head_dim; col += TILE) {
        float o[SIDE][SIDE], s[SIDE][SIDE], by[SIDE];

        resume(a, at, rows, row, col, o, of);
        for (unsigned key = begin; key < seen; key += TILE) {
            if (S::HIDES &&
                !is_met(a, see, at.head, row, row + TILE, key, key + TILE))
                continue;
            rows_by_rows(s, t, q, row, k, key);
            soften(a, see, s, o, of, at.head, row, key);
            weigh_rows(o, t, s, v, key, col);
        }
        for (unsigned r = 0; r < SIDE; r++)
            by[r] = a.last ? 1 / of[r].sum : 1;
        put_tile<T>(att, rows, row, col, a.head_dim, o, by);
    }
    for (unsigned r = 0; r < SIDE; r++)
        if (tile_col() == 0 && row + tile_row() + r < a.queries)
            softmax_put(a, at.seq, at.head, row + tile_row() + r, of[r]);
}

/* Of a query: lse in powers of 2, and delta. What is made of one past the last
 * is multiplied by its q and datt, zeroes. */
struct query_numbers {
    float lse, delta;
};

DEV query_numbers numbers_of(const dsf_gpu_attention &a, unsigned seq,
                             unsigned head, unsigned row)
{
    const size_t at = query_at(a, seq, head, row);

    if (row >= a.queries)
        return { 0, 0 };
    return { a.lse[at] * ATTENTION_LOG2E, a.delta[at] };
}

/* Score and gradient of its weight become the weight and the score's gradient.
 */
DEV void weigh(float &s, float &g, query_numbers n, bool is_seen, float scale)
{
    s = is_seen ? exp2f(s * scale - n.lse) : 0;
    g = s * (g - n.delta);
}

/* Which SIDE keys from `row` on SIDE queries from `query` on see: bits, those of
 * the first query first. They are found before there are numbers in registers. */
template <class S>
DEV uint32_t seen_by(const dsf_gpu_attention &a, const S &see, unsigned head,
                     unsigned query, unsigned row)
{
    uint32_t seen = 0;

    for (unsigned i = 0; i < SIDE * SIDE; i++)
        if (is_seen(a, see, head, query + i / SIDE, row + i % SIDE))
            seen |= 1u << i;
    return seen;
}

/* 64 keys, and 64 columns of their gradients: from all heads that use them. */
template <class T, class S>
__global__ void __launch_bounds__(THREADS)
    attention_keys_plain(const dsf_gpu_attention a, const S see)
{
    const tiles t = shared_tiles();
    const unsigned parts = strips_of(a.head_dim, TILE);
    const share at =
        share_of(blockIdx.x / parts, strips_of(a.keys, TILE), a.kv_heads);
    const unsigned row = at.strip * TILE, col = blockIdx.x % parts * TILE;
    const unsigned size = group_size(a), d = a.head_dim;
    const unsigned least = first_query<TILE>(a, see, row);
    const head_rows keys = key_rows(a, at.seq, at.head, 0);
    const head_rows values = key_rows(a, at.seq, at.head, 1);
    const matrix<T> k = matrix_of<T>(a.kv, keys, d);
    const matrix<T> v = matrix_of<T>(a.kv, values, d);
    const float scale = a.scale * ATTENTION_LOG2E;
    const float once[SIDE] = { 1, 1, 1, 1 };
    const float by[SIDE] = { a.scale, a.scale, a.scale, a.scale };
    float dk[SIDE][SIDE] = {}, dv[SIDE][SIDE] = {};

    for (unsigned head = at.head * size; head < (at.head + 1) * size; head++) {
        const head_rows rows = query_rows(a, at.seq, head);
        const matrix<T> q = matrix_of<T>(a.q, rows, d);
        const matrix<T> datt = matrix_of<T>(a.datt, rows, d);

        for (unsigned i = least; i < a.queries; i += TILE) {
            float s[SIDE][SIDE], g[SIDE][SIDE];
            uint32_t seen = 0;

            if (S::HIDES && !is_met(a, see, head, i, i + TILE, row, row + TILE))
                continue;
            if (S::HIDES)
                seen = seen_by(a, see, head, i + tile_col(), row + tile_row());
            rows_by_rows(s, t, k, row, q, i);
            rows_by_rows(g, t, v, row, datt, i);
            for (unsigned j = 0; j < SIDE; j++) {
                const unsigned query = i + tile_col() + j;
                const query_numbers n = numbers_of(a, at.seq, head, query);

                for (unsigned r = 0; r < SIDE; r++)
                    weigh(s[r][j], g[r][j], n,
                          S::HIDES ? (seen >> (j * SIDE + r) & 1) != 0
                                   : is_seen(a, see, head, query,
                                             row + tile_row() + r),
                          scale);
            }
            weigh_rows(dv, t, s, datt, i, col);
            weigh_rows(dk, t, g, q, i, col);
        }
    }
    put_tile<T>(a.dkv, keys, row, col, d, dk, by);
    put_tile<T>(a.dkv, values, row, col, d, dv, once);
}

template <class T, class S>
__global__ void __launch_bounds__(THREADS)
    attention_queries_plain(const dsf_gpu_attention a, const S see)
{
    const tiles t = shared_tiles();
    const unsigned parts = strips_of(a.head_dim, TILE);
    const unsigned strips = strips_of(a.queries, TILE), d = a.head_dim;
    const share at = share_of(blockIdx.x / parts, strips, a.heads);
    const unsigned row = (strips - 1 - at.strip) * TILE;
    const unsigned col = blockIdx.x % parts * TILE;
    const unsigned group = at.head / group_size(a);
    const head_rows rows = query_rows(a, at.seq, at.head);
    const matrix<T> q = matrix_of<T>(a.q, rows, d);
    const matrix<T> datt = matrix_of<T>(a.datt, rows, d);
    const matrix<T> k = matrix_of<T>(a.kv, key_rows(a, at.seq, group, 0), d);
    const matrix<T> v = matrix_of<T>(a.kv, key_rows(a, at.seq, group, 1), d);
    const unsigned seen = keys_seen(a, see, row + TILE - 1);
    const unsigned begin = keys_hidden(see, row) / TILE * TILE;
    const float scale = a.scale * ATTENTION_LOG2E;
    const float by[SIDE] = { a.scale, a.scale, a.scale, a.scale };
    float dq[SIDE][SIDE] = {};
    query_numbers n[SIDE];

    for (unsigned r = 0; r < SIDE; r++)
        n[r] = numbers_of(a, at.seq, at.head, row + tile_row() + r);
    for (unsigned key = begin; key < seen; key += TILE) {
        float s[SIDE][SIDE], g[SIDE][SIDE];

        if (S::HIDES &&
            !is_met(a, see, at.head, row, row + TILE, key, key + TILE))
            continue;
        rows_by_rows(s, t, q, row, k, key);
        rows_by_rows(g, t, datt, row, v, key);
        for (unsigned r = 0; r < SIDE; r++)
            for (unsigned j = 0; j < SIDE; j++)
                weigh(s[r][j], g[r][j], n[r],
                      is_seen(a, see, at.head, row + tile_row() + r,
                              key + tile_col() + j),
                      scale);
        weigh_rows(dq, t, g, k, key, col);
    }
    put_tile<T>(a.dq, rows, row, col, d, dq, by);
}

template <class S>
void launch_forward(const dsf_gpu_attention &a, const S &see, void *stream)
{
    const unsigned strips = strips_of(a.queries, TILE);

    DEV_BY_TYPE(a.type, T,
                dev_launch((attention_forward_plain<T, S>),
                           a.nseq * a.heads * strips, THREADS, BYTES, stream, a,
                           see));
}

template <class S>
void launch_backward(const dsf_gpu_attention &a, const S &see, void *stream)
{
    const unsigned parts = strips_of(a.head_dim, TILE) * a.nseq;
    const unsigned of_keys = strips_of(a.keys, TILE) * parts * a.kv_heads;
    const unsigned of_queries = strips_of(a.queries, TILE) * parts * a.heads;

    DEV_BY_TYPE(a.type, T,
                dev_launch((attention_keys_plain<T, S>), of_keys, THREADS,
                           BYTES, stream, a, see));
    DEV_BY_TYPE(a.type, T,
                dev_launch((attention_queries_plain<T, S>), of_queries, THREADS,
                           BYTES, stream, a, see));
}

} // namespace

void dsf_gpu_attention_forward_plain(const dsf_gpu_attention *a,
                                     const dsf_gpu_sight *sight, void *stream)
{
    if (sight != NULL)
        launch_forward(*a, sees_some{ *sight }, stream);
    else
        launch_forward(*a, sees_all(), stream);
}

void dsf_gpu_attention_backward_plain(const dsf_gpu_attention *a,
                                      const dsf_gpu_sight *sight, void *stream)
{
    if (sight != NULL)
        launch_backward(*a, sees_some{ *sight }, stream);
    else
        launch_backward(*a, sees_all(), stream);
}
