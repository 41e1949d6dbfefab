/* test_reference.c - the plain step: how many tasks of each kind, and that
 * rings change nothing but who waits for whom. */
#include "plan/sight.h"
#include "policies/policies.h"

#include "lib/test.h"
#include "tasks/tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fixture {
    struct dsf_job job;
    struct dsf_model model;
    struct dsf_machine machine;
    struct dsflow_plan *plan;
    struct dsflow_graph *graph;
    struct dsflow_err err;
};

/* Where logits of a task take so many bytes at most; 0: any. */
static void build_of(struct fixture *f, const char *family, int context,
                     int workers, const char *rest, int64_t logits)
{
    char text[1024];
    int n = snprintf(text, sizeof(text),
                     "[job]\nname = \"t\"\nsteps = 2\noutput = \"o\"\n"
                     "[model]\nfamily = \"%s\"\nlayers = 3\nheads = 2\n"
                     "width = 32\ncontext = %d\nvocab = 97\n"
                     "[data]\ntrain = \"x\"\n"
                     "[machine]\nworkers = %d\n%s\n",
                     family, context, workers, rest);

    memset(f, 0, sizeof(*f));
    f->machine.cores = 2;
    f->machine.logits = logits;
    if (dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, &f->job,
                      &f->err) < 0 ||
        dsf_model_init(&f->model, &f->job, &f->err) < 0 ||
        dsf_plan_new(&f->job, &f->model, &f->machine, &f->plan, &f->err) < 0 ||
        dsf_policies_build(f->plan, NULL, &f->graph, &f->err) < 0)
        fail_msg("%s", f->err.msg);
}

static void build_in(struct fixture *f, const char *family, const char *rest,
                     int64_t logits)
{
    build_of(f, family, 64, 2, rest, logits);
}

static void build(struct fixture *f, const char *family, const char *rest)
{
    build_in(f, family, rest, 0);
}

static void done(struct fixture *f)
{
    dsflow_graph_free(f->graph);
    dsf_plan_free(f->plan);
    dsf_model_fini(&f->model);
    dsf_job_fini(&f->job);
}

static unsigned count(const struct fixture *f, const struct dsflow_op *op,
                      const char *name)
{
    dsflow_program program;
    unsigned n = 0;

    assert_true(dsflow_graph_find_program(f->graph, name, &program));

    for (uint32_t i = 0; i < dsflow_graph_ntasks(f->graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(f->graph, (dsflow_task_id){ i });

        n += t->op == op && t->program == program;
    }
    return n;
}

static const char four_micro[] = "[batch]\nsequences = 4\nmicro = 1\n"
                                 "sequence = 48\ntile = 16\n";

static void every_layer_tile_and_micro_batch_has_its_tasks(void **state)
{
    struct fixture f;

    build(&f, "gpt2", four_micro); /* 3 layers, 3 tiles, 4 micro-batches */
    assert_int_equal(count(&f, &dsf_op_qkv_forward, "step"), 36);
    assert_int_equal(count(&f, &dsf_op_mlp_backward_weight, "step"), 36);
    /* Causal pairs of three tiles: 1 + 2 + 3. */
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"), 72);
    assert_int_equal(count(&f, &dsf_op_attention_backward_input, "step"), 72);
    assert_int_equal(count(&f, &dsf_op_head_forward, "step"), 12);
    assert_int_equal(count(&f, &dsf_op_adam, "step"), f.model.nunits);
    assert_int_equal(count(&f, &dsf_op_report, "step"), 1);
    assert_int_equal(count(&f, &dsf_op_qkv_forward, "eval"), 9);
    assert_int_equal(count(&f, &dsf_op_mlp_backward_input, "eval"), 0);
    done(&f);
}

static void groups_sum_apart_and_then_in_a_tree(void **state)
{
    struct fixture f;

    build(&f, "llama",
          "[batch]\nsequences = 4\nmicro = 1\nsequence = 8\ngroups = 4\n");
    /* And what the head gives to the tied embedding, in each group. */
    assert_int_equal(count(&f, &dsf_op_add, "step"), f.model.nunits + 4);
    done(&f);
}

static void
an_update_waits_for_every_square_where_it_depends_on_it(void **state)
{
    static const struct {
        const char *keys;
        bool waits;
    } jobs[] = {
        { "[optimizer]\nclip = 0.0\n", false },
        { "[optimizer]\nclip = 1.0\n", true },
        { "[optimizer]\nclip = 0.0\n[train]\non_nonfinite = \"skip\"\n", true },
        { "[optimizer]\nclip = 0.0\n[precision]\ncompute = \"bf16\"\n", false },
        { "[optimizer]\nclip = 0.0\n[precision]\ncompute = \"fp16\"\n", true },
    };

    for (unsigned j = 0; j < sizeof(jobs) / sizeof(*jobs); j++) {
        struct fixture f;
        uint32_t clip_at = 0, adam_at = 0;
        char text[200];

        snprintf(text, sizeof(text),
                 "%s[batch]\nsequences = 2\nmicro = 1\nsequence = 8\n",
                 jobs[j].keys);
        build(&f, "gpt2", text);
        for (uint32_t i = 0; i < dsflow_graph_ntasks(f.graph); i++) {
            const struct dsflow_task_spec *t =
                dsflow_graph_task(f.graph, (dsflow_task_id){ i });

            if (t->op == &dsf_op_clip)
                clip_at = i;
            if (t->op == &dsf_op_adam)
                adam_at = i;
        }
        assert_int_equal(clip_at < adam_at, jobs[j].waits);
        done(&f);
    }
}

/* Tasks of the step that have data called so, or of all others. */
static unsigned users(const struct fixture *f, const char *data, bool of_step,
                      const struct dsflow_op *op)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(f->graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(f->graph, (dsflow_task_id){ i });

        for (unsigned k = 0; k < t->ndata; k++)
            n += strcmp(dsflow_graph_data(f->graph, t->data[k])->name,
                        data) == 0 &&
                 (t->program == DSFLOW_STEP) == of_step &&
                 (op == NULL || op == t->op);
    }
    return n;
}

