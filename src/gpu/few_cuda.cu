/* few_cuda.cu - LAMB and 1-bit LAMB (codelets/lamb.c, codelets/onebit_lamb.c):
 * what is computed of sums of blocks, and of few numbers for each tensor. One
 * thread adds what a result is of, in the order of cores, and the others of its
 * block read ahead for it. */
#include "gpu/dev_onebit.h"
#include "gpu/dev_terms.h"
#include "gpu/gpu.h"

#include "tasks/lamb.h"

namespace {

double *doubles(const struct dsflow_call *call, unsigned port)
{
    return (double *)call->bufs[port].ptr;
}

/* What is no number stays so. */
DEV double larger(double a, double b)
{
    return a != a || a > b ? a : b;
}

/* --- sums of tensors ------------------------------------------------------ */

/* A block of threads has PER columns of what are rows of `width` sums, and adds
 * each from top to bottom; then END does what follows. */
enum { ROWS = 256 }; /* at a time */
template <int PER> struct columns {
    terms s;
    int64_t rows, width;
    double *carried; /* from launch to launch */
    int64_t first;
};

template <int PER>
DEV void read_row(const columns<PER> &c, int64_t row, double (&v)[PER])
{
    DEV_UNROLL
    for (int k = 0; k < PER; k++)
        v[k] = c.s.at(row * c.width + blockIdx.x * PER + k);
}

template <int PER, class ADD, class END>
__global__ void __launch_bounds__(ROWS)
    add_columns(const columns<PER> c, ADD add, END end)
{
    double *some = dev_shared<double>();
    double *own = c.carried + blockIdx.x * PER;
    const int k = (int)threadIdx.x;
    double sum = !c.first && k < PER ? own[k] : 0;

    for (int64_t row = 0; row < c.rows; row += ROWS) {
        const int n = c.rows - row < ROWS ? (int)(c.rows - row) : (int)ROWS;
        double v[PER];

        if (k < n) {
            read_row(c, row + k, v);
            DEV_UNROLL
            for (int i = 0; i < PER; i++)
                some[k * PER + i] = v[i];
        }
        __syncthreads();
        for (int i = 0; i < n && k < PER; i++)
            sum = add.two(k, sum, some[i * PER + k]);
        __syncthreads();
    }
    if (k < PER)
        own[k] = some[k] = sum;
    __syncthreads();
    if (k == 0)
        end.of((int)blockIdx.x, some);
}

template <int PER, class ADD, class END>
void launch_columns(const struct dsflow_call *call, int n, int64_t width,
                    double *carried, ADD add, END end, void *stream)
{
    if (n > 0)
        by_terms(call, [&](const terms &s, int64_t from, bool last) {
            const columns<PER> c = { s, s.elems() / width, width, carried,
                                     from == 0 };

            end.last = last;
            dev_launch((add_columns<PER, ADD, END>), (unsigned)n, ROWS,
                       ROWS * PER * sizeof(double), stream, c, add, end);
        });
}

struct plain_sums {
    DEV double two(int, double a, double b) const
    {
        return __dadd_rn(a, b);
    }
};

/* codelets/lamb.c, ratio_of. */
struct lamb_ratio {
    double *ratio, least, most;
    int64_t last;

    DEV void of(int tensor, const double *sums) const
    {
        double r = 1;

        if (!last)
            return;
        if (!(sums[0] == 0 || sums[1] == 0)) {
            r = __ddiv_rn(__dsqrt_rn(sums[0]), __dsqrt_rn(sums[1]));
            r = r < least ? least : r > most ? most : r;
        }
        ratio[tensor] = r;
    }
};

void ratio_run(const struct dsflow_call *call, void *stream)
{
    const dsf_ratio_args *a = (const dsf_ratio_args *)call->args;

    launch_columns<2>(
        call, a->n, a->width, (double *)call->scratch, plain_sums(),
        lamb_ratio{ doubles(call, 0), a->least, a->most, 0 }, stream);
}

size_t ratio_scratch(const struct dsflow_case *)
{
    return 2 * DSFLOW_MAX_TENSORS * sizeof(double);
}

/* Sums, and the largest of the third ones. */
enum { BARE, WHOLE, FACTOR, PER_TENSOR = 4 };
struct norm_sums {
    DEV double two(int k, double a, double b) const
    {
        return k == FACTOR ? larger(a, b) : __dadd_rn(a, b);
    }
};

struct nothing {
    int64_t last;

