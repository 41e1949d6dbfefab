/* test_plan.c - how a step is cut. */
#include "plan/plan.h"

#include "plan/key_tiles.h"
#include "plan/sight.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

struct fixture {
    struct dsf_job job;
    struct dsf_model model;
    struct dsf_machine machine;
    struct dsflow_plan *plan;
    struct dsflow_err err;
};

/* A plan of a small model in which a token sees so many, with these lines under
 * [batch], on two cores or GPUs, where logits of a task take so many bytes at
 * most. */
static int cut_near(struct fixture *f, int window, const char *batch,
                    unsigned gpus, int64_t logits)
{
    char text[1024];
    int n = snprintf(text, sizeof(text),
                     "[job]\nname = \"t\"\nsteps = 2\noutput = \"o\"\n"
                     "[model]\nfamily = \"gpt2\"\nlayers = 2\nheads = 2\n"
                     "width = 32\ncontext = 1024\nvocab = 97\n"
                     "[data]\ntrain = \"x\"\n[batch]\n%s\n"
                     "[machine]\nworkers = 2\n",
                     batch);
    char set[32];
    const char *sets = set;
    int status;

    memset(f, 0, sizeof(*f));
    f->machine.cores = 2;
    f->machine.gpus = gpus;
    f->machine.logits = logits;
    snprintf(set, sizeof(set), "model.window=%d", window);
    status = dsf_job_parse(text, (size_t)n, "job.toml", &sets, 1, NULL, &f->job,
                           &f->err);
    if (status < 0)
        return status;
    status = dsf_model_init(&f->model, &f->job, &f->err);
    if (status < 0)
        return status;
    return dsf_plan_new(&f->job, &f->model, &f->machine, &f->plan, &f->err);
}

static int cut_in(struct fixture *f, const char *batch, unsigned gpus,
                  int64_t logits)
{
    return cut_near(f, 0, batch, gpus, logits);
}

static int cut_for(struct fixture *f, const char *batch, unsigned gpus)
{
    return cut_in(f, batch, gpus, 0);
}

static int cut(struct fixture *f, const char *batch)
{
    return cut_for(f, batch, 0);
}

static void done(struct fixture *f)
{
    dsf_plan_free(f->plan);
    dsf_model_fini(&f->model);
    dsf_job_fini(&f->job);
}

/* Tiles `first` to `first` + `n` cover every token of a micro-batch once, in
 * order. */
static void assert_cover(const struct dsflow_plan *plan, int first, int n)
{
    int64_t at = 0;

    for (int t = first; t < first + n; t++) {
        const struct dsf_tile_rows *p = &plan->tiles[t];

        assert_int_equal((int64_t)p->seq * plan->sequence + p->pos, at);
        assert_true(p->rows > 0);
        if (p->nseq > 1 || p->rows == plan->sequence) {
            assert_int_equal(p->pos, 0);
            assert_int_equal(p->rows, p->nseq * plan->sequence);
        } else {
            assert_int_equal(p->nseq, 1);
            assert_true(p->pos + p->rows <= plan->sequence);
        }
        at += p->rows;
    }
    assert_int_equal(at, (int64_t)plan->micro * plan->sequence);
}

static void assert_covered(const struct dsflow_plan *plan)
{
    assert_cover(plan, 0, plan->ntiles);
}

static void long_sequences_are_cut_in_pieces(void **state)
{
    struct fixture f;

    if (cut(&f, "sequences = 4\nmicro = 2\nsequence = 1000") < 0)
        fail_msg("%s", f.err.msg);
    assert_covered(f.plan);
    assert_int_equal(f.plan->ntiles, 8);
    assert_int_equal(f.plan->tiles[0].rows, 256);
    assert_int_equal(f.plan->tiles[3].rows, 1000 - 3 * 256);
    assert_int_equal(f.plan->nmicro, 2);
    done(&f);
}

static void short_sequences_are_put_together(void **state)
{
    struct fixture f;

    if (cut(&f, "sequences = 30\nmicro = 30\nsequence = 37") < 0)
        fail_msg("%s", f.err.msg);
    assert_covered(f.plan);
    for (int t = 0; t < f.plan->ntiles; t++)
        assert_true(f.plan->tiles[t].rows <= 256);
    done(&f);
}

static void a_small_step_has_two_tiles(void **state)
{
    struct fixture f;

    if (cut(&f, "sequences = 4\nmicro = 4\nsequence = 64") < 0)
        fail_msg("%s", f.err.msg);
    assert_covered(f.plan);
    assert_int_equal(f.plan->ntiles, 2);
    done(&f);
}

static void any_shape_is_covered(void **state)
{
    for (int sequence = 1; sequence < 1024; sequence += 61)
        for (int micro = 1; micro < 20; micro += 3)
            for (int tile = 1; tile < 600; tile += 97) {
                struct fixture f;
                char batch[128];

                snprintf(batch, sizeof(batch),
                         "sequences = %d\nmicro = %d\nsequence = %d\n"
                         "tile = %d",
                         micro * 2, micro, sequence, tile + 15);
                if (cut(&f, batch) < 0)
                    fail_msg("%s", f.err.msg);
                assert_covered(f.plan);
                done(&f);
            }
}

