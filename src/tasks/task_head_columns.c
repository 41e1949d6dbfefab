/* task_head_columns.c - the head where it takes some columns of the vocabulary
 * at a time: no more logits than those are anywhere. */
#include "tasks/scratch.h"
#include "tasks/tasks.h"

static int head_check(const struct dsflow_case *c, struct dsflow_err *err)
{
    const struct dsf_head_columns_args *a = c->args;

    if (a->columns < 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: columns: %d: expected 1 or more", c->op->name,
                           (int)a->columns);
    return dsflow_segment_check(c, dsf_head_needs, err);
}

static size_t take(size_t *at, size_t bytes)
{
    const size_t here = *at;

    *at += (bytes + 63) / 64 * 64;
    return here;
}

struct dsf_head_columns_room
dsf_head_columns_room(const struct dsf_head_columns_args *a,
                      enum dsflow_dtype type, enum dsflow_dtype grad, bool back)
{
    const struct dsflow_tile *t = &a->head.tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t columns = dsf_head_columns(a), block = dsf_head_block(a);
    const size_t number = dsflow_dtype_bytes(type, 1), x = dsf_tile_x(t);
    const bool whole = a->head.norm_w >= 0, narrow = dsf_is_narrow(type);
    struct dsf_head_columns_room at = { .bytes = 0 };
    size_t product = dsf_product_scratch(rows, block, width);

    at.sums =
        take(&at.bytes, dsflow_dtype_bytes(DSFLOW_FP64, a->head.tile.rows));
    at.tops = take(&at.bytes, rows * DSF_CELL);
    at.normed = take(&at.bytes, whole ? x * number : 0);
    at.block = take(&at.bytes, narrow || !back ? rows * block * DSF_CELL : 0);
    at.logits = take(&at.bytes, back ? rows * columns * number : 0);
    at.dx = take(&at.bytes, back && (whole || narrow) ? x * DSF_CELL : 0);
    if (back) {
        product =
            dsf_most(product, dsf_projection_scratch(DSFLOW_DIR_BACKWARD_INPUT,
                                                     rows, width, columns));
        product =
            dsf_most(product, dsf_projection_scratch(DSFLOW_DIR_BACKWARD_WEIGHT,
                                                     rows, width, columns));
    }
    at.product = take(&at.bytes, narrow ? product : 0);
    at.rows = take(&at.bytes, back && dsf_is_narrow(grad)
                                  ? dsf_least(columns, DSF_GRADIENT_ROWS) *
                                        width * DSF_CELL
                                  : 0);
    return at;
}

static size_t scratch(const struct dsflow_case *c)
{
    const bool back = c->op->direction != DSFLOW_DIR_FORWARD;
    const bool weight = c->op != &dsf_op_head_backward_input_columns;

    return dsf_head_columns_room(
               c->args, dsf_case_type(c),
               back && weight ? c->shapes[DSFLOW_HEAD_GRAD].dtype : DSFLOW_FP32,
               back)
        .bytes;
}

/* A product, and an exponential of each logit while it is in the cache. */
static void forward_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_head_columns_args *a = c->args;
    const struct dsflow_tile *t = &a->head.tile;
    const double logits = (double)t->rows * t->vocab;

    cost->flops = (2.0 * t->width + 14) * logits;
    cost->bytes =
        dsf_case_bytes(c, (double)t->vocab * t->width + (double)dsf_tile_x(t));
}

/* The same once more, and two products of what becomes of the logits. The
 * matrix is read twice, and its gradient read and written. */
