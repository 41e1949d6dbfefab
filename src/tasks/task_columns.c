/* task_columns.c - some columns of what leaves a segment, and columns side by
 * side: what several workers do of one token. */
#include "tasks/scratch.h"
#include "tasks/shapes.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_mlp_up_needs(const struct dsflow_op *op, const void *args,
                     struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsf_mlp_up_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, ffn = (size_t)t->ffn;
    const struct dsf_in_unit tensors[] = {
        { "w", a->w, ffn * width, 0 },
        { "up", a->up, ffn * width, !t->swiglu },
        { "b", a->b, ffn, 1 },
        { "norm_w", a->norm_w, width, 0 },
        { "norm_b", a->norm_b, width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = dsf_tile_quantizer_check(op, t, width, err);
    need[DSF_MLP_UP_X] = dsf_rows_of(t, width);
    need[DSF_MLP_UP_ACT] = dsf_rows_of(t, ffn);
    return status == DSFLOW_OK
               ? dsf_unit_needs(op, tensors, 5, &need[DSF_MLP_UP_UNIT], err)
               : status;
}

int dsf_project_needs(const struct dsflow_op *op, const void *args,
                      struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsf_project_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, ffn = (size_t)t->ffn;
    const struct dsf_in_unit tensors[] = { { "w", a->w, width * ffn, 0 },
                                           { "b", a->b, width, 1 } };
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = dsf_tile_quantizer_check(op, t, ffn, err);
    need[DSF_PROJECT_X] = need[DSF_PROJECT_Y] = dsf_rows_of(t, width);
    need[DSF_PROJECT_IN] = dsf_rows_of(t, ffn);
    return status == DSFLOW_OK
               ? dsf_unit_needs(op, tensors, 2, &need[DSF_PROJECT_UNIT], err)
               : status;
}

DSF_SEGMENT_CHECK(mlp_up)
DSF_SEGMENT_CHECK(project)

/* A product, and a norm and the activations, or a residual. */
static void up_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_tile *t = c->args;
    const double h = (double)dsf_tile_hwidth(t);

    cost->flops =
        t->rows * (2.0 * t->width * h + 20.0 * t->ffn + 8.0 * t->width) +
        dsf_tile_rounding(t, (double)dsf_tile_x(t));
    cost->bytes = dsf_ports_bytes(c, 1u << DSF_MLP_UP_UNIT) +
                  dsf_case_bytes(c, t->width * h);
}

static void project_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_tile *t = c->args;

    cost->flops = 2.0 * t->rows * t->width * (t->ffn + 1.0) +
                  dsf_tile_rounding(t, (double)t->rows * t->ffn);
    cost->bytes = dsf_ports_bytes(c, 1u << DSF_PROJECT_UNIT) +
                  dsf_case_bytes(c, (double)t->width * t->ffn);
}

/* h, before it is rounded; the normed tile, then h. */
struct dsf_scratch dsf_mlp_up_scratch(const struct dsf_mlp_up_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, h = rows * dsf_tile_hwidth(t);

    return (struct dsf_scratch){
        .wide = h,
        .narrow = dsf_most(dsf_tile_x(t), h),
        .product = dsf_projection_scratch(DSFLOW_DIR_FORWARD, rows,
                                          (size_t)t->width, (size_t)t->ffn),
    };
}

/* The normed tile, and h. */
static size_t up_scratch(const struct dsflow_case *c)
{
    const struct dsflow_tile *t = c->args;

    if (dsf_is_narrow(dsf_case_type(c)))
        return dsf_scratch_bytes(dsf_mlp_up_scratch(c->args));
    return DSF_CELL *
           (dsf_round16(dsf_tile_x(t)) + (size_t)t->rows * dsf_tile_hwidth(t));
}

static size_t rounded_inputs(const struct dsflow_tile *t)
{
    return dsf_tile_rounds(t) ? (size_t)t->rows * (size_t)t->ffn : 0;
}

