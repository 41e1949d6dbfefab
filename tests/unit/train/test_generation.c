/* test_generation.c - generation as a graph: however many workers share a
 * token, and on whatever executor, the logits are the same. */
#include "train/generate.h"
#include "train/generation.h"

#include "graph/task.h"
#include "lib/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 300, VOCAB = 97 };
#define BOUND 1e-4f /* absolute, of a logit */

struct loaded {
    struct dsf_job job;
    struct dsf_model model;
    float **params;
};

/* A model with random weights that make attention look at something. */
static void make(struct loaded *l, const char *table, dsf_layer_fn change)
{
    struct dsflow_err err;
    char text[800];
    int n = snprintf(text, sizeof(text),
                     "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[model]\n"
                     "vocab = 97\ncontext = 300\n%s",
                     table);

    must(dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, &l->job,
                       &err),
         &err);
    must(dsf_model_init_layers(&l->model, &l->job, change, NULL, &err), &err);
    l->params = calloc(l->model.nunits, sizeof(*l->params));
    for (unsigned u = 0; u < l->model.nunits; u++) {
        const struct dsf_unit *unit = &l->model.units[u];

        must(dsf_unit_alloc(&l->model, u, &l->params[u], &err), &err);
        dsf_model_randomize(&l->model, u, 7, l->params[u]);
        for (int64_t i = 0; i < unit->decay; i++)
            l->params[u][i] *= 10;
    }
}

static void drop(struct loaded *l)
{
    for (unsigned u = 0; u < l->model.nunits; u++)
        free(l->params[u]);
    free(l->params);
    dsf_model_fini(&l->model);
    dsf_job_fini(&l->job);
}

static const char gpt2[] = "family = \"gpt2\"\nlayers = 2\nheads = 4\n"
                           "width = 48\n";
static const char llama[] = "family = \"llama\"\nlayers = 2\nheads = 8\n"
                            "kv_heads = 4\nwidth = 64\nffn_width = 100\n";

static const char no_mlp[] = "family = \"gpt2\"\nlayers = 2\nheads = 4\n"
                             "width = 48\n"
                             "segments = [\"qkv\", \"attention\", \"out\"]\n";

/* The second layer is of half the heads and three times the feed-forward. */
static void unlike(void *user, int32_t layer, struct dsf_dims *d)
{
    if (layer == 1) {
        d->heads /= 2;
        d->kv_heads = d->heads < d->kv_heads ? d->heads : d->kv_heads;
        d->ffn *= 3;
    }
}

/* A prompt longer than a tile, tokens alone, a piece, up to the whole context;
 * and a token at a time. Ends with 0. */
static const int pieces[] = { 1, 1, 5, 150, 1, 1, 100, 17, 11, 1, 1, 11, 0 };
static const int alone[] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                             1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0 };
enum { MOST_FEEDS = 24 };
typedef float logits[MOST_FEEDS][VOCAB];

static int feed_all(struct loaded *l, struct dsf_generator_spec how,
                    const int *feeds, logits out)
{
    int32_t tokens[CONTEXT];
    struct dsf_generator *g = NULL;
    struct dsflow_err err;
    int at = 0;

    how.model = &l->model;
    how.params = l->params;
    for (int i = 0; i < CONTEXT; i++)
        tokens[i] = (i * i + 3 * i) % VOCAB;
    must(dsf_generator_new(&how, &g, &err), &err);
    for (int i = 0; feeds[i] > 0; at += feeds[i++]) {
        must(dsf_generator_feed(g, tokens + at, (size_t)feeds[i], &err), &err);
        memcpy(out[i], dsf_generator_logits(g), sizeof(out[i]));
    }
    if (at == CONTEXT) {
        assert_int_equal(dsf_generator_feed(g, tokens, 1, &err), DSFLOW_EFIT);
        assert_string_equal(err.msg, "prompt: 1 tokens: the model's context "
                                     "has room for 0");
    }
    dsf_generator_free(g);
    return at;
}

/* `bound`: how far apart they may be; 0: the same bits. */
static void check_near(const char *what, const int *feeds, logits got,
                       logits want, float bound)
{
    for (int i = 0; feeds[i] > 0; i++)
        for (int k = 0; k < VOCAB; k++)
            if (!(fabsf(got[i][k] - want[i][k]) <= bound))
                fail_msg("%s: feed %d, logit %d: %.9g: expected %.9g", what, i,
                         k, (double)got[i][k], (double)want[i][k]);
}

static const struct {
    const char *name, *table;
    dsf_layer_fn change;
} models[] = { { "gpt2", gpt2, NULL },
               { "llama", llama, NULL },
               { "layers of two widths", gpt2, unlike },
               { "no mlp", no_mlp, NULL } };
#define NMODELS (sizeof(models) / sizeof(*models))

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

            make(&l, models[m].table, models[m].change);
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

        make(&l, models[m].table, models[m].change);
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

    make(&l, table, NULL);
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

    make(&l, gpt2, NULL);
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
    assert_true(dsf_generator_bytes(&l.model) == 2 * 300 * 2 * 48 * 4.0);
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
