/* touched_cuda.cu - the rows of a gradient that are not all zeroes, packed, and
 * their sum over ranks whose memory is read in place: the format and the bits of
 * codelets/touched.c. A packed row begins at any multiple of 4 bytes: what is in
 * it goes as words. */
#include "gpu/dev_bits.h"
#include "gpu/gpu.h"

#include "tasks/args.h"

namespace {

enum {
    WARPS = 8, /* of a block of threads; each has a row */
    THREADS = 32 * WARPS,
    SCAN = 1024,
    NUMBER = 2 /* words of a row's number */
};
const int32_t NONE = -1;

/* --- pack_rows ------------------------------------------------------------ */

struct dense {
    const uint32_t *at;
    int64_t elems, width;
    unsigned rows;
};

/* touched[row]: has it a number of which any bit is set? -0 is one. */
template <bool BY4> __global__ void __launch_bounds__(THREADS)
    find_touched(dense in, int32_t *touched)
{
    const unsigned row = blockIdx.x * WARPS + threadIdx.x / 32;
    const unsigned lane = threadIdx.x % 32;

    if (row >= in.rows) /* a whole warp */
        return;
    const int64_t from = row * in.width, left = in.elems - from;
    const int64_t n = left < in.width ? left : in.width;
    int64_t fours = 0;
    uint32_t any = 0;

    if constexpr (BY4) {
        fours = n / 4 * 4;
        for (int64_t i = lane * 4; i < fours; i += 32 * 4) {
            const uint4 v = dev_load16(in.at + from + i);

            any |= v.x | v.y | v.z | v.w;
        }
    }
    for (int64_t i = fours + lane; i < n; i += 32)
        any |= in.at[from + i];
    any = __any_sync(0xffffffffu, any != 0);
    if (lane == 0)
        touched[row] = (int32_t)any;
}

/* The sum of v over the threads in front of this one; *all: over the block. `s`:
 * a number for each warp. */
DEV int32_t sum_before(int32_t v, int32_t *s, int32_t *all)
{
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int32_t sum = v, before = 0;

    *all = 0;
    for (unsigned by = 1; by < 32; by *= 2) {
        const int32_t left = __shfl_up_sync(0xffffffffu, sum, by);

        sum += lane >= by ? left : 0;
    }
    if (lane == 31)
        s[warp] = sum;
    __syncthreads();
    for (unsigned w = 0; w < SCAN / 32; w++) {
        before += w < warp ? s[w] : 0;
        *all += s[w];
    }
    return before + sum - v;
}

/* Of touched[rows], by one block: place[row] among the packed rows, or NONE; how
 * many there are, or -1 where they are too many, goes to `count`. place[rows]:
 * how many are packed. */
__global__ void __launch_bounds__(SCAN)
    find_places(int32_t *place, unsigned rows, int64_t most, int64_t *count)
{
    const unsigned each = (rows + SCAN - 1) / SCAN;
    const unsigned first = threadIdx.x * each;
    const unsigned end = first + each < rows ? first + each : rows;
    int32_t n = 0, all;

    for (unsigned r = first; r < end; r++)
        n += place[r];
    int32_t at = sum_before(n, dev_shared<int32_t>(), &all);

    for (unsigned r = first; r < end; r++) {
        const bool has = place[r] != 0;

        place[r] = has && at < most ? at : NONE;
        at += has;
    }
    if (threadIdx.x == 0) {
        place[rows] = all < most ? all : (int32_t)most;
        *count = all > most ? -1 : all;
    }
}

/* A warp for each row that may be packed, and for each place: what no row takes
 * becomes zeroes. */
__global__ void __launch_bounds__(THREADS)
    put_rows(dense in, const int32_t *place, int64_t most, uint32_t *packed)
{
    const unsigned w = blockIdx.x * WARPS + threadIdx.x / 32;
    const unsigned lane = threadIdx.x % 32;
    const int64_t words = in.width + NUMBER;
    const int32_t to = w < in.rows ? place[w] : NONE;

    if (to != NONE) {
        const int64_t from = w * in.width;
        uint32_t *out = packed + to * words;

        for (int64_t i = lane; i < words; i += 32) {
            const int64_t at = from + i - NUMBER;

            out[i] = i == 0       ? w
                     : i < NUMBER ? 0
                     : at < in.elems ? in.at[at]
                                     : 0;
        }
    }
    if (w >= (unsigned)place[in.rows] && w < most)
        for (int64_t i = lane; i < words; i += 32)
            packed[w * words + i] = 0;
}

unsigned rows_of(const dsf_rows_args *a)
{
    return dev_div_up((size_t)a->elems, (size_t)a->width);
}

void pack_run(const struct dsflow_call *call, void *stream)
{
    const dsf_rows_args *a = (const dsf_rows_args *)call->args;
    const dense in = { (const uint32_t *)call->bufs[0].ptr + a->at, a->elems,
                       a->width, rows_of(a) };
    int64_t *count = (int64_t *)call->bufs[1].ptr;
    int32_t *place = (int32_t *)call->scratch;
    const size_t most = (size_t)a->most;
    const unsigned grid = dev_div_up(in.rows, WARPS);

    if (in.rows > 0 && a->width % 4 == 0 && dev_all_aligned({ in.at }))
        dev_launch((find_touched<true>), grid, THREADS, 0, stream, in, place);
    else if (in.rows > 0)
        dev_launch((find_touched<false>), grid, THREADS, 0, stream, in, place);
    dev_launch(find_places, 1, SCAN, SCAN / 32 * sizeof(int32_t), stream, place,
               in.rows, a->most, count);
    dev_launch(put_rows,
               dev_div_up(most > in.rows ? most : in.rows, WARPS), THREADS, 0,
               stream, in, place, a->most, (uint32_t *)(count + 1));
}

size_t pack_scratch(const struct dsflow_case *c)
{
    return (rows_of((const dsf_rows_args *)c->args) + 1) * sizeof(int32_t);
}

/* --- add_rows ------------------------------------------------------------- */

/* So many are added by one launch: a power of two, for the sums of more than
 * that are added in turn, of about SLICE numbers each at a time. */
enum { MOST_TERMS = 128 };
#ifdef __CUDACC__
enum { SLICE = 1 << 18 };
#else
enum { SLICE = 64 };
#endif

struct terms {
    const void *of[MOST_TERMS]; /* packed rows, or numbers in fp32 */
    unsigned n;
};

/* The numbers of row `row` of a term, or NULL where it has none; *fits: it has
 * all that it should. */
DEV const float *find_row(const void *packed, int64_t row, int64_t words,
                          bool *fits)
{
    const int64_t count = *(const int64_t *)packed;
    const uint32_t *rows = (const uint32_t *)packed + NUMBER;
    int64_t low = 0, high = count;

    *fits = count >= 0;
    while (low < high) {
        const int64_t middle = (low + high) / 2;

        if (rows[middle * words] < row) /* of fewer than 2^32 */
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && rows[low * words] == row
               ? (const float *)(rows + low * words + NUMBER)
               : nullptr;
}

/* The sum of what number(0), number(1), … are, in the tree of pairs, as in
 * reduce_cuda.cu. */
template <int LEVELS, class Number> DEV float sum_of(unsigned n, Number number)
{
    float tree[LEVELS], sum = 0;
    bool begun = false;

    for (unsigned term = 0; term < n; term++) {
        bool done = false;

        sum = number(term);
        DEV_UNROLL
        for (int b = 0; b < LEVELS; b++) {
            const bool adds = term >> b & 1;

            if (!done && adds)
                sum = __fadd_rn(tree[b], sum);
            else if (!done)
                tree[b] = sum;
            done = done || !adds;
        }
    }
    DEV_UNROLL
    for (int b = 0; b < LEVELS; b++)
        if (n >> b & 1) {
            sum = begun ? __fadd_rn(tree[b], sum) : tree[b];
            begun = true;
        }
    return sum;
}

/* out[0 .. elems): numbers from `at` on of what the packed terms add up to. */
template <int LEVELS>
__global__ void __launch_bounds__(THREADS)
    add_packed(float *out, terms t, int64_t at, int64_t elems, int64_t width)
{
    const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float **rows =
        dev_shared<const float *>() + (size_t)warp * MOST_TERMS;
    const int64_t row = at / width + blockIdx.x * (int64_t)WARPS + warp;
    int64_t from = row * width - at, end = from + width;
    int any = 0, all = 1;

    if (from >= elems) /* a whole warp */
        return;
    for (unsigned i = lane; i < t.n; i += 32) {
        bool fits;

        rows[i] = find_row(t.of[i], row, width + NUMBER, &fits);
        any |= rows[i] != nullptr;
        all &= fits;
    }
    any = __any_sync(0xffffffffu, any);
    all = __all_sync(0xffffffffu, all);
    __syncwarp();
    end = end < elems ? end : elems;
    for (int64_t i = (from < 0 ? 0 : from) + lane; i < end; i += 32) {
        const auto number = [&](unsigned term) {
            return rows[term] != nullptr ? rows[term][i - from] : 0;
        };

        /* More rows than there can be: nothing is right then. */
        out[i] = !all  ? NAN
                 : any ? sum_of<LEVELS>(t.n, number)
                       : 0;
    }
}

/* The same of terms that have all numbers. */
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    add_whole(float *out, terms t, size_t elems)
{
    dev_each<1>(elems, [&](size_t i, auto) {
        out[i] = sum_of<8>(t.n, [&](unsigned term) {
            return ((const float *)t.of[term])[i];
        });
    });
}

void launch_packed(float *out, const terms &t, int64_t at, int64_t elems,
                   int64_t width, void *stream)
{
    const size_t rows = (size_t)((at + elems - 1) / width - at / width + 1);
    const unsigned grid = dev_div_up(rows, WARPS);
    const size_t shared = WARPS * MOST_TERMS * sizeof(float *);

    if (t.n <= 15)
        dev_launch((add_packed<4>), grid, THREADS, shared, stream, out, t, at,
                   elems, width);
    else
        dev_launch((add_packed<8>), grid, THREADS, shared, stream, out, t, at,
                   elems, width);
}

/* Numbers from `i` on of the piece. */
void add_slice(const struct dsflow_call *call, int64_t i, int64_t elems,
               void *stream)
{
    const dsf_rows_args *a = (const dsf_rows_args *)call->args;
    const unsigned all = call->nbufs - 1;
    float *into = (float *)call->bufs[0].ptr + a->into_at + i;
    float *sums = (float *)call->scratch;
    terms whole = {};

    for (unsigned k = 0; k < all; k += MOST_TERMS) {
        terms t = {};

        for (; t.n < MOST_TERMS && k + t.n < all; t.n++)
            t.of[t.n] = call->bufs[1 + k + t.n].ptr;
        whole.of[whole.n] = sums + (size_t)whole.n * SLICE;
        launch_packed(all <= MOST_TERMS ? into
                                        : sums + (size_t)whole.n * SLICE,
                      t, a->at + i, elems, a->width, stream);
        whole.n++;
    }
    if (all > MOST_TERMS)
        dev_launch(add_whole, dev_each_grid((size_t)elems, 1),
                   DEV_EACH_THREADS, 0, stream, into, whole, (size_t)elems);
}

void add_run(const struct dsflow_call *call, void *stream)
{
    const dsf_rows_args *a = (const dsf_rows_args *)call->args;
    const int64_t some = SLICE;
    const int64_t step = call->nbufs - 1 <= MOST_TERMS ? a->elems : some;

    for (int64_t i = 0; i < a->elems; i += step)
        add_slice(call, i, a->elems - i < step ? a->elems - i : step, stream);
}

size_t add_scratch(const struct dsflow_case *c)
{
    return c->n - 1 <= MOST_TERMS
               ? 0
               : (size_t)dev_div_up(c->n - 1, MOST_TERMS) * SLICE *
                     sizeof(float);
}

} // namespace

const struct dsf_gpu_side dsf_gpu_side_pack_rows = { "pack_rows", pack_run,
                                                     pack_scratch, 1 };
const struct dsf_gpu_side dsf_gpu_side_add_rows = { "add_rows", add_run,
                                                    add_scratch, 1 };