/* What the product leaves, before it is narrowed; inputs that are rounded. */
struct dsf_scratch dsf_project_scratch(const struct dsf_project_args *a)
{
    const struct dsflow_tile *t = &a->tile;

    return (struct dsf_scratch){
        .wide = dsf_tile_x(t),
        .narrow = rounded_inputs(t),
        .product = dsf_projection_scratch(DSFLOW_DIR_FORWARD, (size_t)t->rows,
                                          (size_t)t->ffn, (size_t)t->width),
    };
}

static size_t project_scratch(const struct dsflow_case *c)
{
    return dsf_is_narrow(dsf_case_type(c))
               ? dsf_scratch_bytes(dsf_project_scratch(c->args))
               : DSF_CELL * rounded_inputs(c->args);
}

#define NARROW .floats = DSFLOW_NARROW
#define ALONE  .floats = DSFLOW_NARROW_ALONE

DSF_OP(mlp_up, .summary = "norm, some columns of the feed-forward, activation",
       .direction = DSFLOW_DIR_FORWARD,
       .args_size = sizeof(struct dsf_mlp_up_args),
       DSFLOW_PORTS([DSF_MLP_UP_X] = { "x", DSFLOW_R, NARROW },
                    [DSF_MLP_UP_UNIT] = { "unit", DSFLOW_R, NARROW },
                    [DSF_MLP_UP_ACT] = { "act", DSFLOW_W, NARROW }),
       .check = mlp_up_check, .cost = up_cost, .scratch = up_scratch);

DSF_OP(project, .summary = "some columns of a projection, and residual",
       .direction = DSFLOW_DIR_FORWARD,
       .args_size = sizeof(struct dsf_project_args),
       DSFLOW_PORTS([DSF_PROJECT_X] = { "x", DSFLOW_R, NARROW },
                    [DSF_PROJECT_IN] = { "in", DSFLOW_R, NARROW },
                    [DSF_PROJECT_UNIT] = { "unit", DSFLOW_R, NARROW },
                    [DSF_PROJECT_Y] = { "y", DSFLOW_W, NARROW }),
       .check = project_check, .cost = project_cost,
       .scratch = project_scratch);

static int floats_check(const struct dsflow_case *c, unsigned p, int64_t elems,
                        struct dsflow_err *err)
{
    const enum dsflow_dtype type = c->shapes[p].dtype, out = c->shapes[0].dtype;

    if (type != out && type != DSFLOW_FP32 && out != DSFLOW_FP32)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "columns: %s into %s: expected one type, or fp32",
                           dsflow_dtype_str(type), dsflow_dtype_str(out));
    return dsf_port_check(c, p, dsf_is_narrow(type) ? type : DSFLOW_FP32, elems,
                          err);
}

static int columns_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_columns_args *a = c->args;
    const int64_t rows = a->rows, inputs = (int64_t)c->n - 1;
    int status;

    if (a->rows < 1 || a->n < 1 || a->from < 0 || a->cols < 1 ||
        a->n > a->cols || a->from > a->cols - a->n)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "columns: %d rows of %d columns from %d on, of %d",
                           (int)a->rows, (int)a->n, (int)a->from, (int)a->cols);
    status = floats_check(c, 0, rows * a->n * inputs, err);
    for (unsigned i = 1; i < c->n && status == DSFLOW_OK; i++)
        status = floats_check(c, i, rows * a->cols, err);
    return status;
}

DSF_OP(columns, .summary = "columns of several buffers, side by side",
       .direction = DSFLOW_DIR_MOVE, .comm = DSFLOW_COMM_GATHER, .repeats = 1,
       .args_size = sizeof(struct dsf_columns_args),
       DSFLOW_PORTS({ "out", DSFLOW_W, ALONE }, { "in", DSFLOW_R, ALONE }),
       .check = columns_check);