/* Nothing of it is there elsewhere, nor in validations. */
static void losses_are_scaled_in_fp16(void **state)
{
    static const char *const types[] = { "fp32", "bf16", "fp16" };

    for (int i = 0; i < 3; i++) {
        bool scaled = i == 2;
        struct fixture f;
        char text[300];

        snprintf(text, sizeof(text), "%s[precision]\ncompute = \"%s\"\n",
                 four_micro, types[i]);
        build(&f, "llama", text);
        assert_int_equal(users(&f, "control", true, &dsf_op_head_forward),
                         scaled ? 12 : 0);
        assert_int_equal(users(&f, "control", false, NULL), 0);
        assert_int_equal(users(&f, "scaler", true, &dsf_op_begin), scaled);
        assert_int_equal(users(&f, "scaler", true, &dsf_op_clip), scaled);
        assert_int_equal(users(&f, "scaler", true, &dsf_op_report), scaled);
        assert_int_equal(users(&f, "scaler", true, NULL), 3 * scaled);
        assert_int_equal(dsflow_plan_kept(f.plan, "scaler") != 0, scaled);
        done(&f);
    }
}

static void what_others_wait_for_comes_first(void **state)
{
    struct fixture f;

    build(&f, "gpt2", four_micro);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(f.graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(f.graph, (dsflow_task_id){ i });
        const dsflow_task_id *preds;
        uint32_t n =
            dsflow_graph_preds(f.graph, (dsflow_task_id){ i }, &preds);

        /* The highest is for tasks that cost nothing. */
        for (uint32_t k = 0; k < n && t->priority < 1000000; k++)
            assert_true(dsflow_graph_task(f.graph, preds[k])->priority >=
                        t->priority);
    }
    done(&f);
}

static void the_same_plan_gives_the_same_graph(void **state)
{
    char *text[2];
    size_t bytes[2];

    for (int i = 0; i < 2; i++) {
        struct fixture f;
        FILE *out = open_memstream(&text[i], &bytes[i]);

        build(&f, "llama", four_micro);
        assert_int_equal(dsflow_graph_write_dot(f.graph, out, NULL), 0);
        fclose(out);
        done(&f);
    }
    assert_string_equal(text[0], text[1]);
    free(text[0]);
    free(text[1]);
}

