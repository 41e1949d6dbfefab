/* test_compress_keys.c - what the policy compress makes of a step, and what
 * zero makes of that: read in the graphs that they leave. */
#include "tests/same/trial.h"

#include "tasks/tasks.h"

#include "lib/test.h"

#include <stdio.h>
#include <string.h>

#define CODED "compress.keep=0 compress.gradients=int8 compress.params=int8"

/* Tasks of a kind in a program. */
static unsigned count_in(const struct trial *t, const struct dsflow_op *op,
                         const char *program)
{
    unsigned n = 0;
    dsflow_program p;

    if (!dsflow_graph_find_program(t->graph, program, &p))
        return 0;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        n += k->op == op && k->program == p;
    }
    return n;
}

static unsigned count(const struct trial *t, const struct dsflow_op *op)
{
    return count_in(t, op, "step");
}

/* Units that have matrices: norms have none. */
static unsigned coded_units(const struct trial *t)
{
    unsigned n = 0;

    for (unsigned u = 0; u < t->model.nunits; u++)
        n += t->model.units[u].decay >= 256;
    return n;
}

static void plan_one(struct trial *t, const char *keys, const char *until)
{
    char text[400];

    snprintf(text, sizeof(text), "llama model.tied=false %s", keys);
    plan_trial_until(t, text, until);
}

/* With one group, too, as if it were sent. */
static void each_sum_of_groups_is_recoded(void **state)
{
    static const char *const groups[] = { "1", "2", "8" };

    for (size_t i = 0; i < 3; i++) {
        struct trial t;
        char keys[200];

        snprintf(keys, sizeof(keys),
                 "compress.keep=0 compress.gradients=int4 batch.groups=%s",
                 groups[i]);
        plan_one(&t, keys, "reference");
        assert_int_equal(count(&t, &dsf_op_add_recoded), coded_units(&t));
        /* What has no matrices is added as it is. */
        assert_int_equal(count(&t, &dsf_op_add),
                         i == 0 ? 0 : t.model.nunits - coded_units(&t));
        end_trial(&t);
    }
}

static void small_units_stay_as_they_are(void **state)
{
    struct trial t;

    plan_one(&t,
             "compress.gradients=int8 compress.params=int8 "
             "compress.keep=1GiB",
             "compress");
    assert_int_equal(count(&t, &dsf_op_add_recoded), 0);
    assert_int_equal(count(&t, &dsf_op_recode), 0);
    assert_int_equal(count_in(&t, &dsf_op_recode, "prepare"), 0);
    end_trial(&t);
}

static const struct dsflow_data_spec *
on_port(const struct trial *t, const struct dsflow_task_spec *k, unsigned i)
{
    return dsflow_graph_data(t->graph, k->data[i]);
}

/* Updates have masters, which are states that are kept; whatever computes with
 * parameters has copies. */
static void check_masters(const struct trial *t)
{
    unsigned updates = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(t->graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t->graph, (dsflow_task_id){ i });

        if (k->op == &dsf_op_recode) {
            assert_int_equal(on_port(t, k, 0)->role, DSFLOW_STATES);
            assert_int_not_equal(on_port(t, k, 0)->kept, 0);
            assert_int_equal(on_port(t, k, 1)->role, DSFLOW_PARAMS);
            assert_int_equal(on_port(t, k, 1)->kept, 0);
        }
        for (unsigned p = 0; p < k->ndata; p++)
            if (k->op->segment != NULL && on_port(t, k, p)->unit >= 0)
                assert_int_not_equal(on_port(t, k, p)->role, DSFLOW_STATES);
        updates += k->op == &dsf_op_adam;
    }
    assert_int_equal(updates, t->model.nunits);
    assert_int_equal(count(t, &dsf_op_recode), coded_units(t));
    assert_int_equal(count_in(t, &dsf_op_recode, "prepare"), coded_units(t));
}

static void parameters_have_masters_and_copies(void **state)
{
    static const char *const types[] = { CODED, CODED " precision.compute=bf16",
                                         CODED " precision.compute=fp16" };

    for (size_t i = 0; i < 3; i++) {
        struct trial t;

        plan_one(&t, types[i], "compress");
        check_masters(&t);
        end_trial(&t);
    }
}

