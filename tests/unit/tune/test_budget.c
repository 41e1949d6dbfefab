/* test_budget.c - what each rank may use of its memories, and what is too
 * little. */
#include "tune/budget.h"

#include "same/trial.h"

#include "lib/test.h"

#include <math.h>

#define MIB 1048576.0

static void a_job_says_what_a_rank_may_use(void **state)
{
    struct dsf_shortfall shortfall;
    double budget[DSFLOW_NTIERS];
    struct dsf_weights w;
    struct trial t;

    plan_trial(&t, "gpt2 memory.device=64MiB memory.host=16MiB "
                   "memory.nvme.size=32MiB");
    assert_true(dsf_fit_budget(t.plan, NULL) == 64 * MIB);
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    dsf_fit_budgets(t.plan, NULL, &w, budget);
    assert_true(budget[DSFLOW_DEVICE] == 64 * MIB);
    assert_true(budget[DSFLOW_HOST] == 16 * MIB);
    assert_true(budget[DSFLOW_NVME] == 32 * MIB);
    assert_false(dsf_fit_shortfall(t.plan, t.graph, NULL, &w, &shortfall));
    dsf_weights_fini(&w);
    end_trial(&t);
}

static void the_largest_shortfall_is_told(void **state)
{
    struct dsf_shortfall shortfall;
    struct dsf_weights w;
    struct trial t;

    plan_trial(&t, "gpt2 mesh.data=2 zero.stage=3 memory.device=1KiB");
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    assert_true(dsf_fit_shortfall(t.plan, t.graph, NULL, &w, &shortfall));
    assert_int_equal(shortfall.tier, DSFLOW_DEVICE);
    assert_true(shortfall.has == 1024);
    assert_int_equal(shortfall.rank, dsf_weights_neediest(&w));
    assert_true(shortfall.needs == w.ranks[shortfall.rank].peak);
    dsf_weights_fini(&w);
    end_trial(&t);
}

static void main_memory_that_leaves_too_little_is_told(void **state)
{
    struct dsf_shortfall shortfall;
    struct dsf_machine machine;
    struct dsf_weights w;
    struct trial t;

    plan_trial(&t, "gpt2 mesh.data=2 memory.host=1000GiB");
    machine = *t.plan->machine;
    machine.available = 4096 * (int64_t)MIB;
    t.plan->machine = &machine;
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    assert_true(dsf_fit_shortfall(t.plan, t.graph, NULL, &w, &shortfall));
    assert_int_equal(shortfall.tier, DSFLOW_DEVICE);
    assert_true(shortfall.most_host == 1898 * MIB - shortfall.needs);
    dsf_weights_fini(&w);
    end_trial(&t);

    plan_trial(&t, "gpt2 memory.device=1KiB memory.host=1000GiB");
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    assert_true(dsf_fit_shortfall(t.plan, t.graph, NULL, &w, &shortfall));
    assert_true(shortfall.most_host == 0);
    dsf_weights_fini(&w);
    end_trial(&t);
}

/* Of each rank, and what the plan says of main memory beside it. */
static double window_of(const char *job, double *host)
{
    struct dsf_weights w;
    struct trial t;
    double window;

    plan_trial(&t, job);
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    window = w.ranks[0].window;
    *host = dsf_weights_in(&w.ranks[0], DSFLOW_HOST) - window;
    for (unsigned r = 1; r < w.nranks; r++)
        assert_true(w.ranks[r].window == window);
    dsf_weights_fini(&w);
    end_trial(&t);
    return window;
}

#define ON_DISK "offload.optimizer=nvme memory.nvme.path=. offload.piece=16KiB"

static void a_window_is_the_largest_piece_on_a_disk(void **state)
{
    double host, all, half;

    assert_true(window_of("gpt2", &host) == 0);
    all = window_of("gpt2 " ON_DISK, &host);
    assert_true(all > 0 && all <= 16 * 1024);
    half = window_of("gpt2 mesh.pipeline=2 " ON_DISK, &host);
    assert_true(half == ceil(all / 2)); /* they share it */
    /* On a device it is a whole unit. */
    assert_true(window_of("gpt2 machine.virtual=1", &host) > all);
}

static void a_window_takes_room_in_main_memory(void **state)
{
    double host, window = window_of("gpt2 " ON_DISK, &host);

    for (int less = 0; less <= 1; less++) {
        struct dsf_shortfall shortfall;
        struct dsf_weights w;
        struct trial t;
        char job[200];

        snprintf(job, sizeof(job), "gpt2 " ON_DISK " memory.host=%.0f",
                 host + window - less);
        plan_trial(&t, job);
        dsf_fit_weigh(t.plan, t.graph, NULL, &w);
        assert_int_equal(
            dsf_fit_shortfall(t.plan, t.graph, NULL, &w, &shortfall), less);
        if (less)
            assert_true(shortfall.needs == host + window);
        dsf_weights_fini(&w);
        end_trial(&t);
    }
}

static void a_model_of_terabytes_is_hopeless(void **state)
{
    double memory, disks, least;
    struct dsf_machine small = { .cores = 1, .available = 1 << 20 };
    struct trial t;

    plan_trial(&t, "gpt2 memory.nvme.size=0");
    least = dsf_fit_least(&t.job, &t.model); /* parameters and two states */
    assert_true(least == 12.0 * (double)t.model.params);
    assert_false(dsf_fit_is_hopeless(&t.job, &t.model, t.plan->machine, NULL,
                                     &memory, &disks));
    small.available = (int64_t)least - 1;
    assert_true(dsf_fit_is_hopeless(&t.job, &t.model, &small, NULL, &memory,
                                    &disks));
    assert_true(memory == least - 1 && disks == 0);
    end_trial(&t);
}

/* Of matrices of layers Muon keeps no second moment. */
static void the_least_is_of_states_that_are_kept(void **state)
{
    const double qkv = 64 * 64 + 2 * 32 * 64, out = 64 * 64, mlp = 3 * 96 * 64;
    struct trial t;

    plan_trial(&t, "llama optimizer.kind=muon");
    assert_true(dsf_fit_least(&t.job, &t.model) ==
                12.0 * (double)t.model.params - 4 * 6 * (qkv + out + mlp));
    end_trial(&t);
}

static void a_share_is_what_there_is_room_for(void **state)
{
    struct dsf_weights w;
    struct trial t;

    plan_trial(&t, "gpt2 offload.optimizer=cpu offload.share=0 "
                   "memory.device=1TiB");
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    assert_true(dsf_fit_share(t.plan, NULL, &w) == 1);
    dsf_weights_fini(&w);
    end_trial(&t);
    plan_trial(&t, "gpt2 offload.optimizer=cpu offload.share=0 "
                   "memory.device=1KiB");
    dsf_fit_weigh(t.plan, t.graph, NULL, &w);
    assert_true(dsf_fit_share(t.plan, NULL, &w) == 0);
    dsf_weights_fini(&w);
    end_trial(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_says_what_a_rank_may_use),
        cmocka_unit_test(the_largest_shortfall_is_told),
        cmocka_unit_test(main_memory_that_leaves_too_little_is_told),
        cmocka_unit_test(a_window_is_the_largest_piece_on_a_disk),
        cmocka_unit_test(a_window_takes_room_in_main_memory),
        cmocka_unit_test(a_model_of_terabytes_is_hopeless),
        cmocka_unit_test(the_least_is_of_states_that_are_kept),
        cmocka_unit_test(a_share_is_what_there_is_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