static void the_size_of_a_graph_is_known_before_there_is_one(void **state)
{
    static const char *const jobs[] = {
        four_micro,
        "[batch]\nsequences = 32\nmicro = 4\nsequence = 64\ntile = 64\n",
        "[batch]\nsequences = 64\nmicro = 1\nsequence = 64\ntile = 16\n",
        "[batch]\nsequences = 16\nmicro = 8\nsequence = 64\ntile = 128\n",
        "[batch]\nsequences = 16\n[mesh]\ntensor = 2\n",
    };

    for (size_t i = 0; i < sizeof(jobs) / sizeof(*jobs); i++) {
        struct fixture f;
        double about, is;

        build(&f, "llama", jobs[i]);
        about = dsf_plan_tasks(f.plan);
        is = dsflow_graph_ntasks(f.graph);
        if (about < 0.6 * is || about > 1.4 * is)
            fail_msg("%s: %.0f tasks, not about %.0f", jobs[i], is, about);
        done(&f);
    }
}

/* Bytes of the largest data of the class that this name is of. */
static uint64_t most_bytes(const struct fixture *f, const char *begins)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(f->graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(f->graph, (dsflow_data_id){ i });

        if (strncmp(d->name, begins, strlen(begins)) == 0 && d->bytes > most)
            most = d->bytes;
    }
    return most;
}

/* No data has logits then, and a task less gives gradients. */
static void of_columns_of_the_head_there_is_no_data(void **state)
{
    static const char columns[] = "[batch]\nsequences = 4\nmicro = 1\n"
                                  "sequence = 48\ntile = 16\n"
                                  "head_columns = 32\n";
    struct fixture f;

    build(&f, "gpt2", columns);
    assert_int_equal(count(&f, &dsf_op_head_forward_columns, "step"), 12);
    assert_int_equal(count(&f, &dsf_op_head_backward_columns, "step"), 12);
    assert_int_equal(count(&f, &dsf_op_head_forward_columns, "eval"), 3);
    assert_int_equal(count(&f, &dsf_op_head_forward, "step"), 0);
    assert_int_equal(count(&f, &dsf_op_head_backward_weight, "step"), 0);
    assert_int_equal(most_bytes(&f, "logits"), 0);
    done(&f);
    /* Many workers would wait for what tiles do one after the other. */
    build_of(&f, "gpt2", 64, 32, columns, 0);
    assert_int_equal(count(&f, &dsf_op_head_backward_columns, "step"), 0);
    assert_int_equal(count(&f, &dsf_op_head_backward_input_columns, "step"),
                     12);
    assert_int_equal(count(&f, &dsf_op_head_backward_weight_columns, "step"),
                     12);
    assert_int_equal(most_bytes(&f, "logits"), 0);
    done(&f);
}

/* 4 micro-batches in 3 tiles of 16 rows of 97 logits, then in one tile of 3
 * slices. */
static void slices_of_the_head_have_tasks_of_their_own(void **state)
{
    static const char one_tile[] = "[batch]\nsequences = 4\nmicro = 1\n"
                                   "sequence = 48\ntile = 48\n";
    struct fixture f;

    build_in(&f, "gpt2", one_tile, 16 * 97 * 4);
    assert_int_equal(f.plan->ntiles, 1);
    assert_int_equal(count(&f, &dsf_op_qkv_forward, "step"), 12);
    assert_int_equal(count(&f, &dsf_op_head_forward, "step"), 12);
    assert_int_equal(count(&f, &dsf_op_head_backward_weight, "step"), 12);
    assert_int_equal(count(&f, &dsf_op_copy, "step"), 24);
    assert_int_equal(count(&f, &dsf_op_load_batch, "step"), 16);
    assert_int_equal(count(&f, &dsf_op_head_forward, "eval"), 3);
    assert_int_equal(count(&f, &dsf_op_copy, "eval"), 3);
    assert_int_equal(most_bytes(&f, "logits"), 16 * 97 * 4);
    assert_int_equal(most_bytes(&f, "x.slice"), 16 * 32 * 4);
    done(&f);

    build(&f, "gpt2", one_tile);
    assert_int_equal(count(&f, &dsf_op_head_forward, "step"), 4);
    assert_int_equal(count(&f, &dsf_op_copy, "step"), 0);
    assert_int_equal(most_bytes(&f, "logits"), 48 * 97 * 4);
    done(&f);
}

#define PIECES "[batch]\nsequences = 2\nmicro = 1\nsequence = 64\ntile = 16\n"
#define LAID   "[sparse_attention]\nattention = \"unidirectional\"\n"

