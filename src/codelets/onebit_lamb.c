/* onebit_lamb.c - 1-bit LAMB: one scale for the momenta of all tensors, and
 * ratios of norms that follow the variance of what comes back. */
#include "codelets/cast.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "kernels/wire_blocks.h"

#include <math.h>
#include <string.h>

/* As in lamb.c: what is computed of them stays in the cache. */
enum { AT_ONCE = 2048 };

static float *floats(const struct dsflow_buf *buf, int64_t at)
{
    return (float *)buf->ptr + at;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* --- send_signs ----------------------------------------------------------- */

enum { GRAD, ERROR, SQUARES };

/* What is not coded is sent as it is. */
static void send_block(const struct dsflow_call *call, float scale, int64_t i)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    const struct dsf_send_args *a = call->args;
    const struct dsflow_buf *errors = &call->bufs[ERROR];
    const struct dsf_packed at = dsf_packed_at(errors->dtype, errors->ptr,
                                               errors->elems, a->error_at + i);
    const size_t n = (size_t)a->coding.block;
    float *error = call->scratch;

    if (dsf_chunk_of(&a->coding, 1, i) < 0) {
        memset(error, 0, n * sizeof(*error));
    } else {
        dsf_unpack_at(errors->dtype, at, error, n);
        dsf_wire1_send(scale, floats(&call->bufs[GRAD], a->grad_at + i), error,
                       n);
    }
    dsf_pack_at(errors->dtype, &nearest, error, at, n);
}

static void send_signs_cpu(const struct dsflow_call *call)
{
    const struct dsf_send_args *a = call->args;
    const float scale = dsf_wire1_scale(
        *(const double *)call->bufs[SQUARES].ptr, (size_t)a->all);

    for (int64_t i = 0; i < a->elems; i += a->coding.block)
        send_block(call, scale, i);
}

DSF_CODELET(send_signs, .cpu = send_signs_cpu,
            .trials = &dsf_trials_onebit_lamb);

/* --- chunks of all units -------------------------------------------------- */

static void chunk_sums_cpu(const struct dsflow_call *call)
{
    const struct dsf_united_args *a = call->args;
    double *chunks = call->bufs[0].ptr;
    int64_t at = 0, tensor;

    memset(chunks, 0, (size_t)a->at.groups * 2 * sizeof(*chunks));
    for (unsigned i = 1; i < call->nbufs; i++)
        for (int64_t b = 0; b < call->bufs[i].elems; b++) {
            int64_t chunk = dsf_united_chunk(a, at, &tensor);

            if (chunk >= 0) {
                chunks[2 * chunk] += ((const double *)call->bufs[i].ptr)[b];
                chunks[2 * chunk + 1] += (double)a->at.coding.block;
            }
            at += a->at.coding.block;
        }
}

DSF_CODELET(chunk_sums, .cpu = chunk_sums_cpu,
            .trials = &dsf_trials_onebit_lamb);

static void tensor_scales_cpu(const struct dsflow_call *call)
{
    double *scales = call->bufs[0].ptr;

    for (int64_t k = 0; k < call->bufs[0].elems; k++) {
        double sum = 0, n = 0;

        for (unsigned i = 1; i < call->nbufs; i++) {
            const double *in = call->bufs[i].ptr;

            sum += in[2 * k];
            n += in[2 * k + 1];
        }
        scales[k] = n > 0 ? (double)dsf_wire1_scale(sum, (size_t)n) : 0;
    }
}

DSF_CODELET(tensor_scales, .cpu = tensor_scales_cpu,
            .trials = &dsf_trials_onebit_lamb);

static void sum_each_cpu(const struct dsflow_call *call)
{
    double *out = call->bufs[0].ptr;

    for (int64_t k = 0; k < call->bufs[0].elems; k++) {
        out[k] = 0;
        for (unsigned i = 1; i < call->nbufs; i++)
            out[k] += ((const double *)call->bufs[i].ptr)[k];
    }
}

DSF_CODELET(sum_each, .cpu = sum_each_cpu, .trials = &dsf_trials_onebit_lamb);

/* --- serve_lamb ----------------------------------------------------------- */

enum { CONTROL, SUM, CHUNKS, LAMB, SERVER, MOMENTUM, FRESH };

