/* test_loss_cuda.c - cross entropy and embeddings on a GPU that is not there,
 * beside double precision. */
#include "gpu/kernels.h"
#include "kernels/kernels.h"

#include "numbers.h"

enum { ROWS = 5 };

/* The last row has no target. */
static void choose(int32_t *targets, size_t vocab)
{
    for (size_t r = 0; r < ROWS; r++)
        targets[r] = (int32_t)((r * 7919 + vocab - 1) % vocab);
    targets[ROWS - 1] = -1;
}

/* The loss of all rows; the logits become gradients. */
static double cross_entropy_ref(double *x, const int32_t *targets, size_t vocab,
                                size_t ld, double scale)
{
    double loss = 0;

    for (size_t r = 0; r < ROWS; r++, x += ld) {
        double sum = 0, target = targets[r] < 0 ? 0 : x[targets[r]];

        for (size_t c = 0; c < vocab; c++)
            sum += exp(x[c]);
        loss += targets[r] < 0 ? 0 : log(sum) - target;
        for (size_t c = 0; c < ld; c++)
            x[c] = targets[r] < 0 || c >= vocab ? 0 : exp(x[c]) / sum * scale;
        if (targets[r] >= 0)
            x[targets[r]] = (exp(target) / sum - 1) * scale;
    }
    return loss;
}

/* Gradients that are off by a few roundings of exponentials. */
static void check_gradients(struct numbers *x, double slack)
{
    if (x->is_narrow)
        assert_rounded(&x->narrow, slack);
    else
        assert_close(x->wide.f, x->wide.d, x->wide.n, 2e-6);
}

static void try_whole(enum dsflow_dtype type, size_t vocab, size_t ld)
{
    struct numbers x = numbers_new(type, ROWS * ld, 5, vocab);
    struct guarded losses = guarded_new(ROWS * sizeof(double));
    char *before = malloc(bytes_of(&x));
    const double loss_scale = 64;
    int32_t targets[ROWS];
    struct dsf_gpu_logits l = { .type = type, .logits = at(&x), .rows = ROWS,
                                .vocab = vocab, .ld = ld, .targets = targets,
                                .scale = 0.25f };
    double loss = NAN, expected;

    memcpy(before, at(&x), bytes_of(&x));
    choose(targets, vocab);
    expected = cross_entropy_ref(ref(&x), targets, vocab, ld, 0.25);
    IN_EACH_ORDER(at(&x), bytes_of(&x), memcpy(at(&x), before, bytes_of(&x)),
                  dsf_gpu_cross_entropy(&l, &loss, (double *)losses.p, NULL));
    check_gradients(&x, 1e-6);
    assert_true(fabs(loss - expected) < 1e-5 * expected);

    for (size_t i = 0; i < ROWS * ld; i++)
        ref(&x)[i] *= 64;
    memcpy(at(&x), before, bytes_of(&x));
    l.loss_scale = &loss_scale;
    dsf_gpu_cross_entropy(&l, &loss, (double *)losses.p, NULL);
    check_gradients(&x, 1e-6);
    assert_true(fabs(loss - expected) < 1e-5 * expected);
    assert_no_fault();
    free(before);
    numbers_free(&x);
    guarded_free(&losses);
}

static const struct {
    size_t vocab, ld;
} heads[] = { { 2, 2 },   { 50, 56 },     { 41, 64 },
              { 64, 64 }, { 2500, 2504 }, { 4999, 4999 },
              { 9001, 9008 } };

#define EACH_HEAD(i) for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++)

static void logits_become_their_gradients(void **state)
{
    EACH_TYPE(type)
        EACH_HEAD(i)
            try_whole(type, heads[i].vocab, heads[i].ld);
}

/* The losses of many rows are added up. */
static void each_row_has_a_loss(void **state)
{
    enum { MANY = 2500, VOCAB = 3 };
    struct tensor x = tensor_new(MANY * VOCAB, 1, 1);
    double *losses = zeroes(MANY), loss = NAN, expected = 0;
    int32_t *targets = calloc(MANY, sizeof(*targets));
    const struct dsf_gpu_logits l = { .type = DSFLOW_FP32, .logits = x.f,
                                      .rows = MANY, .vocab = VOCAB,
                                      .ld = VOCAB, .targets = targets,
                                      .scale = 1 };

    orders = 1;
    for (size_t r = 0; r < MANY; r++) {
        const double *v = x.d + r * VOCAB;

        expected += log(exp(v[0]) + exp(v[1]) + exp(v[2])) - v[0];
    }
    IN_EACH_ORDER(&loss, sizeof(loss), loss = NAN,
                  dsf_gpu_cross_entropy(&l, &loss, losses, NULL));
    assert_true(fabs(loss - expected) < 1e-6 * expected);
    orders = 3;
    free(losses);
    free(targets);
    tensor_free(&x);
}

enum { PARTS = 3 };

