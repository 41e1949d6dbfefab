/* test_limits.c - the limits of a machine are measured and told, part by part,
 * and rates are compared with what they were made of. */
#include "lib/test.h"

#include "measure/limits.h"

#include <math.h>
#include <string.h>

struct seen {
    unsigned n;
    struct dsf_limit last;
    double most; /* of all cores, but for bf16 */
};

static void on_limit(void *user, const struct dsf_limit *limit)
{
    struct seen *seen = user;

    assert_true(dsf_is_rate(limit->one.value));
    assert_true(dsf_is_rate(limit->all.value));
    assert_true(limit->one.scatter >= 0 && limit->all.scatter >= 0);
    seen->last = *limit;
    if (strstr(limit->size, "bf16") == NULL)
        seen->most = fmax(seen->most, limit->all.value);
    seen->n++;
}

static void the_best_product_of_a_type_counts(void **state)
{
    struct seen seen = { 0 };
    struct dsf_limits how = { 2, 0.02, &seen, on_limit };
    struct dsf_machine_model m;
    struct dsflow_err err = { 0 };

    dsf_machine_model_init(&m);
    assert_int_equal(dsf_limits_gemm(&how, &m, &err), DSFLOW_OK);
    assert_int_equal(seen.n, 9);
    assert_string_equal(seen.last.what, "weight gradient");
    assert_string_equal(seen.last.size, "768 x 3072 x 256 bf16");
    assert_true(m.main.fp32 == seen.most);
    assert_true(m.main.bf16 >= seen.last.all.value);
    dsf_machine_model_fini(&m);
}

static void copies_count_of_memory_and_links(void **state)
{
    struct seen seen = { 0 };
    struct dsf_limits how = { 2, 0.02, &seen, on_limit };
    struct dsf_machine_model m;
    struct dsflow_err err = { 0 };

    dsf_machine_model_init(&m);
    assert_int_equal(dsf_limits_memory(&how, &m, &err), DSFLOW_OK);
    assert_int_equal(seen.n, 4);
    assert_string_equal(seen.last.what, "copy");
    assert_true(m.main.bandwidth == seen.last.all.value);
    assert_true(m.scatter.bandwidth == seen.last.all.scatter);

    how.on_limit = NULL;
    m.main.overhead = 3e-6;
    m.network = (struct dsf_machine_link){ 1e9, 5e-5, false };
    assert_int_equal(dsf_limits_link(&how, &m, &err), DSFLOW_OK);
    assert_true(dsf_is_rate(m.link.bandwidth));
    assert_true(m.link.latency == 3e-6);
    assert_true(m.network.bandwidth == 1e9 && m.network.latency == 5e-5);
    dsf_machine_model_fini(&m);
}

#define SAMPLE(k, f, s)                                                        \
    {                                                                          \
        .kind = (k), .work.flops = (f), .seconds = (s), .n = 1                 \
    }

static void rates_are_compared_with_samples(void **state)
{
    struct dsf_rate_sample on_one[] = { SAMPLE("mlp", 2e9, 1) };
    struct dsf_rate_sample on_all[] = { SAMPLE("mlp", 1e9, 1),
                                        SAMPLE("out", 9e9, 9),
                                        SAMPLE("mlp", 2e9, 4),
                                        SAMPLE("mlp", 1e3, 5e-5) };
    struct dsf_samples one = { on_one, 1, 1 }, all = { on_all, 4, 4 };
    char mlp[] = "mlp", out[] = "out", adam[] = "adam";
    struct dsf_kind_rate rate = { .kind = mlp, .per_flop = 1e-9 };
    struct dsf_kind_limit limit;
    double exact = 1e9 + 2e9 + 1e3;

    assert_true(dsf_limits_kind(&rate, &one, &all, &limit));
    assert_ptr_equal(limit.longest, &on_all[2]);
    assert_float_equal(limit.against_one, 4, 1e-9);
    assert_float_equal(limit.off, 1e-9 * exact / 5.00005 - 1, 1e-6);
    assert_float_equal(limit.most_off, 0.5, 1e-9); /* 2 s for 4; not of 50 us */

    rate.kind = out;
    assert_true(dsf_limits_kind(&rate, &one, &all, &limit));
    assert_true(isnan(limit.against_one));
    rate.kind = adam;
    assert_false(dsf_limits_kind(&rate, &one, &all, &limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_product_of_a_type_counts),
        cmocka_unit_test(copies_count_of_memory_and_links),
        cmocka_unit_test(rates_are_compared_with_samples),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
