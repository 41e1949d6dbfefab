/* task_head.c - last norm, logits and cross entropy of a tile; of a part, over
 * some of the vocabulary. */
#include "tasks/scratch.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <math.h>

/* No block of columns is padding alone. */
static int has_words(const struct dsflow_head_args *a)
{
    const int32_t blocks = (int32_t)dsf_head_blocks(&a->tile);
    const int32_t left = a->whole - a->first;

    return a->first >= 0 && a->whole > a->first &&
           a->tile.vocab - left < DSF_HEAD_PADDING &&
           left > (blocks - 1) * DSF_HEAD_COLUMNS;
}

/* What the arguments say of the vocabulary and of the loss. */
static int check_args(const struct dsflow_op *op,
                      const struct dsflow_head_args *a, struct dsflow_err *err)
{
    const struct dsflow_tile *t = &a->tile;
    int status = dsf_tile_check(op, t, err);

    if (status < 0)
        return status;
    if (!has_words(a))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %d columns from %d on: expected some of %d",
                           op->name, (int)t->vocab, (int)a->first,
                           (int)a->whole);
    if (a->parts < 1 || a->parts > 4096)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: parts: %d: expected 1 to 4096", op->name,
                           (int)a->parts);
    if (!isfinite(a->scale))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: scale: %g: expected a finite number", op->name,
                           (double)a->scale);
    return DSFLOW_OK;
}

/* One statement of a part for each row: struct dsflow_head_stats. */
static struct dsflow_need stats_of(const struct dsflow_tile *t, int32_t parts)
{
    return (struct dsflow_need){ (int64_t)t->rows * parts, DSF_HEAD_STATS,
                                 DSFLOW_FP64 };
}

int dsf_head_needs(const struct dsflow_op *op, const void *args,
                   struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsflow_head_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, vocab = (size_t)t->vocab;
    const int whole = a->norm_w >= 0;
    const struct dsf_in_unit matrix = { "w", a->w, vocab * width, 0 };
    const struct dsf_in_unit norm[] = { { "norm_w", a->norm_w, width, 1 },
                                        { "norm_b", a->norm_b, width, 1 } };
    int status = check_args(op, a, err);

    if (status < 0)
        return status;
    if (whole || !dsf_is_optional(op, DSFLOW_HEAD_X))
        need[DSFLOW_HEAD_X] = dsf_rows_of(t, width);
    need[DSFLOW_HEAD_BATCH] = dsf_batch_of(t);
    need[DSFLOW_HEAD_LOGITS] = dsf_rows_of(t, vocab);
    if (whole || !dsf_is_optional(op, DSFLOW_HEAD_LOSS))
        need[DSFLOW_HEAD_LOSS] = (struct dsflow_need){ 1, 1, DSFLOW_FP64 };
    if (!whole) {
        need[DSFLOW_HEAD_STATS] = stats_of(t, 1);
        need[DSFLOW_HEAD_TOPS] = dsf_rows_of(t, dsf_head_blocks(t));
        need[DSFLOW_HEAD_ALL_STATS] = stats_of(t, a->parts);
    }
    if (whole || !dsf_is_optional(op, DSFLOW_HEAD_SUMS))
        need[DSFLOW_HEAD_SUMS] = stats_of(t, 1);
    need[DSFLOW_HEAD_CONTROL] = (struct dsflow_need){
        1, sizeof(struct dsflow_control), DSFLOW_BYTES
    };
    need[DSFLOW_HEAD_DX] = dsf_rows_of(t, width);
    need[DSFLOW_HEAD_DNORM] = dsf_matrix(whole ? 2 : 0, width);
    status = dsf_unit_needs(op, &matrix, 1, &need[DSFLOW_HEAD_WEIGHT], err);
    if (status == DSFLOW_OK)
        status = dsf_unit_needs(op, norm, 2, &need[DSFLOW_HEAD_NORM], err);
    need[DSFLOW_HEAD_GRAD] = need[DSFLOW_HEAD_WEIGHT];
    need[DSFLOW_HEAD_NORM_GRAD] = need[DSFLOW_HEAD_NORM];
    return status;
}

