/* test_trace_file.c - a trace comes back from disk as it was; what is cut off
 * or damaged is said to be so. */
#include "trace/trace.h"

#include "graph/task.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check(const struct dsflow_case *c, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void cost(const struct dsflow_case *c, struct dsflow_cost *cost)
{
    cost->flops = 3.0 * (double)c->shapes[0].bytes;
    cost->bytes = 5.0;
}

static const struct dsflow_op make = {
    .abi = DSFLOW_OP_ABI,
    .name = "make",
    DSFLOW_PORTS({ "out", DSFLOW_W }),
    .check = check,
    .cost = cost,
};
static const struct dsflow_op move = {
    .abi = DSFLOW_OP_ABI,
    .name = "move",
    .repeats = 1,
    .comm = 1,
    DSFLOW_PORTS({ "out", DSFLOW_RW }, { "in", DSFLOW_R, .optional = 1 }),
    .check = check,
    .cost = cost,
};

static const struct dsflow_op bring = {
    .abi = DSFLOW_OP_ABI,
    .name = "bring",
    .segment = "mlp",
    .direction = DSFLOW_DIR_SWAP,
    .update = 1,
    .swaps = 1,
    DSFLOW_PORTS({ "home", DSFLOW_R }, { "slot", DSFLOW_W }),
    .check = check,
    .cost = cost,
};

static struct dsflow_graph *graph(void)
{
    struct dsflow_graph *g = dsflow_graph_new();
    dsflow_data_id a = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "layer0.x", .elems = 1000,
                        .role = DSFLOW_ACTIVATIONS, .home = 0, .unit = -1,
                        .ring = "batch.in_flight"));
    dsflow_data_id b = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "layer0.x@1", .elems = 6000000000,
                        .role = DSFLOW_GRADS, .home = 1, .unit = 4, .part = 1,
                        .at = 70, .block = 10, .persistent = 1));
    dsflow_data_id home = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "layer0.m", .elems = 700, .role = DSFLOW_STATES,
                        .tier = DSFLOW_NVME, .persistent = 1));
    dsflow_data_id slot = dsflow_graph_add_data(
        g, &DSFLOW_DATA(.name = "slot", .elems = 900, .role = DSFLOW_STATES,
                        .tier = DSFLOW_HOST, .ring = "offload.read_ahead"));

    dsflow_graph_add_task(g, &DSFLOW_TASK(.op = &make, .layer = -1,
                                          .microbatch = 3, .tile = 7, .rank = 0,
                                          .priority = -9, .ndata = 1,
                                          .data = (dsflow_data_id[]){ a }));
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &move, .layer = 2, .microbatch = -1, .rank = 1,
                        .pass = DSFLOW_UPDATE, .fresh = 1, .ndata = 2,
                        .data = (dsflow_data_id[]){ b, a }));
    dsflow_graph_add_task(
        g, &DSFLOW_TASK(.op = &bring, .ndata = 2,
                        .data = (dsflow_data_id[]){ home, slot }));
    return g;
}

/* Tracing began when five steps had run. */
static const struct dsf_span spans[] = {
    { 0.5, 0.75, 0, 5, 0, 0, DSF_SPAN_TASK },
    { 0.25, 0.5, 1, 0, 2, -1, DSF_SPAN_TRANSFER },
    { 0.75, 1.25, 1, 5, 1, 1, DSF_SPAN_TASK },
};

static char path[] = "test_trace_file.got";

