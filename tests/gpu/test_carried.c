/* test_carried.c - what a step carries over the link of a GPU, byte for byte,
 * is what predictions count. */
#include "same/trial.h"

#include "exec/exec_private.h"
#include "gpu/runtime/counts.h"
#include "graph/task.h"
#include "sim/staged.h"

#include "lib/test.h"

#include <dlfcn.h>
#include <stdlib.h>

static void (*count)(struct emulated_runtime_counts *counts);

static void load_batch(void *user, const struct dsflow_batch *b)
{
    for (int32_t i = 0; i < b->rows; i++) {
        b->tokens[i] = i % 7;
        b->targets[i] = i % 5;
    }
}

static void report(void *user, const struct dsflow_step_report *of)
{
    assert_int_equal(of->skipped, 0);
    ++*(int *)user;
}

/* What cores write is near them, and does not go over the link. */
static void leave_out_near(const struct dsflow_exec *exec,
                           const struct dsflow_task_spec *t,
                           struct dsf_staged_bytes *bytes)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const unsigned access = dsflow_task_access(t, p);
        const double near =
            (double)dsflow_graph_data(exec->graph, t->data[p])->bytes;

        if (exec->place[t->data[p].i] != DSF_PLACE_NEAR)
            continue;
        assert_true(near < 4096);
        bytes->brought -= access & DSFLOW_R ? near : 0;
        bytes->taken_back -= access & DSFLOW_W ? near : 0;
    }
}

static struct dsf_staged_bytes swapped(const struct dsflow_graph *g,
                                       const struct dsflow_task_spec *t)
{
    const double bytes = (double)dsf_task_swapped(g, t);

    return dsf_task_brings(g, t)
               ? (struct dsf_staged_bytes){ .taken_back = bytes }
               : (struct dsf_staged_bytes){ .brought = bytes };
}

/* Of tasks of cores, and of swaps. */
static struct dsf_staged_bytes predicted(const struct dsflow_exec *exec)
{
    struct dsf_staged_bytes sum = { 0, 0 };

    for (uint32_t i = 0; i < dsflow_graph_ntasks(exec->graph); i++) {
        const struct dsf_exec_call *call = &exec->calls[i];
        const struct dsflow_task_spec *t = call->task;
        struct dsf_staged_bytes of = { 0, 0 };

        if (t->program != DSFLOW_STEP)
            continue;
        if (t->op->swaps)
            of = swapped(exec->graph, t);
        else if (call->by == DSF_BY_CORE && call->staged) {
            assert_true(dsf_task_uses(exec->graph, t, DSFLOW_HOST));
            of = dsf_staged_bytes(exec->graph, t);
            leave_out_near(exec, t, &of);
        }
        sum.brought += of.brought;
        sum.taken_back += of.taken_back;
    }
    return sum;
}

static struct dsf_staged_bytes carried(struct dsflow_exec *exec,
                                       const char *text)
{
    struct emulated_runtime_counts before, after;
    struct dsflow_err err;

    count(&before);
    must(text, dsflow_exec_submit(exec, DSFLOW_STEP, &err), &err);
    must(text, dsflow_exec_wait(exec, &err), &err);
    count(&after);
    return (struct dsf_staged_bytes){
        .brought = (double)(after.bytes_out - before.bytes_out),
        .taken_back = (double)(after.bytes_in - before.bytes_in),
    };
}

static void check_job(const char *text)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.kind = DSFLOW_STARPU, .gpus = 1, .workers = 2);
    int steps = 0;
    const struct dsflow_host host = { &steps, load_batch, report };
    struct dsf_staged_bytes are, ought;
    struct dsflow_exec *exec;
    struct dsflow_err err;
    struct trial t;

    plan_trial(&t, text);
    must(text, dsflow_exec_open(t.graph, &options, &host, &exec, &err), &err);
    ought = predicted(exec);
    are = carried(exec, text);
    assert_int_equal(steps, 1);
    assert_true(are.brought > 0 && are.taken_back > 0);
    if (are.brought != ought.brought || are.taken_back != ought.taken_back)
        fail_msg("%s: %.0f bytes out of the GPU and %.0f into it: expected "
                 "%.0f and %.0f",
                 text, are.brought, are.taken_back, ought.brought,
                 ought.taken_back);
    dsflow_exec_close(exec);
    end_trial(&t);
}

#define GPU   "machine.gpus=1 batch.sequences=2 "
#define CPU   "offload.optimizer=cpu "
#define PIECE "offload.piece=4KiB "
static void a_step_carries_what_is_predicted(void **state)
{
    static const char *const jobs[] = {
        "gpt2 " GPU CPU,
        "gpt2 " GPU CPU PIECE,
        "gpt2 " GPU CPU PIECE "precision.compute=bf16",
        "llama " GPU CPU PIECE "precision.compute=fp16",
        "llama " GPU CPU PIECE "precision.compute=bf16 offload.params=cpu",
        "llama " GPU CPU PIECE "precision.compute=bf16 "
        "precision.gradients=bf16 precision.states=int8",
        "gpt2 " GPU CPU PIECE "precision.compute=bf16 optimizer.kind=lion",
        "gpt2 " GPU CPU PIECE "precision.compute=bf16 optimizer.kind=lamb",
        "gpt2 " GPU CPU PIECE "optimizer.kind=muon",
        "llama " GPU CPU "offload.params=cpu offload.gradients=cpu "
        "offload.activations=cpu",
    };

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++)
        check_job(jobs[i]);
}

int main(void)
{
    static const char path[] = "tests/gpu/.libs/dsflow-cuda-emulated.so";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_carries_what_is_predicted),
    };
    void *module = dlopen(path, RTLD_NOW);

    setenv("DSFLOW_CUDA", path, 1);
    setenv("ON_GPUS", "1", 1);
    if (module == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 99;
    }
    *(void **)&count = dlsym(module, "emulated_runtime_count");
    return cmocka_run_group_tests_name("carried", tests, NULL, NULL);
}
