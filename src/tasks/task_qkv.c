/* task_qkv.c - norm, and projection to queries, keys and values; of a part, to
 * those of some heads. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

/* What is shared: rows of keys and values that several parts use. */
static int shared_needs(const struct dsflow_op *op,
                        const struct dsflow_qkv_args *a, struct dsf_need *need,
                        struct dsflow_err *err)
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
                  struct dsf_need *need, struct dsflow_err *err)
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
    if (whole || op != &dsf_op_qkv_backward_input)
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
    if (whole || op != &dsf_op_qkv_backward_weight)
        need[DSFLOW_QKV_UNIT] = need[DSFLOW_QKV_GRAD];
    return status;
}

/* The products and a norm. Of the table of rotations the rows of the tile are
 * read, and of what is shared the part's rows, `shared` times. */
static void qkv_cost(const struct dsflow_op *op,
                     const struct dsflow_shape *shapes, unsigned n,
                     const void *args, int shared, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const double x = (double)dsf_tile_x(t);
    const size_t nkv = dsf_tile_kvwidth(t), skip[] = { DSFLOW_QKV_ROPE,
                                                       DSFLOW_QKV_SHARED,
                                                       DSFLOW_QKV_SHARED_GRAD };
    size_t floats = 0;

    cost->flops = 2.0 * x * (double)(dsf_tile_qwidth(t) + nkv) +
                  (a->norm_w < 0 ? 0 : 8.0 * x);
    cost->bytes = dsf_ports_bytes(op, shapes, n);
    for (size_t i = 0; i < 3; i++)
        if (skip[i] < n)
            cost->bytes -= (double)shapes[skip[i]].bytes *
                           (skip[i] == DSFLOW_QKV_SHARED_GRAD ? 2 : 1);
    if (t->rope && op != &dsf_op_qkv_backward_weight)
        floats += dsf_tile_length(t) * (size_t)t->head_dim;
    if (a->k >= 0)
        floats += (size_t)shared * nkv * (size_t)t->width;
    cost->bytes += (double)(floats * DSF_CELL);
}

/* The normed tile, or the gradient of it. */
static size_t scratch(const struct dsflow_shape *shapes, unsigned n,
                      const void *args)
{
    const struct dsflow_qkv_args *a = args;

    return a->norm_w < 0 ? 0 : dsf_tile_x(&a->tile) * DSF_CELL;
}

DSF_SEGMENT_CHECK(forward, qkv)

static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    qkv_cost(&dsf_op_qkv_forward, shapes, n, args, 1, cost);
}

const struct dsflow_op dsf_op_qkv_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv.forward",
    .segment = "qkv",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "norm and projection to queries, keys and values",
    .args_size = sizeof(struct dsflow_qkv_args),
    .nports = DSFLOW_QKV_SHARED + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_QKV_X] = { "x", DSFLOW_R },
            [DSFLOW_QKV_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_QKV_Q] = { "q", DSFLOW_W },
            [DSFLOW_QKV_KV] = { "kv", DSFLOW_W },
            [DSFLOW_QKV_ROPE] = { "rope", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_SHARED] = { "shared", DSFLOW_R, .optional = 1 },
        },
    .check = forward_check,
    .cost = forward_cost,
    .scratch = scratch,
};

DSF_SEGMENT_CHECK(backward_input, qkv)

static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    qkv_cost(&dsf_op_qkv_backward_input, shapes, n, args, 1, cost);
}

const struct dsflow_op dsf_op_qkv_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv.backward_input",
    .segment = "qkv",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradient of the input of qkv, and of its norm",
    .args_size = sizeof(struct dsflow_qkv_args),
    .nports = DSFLOW_QKV_DNORM + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_QKV_X] = { "x", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_UNIT] = { "unit", DSFLOW_R },
            [DSFLOW_QKV_ROPE] = { "rope", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_SHARED] = { "shared", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_DQ] = { "dq", DSFLOW_RW },
            [DSFLOW_QKV_DKV] = { "dkv", DSFLOW_RW },
            [DSFLOW_QKV_DRES] = { "dres", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_DX] = { "dx", DSFLOW_W },
            [DSFLOW_QKV_DNORM] = { "dnorm", DSFLOW_W, .optional = 1 },
        },
    .check = backward_input_check,
    .cost = backward_input_cost,
    .scratch = scratch,
};

DSF_SEGMENT_CHECK(backward_weight, qkv)

/* Of the unit only the norm is read; of the gradient all is, and what is shared
 * is read and written. */
static void backward_weight_cost(const struct dsflow_shape *shapes, unsigned n,
                                 const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_qkv_args *a = args;

    qkv_cost(&dsf_op_qkv_backward_weight, shapes, n, args, 2, cost);
    if (a->norm_w >= 0)
        cost->bytes +=
            8.0 * a->tile.width - (double)shapes[DSFLOW_QKV_UNIT].bytes;
}

const struct dsflow_op dsf_op_qkv_backward_weight = {
    .abi = DSFLOW_OP_ABI,
    .name = "qkv.backward_weight",
    .segment = "qkv",
    .direction = DSFLOW_DIR_BACKWARD_WEIGHT,
    .summary = "gradients of the parameters of qkv",
    .args_size = sizeof(struct dsflow_qkv_args),
    .nports = DSFLOW_QKV_SHARED_GRAD + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_QKV_X] = { "x", DSFLOW_R },
            [DSFLOW_QKV_UNIT] = { "unit", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_DQ] = { "dq", DSFLOW_R },
            [DSFLOW_QKV_DKV] = { "dkv", DSFLOW_R },
            [DSFLOW_QKV_DNORM] = { "dnorm", DSFLOW_R, .optional = 1 },
            [DSFLOW_QKV_GRAD] = { "grad", DSFLOW_RW },
            [DSFLOW_QKV_SHARED_GRAD] = { "shared_grad", DSFLOW_RW,
                                         .optional = 1 },
        },
    .check = backward_weight_check,
    .cost = backward_weight_cost,
    .scratch = scratch,
};
