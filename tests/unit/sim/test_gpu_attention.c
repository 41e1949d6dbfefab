/* test_gpu_attention.c - what attention with a window or a layout takes on a
 * GPU: as long as dense attention of as many tiles. That kernels compute these
 * tiles is for tests/gpu/test_attention_tiles. */
#include "same/trial.h"

#include "sim/gpu_attention.h"
#include "tasks/tasks.h"

#include "lib/test.h"

#include <string.h>

/* One sequence of 512 tokens and one head of 64 numbers, in one tile. */
#define JOB                                                                    \
    "llama model.layers=3 model.heads=1 model.kv_heads=1 model.context=512 "   \
    "batch.sequence=512 batch.tile=512 machine.gpus=1 "

static const double dense = 512 * 513 / 2;

static const struct dsflow_task_spec *first_of(const struct trial *t,
                                               const struct dsflow_op *op)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        if (task->op == op)
            return task;
    }
    fail_msg("no task %s", op->name);
    return NULL;
}

static struct dsf_machine_model machine_of(const char *kind)
{
    char text[120];
    struct dsf_machine_model m;
    struct dsflow_err err = { .msg = "" };

    snprintf(text, sizeof(text),
             "[machine]\nkind = \"%s\"\nfp32 = 1e9\nbf16 = 1e9\n"
             "bandwidth = 1e16\n",
             kind);
    if (dsf_machine_model_parse(text, strlen(text), "m.toml", &m, &err) < 0)
        fail_msg("%s", err.msg);
    return m;
}

/* Scores of the tasks forward and back, of dense attention in `of` parts. */
static void check_scores(const char *keys, double forward, double backward,
                         double of)
{
    struct dsf_machine_model gpu = machine_of("gpu");
    struct dsf_machine_model cores = machine_of("cpu");
    const double expected[] = { forward / of * dense, backward / of * dense };
    const struct dsflow_op *ops[] = { &dsf_op_attention_forward,
                                      &dsf_op_attention_backward_input };
    struct dsf_gpu_attention_memo memo = { 0 };
    struct trial t;

    plan_trial(&t, keys);
    for (int i = 0; i < 4; i++) { /* the second time they are known */
        struct dsf_cost_model model = {
            .machine = &gpu, .nranks = 1, .plan = t.plan, .memo = &memo
        };
        const struct dsflow_task_spec *task = first_of(&t, ops[i % 2]);
        const struct dsf_work work = dsf_gpu_work_of(&model, t.graph, task);
        const struct dsf_work as_ever = dsf_work_of(t.graph, task);

        assert_float_equal(work.scores, expected[i % 2], 1e-6);
        assert_true(work.bytes == as_ever.bytes);
        assert_float_equal(work.flops / work.scores,
                           as_ever.flops / as_ever.scores, 1e-9);
        assert_float_equal(dsf_cost_seconds(&model, t.graph, task),
                           work.flops / 1e9, 1e-9);
        model.machine = &cores;
        assert_float_equal(dsf_cost_seconds(&model, t.graph, task),
                           cores.main.overhead + as_ever.flops / 1e9, 1e-9);
    }
    end_trial(&t);
    dsf_machine_model_fini(&gpu);
    dsf_machine_model_fini(&cores);
}

static void dense_attention_is_as_ever(void **state)
{
    check_scores(JOB "precision.compute=bf16", 1, 1, 1);
    check_scores(JOB, 1, 1, 1);
}

/* Tiles of 128 queries and 64 keys, in strips of which all 2, 4, 6 and 8 are
 * computed, and with a window 2, 3, 3 and 3. Back, 128 keys meet 16, 12, 8 and
 * 4 steps of 32 queries, or 6, 6, 6 and 4, with four products, and queries meet
 * keys as they do forward, with three. */
static void a_window_takes_the_tiles_in_it(void **state)
{
    check_scores(JOB "precision.compute=bf16 model.window=64", 11. / 20,
                 (4. * 22 * 32 + 3. * 11 * 64) / (4. * 40 * 32 + 3. * 20 * 64),
                 1);
}

/* Plain ones are of 64 x 64: of 36, all but the first strip have two. */
static void in_fp32_tiles_are_smaller(void **state)
{
    check_scores(JOB "model.window=64", 15, 15, 36);
}

/* Each block of 64 sees itself: two tiles of a strip, four steps of 32 queries.
 */
static void a_layout_takes_the_tiles_of_its_blocks(void **state)
{
    const char *layout = "sparse_attention.mode=local_sliding_window "
                         "sparse_attention.block=64 "
                         "sparse_attention.num_sliding_window_blocks=1";
    char keys[400];

    snprintf(keys, sizeof(keys), JOB "precision.compute=bf16 %s", layout);
    check_scores(keys, 8. / 20,
                 (4. * 16 * 32 + 3. * 8 * 64) / (4. * 40 * 32 + 3. * 20 * 64),
                 1);
    snprintf(keys, sizeof(keys), JOB "%s", layout);
    check_scores(keys, 8, 8, 36);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_attention_is_as_ever),
        cmocka_unit_test(a_window_takes_the_tiles_in_it),
        cmocka_unit_test(in_fp32_tiles_are_smaller),
        cmocka_unit_test(a_layout_takes_the_tiles_of_its_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
