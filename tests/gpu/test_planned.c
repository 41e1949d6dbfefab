/* test_planned.c - what a plan says that ranks take of GPUs is what the
 * executor of each process takes, on several nodes, too; and what cores take of
 * them. Nothing runs here: the module says which tasks are on GPUs. */
#include "same/trial.h"

#include "base/alloc.h"
#include "exec/cuda_module.h"
#include "exec/exec_memory.h"
#include "graph/task.h"
#include "policies/processes.h"
#include "tasks/portion.h"
#include "tune/budget.h"

#include "lib/test.h"

#include <stdlib.h>

/* Of process `p`, which opens `gpus` of its node. */
static void check_process(struct trial *t, const struct dsf_processes *all,
                          int32_t p, unsigned gpus)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.gpus = gpus, .workers = 2);
    struct dsf_graph_part part;
    struct dsf_exec_needs needs;
    struct dsf_weights w;
    struct dsflow_err err;

    must("part", dsf_process_part(all, p, t->graph, &part, &err), &err);
    must("needs", dsf_exec_needs_find(part.graph, &options, &needs, &err),
         &err);
    dsf_fit_weigh(t->plan, part.graph, NULL, &w);
    assert_int_equal(needs.first, dsf_process_first(all, p));
    assert_int_equal(needs.nranks, dsf_process_first(all, p + 1));
    for (unsigned r = needs.first; r < needs.nranks; r++) {
        assert_true(needs.ranks[r].device > 0);
        assert_int_equal(w.ranks[r].peak, needs.ranks[r].device);
    }
    dsf_weights_fini(&w);
    dsf_exec_needs_fini(&needs);
    dsf_graph_part_free(&part);
}

static void check_job(const char *text, unsigned gpus, unsigned processes,
                      unsigned nodes)
{
    struct dsf_machine machine;
    struct dsf_processes all;
    struct trial t;

    plan_trial(&t, text);
    machine = *t.plan->machine;
    machine.gpus = gpus;
    machine.processes = processes;
    machine.nodes = nodes;
    t.plan->machine = &machine;
    all = dsf_processes_of(&machine, t.plan->nranks);
    for (int32_t p = 0; p < all.n; p++)
        check_process(&t, &all, p, gpus);
    end_trial(&t);
}

/* Those of a GPU share its scratch, which is more for each where they are few.
 */
static void ranks_take_what_their_own_process_gives_them(void **state)
{
    static const char job[] = "gpt2 machine.gpus=1 mesh.data=4 zero.stage=1";

    for (unsigned gpus = 1; gpus <= 4; gpus++)
        for (unsigned processes = 1; processes <= 4; processes *= 2)
            for (unsigned nodes = 1; nodes <= processes; nodes *= 2)
                check_job(job, gpus, processes, nodes);
}

/* Of four ranks alike on so many GPUs: bytes of all of them. */
static size_t bytes_on(const struct trial *t, unsigned gpus)
{
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.gpus = gpus, .workers = 2);
    struct dsf_exec_needs needs;
    struct dsflow_err err;
    size_t bytes = 0;

    must("needs", dsf_exec_needs_find(t->graph, &options, &needs, &err), &err);
    assert_int_equal(needs.nranks, 4);
    for (unsigned r = 0; r < needs.nranks; r++)
        bytes += needs.ranks[r].device;
    dsf_exec_needs_fini(&needs);
    return bytes;
}

static void each_gpu_has_one_scratch_whoever_shares_it(void **state)
{
    size_t bytes[5], scratch;
    struct trial t;

    plan_trial(&t, "gpt2 machine.gpus=1 mesh.data=4 zero.stage=0");
    for (unsigned gpus = 1; gpus <= 4; gpus++)
        bytes[gpus] = bytes_on(&t, gpus);
    scratch = bytes[2] - bytes[1];
    assert_true(scratch > 4096 && scratch < bytes[1]);
    for (unsigned gpus = 3; gpus <= 4; gpus++) /* shares are whole bytes */
        assert_in_range(bytes[gpus] - bytes[gpus - 1], scratch - 4,
                        scratch + 4);
    end_trial(&t);
}

/* Bytes of each piece of data that updates have to do with, and of the largest
 * part; how many parts they write anew. */
static size_t add_updates(const struct trial *t, size_t *bytes, size_t *most)
{
    size_t anew = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task = dsf_nth_task(t->graph, i);

        for (unsigned p = 0; task->op->update && p < task->ndata; p++) {
            struct dsf_portion part = dsf_portion_of(t->graph, task, p);

            bytes[task->data[p].i] += part.bytes;
            anew += part.taken_back && !part.brought;
            if (dsf_nth_data(t->graph, task->data[p].i)->tier ==
                    DSFLOW_DEVICE &&
                part.bytes > *most)
                *most = part.bytes;
        }
    }
    return anew;
}

/* Gradients and parameters are on the GPU, whole, and what updates a piece of
 * the states in main memory has the same piece of them: all go over the link
 * once, and parameters not before they are written. */
static void pieces_on_cores_bring_their_part_alone(void **state)
{
    static const char job[] = "gpt2 machine.gpus=1 precision.compute=bf16 "
                              "offload.optimizer=cpu offload.piece=4KiB";
    struct trial t;
    struct dsf_exec_needs needs;
    struct dsflow_err err;
    size_t *bytes, most = 0, anew, units = 0;

    plan_trial(&t, job);
    bytes = dsf_xcalloc(dsflow_graph_ndata(t.graph), sizeof(*bytes));
    anew = add_updates(&t, bytes, &most);
    assert_in_range(most, 1, 4096);
    for (uint32_t i = 0; i < dsflow_graph_ndata(t.graph); i++) {
        const struct dsflow_data_spec *d = dsf_nth_data(t.graph, i);

        if (bytes[i] == 0 || d->tier != DSFLOW_DEVICE || d->unit < 0)
            continue;
        assert_int_equal(bytes[i], d->bytes);
        units += d->bytes > 4096;
    }
    assert_true(units > 8 && anew > units);
    must("needs",
         dsf_exec_needs_find(t.graph,
                             &DSFLOW_EXEC_OPTIONS(.gpus = 1, .workers = 2),
                             &needs, &err),
         &err);
    assert_in_range(needs.host, 1, 1 << 20);
    dsf_exec_needs_fini(&needs);
    free(bytes);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_take_what_their_own_process_gives_them),
        cmocka_unit_test(each_gpu_has_one_scratch_whoever_shares_it),
        cmocka_unit_test(pieces_on_cores_bring_their_part_alone),
    };
    struct dsflow_err err;

    setenv("DSFLOW_CUDA", "tests/gpu/.libs/dsflow-cuda-emulated.so", 1);
    setenv("ON_GPUS", "1", 1);
    if (dsf_cuda_module(&err) == NULL) {
        fprintf(stderr, "%s\n", err.msg);
        return 99;
    }
    return cmocka_run_group_tests_name("planned", tests, NULL, NULL);
}
