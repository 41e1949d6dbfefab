/* test_onebit_lamb.c - 1-bit LAMB, task by task, next to what DeepSpeed's makes
 * of the same gradients (tests/reference/onebit/make_lamb.py), through the step
 * at which the second moments freeze; and the same bits on shards and with
 * every set of instructions. Three tensors are in two units. */
#include "unit/codelets/workers.h"

#include "codelets/codelets.h"
#include "tasks/tasks.h"

#include <stdbool.h>

enum { UNITS = 2, TENSORS = 3, N = 384, STEPS = 300, FREEZE = 100 };
static const int at_of[UNITS] = { 0, 192 }, ntensors[UNITS] = { 2, 1 };
static const int tensor_at[TENSORS + 1] = { 0, 128, 192, 384 };

static struct model {
    float p[N], m[N], v[N], fresh[N], error[MOST][N], server[N];
    struct dsf_lamb lamb[UNITS][DSFLOW_MAX_TENSORS];
} got, first;
static float grad[MOST][N];

/* As the script has them. */
static double own_gradient(int worker, int step, int i)
{
    static const double sizes[TENSORS] = { 0.01, 0.6, 0.1 };
    const int t = i < tensor_at[1] ? 0 : i < tensor_at[2] ? 1 : 2;

    return gradient_of(worker, step, i,
                       sizes[t] * (1 + 0.5 * sin(0.05 * step)));
}

static void begin(struct model *x)
{
    memset(x, 0, sizeof(*x));
    first_weights(x->p, N);
}

static struct dsflow_buf lamb_of(struct model *x, int u)
{
    return doubles_of((double *)x->lamb[u],
                      DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS);
}

static struct dsflow_tensor tensor(int u, int i)
{
    const int t = u == 0 ? i : 2;

    return (struct dsflow_tensor){ .at = tensor_at[t] - at_of[u],
                                   .rows = 1,
                                   .cols = tensor_at[t + 1] - tensor_at[t],
                                   .decays = 1,
                                   .number = (int16_t)i };
}

static struct dsf_update_args update_args(int u, int64_t width)
{
    struct dsf_update_args a = update_of(N / 2);

    a.width = (int32_t)width;
    a.at.block = BLOCK;
    a.at.ntensors = ntensors[u];
    for (int i = 0; i < ntensors[u]; i++)
        a.at.tensors[i] = tensor(u, i);
    return a;
}

static struct dsf_coding coding(int u)
{
    struct dsf_coded_tensor t[2];

    for (int i = 0; i < ntensors[u]; i++)
        t[i] =
            (struct dsf_coded_tensor){ tensor(u, i).at, tensor(u, i).cols, i };
    return signs_of((unsigned)ntensors[u], t, N / 2);
}

static struct dsf_united_args united(int u, int workers)
{
    return (struct dsf_united_args){
        .at = { .coding = coding(u), .elems = N / 2, .groups = workers },
        .before = at_of[u],
        .all = N,
        .beta1 = 0.9,
        .beta2 = 0.99
    };
}

/* Squares of coded numbers of a unit, and of the server's where it has some. */
static void square(int u, int workers, float *x, float *server, double *sums)
{
    const struct dsf_chunk_args a = united(u, workers).at;
    struct dsflow_buf none = { 0 };

    run(&dsf_codelet_chunk_squares, &a, 3,
        (struct dsflow_buf[]){ floats_of(x, N / 2),
                               server == NULL ? none : floats_of(server, N / 2),
                               doubles_of(sums, N / 2 / BLOCK) });
}

