/* attention.c - a segment: the attention of Vaswani et al. 2017 (eq. 1), as
 * plainly as it can be written. job.toml: [model] attention = "plain". `dsflow
 * codelet check` compares it with the built-in one; one that computes something
 * else brings trials with a reference. */
#include <dsflow/plugin.h>
#include <math.h>
#include <string.h>

static float dot(const float *a, const float *b, int n)
{
    float sum = 0;

    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void add(float *to, float factor, const float *from, int n)
{
    for (int i = 0; i < n; i++)
        to[i] += factor * from[i];
}

/* A row sees the keys of its sequence up to its own, or all of an earlier tile.
 * lse has the maximum and the sum so far (Milakov and Gimelshein 2018): a new
 * maximum shrinks what was summed up. Heads may share a head `g` of kv. */
static void forward(const struct dsflow_call *call)
{
    const struct dsflow_attention_args *a = call->args;
    const int rows = a->tile.rows, heads = a->tile.heads;
    const int groups = a->tile.kv_heads, d = a->tile.head_dim;
    float(*q)[heads][d] = call->bufs[DSFLOW_ATTENTION_Q].ptr;
    float(*kv)[2][groups][d] = call->bufs[DSFLOW_ATTENTION_KV].ptr;
    float(*att)[heads][d] = call->bufs[DSFLOW_ATTENTION_ATT].ptr;
    float(*lse)[rows][heads] = call->bufs[DSFLOW_ATTENTION_LSE].ptr;

    for (int i = 0; i < rows * heads; i++) {
        int r = i / heads, h = i % heads, g = h * groups / heads;
        int from = a->diagonal ? r - r % (rows / a->tile.nseq) : 0;
        int to = a->diagonal ? r + 1 : a->keys;
        float *max = &lse[0][r][h], *sum = &lse[1][r][h];

        if (a->first) { /* nothing so far */
            memset(att[r][h], 0, d * sizeof(float));
            *max = -INFINITY;
            *sum = 0;
        }
        for (int k = from; k < to; k++) {
            float score = dot(q[r][h], kv[k][0][g], d) / sqrtf(d);
            float top = fmaxf(score, *max), p = expf(score - top);
            float shrink = expf(*max - top);

            add(att[r][h], shrink - 1, att[r][h], d);
            add(att[r][h], p, kv[k][1][g], d);
            *sum = *sum * shrink + p;
            *max = top;
        }
        if (a->last) {
            add(att[r][h], 1 / *sum - 1, att[r][h], d);
            *max += logf(*sum); /* all that the backward pass needs */
            *sum = 1;
        }
    }
}

/* p: the softmax again; delta: the sum of att * datt, which `out` gives.
 * dscore = p (datt . v - delta); dv = p datt, dq = dscore k, dk = dscore q. */
static void backward_input(const struct dsflow_call *call)
{
    const struct dsflow_attention_args *a = call->args;
    const int rows = a->tile.rows, heads = a->tile.heads;
    const int groups = a->tile.kv_heads, d = a->tile.head_dim;
    float(*q)[heads][d] = call->bufs[DSFLOW_ATTENTION_Q].ptr;
    float(*kv)[2][groups][d] = call->bufs[DSFLOW_ATTENTION_KV].ptr;
    float(*datt)[heads][d] = call->bufs[DSFLOW_ATTENTION_DATT].ptr;
    float *lse = call->bufs[DSFLOW_ATTENTION_LSE].ptr;
    float *delta = call->bufs[DSFLOW_ATTENTION_DELTA].ptr;
    float(*dq)[heads][d] = call->bufs[DSFLOW_ATTENTION_DQ].ptr;
    float(*dkv)[2][groups][d] = call->bufs[DSFLOW_ATTENTION_DKV].ptr;

    for (int port = DSFLOW_ATTENTION_DQ; port <= DSFLOW_ATTENTION_DKV; port++)
        /* sums, that may be new */
        if (call->fresh >> port & 1)
            memset(call->bufs[port].ptr, 0, call->bufs[port].bytes);
    for (int i = 0; i < rows * heads; i++) {
        int r = i / heads, h = i % heads, g = h * groups / heads;
        int from = a->diagonal ? r - r % (rows / a->tile.nseq) : 0;
        int to = a->diagonal ? r + 1 : a->keys;

        for (int k = from; k < to; k++) {
            float score = dot(q[r][h], kv[k][0][g], d) / sqrtf(d);
            float p = expf(score - lse[i]);
            float dp = dot(datt[r][h], kv[k][1][g], d);
            float dscore = p * (dp - delta[i]) / sqrtf(d);

            add(dkv[k][1][g], p, datt[r][h], d);
            add(dq[r][h], dscore, kv[k][0][g], d);
            add(dkv[k][0][g], dscore, q[r][h], d);
        }
    }
}

/* What it takes the place of knows which sizes are right, and their cost. */
static const struct dsflow_op *builtin(unsigned n)
{
    return dsflow_op_find(n == 4 ? "attention.forward"
                                 : "attention.backward_input");
}
static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return builtin(c->n)->check(c, err);
}
static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    builtin(c->n)->cost(c, cost);
}

static const struct dsflow_op forward_op = {
    .abi = DSFLOW_OP_ABI, .name = "plain.forward", .summary = "attention",
    .segment = "attention", .direction = DSFLOW_DIR_FORWARD, .check = check,
    .cost = cost, .args_size = sizeof(struct dsflow_attention_args),
    DSFLOW_PORTS([DSFLOW_ATTENTION_Q] = { "q", DSFLOW_R },
        [DSFLOW_ATTENTION_KV] = { "kv", DSFLOW_R },
        [DSFLOW_ATTENTION_ATT] = { "att", DSFLOW_RW },
        [DSFLOW_ATTENTION_LSE] = { "lse", DSFLOW_RW }),
};
static const struct dsflow_op backward_input_op = {
    .abi = DSFLOW_OP_ABI, .name = "plain.backward_input", .summary = "gradient",
    .segment = "attention", .direction = DSFLOW_DIR_BACKWARD_INPUT,
    .args_size = sizeof(struct dsflow_attention_args), .check = check,
    .cost = cost, DSFLOW_PORTS([DSFLOW_ATTENTION_Q] = { "q", DSFLOW_R },
        [DSFLOW_ATTENTION_KV] = { "kv", DSFLOW_R },
        [DSFLOW_ATTENTION_LSE] = { "lse", DSFLOW_R },
        [DSFLOW_ATTENTION_DATT] = { "datt", DSFLOW_R },
        [DSFLOW_ATTENTION_DELTA] = { "delta", DSFLOW_R },
        [DSFLOW_ATTENTION_DQ] = { "dq", DSFLOW_RW },
        [DSFLOW_ATTENTION_DKV] = { "dkv", DSFLOW_RW }),
};
static const struct dsflow_codelet forward_codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &forward_op, .cpu = forward,
}, backward_input_codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &backward_input_op, .cpu = backward_input,
};
static const struct dsflow_segment plain = {
    .abi = DSFLOW_SEGMENT_ABI, .name = "plain", .replaces = "attention",
    .summary = "attention, written plainly", .forward = &forward_op,
    .backward_input = &backward_input_op,
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI, .name = "attention", .summary = "plain attention",
    .ops = (const struct dsflow_op *const[]){
        &forward_op, &backward_input_op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){
        &forward_codelet, &backward_input_codelet, NULL },
    .segments = (const struct dsflow_segment *const[]){ &plain, NULL },
};
