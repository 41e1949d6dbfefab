/* task_attention.c - queries of one tile against keys of one tile. */
#include "tasks/tasks.h"
#include "tasks/tile.h"

int dsf_attention_needs(const struct dsflow_op *op, const void *args,
                        struct dsf_need *need, struct dsflow_err *err)
{
    const struct dsflow_attention_args *a = args;
    const struct dsflow_tile *t = &a->tile;
    const size_t nq = dsf_tile_qwidth(t), heads = (size_t)t->heads;
    int status = dsf_tile_check(op, t, err);

    if (status < 0)
        return status;
    if (a->diagonal && a->keys != t->rows)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: keys: %d: expected the %d rows of the tile",
                           op->name, (int)a->keys, (int)t->rows);
    if (!a->diagonal && t->nseq != 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: nseq: %d: expected 1 for keys of another tile",
                           op->name, (int)t->nseq);
    if (!a->diagonal && (a->keys < 1 || a->keys > t->pos))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: keys: %d: expected 1 to %d, before the tile",
                           op->name, (int)a->keys, (int)t->pos);
    need[DSFLOW_ATTENTION_Q] = need[DSFLOW_ATTENTION_ATT] =
        need[DSFLOW_ATTENTION_DATT] = need[DSFLOW_ATTENTION_DQ] =
            dsf_rows_of(t, nq);
    need[DSFLOW_ATTENTION_KV] = need[DSFLOW_ATTENTION_DKV] =
        dsf_matrix((size_t)a->keys, dsf_tile_kvwidth(t));
    need[DSFLOW_ATTENTION_LSE] = dsf_matrix(2, (size_t)t->rows * heads);
    need[DSFLOW_ATTENTION_DELTA] = dsf_rows_of(t, heads);
    return DSFLOW_OK;
}

/* Pairs of a query and a key that it sees. */
static double pairs(const struct dsflow_attention_args *a)
{
    double length = (double)dsf_tile_length(&a->tile);

    return a->diagonal ? a->tile.rows * (length + 1) / 2
                       : (double)a->tile.rows * a->keys;
}

/* Of all heads; each costs an exponential. */
static double scores(const struct dsflow_attention_args *a)
{
    return pairs(a) * a->tile.heads;
}

static size_t keys_of_one(const struct dsflow_attention_args *a)
{
    return (size_t)a->keys / (size_t)a->tile.nseq;
}

DSF_SEGMENT_CHECK(forward, attention)

/* Two products of a score's length, and about 10 for its exponential. */
static void forward_cost(const struct dsflow_shape *shapes, unsigned n,
                         const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_attention_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    cost->flops = scores(a) * (4.0 * t->head_dim + 10);
    cost->scores = scores(a);
    cost->bytes = dsf_ports_bytes(&dsf_op_attention_forward, shapes, n);
}

/* Keys (transposed) and values of a head; a strip of queries, outputs and
 * scores. */
static size_t forward_scratch(const struct dsflow_shape *shapes, unsigned n,
                              const void *args)
{
    const struct dsflow_attention_args *a = args;
    size_t d = (size_t)a->tile.head_dim, ldd = dsf_round16(d);
    size_t keys = keys_of_one(a);

    return DSF_CELL * (d * dsf_round16(keys) + keys * ldd +
                            DSF_STRIP_FORWARD * (2 * ldd + DSF_KEY_BLOCK));
}

const struct dsflow_op dsf_op_attention_forward = {
    .abi = DSFLOW_OP_ABI,
    .name = "attention.forward",
    .segment = "attention",
    .direction = DSFLOW_DIR_FORWARD,
    .summary = "attention of a tile of queries to a tile of keys",
    .args_size = sizeof(struct dsflow_attention_args),
    .nports = DSFLOW_ATTENTION_LSE + 1,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_ATTENTION_Q] = { "q", DSFLOW_R },
            [DSFLOW_ATTENTION_KV] = { "kv", DSFLOW_R },
            [DSFLOW_ATTENTION_ATT] = { "att", DSFLOW_RW },
            [DSFLOW_ATTENTION_LSE] = { "lse", DSFLOW_RW },
        },
    .check = forward_check,
    .cost = forward_cost,
    .scratch = forward_scratch,
};

DSF_SEGMENT_CHECK(backward_input, attention)

/* Five products, one of them the scores again. */
static void backward_input_cost(const struct dsflow_shape *shapes, unsigned n,
                                const void *args, struct dsflow_cost *cost)
{
    const struct dsflow_attention_args *a = args;
    const struct dsflow_tile *t = &a->tile;

    cost->flops = scores(a) * (10.0 * t->head_dim + 12);
    cost->scores = scores(a);
    cost->bytes = dsf_ports_bytes(&dsf_op_attention_backward_input, shapes, n);
}

/* Keys and values transposed, keys, gradients of both; a strip of queries,
 * gradients of outputs and of queries, scores and their gradients. */
static size_t backward_input_scratch(const struct dsflow_shape *shapes,
                                     unsigned n, const void *args)
{
    const struct dsflow_attention_args *a = args;
    size_t d = (size_t)a->tile.head_dim, ldd = dsf_round16(d);
    size_t keys = keys_of_one(a);

    return DSF_CELL * (2 * d * dsf_round16(keys) + 3 * keys * ldd +
                            DSF_STRIP_BACKWARD * (3 * ldd + 2 * DSF_KEY_BLOCK));
}

const struct dsflow_op dsf_op_attention_backward_input = {
    .abi = DSFLOW_OP_ABI,
    .name = "attention.backward_input",
    .segment = "attention",
    .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .summary = "gradients of queries, keys and values",
    .args_size = sizeof(struct dsflow_attention_args),
    .nports = DSFLOW_ATTENTION_NPORTS,
    .ports =
        (const struct dsflow_port[]){
            [DSFLOW_ATTENTION_Q] = { "q", DSFLOW_R },
            [DSFLOW_ATTENTION_KV] = { "kv", DSFLOW_R },
            [DSFLOW_ATTENTION_LSE] = { "lse", DSFLOW_R },
            [DSFLOW_ATTENTION_DATT] = { "datt", DSFLOW_R },
            [DSFLOW_ATTENTION_DELTA] = { "delta", DSFLOW_R },
            [DSFLOW_ATTENTION_DQ] = { "dq", DSFLOW_RW },
            [DSFLOW_ATTENTION_DKV] = { "dkv", DSFLOW_RW },
        },
    .check = backward_input_check,
    .cost = backward_input_cost,
    .scratch = backward_input_scratch,
};
