/* test_heard.c - what process 0 hears of the others where it has not the graph
 * of all ranks: together it is what the graph says. */
#include "small.h"

#include "lib/near_wire.h"
#include "sim/weights.h"
#include "train/heard.h"

enum { MOST = 8 };

static struct near_wire *wires;
static struct dsf_session all[MOST];
static int32_t n;

static const char small[] = "model.layers=4 batch.sequences=8 batch.micro=1 "
                            "mesh.pipeline=4 mesh.tensor=2 run.whole=0 ";

/* Each plans its part, and all but the first say what they have. */
static void plan_all(int32_t nprocesses, const char *keys)
{
    char *with = dsf_xasprintf("%s%s", small, keys);
    struct dsflow_err err;

    n = nprocesses;
    wires = near_wires_new(n);
    for (int32_t p = 0; p < n; p++) {
        struct dsf_session *s = &all[p];
        struct dsf_wire *wire = near_wire(wires, p);

        must(open_job(s, TO_MODEL, "job.toml", with, &err), &err);
        must(dsf_machine_probe(&s->machine, &err), &err);
        s->together.wire = wire;
        assert_true(dsf_session_is_large(s));
        must(dsf_session_plan_alone(s, wire, &err), &err);
        assert_true(s->together.alone);
        must(dsf_session_part(s, wire, &err), &err);
        if (p > 0)
            must(dsf_heard_say(s, wire, &err), &err);
    }
    dsf_session_weights(&all[0]);
    for (int32_t p = 1; p < n; p++)
        must(dsf_heard_take(&all[0], p, &err), &err);
    free(with);
}

static void close_all(void)
{
    for (int32_t p = 0; p < n; p++)
        dsf_session_close(&all[p]);
    assert_int_equal(near_wires_free(wires), 0);
}

static void check_traffic(const struct dsf_traffic *a,
                          const struct dsf_traffic *b)
{
    for (int i = 0; i < DSF_NWIRES; i++) {
        assert_float_equal(a->bytes[i], b->bytes[i], 0.5);
        assert_float_equal(a->dense[i], b->dense[i], 0.5);
    }
}

static const struct dsf_kind_weight *
kind_of(const struct dsf_weights *w, const struct dsflow_op *op, unsigned *at)
{
    for (*at = 0; *at < w->nkinds; ++*at)
        if (w->kinds[*at].op == op)
            return &w->kinds[*at];
    fail_msg("no %s", op->name);
    return NULL;
}

static void check_weights(const struct dsf_weights *w,
                          const struct dsf_weights *whole)
{
    assert_int_equal(w->ntasks, whole->ntasks);
    assert_int_equal(w->nedges, whole->nedges);
    assert_int_equal(w->ndata, whole->ndata);
    assert_int_equal(w->nkinds, whole->nkinds);
    assert_float_equal(w->moved, whole->moved, 0.5);
    assert_float_equal(w->flops, whole->flops, 1e-9 * whole->flops);
    check_traffic(&w->traffic, &whole->traffic);
    for (unsigned k = 0; k < whole->nkinds; k++) {
        const struct dsf_kind_weight *b = &whole->kinds[k];
        unsigned i;
        const struct dsf_kind_weight *a = kind_of(w, b->op, &i);

        assert_int_equal(a->tasks, b->tasks);
        assert_float_equal(a->moved, b->moved, 0.5);
        check_traffic(&a->traffic, &b->traffic);
        for (unsigned r = 0; r < whole->nranks; r++) {
            assert_int_equal(w->ranks[r].tasks[i], whole->ranks[r].tasks[k]);
            assert_float_equal(w->ranks[r].moved[i], whole->ranks[r].moved[k],
                               0.5);
        }
    }
    for (unsigned r = 0; r < whole->nranks; r++)
        for (int role = 0; role < DSFLOW_NROLES; role++)
            assert_float_equal(w->ranks[r].role_bytes[role],
                               whole->ranks[r].role_bytes[role], 0.5);
}

/* By name: what is kept between steps is what the whole graph keeps, and each
 * has its process. */