/* Each of four ranks has a group: it codes that, and decodes what it owns. */
static void ranks_code_what_they_send(void **state)
{
    for (int stage = 0; stage <= 3; stage++) {
        struct trial t;
        char keys[300];
        unsigned n;

        snprintf(keys, sizeof(keys),
                 CODED " mesh.data=4 batch.sequences=4 zero.stage=%d "
                       "zero.keep=0",
                 stage);
        plan_one(&t, keys, "zero");
        n = coded_units(&t);
        assert_in_range(count(&t, &dsf_op_add_compressed), 3 * n, 4 * n);
        /* Gradients; with shards of the masters, these, too. */
        if (stage == 0)
            assert_int_equal(count(&t, &dsf_op_compress), 4 * n);
        else
            assert_in_range(count(&t, &dsf_op_compress), 7 * n, 8 * n);
        assert_int_equal(count(&t, &dsf_op_recode), stage == 0 ? 4 * n : 0);
        if (stage == 1 || stage == 2)
            assert_int_equal(count(&t, &dsf_op_decompress), 4 * n);
        if (stage == 3)
            assert_true(count(&t, &dsf_op_decompress) >= 4 * n);
        if (stage == 3)
            assert_int_equal(count_in(&t, &dsf_op_decompress, "prepare"), 0);
        assert_int_equal(count(&t, &dsf_op_add_recoded), 0);
        end_trial(&t);
    }
}

/* Errors are where the gradients of their groups are, and are kept by group,
 * whoever has them. */
static void errors_stand_where_their_groups_are(void **state)
{
    for (int stage = 0; stage <= 3; stage++) {
        struct trial t;
        char keys[300];
        unsigned tasks = 0;

        snprintf(keys, sizeof(keys),
                 CODED " compress.error=%s mesh.data=4 mesh.pipeline=2 "
                       "batch.sequences=8 batch.groups=8 zero.stage=%d",
                 stage % 2 ? "int8" : "fp32", stage);
        plan_one(&t, keys, "zero");
        assert_int_equal(count(&t, &dsf_op_feed_back), 8 * coded_units(&t));
        for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
            const struct dsflow_task_spec *k =
                dsflow_graph_task(t.graph, (dsflow_task_id){ i });
            const struct dsflow_data_spec *error, *grad;
            char name[40];
            int32_t group;

            if (k->op != &dsf_op_feed_back)
                continue;
            grad = on_port(&t, k, 1);
            error = on_port(&t, k, 2);
            group = (int32_t)tasks++ % 8;
            snprintf(name, sizeof(name), "error.%dof8", (int)group);
            assert_int_equal(error->home, k->rank);
            assert_int_equal(grad->home, k->rank);
            assert_int_equal(dsflow_plan_coord(t.plan, k->rank, "data"),
                             group / 2);
            assert_int_equal(error->kept, dsflow_plan_kept(t.plan, name));
            assert_int_equal(error->dtype,
                             stage % 2 ? DSFLOW_INT8_BLOCK : DSFLOW_FP32);
            assert_int_equal(error->persistent, 1);
        }
        end_trial(&t);
    }
}

/* Of each node the sum of its groups, which gets its error; and then the sum of
 * all nodes, as they are when they have been sent. */
static void sums_of_nodes_get_their_errors(void **state)
{
    enum { GROUPS = 8, NODE = 4, NODES = GROUPS / NODE };
    const struct dsflow_task_spec *at[2 * NODES + 1];
    struct trial t;
    uint32_t n = 0;

    plan_one(&t,
             "compress.keep=0 compress.gradients=int4 compress.error=fp32 "
             "batch.groups=8 compress.node=4",
             "reference");
    assert_int_equal(count(&t, &dsf_op_add_recoded),
                     (NODES + 1) * coded_units(&t));
    assert_int_equal(count(&t, &dsf_op_feed_back),
                     (GROUPS + NODES) * coded_units(&t));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(t.graph); i++) {
        const struct dsflow_task_spec *k =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });

        if (k->op != &dsf_op_add_recoded && (n == 0 || n == 2 * NODES + 1))
            continue;
        if (n == 2 * NODES + 1)
            n = 0;
        at[n++] = k;
        if (n < 2 * NODES + 1)
            continue;
        assert_int_equal(k->ndata, NODES);
        for (unsigned j = 0; j < NODES; j++) {
            const struct dsflow_task_spec *sum = at[2 * j];
            const struct dsflow_task_spec *fed = at[2 * j + 1];

            assert_ptr_equal(sum->op, &dsf_op_add_recoded);
            assert_int_equal(sum->ndata, NODE);
            assert_int_equal(
                ((const struct dsf_add_recoded_args *)sum->args)->node, 0);
            assert_ptr_equal(fed->op, &dsf_op_feed_back);
            assert_int_equal(fed->data[1].i, sum->data[0].i);
            assert_int_equal(k->data[j].i, sum->data[0].i);
        }
    }
    assert_int_equal(n, 2 * NODES + 1);
    end_trial(&t);
}

/* The error of a node's sum is with whoever codes it: the one rank that has all
 * groups of the node, or run by run those that have some. */