static void what_does_not_divide_is_named(void **state)
{
    struct fixture f;

    assert_int_equal(cut(&f, "sequences = 4\nmicro = 2\nsequence = 2000"),
                     DSFLOW_EINVAL);
    assert_string_equal(f.err.msg, "job.toml:17: batch: sequence: 2000: "
                                   "expected at most the model's context, "
                                   "1024");
    done(&f);
    assert_true(cut(&f, "sequences = 6\nmicro = 2\nsequence = 8\ngroups = 2") <
                0);
    done(&f);
}

static void too_many_tiles_are_refused_before_they_are_cut(void **state)
{
    struct fixture f;

    assert_int_equal(cut_for(&f,
                             "sequences = 65536\nmicro = 65536\n"
                             "sequence = 1024\ntile = 16",
                             0),
                     DSFLOW_EINVAL);
    assert_string_equal(f.err.msg,
                        "job.toml:18: batch: tile: 4194304 tiles of a "
                        "micro-batch: expected at most 32767");
    done(&f);
    assert_int_equal(cut_for(&f,
                             "sequences = 65536\nmicro = 65536\n"
                             "sequence = 24\nsequence_groups = 3\ntile = 16",
                             0),
                     DSFLOW_EINVAL);
    assert_string_equal(f.err.msg,
                        "job.toml:19: batch: tile: 393216 tiles of a "
                        "micro-batch: expected at most 32767");
    done(&f);
}

static void a_tile_is_not_larger_than_a_task_may_be(void **state)
{
    struct fixture f;

    assert_int_equal(cut_for(&f,
                             "sequences = 16385\nmicro = 16385\n"
                             "sequence = 1024",
                             1),
                     DSFLOW_EINVAL);
    assert_string_equal(
        f.err.msg, "job.toml: batch: tile: 16778240 tokens, as auto is all "
                   "of a micro-batch on a GPU: expected at most 16777216");
    done(&f);
}

static void rings_are_no_longer_than_the_step(void **state)
{
    struct fixture f;

    if (cut(&f, "sequences = 2\nmicro = 1\nsequence = 16") < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->logits, 2);
    done(&f);
    if (cut(&f, "sequences = 8\nmicro = 1\nsequence = 16") < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->logits, 3);
    done(&f);
}

/* One stream runs one task after the other: a second tile, or a second buffer of
 * logits, would gain nothing. */
static void a_tile_of_a_gpu_is_the_micro_batch(void **state)
{
    struct fixture f;

    if (cut_for(&f, "sequences = 40\nmicro = 20\nsequence = 1000", 2) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->ntiles, 1);
    assert_int_equal(f.plan->tiles[0].rows, 20 * 1000);
    assert_int_equal(f.plan->logits, 1);
    done(&f);
    if (cut_for(&f, "sequences = 4\nmicro = 2\nsequence = 1000\ntile = 500",
                2) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->ntiles, 4);
    done(&f);
}

#define ROW (97 * 4) /* bytes of the logits of a token */

static void the_head_works_on_slices_where_logits_are_many(void **state)
{
    struct fixture f;

    if (cut_in(&f, "sequences = 10\nmicro = 5\nsequence = 100", 2, 250 * ROW) <
        0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->ntiles, 1);
    assert_int_equal(f.plan->nslices, 3);
    assert_cover(f.plan, 1, 3);
    assert_int_equal(dsf_plan_head_rows(f.plan), 200);
    assert_int_equal(dsf_plan_logits_bytes(f.plan), 200 * ROW);
    assert_int_equal(f.plan->logits, 1);
    done(&f);

    /* Pieces of two tiles: of each, its own. */
    if (cut_in(&f, "sequences = 2\nmicro = 2\nsequence = 1000\ntile = 1000", 2,
               400 * ROW) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->ntiles, 2);
    assert_int_equal(f.plan->nslices, 6);
    assert_cover(f.plan, 2, 6);
    assert_int_equal(dsf_plan_head_tiles_of(f.plan, 1).first, 2 + 3);
    assert_int_equal(dsf_plan_head_tiles_of(f.plan, 1).n, 3);
    assert_true(dsf_plan_logits_bytes(f.plan) <= 400 * ROW);
    done(&f);

    /* A row that is too much is one all the same, with some beside it. */
    if (cut_in(&f, "sequences = 1\nmicro = 1\nsequence = 40", 2, 1) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->nslices, 3);
    assert_int_equal(dsf_plan_head_rows(f.plan), 16);
    done(&f);
}

