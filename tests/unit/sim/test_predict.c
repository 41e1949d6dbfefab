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
    dsf_weights_init(&w, t.graph, (unsigned)t.plan->nranks, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_takes_as_long_as_the_link_of_its_device),
        cmocka_unit_test(two_devices_carry_twice_as_much),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