static void write_trace(bool whole)
{
    struct dsf_trace t = { .facts = { .name = (char *)"a \"name\"",
                                      .job = (char *)"[job]\nsteps = 3\n",
                                      .executor = (char *)"serial",
                                      .machine = (char *)"this",
                                      .duplex = true,
                                      .nranks = 2,
                                      .axes = { { "data", 2, 1 },
                                                { "copies", 1, 2 } },
                                      .naxes = 2,
                                      .cores = 4,
                                      .first = 11,
                                      .rates = (char *)"[machine]\n",
                                      .vocab = 50257,
                                      .memory = 1.5e9,
                                      .tokens = 1 << 20,
                                      .predicted = 0.1,
                                      .bound = 0.09 } };
    struct dsf_trace_file *file;
    struct dsflow_err err;

    t.graph = graph();
    dsf_trace_weigh(&t, NULL);
    t.tasks[1].predicted = 0.625;
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "core %d", 0);
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 1, "core %d", 1);
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_LINK, -1, "memory to x");
    t.timeline.lanes[2].ends[1] = 2;
    assert_int_equal(dsf_trace_create(path, &t, &file, &err), DSFLOW_OK);
    assert_int_equal(dsf_trace_append(file, spans, 1, &err), DSFLOW_OK);
    assert_int_equal(dsf_trace_append(file, spans + 1, 2, &err), DSFLOW_OK);
    assert_int_equal(dsf_trace_close(file, whole, &err), DSFLOW_OK);
    dsflow_graph_free(t.graph);
    free(t.tasks);
    dsf_timeline_fini(&t.timeline);
}

static void assert_task_came_back(const struct dsf_trace *t)
{
    const struct dsflow_task_spec *task =
        dsflow_graph_task(t->graph, (dsflow_task_id){ 1 });

    assert_int_equal(dsflow_graph_ntasks(t->graph), 3);
    assert_string_equal(task->op->name, "move");
    assert_true(task->op->comm && task->op->repeats);
    assert_null(task->op->segment);
    assert_string_equal(task->op->ports[1].name, "in");
    assert_int_equal(task->layer, 2);
    assert_int_equal(task->microbatch, -1);
    assert_int_equal(task->pass, DSFLOW_UPDATE);
    assert_int_equal(dsflow_task_access(task, 0), DSFLOW_W);
    assert_int_equal(task->data[1].i, 0);
    assert_true(t->tasks[1].flops == 3.0 * 6000000000);
    assert_true(t->tasks[1].predicted == 0.625);
    assert_true(t->tasks[0].predicted == -1);
    assert_int_equal(
        dsflow_graph_task(t->graph, (dsflow_task_id){ 0 })->priority, -9);
}

static void assert_swap_came_back(const struct dsf_trace *t)
{
    const struct dsflow_task_spec *swap =
        dsflow_graph_task(t->graph, (dsflow_task_id){ 2 });
    const struct dsflow_data_spec *home =
        dsflow_graph_data(t->graph, swap->data[0]);
    const struct dsflow_data_spec *slot =
        dsflow_graph_data(t->graph, swap->data[1]);

    assert_true(swap->op->swaps && !swap->op->comm);
    assert_string_equal(swap->op->segment, "mlp");
    assert_int_equal(swap->op->direction, DSFLOW_DIR_SWAP);
    assert_int_equal(swap->op->update, 1);
    assert_int_equal(home->tier, DSFLOW_NVME);
    assert_int_equal(slot->tier, DSFLOW_HOST);
    assert_string_equal(slot->ring, "offload.read_ahead");
    assert_int_equal(dsflow_graph_data(t->graph, (dsflow_data_id){ 0 })->tier,
                     DSFLOW_DEVICE);
    assert_true(t->facts.duplex);
}

static void a_rank_says_where_it_is_on_several_axes(void **state)
{
    struct dsf_trace_facts f = { .nranks = 12,
                                 .axes = { { "data", 2, 3 },
                                           { "pipeline", 1, 6 },
                                           { "copies", 2, 6 },
                                           { "tensor", 3, 1 } },
                                 .naxes = 4 };
    char mesh[64];

    assert_string_equal(dsf_trace_rank_text(&f, 10).s,
                        "rank 10 (data 1 copies 1 tensor 1)");
    dsf_trace_mesh_text(&f, mesh, sizeof(mesh));
    assert_string_equal(mesh, "data 2 x pipeline 1 x copies 2 x tensor 3");
    f.axes[0].size = f.axes[3].size = 1;
    assert_string_equal(dsf_trace_rank_text(&f, 1).s, "rank 1");
}

