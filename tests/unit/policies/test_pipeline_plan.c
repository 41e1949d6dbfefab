/* test_pipeline_plan.c - what is decided of a pipeline before there is a graph:
 * the stages of the layers, and the lengths of the rings. */
#include "same/trial.h"

#include "lib/test.h"

#include <stdio.h>
#include <string.h>

/* "0 0 1 1": the stage of each block. */
static void assert_stages(const char *job, const char *expected)
{
    char text[100] = "";
    struct trial t;

    plan_trial(&t, job);
    for (int l = 0; l < t.model.layers; l++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%d",
                 l > 0 ? " " : "", dsflow_plan_stage_of(t.plan, l));
    assert_string_equal(text, expected);
    assert_int_equal(dsflow_plan_stage_of(t.plan, -1), 0);
    assert_int_equal(dsflow_plan_stage_of(t.plan, t.model.layers),
                     t.plan->nstages - 1);
    end_trial(&t);
}

static void layers_are_on_stages_by_cost_or_as_the_job_says(void **state)
{
    assert_stages("gpt2", "0 0 0 0");
    assert_stages("gpt2 mesh.pipeline=2", "0 0 1 1");
    assert_stages("gpt2 mesh.pipeline=4", "0 1 2 3");
    assert_stages("gpt2 mesh.pipeline=2 pipeline.split=[1,3]", "0 1 1 1");
    assert_stages("gpt2 mesh.pipeline=3 pipeline.split=[2,0,2]", "0 0 2 2");
    assert_stages("gpt2 mesh.pipeline=2 pipeline.schedule=interleaved",
                  "0 1 0 1");
    /* A head as dear as two blocks. */
    assert_stages("gpt2 mesh.pipeline=2 model.vocab=800", "0 0 0 1");
}

/* "2 1": the slots of each chunk, then the lanes and the depth. */
static void assert_rings(const char *job, const char *expected)
{
    char text[100] = "";
    struct trial t;

    plan_trial(&t, job);
    for (int c = 0; c < t.plan->nchunks; c++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d/%d ",
                 t.plan->activation_slots[c], t.plan->grad_slots[c]);
    snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d",
             t.plan->depth);
    assert_string_equal(text, expected);
    end_trial(&t);
}

#define TWO " machine.workers=2"

/* slots/lanes of each chunk, and layers that weight gradients may lag. */
static void rings_are_as_long_as_the_schedule_needs(void **state)
{
    assert_rings("gpt2" TWO, "3/3 3");
    assert_rings("gpt2 batch.in_flight=1" TWO, "1/1 3");
    assert_rings("gpt2 batch.order=layer_major" TWO, "8/8 3");
    assert_rings("gpt2 mesh.pipeline=2" TWO, "2/2 1/1 3");
    assert_rings("gpt2 mesh.pipeline=2 pipeline.schedule=gpipe" TWO,
                 "8/2 8/2 3");
    assert_rings("gpt2 mesh.pipeline=2 pipeline.schedule=zero_bubble" TWO,
                 "3/3 3/3 5");
    assert_rings("gpt2 mesh.pipeline=2 pipeline.schedule=zero_bubble "
                 "batch.in_flight=2" TWO,
                 "2/2 2/2 5");
    /* To wait for gradients of weights changes no ring. */
    assert_rings("gpt2 mesh.pipeline=2 pipeline.strict=true" TWO,
                 "2/2 1/1 3");
}

static void refused(const char *sets[], unsigned n, const char *message)
{
    static const char text[] = "[job]\nsteps = 1\n[model]\nlayers = 2\n"
                               "heads = 2\nwidth = 32\ncontext = 16\n"
                               "vocab = 64\n[data]\ntrain = \"none\"\n";
    struct dsf_machine machine;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    struct dsflow_err err;
    struct dsf_model model;
    struct dsf_job job;

    must("machine", dsf_machine_probe(&machine, &err), &err);
    must("job",
         dsf_job_parse(text, sizeof(text) - 1, "t", sets, n, NULL, &job, &err),
         &err);
    must("model", dsf_model_init(&model, &job, &err), &err);
    must("plan", dsf_plan_new(&job, &model, &machine, &plan, &err), &err);
    assert_int_equal(dsf_policies_build(plan, NULL, &graph, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
    dsf_plan_free(plan);
    dsf_model_fini(&model);
    dsf_job_fini(&job);
}

static void stages_that_cannot_be_are_refused(void **state)
{
    refused((const char *[]){ "mesh.pipeline=3" }, 1,
            "--set: mesh: pipeline: 3: expected at most 2 stages, as the model "
            "has 2 blocks");
    refused((const char *[]){ "mesh.pipeline=2", "pipeline.split=[1,2]" }, 2,
            "--set: pipeline: split: 3 blocks in 2 parts: expected the 2 "
            "blocks of the model in 2");
    refused((const char *[]){ "mesh.pipeline=2", "pipeline.chunks=2",
                              "pipeline.schedule=interleaved" },
            3,
            "--set: pipeline: chunks: 2 on each of 2 stages: expected at most "
            "1, as the model has 2 blocks");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_on_stages_by_cost_or_as_the_job_says),
        cmocka_unit_test(rings_are_as_long_as_the_schedule_needs),
        cmocka_unit_test(stages_that_cannot_be_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
