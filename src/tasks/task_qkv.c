/* task_qkv.c - norm, and projection to queries, keys and values; of a part, to
 * those of some heads. */
#include "tasks/scratch.h"
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* What is shared: rows of keys and values that several parts use. */
static int shared_needs(const struct dsflow_op *op,
                        const struct dsflow_qkv_args *a,
                        struct dsflow_need *need, struct dsflow_err *err)
{
    const size_t nk = dsf_tile_kvwidth(&a->tile) / 2;
    const struct dsf_in_unit tensors[] = {
        { "k", a->k, nk * (size_t)a->tile.width, a->v < 0 },
        { "v", a->v, nk * (size_t)a->tile.width, a->k < 0 },
        { "kb", a->kb, nk, 1 },
        { "vb", a->vb, nk, a->kb < 0 },
    };

    return dsf_unit_needs(op, tensors, 4, need, err);
}

/* The rows of keys and values are a tile's, or those of several, of which one
 * is the tile. */
static int check_rows(const struct dsflow_op *op,
                      const struct dsflow_qkv_args *a, struct dsflow_err *err)
{
    const int32_t most = a->kv_rows - a->tile.rows;

    if (a->kv_rows == 0 && a->kv_at == 0)
        return DSFLOW_OK;
    if (a->kv_rows < a->tile.rows || a->tile.nseq != 1)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: kv_rows: %d: expected 0, or the %d of a tile of "
            "one sequence, or more",
            op->name, (int)a->kv_rows, (int)a->tile.rows);
    if (a->kv_at < 0 || a->kv_at > most)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: kv_at: %d: expected 0 to %d", op->name,
                           (int)a->kv_at, (int)most);
    return DSFLOW_OK;
}

int dsf_qkv_needs(const struct dsflow_op *op, const void *args,
                  struct dsflow_need *need, struct dsflow_err *err)
{
    const struct dsflow_qkv_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t width = (size_t)t->width, nkv = dsf_tile_kvwidth(t);
    const size_t nq = dsf_tile_qwidth(t), out = nq + (a->k < 0 ? nkv : 0);
    const int whole = a->norm_w >= 0;
    const struct dsf_in_unit tensors[] = {
        { "w", a->w, out * width, 0 },
        { "b", a->b, out, 1 },
        { "norm_w", a->norm_w, width, 1 },
        { "norm_b", a->norm_b, width, 1 },
    };
    int status = dsf_tile_check(op, t, err);

    if (status == DSFLOW_OK)
        status = check_rows(op, a, err);
    if (status == DSFLOW_OK && whole)
        status = dsf_tile_quantizer_check(op, t, width, err);
    if (status < 0)
        return status;
    if (whole || !dsf_is_optional(op, DSFLOW_QKV_X))
        need[DSFLOW_QKV_X] = dsf_rows_of(t, width);
    need[DSFLOW_QKV_Q] = need[DSFLOW_QKV_DQ] = dsf_rows_of(t, nq);
    need[DSFLOW_QKV_KV] = need[DSFLOW_QKV_DKV] =
        dsf_matrix((size_t)(a->kv_rows > 0 ? a->kv_rows : t->rows), nkv);
    need[DSFLOW_QKV_DX] = dsf_rows_of(t, width);
    need[DSFLOW_QKV_DRES] = dsf_matrix(whole ? (size_t)t->rows : 0, width);
    need[DSFLOW_QKV_DNORM] = dsf_matrix(whole ? 2 : 0, width);
    /* A row for each position up to the last of the tile. */
    if (t->rope)
        need[DSFLOW_QKV_ROPE] = dsf_matrix((size_t)t->pos + dsf_tile_length(t),
                                           (size_t)t->head_dim);
    status = dsf_unit_needs(op, tensors, 4, &need[DSFLOW_QKV_GRAD], err);
    if (status == DSFLOW_OK)
        status = shared_needs(op, a, &need[DSFLOW_QKV_SHARED], err);
    need[DSFLOW_QKV_SHARED_GRAD] = need[DSFLOW_QKV_SHARED];
    if (whole || !dsf_is_optional(op, DSFLOW_QKV_UNIT))
        need[DSFLOW_QKV_UNIT] = need[DSFLOW_QKV_GRAD];
    return status;
}

DSF_SEGMENT_CHECK(qkv)

#define PORT(name) (1u << DSFLOW_QKV_##name)

