/* test_zeroone.c - 0/1 Adam, task by task, next to what DeepSpeed's makes of
 * the same gradients (tests/reference/onebit/make_zeroone.py), through every
 * change of phase and interval; which steps are of which kind; and the same
 * bits with every set of instructions. */
#include "unit/codelets/workers.h"

#include "codelets/codelets.h"
#include "tasks/tasks.h"
#include "tasks/zeroone.h"

enum { N = 128, STEPS = 300 };

/* That of the script. */
static const struct dsf_zeroone_schedule schedule = { 120, 5, 30, 7 };

static struct model {
    float p[N], m[N], v[N], server[N];
    float own[MOST][N], local[MOST][N], error[MOST][N];
} got, first;
static float grad[MOST][N], weights[N];

static void begin(struct model *x)
{
    memset(x, 0, sizeof(*x));
    first_weights(x->p, N);
}

static struct dsflow_buf floats(float *v)
{
    return floats_of(v, N);
}

static struct dsf_coding coding(void)
{
    return signs_of(1, &(struct dsf_coded_tensor){ 0, N }, N);
}

static int nshards = 1;

/* What is in grad[0] .. is sent in 1 bit, and what all have is in grad[0]. */
static void exchange(struct model *x, const struct dsflow_buf *c, int workers,
                     bool gradients)
{
    const struct dsf_coding code = coding();
    const struct dsf_add_recoded_args add = { .coding = code, .elems = N };
    const struct dsf_chunk_scales_args scale = { code, workers };
    const struct dsf_chunk_args chunk = {
        .coding = code,
        .elems = N,
        .groups = workers,
        .last = gradients ? dsf_zeroone_last_gradient(&schedule) : 0
    };
    struct dsflow_buf sums[MOST];
    double squares[N / BLOCK], scales[MOST];

    for (int w = 0; w < workers; w++)
        sums[w] = floats(grad[w]);
    run(&dsf_codelet_add_recoded, &add, (unsigned)workers, sums);
    run(&dsf_codelet_chunk_squares, &chunk, 3,
        (struct dsflow_buf[]){ floats(grad[0]), floats(x->server),
                               doubles_of(squares, N / BLOCK) });
    run(&dsf_codelet_chunk_scales, &scale, 2,
        (struct dsflow_buf[]){ doubles_of(scales, workers),
                               doubles_of(squares, N / BLOCK) });
    for (int s = 0; s < nshards; s++) {
        struct dsf_chunk_args shard = chunk;

        dsf_op_serve_mean.slice(&shard, N / nshards * s, N / nshards,
                                (const int64_t[]){ 0, 0, 0, 0 });
        run(&dsf_codelet_serve_mean, &shard, 4,
            (struct dsflow_buf[]){ *c, floats(grad[0]),
                                   doubles_of(scales, workers),
                                   floats(x->server) });
    }
}

static void send_gradients(struct model *x, const struct dsflow_buf *c,
                           int workers)
{
    const struct dsf_momentum_args feed = { .coding = coding(),
                                            .elems = N,
                                            .groups = workers,
                                            .last = dsf_zeroone_last_gradient(
                                                &schedule) };
    const struct dsf_held_args held = { .elems = N,
                                        .decay = N,
                                        .beta1 = 0.9,
                                        .eps = 1e-6f,
                                        .weight_decay = 0.01f };

    for (int w = 0; w < workers; w++)
        run(&dsf_codelet_feed_momentum, &feed, 4,
            (struct dsflow_buf[]){
                *c, floats(grad[w]), { 0 }, floats(x->error[w]) });
    exchange(x, c, workers, true);
    run(&dsf_codelet_held_update, &held, 5,
        (struct dsflow_buf[]){ *c, floats(grad[0]), floats(x->p), floats(x->m),
                               floats(x->v) });
}