static void a_trace_comes_back(void **state)
{
    const dsflow_task_id *preds;
    struct dsf_trace t;
    struct dsflow_err err;

    write_trace(true);
    assert_int_equal(dsf_trace_read(path, &t, &err), DSFLOW_OK);
    assert_false(t.cut);
    assert_string_equal(t.facts.name, "a \"name\"");
    assert_string_equal(t.facts.job, "[job]\nsteps = 3\n");
    assert_string_equal(t.facts.executor, "serial");
    assert_int_equal(t.facts.first, 16);
    assert_string_equal(t.facts.rates, "[machine]\n");
    assert_int_equal(t.facts.vocab, 50257);
    assert_true(t.facts.memory == 1.5e9);
    assert_true(t.facts.predicted == 0.1 && t.facts.bound == 0.09);
    assert_int_equal(t.facts.cores, 4);
    assert_int_equal(t.facts.naxes, 2);
    assert_int_equal(dsf_trace_axis(&t.facts, "data"), 2);
    assert_int_equal(dsf_trace_coord(&t.facts, 1, "data"), 1);
    assert_int_equal(dsf_trace_axis(&t.facts, "tensor"), 1);
    assert_int_equal(dsf_trace_coord(&t.facts, 1, "tensor"), 0);

    assert_task_came_back(&t);
    assert_swap_came_back(&t);
    assert_int_equal(
        dsflow_graph_preds(t.graph, (dsflow_task_id){ 1 }, &preds), 1);
    assert_true(dsflow_graph_data(t.graph, (dsflow_data_id){ 1 })->bytes ==
                6000000000);
    assert_int_equal(dsflow_graph_data(t.graph, (dsflow_data_id){ 1 })->at, 70);
    assert_null(dsflow_graph_data(t.graph, (dsflow_data_id){ 1 })->ring);
    assert_string_equal(
        dsflow_graph_data(t.graph, (dsflow_data_id){ 0 })->ring,
        "batch.in_flight");

    assert_int_equal(t.timeline.nlanes, 3);
    assert_int_equal(t.timeline.workers, 2);
    assert_string_equal(t.timeline.lanes[2].name, "memory to x");
    assert_int_equal(t.timeline.lanes[2].ends[0], 0);
    assert_int_equal(t.timeline.lanes[2].ends[1], 2);
    assert_int_equal(t.timeline.n, 3);
    assert_true(t.timeline.v[0].start == 0.25);
    assert_int_equal(t.timeline.v[0].kind, DSF_SPAN_TRANSFER);
    assert_int_equal(t.timeline.v[2].lane, 1);
    assert_int_equal(t.timeline.v[2].step, 0);
    dsf_trace_fini(&t);
}

static void a_run_that_was_killed_leaves_what_it_wrote(void **state)
{
    struct dsf_trace t;
    struct dsflow_err err;

    write_trace(false);
    assert_int_equal(dsf_trace_read(path, &t, &err), DSFLOW_OK);
    assert_true(t.cut);
    assert_int_equal(t.timeline.n, 3);
    dsf_trace_fini(&t);
}

static char *read_file(size_t *bytes)
{
    FILE *in = fopen(path, "rb");
    char *all = calloc(1, 1 << 16);

    *bytes = fread(all, 1, 1 << 16, in);
    fclose(in);
    return all;
}

static int read_back(const char *all, size_t bytes, struct dsflow_err *err)
{
    FILE *out = fopen(path, "wb");
    struct dsf_trace t;
    int status;

    fwrite(all, 1, bytes, out);
    fclose(out);
    status = dsf_trace_read(path, &t, err);
    if (status == DSFLOW_OK)
        dsf_trace_fini(&t);
    return status;
}

