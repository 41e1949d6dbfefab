/* test_weights.c - what the policy weights makes of a step: which units get a
 * master and a copy, who reads which, and what is refused. */
#include "tests/same/trial.h"

#include "plan/plan.h"
#include "policies/policies.h"
#include "tasks/tasks.h"

#include "lib/test.h"

#include <stdio.h>
#include <string.h>

#define TERNARY "weights.quantize=ternary weights.group=16 "

static void plan_one(struct trial *t, const char *keys, const char *until)
{
    char text[400];

    snprintf(text, sizeof(text), "llama %s", keys);
    plan_trial_until(t, text, until);
}

static const struct dsflow_task_spec *task(const struct trial *t, uint32_t i)
{
    return dsflow_graph_task(t->graph, (dsflow_task_id){ i });
}

static const struct dsflow_data_spec *
on_port(const struct trial *t, const struct dsflow_task_spec *k, unsigned i)
{
    return dsflow_graph_data(t->graph, k->data[i]);
}

static bool is_in(const struct trial *t, const struct dsflow_task_spec *k,
                  const char *program)
{
    dsflow_program p;

    return dsflow_graph_find_program(t->graph, program, &p) && k->program == p;
}

static unsigned count_in(const struct trial *t, const struct dsflow_op *op,
                         const char *program)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++)
        n += task(t, i)->op == op && is_in(t, task(t, i), program);
    return n;
}

/* Norms have no matrices. */
static bool is_changed(const struct trial *t, unsigned unit, bool embedding)
{
    const struct dsf_unit *u = &t->model.units[unit];

    return u->decay > 0 &&
           (embedding || (u->layer >= 0 && u->layer < t->model.layers));
}

static unsigned changed(const struct trial *t, bool embedding)
{
    unsigned n = 0;

    for (unsigned u = 0; u < t->model.nunits; u++)
        n += is_changed(t, u, embedding);
    return n;
}

/* --- masters and copies --------------------------------------------------- */

enum { CONTROL, IN, OUT };

static void check_task(const struct trial *t, const struct dsflow_task_spec *k,
                       enum dsflow_dtype type)
{
    const struct dsf_fake_quantize_args *a = k->args;
    const struct dsflow_data_spec *in = on_port(t, k, IN);
    const struct dsflow_data_spec *out = on_port(t, k, OUT);
    const struct dsf_unit *u = &t->model.units[in->unit];

    assert_int_equal(on_port(t, k, CONTROL)->kept, 1 + DSF_KEPT_CONTROL);
    assert_int_equal(in->role, DSFLOW_STATES);
    assert_int_equal(in->kept, 1 + DSF_KEPT_PARAM);
    assert_int_equal(in->dtype, DSFLOW_FP32);
    assert_int_equal(out->role, DSFLOW_PARAMS);
    assert_int_equal(out->kept, 0);
    assert_int_equal(out->dtype, type);
    assert_int_equal(out->unit, in->unit);
    assert_int_equal(out->elems, in->elems);
    assert_int_equal(a->behind, !is_in(t, k, "prepare"));
    assert_int_equal(a->elems, in->elems);
    assert_int_equal(a->at, in->at);
    assert_int_equal(a->in_at, 0);
    assert_int_equal(a->out_at, 0);
    if (t->plan->nparts < 2)
        assert_int_equal(a->form.matrices, u->decay);
}

/* The task that makes the copy stands behind the update of its master. */
static void check_behind(const struct trial *t)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k = task(t, i);
        bool updated = false, read = false;

        if (k->op != &dsf_op_fake_quantize || !is_in(t, k, "step"))
            continue;
        for (uint32_t j = 0; j < dsflow_graph_ntasks(t->graph); j++)
            for (unsigned p = 0; p < task(t, j)->ndata && j != i; p++) {
                const struct dsflow_task_spec *other = task(t, j);

                if (other->program != k->program)
                    continue;
                updated |= j < i && other->data[p].i == k->data[IN].i &&
                           dsflow_task_access(other, p) & DSFLOW_W;
                read |= j > i && other->data[p].i == k->data[OUT].i;
            }
        assert_true(updated);
        assert_false(read);
    }
}

/* Tasks of segments have no master. */
static void check_ports(const struct trial *t, bool embedding)
{
    unsigned updates = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k = task(t, i);

        updates += k->op == &dsf_op_adam;
        for (unsigned p = 0; p < k->ndata; p++) {
            const struct dsflow_data_spec *d = on_port(t, k, p);

            if (d->unit < 0 || d->kept != 1 + DSF_KEPT_PARAM)
                continue;
            if (k->op->segment != NULL)
                assert_false(is_changed(t, (unsigned)d->unit, embedding));
            if (k->op == &dsf_op_adam)
                assert_int_equal(
                    d->role, is_changed(t, (unsigned)d->unit, embedding) ||
                                     dsf_compute_type(&t->job) != DSFLOW_FP32
                                 ? DSFLOW_STATES
                                 : DSFLOW_PARAMS);
        }
    }
    assert_true(updates > 0);
}

