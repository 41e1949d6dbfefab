/* task_qkv.c - norm, and projection to queries, keys and values; of a part, to
 * those of some heads. */
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

    if (status < 0)
        return status;
    if (whole || !dsf_is_optional(op, DSFLOW_QKV_X))
        need[DSFLOW_QKV_X] = dsf_rows_of(t, width);
    need[DSFLOW_QKV_Q] = need[DSFLOW_QKV_DQ] = dsf_rows_of(t, nq);
    need[DSFLOW_QKV_KV] = need[DSFLOW_QKV_DKV] = dsf_rows_of(t, nkv);
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

/* The products and a norm. Of the table of rotations the rows of the tile are
 * read; of what is shared the part's rows, which backward_weight also writes;
 * and of the unit that reads only the norm. */
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = c->args;
    const struct dsflow_tile *t = &a->tile;
    const int weight = c->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT;
    const double x = (double)dsf_tile_x(t);
    const size_t nkv = dsf_tile_kvwidth(t);
    size_t floats = 0;

    cost->flops = 2.0 * x * (double)(dsf_tile_qwidth(t) + nkv) +
                  (a->norm_w < 0 ? 0 : 8.0 * x);
    if (t->rope && !weight)
        floats += dsf_tile_length(t) * (size_t)t->head_dim;
    if (a->k >= 0)
        floats += (weight ? 2 : 1) * nkv * (size_t)t->width;
    if (a->norm_w >= 0 && weight)
        floats += 2 * (size_t)t->width;
    cost->bytes =
        (double)(floats * DSF_CELL) +
        dsf_ports_bytes(c, PORT(ROPE) | PORT(SHARED) | PORT(SHARED_GRAD) |
                               (weight ? PORT(UNIT) : 0));
}

static size_t scratch(const struct dsflow_case *c)
{
    const struct dsflow_qkv_args *a = c->args;

    return dsf_normed_bytes(&a->tile, a->norm_w);
}

/* A port, by its name in the list of the segment. */
#define P(port, name, access, ...)                                             \
    DSF_PORT(QKV, port, name, access, __VA_ARGS__)

DSF_SEGMENT_OP(qkv, forward, FORWARD, struct dsflow_qkv_args,
               .summary = "norm and projection to queries, keys and values",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R), P(UNIT, "unit", R), P(Q, "q", W),
                            P(KV, "kv", W), P(ROPE, "rope", R, .optional = 1),
                            P(SHARED, "shared", R, .optional = 1)));

DSF_SEGMENT_OP(qkv, backward_input, BACKWARD_INPUT, struct dsflow_qkv_args,
               .summary = "gradient of the input of qkv, and of its norm",
               .cost = cost, .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R, .optional = 1), P(UNIT, "unit", R),
                            P(ROPE, "rope", R, .optional = 1),
                            P(SHARED, "shared", R, .optional = 1),
                            P(DQ, "dq", RW), P(DKV, "dkv", RW),
                            P(DRES, "dres", R, .optional = 1), P(DX, "dx", W),
                            P(DNORM, "dnorm", W, .optional = 1)));

DSF_SEGMENT_OP(qkv, backward_weight, BACKWARD_WEIGHT, struct dsflow_qkv_args,
               .summary = "gradients of the parameters of qkv", .cost = cost,
               .scratch = scratch,
               DSFLOW_PORTS(P(X, "x", R), P(UNIT, "unit", R, .optional = 1),
                            P(DQ, "dq", R), P(DKV, "dkv", R),
                            P(DNORM, "dnorm", R, .optional = 1),
                            P(GRAD, "grad", RW),
                            P(SHARED_GRAD, "shared_grad", RW, .optional = 1)));
