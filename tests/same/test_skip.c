/* test_skip.c - a step whose loss or gradient is not finite leaves everything
 * as if its batch had not been in the text: parameters, states in whatever
 * type, learning rate and bias corrections, on every mesh. A loss scale changes
 * nothing else. */
#include "trial.h"
#include "unit_ops.h"

#include "codelets/cast.h"
#include "plan/programs.h"

#include <dsflow/exec.h>
#include <dsflow/optimizer.h>

#include "lib/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What all trials have: rates that differ from step to step. */
#define ALL                                                                    \
    " schedule.kind=warmup_cosine schedule.warmup=3 schedule.total=6"          \
    " schedule.min_ratio=0.1 optimizer.lr=0.01"

static const char *const trials[] = {
    "gpt2" ALL,
    "llama optimizer.clip=0" ALL,
    "gpt2 optimizer.kind=sgd optimizer.momentum=0.9" ALL,
    "llama optimizer.kind=lion mesh.data=2 zero.stage=1" ALL,
    "gpt2 optimizer.kind=drift mesh.data=2 zero.stage=2" ALL,
    "gpt2 mesh.data=2 zero.stage=3 zero.keep=0 optimizer.clip=0" ALL,
    "llama mesh.pipeline=2 mesh.tensor=2 recompute.what=block" ALL,
    "gpt2 mesh.data=2 batch.groups=4 zero.reduce=micro zero.stage=1" ALL,
    "llama batch.order=layer_major batch.tile=16" ALL,
    "gpt2 offload.optimizer=cpu offload.params=cpu offload.gradients=cpu" ALL,
    "llama offload.optimizer=nvme offload.params=nvme offload.gradients=nvme "
    "offload.activations=nvme memory.nvme.path=. optimizer.clip=0" ALL,
    "gpt2 offload.optimizer=cpu precision.states=bf16 mesh.data=2 "
    "zero.stage=1" ALL,
    "gpt2 offload.optimizer=nvme precision.states=int8 memory.nvme.path=." ALL,
    "gpt2 precision.compute=bf16 offload.optimizer=cpu offload.params=cpu "
    "offload.share=0.3 offload.piece=4KiB mesh.data=2 zero.stage=1" ALL,
    "llama precision.compute=bf16 precision.master=false precision.states=int8 "
    "mesh.data=2 zero.stage=2" ALL,
};

/* Those of them whose losses are scaled, too, and exactly: by powers of two. */
static const char *const scaled_trials[] = {
    "gpt2" ALL,
    "llama optimizer.kind=drift mesh.data=2 zero.stage=2" ALL,
    "gpt2 mesh.data=2 zero.stage=3 zero.keep=0" ALL,
    "gpt2 mesh.data=4" ALL,
    "llama mesh.pipeline=2 mesh.tensor=2 recompute.what=block" ALL,
    "llama batch.order=layer_major batch.tile=16" ALL,
    "gpt2 offload.optimizer=nvme precision.states=int8 memory.nvme.path=." ALL,
};

enum { POISONED = 2, STEPS = 5 }; /* the third step */ /* the third step */

struct run {
    struct trial trial;
    struct dsflow_exec *exec;
    struct dsflow_step_report last;
    int64_t leaves_out; /* a batch; -1: none */
    bool by_unit;       /* what each rank has is compared with the others */
};

