/* test_predict.c - what a plan takes follows from what its ranks are on: cores,
 * or virtual devices with links. */
#include "sim/predict.h"

#include "same/trial.h"
#include "sim/weights.h"

#include "lib/test.h"

#include <stdlib.h>

struct found {
    double seconds, link_seconds; /* of a link of a million bytes a second */
    unsigned workers;
    bool links;
};

static struct found predict(const char *text)
{
    struct dsf_machine_model m;
    struct dsf_prediction p;
    struct dsf_weights w;
    struct dsflow_err err;
    struct found found;
    struct trial t;
    double in = 0, out = 0;

    plan_trial(&t, text);
    dsf_machine_model_init(&m);
    must(text, dsf_predict(t.plan, t.graph, &m, &p, &err), &err);
    dsf_weights_init(&w, t.graph, (unsigned)t.plan->nranks, NULL);
    for (unsigned r = 0; r < w.nranks; r++) {
        in += w.ranks[r].in[DSFLOW_HOST];
        out += w.ranks[r].out[DSFLOW_HOST];
    }
    found = (struct found){ p.sim.step_seconds, (in > out ? in : out) / 1e6,
                            p.workers, p.links };
    dsf_weights_fini(&w);
    dsf_prediction_fini(&p);
    dsf_machine_model_fini(&m);
    end_trial(&t);
    return found;
}

#define OFFLOADED "offload.params=cpu machine.workers=1 "

static void a_step_takes_as_long_as_the_link_of_its_device(void **state)
{
    struct found cores = predict("gpt2 " OFFLOADED);
    struct found fast = predict("gpt2 " OFFLOADED "machine.virtual=1");
    struct found slow =
        predict("gpt2 " OFFLOADED "machine.virtual=1 machine.virtual_link=1MB");

    assert_false(cores.links);
    assert_true(fast.links && fast.workers == 1);
    assert_true(cores.link_seconds > 10 * cores.seconds);
    assert_true(fast.seconds < 2 * cores.seconds);
    assert_true(slow.seconds >= slow.link_seconds);
    assert_true(slow.seconds < 1.3 * slow.link_seconds);
}

/* Each has a link of its own. */
static void two_devices_carry_twice_as_much(void **state)
{
    static const char *const ranks =
        "machine.virtual_link=1MB mesh.data=2 " OFFLOADED;
    char one[200], two[200];
    double ratio;

    snprintf(one, sizeof(one), "gpt2 machine.virtual=1 %s", ranks);
    snprintf(two, sizeof(two), "gpt2 machine.virtual=2 %s", ranks);
    ratio = predict(one).seconds / predict(two).seconds;
    if (ratio < 1.5)
        fail_msg("two devices are %g times as fast", ratio);
}

/* --- several processes ---------------------------------------------------- */

/* Over links of a million bytes a second. */
struct sent {
    double seconds, busiest; /* of what comes in */
    double sent;             /* of all messages */
    double bytes;            /* of those that the division says */
    bool by_network;
};

static struct sent predict_sent(const char *text, unsigned processes,
                                unsigned nodes)
{
    struct dsf_machine_model m;
    struct dsf_machine on;
    struct dsf_prediction p;
    struct dsf_processes all;
    struct dsflow_err err;
    struct sent found = { 0 };
    struct trial t;
    double in[8] = { 0 };
    uint32_t first, n;

    plan_trial(&t, text);
    on = *t.plan->machine;
    on.processes = processes;
    on.nodes = nodes;
    t.plan->machine = &on;
    dsf_machine_model_init(&m);
    (nodes > 1 ? &m.network : &m.link)->bandwidth = 1e6;
    must(text, dsf_predict(t.plan, t.graph, &m, &p, &err), &err);
    all = dsf_processes_of(&on, t.plan->nranks);
    n = dsflow_graph_program_tasks(t.graph, DSFLOW_STEP, &first);
    for (uint32_t i = first; i < first + n; i++) {
        const struct dsflow_task_spec *task =
            dsflow_graph_task(t.graph, (dsflow_task_id){ i });
        double bytes = dsf_process_sent(&all, t.graph, task);

        assert_true(bytes == 0 || dsf_process_crosses(&all, t.graph, task));
        found.bytes += bytes;
        if (bytes > 0)
            in[dsf_process_of(&all, task->rank)] += bytes / 1e6;
    }
    for (int i = 0; i < 8; i++)
        found.busiest = in[i] > found.busiest ? in[i] : found.busiest;
    found.seconds = p.sim.step_seconds;
    found.sent = p.sim.sent_seconds;
    found.by_network = p.sim.by_network;
    dsf_prediction_fini(&p);
    dsf_machine_model_fini(&m);
    end_trial(&t);
    return found;
}

static void check_sent(const char *text)
{
    struct sent alone = predict_sent(text, 1, 1);

    assert_true(alone.bytes == 0 && alone.sent == 0);
    for (unsigned nodes = 1; nodes <= 2; nodes++)
        for (unsigned processes = 2; processes <= 4; processes *= 2) {
            struct sent s = predict_sent(text, processes, nodes);

            /* Of four processes on two nodes some share memory. */
            if (nodes == 1 || processes == 2) {
                if (s.sent < 0.999 * s.bytes / 1e6 ||
                    s.sent > 1.001 * s.bytes / 1e6)
                    fail_msg("%s, %u processes: %g s of messages, not %g", text,
                             processes, s.sent, s.bytes / 1e6);
                assert_true(s.seconds >= s.busiest);
            }
            assert_true(s.bytes > 0 && s.seconds > alone.seconds);
            assert_true(s.by_network == (nodes > 1));
        }
}

static void messages_take_the_time_of_their_bytes(void **state)
{
    check_sent("gpt2 machine.workers=4 mesh.data=4");
    check_sent("gpt2 machine.workers=4 mesh.data=4 zero.stage=3 zero.keep=0");
    check_sent("llama machine.workers=4 mesh.data=2 mesh.pipeline=2");
    check_sent("llama machine.workers=4 mesh.tensor=4");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_as_long_as_the_link_of_its_device),
        cmocka_unit_test(two_devices_carry_twice_as_much),
        cmocka_unit_test(messages_take_the_time_of_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
