/* columns.c - some columns of what leaves a segment, and columns side by side.
 */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/inputs.h"
#include "codelets/rows_product.h"
#include "codelets/trials.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

static void up_narrow(const struct dsflow_call *call)
{
    const struct dsf_mlp_up_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    const uint16_t *unit = dsf_halves(call, DSF_MLP_UP_UNIT);
    uint16_t *act = dsf_halves(call, DSF_MLP_UP_ACT);
    const struct dsf_narrow_norm norm =
        DSF_NARROW_NORM_OF(call, DSF_MLP_UP_UNIT, a);
    const struct dsf_narrow_call c =
        dsf_narrow_call(call, DSF_MLP_UP_X, dsf_mlp_up_scratch(a));
    const struct dsf_projection p = { &c, rows, width, ffn };
    const uint16_t *xn = dsf_narrow_normed_inputs(
        &c, t, &norm, dsf_halves(call, DSF_MLP_UP_X), rows);

    dsf_rows_projection(&p, xn, unit + a->w, c.wide, nh);
    if (t->swiglu) {
        dsf_rows_projection(&p, xn, unit + a->up, c.wide + ffn, nh);
        c.loops->swiglu_forward(c.wide, NULL, c.narrow, act, rows, ffn);
    } else {
        c.loops->gelu_forward(c.wide, dsf_half_at(unit, a->b), c.narrow, act,
                              rows, ffn);
    }
}

static void up_cpu(const struct dsflow_call *call)
{
    const struct dsf_mlp_up_args *a = call->args;
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t ffn = (size_t)t->ffn, nh = dsf_tile_hwidth(t);
    float *unit = dsf_floats(call, DSF_MLP_UP_UNIT), *scratch = call->scratch;
    float *h = scratch + dsf_round16(dsf_tile_x(t));
    float *act = dsf_floats(call, DSF_MLP_UP_ACT);
    const struct dsf_norm norm = dsf_norm_of(t, unit, a->norm_w, a->norm_b);
    const float *xn = dsf_normed_inputs(
        t, &norm, dsf_floats(call, DSF_MLP_UP_X), scratch, rows);

    dsf_rows_product(rows, ffn, width, xn, unit + a->w, 0, h, nh);
    if (t->swiglu) {
        dsf_rows_product(rows, ffn, width, xn, unit + a->up, 0, h + ffn, nh);
        dsf_swiglu_forward(h, NULL, act, rows, ffn);
    } else {
        dsf_gelu_forward(h, dsf_tensor_at(unit, a->b), act, rows, ffn);
    }
}

DSF_BY_TYPE(mlp_up, DSF_MLP_UP_X, up)
DSF_CODELET(mlp_up, .cpu = mlp_up_cpu, .trials = &dsf_trials_columns);

static void projection_narrow(const struct dsflow_call *call)
{
    const struct dsf_project_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const uint16_t *unit = dsf_halves(call, DSF_PROJECT_UNIT);
    const struct dsf_narrow_call c =
        dsf_narrow_call(call, DSF_PROJECT_X, dsf_project_scratch(a));
    const size_t ffn = (size_t)a->tile.ffn;

    dsf_rows_projection(&(struct dsf_projection){ &c, rows, ffn, width },
                        dsf_narrow_inputs(&c, &a->tile,
                                          dsf_halves(call, DSF_PROJECT_IN),
                                          rows, ffn),
                        unit + a->w, c.wide, width);
    c.loops->residual(c.wide, dsf_halves(call, DSF_PROJECT_X),
                      dsf_half_at(unit, a->b), dsf_halves(call, DSF_PROJECT_Y),
                      rows, width);
}

static void projection_cpu(const struct dsflow_call *call)
{
    const struct dsf_project_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t ffn = (size_t)a->tile.ffn;
    float *unit = dsf_floats(call, DSF_PROJECT_UNIT);
    float *y = dsf_floats(call, DSF_PROJECT_Y);

    dsf_residual(y, dsf_floats(call, DSF_PROJECT_X), dsf_tensor_at(unit, a->b),
                 rows, width);
    dsf_rows_product(rows, width, ffn,
                     dsf_inputs(&a->tile, dsf_floats(call, DSF_PROJECT_IN),
                                call->scratch, rows, ffn),
                     unit + a->w, 1, y, width);
}

DSF_BY_TYPE(project, DSF_PROJECT_X, projection)
DSF_CODELET(project, .cpu = project_cpu, .trials = &dsf_trials_columns);

/* `n` columns of `rows` rows, which are `ld` apart, in the type of `out`. */
static void put_columns(const struct dsflow_buf *in, size_t ld, size_t from,
                        const struct dsflow_buf *out, size_t ld_out, size_t to,
                        size_t rows, size_t n)
{
    const size_t size = dsflow_dtype_bytes(in->dtype, 1);
    const size_t size_out = dsflow_dtype_bytes(out->dtype, 1);

    for (size_t r = 0; r < rows; r++) {
        const void *x = (const char *)in->ptr + (r * ld + from) * size;
        void *y = (char *)out->ptr + (r * ld_out + to) * size_out;

        if (in->dtype == out->dtype)
            memcpy(y, x, n * size);
        else if (dsf_is_narrow(out->dtype))
            dsf_narrow(out->dtype)->narrow(x, n, NULL, y, n, 1, n);
        else
            dsf_narrow(in->dtype)->widen(x, y, n);
    }
}

static void columns_cpu(const struct dsflow_call *call)
{
    const struct dsf_columns_args *a = call->args;
    const size_t n = (size_t)a->n, inputs = call->nbufs - 1;

    for (unsigned i = 1; i <= inputs; i++)
        put_columns(&call->bufs[i], (size_t)a->cols, (size_t)a->from,
                    &call->bufs[0], inputs * n, (i - 1) * n, (size_t)a->rows,
                    n);
}

DSF_CODELET(columns, .cpu = columns_cpu, .trials = &dsf_trials_columns);