static void load_batch(void *user, const struct dsflow_batch *b)
{
    const struct run *r = user;
    int64_t vocab = r->trial.model.dims.vocab, step = b->step;

    if (r->leaves_out >= 0 && step >= r->leaves_out)
        step++;
    for (int32_t i = 0; i < b->rows; i++) {
        int64_t seq = b->seq + i / (b->rows / b->nseq);
        int64_t at = step * 31 + seq * 7 + b->pos + i;

        b->tokens[i] = (int32_t)(at * at / 3 % vocab);
        b->targets[i] = (int32_t)((at + 1) * (at + 1) / 3 % vocab);
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    ((struct run *)user)->last = *of;
}

static const struct dsflow_data_spec *spec(const struct run *r, uint32_t i)
{
    return dsflow_graph_data(r->trial.graph, (dsflow_data_id){ i });
}

static void *map(struct run *r, uint32_t i, enum dsflow_access access)
{
    return dsflow_exec_map(r->exec, (dsflow_data_id){ i }, access);
}

/* Number `at` of what stands at `to`, fp32 or bf16. */
static void store(const struct dsflow_data_spec *d, void *to, int64_t at,
                  float x)
{
    enum dsflow_dtype dtype = (enum dsflow_dtype)d->dtype;

    dsf_pack(dtype, &(struct dsf_rounding){ .nearest = 1 }, &x,
             (char *)to + dsflow_dtype_bytes(dtype, at), 1);
}

/* Weights by their place in the unit, alike wherever they are. */
static void fill(struct run *r)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(r->trial.graph); i++) {
        const struct dsflow_data_spec *d = spec(r, i);
        void *to;

        if (d->kept != 1 + DSF_KEPT_PARAM && !d->constant)
            continue;
        to = map(r, i, DSFLOW_RW);
        for (int64_t k = 0; k < d->elems; k++)
            store(d, to, k,
                  (float)((uint64_t)(d->at + k + 7 * d->unit) * 2654435761u %
                          1024) /
                          4096 -
                      0.1f);
    }
}

/* Put a number at the beginning of a unit on one rank, the last that has it and
 * owns no shard of it there; returns what was there. */
static float put(struct run *r, int32_t unit, float x)
{
    uint32_t i = dsflow_graph_ndata(r->trial.graph);
    float was;
    void *at;

    do
        i--;
    while (spec(r, i)->kept != 1 + DSF_KEPT_PARAM ||
           spec(r, i)->unit != unit || spec(r, i)->at > 0);
    at = map(r, i, DSFLOW_RW);
    dsf_unpack((enum dsflow_dtype)spec(r, i)->dtype, at, &was, 1);
    store(spec(r, i), at, 0, x);
    return was;
}

/* The same of the copy of parameters that the last rank has. */
static void put_code(struct run *r, int32_t unit, uint16_t *code)
{
    const enum dsflow_dtype type = dsf_compute_type(&r->trial.job);
    uint32_t i = dsflow_graph_ndata(r->trial.graph);
    uint16_t was, *at;

    do
        i--;
    while (spec(r, i)->dtype != type || spec(r, i)->role != DSFLOW_PARAMS ||
           !spec(r, i)->persistent || spec(r, i)->unit != unit);
    at = map(r, i, DSFLOW_RW);
    was = *at;
    *at = *code;
    *code = was;
}

static void run_program(struct run *r, dsflow_program program)
{
    struct dsflow_err err;

    must(r->trial.text, dsflow_exec_submit(r->exec, program, &err), &err);
    must(r->trial.text, dsflow_exec_wait(r->exec, &err), &err);
}

static void open_run(struct run *r, enum dsflow_exec_kind kind,
                     const struct dsflow_host *host)
{
    static const char *const folder = ".";
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = kind, .workers = 2,
                            .ranks = (unsigned)r->trial.plan->nranks,
                            .disk = { .paths = &folder,
                                      .npaths = 1,
                                      .block = 64 << 10 });
    dsflow_program prepare;
    struct dsflow_err err;

    must(r->trial.text,
         dsflow_exec_open(r->trial.graph, &options, host, &r->exec, &err),
         &err);
    fill(r);
    if (dsflow_graph_find_program(r->trial.graph, DSF_PREPARE, &prepare))
        run_program(r, prepare);
}

static void step(struct run *r)
{
    run_program(r, DSFLOW_STEP);
}

static void poisoned_step(struct run *r)
{
    const enum dsflow_dtype type = dsf_compute_type(&r->trial.job);
    const bool copy = type != DSFLOW_FP32 && dsf_keeps_masters(&r->trial.job);
    uint16_t code = type == DSFLOW_FP16 ? 0x7c00 : 0x7f80; /* infinite */
    float was = 0;

    if (copy)
        put_code(r, 3, &code);
    else
        was = put(r, 3, INFINITY);
    step(r);
    if (copy)
        put_code(r, 3, &code);
    else
        put(r, 3, was);
    if (!r->last.skipped || isfinite(r->last.norm))
        fail_msg("%s: a step of norm %g is no reason to skip it", r->trial.text,
                 r->last.norm);
}

static bool has_numbers(const struct dsflow_data_spec *d)
{
    return d->kept == 1 + DSF_KEPT_PARAM ||
           (d->kept >= 1 + DSF_KEPT_STATE && d->unit >= 0);
}