static struct dsflow_buf step_of(struct dsf_zeroone_step *s,
                                 const struct dsflow_buf *c, double lr)
{
    const struct dsf_local_step_args args = {
        schedule, { .schedule = "constant", .keys = { .lr = lr } }
    };
    const struct dsflow_buf of =
        doubles_of((double *)s, DSF_ZEROONE_STEP_FIELDS);

    run(&dsf_codelet_local_step, &args, 2, (struct dsflow_buf[]){ *c, of });
    return of;
}

static void settle(struct model *x, const struct dsflow_buf *c, int workers)
{
    const struct dsf_feed_local_args feed = {
        .coding = coding(), .elems = N, .groups = workers, .eps = 1e-6
    };
    const struct dsf_settle_args settle = { .elems = N, .eps = 1e-6 };
    struct dsf_zeroone_step of;
    const struct dsflow_buf now = step_of(&of, c, 1e-3);

    for (int w = 0; w < workers; w++)
        run(&dsf_codelet_feed_local, &feed, 5,
            (struct dsflow_buf[]){ *c, floats(x->local[w]), floats(x->v),
                                   floats(grad[w]), floats(x->error[w]) });
    exchange(x, c, workers, false);
    run(&dsf_codelet_local_settle, &settle, 5,
        (struct dsflow_buf[]){ now, floats(grad[0]), floats(x->p), floats(x->m),
                               floats(x->v) });
}

static void local_step(struct model *x, const struct dsflow_buf *c, int workers)
{
    const struct dsf_local_args args = { .elems = N,
                                         .decay = N,
                                         .groups = workers,
                                         .beta1 = 0.9,
                                         .eps = 1e-6f,
                                         .weight_decay = 0.01f };
    const struct dsflow_control *control = c->ptr;
    const bool fresh = dsf_zeroone_is_fresh(&schedule, control->step);
    struct dsf_zeroone_step of;
    const struct dsflow_buf now = step_of(&of, c, 1e-3);

    for (int w = 0; w < workers; w++) {
        run(&dsf_codelet_local_weights, &args, 4,
            (struct dsflow_buf[]){ now, floats(x->p), floats(x->local[w]),
                                   floats(weights) });
        for (int i = 0; i < N; i++)
            assert_true(weights[i] ==
                        (fresh ? x->p[i] : x->p[i] + x->local[w][i]));
        run(&dsf_codelet_local_update, &args, 7,
            (struct dsflow_buf[]){ now, floats(grad[w]), floats(x->p),
                                   floats(x->v), floats(x->m),
                                   floats(x->own[w]), floats(x->local[w]) });
    }
}

static void step(struct model *x, int workers, int number)
{
    struct dsflow_control control = {
        .step = number, .lr = 1e-3, .scale = 1, .loss_scale = 1
    };
    const struct dsflow_buf c = control_of(&control);
    const struct dsf_update_args update = update_of(N);
    const enum dsf_zeroone_kind kind = dsf_zeroone_kind(&schedule, number);

    for (int w = 0; w < workers; w++)
        for (int i = 0; i < N; i++)
            grad[w][i] = (float)(gradient_of(w, number, i, 1) / workers);
    if (kind == DSF_ZEROONE_VARIANCE) {
        add_up(grad[0], N, workers);
        run(&dsf_codelet_adam, &update, 5,
            (struct dsflow_buf[]){ c, floats(grad[0]), floats(x->p),
                                   floats(x->m), floats(x->v) });
    } else if (kind == DSF_ZEROONE_GRADIENT) {
        send_gradients(x, &c, workers);
    } else {
        local_step(x, &c, workers);
        if (kind == DSF_ZEROONE_SYNC)
            settle(x, &c, workers);
    }
}

static void train(struct model *x, int workers)
{
    begin(x);
    for (int i = 1; i <= STEPS; i++)
        step(x, workers, i);
}

/* --- beside DeepSpeed's --------------------------------------------------- */

