/* test_trials.c - the random cases of the built-in kinds of task: each is
 * accepted, the same for the same seed, runs, and gives numbers. */
#include "unit/codelets/segment.h"

#include <math.h>

enum { SEEDS = 60 };

static void fill_normal(float *data, size_t n, uint64_t seed)
{
    struct tensor t = tensor_new(n, 1, seed);

    memcpy(data, t.f, n * sizeof(float));
    tensor_free(&t);
}

static void fill_port(const struct dsflow_trials *trials, uint64_t seed,
                      unsigned port, struct guarded *buf, const void *args)
{
    double *d = (void *)buf->p;

    if (trials->fill != NULL &&
        trials->fill(seed, port, buf->p, buf->bytes, args))
        return;
    if (trials->doubles >> port & 1)
        for (size_t i = 0; i < buf->bytes / sizeof(double); i++)
            d[i] = sin((double)(seed + i));
    else
        fill_normal((void *)buf->p, buf->bytes / sizeof(float),
                    seed * 8 + port);
}

static void try(const struct dsflow_codelet *c, uint64_t seed)
{
    const struct dsflow_op *op = c->op;
    size_t bytes[DSFLOW_TRIAL_PORTS], again[DSFLOW_TRIAL_PORTS];
    unsigned n, n2, fresh = 0, fresh2 = 0;
    unsigned char args[1024] = { 0 }, args2[1024] = { 0 };
    struct guarded mem[DSFLOW_TRIAL_PORTS], scratch;
    struct dsflow_buf bufs[DSFLOW_TRIAL_PORTS];
    struct dsflow_err err = { .msg = "" };

    assert_true(op->args_size <= sizeof(args));
    assert_int_equal(c->trials->make(seed, bytes, &n, args, &fresh), 0);
    assert_int_equal(c->trials->make(seed, again, &n2, args2, &fresh2), 0);
    assert_true(n == n2 && fresh == fresh2);
    assert_memory_equal(args, args2, sizeof(args));
    assert_memory_equal(bytes, again, n * sizeof(*bytes));
    if (op->check(bytes, n, args, &err) != DSFLOW_OK)
        fail_msg("%s, seed %llu: %s", op->name, (unsigned long long)seed,
                 err.msg);
    for (unsigned i = 0; i < n; i++) {
        enum dsflow_access access =
            op->ports[i < op->nports ? i : op->nports - 1].access;

        mem[i] = guarded_new(bytes[i]);
        memset(mem[i].p, 0xff, bytes[i]);
        if (access != DSFLOW_W && !(fresh >> i & 1))
            fill_port(c->trials, seed, i, &mem[i], args);
        bufs[i] = (struct dsflow_buf){ mem[i].p, bytes[i] };
    }
    scratch =
        guarded_new(op->scratch != NULL ? op->scratch(bytes, n, args) : 0);
    c->cpu(&(struct dsflow_call){ .bufs = bufs,
                                  .nbufs = n,
                                  .args = args,
                                  .fresh = fresh,
                                  .scratch = scratch.p });
    for (unsigned i = 0; i < n; i++) {
        const float *f = (void *)mem[i].p;

        /* Structures and whole numbers are no floats. */
        for (size_t k = 0; k < bytes[i] / sizeof(float); k++)
            if (!((c->trials->doubles | c->trials->bytes) >> i & 1) &&
                !isfinite(f[k]) &&
                strcmp(op->ports[i].name, "batch") != 0 &&
                strcmp(op->ports[i].name, "control") != 0)
                fail_msg("%s, seed %llu: %s[%zu] is %g", op->name,
                         (unsigned long long)seed, op->ports[i].name, k,
                         (double)f[k]);
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
            try(c, seed);
            tried++;
        }
    assert_true(tried >= 25 * SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_accepted_and_gives_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
