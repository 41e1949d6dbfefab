/* columns.c - some columns of what leaves a segment, and columns side by side.
 */
#include "codelets/codelets.h"

#include "codelets/call.h"
#include "codelets/normed.h"
#include "codelets/rows_product.h"
#include "kernels/kernels.h"
#include "tasks/tile.h"

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
    const float *xn =
        dsf_normed(&norm, dsf_floats(call, DSF_MLP_UP_X), scratch, rows);

    dsf_rows_product(rows, ffn, width, xn, unit + a->w, 0, h, nh);
    if (t->swiglu) {
        dsf_rows_product(rows, ffn, width, xn, unit + a->up, 0, h + ffn, nh);
        dsf_swiglu_forward(h, NULL, act, rows, ffn);
    } else {
        dsf_gelu_forward(h, dsf_tensor_at(unit, a->b), act, rows, ffn);
    }
}

DSF_CODELET(mlp_up, .cpu = up_cpu);

static void project_cpu(const struct dsflow_call *call)
{
    const struct dsf_project_args *a = call->args;
    const size_t rows = (size_t)a->tile.rows, width = (size_t)a->tile.width;
    const size_t ffn = (size_t)a->tile.ffn;
    float *unit = dsf_floats(call, DSF_PROJECT_UNIT);
    float *y = dsf_floats(call, DSF_PROJECT_Y);

    dsf_residual(y, dsf_floats(call, DSF_PROJECT_X), dsf_tensor_at(unit, a->b),
                 rows, width);
    dsf_rows_product(rows, width, ffn, dsf_floats(call, DSF_PROJECT_IN),
                     unit + a->w, 1, y, width);
}

DSF_CODELET(project, .cpu = project_cpu);

static void columns_cpu(const struct dsflow_call *call)
{
    const struct dsf_columns_args *a = call->args;
    const size_t n = (size_t)a->n, cols = (size_t)a->cols;
    const size_t inputs = call->nbufs - 1;
    float *out = dsf_floats(call, 0);

    for (size_t r = 0; r < (size_t)a->rows; r++)
        for (unsigned i = 1; i <= inputs; i++, out += n)
            memcpy(out, dsf_floats(call, i) + r * cols + a->from,
                   n * sizeof(float));
}

DSF_CODELET(columns, .cpu = columns_cpu);
