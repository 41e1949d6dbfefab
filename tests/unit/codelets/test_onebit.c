/* test_onebit.c - 1-bit Adam, task by task, next to what DeepSpeed's makes of
 * the same gradients (tests/reference/onebit/make.py), through the step at
 * which the second moments freeze; and the same bits on shards and with every
 * set of instructions. */
#include "unit/codelets/workers.h"

#include "codelets/codelets.h"
#include "tasks/tasks.h"

#include <stdbool.h>

enum { N = 128, STEPS = 300, FREEZE = 100 };

static struct model {
    float p[N], m[N], v[N], error[MOST][N], server[N];
} got, first;
static float grad[MOST][N];

static void begin(struct model *x)
{
    memset(x, 0, sizeof(*x));
    first_weights(x->p, N);
}

static struct dsflow_buf floats(float *v)
{
    return floats_of(v, N);
}

static struct dsf_update_args update_args(void)
{
    struct dsf_update_args a = update_of(N);

    a.at.ntensors = 1;
    a.at.tensors[0] =
        (struct dsflow_tensor){ .rows = 1, .cols = N, .decays = 1 };
    a.width = 2;
    return a;
}

static struct dsf_coding coding(void)
{
    return signs_of(1, &(struct dsf_coded_tensor){ 0, N }, N);
}

/* A step of `workers`; what is served in `shards` pieces. */
static void step(struct model *x, int workers, int number, int shards)
{
    struct dsflow_control control = {
        .step = number, .lr = 1e-3, .scale = 1, .loss_scale = 1
    };
    const struct dsflow_buf c = control_of(&control);
    const struct dsf_update_args update = update_args();
    const struct dsf_coding code = coding();
    const struct dsf_momentum_args feed = {
        .coding = code, .elems = N, .groups = workers, .beta1 = 0.9
    };
    const struct dsf_add_recoded_args add = { .coding = code, .elems = N };
    const struct dsf_chunk_scales_args scale = { code, workers };
    struct dsflow_buf sums[MOST], parts[MOST + 1];
    double squares[N / BLOCK], scales[MOST];

    for (int w = 0; w < workers; w++)
        for (int i = 0; i < N; i++)
            grad[w][i] = (float)(gradient_of(w, number, i, 1) / workers);
    if (number <= FREEZE) {
        add_up(grad[0], N, workers);
        run(&dsf_codelet_adam, &update, 5,
            (struct dsflow_buf[]){ c, floats(grad[0]), floats(x->p),
                                   floats(x->m), floats(x->v) });
        return;
    }
    for (int w = 0; w < workers; w++) {
        run(&dsf_codelet_feed_momentum, &feed, 4,
            (struct dsflow_buf[]){ c, floats(grad[w]), floats(x->m),
                                   floats(x->error[w]) });
        sums[w] = floats(grad[w]);
    }
    run(&dsf_codelet_add_recoded, &add, (unsigned)workers, sums);
    parts[0] = doubles_of(scales, workers);
    for (int s = 0; s < shards; s++) {
        const int64_t from = N / shards * s, elems = N / shards;
        struct dsf_chunk_args a = { .coding = code,
                                    .elems = N,
                                    .groups = workers };

        dsf_op_chunk_squares.slice(&a, from, elems,
                                   (const int64_t[]){ 0, 0, from / BLOCK });
        parts[1 + s] = doubles_of(squares + from / BLOCK, elems / BLOCK);
        run(&dsf_codelet_chunk_squares, &a, 3,
            (struct dsflow_buf[]){ floats(grad[0]), floats(x->server),
                                   parts[1 + s] });
    }
    run(&dsf_codelet_chunk_scales, &scale, 1 + (unsigned)shards, parts);
    for (int s = 0; s < shards; s++) {
        struct dsf_chunk_args a = { .coding = code,
                                    .elems = N,
                                    .groups = workers };

        dsf_op_serve.slice(&a, N / shards * s, N / shards,
                           (const int64_t[]){ 0, 0, 0, 0, 0 });
        run(&dsf_codelet_serve, &a, 5,
            (struct dsflow_buf[]){ c, floats(grad[0]), parts[0],
                                   floats(x->server), floats(x->m) });
    }
    run(&dsf_codelet_lamb, &update, 5,
        (struct dsflow_buf[]){
            c, { 0 }, floats(x->p), floats(x->m), floats(x->v) });
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
    FILE *in = known("adam.txt");

    for (int workers = 2; workers <= MOST; workers *= 2) {
        train(&got, workers, 1);
        compare(in, workers, "p", got.p, N, 1, 0);
        compare(in, workers, "m", got.m, N, 1, 0);
        compare(in, workers, "v", got.v, N, 1, 0);
        for (int w = 0; w < workers; w++)
            compare(in, workers, "error", got.error[w], N, workers, 0);
        compare(in, workers, "server", got.server, N, 1, 0);
    }
    fclose(in);
}

