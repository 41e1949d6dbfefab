/* test_left.c - what is left to cores where ranks are GPUs: of the kinds of
 * task of a step, those that must be. Nothing runs here: the graph says which
 * kinds there are, and the module which of them have CUDA sides. */
#include "same/trial.h"

#include "codelets/copies.h"
#include "gpu/place.h"
#include "graph/task.h"

#include "lib/test.h"

#include <string.h>

#define COUNT(of) (sizeof(of) / sizeof(*(of)))

static struct {
    const char *op, *why;
    bool met;
} cores[] = {
    { "load_batch", "the program reads text" },
    { "advance", "the cursor of the text is the program's" },
    { "begin", "learning rate and scale of the step" },
    { "sum", "a few numbers in main memory" },
    { "clip", "a few numbers in main memory" },
    { "local_step", "a few numbers in main memory" },
    { "finish", "counts the step as taken or skipped" },
    { "report", "calls the program" },
    { "report_loss", "calls the program" },
};

static const char *const families[] = { "gpt2", "llama", "mixed" };

static const char *const types[] = {
    "",
    "precision.compute=bf16",
    "precision.compute=bf16 precision.gradients=bf16",
};

#define ALL_ON(tier)                                                           \
    "offload.optimizer=" tier " offload.params=" tier                          \
    " offload.gradients=" tier " offload.activations=" tier

#define CODED "precision.gradients=fp32 compress.keep=0 "

static const char *const policies[] = {
    "logits=4096",
    "optimizer.kind=sgd",
    "optimizer.kind=adagrad",
    "optimizer.kind=lamb mesh.data=2 zero.stage=1",
    "optimizer.kind=lion recompute.what=block",
    "optimizer.kind=muon mesh.data=2 zero.stage=1",
    "mesh.data=2 zero.stage=0",
    "mesh.data=2 zero.stage=1",
    "mesh.data=2 zero.stage=2 zero.reduce=micro",
    "mesh.data=2 zero.stage=3 zero.keep=0",
    "mesh.pipeline=2",
    "mesh.tensor=2 mesh.pipeline=2 pipeline.schedule=zero_bubble",
    ALL_ON("cpu"),
    ALL_ON("nvme") " precision.states=int8",
    "mesh.data=2 zero.stage=3 zero.keep=0 " ALL_ON("nvme"),
    CODED "mesh.data=2 zero.stage=2 compress.gradients=int4 "
          "compress.params=int8 compress.error=int8 compress.embedding=rows",
    CODED "mesh.data=4 zero.stage=1 compress.gradients=sign compress.node=2",
    CODED "mesh.data=2 zero.stage=1 batch.groups=2 job.steps=3 "
          "optimizer.kind=onebit_adam onebit_adam.freeze_step=1",
    CODED "mesh.data=2 zero.stage=2 batch.groups=2 job.steps=3 "
          "optimizer.kind=onebit_lamb onebit_lamb.freeze_step=1",
    CODED "mesh.data=2 mesh.tensor=2 zero.stage=0 job.steps=3 "
          "optimizer.kind=onebit_lamb onebit_lamb.freeze_step=1",
    CODED "mesh.data=2 mesh.pipeline=2 zero.stage=0 job.steps=9 "
          "optimizer.kind=zeroone_adam optimizer.clip=0.0 "
          "zeroone_adam.var_freeze_step=3 zeroone_adam.var_update_scaler=1 "
          "zeroone_adam.local_step_scaler=1 zeroone_adam.local_step_clipper=2",
    "mesh.sequence=2 batch.head_columns=48",
};

static bool must_be(const char *op)
{
    for (unsigned i = 0; i < COUNT(cores); i++)
        if (strcmp(cores[i].op, op) == 0)
            return cores[i].met = true;
    return false;
}

/* A kind with a CUDA side is left to cores only where its data is in main
 * memory, which is what offloading asks for. */
static void check_task(const char *text, const struct trial *t,
                       const struct dsflow_task_spec *task)
{
    if (dsf_only_copies(task->op) || must_be(task->op->name))
        return;
    if (place_side(task->op->name) == NULL)
        fail_msg("%s: %s has no CUDA side", text, task->op->name);
    if (strstr(text, "offload.") == NULL &&
        (dsf_task_uses(t->graph, task, DSFLOW_HOST) ||
         dsf_task_uses(t->graph, task, DSFLOW_NVME)))
        fail_msg("%s: %s has data in main memory", text, task->op->name);
}

static void check_job(const char *text)
{
    struct trial t;

    plan_trial(&t, text);
    assert_true(dsflow_graph_ntasks(t.graph) > 0);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++)
        check_task(text, &t, dsflow_graph_task(t.graph, (dsflow_task_id){ i }));
    end_trial(&t);
}

static void what_cores_must_not_do_has_a_cuda_side(void **state)
{
    enum { JOBS = COUNT(families) * COUNT(types) * COUNT(policies) };
    char text[512];

    for (unsigned i = 0; i < JOBS; i++) {
        snprintf(text, sizeof(text), "%s %s %s", families[i % COUNT(families)],
                 types[i / COUNT(families) % COUNT(types)],
                 policies[i / COUNT(families) / COUNT(types)]);
        check_job(text);
    }
    /* What is in the list is needed there. */
    for (unsigned i = 0; i < COUNT(cores); i++) {
        if (!cores[i].met)
            fail_msg("%s is in no job", cores[i].op);
        if (place_side(cores[i].op) != NULL)
            fail_msg("%s has a CUDA side", cores[i].op);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_cores_must_not_do_has_a_cuda_side),
    };

    return cmocka_run_group_tests_name("left", tests, NULL, NULL);
}