/* A step of LAMB, and the mean of its ratios. */
static void warm(struct model *x, struct dsflow_control *control, int u)
{
    static double sums[N / 2 / BLOCK * 4], ratio[2];
    const struct dsf_update_args a = update_args(u, 4);
    const struct dsf_ratio_args r = {
        .least = 0.02, .most = 0.4, .n = ntensors[u], .width = 4
    };
    const struct dsf_mean_args mean = { 0.8, ntensors[u] };
    const struct dsflow_buf c = control_of(control), lamb = lamb_of(x, u);
    const struct dsflow_buf p = floats_of(x->p + at_of[u], N / 2);
    const struct dsflow_buf m = floats_of(x->m + at_of[u], N / 2);
    const struct dsflow_buf v = floats_of(x->v + at_of[u], N / 2);

    run(&dsf_codelet_lamb_moments, &a, 6,
        (struct dsflow_buf[]){ c, floats_of(grad[0] + at_of[u], N / 2), p, m, v,
                               doubles_of(sums, N / 2 / BLOCK * 4) });
    run(&dsf_codelet_lamb_ratio, &r, 2,
        (struct dsflow_buf[]){ doubles_of(ratio, ntensors[u]),
                               doubles_of(sums, N / 2 / BLOCK * 4) });
    run(&dsf_codelet_lamb_mean, &mean, 3,
        (struct dsflow_buf[]){ c, doubles_of(ratio, ntensors[u]), lamb });
    run(&dsf_codelet_lamb, &a, 5,
        (struct dsflow_buf[]){ c, doubles_of(ratio, ntensors[u]), p, m, v });
}

/* Of each of `n` tensors, of what these blocks add to them. */
static void sum_tensors(const struct dsf_coding *of, int n, int64_t blocks,
                        double *squares, double *sums)
{
    const struct dsf_united_args a = { .at = { .coding = *of, .groups = n },
                                       .all = N,
                                       .by_tensor = 1 };

    run(&dsf_codelet_chunk_sums, &a, 2,
        (struct dsflow_buf[]){ doubles_of(sums, (int64_t)2 * n),
                               doubles_of(squares, blocks) });
}

static void freeze(struct model *x)
{
    double squares[N / 2 / BLOCK], sums[4], own[UNITS][2], total = 0;

    memcpy(x->fresh, x->v, sizeof(x->v));
    for (int u = 0; u < UNITS; u++) {
        const struct dsf_coding of = coding(u);

        square(u, 1, x->m + at_of[u], NULL, squares);
        sum_tensors(&of, ntensors[u], N / 2 / BLOCK, squares, sums);
        run(&dsf_codelet_tensor_scales, NULL, 2,
            (struct dsflow_buf[]){
                doubles_of(own[u], ntensors[u]),
                doubles_of(sums, (int64_t)2 * ntensors[u]) });
        for (int i = 0; i < ntensors[u]; i++)
            total += own[u][i];
    }
    for (int u = 0; u < UNITS; u++) {
        const struct dsf_unite_args a = { TENSORS, ntensors[u] };

        run(&dsf_codelet_unite_scales, &a, 3,
            (struct dsflow_buf[]){ doubles_of(own[u], ntensors[u]),
                                   doubles_of(&total, 1), lamb_of(x, u) });
    }
}

/* What a worker sends. */
static void send(struct model *x, struct dsflow_control *control, int w,
                 int workers)
{
    double sums[N / 2 / BLOCK], total = 0;

    for (int u = 0; u < UNITS; u++) {
        const struct dsf_momentum_args feed = {
            .coding = coding(u), .elems = N / 2, .groups = workers, .beta1 = 0.9
        };

        run(&dsf_codelet_feed_momentum, &feed, 5,
            (struct dsflow_buf[]){
                control_of(control), floats_of(grad[w] + at_of[u], N / 2),
                floats_of(x->m + at_of[u], N / 2),
                floats_of(x->error[w] + at_of[u], N / 2), lamb_of(x, u) });
        square(u, workers, grad[w] + at_of[u], NULL, sums);
        for (int b = 0; b < N / 2 / BLOCK; b++)
            total += sums[b];
    }
    for (int u = 0; u < UNITS; u++) {
        const struct dsf_send_args a = { .coding = coding(u),
                                         .elems = N / 2,
                                         .all = N };

        run(&dsf_codelet_send_signs, &a, 3,
            (struct dsflow_buf[]){ floats_of(grad[w] + at_of[u], N / 2),
                                   floats_of(x->error[w] + at_of[u], N / 2),
                                   doubles_of(&total, 1) });
    }
}

