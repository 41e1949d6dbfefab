/* test_attention_cuda.c - attention on a GPU that is not there, beside double
 * precision: whole sequences, and sequences in several tiles; all keys, or
 * those of a window and of a layout. */
#include "attention_on_gpu.h"
#include "numbers.h"

static void on_gpu(const struct dsflow_op *op, const struct dsflow_call *call)
{
    const char *why = place_run(place_side(op->name), call);

    if (why != NULL)
        fail_msg("%s: %s", op->name, why);
}

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
            const size_t begin = i - i % length;

            attend(s, i, begin, h);
            for (size_t j = first_seen(s, i, begin); j <= i; j++)
                if (is_on(s, h, i - begin, j - begin))
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
    const double bound = s->type == DSFLOW_BF16   ? 0x3p-7
                         : s->type == DSFLOW_FP16 ? 0x3p-10
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

/* What queries see beside their own token: `window` tokens (0: all), and about
 * one of `of` blocks of so many tokens (0: all), alike for all heads or not. */
struct sight {
    int32_t window, block, of;
    int each_head;
};

static void set_sight(struct sequence *s, struct sight sight)
{
    s->window = sight.window;
    if (sight.block > 0)
        sequence_lay_out(s, sight.block, sight.each_head ? s->tile.heads : 1,
                         sight.of, 7);
}

/* Keys of a sequence, each twice as long as the one 2^`per` tokens before it:
 * what scores a query meets grows with them. */
static void grow(struct sequence *s, int per)
{
    const size_t width = dsf_tile_kvwidth(&s->tile);

    for (int i = 0; i < s->ntiles; i++) {
        for (size_t k = 0; k < s->kv[i].n; k++)
            if (k % width < width / 2)
                s->kv[i].f[k] *=
                    exp2f(ldexpf((float)((size_t)s->pos[i] + k / width), -per));
        tensor_from_floats(&s->kv[i]);
    }
}

/* In each order, beside the reference; the sequence is freed. */
static void try_sequence(struct sequence s, enum dsflow_dtype type)
{
    const struct dsflow_tile t = s.tile;
    const size_t nq = dsf_tile_qwidth(&t), heads = (size_t)t.heads;
    size_t n = 0, bytes;
    struct gradients g;
    char *left;

    s.type = type;
    s.tile.context = 2000;
    for (int i = 0; i < s.ntiles; i++) {
        n += (size_t)s.rows[i];
        if (type != DSFLOW_FP32) {
            tensor_round(&s.q[i], type);
            tensor_round(&s.kv[i], type);
            tensor_round(&s.datt[i], type);
        }
    }
    g = reference(&s, n, n / (size_t)t.nseq);
    for (int i = 0; i < s.ntiles; i++)
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

static void try_case(struct dsflow_tile t, enum dsflow_dtype type,
                     struct sight sight, int ntiles, const int32_t *rows)
{
    struct sequence s = sequence_new(t, ntiles, rows);

    set_sight(&s, sight);
    try_sequence(s, type);
}

#define TRY_SEEING(sight, type, nseq, heads, kv_heads, head_dim, ...)          \
    try_case(shape(nseq, heads, kv_heads, head_dim), type, sight,              \
             sizeof((int32_t[]){ __VA_ARGS__ }) / sizeof(int32_t),             \
             (int32_t[]){ __VA_ARGS__ })
#define SIGHT(...)     ((struct sight){ __VA_ARGS__ })
#define WINDOW(tokens) SIGHT(.window = tokens)
#define BLOCKS(...)    SIGHT(0, __VA_ARGS__)
#define TRY(...)       TRY_SEEING(WINDOW(0), __VA_ARGS__)

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

static void try_growing(enum dsflow_dtype type, int32_t head_dim, int per,
                        struct sight sight)
{
    struct sequence s =
        sequence_new(shape(1, 1, 1, head_dim), 2, (int32_t[]){ 200, 70 });

    set_sight(&s, sight);
    grow(&s, per);
    try_sequence(s, type);
}

/* A little from step to step, so that a maximum stays, and by much. */
static void scores_that_grow(void **state)
{
    try_growing(DSFLOW_BF16, 64, 8, (struct sight){ 0 });
    try_growing(DSFLOW_BF16, 64, 6, (struct sight){ 0 });
    try_growing(DSFLOW_FP16, 128, 8, (struct sight){ 0 });
    try_growing(DSFLOW_FP16, 128, 5, (struct sight){ 0 });
    try_growing(DSFLOW_FP16, 40, 6, (struct sight){ .window = 100 });
}

static void windows(void **state)
{
    TRY_SEEING(WINDOW(2), DSFLOW_BF16, 1, 1, 1, 64, 70);
    TRY_SEEING(WINDOW(37), DSFLOW_BF16, 2, 2, 1, 64, 360);
    TRY_SEEING(WINDOW(64), DSFLOW_FP16, 1, 1, 1, 128, 200);
    TRY_SEEING(WINDOW(20), DSFLOW_BF16, 1, 1, 1, 40, 70, 64, 9, 33);
    TRY_SEEING(WINDOW(60), DSFLOW_FP16, 1, 1, 1, 200, 100);
    TRY_SEEING(WINDOW(9), DSFLOW_FP32, 2, 2, 1, 20, 220);
    TRY_SEEING(WINDOW(70), DSFLOW_FP32, 1, 1, 1, 66, 63, 3, 90);
}

/* Ends of windows against ends of what a block, a warp and a step have: one
 * less, as many, and one or two more. */
static void windows_of_any_length(void **state)
{
    static const int32_t lengths[] = { 3,  15, 16, 17, 18, 31, 32, 33,
                                       34, 47, 63, 65, 66, 95, 127 };
    const uint64_t all = orders;

    orders = 1;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        TRY_SEEING(WINDOW(lengths[i]), DSFLOW_BF16, 1, 1, 1, 8, 150);
        TRY_SEEING(WINDOW(lengths[i]), DSFLOW_FP16, 1, 1, 1, 72, 20, 130);
        TRY_SEEING(WINDOW(lengths[i]), DSFLOW_FP32, 1, 1, 1, 4, 130);
    }
    TRY_SEEING(WINDOW(17), DSFLOW_BF16, 1, 1, 1, 136, 150);
    TRY_SEEING(WINDOW(63), DSFLOW_BF16, 1, 1, 1, 136, 150);
    orders = all;
}