/* The products and a norm. Of keys, values and their gradients, and of the
 * table of rotations, the rows of the tile are meant; of what is shared the
 * part's rows, which backward_weight also writes; and of the unit that reads
 * only the norm. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = c->args;
    const struct dsflow_tile *t = &a->tile;
    const int weight = c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT;
    const double x = (double)dsf_tile_x(t);
    const size_t nkv = dsf_tile_kvwidth(t);
    double floats = 0, numbers = 0; /* fp32, and of the task's type */
    double shared = 0;              /* bytes */

    cost->flops = 2.0 * x * (double)(dsf_tile_qwidth(t) + nkv) +
                  (a->norm_w < 0 ? 0 : 8.0 * x);
    if (a->norm_w >= 0 && c->op->direction != DSFLOW_DIR_BACKWARD_INPUT)
        cost->flops += dsf_tile_rounding(t, x);
    if (t->rope && !weight)
        floats += (double)dsf_tile_length(t) * t->head_dim;
    if (a->k >= 0 && weight)
        shared = 2 * (double)dsflow_dtype_bytes(
                         c->shapes[DSFLOW_QKV_SHARED_GRAD].dtype,
                         (int64_t)nkv * t->width);
    else if (a->k >= 0)
        numbers += (double)nkv * t->width;
    if (a->norm_w >= 0 && weight)
        numbers += 2.0 * t->width;
    /* The rotation back is in place. */
    numbers += (double)t->rows * (double)nkv *
               (c->op->direction == DSFLOW_DIR_BACKWARD_INPUT ? 2 : 1);
    cost->bytes = DSF_CELL * floats + dsf_case_bytes(c, numbers) + shared +
                  dsf_ports_bytes(c, PORT(ROPE) | PORT(SHARED) |
                                         PORT(SHARED_GRAD) | PORT(KV) |
                                         PORT(DKV) | (weight ? PORT(UNIT) : 0));
}

/* One of the projections at a time, with a row of its bias; the rotation back,
 * row by row. */
struct dsf_scratch dsf_qkv_scratch(enum dsflow_direction direction,
                                   const struct dsflow_qkv_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    const size_t rows = (size_t)t->rows, width = (size_t)t->width;
    const size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    struct dsf_scratch s = {
        .narrow = a->norm_w < 0 ? 0 : rows * width,
        .product = dsf_most(dsf_projection_scratch(direction, rows, width, nq),
                            dsf_projection_scratch(direction, rows, width, nkv))
    };

    if (direction == DSFLOW_DIR_FORWARD)
        s.wide = (rows + 1) * dsf_most(nq, nkv);
    else if (direction == DSFLOW_DIR_BACKWARD_INPUT)
        s.wide = dsf_most(rows * width, dsf_most(nq, nkv));
    return s;
}

static size_t scratch(const struct dsflow_case *c)
{
    const struct dsflow_qkv_args *a = c->args;
    const size_t width = (size_t)a->tile.width;
    const size_t nq = dsf_tile_qwidth(&a->tile);
    const size_t nkv = dsf_tile_kvwidth(&a->tile);

    if (dsf_is_narrow(dsf_case_type(c)))
        return dsf_scratch_bytes(dsf_qkv_scratch(c->op->direction, a)) +
               dsf_most(
                   dsf_gradient_scratch(c, DSFLOW_QKV_GRAD, width,
                                        dsf_most(nq, nkv)),
                   dsf_gradient_scratch(c, DSFLOW_QKV_SHARED_GRAD, width, nkv));
    return dsf_normed_bytes(&a->tile, a->norm_w);
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(QKV, port, name, access, __VA_ARGS__)
#define NARROW .floats = DSFLOW_NARROW
#define SUM    .floats = DSFLOW_NARROW_SUM
#define ALONE  .floats = DSFLOW_NARROW_ALONE

DSF_SEGMENT_OP(qkv, forward, FORWARD, struct dsflow_qkv_args,
               .summary = "norm and projection to queries, keys and values",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW), P(UNIT, "unit", R, NARROW),
                            P(Q, "q", W, NARROW), P(KV, "kv", RW, NARROW),
                            P(ROPE, "rope", R, .optional = 1),
                            P(SHARED, "shared", R, .optional = 1, NARROW)));

DSF_SEGMENT_OP(qkv, backward_input, BACKWARD_INPUT, struct dsflow_qkv_args,
               .summary = "gradient of the input of qkv, and of its norm",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R, .optional = 1, NARROW), P(UNIT, "unit", R, NARROW),
                            P(ROPE, "rope", R, .optional = 1),
                            P(SHARED, "shared", R, .optional = 1, NARROW),
                            P(DQ, "dq", RW, NARROW), P(DKV, "dkv", RW, NARROW),
                            P(DRES, "dres", R, .optional = 1, NARROW), P(DX, "dx", W, SUM),
                            P(DNORM, "dnorm", W, .optional = 1)));

DSF_SEGMENT_OP(qkv, backward_weight, BACKWARD_WEIGHT, struct dsflow_qkv_args,
               .summary = "gradients of the parameters of qkv", .cost = cost,
               .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R, NARROW),
                            P(UNIT, "unit", R, .optional = 1, NARROW),
                            P(DQ, "dq", R, NARROW), P(DKV, "dkv", R, NARROW),
                            P(DNORM, "dnorm", R, .optional = 1),
                            P(GRAD, "grad", RW, ALONE),
                            P(SHARED_GRAD, "shared_grad", RW, .optional = 1,
                              ALONE)));