/* All numbers of parameters and states. */
static char *numbers(struct run *r, size_t *n)
{
    char *v = NULL;

    *n = 0;
    for (uint32_t i = 0; i < dsflow_graph_ndata(r->trial.graph); i++) {
        const struct dsflow_data_spec *d = spec(r, i);

        if (!has_numbers(d))
            continue;
        v = realloc(v, *n + d->bytes);
        memcpy(v + *n, map(r, i, DSFLOW_R), d->bytes);
        *n += d->bytes;
    }
    return v;
}

/* The same of whole units, in an order that no mesh changes: each rank has the
 * same numbers. */
static char *unit_numbers(struct run *r, size_t *n)
{
    const size_t nkept = r->trial.plan->kept.n;
    const size_t all = nkept * r->trial.model.nunits;
    char *v = NULL;

    *n = 0;
    for (size_t k = 0; k < all; k++) {
        size_t at = *n;

        for (uint32_t i = 0; i < dsflow_graph_ndata(r->trial.graph); i++) {
            const struct dsflow_data_spec *d = spec(r, i);

            if (!has_numbers(d) ||
                k != (size_t)d->unit * nkept + (d->kept - 1u))
                continue;
            if (*n == at) {
                v = realloc(v, at + d->bytes);
                memcpy(v + at, map(r, i, DSFLOW_R), d->bytes);
                *n += d->bytes;
            }
            assert_int_equal(d->bytes, *n - at);
            assert_memory_equal(v + at, map(r, i, DSFLOW_R), d->bytes);
        }
    }
    return v;
}

static struct dsflow_control control_of(struct run *r)
{
    for (uint32_t i = 0;; i++)
        if (spec(r, i)->kept == 1 + DSF_KEPT_CONTROL)
            return *(struct dsflow_control *)map(r, i, DSFLOW_R);
}

/* With a poisoned step, or without its batch. */
static char *train(struct run *r, enum dsflow_exec_kind kind, bool poisoned,
                   size_t *n, struct dsflow_control *control)
{
    struct dsflow_host host = { r, load_batch, report };
    char *v;

    r->leaves_out = poisoned ? -1 : POISONED;
    open_run(r, kind, &host);
    for (int i = 0; i < STEPS; i++)
        if (i != POISONED)
            step(r);
        else if (poisoned)
            poisoned_step(r);
    assert_false(r->last.skipped);
    assert_int_equal(r->last.updates, STEPS - 1);
    assert_int_equal(r->last.step, poisoned ? STEPS : STEPS - 1);
    v = r->by_unit ? unit_numbers(r, n) : numbers(r, n);
    *control = control_of(r);
    dsflow_exec_close(r->exec);
    return v;
}

static void skipping_is_leaving_out(const char *trial)
{
    char text[1024];
    struct run r = { .leaves_out = -1 };
    struct dsflow_control want, is;
    size_t n, m;
    char *expected;

    snprintf(text, sizeof(text), "%s train.on_nonfinite=skip", trial);
    plan_trial(&r.trial, text);
    expected = train(&r, DSFLOW_SERIAL, false, &n, &want);
    for (int kind = DSFLOW_SERIAL; kind <= DSFLOW_STARPU; kind++) {
        char *got = train(&r, (enum dsflow_exec_kind)kind, true, &m, &is);

        assert_int_equal(n, m);
        if (memcmp(expected, got, n) != 0)
            fail_msg("%s: a skipped step left something, executor %d",
                     r.trial.text, kind);
        assert_int_equal(is.skipped, 1);
        assert_int_equal(want.skipped, 0);
        is.skipped = 0;
        assert_memory_equal(&is, &want, sizeof(is));
        free(got);
    }
    free(expected);
    end_trial(&r.trial);
}

static void a_skipped_step_is_as_if_its_batch_had_not_been(void **state)
{
    const char *one = getenv("TRIAL");

    for (unsigned i = 0; i < sizeof(trials) / sizeof(*trials); i++)
        if (one == NULL || strstr(trials[i], one) != NULL)
            skipping_is_leaving_out(trials[i]);
}

/* Powers of two change no bit, and a step that overflows, on one rank of all,
 * halves the scale and leaves nothing. */