static void errors_of_sums_stand_where_these_are_coded(void **state)
{
    static const struct {
        int ranks, groups, node, runs;
    } trials[] = { { 4, 8, 2, 1 }, { 4, 8, 4, 2 },  { 8, 8, 4, 4 },
                   { 1, 8, 4, 1 }, { 3, 12, 6, 1 }, { 3, 12, 3, 2 } };

    for (size_t i = 0; i < sizeof(trials) / sizeof(*trials); i++) {
        const int nodes = trials[i].groups / trials[i].node;
        const int each = trials[i].groups / trials[i].ranks;
        int64_t elems = 0, coded = 0;
        struct trial t;
        char keys[300];

        snprintf(keys, sizeof(keys),
                 CODED " compress.error=%s mesh.data=%d batch.sequences=%d "
                       "batch.groups=%d compress.node=%d zero.stage=%d",
                 i % 2 ? "int8" : "fp32", trials[i].ranks, trials[i].groups,
                 trials[i].groups, trials[i].node, (int)i % 4);
        plan_one(&t, keys, "zero");
        for (unsigned u = 0; u < t.model.nunits; u++)
            if (t.model.units[u].decay >= 256)
                coded += t.model.units[u].elems;
        for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
            const struct dsflow_task_spec *task =
                dsflow_graph_task(t.graph, (dsflow_task_id){ k });
            const struct dsflow_data_spec *error;
            int node = 0, rank;
            char name[40];

            if (task->op != &dsf_op_feed_back)
                continue;
            error = on_port(&t, task, 2);
            assert_int_equal(error->home, task->rank);
            assert_int_equal(on_port(&t, task, 1)->home, task->rank);
            while (node < nodes) {
                snprintf(name, sizeof(name), "node_error.%dof%d", node, nodes);
                if (error->kept == dsflow_plan_kept(t.plan, name))
                    break;
                node++;
            }
            if (node == nodes) /* that of a group */
                continue;
            rank = (int)dsflow_plan_coord(t.plan, task->rank, "data");
            assert_in_range(rank, node * trials[i].node / each,
                            node * trials[i].node / each + trials[i].runs - 1);
            elems += error->elems;
        }
        assert_int_equal(elems, nodes * coded);
        assert_int_equal(dsflow_plan_kept(t.plan, "node_error.0of1"), 0);
        end_trial(&t);
    }
}

/* Four groups of a byte are more bytes than their sum in fp32. */
static void a_sum_is_sent_where_that_is_less(void **state)
{
    struct trial t;

    plan_one(&t,
             "compress.keep=0 compress.gradients=int8 mesh.data=2 "
             "batch.sequences=8 batch.groups=4",
             "zero");
    assert_true(count(&t, &dsf_op_add_compressed) > 0);
    assert_int_equal(count(&t, &dsf_op_add_recoded), 0);
    end_trial(&t);
    plan_one(&t,
             "compress.keep=0 compress.gradients=int8 mesh.data=2 "
             "batch.sequences=8 batch.groups=8",
             "zero");
    assert_int_equal(count(&t, &dsf_op_add_compressed), 0);
    assert_int_equal(count(&t, &dsf_op_add_recoded), 2 * coded_units(&t));
    end_trial(&t);
}

static unsigned rows_sent(const char *keys)
{
    struct trial t;
    unsigned n;

    plan_one(&t, keys, "zero");
    n = count(&t, &dsf_op_add_rows);
    if (n > 0)
        assert_int_equal(count(&t, &dsf_op_pack_rows), 4);
    end_trial(&t);
    return n;
}

#define ROWS                                                                   \
    "compress.embedding=rows mesh.data=4 batch.sequences=4 model.vocab=2048 "

/* Where these are fewer bytes; a head that is tied touches all rows. */
static void an_embedding_is_sent_as_rows(void **state)
{
    assert_int_equal(rows_sent(ROWS "zero.stage=0"), 4);
    assert_int_equal(rows_sent(ROWS "zero.stage=2"), 4);
    assert_int_equal(rows_sent(ROWS "zero.stage=2 compress.keep=0 "
                                    "compress.gradients=int4"),
                     4);
    assert_int_equal(rows_sent(ROWS "model.tied=true"), 0);
    assert_int_equal(rows_sent(ROWS "model.vocab=64"), 0);
    assert_int_equal(rows_sent(ROWS "precision.compute=bf16 "
                                    "precision.gradients=bf16"),
                     0);
    assert_int_equal(rows_sent("mesh.data=4 batch.sequences=4 "
                               "model.vocab=2048"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_sum_of_groups_is_recoded),
        cmocka_unit_test(small_units_stay_as_they_are),
        cmocka_unit_test(parameters_have_masters_and_copies),
        cmocka_unit_test(ranks_code_what_they_send),
        cmocka_unit_test(errors_stand_where_their_groups_are),
        cmocka_unit_test(sums_of_nodes_get_their_errors),
        cmocka_unit_test(errors_of_sums_stand_where_these_are_coded),
        cmocka_unit_test(a_sum_is_sent_where_that_is_less),
        cmocka_unit_test(an_embedding_is_sent_as_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