/* The scales of all chunks, of the sums of all workers. */
static void find_scales(struct model *x, int workers, double *chunks)
{
    double sums[N / 2 / BLOCK], parts[UNITS][2 * MOST];

    for (int u = 0; u < UNITS; u++) {
        const struct dsf_united_args a = united(u, workers);
        const struct dsf_add_recoded_args add = { .coding = coding(u),
                                                  .elems = N / 2 };
        struct dsflow_buf terms[MOST];

        for (int w = 0; w < workers; w++)
            terms[w] = floats_of(grad[w] + at_of[u], N / 2);
        run(&dsf_codelet_add_recoded, &add, (unsigned)workers, terms);
        square(u, workers, grad[0] + at_of[u], x->server + at_of[u], sums);
        run(&dsf_codelet_chunk_sums, &a, 2,
            (struct dsflow_buf[]){ doubles_of(parts[u], (int64_t)2 * workers),
                                   doubles_of(sums, N / 2 / BLOCK) });
    }
    run(&dsf_codelet_sum_each, NULL, 3,
        (struct dsflow_buf[]){ doubles_of(chunks, (int64_t)2 * workers),
                               doubles_of(parts[0], (int64_t)2 * workers),
                               doubles_of(parts[1], (int64_t)2 * workers) });
}

/* Of a unit, in `shards` pieces: what all have, and new parameters. */
static void serve(struct model *x, struct dsflow_control *control, int u,
                  int workers, double *chunks, int shards)
{
    static double sums[N / 2 / BLOCK * 8], totals[8], ratio[2];
    const struct dsf_factor_args f = { .least = 0.05,
                                       .most = 1.2,
                                       .threshold = 0.05,
                                       .n = ntensors[u],
                                       .width = 8 };
    const struct dsf_update_args update = update_args(u, 4);
    const struct dsflow_buf c = control_of(control), lamb = lamb_of(x, u);
    const struct dsflow_buf p = floats_of(x->p + at_of[u], N / 2);
    const struct dsflow_buf m = floats_of(x->m + at_of[u], N / 2);
    const struct dsflow_buf v = floats_of(x->v + at_of[u], N / 2);
    const struct dsflow_buf fresh = floats_of(x->fresh + at_of[u], N / 2);
    struct dsflow_buf parts[MOST + 1];

    for (int s = 0; s < shards; s++) {
        const int64_t elems = N / 2 / shards, from = elems * s, none[7] = { 0 };
        struct dsf_weigh_args norms = { .of = update_args(u, 8) };
        struct dsf_united_args a = united(u, workers);

        parts[1 + s] = doubles_of(sums + from / BLOCK * 8, elems / BLOCK * 8);
        dsf_op_serve_lamb.slice(&a, from, elems, none);
        run(&dsf_codelet_serve_lamb, &a, 7,
            (struct dsflow_buf[]){ c, floats_of(grad[0] + at_of[u], N / 2),
                                   doubles_of(chunks, (int64_t)2 * workers),
                                   lamb, floats_of(x->server + at_of[u], N / 2),
                                   m, fresh });
        dsf_op_lamb_norms.slice(&norms, from, elems, none);
        run(&dsf_codelet_lamb_norms, &norms, 6,
            (struct dsflow_buf[]){ c, fresh, p, m, v, parts[1 + s] });
    }
    parts[0] = doubles_of(totals, (int64_t)4 * ntensors[u]);
    run(&dsf_codelet_lamb_totals, &f, 1 + (unsigned)shards, parts);
    run(&dsf_codelet_lamb_factor, &f, 4,
        (struct dsflow_buf[]){ c, parts[0], lamb,
                               doubles_of(ratio, ntensors[u]) });
    run(&dsf_codelet_lamb, &update, 5,
        (struct dsflow_buf[]){ c, doubles_of(ratio, ntensors[u]), p, m, v });
}

