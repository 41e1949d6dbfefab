/* test_attention_cuda.c - attention on a GPU that is not there, beside double
 * precision: whole sequences, and sequences in several tiles. */
#include "unit/codelets/attention.h"

#include "numbers.h"

static void on_gpu(const struct dsflow_op *op, const struct dsflow_call *call)
{
    const char *why = place_run(place_side(op->name), call);

    if (why != NULL)
        fail_msg("%s: %s", op->name, why);
}

static void forward_on_gpu(const struct dsflow_call *call)
{
    on_gpu(&dsf_op_attention_forward, call);
}

static void backward_on_gpu(const struct dsflow_call *call)
{
    on_gpu(&dsf_op_attention_backward_input, call);
}

static const struct dsflow_codelet gpu_forward = {
    .op = &dsf_op_attention_forward, .cpu = forward_on_gpu
};
static const struct dsflow_codelet gpu_backward = {
    .op = &dsf_op_attention_backward_input, .cpu = backward_on_gpu
};

/* Of all rows: what the reference makes of gradients. */
struct gradients {
    double *dq, *dkv;
};

static double *rows_of(double *all, size_t row, size_t width)
{
    return all + row * width;
}

/* What query i of head h says of itself and of key j. */
static void differentiate(const struct sequence *s, struct gradients *g,
                          size_t i, size_t j, size_t h)
{
    const struct dsflow_tile *t = &s->tile;
    size_t d = (size_t)t->head_dim, heads = (size_t)t->heads;
    size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    size_t at = h / (heads / (size_t)t->kv_heads) * d;
    const double *q = row_of(s, s->q, i, nq) + h * d;
    const double *k = row_of(s, s->kv, j, nkv) + at, *v = k + nkv / 2;
    const double *dout = row_of(s, s->datt, i, nq) + h * d;
    double *dq = rows_of(g->dq, i, nq) + h * d;
    double *dk = rows_of(g->dkv, j, nkv) + at, *dv = dk + nkv / 2;
    double scale = 1 / sqrt((double)d),
           delta = dot_ref(dout, s->y + i * nq + h * d, d);
    double p = exp(dot_ref(q, k, d) * scale - s->lsum[i * heads + h]);
    double ds = p * (dot_ref(dout, v, d) - delta) * scale;

    for (size_t c = 0; c < d; c++) {
        dv[c] += p * dout[c];
        dq[c] += ds * k[c];
        dk[c] += ds * q[c];
    }
}

/* Everything in double precision. `length`: of a sequence. */
static struct gradients reference(struct sequence *s, size_t rows,
                                  size_t length)
{
    const struct dsflow_tile *t = &s->tile;
    size_t heads = (size_t)t->heads;
    struct gradients g = { zeroes(rows * dsf_tile_qwidth(t)),
                           zeroes(rows * dsf_tile_kvwidth(t)) };

    for (size_t i = 0; i < rows; i++)
        for (size_t h = 0; h < heads; h++) {
            attend(s, i, i - i % length, h);
            for (size_t j = i - i % length; j <= i; j++)
                differentiate(s, &g, i, j, h);
        }
    return g;
}

/* Each number is near its reference; one that is none is far. */
static void check_near(const char *name, const float *a, const double *b,
                       size_t n, double bound)
{
    double squares = 0;

    for (size_t i = 0; i < n; i++)
        squares += b[i] * b[i];
    for (size_t i = 0; i < n; i++) {
        double size = sqrt(squares / (double)n) + fabs(b[i]);
        double most = 1e-7 + bound * size;

        if (!(fabs((double)a[i] - b[i]) <= most))
            fail_msg("%s, number %zu: %g, expected %g within %g", name, i,
                     (double)a[i], b[i], most);
    }
}

/* Numbers that the kernel leaves, in all tiles one after the other. */
static size_t keep(char *to, const struct tensor *tiles, int ntiles, size_t at)
{
    for (int i = 0; i < ntiles; i++) {
        memcpy(to + at, tiles[i].f, tiles[i].n * sizeof(float));
        at += tiles[i].n * sizeof(float);
    }
    return at;
}

static void soil_all(struct tensor *tiles, int ntiles)
{
    for (int i = 0; i < ntiles; i++)
        soil(&tiles[i]);
}

static void unset_all(struct sequence *s)
{
    soil_all(s->att, s->ntiles);
    soil_all(s->lse, s->ntiles);
    soil_all(s->dq, s->ntiles);
    soil_all(s->dkv, s->ntiles);
}

/* Both directions; delta is the reference's. */
static void run_both(struct sequence *s, char *left)
{
    size_t at = 0;

    unset_all(s);
    forward_by(s, &gpu_forward);
    backward_by(s, &gpu_backward);
    at = keep(left, s->att, s->ntiles, at);
    at = keep(left, s->lse, s->ntiles, at);
    at = keep(left, s->dq, s->ntiles, at);
    keep(left, s->dkv, s->ntiles, at);
}

