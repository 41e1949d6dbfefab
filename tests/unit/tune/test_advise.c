/* test_advise.c - of a trace of a simulated step, what would make it shorter;
 * and that it comes true. */
#include "tune/advise.h"

#include "explain/times.h"
#include "same/trial.h"
#include "sim/cost.h"
#include "sim/predict.h"
#include "train/record.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char machine[] = "[machine]\nname = \"2 cores\"\nworkers = 2\n"
                              "memory = \"4GiB\"\nfp32 = 5e10\n"
                              "bandwidth = 1e10\noverhead = \"3us\"\n";

/* A step of a small job on two cores, simulated; its trace, and the advice. */
struct advised {
    struct trial t;
    const struct dsf_machine_model *m; /* borrowed */
    struct dsf_trace trace;
    struct dsf_account account;
    struct dsf_advices advices;
};

static void simulate(struct advised *x, const char *job,
                     const struct dsf_machine_model *m)
{
    char path[] = "/tmp/dsflow-advise-XXXXXX";
    struct dsf_session s = { 0 };
    struct dsflow_err err;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    close(fd);
    memset(x, 0, sizeof(*x));
    x->m = m;
    plan_trial(&x->t, job);
    dsf_machine_of_model(m, &s.machine);
    s.job = &x->t.job;
    s.model = x->t.model;
    s.plan = x->t.plan;
    s.graph = x->t.graph;
    must(job, dsf_record_simulation(&s, m, path, &err), &err);
    must(job, dsf_trace_read(path, &x->trace, &err), &err);
    unlink(path);
}

static void advise(struct advised *x, const char *job)
{
    static struct dsf_machine_model m;
    struct dsflow_err err;

    if (m.main.name == NULL)
        must(job,
             dsf_machine_model_parse(machine, strlen(machine), "machine", &m,
                                     &err),
             &err);
    simulate(x, job, &m);
    must(job, dsf_account_init(&x->account, &x->trace, &err), &err);
    dsf_advise(&x->advices, &x->account, NULL);
}

static void end(struct advised *x)
{
    dsf_advices_fini(&x->advices);
    dsf_account_fini(&x->account);
    dsf_trace_fini(&x->trace);
    end_trial(&x->t);
}

static const struct dsf_advice *find(const struct advised *x, const char *key)
{
    for (unsigned i = 0; i < x->advices.n; i++)
        if (strcmp(x->advices.v[i].key, key) == 0)
            return &x->advices.v[i];
    return NULL;
}

static double step_of(struct advised *x)
{
    struct dsf_prediction p;
    struct dsflow_err err;
    double seconds;

    must("predict", dsf_predict(x->t.plan, x->t.graph, x->m, &p, &err), &err);
    seconds = p.sim.step_seconds;
    dsf_prediction_fini(&p);
    return seconds;
}

#define JOB "gpt2 machine.workers=2 batch.tile=32 "

static void a_ring_that_is_too_small_is_named(void **state)
{
    const struct dsf_advice *ring;
    struct advised slow, fast;
    char job[200];

    advise(&slow, JOB "batch.in_flight=1");
    assert_null(slow.advices.missing);
    assert_float_equal(slow.advices.reproduced, 1, 0.01);
    ring = find(&slow, "batch.in_flight");
    assert_non_null(ring);
    assert_string_equal(ring->from, "1");
    assert_non_null(
        strstr(ring->cause, "tasks wait for a slot of batch.in_flight"));
    assert_true(ring->share < 0.97 && !ring->rounds && !ring->machine);
    assert_true(ring->bytes > 0);

    snprintf(job, sizeof(job), JOB "batch.in_flight=%s", ring->to);
    advise(&fast, job);
    assert_float_equal(step_of(&fast), ring->seconds, 0.01 * ring->seconds);
    assert_float_equal(ring->seconds, ring->share * step_of(&slow),
                       0.01 * ring->seconds);
    end(&fast);
    end(&slow);
}

static void a_change_that_regroups_sums_says_so(void **state)
{
    const struct dsf_advice *micro;
    struct advised x;

    advise(&x, "gpt2 machine.workers=2 batch.sequence=4");
    micro = find(&x, "batch.micro");
    assert_non_null(micro);
    assert_non_null(strstr(micro->cause, "tasks are small: "));
    assert_true(micro->rounds);
    end(&x);
}

/* Tiles that are parts of sequences: attention adds in fp32, and casts the
 * sums. With a head in fp32 there are casts into fp32 too. */
#define NARROW                                                                 \
    "gpt2 machine.workers=2 batch.sequence=32 batch.tile=16 "                  \
    "precision.compute=bf16 "

/* A machine on which casts into bf16 take `narrow` milliseconds. */
static void describe(struct dsf_machine_model *m, double narrow)
{
    struct dsflow_err err;
    char text[400];

    snprintf(text, sizeof(text),
             "%s[kinds]\ncast = [1e-4, 0, 0]\n"
             "[kinds.bf16]\ncast = [%g, 0, 0]\n",
             machine, narrow * 1e-3);
    must("machine",
         dsf_machine_model_parse(text, strlen(text), "machine", m, &err), &err);
}

/* The rates in the place of those of the trace, as if it had been predicted by
 * them. */
static void predict_by(struct advised *x, const struct dsf_machine_model *m)
{
    struct dsf_cost_model model = { m, 1 };
    struct dsflow_graph *g = x->t.graph;
    size_t bytes;
    FILE *out;

    free(x->trace.facts.rates);
    out = open_memstream(&x->trace.facts.rates, &bytes);
    dsf_machine_model_write(m, out);
    fclose(out);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++)
        x->trace.tasks[i].predicted = dsf_cost_seconds(
            &model, g, dsflow_graph_task(g, (dsflow_task_id){ i }));
}

/* Casts into bf16 took ten times as long as was said, and into fp32 as long: so
 * they do in another plan. */
static void tasks_take_what_those_of_their_type_took(void **state)
{
    static const struct dsf_effect none;
    struct dsf_machine_model slow, said;
    struct dsf_account account;
    struct advised x, other;
    struct dsf_times times;
    struct dsflow_err err;
    double seconds;

    describe(&slow, 1);
    describe(&said, 0.1);
    simulate(&x, NARROW "precision.head=fp32", &slow);
    predict_by(&x, &said);
    must("account", dsf_account_init(&account, &x.trace, &err), &err);
    must("times", dsf_times_init(&times, &account, NULL, &err), &err);
    simulate(&other, NARROW, &slow);
    must("seconds",
         dsf_times_seconds(&times, other.t.plan, other.t.graph, &none, &seconds,
                           &err),
         &err);
    assert_float_equal(seconds, step_of(&other), 0.01 * seconds);
    dsf_times_fini(&times);
    dsf_account_fini(&account);
    end(&other);
    end(&x);
    dsf_machine_model_fini(&slow);
    dsf_machine_model_fini(&said);
}

static void what_cannot_be_planned_again_says_why(void **state)
{
    struct dsf_advices advices;
    struct advised x;

    advise(&x, JOB);
    x.trace.facts.rates[0] = '\0';
    dsf_advise(&advices, &x.account, NULL);
    assert_string_equal(advices.missing,
                        "the trace does not say how fast its machine is");
    assert_non_null(advices.limit);
    assert_int_equal(advices.n, 0);
    dsf_advices_fini(&advices);
    end(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_that_is_too_small_is_named),
        cmocka_unit_test(a_change_that_regroups_sums_says_so),
        cmocka_unit_test(tasks_take_what_those_of_their_type_took),
        cmocka_unit_test(what_cannot_be_planned_again_says_why),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