static void compare_kinds(FILE *in, int workers)
{
    char kinds[STEPS + 2];
    int size;

    assert_int_equal(fscanf(in, "%d %301s", &size, kinds), 2);
    assert_int_equal(size, workers);
    assert_int_equal(strlen(kinds), STEPS);
    for (int i = 1; i <= STEPS; i++)
        if ("vgls"[dsf_zeroone_kind(&schedule, i)] != kinds[i - 1])
            fail_msg("step %d is of kind %d: expected %c", i,
                     (int)dsf_zeroone_kind(&schedule, i), kinds[i - 1]);
}

/* An error is that of the share that a worker has of the mean. The last step is
 * a local one. */
static void numbers_are_those_of_deepspeed(void **state)
{
    FILE *in = known("zeroone.txt");

    assert_int_equal(dsf_zeroone_kind(&schedule, STEPS), DSF_ZEROONE_LOCAL);
    for (int workers = 2; workers <= MOST; workers *= 2) {
        train(&got, workers);
        compare_kinds(in, workers);
        compare(in, workers, "p", got.p, N, 1, 0);
        compare(in, workers, "v", got.v, N, 1, 0);
        for (int w = 0; w < workers; w++)
            compare(in, workers, "m", got.own[w], N, 1, 0);
        for (int w = 0; w < workers; w++)
            compare(in, workers, "u", got.local[w], N, 1, 0);
        for (int w = 0; w < workers; w++)
            compare(in, workers, "error", got.error[w], N, workers, 0);
        compare(in, workers, "server", got.server, N, 1, 0);
    }
    fclose(in);
}

/* --- kinds of step -------------------------------------------------------- */

/* Step by step, as zoadam.py counts. */
static enum dsf_zeroone_kind counted(const struct dsf_zeroone_schedule *s,
                                     int64_t to)
{
    int64_t every = 1, nupdates = 0, local_every = 1, nlocal = 0;
    bool frozen = false;

    for (int64_t step = 1;; step++) {
        const bool update = step % every == 0, sync = step % local_every == 0;

        if (step == to && frozen)
            return sync ? DSF_ZEROONE_SYNC : DSF_ZEROONE_LOCAL;
        if (step == to)
            return update ? DSF_ZEROONE_VARIANCE : DSF_ZEROONE_GRADIENT;
        if (!frozen && update && ++nupdates == s->var_update_scaler) {
            nupdates = 0;
            every *= 2;
        }
        if (frozen && ++nlocal == s->local_step_scaler) {
            nlocal = 0;
            local_every = 2 * local_every < s->local_step_clipper
                              ? 2 * local_every
                              : s->local_step_clipper;
        }
        frozen = frozen || step > s->var_freeze_step;
    }
}

static void assert_steps(const struct dsf_zeroone_schedule *s)
{
    int64_t last = 0, since = 0;

    for (int64_t i = 1; i <= 120; i++) {
        const enum dsf_zeroone_kind kind = counted(s, i);

        assert_int_equal(dsf_zeroone_kind(s, i), kind);
        last = kind == DSF_ZEROONE_GRADIENT ? i : last;
        assert_int_equal(dsf_zeroone_is_fresh(s, i), since == i - 1);
        if (kind == DSF_ZEROONE_SYNC)
            assert_int_equal(dsf_zeroone_since(s, i), since + 1);
        since = kind == DSF_ZEROONE_LOCAL ? since : i;
    }
    assert_int_equal(dsf_zeroone_last_gradient(s), last);
}

static void kinds_follow_from_the_number_alone(void **state)
{
    for (int64_t freeze = 1; freeze <= 40; freeze += 3)
        for (int64_t scaler = 1; scaler <= 5; scaler++)
            for (int64_t local = 1; local <= 9; local += 4)
                for (int64_t most = 1; most <= 9; most += 2)
                    assert_steps(&(struct dsf_zeroone_schedule){ freeze, scaler,
                                                                 local, most });
}

/* Whatever the keys, there are few spans. */
static void large_numbers_are_no_work(void **state)
{
    const struct dsf_zeroone_schedule s = { INT32_MAX, 1, 1, INT32_MAX };

    assert_int_equal(dsf_zeroone_kind(&s, (int64_t)INT32_MAX + 1),
                     DSF_ZEROONE_VARIANCE);
    assert_int_equal(dsf_zeroone_kind(&s, INT64_MAX), DSF_ZEROONE_LOCAL);
    assert_int_equal(dsf_zeroone_last_gradient(&s), INT32_MAX);
}