static void check_all(const struct sequence *s, const struct gradients *g)
{
    const struct dsflow_tile *t = &s->tile;
    const double bound = s->type == DSFLOW_BF16   ? 0x1p-6
                         : s->type == DSFLOW_FP16 ? 0x1p-9
                                                  : 1e-5;
    size_t nq = dsf_tile_qwidth(t), nkv = dsf_tile_kvwidth(t);
    size_t heads = (size_t)t->heads;

    for (int i = 0; i < s->ntiles; i++) {
        size_t at = (size_t)s->pos[i], n = (size_t)s->rows[i];

        check_near("att", s->att[i].f, s->y + at * nq, n * nq, bound);
        check_near("lse", s->lse[i].f, s->lsum + at * heads, n * heads, 2e-6);
        check_near("dq", s->dq[i].f, g->dq + at * nq, n * nq, bound);
        check_near("dkv", s->dkv[i].f, g->dkv + at * nkv, n * nkv, bound);
    }
}

static void try_case(struct dsflow_tile t, enum dsflow_dtype type, int ntiles,
                     const int32_t *rows)
{
    struct sequence s = sequence_new(t, ntiles, rows);
    const size_t nq = dsf_tile_qwidth(&t), heads = (size_t)t.heads;
    size_t n = 0, bytes;
    struct gradients g;
    char *left;

    s.type = type;
    for (int i = 0; i < ntiles; i++) {
        n += (size_t)rows[i];
        if (type != DSFLOW_FP32) {
            tensor_round(&s.q[i], type);
            tensor_round(&s.kv[i], type);
            tensor_round(&s.datt[i], type);
        }
    }
    g = reference(&s, n, n / (size_t)t.nseq);
    for (int i = 0; i < ntiles; i++)
        for (size_t k = 0; k < s.delta[i].n; k++) {
            size_t row = (size_t)s.pos[i] + k / heads, h = k % heads;
            size_t d = (size_t)t.head_dim;

            s.delta[i].f[k] = (float)dot_ref(
                row_of(&s, s.datt, row, nq) + h * d, s.y + row * nq + h * d, d);
        }
    bytes = n * sizeof(float) * (2 * nq + 2 * heads + dsf_tile_kvwidth(&t));
    left = malloc(bytes);
    IN_EACH_ORDER(left, bytes, (void)0, run_both(&s, left));
    check_all(&s, &g);
    free(left);
    free(g.dq);
    free(g.dkv);
    sequence_free(&s);
}

#define TRY(type, nseq, heads, kv_heads, head_dim, ...)                        \
    try_case(shape(nseq, heads, kv_heads, head_dim), type,                     \
             sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t),             \
             (int32_t[]){ __VA_ARGS__ })

static void whole_sequences(void **state)
{
    TRY(DSFLOW_BF16, 1, 1, 1, 64, 1);
    TRY(DSFLOW_BF16, 2, 4, 2, 64, 300);
    TRY(DSFLOW_FP16, 1, 2, 1, 128, 129);
    TRY(DSFLOW_BF16, 1, 1, 1, 128, 70);
}

static void heads_of_any_width(void **state)
{
    TRY(DSFLOW_BF16, 1, 2, 2, 16, 40);
    TRY(DSFLOW_FP16, 1, 1, 1, 32, 140);
    TRY(DSFLOW_FP16, 1, 2, 1, 80, 66);
    TRY(DSFLOW_BF16, 1, 1, 1, 96, 70);
    TRY(DSFLOW_FP16, 1, 1, 1, 192, 70);
    TRY(DSFLOW_BF16, 1, 1, 1, 200, 20);
    TRY(DSFLOW_FP16, 1, 1, 1, 256, 70);
}

static void full_precision(void **state)
{
    TRY(DSFLOW_FP32, 1, 1, 1, 1, 1);
    TRY(DSFLOW_FP32, 2, 4, 2, 64, 140);
    TRY(DSFLOW_FP32, 1, 2, 1, 70, 67);
    TRY(DSFLOW_BF16, 3, 3, 1, 5, 30);
    TRY(DSFLOW_FP16, 1, 1, 1, 260, 10);
}

static void sequences_in_several_tiles(void **state)
{
    TRY(DSFLOW_BF16, 1, 2, 1, 64, 70, 64, 9);
    TRY(DSFLOW_BF16, 1, 1, 1, 32, 63, 5);
    TRY(DSFLOW_FP16, 1, 1, 1, 128, 3, 130);
    TRY(DSFLOW_BF16, 1, 1, 1, 128, 130, 70);
    TRY(DSFLOW_FP16, 1, 2, 2, 40, 33, 65);
    TRY(DSFLOW_FP32, 1, 2, 1, 66, 63, 3, 20);
}

int PLACE_MAIN(attention)(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_sequences),
        cmocka_unit_test(heads_of_any_width),
        cmocka_unit_test(full_precision),
        cmocka_unit_test(sequences_in_several_tiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