static void check_kept(const struct dsf_session *s,
                       const struct dsflow_graph *whole)
{
    const struct dsf_processes processes =
        dsf_session_processes(s, s->together.wire);
    uint32_t kept = 0, persistent = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(whole); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(whole, (dsflow_data_id){ i });
        const struct dsflow_data_spec *own;
        dsflow_data_id id;

        if (!d->persistent)
            continue;
        persistent++;
        if (!dsflow_graph_find(s->graph, d->name, &id))
            fail_msg("there is no %s", d->name);
        own = dsflow_graph_data(s->graph, id);
        assert_int_equal(own->elems, d->elems);
        assert_int_equal(own->unit, d->unit);
        assert_int_equal(own->part, d->part);
        assert_int_equal(own->at, d->at);
        assert_int_equal(own->kept, d->kept);
        assert_int_equal(own->home, d->home);
        assert_int_equal(s->together.part.process[id.i],
                         dsf_process_of(&processes, d->home));
    }
    for (uint32_t i = 0; i < dsflow_graph_ndata(s->graph); i++)
        kept += dsflow_graph_data(s->graph, (dsflow_data_id){ i })->persistent;
    assert_int_equal(kept, persistent);
}

static void what_is_heard_of_all_is_what_the_whole_graph_says(void **state)
{
    static const char *const keys[] = {
        "",
        "mesh.data=2 zero.stage=1",
        "mesh.data=2 zero.stage=3",
        "mesh.data=2 zero.stage=2 pipeline.schedule=1f1b recompute.what=block",
        "precision.compute=bf16",
    };
    static const int32_t processes[] = { 2, 8, 4, 3, 5 };

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
        char *with = dsf_xasprintf("%s%s", small, keys[i]);
        struct dsf_session whole;

        plan_all(processes[i], keys[i]);
        open_small(&whole, TO_PLAN, with);
        check_weights(dsf_session_weights(&all[0]),
                      dsf_session_weights(&whole));
        check_kept(&all[0], whole.graph);
        dsf_session_close(&whole);
        close_all();
        free(with);
    }
}

/* The most that a process keeps, and the tasks of all. */
static uint32_t most_kept(int32_t processes, const char *keys, uint32_t *tasks)
{
    uint32_t most = 0;

    plan_all(processes, keys);
    *tasks = dsf_session_weights(&all[0])->ntasks;
    for (int32_t p = 0; p < n; p++) {
        const uint32_t own = dsflow_graph_ntasks(all[p].together.part.graph) +
                             dsflow_graph_ntasks(all[p].graph);

        most = own > most ? own : most;
    }
    close_all();
    return most;
}

/* The first is no exception. */
static void with_twice_as_many_ranks_no_process_keeps_more(void **state)
{
    uint32_t tasks, twice;
    const uint32_t most = most_kept(4, "batch.sequences=16", &tasks);
    const uint32_t then =
        most_kept(8, "batch.sequences=32 mesh.data=2", &twice);

    assert_in_range(twice, 2 * tasks, 3 * tasks);
    assert_in_range(then, most / 2, most + most / 4);
}

static void other_messages_than_are_expected_are_an_error(void **state)
{
    struct dsflow_err err;

    plan_all(4, "");
    must(dsf_heard_check(&all[0], &err), &err);
    all[0].together.heard.out[2 * 4 + 1] ^= 1;
    assert_int_equal(dsf_heard_check(&all[0], &err), DSFLOW_EINVAL);
    if (strstr(err.msg, "process 2") == NULL ||
        strstr(err.msg, "sends other messages than process 1 expects") == NULL)
        fail_msg("%s", err.msg);
    /* Another plan is another plain step. */
    assert_true(all[1].together.plain == all[0].together.plain &&
                all[0].together.plain != 0);
    close_all();
}

static void a_small_graph_is_had_whole(void **state)
{
    struct dsf_wire wire = { .nprocesses = 2 };
    struct dsf_session s;

    open_small(&s, TO_MODEL, "mesh.data=2 batch.sequences=8 batch.micro=1");
    assert_int_equal(dsf_machine_probe(&s.machine, NULL), 0);
    assert_false(dsf_session_is_large(&s)); /* alone it is */
    s.together.wire = &wire;
    assert_false(dsf_session_is_large(&s));
    dsf_session_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_is_heard_of_all_is_what_the_whole_graph_says, make_small,
            remove_small),
        cmocka_unit_test_setup_teardown(
            with_twice_as_many_ranks_no_process_keeps_more, make_small,
            remove_small),
        cmocka_unit_test_setup_teardown(
            other_messages_than_are_expected_are_an_error, make_small,
            remove_small),
        cmocka_unit_test_setup_teardown(a_small_graph_is_had_whole, make_small,
                                        remove_small),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
