/* test_sequence_parallel.c - each task is on the rank that has its tokens, all
 * ranks have as much to do, and what they read of each other's stands in a few
 * buffers. */
#include "same/trial.h"

#include "graph/task.h"
#include "plan/stretch.h"
#include "policies/sequence_private.h"
#include "tasks/tasks.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

#define KEYS  "mesh.sequence_kind=keys mesh.sequence="
#define HEADS "mesh.sequence_kind=heads mesh.sequence="

static const char *const meshes[] = {
    "gpt2 " KEYS "2",
    "gpt2 " KEYS "2 batch.sequence_groups=8 batch.micro=2",
    "llama " KEYS "3 model.context=96 batch.tile=16",
    "llama " KEYS "4 mesh.tensor=2 mesh.data=2 mesh.pipeline=2",
    "gpt2 " KEYS "8 recompute.what=attention model.window=5",
    "gpt2 " HEADS "2",
    "gpt2 " HEADS "3 model.context=96 batch.tile=16 batch.micro=2",
    "llama " HEADS "4 mesh.tensor=2 mesh.data=2 mesh.pipeline=2",
    "llama " HEADS "8 recompute.what=attention model.window=5 "
    "model.kv_heads=2 batch.sequence_groups=16 model.context=128",
};
enum { NMESHES = sizeof(meshes) / sizeof(*meshes) };

static int32_t at_of(const struct dsflow_plan *plan,
                     const struct dsflow_task_spec *t)
{
    return dsf_mesh_at(&plan->mesh, t->rank, DSF_AXIS_SEQUENCE);
}

/* Is it a task of attention, or of what it needs and leaves, where that is done
 * by heads? */
static bool moves_heads(const struct trial *t,
                        const struct dsflow_task_spec *task)
{
    return t->plan->shares.kind == DSF_SEQUENCE_HEADS &&
           (task->op == &dsf_op_attention_forward ||
            task->op == &dsf_op_attention_backward_input ||
            task->op == &dsf_op_all_to_all_heads ||
            task->op == &dsf_op_reduce);
}

static void a_task_is_where_its_tokens_are(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        const struct dsflow_task_spec *task;
        struct trial t;

        plan_trial_until(&t, meshes[i], "sequence_parallel");
        for (uint32_t k = 0; (task = dsf_nth_task(t.graph, k)) != NULL; k++)
            if (task->microbatch >= 0 && task->tile >= 0 &&
                !moves_heads(&t, task))
                assert_int_equal(at_of(t.plan, task),
                                 dsf_plan_sequence_at(t.plan, task->tile));
        end_trial(&t);
    }
}

/* Tiles are pieces of sequences, and all tokens are in one. */
static void ranks_have_as_many_pairs_of_tokens(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        int64_t pairs[8] = { 0 }, tokens = 0;
        struct trial t;

        plan_trial_until(&t, meshes[i], "sequence_parallel");
        for (int32_t k = 0; k < t.plan->ntiles; k++) {
            const struct dsf_tile_rows *tile = &t.plan->tiles[k];

            assert_int_equal(tile->nseq, 1);
            tokens += tile->rows;
            for (int32_t row = 0; row < tile->rows; row++)
                pairs[dsf_plan_sequence_at(t.plan, k)] += tile->pos + row + 1;
        }
        assert_int_equal(tokens, t.plan->micro * t.plan->sequence);
        for (int32_t s = 1; s < t.plan->nsequence; s++)
            assert_int_equal(pairs[s], pairs[0]);
        end_trial(&t);
    }
}

/* What was written last by a task of another rank of the sequence is read by
 * what moves data only. */
static void nothing_far_is_read_but_by_what_moves_it(void **state)
{
    for (int i = 0; i < NMESHES; i++) {
        const struct dsflow_task_spec *task;
        unsigned nsends = 0;
        int32_t *writer;
        struct trial t;

        plan_trial_until(&t, meshes[i], "sequence_parallel");
        writer = calloc(dsflow_graph_ndata(t.graph), sizeof(*writer));
        for (uint32_t k = 0; (task = dsf_nth_task(t.graph, k)) != NULL; k++) {
            nsends += task->op == &dsf_op_send ||
                      task->op == &dsf_op_all_to_all_heads;
            for (unsigned p = 0; p < task->ndata; p++) {
                const struct dsflow_data_spec *d =
                    dsflow_graph_data(t.graph, task->data[p]);
                int32_t *at = &writer[task->data[p].i];

                if (task->microbatch < 0 || d->unit >= 0 || d->persistent)
                    continue;
                if (dsflow_task_access(task, p) != DSFLOW_W &&
                    !task->op->comm && *at != at_of(t.plan, task) + 1)
                    fail_msg("%s: a task %s of rank %d reads %s of rank %d",
                             meshes[i], task->op->name,
                             (int)at_of(t.plan, task), d->name, (int)*at - 1);
                if (dsflow_task_access(task, p) & DSFLOW_W)
                    *at = at_of(t.plan, task) + 1;
            }
        }
        assert_true(nsends > 0);
        free(writer);
        end_trial(&t);
    }
}

static unsigned count(const struct trial *t, const char *key)
{
    const struct dsflow_data_spec *d;
    unsigned n = 0;

    for (uint32_t i = 0; (d = dsf_nth_data(t->graph, i)) != NULL; i++)
        n += d->ring != NULL && strcmp(d->ring, key) == 0;
    return n;
}