static double logits_of(const struct dsflow_tile *t)
{
    return (double)t->rows * t->vocab;
}

DSF_SEGMENT_CHECK(head)

/* The product and the norm. A slot of logits may be larger than the tile, and a
 * unit "embed" has more than the matrix: what is touched is counted, not the
 * sizes. */
static void product_cost(const struct dsflow_case *c, double norms,
                         struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = c->args;
    const struct dsflow_tile *t = &a->tile;
    const double x = (double)dsf_tile_x(t), whole = a->norm_w >= 0;

    cost->flops = 2.0 * logits_of(t) * t->width + whole * norms * x;
    cost->bytes =
        dsf_case_bytes(c, (double)t->vocab * t->width + (1 + whole) * x) +
        logits_of(t) *
            (double)dsflow_dtype_bytes(c->shapes[DSFLOW_HEAD_LOGITS].dtype, 1);
}

/* The gradient of the matrix is read and written, and not the matrix. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = c->args;
    const double matrix = (double)a->tile.vocab * a->tile.width;

    product_cost(c, 8, cost);
    if (c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT)
        cost->bytes += 2.0 * matrix *
                           (double)dsflow_dtype_bytes(
                               c->shapes[DSFLOW_HEAD_GRAD].dtype, 1) -
                       dsf_case_bytes(c, matrix);
}

struct dsf_scratch dsf_head_products(enum dsflow_direction direction,
                                     const struct dsflow_head_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t x = dsf_tile_x(t);

    return (struct dsf_scratch){
        .wide = direction == DSFLOW_DIR_BACKWARD_INPUT ? x : 0,
        .narrow = a->norm_w < 0 ? 0 : x,
        .product = dsf_projection_scratch(direction, (size_t)t->rows,
                                          (size_t)t->width, (size_t)t->vocab),
    };
}

static size_t norm_scratch(const struct dsflow_case *c)
{
    const struct dsflow_head_args *a = c->args;

    if (dsf_is_narrow(dsf_case_type(c)))
        return dsf_scratch_bytes(dsf_head_products(c->op->direction, a)) +
               dsf_gradient_scratch(c, DSFLOW_HEAD_GRAD, (size_t)a->tile.width,
                                    (size_t)a->tile.vocab);
    return dsf_normed_bytes(&a->tile, a->norm_w);
}

/* An exponential of each logit while it is in the cache. The whole writes the
 * logits, then scales them. */
static void forward_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = c->args;
    int whole = a->norm_w >= 0;

    product_cost(c, 0, cost);
    cost->flops += (whole ? 15.0 : 14.0) * logits_of(&a->tile);
    cost->bytes += dsf_case_bytes(c, (whole ? 2.0 : 0.0) * logits_of(&a->tile));
}

struct dsf_head_scratch dsf_head_scratch(const struct dsflow_head_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows;
    const size_t blocks = dsf_round16(rows * dsf_head_blocks(t));
    struct dsf_head_scratch s = { .stats = blocks * sizeof(double) };

    s.tops = s.stats + dsf_round16(rows) * sizeof(struct dsflow_head_stats);
    s.normed = s.tops + blocks * DSF_CELL;
    s.bytes = a->norm_w < 0 ? s.stats : s.normed + dsf_tile_x(t) * DSF_CELL;
    return s;
}

/* A block of the logits at a time. */
struct dsf_scratch dsf_head_block_scratch(const struct dsflow_head_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows;
    const size_t block = dsf_least((size_t)t->vocab, DSF_HEAD_COLUMNS);

    return (struct dsf_scratch){
        .wide = rows * block,
        .narrow = a->norm_w < 0 ? 0 : dsf_tile_x(t),
        .product = dsf_product_scratch(rows, block, (size_t)t->width),
    };
}

/* What is noted of the logits follows a block of them, where that is not where
 * they stay. */