static void step(struct model *x, int workers, int number, int shards)
{
    struct dsflow_control control = {
        .step = number, .lr = 1e-2, .scale = 1, .loss_scale = 1
    };
    double chunks[2 * MOST];

    for (int w = 0; w < workers; w++)
        for (int i = 0; i < N; i++)
            grad[w][i] = (float)(own_gradient(w, number, i) / workers);
    if (number <= FREEZE) {
        add_up(grad[0], N, workers);
        for (int u = 0; u < UNITS; u++)
            warm(x, &control, u);
        if (number == FREEZE)
            freeze(x);
        return;
    }
    for (int w = 0; w < workers; w++)
        send(x, &control, w, workers);
    find_scales(x, workers, chunks);
    for (int u = 0; u < UNITS; u++)
        serve(x, &control, u, workers, chunks, shards);
}

static void train(struct model *x, int workers, int shards)
{
    begin(x);
    for (int i = 1; i <= STEPS; i++)
        step(x, workers, i, shards);
}

/* An error is that of the share that a worker has of the mean. */
static void numbers_are_those_of_deepspeed(void **state)
{
    static const char *const names[] = { "scale", "mean", "factor" };
    FILE *in = known("lamb.txt");

    for (int workers = 2; workers <= MOST; workers *= 2) {
        train(&got, workers, 1);
        compare(in, workers, "p", got.p, N, 1, 1);
        compare(in, workers, "m", got.m, N, 1, 1);
        compare(in, workers, "v", got.v, N, 1, 1);
        compare(in, workers, "fresh", got.fresh, N, 1, 1);
        for (int w = 0; w < workers; w++)
            compare(in, workers, "error", got.error[w], N, workers, 1);
        compare(in, workers, "server", got.server, N, 1, 1);
        for (int k = 0; k < DSF_LAMB_FIELDS; k++) {
            known_title(in, workers, names[k]);
            for (int t = 0; t < TENSORS; t++) {
                const struct dsf_lamb *l =
                    t < 2 ? &got.lamb[0][t] : &got.lamb[1][0];

                known_next(in, workers, names[k], t,
                           k == 0   ? l->scale
                           : k == 1 ? l->mean
                                    : l->factor,
                           1);
            }
        }
    }
    fclose(in);
}

static void shards_have_the_bits_of_the_whole(void **state)
{
    for (int workers = 1; workers <= MOST; workers *= 2) {
        train(&first, workers, 1);
        for (int shards = 2; shards <= 4; shards *= 2) {
            train(&got, workers, shards);
            assert_memory_equal(&got, &first, sizeof(got));
        }
    }
}

static void train_four(void *x)
{
    train(x, 4, 1);
}

static void all_instructions_give_the_same_bits(void **state)
{
    all_instructions_agree(train_four, &got, &first, sizeof(got));
}

/* A step that is skipped leaves what all have, and a number that is none its
 * worker's errors. */
static void what_is_skipped_changes_nothing(void **state)
{
    struct dsflow_control control = {
        .lr = 1, .scale = 1, .loss_scale = 1, .skip = DSFLOW_SKIP_STEP
    };
    double chunks[2 * MOST] = { 3, 192, 3, 192 }, ratio[2] = { 3, 4 };
    double totals[8] = { 1, 1, 9, 0, 1, 1, 9, 0 };
    const struct dsflow_buf c = control_of(&control);
    const struct dsf_united_args a = united(0, 2);
    const struct dsf_mean_args mean = { 0.8, 2 };
    const struct dsf_factor_args f = {
        .least = 0.05, .most = 9, .threshold = 1, .n = 2, .width = 8
    };

    train(&first, 2, 1);
    got = first;
    run(&dsf_codelet_serve_lamb, &a, 7,
        (struct dsflow_buf[]){
            c, floats_of(grad[0], N / 2), doubles_of(chunks, 4),
            lamb_of(&got, 0), floats_of(got.server, N / 2),
            floats_of(got.m, N / 2), floats_of(got.fresh, N / 2) });
    run(&dsf_codelet_lamb_mean, &mean, 3,
        (struct dsflow_buf[]){ c, doubles_of(ratio, 2), lamb_of(&got, 0) });
    run(&dsf_codelet_lamb_factor, &f, 4,
        (struct dsflow_buf[]){ c, doubles_of(totals, 8), lamb_of(&got, 0),
                               doubles_of(ratio, 2) });
    assert_memory_equal(&got, &first, sizeof(got));
    grad[1][200] = INFINITY;
    send(&got, &control, 1, 2);
    assert_memory_equal(&got, &first, sizeof(got));
    assert_true(isnan(grad[1][0]) && isnan(grad[1][N - 1]));
}