static void any_bytes_are_read_or_refused(void **state)
{
    struct dsflow_err err;
    size_t bytes;
    char *all;
    int refused = 0;

    write_trace(true);
    all = read_file(&bytes);
    for (size_t i = 0; i < bytes; i++)
        refused += read_back(all, i, &err) == DSFLOW_EINVAL;
    assert_true(refused > 0);
    assert_int_equal(read_back(all, bytes, &err), DSFLOW_OK);
    for (size_t i = 0; i < bytes; i++) {
        char kept = all[i];

        all[i] = (char)~kept;
        read_back(all, bytes, &err);
        all[i] = kept;
    }
    assert_int_equal(read_back("no trace at all", 15, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "test_trace_file.got: is no trace of this "
                                 "version of dsflow");
    assert_int_equal(read_back(all, 200, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "test_trace_file.got: is damaged");
    free(all);
    unlink(path);
}

static const struct dsflow_op strange = {
    .abi = DSFLOW_OP_ABI,
    .name = "ma\nke",
    .segment = "m\033lp",
    DSFLOW_PORTS({ "o\033ut", DSFLOW_W }),
    .check = check,
    .cost = cost,
};

/* What a file says is printed on terminals. */
static void names_come_back_without_control_characters(void **state)
{
    struct dsf_trace t = { .facts = { .name = (char *)"\033",
                                      .job = (char *)"a\nb",
                                      .machine = (char *)"",
                                      .rates = (char *)"",
                                      .executor = (char *)"se\033rial",
                                      .nranks = 1 } };
    struct dsf_trace_file *file;
    struct dsflow_err err;
    dsflow_data_id d;

    t.graph = dsflow_graph_new();
    d = dsflow_graph_add_data(
        t.graph, &DSFLOW_DATA(.name = "d\033", .elems = 8, .ring = "r\033"));
    dsflow_graph_add_task(t.graph,
                          &DSFLOW_TASK(.op = &strange, .ndata = 1, .data = &d));
    dsf_trace_weigh(&t, NULL);
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "co\033re 0");
    assert_int_equal(dsf_trace_create(path, &t, &file, &err), DSFLOW_OK);
    assert_int_equal(dsf_trace_close(file, true, &err), DSFLOW_OK);
    dsflow_graph_free(t.graph);
    free(t.tasks);
    dsf_timeline_fini(&t.timeline);

    assert_int_equal(dsf_trace_read(path, &t, &err), DSFLOW_OK);
    assert_string_equal(t.facts.name, "?");
    assert_string_equal(t.facts.job, "a\nb");
    assert_string_equal(t.facts.executor, "se?rial");
    assert_string_equal(t.timeline.lanes[0].name, "co?re 0");
    assert_string_equal(dsf_nth_task(t.graph, 0)->op->name, "ma?ke");
    assert_string_equal(dsf_nth_task(t.graph, 0)->op->segment, "m?lp");
    assert_string_equal(dsf_nth_task(t.graph, 0)->op->ports[0].name, "o?ut");
    assert_string_equal(dsf_nth_data(t.graph, 0)->name, "d?");
    assert_string_equal(dsf_nth_data(t.graph, 0)->ring, "r?");
    dsf_trace_fini(&t);
    unlink(path);
}

static void every_ring_comes_back_however_many_there_are(void **state)
{
    enum { NRINGS = 300 };
    static char keys[NRINGS][32];
    struct dsf_trace t = { .facts = { .name = (char *)"rings",
                                      .job = (char *)"",
                                      .machine = (char *)"",
                                      .rates = (char *)"",
                                      .executor = (char *)"serial",
                                      .nranks = 1 } };
    struct dsf_trace_file *file;
    struct dsflow_err err;

    t.graph = dsflow_graph_new();
    for (unsigned i = 0; i < NRINGS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "mine.key%u", i);
        dsflow_graph_add_data(t.graph, &DSFLOW_DATA(.name = keys[i], .elems = 8,
                                                    .ring = keys[i]));
    }
    dsf_trace_weigh(&t, NULL);
    dsf_timeline_add_lane(&t.timeline, DSF_LANE_WORKER, 0, "core 0");
    assert_int_equal(dsf_trace_create(path, &t, &file, &err), DSFLOW_OK);
    assert_int_equal(dsf_trace_close(file, true, &err), DSFLOW_OK);
    dsflow_graph_free(t.graph);
    free(t.tasks);
    dsf_timeline_fini(&t.timeline);

    assert_int_equal(dsf_trace_read(path, &t, &err), DSFLOW_OK);
    for (unsigned i = 0; i < NRINGS; i++)
        assert_string_equal(
            dsflow_graph_data(t.graph, (dsflow_data_id){ i })->ring, keys[i]);
    dsf_trace_fini(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_says_where_it_is_on_several_axes),
        cmocka_unit_test(a_trace_comes_back),
        cmocka_unit_test(a_run_that_was_killed_leaves_what_it_wrote),
        cmocka_unit_test(any_bytes_are_read_or_refused),
        cmocka_unit_test(names_come_back_without_control_characters),
        cmocka_unit_test(every_ring_comes_back_however_many_there_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