static void check_masters(const char *keys, bool embedding,
                          enum dsflow_dtype type)
{
    struct trial t;
    unsigned n, tensor;

    plan_one(&t, keys, "weights");
    tensor = t.plan->nparts > 1 ? (unsigned)t.plan->nparts : 1;
    n = changed(&t, embedding) * tensor;
    assert_true(n > 0);
    assert_int_equal(count_in(&t, &dsf_op_fake_quantize, "step"), n);
    assert_int_equal(count_in(&t, &dsf_op_fake_quantize, "prepare"), n);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++)
        if (task(&t, i)->op == &dsf_op_fake_quantize)
            check_task(&t, task(&t, i), type);
        else if (task(&t, i)->op == &dsf_op_cast &&
                 is_in(&t, task(&t, i), "step"))
            assert_false(is_changed(
                &t, (unsigned)on_port(&t, task(&t, i), 0)->unit, embedding));
    check_behind(&t);
    check_ports(&t, embedding);
    end_trial(&t);
}

static void units_of_blocks_have_masters_and_copies(void **state)
{
    check_masters(TERNARY, false, DSFLOW_FP32);
    check_masters("weights.prune=2:4", false, DSFLOW_FP32);
    check_masters(TERNARY "weights.prune=2:4 mesh.pipeline=2", false,
                  DSFLOW_FP32);
    check_masters(TERNARY "weights.embedding=true model.tied=false", true,
                  DSFLOW_FP32);
    check_masters(TERNARY "model.tied=true weights.embedding=true", true,
                  DSFLOW_FP32);
}

static void casts_are_replaced(void **state)
{
    check_masters(TERNARY "precision.compute=bf16", false, DSFLOW_BF16);
    check_masters(TERNARY "precision.compute=fp16", false, DSFLOW_FP16);
    check_masters("weights.prune=1:2 weights.embedding=true "
                  "precision.compute=bf16",
                  true, DSFLOW_BF16);
}

static void a_job_that_says_nothing_stays_as_it_is(void **state)
{
    struct trial t;

    plan_one(&t, "weights.quantize=none weights.embedding=true", "weights");
    assert_int_equal(count_in(&t, &dsf_op_fake_quantize, "step"), 0);
    assert_int_equal(count_in(&t, &dsf_op_fake_quantize, "prepare"), 0);
    end_trial(&t);
}

/* --- arguments ------------------------------------------------------------ */

static void check_form(const char *keys, struct dsf_weight_form want)
{
    struct trial t;

    plan_one(&t, keys, "weights");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsf_fake_quantize_args *a = task(&t, i)->args;

        if (task(&t, i)->op != &dsf_op_fake_quantize)
            continue;
        want.matrices = a->form.matrices;
        assert_memory_equal(&a->form, &want, sizeof(want));
    }
    end_trial(&t);
}

static void the_form_is_what_the_job_says(void **state)
{
    check_form("weights.quantize=symmetric weights.group=32 weights.bits=3 "
               "weights.start_bits=9 weights.period=7 "
               "weights.quantize_from=5",
               (struct dsf_weight_form){ .quantizer = DSF_SYMMETRIC,
                                         .group = 32,
                                         .bits = 3,
                                         .start_bits = 9,
                                         .period = 7,
                                         .quantize_from = 5 });
    check_form("weights.quantize=asymmetric weights.group=16",
               (struct dsf_weight_form){ .quantizer = DSF_ASYMMETRIC,
                                         .group = 16,
                                         .bits = 4,
                                         .start_bits = 4,
                                         .period = 1000 });
    check_form("weights.quantize=binary weights.group=16 weights.prune=7:16 "
               "weights.prune_from=3",
               (struct dsf_weight_form){ .quantizer = DSF_BINARY,
                                         .group = 16,
                                         .keep = 7,
                                         .of = 16,
                                         .prune_from = 3 });
    check_form("weights.prune=1:2",
               (struct dsf_weight_form){ .group = 16, .keep = 1, .of = 2 });
}

/* Parts of tensor ranks, which together have all matrices, and in front of
 * what does not decay. */
static void tensor_ranks_have_parts(void **state)
{
    int64_t matrices = 0, whole = 0;
    struct trial t;

    plan_one(&t, TERNARY "mesh.tensor=2", "weights");
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k = task(&t, i);
        const struct dsf_fake_quantize_args *a = k->args;

        if (k->op != &dsf_op_fake_quantize)
            continue;
        check_task(&t, k, DSFLOW_FP32);
        assert_int_equal(a->form.matrices % a->form.group, 0);
        if (is_in(&t, k, "step"))
            matrices += a->form.matrices;
    }
    for (unsigned u = 0; u < t.model.nunits; u++)
        if (is_changed(&t, u, false))
            whole += t.model.units[u].decay;
    assert_int_equal(matrices, whole);
    check_behind(&t);
    end_trial(&t);
}