static void of_the_vocabulary_there_are_some_columns_at_a_time(void **state)
{
    struct fixture f;

    if (cut(&f, "sequences = 2\nmicro = 1\ntile = 64\nhead_columns = 48") < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->head_columns, 48);
    assert_int_equal(dsf_plan_logits_bytes(f.plan), 64 * 48 * 4);
    done(&f);
    /* All of them are no part. */
    if (cut(&f, "sequences = 2\nmicro = 1\nhead_columns = 112") < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->head_columns, 0);
    done(&f);
    /* Tiles are cut where these are too many, and not all. */
    if (cut_in(&f,
               "sequences = 10\nmicro = 5\nsequence = 100\n"
               "head_columns = 48",
               2, 512 * 48 * 4) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->nslices, 0);
    done(&f);
    assert_int_equal(cut(&f, "sequences = 2\nmicro = 1\nhead_columns = 50"),
                     DSFLOW_EINVAL);
    assert_string_equal(f.err.msg,
                        "job.toml:17: batch: head_columns: 50: expected a "
                        "multiple of 16, such as 64");
    done(&f);
}

static void where_logits_are_few_the_head_works_on_tiles(void **state)
{
    struct fixture f;

    if (cut_for(&f, "sequences = 20\nmicro = 20\nsequence = 1000", 2) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->nslices, 0);
    assert_int_equal(dsf_plan_head_tiles(f.plan).n, 1);
    assert_int_equal(dsf_plan_head_rows(f.plan), 20 * 1000);
    done(&f);
    /* One more than 1 GiB has on GPUs; cores have small tiles. */
    if (cut_for(&f, "sequences = 2768\nmicro = 2768\nsequence = 1000", 2) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->ntiles, 1);
    assert_int_equal(f.plan->nslices, 2);
    done(&f);
    if (cut(&f, "sequences = 2768\nmicro = 2768\nsequence = 1000\n"
                "tile = 65536") < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->nslices, 0);
    done(&f);
}

/* Between products a tensor rank has some rows of a tile: it has small tiles.
 */
static void of_tensor_ranks_tiles_are_small(void **state)
{
    struct fixture f;

    if (cut_in(&f,
               "sequences = 5\nmicro = 5\nsequence = 100\n[mesh]\ntensor = 2",
               2, 250 * 49 * 4) < 0)
        fail_msg("%s", f.err.msg);
    assert_int_equal(f.plan->nslices, 0);
    assert_int_equal(f.plan->ntiles, 3);
    assert_int_equal(dsf_plan_logits_bytes(f.plan), 200 * 49 * 4);
    done(&f);
}

/* Counted one by one, over windows and buffers of one tile and more. */
static void what_tiles_see_is_counted(void **state)
{
    static const int windows[] = { 0, 1, 64, 100, 300, 1000 };
    static const char *const batches[] = {
        "sequences = 2\nmicro = 2\ntile = 64\nkey_tiles = 1",
        "sequences = 2\nmicro = 2\ntile = 64\nkey_tiles = 3",
        "sequences = 2\nmicro = 2\ntile = 48\nkey_tiles = 5",
        "sequences = 8\nmicro = 8\nsequence = 32\ntile = 64",
        ("sequences = 4\nmicro = 2\ntile = 32\nkey_tiles = 4\n"
         "sequence_groups = 2"),
    };

    for (unsigned i = 0; i < sizeof(windows) / sizeof(*windows); i++)
        for (unsigned b = 0; b < sizeof(batches) / sizeof(*batches); b++) {
            struct fixture f;
            double n = 0;

            if (cut_near(&f, windows[i], batches[b], 0, 0) < 0)
                fail_msg("window = %d, %s: %s", windows[i], batches[b],
                         f.err.msg);
            for (int32_t t = 0; t < f.plan->ntiles; t++)
                for (int32_t k = dsf_plan_first_seen(f.plan, 0,
                                                     &dsf_segment_attention, t);
                     k <= t; k = dsf_plan_key_buffer(f.plan, k).end)
                    n++;
            assert_true(dsf_plan_pairs(f.plan, 0) == n);
            done(&f);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sequences_are_cut_in_pieces),
        cmocka_unit_test(what_tiles_see_is_counted),
        cmocka_unit_test(short_sequences_are_put_together),
        cmocka_unit_test(a_small_step_has_two_tiles),
        cmocka_unit_test(any_shape_is_covered),
        cmocka_unit_test(what_does_not_divide_is_named),
        cmocka_unit_test(too_many_tiles_are_refused_before_they_are_cut),
        cmocka_unit_test(a_tile_is_not_larger_than_a_task_may_be),
        cmocka_unit_test(rings_are_no_longer_than_the_step),
        cmocka_unit_test(a_tile_of_a_gpu_is_the_micro_batch),
        cmocka_unit_test(the_head_works_on_slices_where_logits_are_many),
        cmocka_unit_test(of_the_vocabulary_there_are_some_columns_at_a_time),
        cmocka_unit_test(where_logits_are_few_the_head_works_on_tiles),
        cmocka_unit_test(of_tensor_ranks_tiles_are_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