/* 2 micro-batches of 4 tiles of 16 tokens, in 3 layers. */
static void pairs_without_a_visible_block_have_no_task(void **state)
{
    struct fixture f;

    /* The second layer: a tile sees itself and the one before it. */
    build(&f, "gpt2", PIECES LAID "mode = \"local_sliding_window\"\n"
                                  "layers = \"1\"\n");
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"),
                     2 * (10 + 7 + 10));
    assert_int_equal(count(&f, &dsf_op_attention_backward_input, "step"),
                     2 * (10 + 7 + 10));
    assert_int_equal(count(&f, &dsf_op_attention_forward, "eval"), 27);
    assert_true(dsf_plan_keys(f.plan, 0) == 64);
    assert_true(dsf_plan_keys(f.plan, 1) == 2.0 * (4 * 136 + 3 * 256) / 64);
    done(&f);

    /* The heads together see all pairs of tiles, each of them 8 of the 10. */
    build(&f, "gpt2", PIECES LAID "mode = \"fixed\"\nnum_local_blocks = 2\n"
                                  "different_layout_per_head = true\n"
                                  "num_different_global_patterns = 2\n");
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"), 2 * 3 * 10);
    done(&f);
    build(&f, "gpt2", PIECES LAID "mode = \"fixed\"\nnum_local_blocks = 2\n"
                                  "different_layout_per_head = true\n"
                                  "num_different_global_patterns = 2\n"
                                  "[mesh]\ntensor = 2\n");
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"),
                     2 * 3 * (8 + 8));
    assert_int_equal(count(&f, &dsf_op_attention_backward_input, "step"),
                     2 * 3 * (8 + 8));
    done(&f);
}

/* One sequence in tiles of 16 tokens. */
static void build_long(struct fixture *f, int tokens, const char *rest)
{
    char text[256];

    snprintf(text, sizeof(text),
             "[batch]\nsequences = 1\nmicro = 1\ntile = 16\n%s", rest);
    build_of(f, "llama", tokens, 2, text, 0);
}

static void tasks_of_attention_grow_with_the_sequence(void **state)
{
    struct fixture f;
    unsigned tasks;
    uint32_t all;

    /* Up to 16 tiles, one for each pair of them in 3 layers. */
    build_long(&f, 256, "");
    assert_int_equal(f.plan->key_tiles, 1);
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"), 3 * 136);
    done(&f);

    build_long(&f, 1024, "");
    assert_int_equal(f.plan->key_tiles, 4);
    tasks = count(&f, &dsf_op_attention_forward, "step");
    assert_int_equal(tasks, 3 * 4 * 136);
    all = dsflow_graph_ntasks(f.graph);
    assert_int_equal(most_bytes(&f, "kv."), 4 * 16 * 2 * 32 * 4);
    done(&f);
    build_long(&f, 2048, "");
    assert_int_equal(f.plan->key_tiles, 8);
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"), 2 * tasks);
    assert_int_equal(count(&f, &dsf_op_attention_backward_input, "step"),
                     2 * tasks);
    assert_true(dsflow_graph_ntasks(f.graph) < 2.1 * all);
    done(&f);

    /* A buffer never goes beyond a stretch, here of 8 tiles. */
    build_long(&f, 1024, "sequence_groups = 4\nkey_tiles = 100\n");
    assert_int_equal(f.plan->key_tiles, 8);
    assert_int_equal(count(&f, &dsf_op_attention_forward, "step"), 3 * 8 * 36);
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_tile_and_micro_batch_has_its_tasks),
        cmocka_unit_test(groups_sum_apart_and_then_in_a_tree),
        cmocka_unit_test(
            an_update_waits_for_every_square_where_it_depends_on_it),
        cmocka_unit_test(losses_are_scaled_in_fp16),
        cmocka_unit_test(what_others_wait_for_comes_first),
        cmocka_unit_test(the_same_plan_gives_the_same_graph),
        cmocka_unit_test(the_size_of_a_graph_is_known_before_there_is_one),
        cmocka_unit_test(of_columns_of_the_head_there_is_no_data),
        cmocka_unit_test(slices_of_the_head_have_tasks_of_their_own),
        cmocka_unit_test(pairs_without_a_visible_block_have_no_task),
        cmocka_unit_test(tasks_of_attention_grow_with_the_sequence),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
