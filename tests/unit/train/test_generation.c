/* test_generation.c - generation as a graph: however many workers share a
 * token, and on whatever executor, the logits are the same. */
#include "generation.h"

#define BOUND 1e-4f /* absolute, of a logit */

static void executors_change_no_bit(void **state)
{
    static const struct {
        const char *name;
        struct dsf_generator_spec how;
    } ways[] = {
        { "one after the other", { .other = true, .kind = DSFLOW_SERIAL } },
        { "StarPU", { .other = true, .kind = DSFLOW_STARPU } },
        { "a second time", { .other = false } },
    };
    static logits want, got;

    for (size_t m = 0; m < NMODELS; m++)
        for (unsigned workers = 1; workers <= 2; workers++) {
            struct loaded l;

            make(&l, models[m].table, models[m].change, "");
            assert_int_equal(
                feed_all(&l, (struct dsf_generator_spec){ .workers = workers },
                         pieces, want),
                CONTEXT);
            for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
                struct dsf_generator_spec how = ways[w].how;

                how.workers = workers;
                feed_all(&l, how, pieces, got);
                check_near(ways[w].name, pieces, got, want, 0);
            }
            drop(&l);
        }
}

/* Of one row all sums are whole; products of several rows are oneDNN's, which
 * adds up in an order that may follow from their shape. */
static void
workers_change_no_bit_of_a_token_and_hardly_any_of_a_prompt(void **state)
{
    static const unsigned workers[] = { 2, 4 };
    static logits want, want_alone, got;

    for (size_t m = 0; m < NMODELS; m++) {
        struct loaded l;

        make(&l, models[m].table, models[m].change, "");
        feed_all(&l, (struct dsf_generator_spec){ .workers = 1 }, pieces, want);
        feed_all(&l, (struct dsf_generator_spec){ .workers = 1 }, alone,
                 want_alone);
        for (size_t w = 0; w < 2; w++) {
            feed_all(&l, (struct dsf_generator_spec){ .workers = workers[w] },
                     alone, got);
            check_near(models[m].name, alone, got, want_alone, 0);
            feed_all(&l, (struct dsf_generator_spec){ .workers = workers[w] },
                     pieces, got);
            check_near(models[m].name, pieces, got, want, BOUND);
        }
        drop(&l);
    }
}

static int32_t parts(const char *table, unsigned workers)
{
    struct loaded l;
    int32_t n;

    make(&l, table, NULL, "");
    n = dsf_generation_parts(&l.model, &l.job, workers);
    drop(&l);
    return n;
}

static void a_token_is_shared_out_where_its_sizes_divide(void **state)
{
    assert_int_equal(parts(gpt2, 1), 1);
    assert_int_equal(parts(gpt2, 2), 2);
    assert_int_equal(parts(gpt2, 4), 4);
    assert_int_equal(parts(gpt2, 5), 4);
    assert_int_equal(parts(gpt2, 64), 4);
    assert_int_equal(parts(llama, 3), 2);
    assert_int_equal(parts("family = \"gpt2\"\nlayers = 1\nheads = 3\n"
                           "width = 21\n",
                           2),
                     1);
    /* Segments in another order, which are done whole. */
    assert_int_equal(parts(no_mlp, 2), 0);
}

/* Both programs have the same tasks, and the weights are nowhere twice. */
static void the_graph_has_two_programs_and_borrows_the_weights(void **state)
{
    struct dsf_generation g;
    struct dsflow_err err;
    uint32_t first, n;
    struct loaded l;

    make(&l, gpt2, NULL, "");
    must(dsf_generation_init(&g, &l.model, NULL, 2, &err), &err);
    n = dsflow_graph_program_tasks(g.graph, g.prefill, &first);
    assert_int_equal(dsflow_graph_program_tasks(g.graph, g.decode, &first), n);
    assert_int_equal(2 * n, g.ntasks);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g.graph); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g.graph, (dsflow_task_id){ i });

        for (unsigned p = 0; p < t->ndata; p++)
            if (dsflow_graph_data(g.graph, t->data[p])->constant)
                assert_int_equal(dsflow_task_access(t, p), DSFLOW_R);
    }
    /* Keys and values of 300 tokens, 48 numbers each, in two layers. */
    assert_true(dsf_generator_bytes(&l.model, NULL) == 2 * 300 * 2 * 48 * 4.0);
    dsf_generation_fini(&g);
    drop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(executors_change_no_bit),
        cmocka_unit_test(
            workers_change_no_bit_of_a_token_and_hardly_any_of_a_prompt),
        cmocka_unit_test(a_token_is_shared_out_where_its_sizes_divide),
        cmocka_unit_test(the_graph_has_two_programs_and_borrows_the_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
