/* test_ranks.c - what each rank of a mesh touches, holds and receives. Nothing
 * runs here: all of it can be read in the graph. */
#include "trial.h"

#include "graph/task.h"

#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct dsflow_data_spec *
data_of(const struct trial *t, const struct dsflow_task_spec *at, unsigned port)
{
    return dsflow_graph_data(t->graph, at->data[port]);
}

/* Only what moves data reads that of another rank; nothing writes it. */
static void check_task(const char *text, const struct trial *t,
                       const struct dsflow_task_spec *task)
{
    if (task->rank < 0 || task->rank >= t->plan->nranks)
        fail_msg("%s: a task %s is on rank %d of %d", text, task->op->name,
                 task->rank, (int)t->plan->nranks);
    for (unsigned p = 0; p < task->ndata; p++) {
        const struct dsflow_data_spec *d = data_of(t, task, p);
        bool reads = dsflow_task_access(task, p) == DSFLOW_R;

        if (d->home != task->rank && !(task->op->comm && reads))
            fail_msg("%s: a task %s on rank %d %s %s of rank %d", text,
                     task->op->name, task->rank, reads ? "reads" : "writes",
                     d->name, d->home);
    }
}

/* Each rank computes something. */
static void check_work(const char *text, const struct trial *t)
{
    int *ntasks = calloc((size_t)t->plan->nranks, sizeof(*ntasks));

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        ntasks[task->rank] += task->pass == DSFLOW_FORWARD && !task->op->comm;
    }
    for (int r = 0; r < t->plan->nranks; r++)
        if (ntasks[r] == 0)
            fail_msg("%s: rank %d has nothing to do", text, r);
    free(ntasks);
}

static void a_task_touches_the_memory_of_its_rank(void **state)
{
    static const char *const texts[] = {
        "gpt2",
        "gpt2 mesh.data=2",
        "gpt2 mesh.data=4 zero.stage=1",
        "gpt2 mesh.data=4 zero.stage=2 zero.reduce=micro batch.groups=8",
        "gpt2 mesh.data=16 zero.stage=3 zero.keep=0 batch.sequences=16",
        "gpt2 mesh.pipeline=4 pipeline.schedule=zero_bubble",
        "llama mesh.pipeline=2 pipeline.schedule=interleaved "
        "pipeline.chunks=3 model.tied=false",
        "llama mesh.data=2 mesh.pipeline=3 zero.stage=3 batch.tile=16 "
        "batch.order=layer_major recompute.what=block",
        "llama mesh.data=2 mesh.pipeline=2 zero.stage=2 optimizer.clip=0.0 "
        "recompute.what=attention",
        "llama mesh.tensor=2 mesh.data=2 mesh.pipeline=2 zero.stage=3",
        "gpt2 mesh.tensor=4 mesh.pipeline=2 zero.reduce=micro zero.stage=2",
    };

    for (unsigned i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
        struct trial t;

        plan_trial(&t, texts[i]);
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++)
            check_task(texts[i], &t,
                       dsflow_graph_task(t.graph, (dsflow_task_id){ k }));
        check_work(texts[i], &t);
        end_trial(&t);
    }
}

/* Four data ranks, one micro-batch each; blocks that are large beside the units
 * around them. */
#define SHARED                                                                 \
    "llama mesh.data=4 batch.sequences=4 model.layers=6 model.width=256 "      \
    "model.ffn_width=1024 model.heads=8 model.kv_heads=8 model.vocab=64 "      \
    "model.tied=false zero.keep=0 zero.prefetch=0 zero.stage="

#define HALVED " precision.compute=bf16 precision.gradients=bf16"

static bool is_of_model(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_PARAMS || d->role == DSFLOW_GRADS ||
           d->role == DSFLOW_STATES;
}

/* What rank `r` has of the model through the step (`live` 0), or while a layer
 * is worked on (1). */
static double bytes_on(const struct trial *t, int r, bool live)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t->graph, (dsflow_data_id){ i });

        if (d->home == r && is_of_model(d) && (d->unit < 0) == live)
            bytes += (double)d->bytes;
    }
    return bytes;
}

static double elems_of(const struct dsf_model *model, bool blocks_only)
{
    double elems = 0;

    for (unsigned u = 0; u < model->nunits; u++)
        if (!blocks_only || model->units[u].kind >= 0)
            elems += (double)model->units[u].elems;
    return elems;
}

/* Rajbhandari et al. 2020, with fp32: parameters, gradients and two moments of
 * 4 bytes each; with bf16: copies of 2, gradients of 4 or 2, masters and two
 * moments of 4 each. */