/* --- what is refused ------------------------------------------------------ */

static void refused(const char *keys, const char *message)
{
    static const char text[] = "[job]\nsteps = 1\n[model]\nlayers = 2\n"
                               "heads = 2\nwidth = 48\ncontext = 16\n"
                               "vocab = 64\n[data]\ntrain = \"none\"\n"
                               "[batch]\nsequences = 4\n";
    const char *sets[8];
    char words[300], *rest = NULL, *word;
    struct dsf_machine machine;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    struct dsflow_err err = { .msg = "" };
    struct dsf_model model;
    struct dsf_job job;
    unsigned n = 0;

    snprintf(words, sizeof(words), "%s", keys);
    for (word = strtok_r(words, " ", &rest); word != NULL && n < 8;
         word = strtok_r(NULL, " ", &rest))
        sets[n++] = word;
    must("machine", dsf_machine_probe(&machine, &err), &err);
    must(keys,
         dsf_job_parse(text, sizeof(text) - 1, "t", sets, n, NULL, &job, &err),
         &err);
    must(keys, dsf_model_init(&model, &job, &err), &err);
    must(keys, dsf_plan_new(&job, &model, &machine, &plan, &err), &err);
    assert_int_equal(dsf_policies_build(plan, NULL, &graph, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
    dsf_plan_free(plan);
    dsf_model_fini(&model);
    dsf_job_fini(&job);
}

#define PRUNE_EXPECTED                                                         \
    ": expected none, or N:M, where N of each M weights stay, with M 2, 4, 8 " \
    "or 16"

static void keys_that_cannot_be_are_refused(void **state)
{
    static const char *const bad[] = {
        "2-4", "2:4:8", "2:4 ", "0:4",  "4:4", "5:4",  "1:3",  "1:32", "",
        "2:",  ":4",    "2:4x", "-1:4", "all", "None", "1:-4", "1:1",  "2.0:4"
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char key[64], message[200];
        int keep, of;

        assert_false(dsf_read_pruning(bad[i], &keep, &of));
        if (strchr(bad[i], ' ') != NULL || bad[i][0] == '\0')
            continue;
        snprintf(key, sizeof(key), "weights.prune=%s", bad[i]);
        snprintf(message, sizeof(message),
                 "--set: weights: prune: \"%s\"" PRUNE_EXPECTED, bad[i]);
        refused(key, message);
    }
    refused("weights.group=48 weights.quantize=binary",
            "--set: weights: group: 48: expected 16, 32, 64 or 128");
    refused("weights.quantize=symmetric weights.bits=5 weights.start_bits=4 "
            "weights.group=16",
            "--set: weights: start_bits: 4: expected weights.bits or more");
}

static void masters_are_needed(void **state)
{
    refused(TERNARY "precision.compute=bf16 precision.master=false",
            "--set: weights: quantize: ternary: expected none where "
            "precision.master is false, as masters have to stay exact");
    refused(
        "weights.prune=2:4 precision.compute=bf16 precision.master=false",
        "--set: weights: prune: 2:4: expected none where precision.master is "
        "false, as masters have to stay exact");
    refused(TERNARY "compress.params=int8",
            "--set: weights: quantize: ternary: expected none where "
            "compress.params names a format, as what is sent would be rounded "
            "once more");
    refused(TERNARY "optimizer.kind=zeroone_adam job.steps=9 "
                    "zeroone_adam.var_freeze_step=3 optimizer.clip=0.0",
            "--set: weights: quantize: ternary: expected none with "
            "optimizer.kind = \"zeroone_adam\", as each data rank has weights "
            "of its own");
}

static void groups_divide_what_an_output_has(void **state)
{
    refused("weights.quantize=binary weights.group=32",
            "--set: weights: group: 32: expected a divisor of the 48 "
            "inputs of each output of layer0.qkv");
    refused("weights.prune=2:4 model.width=40",
            "--set: weights: prune: 16: expected a divisor of the 40 "
            "inputs of each output of layer0.qkv, as weights are pruned 16 at "
            "a time");
    refused("weights.quantize=binary weights.group=16 mesh.tensor=2",
            "--set: weights: group: 16: expected a divisor of the 24 "
            "inputs of each output of layer0.out.p0, of which mesh.tensor "
            "makes parts");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_blocks_have_masters_and_copies),
        cmocka_unit_test(casts_are_replaced),
        cmocka_unit_test(a_job_that_says_nothing_stays_as_it_is),
        cmocka_unit_test(the_form_is_what_the_job_says),
        cmocka_unit_test(tensor_ranks_have_parts),
        cmocka_unit_test(keys_that_cannot_be_are_refused),
        cmocka_unit_test(masters_are_needed),
        cmocka_unit_test(groups_divide_what_an_output_has),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