    DEV void of(int, const double *) const
    {
    }
};

void totals_run(const struct dsflow_call *call, void *stream)
{
    const dsf_factor_args *a = (const dsf_factor_args *)call->args;

    launch_columns<PER_TENSOR>(call, a->n, a->width, doubles(call, 0),
                               norm_sums(), nothing(), stream);
}

/* --- sums of chunks ------------------------------------------------------- */

/* A warp has a chunk, and adds what blocks of the unit have of it. Lanes read
 * AHEAD sums each, and then all of them add those of the chunk, in order. */
enum { LANES = 32, AHEAD = 8 };

__global__ void __launch_bounds__(LANES)
    chunk_sums(const dsf_coding c, const united of, const terms s,
               double *chunks, int64_t from, int64_t n)
{
    const int64_t chunk = blockIdx.x;
    double *out = chunks + 2 * chunk;
    double sum = from > 0 ? out[0] : 0, count = from > 0 ? out[1] : 0;

    __syncwarp();
    for (int64_t i = 0; i < n; i += LANES * AHEAD) {
        double v[AHEAD];
        unsigned own[AHEAD];

        DEV_UNROLL
        for (int k = 0; k < AHEAD; k++) {
            const int64_t b = i + k * LANES + threadIdx.x;
            const int64_t at = (from + b) * c.block;
            const int64_t tensor =
                b < n ? wire_tensor(c, at) : (int64_t)WIRE_PLAIN;
            const bool is_own = tensor >= 0 && of.chunk(c, tensor, at) == chunk;

            v[k] = is_own ? s.at(b) : 0;
            own[k] = __ballot_sync(~0u, is_own);
        }
        DEV_UNROLL
        for (int k = 0; k < AHEAD; k++)
            for (unsigned rest = own[k]; rest != 0; rest &= rest - 1) {
                const int lane = __ffs((int)rest) - 1;

                sum = __dadd_rn(sum, __shfl_sync(~0u, v[k], lane));
                count = __dadd_rn(count, (double)c.block);
            }
    }
    if (threadIdx.x == 0) {
        out[0] = sum;
        out[1] = count;
    }
}

void sums_run(const struct dsflow_call *call, void *stream)
{
    const dsf_united_args *a = (const dsf_united_args *)call->args;

    by_terms(call, [&](const terms &s, int64_t from, bool) {
        dev_launch(chunk_sums, (unsigned)a->at.groups, LANES, 0, stream,
                   a->at.coding, united_of(a), s, doubles(call, 0), from,
                   s.elems());
    });
}

/* --- place by place ------------------------------------------------------- */

/* out[i] = the sum of in[i], port by port. */
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    sum_each(const terms s, double *out, int64_t n, bool first)
{
    const int64_t i = (int64_t)blockIdx.x * DEV_EACH_THREADS + threadIdx.x;
    double sum = !first && i < n ? out[i] : 0;

    for (int64_t k = 0; k < s.n && i < n; k++)
        sum = __dadd_rn(sum, s.of[k][i]);
    if (i < n)
        out[i] = sum;
}

void launch_each(const struct dsflow_call *call, double *out, int64_t n,
                 void *stream)
{
    by_terms(call, [&](const terms &s, int64_t from, bool) {
        if (n > 0)
            dev_launch(sum_each, dev_div_up((size_t)n, DEV_EACH_THREADS),
                       DEV_EACH_THREADS, 0, stream, s, out, n, from == 0);
    });
}

void each_run(const struct dsflow_call *call, void *stream)
{
    launch_each(call, doubles(call, 0), call->bufs[0].elems, stream);
}

/* Of each tensor a sum of squares, and of how many numbers it is. */
__global__ void __launch_bounds__(DEV_EACH_THREADS)
    tensor_scales(const double *sums, double *scales, int64_t n)
{
    const int64_t i = (int64_t)blockIdx.x * DEV_EACH_THREADS + threadIdx.x;

    if (i < n)
        scales[i] = sums[2 * i + 1] > 0
                        ? (double)wire_sign_scale(
                              sums[2 * i], (double)(int64_t)sums[2 * i + 1])
                        : 0;
}

void scales_run(const struct dsflow_call *call, void *stream)
{
    const int64_t n = call->bufs[0].elems;
    double *sums = (double *)call->scratch;

    launch_each(call, sums, 2 * n, stream);
    dev_launch(tensor_scales, dev_div_up((size_t)n, DEV_EACH_THREADS),
               DEV_EACH_THREADS, 0, stream, sums, doubles(call, 0), n);
}

size_t scales_scratch(const struct dsflow_case *c)
{
    return 2 * (size_t)c->shapes[0].elems * sizeof(double);
}

/* --- a thread for each tensor --------------------------------------------- */

template <class OP>
__global__ void __launch_bounds__(LANES) tensors(const OP op)
{
    op.of((int)threadIdx.x);
}

DEV double within(double x, double low, double high)
{
    return x > high ? high : x < low ? low : x;
}

struct lamb_factor {
    const struct dsflow_control *control;
    const double *totals;
    struct dsf_lamb *lamb;
    double *ratio, least, most, threshold;
    int64_t n;