static void zero_divides_what_a_rank_holds(void **state)
{
    static const struct {
        const char *text;
        double whole, shared; /* bytes of each parameter */
        int stage;
        double param, grad; /* of a gathered one, and a whole gradient */
    } stages[] = {
        { SHARED "0", 16, 0, 0, 4, 4 },
        { SHARED "1", 8, 8, 1, 4, 4 },
        { SHARED "2", 4, 12, 2, 4, 4 },
        { SHARED "3", 0, 16, 3, 4, 4 },
        { SHARED "0 precision.compute=bf16", 18, 0, 0, 2, 4 },
        { SHARED "1 precision.compute=bf16", 6, 12, 1, 2, 4 },
        { SHARED "2 precision.compute=bf16", 2, 16, 2, 2, 4 },
        { SHARED "3 precision.compute=bf16", 0, 18, 3, 2, 4 },
        { SHARED "0" HALVED, 16, 0, 0, 2, 2 },
        { SHARED "1" HALVED, 4, 12, 1, 2, 2 },
        { SHARED "2" HALVED, 2, 14, 2, 2, 2 },
        { SHARED "3" HALVED, 0, 16, 3, 2, 2 },
    };

    for (unsigned i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
        struct trial t;

        plan_trial(&t, stages[i].text);
        for (int r = 0; r < 4; r++) {
            double elems = elems_of(&t.model, false);
            double other = elems - elems_of(&t.model, true);
            double want = (stages[i].whole + stages[i].shared / 4) * elems;
            double layers = elems_of(&t.model, true) / t.model.layers;

            /* Units outside of the blocks may stay whole. */
            assert_true(bytes_on(&t, r, false) > 0.98 * want);
            assert_true(bytes_on(&t, r, false) < 1.02 * want + 18 * other);
            /* Live: gradients of two layers; from stage 3 on a layer of
             * parameters forwards and one backwards. */
            assert_true(bytes_on(&t, r, true) <
                        (stages[i].stage < 2 ? 0 : 2.02 * stages[i].grad) *
                                layers +
                            (stages[i].stage < 3 ? 0 : 2.02 * stages[i].param) *
                                layers +
                            8 * other + 1);
        }
        end_trial(&t);
    }
}

/* Bytes that rank `r` gets from others in a step. */
static double received_by(const struct trial *t, int r)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        for (unsigned p = 0; p < task->ndata; p++)
            if (task->program == DSFLOW_STEP && task->rank == r)
                bytes += dsf_task_moves(t->graph, task, p);
    }
    return bytes;
}

/* Reduce and gather: twice the parameters; once more with stage 3, which
 * gathers them for each pass. All less the share that a rank has already. */
static void zero_moves_no_more_than_it_must(void **state)
{
    static const struct {
        const char *text;
        double times;
    } stages[] = {
        { SHARED "0", 2 },
        { SHARED "1", 2 },
        { SHARED "2", 2 },
        { SHARED "3", 3 },
        /* Gradients of 4 bytes, parameters of 2. */
        { SHARED "2 precision.compute=bf16", 1.5 },
        { SHARED "3 precision.compute=bf16", 2 },
        /* Both of 2. */
        { SHARED "0" HALVED, 1 },
        { SHARED "1" HALVED, 1 },
        { SHARED "2" HALVED, 1 },
        { SHARED "3" HALVED, 1.5 },
        { SHARED "2 zero.reduce=micro", 2 },
        { SHARED "3 batch.sequences=16 batch.order=layer_major", 3 },
    };

    for (unsigned i = 0; i < sizeof(stages) / sizeof(*stages); i++) {
        struct trial t;

        plan_trial(&t, stages[i].text);
        for (int r = 0; r < 4; r++) {
            double most =
                stages[i].times * 0.75 * 4 * elems_of(&t.model, false);

            if (received_by(&t, r) > 1.03 * most ||
                received_by(&t, r) < 0.9 * most)
                fail_msg("%s: rank %d receives %.0f bytes: expected %.0f",
                         stages[i].text, r, received_by(&t, r), most);
        }
        end_trial(&t);
    }
}

static double activations_on(const struct trial *t, int r)
{
    double bytes = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(t->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(t->graph, (dsflow_data_id){ i });

        if (d->home == r && d->role == DSFLOW_ACTIVATIONS)
            bytes += (double)d->bytes;
    }
    return bytes;
}

/* With 1F1B the first stage keeps four micro-batches, the last one: with gpipe
 * all keep eight. */
static void one_f_one_b_keeps_what_is_left_of_the_pipeline(void **state)
{
    struct trial g, f;

    plan_trial(&g, "gpt2 mesh.pipeline=4 batch.sequences=16 "
                   "pipeline.schedule=gpipe");
    plan_trial(&f, "gpt2 mesh.pipeline=4 batch.sequences=16");
    for (int r = 0; r < 4; r++)
        assert_true(activations_on(&f, r) < 0.5 * activations_on(&g, r));
    for (int r = 0; r + 2 < 4; r++) /* the last one has logits, too */
        assert_true(activations_on(&f, r) > 1.1 * activations_on(&f, r + 1));
    end_trial(&g);
    end_trial(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_touches_the_memory_of_its_rank),
        cmocka_unit_test(zero_divides_what_a_rank_holds),
        cmocka_unit_test(zero_moves_no_more_than_it_must),
        cmocka_unit_test(one_f_one_b_keeps_what_is_left_of_the_pipeline),
    };

    return cmocka_run_group_tests_name("ranks", tests, NULL, NULL);
}