/* What parts do, one after the other, is what the whole does. */
static void try_parts(enum dsflow_dtype type, size_t vocab, size_t ld)
{
    struct numbers x[PARTS];
    struct dsf_gpu_logits l[PARTS];
    struct dsflow_head_stats stats[PARTS * ROWS];
    struct guarded tops[PARTS], losses = guarded_new(ROWS * sizeof(double));
    double *whole = zeroes(PARTS * ROWS * vocab), loss = NAN, expected;
    const size_t blocks = (vocab + 2047) / 2048, all = PARTS * vocab;
    int32_t targets[ROWS];

    choose(targets, all);
    for (size_t p = 0; p < PARTS; p++) {
        x[p] = numbers_new(type, ROWS * ld, 4, 7 + p);
        tops[p] = guarded_new(ROWS * blocks * sizeof(float));
        l[p] = (struct dsf_gpu_logits){ .type = type,
                                        .logits = at(&x[p]),
                                        .rows = ROWS,
                                        .vocab = vocab,
                                        .ld = ld,
                                        .targets = targets,
                                        .first = (int32_t)(p * vocab),
                                        .scale = 0.5f };
        for (size_t i = 0; i < ROWS * vocab; i++)
            whole[i / vocab * all + p * vocab + i % vocab] =
                ref(&x[p])[i / vocab * ld + i % vocab];
        memset(tops[p].p, 0xff, tops[p].bytes);
        dsf_gpu_exponentials(&l[p], (float *)(void *)tops[p].p,
                             stats + p * ROWS, NULL);
    }
    expected = cross_entropy_ref(whole, targets, all, all, 0.5);
    for (size_t p = 0; p < PARTS; p++) {
        dsf_gpu_logit_gradients(&l[p], (float *)(void *)tops[p].p, stats,
                                PARTS, &loss, (double *)(void *)losses.p,
                                NULL);
        assert_no_fault();
        assert_true(fabs(loss - expected) < 1e-5 * expected);
        memset(ref(&x[p]), 0, ROWS * ld * sizeof(double));
        for (size_t i = 0; i < ROWS * vocab; i++)
            ref(&x[p])[i / vocab * ld + i % vocab] =
                whole[i / vocab * all + p * vocab + i % vocab];
        /* An exponential is rounded before it is a gradient. */
        check_gradients(&x[p], type == DSFLOW_BF16 ? 0x1p-9 : 0x1p-12);
        numbers_free(&x[p]);
        guarded_free(&tops[p]);
    }
    free(whole);
    guarded_free(&losses);
}

static void parts_of_the_vocabulary_meet(void **state)
{
    EACH_TYPE(type)
        EACH_HEAD(i)
            try_parts(type, heads[i].vocab, heads[i].ld);
}

/* Tokens that come again, at once and far behind, some that come late for the
 * first time, and some that are none; of some rows all have one token. */
static int32_t some_token(size_t r)
{
    const int32_t token = (int32_t)((r - (r % 5 == 4)) * 7 % 16) - 4;

    return r / 256 % 2 != 0 ? 7 : token == 10 && r < 512 ? 9 : token;
}

static void try_embedding(enum dsflow_dtype type, size_t rows, size_t length,
                          size_t n)
{
    enum { VOCAB = 11, NPOS = 9 };
    struct numbers dx = numbers_new(type, rows * n, 1, 1);
    struct tensor wte = tensor_new(VOCAB * n, 1, 2), sum[2];
    struct tensor wpe = tensor_new(NPOS * n, 1, 3);
    int32_t *tokens = malloc(rows * sizeof(*tokens));
    const struct dsf_gpu_embed e = { .tokens = tokens, .first = 3,
                                     .vocab = VOCAB, .pos = 2, .first_pos = 4,
                                     .npos = NPOS, .length = length,
                                     .width = n };
    float *row = malloc(n * sizeof(float));
    struct guarded scratch = guarded_new(dsf_gpu_embed_scratch(rows));

    sum[0] = tensor_new(VOCAB * n, 1, 2);
    sum[1] = tensor_new(NPOS * n, 1, 3);
    for (size_t r = 0; r < rows; r++) {
        const int32_t token = some_token(r);
        const int64_t at_pos = (int64_t)(2 + r % length) - 4;

        tokens[r] = token + 3;
        for (size_t c = 0; c < n; c++)
            row[c] = (float)ref(&dx)[r * n + c];
        if (tokens[r] >= 0 && token >= 0 && token < VOCAB)
            dsf_add(sum[0].f + (size_t)token * n, row, n);
        if (tokens[r] >= 0 && at_pos >= 0 && at_pos < NPOS)
            dsf_add(sum[1].f + (size_t)at_pos * n, row, n);
    }
    IN_EACH_ORDER(wte.f, wte.mem.bytes,
                  (tensor_from_doubles(&wte), tensor_from_doubles(&wpe)),
                  dsf_gpu_embed_backward(&e, type, at(&dx), DSFLOW_FP32, wte.f,
                                         wpe.f, rows, scratch.p, NULL));
    /* Each row after the other: to the bit. */
    assert_memory_equal(wte.f, sum[0].f, wte.mem.bytes);
    assert_memory_equal(wpe.f, sum[1].f, wpe.mem.bytes);
    free(tokens);
    free(row);
    guarded_free(&scratch);
    numbers_free(&dx);
    tensor_free(&wte);
    tensor_free(&wpe);
    tensor_free(&sum[0]);
    tensor_free(&sum[1]);
}

static void rows_of_a_token_are_added_in_their_order(void **state)
{
    EACH_TYPE(type) {
        try_embedding(type, 1, 1, 8);
        try_embedding(type, 300, 100, 40);
        try_embedding(type, 150, 150, 33);
        try_embedding(type, 700, 90, 8); /* many turns */
        try_embedding(type, 20, 10, 1032); /* more than one strip */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_become_their_gradients),
        cmocka_unit_test(each_row_has_a_loss),
        cmocka_unit_test(parts_of_the_vocabulary_meet),
        cmocka_unit_test(rows_of_a_token_are_added_in_their_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