static void backward_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_head_columns_args *a = c->args;
    const struct dsflow_tile *t = &a->head.tile;
    const bool input = c->op != &dsf_op_head_backward_weight_columns;
    const bool weight = c->op != &dsf_op_head_backward_input_columns;
    const double logits = (double)t->rows * t->vocab;
    const double matrix = (double)t->vocab * t->width;
    const double x = (double)dsf_tile_x(t), whole = a->head.norm_w >= 0;

    cost->flops = (2.0 * t->width * (1 + input + weight) + 15) * logits +
                  input * whole * 8 * x;
    cost->bytes =
        dsf_case_bytes(c, (1 + input) * matrix + (1 + input * (1 + whole)) * x +
                              2 * (input + weight) * logits);
    if (weight)
        cost->bytes +=
            2 * matrix *
            (double)dsflow_dtype_bytes(c->shapes[DSFLOW_HEAD_GRAD].dtype, 1);
}

static void loss_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsf_head_columns_args *a = c->args;
    const double stats = (double)a->head.parts * a->head.tile.rows;

    cost->flops = 15 * stats;
    cost->bytes = stats * sizeof(struct dsflow_head_stats);
}

#define P(port, name, access, ...)                                             \
    DSF_PORT(HEAD, port, name, access, __VA_ARGS__)
#define NARROW .floats = DSFLOW_NARROW
#define SUM    .floats = DSFLOW_NARROW_SUM
#define ALONE  .floats = DSFLOW_NARROW_ALONE
/* What all but loss_columns read; gradients that the backward pass leaves; what
 * it reads beside. */
#define READ                                                                   \
    P(X, "x", R, NARROW), P(NORM, "norm", R, .optional = 1, NARROW),           \
        P(WEIGHT, "weight", R, NARROW), P(BATCH, "batch", R, DSFLOW_INT32)
#define INPUT P(DX, "dx", W, SUM), P(DNORM, "dnorm", W, .optional = 1)
#define PARAMS                                                                 \
    P(GRAD, "grad", RW, ALONE),                                                \
        P(NORM_GRAD, "norm_grad", RW, .optional = 1, ALONE)
#define BACK                                                                   \
    P(CONTROL, "control", R, DSFLOW_BYTES, .optional = 1),                     \
        P(SUMS, "sums", R, DSFLOW_FP64)

DSF_SEGMENT_OP(head, forward_columns, FORWARD, struct dsf_head_columns_args,
               .summary = "loss of a tile, some columns of logits at a time",
               .cost = forward_cost, .scratch = scratch,
               DSFLOW_PORTS(READ,
                            P(LOSS, "loss", W, DSFLOW_FP64, .optional = 1),
                            P(STATS, "stats", W, DSFLOW_FP64, .optional = 1),
                            P(SUMS, "sums", W, DSFLOW_FP64, .optional = 1)));

DSF_SEGMENT_OP(head, loss_columns, FORWARD, struct dsf_head_columns_args,
               .summary = "loss of all parts, and what they say together",
               .cost = loss_cost,
               DSFLOW_PORTS(P(BATCH, "batch", R, DSFLOW_INT32),
                            P(LOSS, "loss", W, DSFLOW_FP64),
                            P(ALL_STATS, "all_stats", R, DSFLOW_FP64),
                            P(SUMS, "sums", W, DSFLOW_FP64)));

DSF_SEGMENT_OP(head, backward_columns, BACKWARD_INPUT,
               struct dsf_head_columns_args,
               .summary = "gradients of the head, some columns of logits at a "
                          "time",
               .cost = backward_cost, .scratch = scratch,
               DSFLOW_PORTS(READ, INPUT, PARAMS, BACK));

DSF_SEGMENT_OP(head, backward_input_columns, BACKWARD_INPUT,
               struct dsf_head_columns_args,
               .summary = "gradients of what enters the head, some columns of "
                          "logits at a time",
               .cost = backward_cost, .scratch = scratch,
               DSFLOW_PORTS(READ, INPUT, BACK));

DSF_SEGMENT_OP(head, backward_weight_columns, BACKWARD_WEIGHT,
               struct dsf_head_columns_args,
               .summary = "gradients of the head's parameters, some columns of "
                          "logits at a time",
               .cost = backward_cost, .scratch = scratch,
               DSFLOW_PORTS(READ, P(DNORM, "dnorm", R, .optional = 1), PARAMS,
                            BACK));