    DEV double factor(const double *t, double last) const
    {
        const double whole = __dsqrt_rn(t[WHOLE]);
        double share = whole > 0 ? __ddiv_rn(__dsqrt_rn(t[BARE]), whole) : 1;
        double f;

        share = share > 1 ? 1 : share;
        f = __dadd_rn(__dmul_rn(t[FACTOR], share), __dsub_rn(1, share));
        f = within(f, least, most);
        return within(f, __dmul_rn(last, __dsub_rn(1, threshold)),
                      __dmul_rn(last, __dadd_rn(1, threshold)));
    }
    DEV void of(int i) const
    {
        if (i >= n)
            return;
        if (control->skip == 0)
            lamb[i].factor = factor(totals + PER_TENSOR * i, lamb[i].factor);
        ratio[i] = __dmul_rn(lamb[i].mean, lamb[i].factor);
    }
};

void factor_run(const struct dsflow_call *call, void *stream)
{
    const dsf_factor_args *a = (const dsf_factor_args *)call->args;
    const lamb_factor op = { control_of(call),
                             doubles(call, 1),
                             (struct dsf_lamb *)call->bufs[2].ptr,
                             doubles(call, 3),
                             a->least,
                             a->most,
                             a->threshold,
                             a->n };

    dev_launch(tensors<lamb_factor>, 1, LANES, 0, stream, op);
}

struct lamb_mean {
    const struct dsflow_control *control;
    const double *ratio;
    struct dsf_lamb *lamb;
    double beta;
    int64_t n;

    DEV void of(int i) const
    {
        if (i < n && control->skip == 0 && ratio[i] != 1)
            lamb[i].mean = __dadd_rn(__dmul_rn(beta, lamb[i].mean),
                                     __dmul_rn(__dsub_rn(1, beta), ratio[i]));
    }
};

void mean_run(const struct dsflow_call *call, void *stream)
{
    const dsf_mean_args *a = (const dsf_mean_args *)call->args;
    const lamb_mean op = { control_of(call), doubles(call, 1),
                           (struct dsf_lamb *)call->bufs[2].ptr, a->beta,
                           a->n };

    dev_launch(tensors<lamb_mean>, 1, LANES, 0, stream, op);
}

struct unite_scales {
    const double *own, *total; /* own: NULL where nothing is coded */
    struct dsf_lamb *lamb;
    int64_t n, ntensors;

    DEV void of(int i) const
    {
        if (i >= DSFLOW_MAX_TENSORS)
            return;
        lamb[i].factor = 1;
        lamb[i].scale = own == nullptr || i >= ntensors || own[i] == 0
                            ? 1
                            : __ddiv_rn(__ddiv_rn(*total, (double)n), own[i]);
    }
};

void unite_run(const struct dsflow_call *call, void *stream)
{
    const dsf_unite_args *a = (const dsf_unite_args *)call->args;
    const unite_scales op = { doubles(call, 0), doubles(call, 1),
                              (struct dsf_lamb *)call->bufs[2].ptr, a->n,
                              a->ntensors };

    dev_launch(tensors<unite_scales>, 1, LANES, 0, stream, op);
}

} // namespace

static_assert(DSFLOW_MAX_TENSORS <= LANES, "a thread for each tensor");

const struct dsf_gpu_side dsf_gpu_side_lamb_ratio = { "lamb_ratio", ratio_run,
                                                      ratio_scratch, 1 };
const struct dsf_gpu_side dsf_gpu_side_lamb_totals = { "lamb_totals",
                                                       totals_run, nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_chunk_sums = { "chunk_sums", sums_run,
                                                      nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_sum_each = { "sum_each", each_run,
                                                    nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_tensor_scales = { "tensor_scales",
                                                         scales_run,
                                                         scales_scratch, 1 };
const struct dsf_gpu_side dsf_gpu_side_lamb_factor = { "lamb_factor",
                                                       factor_run, nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_lamb_mean = { "lamb_mean", mean_run,
                                                     nullptr, 1 };
const struct dsf_gpu_side dsf_gpu_side_unite_scales = { "unite_scales",
                                                        unite_run, nullptr, 1 };