static void scaling_changes_nothing(const char *trial)
{
    char text[1024];
    struct run plain = { .leaves_out = -1 }, r = { .leaves_out = -1 };
    struct dsflow_control want, is;
    size_t n, m;
    char *expected;

    plan_trial(&plain.trial, trial);
    expected = train(&plain, DSFLOW_SERIAL, false, &n, &want);
    assert_int_equal(plain.last.overflows, -1);
    snprintf(text, sizeof(text), "%s scaled.initial=1024 scaled.window=1",
             trial);
    plan_trial(&r.trial, text);
    for (int kind = DSFLOW_SERIAL; kind <= DSFLOW_STARPU; kind++) {
        char *got = train(&r, (enum dsflow_exec_kind)kind, true, &m, &is);

        assert_int_equal(n, m);
        if (memcmp(expected, got, n) != 0)
            fail_msg("%s: the loss scale changed something, executor %d",
                     r.trial.text, kind);
        assert_true(want.loss_scale == 1 && is.loss_scale == 1024);
        assert_true(is.norm == want.norm && is.lr == want.lr);
        assert_true(is.correction2 == want.correction2);
        assert_int_equal(is.updates, want.updates);
        assert_int_equal(r.last.overflows, 1);
        assert_true(r.last.loss_scale == 1024);
        free(got);
    }
    free(expected);
    end_trial(&plain.trial);
    end_trial(&r.trial);
}

static void a_loss_scale_changes_no_bit(void **state)
{
    const char *one = getenv("TRIAL");

    for (unsigned i = 0; i < sizeof(scaled_trials) / sizeof(*scaled_trials);
         i++)
        if (one == NULL || strstr(scaled_trials[i], one) != NULL)
            scaling_changes_nothing(scaled_trials[i]);
}

/* In fp16, on one rank and with one of four that has an infinite number. */
static void an_overflow_on_one_rank_is_one_on_all(void **state)
{
    static const char keys[] =
        "gpt2 batch.groups=4 precision.compute=fp16 precision.hysteresis=1 "
        "precision.initial_scale=1024" ALL;
    struct run one = { .leaves_out = -1, .by_unit = true };
    struct run four = { .leaves_out = -1, .by_unit = true };
    struct dsflow_control want, is;
    size_t n, m;
    char text[400], *expected;

    plan_trial(&one.trial, keys);
    expected = train(&one, DSFLOW_SERIAL, true, &n, &want);
    assert_true(want.loss_scale == 512 && want.skipped == 1);
    snprintf(text, sizeof(text), "%s mesh.data=4", keys);
    plan_trial(&four.trial, text);
    for (int kind = DSFLOW_SERIAL; kind <= DSFLOW_STARPU; kind++) {
        char *got = train(&four, (enum dsflow_exec_kind)kind, true, &m, &is);

        assert_int_equal(n, m);
        if (memcmp(expected, got, n) != 0)
            fail_msg("four ranks are not as one, executor %d", kind);
        assert_memory_equal(&is, &want, sizeof(is));
        assert_int_equal(four.last.overflows, 1);
        free(got);
    }
    free(expected);
    end_trial(&one.trial);
    end_trial(&four.trial);
}

/* The step after it may be under way already: it changes nothing either. */
static void nothing_is_updated_after_a_stop(void **state)
{
    struct run r = { .leaves_out = -1 };
    struct dsflow_host host = { &r, load_batch, report };
    size_t n, m;
    char *before, *after;

    plan_trial(&r.trial, "llama mesh.data=2 zero.stage=2 mesh.pipeline=2");
    open_run(&r, DSFLOW_STARPU, &host);
    step(&r);
    before = numbers(&r, &n);
    poisoned_step(&r);
    step(&r);
    assert_true(isfinite(r.last.norm));
    assert_true(r.last.skipped);
    assert_int_equal(r.last.updates, 1);
    after = numbers(&r, &m);
    assert_int_equal(n, m);
    assert_memory_equal(before, after, n);
    free(before);
    free(after);
    dsflow_exec_close(r.exec);
    end_trial(&r.trial);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_skipped_step_is_as_if_its_batch_had_not_been),
        cmocka_unit_test(a_loss_scale_changes_no_bit),
        cmocka_unit_test(an_overflow_on_one_rank_is_one_on_all),
        cmocka_unit_test(nothing_is_updated_after_a_stop),
    };

    add_unit_ops();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