/* `n` numbers from number `i` on, `by` times as large as momenta. */
static void refresh(const struct dsflow_call *call, double by, const float *x,
                    int64_t i, int64_t n)
{
    const struct dsf_united_args *a = call->args;
    const struct dsf_refresh_step step = {
        .by = (float)by,
        .beta1 = (float)a->beta1,
        .rest1 = (float)(1 - a->beta1),
        .beta2 = (float)a->beta2,
        .rest2 = (float)(1 - a->beta2),
    };

    dsf_lamb_refresh(&step, x, floats(&call->bufs[MOMENTUM], a->at.m_at + i),
                     floats(&call->bufs[FRESH], a->fresh_at + i), (size_t)n);
}

/* A block: what is sent of it, with the scale of its chunk. */
static void serve_block(const struct dsflow_call *call, int64_t i)
{
    const struct dsf_united_args *a = call->args;
    const double *chunks = call->bufs[CHUNKS].ptr;
    const struct dsf_lamb *lamb = call->bufs[LAMB].ptr;
    const int64_t n = a->at.coding.block;
    const float *x = floats(&call->bufs[SUM], a->at.grad_at + i);
    int64_t tensor = 0, chunk = dsf_united_chunk(a, a->at.at + i, &tensor);
    float *sent = call->scratch;

    if (chunk < 0) {
        refresh(call, 1, x, i, n);
        return;
    }
    dsf_wire1_serve(
        dsf_wire1_scale(chunks[2 * chunk], (size_t)chunks[2 * chunk + 1]), x,
        floats(&call->bufs[SERVER], a->at.server_at + i), sent, (size_t)n);
    refresh(call, lamb[tensor].scale, sent, i, n);
}

static void serve_lamb_cpu(const struct dsflow_call *call)
{
    const struct dsf_united_args *a = call->args;
    const struct dsflow_control *c = call->bufs[CONTROL].ptr;

    if (c->skip)
        return;
    if (call->bufs[SERVER].ptr == NULL)
        refresh(call, 1, floats(&call->bufs[SUM], a->at.grad_at), 0,
                a->at.elems);
    for (int64_t i = 0; i < a->at.elems && call->bufs[SERVER].ptr != NULL;
         i += a->at.coding.block)
        serve_block(call, i);
}

DSF_CODELET(serve_lamb, .cpu = serve_lamb_cpu,
            .trials = &dsf_trials_onebit_lamb);

/* --- ratios --------------------------------------------------------------- */

enum { PARAM = 2, M, V, SUMS };
enum { BARE, WHOLE, FACTOR, PER_TENSOR = 4 };

/* What is no number stays so: the run shows it. */
static double larger(double a, double b)
{
    return isnan(a) || a > b ? a : b;
}

static void weigh(const struct dsflow_call *call, const struct dsflow_tensor *t,
                  int64_t from, int64_t to, double *sums)
{
    const struct dsf_weigh_args *w = call->args;
    const struct dsf_update_args *a = &w->of;
    const struct dsf_lamb_step s = { .rate1 = 1,
                                     .root2 = 1,
                                     .eps = a->eps,
                                     .decay = t->decays ? a->weight_decay : 0 };
    float bare[AT_ONCE], u[AT_ONCE], factor[AT_ONCE];

    for (int64_t next; from < to; from = next) {
        const struct dsf_lamb_weighed of = {
            .p = floats(&call->bufs[PARAM], a->at.param_at + from),
            .m = floats(&call->bufs[M], a->m_at + from),
            .v = floats(&call->bufs[V], w->v_at + from),
            .fresh = floats(&call->bufs[1], a->at.grad_at + from),
            .bare = bare,
            .u = u,
            .factor = factor,
        };
        size_t n;

        next = least(from + AT_ONCE, to);
        n = (size_t)(next - from);
        dsf_lamb_weigh(&s, &of, n);
        sums[BARE] += dsf_square_sum(bare, n);
        sums[WHOLE] += dsf_square_sum(u, n);
        for (size_t i = 0; i < n; i++)
            sums[FACTOR] = larger(sums[FACTOR], (double)factor[i]);
    }
}