static size_t forward_scratch(const struct dsflow_case *c)
{
    const struct dsf_head_scratch s = dsf_head_scratch(c->args);

    if (dsf_is_narrow(dsf_case_type(c)))
        return dsf_scratch_bytes(dsf_head_block_scratch(c->args)) + s.normed;
    return s.bytes;
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(HEAD, port, name, access, __VA_ARGS__)
#define NARROW .floats = DSFLOW_NARROW
#define SUM    .floats = DSFLOW_NARROW_SUM
#define ALONE  .floats = DSFLOW_NARROW_ALONE

DSF_SEGMENT_OP(head, forward, FORWARD, struct dsflow_head_args,
               .summary = "logits, loss, and gradient of the logits of a tile",
               .cost = forward_cost, .scratch = forward_scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW), P(NORM, "norm", R, .optional = 1, NARROW),
                            P(WEIGHT, "weight", R, NARROW),
                            P(BATCH, "batch", R, DSFLOW_INT32),
                            P(LOGITS, "logits", W, NARROW),
                            P(LOSS, "loss", W, DSFLOW_FP64, .optional = 1),
                            P(STATS, "stats", W, DSFLOW_FP64, .optional = 1),
                            P(TOPS, "tops", W, .optional = 1),
                            P(CONTROL, "control", R, DSFLOW_BYTES,
                              .optional = 1)));

static void loss_cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_head_args *a = c->args;
    const struct dsflow_tile *t = &a->tile;
    double stats = (double)a->parts * t->rows *
                   (sizeof(struct dsflow_head_stats) / DSF_CELL);

    cost->flops = logits_of(t) + 5 * stats;
    cost->bytes = dsf_case_bytes(c, 2.0 * logits_of(t)) +
                  DSF_CELL * (2.0 * t->rows + stats +
                              (double)t->rows * (double)dsf_head_blocks(t));
}

DSF_SEGMENT_OP(
    head, loss, FORWARD, struct dsflow_head_args,
    .summary = "loss of all parts, and gradient of the logits of one",
    .cost = loss_cost,
    DSFLOW_PORTS(P(BATCH, "batch", R, DSFLOW_INT32), P(LOGITS, "logits", RW, NARROW),
                 P(LOSS, "loss", W, DSFLOW_FP64), P(TOPS, "tops", R),
                 P(ALL_STATS, "all_stats", R, DSFLOW_FP64),
                 P(CONTROL, "control", R, DSFLOW_BYTES, .optional = 1)));

DSF_SEGMENT_OP(head, backward_input, BACKWARD_INPUT, struct dsflow_head_args,
               .summary = "gradient of the input of the head, and of its norm",
               .cost = cost, .scratch = norm_scratch,
               DSFLOW_PORTS(P(X, "x", R, .optional = 1, NARROW),
                            P(NORM, "norm", R, .optional = 1, NARROW),
                            P(WEIGHT, "weight", R, NARROW), P(LOGITS, "logits", R, NARROW),
                            P(DX, "dx", W, SUM),
                            P(DNORM, "dnorm", W, .optional = 1)));

DSF_SEGMENT_OP(head, backward_weight, BACKWARD_WEIGHT, struct dsflow_head_args,
               .summary = "gradients of the head's matrix and norm",
               .cost = cost, .scratch = norm_scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW),
                            P(NORM, "norm", R, .optional = 1, NARROW),
                            P(LOGITS, "logits", R, NARROW),
                            P(DNORM, "dnorm", R, .optional = 1),
                            P(GRAD, "grad", RW, ALONE),
                            P(NORM_GRAD, "norm_grad", RW, .optional = 1,
                              ALONE)));

DSF_SEGMENT_OP(head, logits, FORWARD, struct dsflow_head_args,
               .summary = "logits of a tile, for generation", .cost = cost,
               .scratch = norm_scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW), P(NORM, "norm", R, .optional = 1, NARROW),
                            P(WEIGHT, "weight", R, NARROW), P(LOGITS, "logits", W)));