/* --- bits ----------------------------------------------------------------- */

static void train_four(void *x)
{
    train(x, 4);
}

static void all_instructions_give_the_same_bits(void **state)
{
    all_instructions_agree(train_four, &got, &first, sizeof(got));
}

/* A rate whose product with the decay is rounded otherwise where 1 is taken
 * from it at once. */
static void hold(void *x)
{
    struct model *of = x;
    struct dsflow_control control = { .lr = 0x1.94d940789613ep-6 };
    const struct dsf_held_args held = {
        .elems = N, .decay = N, .beta1 = 0.9, .eps = 1e-3f, .weight_decay = 0.1f
    };

    begin(of);
    for (int i = 0; i < N; i++) {
        grad[0][i] = of->p[i];
        of->v[i] = 0.01f;
    }
    run(&dsf_codelet_held_update, &held, 5,
        (struct dsflow_buf[]){ control_of(&control), floats(grad[0]),
                               floats(of->p), floats(of->m), floats(of->v) });
}

static void all_instructions_round_the_decay_alike(void **state)
{
    all_instructions_agree(hold, &got, &first, sizeof(got));
}

static void shards_have_the_bits_of_the_whole(void **state)
{
    train(&first, 4);
    for (nshards = 2; nshards <= 8; nshards *= 2) {
        train(&got, 4);
        assert_memory_equal(&got, &first, sizeof(got));
    }
    nshards = 1;
}

/* A number that never had a gradient while second moments were taken. */
static void what_has_no_second_moment_stays(void **state)
{
    struct dsflow_control control = { .step = 200,
                                      .lr = 1e-3,
                                      .loss_scale = 1 };
    const struct dsflow_buf c = control_of(&control);
    const struct dsf_held_args held = { .elems = N,
                                        .beta1 = 0.9,
                                        .eps = 1e-8f };
    float was;

    begin(&got);
    got.v[5] = 0;
    got.v[6] = 1e-4f;
    was = got.p[5];
    for (int i = 0; i < N; i++)
        grad[0][i] = 1;
    run(&dsf_codelet_held_update, &held, 5,
        (struct dsflow_buf[]){ c, floats(grad[0]), floats(got.p), floats(got.m),
                               floats(got.v) });
    settle(&got, &c, 1);
    assert_true(got.p[5] == was);
    assert_true(got.p[6] != (float)(0.1 * cos(1.3 * 6)));
    for (int i = 0; i < N; i++)
        assert_true(fabsf(got.p[i]) < 1);
}

/* The rates of all local steps were 0: the momentum begins anew. */
static void without_a_rate_the_momentum_begins_anew(void **state)
{
    struct dsflow_control control = { .step = 200, .loss_scale = 1 };
    const struct dsflow_buf c = control_of(&control);
    const struct dsf_settle_args args = { .elems = N, .eps = 1e-6 };
    struct dsf_zeroone_step of;
    const struct dsflow_buf now = step_of(&of, &c, 0);

    train(&got, 2);
    run(&dsf_codelet_local_settle, &args, 5,
        (struct dsflow_buf[]){ now, floats(grad[0]), floats(got.p),
                               floats(got.m), floats(got.v) });
    for (int i = 0; i < N; i++)
        assert_true(got.m[i] == 0 && isfinite(got.p[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_those_of_deepspeed),
        cmocka_unit_test(kinds_follow_from_the_number_alone),
        cmocka_unit_test(large_numbers_are_no_work),
        cmocka_unit_test(all_instructions_give_the_same_bits),
        cmocka_unit_test(all_instructions_round_the_decay_alike),
        cmocka_unit_test(shards_have_the_bits_of_the_whole),
        cmocka_unit_test(what_has_no_second_moment_stays),
        cmocka_unit_test(without_a_rate_the_momentum_begins_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