/* Of tensors that end within blocks: each block is of one chunk, and chunks of
 * all units are as equal as blocks allow. */
static void chunks_go_through_all_units(void **state)
{
    struct dsf_united_args a = {
        .at = { .coding = { .format = "sign", .block = BLOCK, .coded = 320 },
                .groups = 3 },
        .before = 64,
        .all = 400
    };
    const struct dsf_coded_tensor of[] = { { 0, 100, 0 }, { 109, 163, 1 } };
    int64_t elems[3] = { 0 }, tensor_of, last = 0;

    dsf_coding_by_tensor(&a.at.coding, 2, of);
    for (int64_t at = 0; at < 320; at += BLOCK) {
        int64_t chunk = dsf_united_chunk(&a, at, &tensor_of);

        assert_int_equal(chunk >= 0, at < 96 || (at >= 112 && at < 272));
        if (chunk < 0)
            continue;
        assert_true(chunk >= last && chunk < 3);
        assert_int_equal(tensor_of, at >= 112);
        elems[last = chunk] += BLOCK;
    }
    assert_int_equal(elems[0], 80); /* 64 are before them */
    assert_int_equal(elems[1], 128);
    assert_int_equal(elems[2], 48); /* and 80 behind */
}

/* Of two tensors in three pieces, which two parts have, and of a third that is
 * not coded. */
static void scales_of_parts_are_those_of_whole_tensors(void **state)
{
    const struct dsf_coded_tensor of[] = { { 0, 96, 0 }, { 96, 96, 1 } };
    const struct dsf_coded_tensor left[] = { { 0, 32, 0 },
                                             { 32, 32, 0 },
                                             { 64, 48, 1 } };
    const struct dsf_coded_tensor right[] = { { 0, 32, 0 }, { 32, 48, 1 } };
    const struct dsf_coding whole = signs_of(2, of, 192);
    const struct dsf_coding parts[] = { signs_of(3, left, 112),
                                        signs_of(2, right, 80) };
    double squares[12], cut[12], sums[6], own[2][6], scales[3], same[3];

    for (int b = 0; b < 12; b++)
        squares[b] = b * b + 1;
    memcpy(cut, squares, 4 * sizeof(*cut));
    memcpy(cut + 4, squares + 6, 3 * sizeof(*cut));
    memcpy(cut + 7, squares + 4, 2 * sizeof(*cut));
    memcpy(cut + 9, squares + 9, 3 * sizeof(*cut));
    sum_tensors(&whole, 3, 12, squares, sums);
    sum_tensors(&parts[0], 3, 7, cut, own[0]);
    sum_tensors(&parts[1], 3, 5, cut + 7, own[1]);
    run(&dsf_codelet_tensor_scales, NULL, 2,
        (struct dsflow_buf[]){ doubles_of(scales, 3), doubles_of(sums, 6) });
    run(&dsf_codelet_tensor_scales, NULL, 3,
        (struct dsflow_buf[]){ doubles_of(same, 3), doubles_of(own[0], 6),
                               doubles_of(own[1], 6) });
    assert_memory_equal(scales, same, sizeof(scales));
    assert_true(fabs(scales[0] * scales[0] * 96 - 61) < 1e-4);
    assert_true(scales[2] == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_deepspeed),
        cmocka_unit_test(shards_have_the_bits_of_the_whole),
        cmocka_unit_test(all_instructions_give_the_same_bits),
        cmocka_unit_test(what_is_skipped_changes_nothing),
        cmocka_unit_test(chunks_go_through_all_units),
        cmocka_unit_test(scales_of_parts_are_those_of_whole_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
