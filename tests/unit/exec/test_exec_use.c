/* test_exec_use.c - memory of the caller's, and tasks that are told before each
 * submission what they are for. */
#include <dsflow/exec.h>

#include "exec/exec_use.h"
#include "lib/test.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

enum { WORDS = 64 };

static const enum dsflow_exec_kind kinds[] = { DSFLOW_SERIAL, DSFLOW_STARPU,
                                               DSFLOW_IN_ORDER };
#define NKINDS (sizeof(kinds) / sizeof(*kinds))

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

/* out[i] = in[0] + k + i for all of `out`; -1 where it is not fresh. */
static void count_cpu(const struct dsflow_call *call)
{
    const int32_t *in = call->bufs[0].ptr;
    int32_t *out = call->bufs[1].ptr;

    for (int64_t i = 0; i < call->bufs[1].elems; i++)
        out[i] = call->fresh >> 1 & 1
                     ? in[0] + *(const int32_t *)call->args + (int32_t)i
                     : -1;
    assert_int_equal(call->bufs[1].bytes,
                     (size_t)call->bufs[1].elems * sizeof(*out));
}

static const struct dsflow_op count_op = {
    .abi = DSFLOW_OP_ABI,
    .name = "test_count",
    .summary = "out = in + k + i",
    .args_size = sizeof(int32_t),
    DSFLOW_PORTS({ "in", DSFLOW_R }, { "out", DSFLOW_RW }),
    .check = check,
};
static const struct dsflow_codelet count_codelet = { .abi = DSFLOW_CODELET_ABI,
                                                     .op = &count_op,
                                                     .cpu = count_cpu };

struct counted {
    struct dsflow_graph *g;
    dsflow_data_id in, out;
    dsflow_task_id task;
    struct dsflow_exec *exec;
    struct dsflow_host host;
};

static const int32_t sevens[16] __attribute__((aligned(64))) = { 7 };

/* One task; its input is `sevens` itself. */
static void open_counted(struct counted *c, enum dsflow_exec_kind kind)
{
    void *lent[2] = { (void *)(uintptr_t)sevens, NULL };
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = kind, .workers = 1, .lent = lent);

    memset(c, 0, sizeof(*c));
    c->g = dsflow_graph_new();
    c->in = dsflow_graph_add_data(
        c->g, &DSFLOW_DATA(.name = "in", .elems = 16, .dtype = DSFLOW_INT32,
                           .persistent = 1, .constant = 1));
    c->out = dsflow_graph_add_data(
        c->g, &DSFLOW_DATA(.name = "out", .elems = WORDS, .dtype = DSFLOW_INT32,
                           .persistent = 1));
    c->task = dsflow_graph_add_task(
        c->g,
        &DSFLOW_TASK(.op = &count_op, .args = &(int32_t){ 100 }, .fresh = 2,
                     .ndata = 2, .data = (dsflow_data_id[]){ c->in, c->out }));
    assert_int_equal(dsflow_graph_check(c->g, NULL), DSFLOW_OK);
    assert_int_equal(dsflow_exec_open(c->g, &options, &c->host, &c->exec, NULL),
                     DSFLOW_OK);
}

static const int32_t *run_counted(struct counted *c)
{
    assert_int_equal(dsflow_exec_submit(c->exec, DSFLOW_STEP, NULL), DSFLOW_OK);
    assert_int_equal(dsflow_exec_wait(c->exec, NULL), DSFLOW_OK);
    return dsflow_exec_map(c->exec, c->out, DSFLOW_R);
}

static void close_counted(struct counted *c)
{
    dsflow_exec_close(c->exec);
    dsflow_graph_free(c->g);
}

static bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
                          void *(*run)(void *), void *arg)
{
    return no_threads ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static void a_thread_that_cannot_be_had_says_why(void **state)
{
    struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_IN_ORDER, .ranks = 2);
    struct dsflow_graph *g = dsflow_graph_new();
    struct dsflow_exec *exec;
    struct dsflow_err err;
    char wanted[128];

    no_threads = true;
    assert_int_equal(
        dsflow_exec_open(g, &options, &(struct dsflow_host){ 0 }, &exec, &err),
        DSFLOW_EFAIL);
    no_threads = false;
    snprintf(wanted, sizeof(wanted), "no thread for rank 1: %s",
             strerror(EAGAIN));
    assert_string_equal(err.msg, wanted);
    dsflow_graph_free(g);
}

static void what_is_lent_is_used_where_it_is(void **state)
{
    for (size_t k = 0; k < NKINDS; k++) {
        struct counted c;
        const int32_t *out;

        open_counted(&c, kinds[k]);
        assert_ptr_equal(dsflow_exec_map(c.exec, c.in, DSFLOW_R), sevens);
        out = run_counted(&c);
        assert_int_equal(out[0], 107);
        assert_int_equal(out[WORDS - 1], 107 + WORDS - 1);
        close_counted(&c);
    }
}

static void a_task_does_what_it_is_told_this_time(void **state)
{
    for (size_t k = 0; k < NKINDS; k++) {
        struct dsf_exec_rows rows[2] = { { 0, 0 }, { 0, 0 } };
        int32_t args = 1000;
        struct dsf_exec_use use = { .fresh = 2, .args = &args, .rows = rows };
        struct counted c;
        const int32_t *out;

        open_counted(&c, kinds[k]);
        run_counted(&c);
        dsf_exec_set_use(c.exec, c.task, &use);
        rows[1] = (struct dsf_exec_rows){ 10, 3 };
        out = run_counted(&c);
        assert_int_equal(out[9], 107 + 9);
        assert_int_equal(out[10], 1007);
        assert_int_equal(out[12], 1009);
        assert_int_equal(out[13], 107 + 13);
        args = 2000;
        use.skipped = true;
        out = run_counted(&c);
        assert_int_equal(out[10], 1007);
        use.skipped = false;
        rows[1] = (struct dsf_exec_rows){ WORDS - 1, 1 };
        out = run_counted(&c);
        assert_int_equal(out[WORDS - 1], 2007);
        assert_int_equal(out[WORDS - 2], 107 + WORDS - 2);
        use.fresh = 0;
        out = run_counted(&c);
        assert_int_equal(out[WORDS - 1], -1);
        close_counted(&c);
    }
}

static int add_codelet(void **state)
{
    return dsflow_op_register(&count_op, NULL) < 0 ||
           dsflow_codelet_register(&count_codelet, NULL) < 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_cannot_be_had_says_why),
        cmocka_unit_test(what_is_lent_is_used_where_it_is),
        cmocka_unit_test(a_task_does_what_it_is_told_this_time),
    };

    return cmocka_run_group_tests(tests, add_codelet, NULL);
}
