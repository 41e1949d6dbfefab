/* muon.c - an optimizer: Muon (Jordan et al. 2024) for the matrices of layers (a
 * fused one, as GPT-2's q, k and v, is one), with Nesterov's momentum as a mean
 * (m = 0.95 m + 0.05 g) and the factor sqrt(max(1, rows / cols)); AdamW for the
 * rest, at the rate [plain_muon] adam * [optimizer] lr. job.toml:
 * kind = "plain_muon". (The "muon" that dsflow has multiplies faster.) */
#include <dsflow/plugin.h>
#include <math.h>
#include <string.h>

struct muon { /* [plain_muon] */
    double momentum, adam;
};
static const struct dsflow_option options[] = {
    DSFLOW_OPTION_FLOAT(struct muon, momentum, "0.95", 0, 1, "Muon's"),
    DSFLOW_OPTION_FLOAT(struct muon, adam, "0.1", 0, 1e3, "AdamW's rate / lr"),
    { 0 },
};
struct args { /* of a task: what dsflow fills, then what `fill` does */
    struct dsflow_update_args at;
    struct dsflow_optimizer_keys keys;
    struct muon muon;
};

static int fill(const void *part, const struct dsflow_optimizer_keys *keys,
                void *args, struct dsflow_err *err)
{
    ((struct args *)args)->keys = *keys;
    ((struct args *)args)->muon = *(const struct muon *)part;
    return DSFLOW_OK;
}

/* c = alpha a b + beta c: a has rows x n numbers, b has n x cols. */
static void multiply(int64_t rows, int64_t n, int64_t cols, float alpha,
                     const float *a, const float *b, float beta, float *c)
{
    for (int64_t i = 0; i < rows; i++, a += n, c += cols) {
        for (int64_t j = 0; j < cols; j++)
            c[j] = beta != 0 ? beta * c[j] : 0;
        for (int64_t k = 0; k < n; k++)
            for (int64_t j = 0; j < cols; j++)
                c[j] += alpha * a[k] * b[k * cols + j];
    }
}

/* Newton and Schulz, five times: X = a X + (b A + c A A) X with A = X X^T (from
 * the other side where X is tall). Room for X once more, A and B is at `t`. */
static void orthogonalize(int64_t rows, int64_t cols, float *x, float *t)
{
    int64_t least = rows < cols ? rows : cols, n = rows * cols;
    float *A = t + n, *B = A + least * least;
    double sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += (double)x[i] * x[i];
    for (int64_t i = 0; i < n; i++)
        x[i] /= (float)(sqrt(sum) + 1e-7);
    for (int turn = 0; turn < 5; turn++) {
        for (int64_t i = 0; i < n; i++)
            t[i % cols * rows + i / cols] = x[i]; /* X^T */
        multiply(least, n / least, least, 1, rows > cols ? t : x,
                 rows > cols ? x : t, 0, A);
        memcpy(B, A, least * least * sizeof(float));
        multiply(least, least, least, 2.0315f, A, A, -4.7750f, B);
        memcpy(t, x, n * sizeof(float));
        multiply(rows, least, cols, 1, rows > cols ? t : B,
                 rows > cols ? B : t, 3.4445f, x);
    }
}

static void muon(const struct args *a, const struct dsflow_control *c,
                 const struct dsflow_tensor *t, const float *g, float *p,
                 float *m, float *v, float *x)
{
    int64_t n = t->rows * t->cols;
    float mu = (float)a->muon.momentum, scale = (1 - mu) * (float)c->scale;
    float rate = (float)(c->lr * sqrt(fmax(1, (double)t->rows / t->cols)));

    for (int64_t i = 0; i < n; i++) {
        m[i] = mu * m[i] + scale * g[i];
        x[i] = mu * m[i] + scale * g[i];
    }
    orthogonalize(t->rows, t->cols, x, x + n);
    for (int64_t i = 0; i < n; i++)
        p[i] -= (float)(c->lr * a->keys.weight_decay) * p[i] + rate * x[i];
}

static void adamw(const struct args *a, const struct dsflow_control *c,
                  const struct dsflow_tensor *t, const float *g, float *p,
                  float *m, float *v, float *x)
{
    float b1 = (float)a->keys.betas[0], b2 = (float)a->keys.betas[1];
    float lr = (float)(c->lr * a->muon.adam), step = lr / (float)c->correction1;
    float decay = t->decays ? lr * (float)a->keys.weight_decay : 0;
    float corr = (float)c->correction2, eps = (float)a->keys.eps;

    for (int64_t i = 0; i < t->rows * t->cols; i++) {
        float gi = g[i] * (float)c->scale;

        m[i] = b1 * m[i] + (1 - b1) * gi;
        v[i] = b2 * v[i] + (1 - b2) * gi * gi;
        p[i] -= decay * p[i] + step * m[i] / (sqrtf(v[i] / corr) + eps);
    }
}

static void update(const struct dsflow_call *call)
{
    const struct args *a = call->args;
    float *g = (float *)call->bufs[1].ptr + a->at.grad_at;
    float *p = (float *)call->bufs[2].ptr + a->at.param_at;
    float *m = call->bufs[3].ptr, *v = call->bufs[4].ptr;

    for (int i = 0; i < a->at.ntensors; i++) {
        const struct dsflow_tensor *t = &a->at.tensors[i];

        (t->kind == DSFLOW_MATRIX ? muon : adamw)(
            a, call->bufs[0].ptr, t, g + t->at, p + t->at, m + t->at, v + t->at,
            call->scratch);
    }
}

/* X twice, A and B, which are no larger. Units begin with their matrices. */
static size_t scratch(const struct dsflow_case *c)
{
    const struct dsflow_update_args *at = c->args;

    return at->tensors[0].kind == DSFLOW_MATRIX ? 16 * (size_t)at->elems : 0;
}

static const struct dsflow_op op = {
    .abi = DSFLOW_OP_ABI, .name = "plain_muon",
    .summary = "Muon's update of a unit",
    .args_size = sizeof(struct args), .direction = DSFLOW_DIR_UPDATE,
    DSFLOW_PORTS({ "control", DSFLOW_R },
                 { "grad", DSFLOW_R, .slice = DSFLOW_ELEMS },
                 { "param", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                 { "m", DSFLOW_RW, .slice = DSFLOW_ELEMS },
                 { "v", DSFLOW_RW, .slice = DSFLOW_ELEMS }),
    .check = dsflow_update_check, .slice = dsflow_update_slice,
    .scratch = scratch, .update = 1,
};
static const struct dsflow_codelet codelet = {
    .abi = DSFLOW_CODELET_ABI, .op = &op, .cpu = update,
};
static const struct dsflow_optimizer optimizer = {
    .abi = DSFLOW_OPTIMIZER_ABI, .name = "plain_muon", .op = &op, .fill = fill,
    .summary = "Muon for the matrices of layers, AdamW for the rest",
    .states = (const char *const[]){ "m", "v", NULL },
    .whole = DSFLOW_WHOLE_TENSORS,
    .options = options, .part_size = sizeof(struct muon),
};
const struct dsflow_plugin dsflow_plugin = {
    .abi = DSFLOW_PLUGIN_ABI, .name = "muon", .summary = "Muon",
    .ops = (const struct dsflow_op *const[]){ &op, NULL },
    .codelets = (const struct dsflow_codelet *const[]){ &codelet, NULL },
    .optimizers = (const struct dsflow_optimizer *const[]){ &optimizer, NULL },
};