static void shards_have_the_bits_of_the_whole(void **state)
{
    for (int workers = 1; workers <= MOST; workers *= 2) {
        train(&first, workers, 1);
        for (int shards = 2; shards <= 8; shards *= 2) {
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

/* A step that is skipped leaves what all have; so does a number that is none
 * with its worker's error. */
static void what_is_skipped_changes_nothing(void **state)
{
    struct dsflow_control control = {
        .lr = 1, .scale = 1, .loss_scale = 1, .skip = DSFLOW_SKIP_STEP
    };
    const struct dsflow_buf c = control_of(&control);
    const struct dsf_chunk_args a = { .coding = coding(),
                                      .elems = N,
                                      .groups = 1 };
    const struct dsf_momentum_args feed = {
        .coding = coding(), .elems = N, .groups = 1, .beta1 = 0.9
    };
    double scale = 3;

    train(&first, 2, 1);
    got = first;
    run(&dsf_codelet_serve, &a, 5,
        (struct dsflow_buf[]){ c, floats(grad[0]), doubles_of(&scale, 1),
                               floats(got.server), floats(got.m) });
    assert_memory_equal(&got, &first, sizeof(got));
    grad[0][7] = INFINITY;
    run(&dsf_codelet_feed_momentum, &feed, 4,
        (struct dsflow_buf[]){ c, floats(grad[0]), floats(got.m),
                               floats(got.error[0]) });
    assert_memory_equal(&got, &first, sizeof(got));
    assert_true(isinf(grad[0][7]));
}

/* Each block is of one chunk, and chunks are as equal as blocks allow. */
static void chunks_are_whole_blocks(void **state)
{
    struct dsf_coding c = { .format = "sign", .block = BLOCK, .coded = 320 };
    const struct dsf_coded_tensor of[] = { { 0, 96 }, { 112, 160 } };
    int64_t elems[6] = { 0 };

    dsf_coding_by_tensor(&c, 2, of);
    for (int64_t at = 0; at < 320; at += BLOCK) {
        int64_t chunk = dsf_chunk_of(&c, 3, at);

        assert_int_equal(chunk >= 0, at < 96 || (at >= 112 && at < 272));
        if (chunk >= 0)
            elems[chunk] += BLOCK;
    }
    for (int64_t k = 0; k < 6; k++)
        assert_int_equal(elems[k], dsf_chunk_elems(&c, 3, k));
    assert_int_equal(elems[0], 32);
    assert_int_equal(elems[3], 48);
    assert_int_equal(elems[5], 64);
}

/* The gradient of a group is as many times its share of the mean as there are
 * groups. */
static void a_group_is_clipped_by_its_own_norm(void **state)
{
    struct dsflow_control control = { .loss_scale = 8 };
    const struct dsflow_buf c = control_of(&control);
    struct dsf_clip_group_args a = {
        .elems = 2, .at = 1, .groups = 4, .limit = 1
    };
    float g[4] = { 9, 6, 8, 9 };
    double norm2 = 100; /* a norm of 4 10 / 8 */
    const struct dsflow_buf bufs[] = { c,
                                       { g, sizeof(g), 4, DSFLOW_FP32 },
                                       doubles_of(&norm2, 1) };

    run(&dsf_codelet_clip_group, &a, 3, bufs);
    assert_true(g[0] == 9 && g[3] == 9);
    assert_true(fabs((double)g[1] - 1.2) < 1e-6);
    assert_true(fabs((double)g[2] - 1.6) < 1e-6);
    a.limit = 5.1;
    run(&dsf_codelet_clip_group, &a, 3, bufs);
    assert_true(fabs((double)g[1] - 1.2) < 1e-6);
    norm2 = INFINITY;
    run(&dsf_codelet_clip_group, &a, 3, bufs);
    assert_true(g[0] == 9 && isnan(g[1]) && isnan(g[2]) && g[3] == 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_deepspeed),
        cmocka_unit_test(shards_have_the_bits_of_the_whole),
        cmocka_unit_test(all_instructions_give_the_same_bits),
        cmocka_unit_test(what_is_skipped_changes_nothing),
        cmocka_unit_test(chunks_are_whole_blocks),
        cmocka_unit_test(a_group_is_clipped_by_its_own_norm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