static void lamb_norms_cpu(const struct dsflow_call *call)
{
    const struct dsf_update_args *a =
        &((const struct dsf_weigh_args *)call->args)->of;
    double *sums = call->bufs[SUMS].ptr;

    for (int64_t at = 0; at < a->at.elems; at += a->at.block) {
        memset(sums, 0, (size_t)a->width * sizeof(*sums));
        for (int32_t i = 0; i < a->at.ntensors; i++) {
            const struct dsflow_tensor *t = &a->at.tensors[i];

            weigh(call, t, most(at, t->at),
                  least(at + a->at.block, t->at + t->rows * t->cols),
                  sums + (ptrdiff_t)(PER_TENSOR * t->number));
        }
        sums += a->width;
    }
}

DSF_CODELET(lamb_norms, .cpu = lamb_norms_cpu,
            .trials = &dsf_trials_onebit_lamb);

static void lamb_totals_cpu(const struct dsflow_call *call)
{
    const struct dsf_factor_args *a = call->args;
    double *totals = call->bufs[0].ptr;

    memset(totals, 0, (size_t)a->n * PER_TENSOR * sizeof(*totals));
    for (unsigned i = 1; i < call->nbufs; i++) {
        const double *in = call->bufs[i].ptr;

        for (int64_t b = 0; b < call->bufs[i].elems; b += a->width)
            for (ptrdiff_t k = 0; k < PER_TENSOR * (ptrdiff_t)a->n; k++)
                totals[k] = k % PER_TENSOR == FACTOR
                                ? larger(totals[k], in[b + k])
                                : totals[k] + in[b + k];
    }
}

DSF_CODELET(lamb_totals, .cpu = lamb_totals_cpu,
            .trials = &dsf_trials_onebit_lamb);

static double within(double x, double low, double high)
{
    return x > high ? high : x < low ? low : x;
}

static double factor_of(const struct dsf_factor_args *a, const double *totals,
                        double last)
{
    const double whole = sqrt(totals[WHOLE]);
    double share = whole > 0 ? sqrt(totals[BARE]) / whole : 1;
    double factor;

    share = share > 1 ? 1 : share;
    factor = totals[FACTOR] * share + (1 - share);
    factor = within(factor, a->least, a->most);
    return within(factor, last * (1 - a->threshold), last * (1 + a->threshold));
}

static void lamb_factor_cpu(const struct dsflow_call *call)
{
    const struct dsf_factor_args *a = call->args;
    const struct dsflow_control *c = call->bufs[0].ptr;
    const double *totals = call->bufs[1].ptr;
    struct dsf_lamb *lamb = call->bufs[2].ptr;
    double *ratio = call->bufs[3].ptr;

    for (ptrdiff_t i = 0; i < a->n; i++) {
        if (!c->skip)
            lamb[i].factor =
                factor_of(a, totals + PER_TENSOR * i, lamb[i].factor);
        ratio[i] = lamb[i].mean * lamb[i].factor;
    }
}

DSF_CODELET(lamb_factor, .cpu = lamb_factor_cpu,
            .trials = &dsf_trials_onebit_lamb);

/* --- up to the freeze ----------------------------------------------------- */

static void lamb_mean_cpu(const struct dsflow_call *call)
{
    const struct dsf_mean_args *a = call->args;
    const struct dsflow_control *c = call->bufs[0].ptr;
    const double *ratio = call->bufs[1].ptr;
    struct dsf_lamb *lamb = call->bufs[2].ptr;

    for (ptrdiff_t i = 0; i < a->n && !c->skip; i++)
        if (ratio[i] != 1)
            lamb[i].mean = a->beta * lamb[i].mean + (1 - a->beta) * ratio[i];
}

DSF_CODELET(lamb_mean, .cpu = lamb_mean_cpu, .trials = &dsf_trials_onebit_lamb);

static void unite_scales_cpu(const struct dsflow_call *call)
{
    const struct dsf_unite_args *a = call->args;
    const double *own = call->bufs[0].ptr, *total = call->bufs[1].ptr;
    struct dsf_lamb *lamb = call->bufs[2].ptr;

    for (ptrdiff_t i = 0; i < DSFLOW_MAX_TENSORS; i++) {
        lamb[i].factor = 1;
        lamb[i].scale = own == NULL || i >= a->ntensors || own[i] == 0
                            ? 1
                            : *total / (double)a->n / own[i];
    }
}

DSF_CODELET(unite_scales, .cpu = unite_scales_cpu,
            .trials = &dsf_trials_onebit_lamb);
