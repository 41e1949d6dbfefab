/* test_trials.c - the random cases of the built-in kinds of task: each is
 * accepted, the same for the same seed, runs, and gives numbers. */
#include "unit/codelets/segment.h"

#include "codelets/trials.h"

#include <math.h>

enum { SEEDS = 60 };

static void fill_normal(const struct dsflow_buf *buf, uint64_t seed)
{
    struct tensor t = tensor_new((size_t)buf->elems, 1, seed);
    uint16_t *half = buf->ptr;

    if (!is_narrow(buf->dtype))
        memcpy(buf->ptr, t.f, t.n * sizeof(float));
    for (size_t i = 0; i < t.n && is_narrow(buf->dtype); i++)
        half[i] = narrow_of(buf->dtype, t.f[i]);
    tensor_free(&t);
}

/* Of a type that is no float, 0. */
static float number_of(const struct dsflow_buf *buf, int64_t i)
{
    const uint16_t *v = buf->ptr;

    if (is_narrow(buf->dtype))
        return wide_of(buf->dtype, v[i]);
    return buf->dtype == DSFLOW_FP32 ? ((const float *)buf->ptr)[i] : 0;
}

static void fill_port(const struct dsflow_op *op,
                      const struct dsflow_trials *trials, uint64_t seed,
                      unsigned port, const struct dsflow_buf *buf,
                      const void *args)
{
    double *d = buf->ptr;

    if (trials->fill != NULL &&
        trials->fill(op, seed, port, buf->ptr, buf->elems, args))
        return;
    if (buf->dtype == DSFLOW_FP64)
        for (int64_t i = 0; i < buf->elems; i++)
            d[i] = sin((double)seed + (double)i);
    else
        fill_normal(buf, seed * 8 + port);
}

/* Of data that may be fp32, trials fill in that. */
static void fill_narrow(const struct dsflow_op *op,
                        const struct dsflow_trials *trials, uint64_t seed,
                        unsigned port, const struct dsflow_buf *buf,
                        const void *args)
{
    struct tensor t = tensor_unset((size_t)buf->elems);
    const struct dsflow_buf wide = { t.f, t.mem.bytes, buf->elems,
                                     DSFLOW_FP32 };
    uint16_t *v = buf->ptr;

    fill_port(op, trials, seed, port, &wide, args);
    for (size_t i = 0; i < t.n; i++)
        v[i] = narrow_of(buf->dtype, t.f[i]);
    tensor_free(&t);
}

static void try(const struct dsflow_codelet *c,
                const struct dsflow_trials *trials, uint64_t seed)
{
    const struct dsflow_op *op = c->op;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS], again[DSFLOW_TRIAL_PORTS];
    unsigned n, n2, fresh = 0, fresh2 = 0;
    unsigned char args[1024] = { 0 }, args2[1024] = { 0 };
    struct guarded mem[DSFLOW_TRIAL_PORTS], scratch;
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_case seen = { op, shapes, 0, args };
    struct dsflow_err err = { .msg = "" };

    assert_true(op->args_size <= sizeof(args));
    assert_int_equal(trials->make(op, seed, shapes, &n, args, &fresh), 0);
    assert_int_equal(trials->make(op, seed, again, &n2, args2, &fresh2), 0);
    assert_true(n == n2 && fresh == fresh2);
    assert_memory_equal(args, args2, sizeof(args));
    dsf_trials_narrow(op, seed, shapes, n, args);
    dsf_trials_narrow(op, seed, again, n, args);
    for (unsigned i = 0; i < n; i++)
        assert_true(shapes[i].elems == again[i].elems &&
                    shapes[i].dtype == again[i].dtype);
    seen.n = n;
    if (op->check(&seen, &err) != DSFLOW_OK)
        fail_msg("%s, seed %llu: %s", op->name, (unsigned long long)seed,
                 err.msg);
    for (unsigned i = 0; i < n; i++) {
        const struct dsflow_port *port =
            &op->ports[i < op->nports ? i : op->nports - 1];

        mem[i] = guarded_new(shapes[i].bytes);
        memset(mem[i].p, 0xff, shapes[i].bytes);
        bufs[i] = (struct dsflow_buf){ mem[i].p, shapes[i].bytes,
                                       shapes[i].elems, shapes[i].dtype };
        if (port->name == NULL || (port->optional && shapes[i].bytes == 0))
            bufs[i].ptr = NULL; /* left out */
        else if (port->access == DSFLOW_W || fresh >> i & 1)
            continue;
        else if (port->floats && is_narrow(shapes[i].dtype))
            fill_narrow(op, trials, seed, i, &bufs[i], args);
        else
            fill_port(op, trials, seed, i, &bufs[i], args);
    }
    scratch = guarded_new(op->scratch != NULL ? op->scratch(&seen) : 0);
    c->cpu(&(struct dsflow_call){ .bufs = bufs,
                                  .nbufs = n,
                                  .args = args,
                                  .fresh = fresh,
                                  .scratch = scratch.p });
    for (unsigned i = 0; i < n; i++) {
        for (int64_t k = 0; k < bufs[i].elems; k++)
            if (!isfinite(number_of(&bufs[i], k)))
                fail_msg("%s, seed %llu: %s[%lld] is %g", op->name,
                         (unsigned long long)seed, op->ports[i].name,
                         (long long)k, (double)number_of(&bufs[i], k));
        guarded_free(&mem[i]);
    }
    guarded_free(&scratch);
}

static void every_case_is_accepted_and_gives_numbers(void **state)
{
    const struct dsflow_codelet *c;
    unsigned tried = 0;

    for (unsigned i = 0; (c = dsflow_codelet_at(i)) != NULL; i++)
        for (uint64_t seed = 0; c->trials != NULL && seed < SEEDS; seed++) {
            try(c, c->trials, seed);
            tried++;
        }
    assert_true(tried >= 32 * SEEDS);
}

/* What a tensor rank does: without the norm. */
static void every_part_of_a_segment_is_accepted_too(void **state)
{
    const struct dsflow_op *op = &dsf_op_mlp_backward_input;
    struct dsflow_shape shapes[DSFLOW_TRIAL_PORTS];
    unsigned char args[1024] = { 0 };
    const struct dsflow_codelet *c;
    unsigned n, fresh;

    assert_int_equal(dsf_trials_part.make(op, 1, shapes, &n, args, &fresh), 0);
    assert_int_equal(shapes[DSFLOW_MLP_X].elems, 0);
    for (unsigned i = 0; (c = dsflow_codelet_at(i)) != NULL; i++)
        for (uint64_t seed = 0; c->op->segment != NULL && seed < SEEDS;
             seed++)
            try(c, &dsf_trials_part, seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_accepted_and_gives_numbers),
        cmocka_unit_test(every_part_of_a_segment_is_accepted_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