/* Forward and back, on each of four ranks; and sums of gradients. */
static void key_slots_say_how_many_tiles_stand_there(void **state)
{
    for (unsigned slots = 1; slots < 4; slots++) {
        char text[200];
        struct trial t;

        snprintf(text, sizeof(text),
                 "gpt2 " KEYS "4 model.context=256 mesh.key_slots=%u",
                 slots);
        plan_trial_until(&t, text, "sequence_parallel");
        assert_int_equal(count(&t, "mesh.key_slots"),
                         4 * 2 * slots + 4 * slots);
        end_trial(&t);
    }
}

/* Without ranks to share them, groups of tokens change nothing but the order of
 * sums: no task moves anything. */
static void groups_of_tokens_need_no_ranks(void **state)
{
    const struct dsflow_task_spec *task;
    struct trial t;

    plan_trial(&t, "gpt2 batch.sequence_groups=4");
    for (uint32_t i = 0; (task = dsf_nth_task(t.graph, i)) != NULL; i++) {
        assert_int_equal(task->rank, 0);
        assert_string_not_equal(task->op->name, "send");
    }
    end_trial(&t);
}

/* Between nodes, by the bytes that a rank receives, where all ranks have as
 * many heads. */
static void auto_takes_heads_that_are_even_and_move_less(void **state)
{
    static const struct {
        const char *text;
        enum dsf_sequence_kind kind;
        unsigned nodes;
    } cases[] = {
        { "gpt2 mesh.sequence=4 model.context=256", DSF_SEQUENCE_HEADS, 2 },
        { "gpt2 mesh.sequence=4 model.context=256", DSF_SEQUENCE_KEYS, 1 },
        /* Each node has all tokens of its sequences. */
        { "gpt2 mesh.sequence=4 mesh.data=2 model.context=256",
          DSF_SEQUENCE_KEYS, 2 },
        { "gpt2 mesh.sequence=4 mesh.sequence_kind=keys", DSF_SEQUENCE_KEYS,
          2 },
        { "llama mesh.sequence=2 model.kv_heads=2", DSF_SEQUENCE_KEYS, 2 },
        { "llama mesh.sequence=4 model.window=5 model.context=256",
          DSF_SEQUENCE_KEYS, 2 },
        /* As many as there are, but not for each. */
        { "gpt2 mesh.sequence=3 model.context=96", DSF_SEQUENCE_KEYS, 2 },
        { "gpt2 mesh.sequence=3 model.context=96 mesh.sequence_kind=heads",
          DSF_SEQUENCE_HEADS, 2 },
        /* Fewer than ranks. */
        { "gpt2 mesh.sequence=8 model.context=64", DSF_SEQUENCE_KEYS, 2 },
        { "gpt2", DSF_SEQUENCE_KEYS, 2 },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsf_machine machine;
        struct trial t;

        plan_trial_until(&t, cases[i].text, "sequence_parallel");
        machine = *t.plan->machine;
        machine.nodes = machine.processes = cases[i].nodes;
        t.plan->machine = &machine;
        assert_int_equal(dsf_sequence_choose(t.plan, NULL), DSFLOW_OK);
        if (t.plan->shares.kind != (int)cases[i].kind)
            fail_msg("%s: by %s", cases[i].text,
                     t.plan->shares.kind == DSF_SEQUENCE_HEADS ? "heads"
                                                               : "keys");
        end_trial(&t);
    }
}

/* What is compared is what there is to send, of the rank that gets most; what is
 * computed again may be there still. */
static void what_is_compared_is_what_moves(void **state)
{
    static const char *const texts[] = {
        "llama mesh.sequence=4 model.context=256 batch.tile=16",
        "llama mesh.sequence=2 model.context=256 precision.compute=bf16",
        ("gpt2 mesh.sequence=4 model.context=256 recompute.what=attention "
         "mesh.key_slots=2"),
        "llama mesh.sequence=8 model.context=256 model.kv_heads=2",
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        for (int heads = 0; heads < 2; heads++) {
            double bytes[8] = { 0 }, most = 0, planned;
            char text[300];
            struct trial t;

            snprintf(text, sizeof(text), "%s mesh.sequence_kind=%s",
                     texts[i], heads ? "heads" : "keys");
            plan_trial(&t, text);
            for (uint32_t k = 0; k < dsflow_graph_ntasks(t.graph); k++) {
                const struct dsflow_task_spec *task = dsf_nth_task(t.graph, k);

                for (unsigned p = 0; task->program == DSFLOW_STEP &&
                                     task->microbatch >= 0 && p < task->ndata;
                     p++)
                    bytes[task->rank] += dsf_task_moves(t.graph, task, p);
            }
            for (int r = 0; r < 8; r++)
                most = bytes[r] > most ? bytes[r] : most;
            planned = heads ? t.plan->shares.heads : t.plan->shares.keys;
            if (most > 1.02 * planned || most < 0.9 * planned)
                fail_msg("%s: %.0f bytes, planned %.0f and %.0f", text, most,
                         t.plan->shares.keys, t.plan->shares.heads);
            end_trial(&t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_task_is_where_its_tokens_are),
        cmocka_unit_test(ranks_have_as_many_pairs_of_tokens),
        cmocka_unit_test(nothing_far_is_read_but_by_what_moves_it),
        cmocka_unit_test(key_slots_say_how_many_tiles_stand_there),
        cmocka_unit_test(groups_of_tokens_need_no_ranks),
        cmocka_unit_test(auto_takes_heads_that_are_even_and_move_less),
        cmocka_unit_test(what_is_compared_is_what_moves),
    };

    return cmocka_run_group_tests_name("sequence_parallel", tests, NULL, NULL);
}