static void layouts(void **state)
{
    TRY_SEEING(BLOCKS(16, 4), DSFLOW_BF16, 1, 2, 1, 64, 200);
    TRY_SEEING(BLOCKS(64, 1 << 20), DSFLOW_FP16, 1, 1, 1, 128, 256);
    TRY_SEEING(BLOCKS(48, 3, 1), DSFLOW_FP16, 2, 2, 1, 128, 300);
    TRY_SEEING(BLOCKS(64, 2, 1), DSFLOW_BF16, 1, 2, 2, 16, 220);
    TRY_SEEING(BLOCKS(16, 5, 1), DSFLOW_BF16, 1, 2, 1, 96, 70, 64, 9, 50);
    TRY_SEEING(BLOCKS(32, 3), DSFLOW_FP16, 1, 1, 1, 256, 70);
    TRY_SEEING(BLOCKS(16, 3, 1), DSFLOW_FP32, 2, 2, 1, 20, 260);
    TRY_SEEING(BLOCKS(32, 4), DSFLOW_FP32, 1, 1, 1, 66, 63, 3, 90);
}

/* So long that bits of a row are in two words, and strips more than a warp has
 * lanes. */
static void long_rows_of_a_layout(void **state)
{
    const uint64_t all = orders;

    orders = 2;
    TRY_SEEING(BLOCKS(16, 40), DSFLOW_BF16, 1, 1, 1, 128, 1130);
    TRY_SEEING(SIGHT(1030, 16, 90), DSFLOW_BF16, 1, 1, 1, 8, 20, 1170);
    orders = all;
}

static void windows_in_layouts(void **state)
{
    TRY_SEEING(SIGHT(50, 16, 2, 1), DSFLOW_BF16, 1, 2, 1, 64, 200);
    TRY_SEEING(SIGHT(90, 32, 3), DSFLOW_FP16, 1, 1, 1, 128, 70, 64, 59);
    TRY_SEEING(SIGHT(50, 16, 2, 1), DSFLOW_FP32, 1, 2, 1, 20, 140);
}

/* What is at row `from` and behind it, up to row `end`, of a tensor of a
 * sequence in one tile, becomes NaN. */
static void poison(struct tensor *x, size_t width, size_t from, size_t end)
{
    for (size_t i = from * width; i < end * width; i++)
        x->f[i] = NAN;
}

/* A product with what is not a number would tell. Queries from 300 on are not
 * to meet keys before 64, and keys before 100 not queries from 300 on. */
static void try_skipping(enum dsflow_dtype type, struct sight sight)
{
    const int32_t rows = 420;
    const struct dsflow_tile t = shape(1, 2, 1, 64);
    const size_t nq = dsf_tile_qwidth(&t), nkv = dsf_tile_kvwidth(&t);
    struct sequence s = sequence_new(t, 1, &rows);

    s.type = type;
    set_sight(&s, sight);
    fill_delta(&s);
    poison(&s.kv[0], nkv, 0, 64);
    unset_all(&s);
    forward_by(&s, &gpu_forward);
    for (size_t i = 0; i < (size_t)rows * nq; i++)
        assert_true(isnan(s.att[0].f[i]) == (i < 64 * nq) ||
                    (i >= 64 * nq && i < 300 * nq));
    for (size_t i = 0; i < s.lse[0].n; i++)
        s.lse[0].f[i] = 3;
    memset(s.delta[0].f, 0, s.delta[0].n * sizeof(float));
    backward_by(&s, &gpu_backward);
    for (size_t i = 300 * nq; i < (size_t)rows * nq; i++)
        assert_false(isnan(s.dq[0].f[i]));
    memset(s.kv[0].f, 0, s.kv[0].n * sizeof(float));
    poison(&s.datt[0], nq, 300, (size_t)rows);
    backward_by(&s, &gpu_backward);
    for (size_t i = 0; i < 100 * nkv; i++)
        assert_false(isnan(s.dkv[0].f[i]));
    sequence_free(&s);
}

static void what_no_query_of_a_block_sees_is_not_computed(void **state)
{
    const struct sight own = { .block = 16, .of = 1 << 20 };
    const struct sight window = { .window = 40 };

    try_skipping(DSFLOW_BF16, window);
    try_skipping(DSFLOW_BF16, own);
    try_skipping(DSFLOW_FP32, window);
}

int PLACE_MAIN(attention)(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_sequences),
        cmocka_unit_test(heads_of_any_width),
        cmocka_unit_test(full_precision),
        cmocka_unit_test(sequences_in_several_tiles),
        cmocka_unit_test(scores_that_grow),
        cmocka_unit_test(windows),
        cmocka_unit_test(windows_of_any_length),
        cmocka_unit_test(layouts),
        cmocka_unit_test(long_rows_of_a_layout),
        cmocka_unit_test(windows_in_layouts),
        cmocka_unit_test(what_no_query_of_a_block_sees_is_not_computed),
    };

    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
