/* test_generation_types.c - text is made in the type in which a job computes:
 * weights, keys and values have it, and the logits are those of its forward
 * pass. */
#include "generation.h"

#include "text/text.h"
#include "train/sample.h"

#include <dsflow/train.h>

#define BF16     "compute = \"bf16\""
#define FP16     "compute = \"fp16\""
#define HEAD     "\nhead = \"fp32\""
#define IN(type) "precision.compute=" type

static const struct {
    const char *keys;
    enum dsflow_dtype body, head;
    double near; /* how far logits may be from those of fp32, of their size */
} types[] = {
    { BF16, DSFLOW_BF16, DSFLOW_BF16, 0.1 },
    { BF16 HEAD, DSFLOW_BF16, DSFLOW_FP32, 0.1 },
    { FP16, DSFLOW_FP16, DSFLOW_FP16, 0.0125 },
};
#define NTYPES (sizeof(types) / sizeof(*types))

static void check_data(const struct dsf_generation *g, size_t t)
{
    const struct dsflow_data_spec *d;
    unsigned keys = 0, units = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(g->graph); i++) {
        enum dsflow_dtype want = types[t].body;

        d = dsflow_graph_data(g->graph, (dsflow_data_id){ i });
        if (strncmp(d->name, "kv.", 3) == 0) {
            assert_int_equal(d->dtype, want);
            keys++;
        }
        if (d->role != DSFLOW_PARAMS)
            continue;
        /* The head is tied to the embedding. */
        if (strcmp(d->name, "embed") == 0 || strcmp(d->name, "norm") == 0)
            want = types[t].head;
        assert_int_equal(d->dtype, want);
        units++;
    }
    assert_int_equal(keys, 4); /* of two layers and two workers */
    assert_int_equal(units, g->model->nunits + 2);
    d = dsflow_graph_data(g->graph, g->logits[0]);
    assert_int_equal(d->dtype, DSFLOW_FP32);
}

static void weights_keys_and_values_have_the_type(void **state)
{
    for (size_t t = 0; t < NTYPES; t++) {
        struct dsf_generation g;
        struct dsflow_err err;
        double bytes = 0;
        struct loaded l;

        make(&l, gpt2, NULL, types[t].keys);
        must(dsf_generation_init(&g, &l.model, &l.job, 2, &err), &err);
        check_data(&g, t);
        assert_true(dsf_generator_bytes(&l.model, &l.job) * 2 ==
                    dsf_generator_bytes(&l.model, NULL));
        for (unsigned u = 0; u < l.model.nunits; u++) {
            bool lent = l.weights.v[u] == l.params[u];

            assert_int_equal(lent, !l.weights.own[u]);
            if (!lent)
                bytes += 2.0 * (double)l.model.units[u].elems;
        }
        assert_true(bytes > 0 &&
                    bytes == dsf_text_weights_bytes(&l.model, &l.job));
        dsf_generation_fini(&g);
        drop(&l);
    }
}

/* Of a token alone; by each executor, of a prompt too. */
static void workers_and_executors_change_no_bit(void **state)
{
    static const unsigned workers[] = { 2, 4 };
    static logits want, want_alone, got;

    for (size_t m = 0; m < NMODELS; m++)
        for (size_t t = 0; t < NTYPES; t++) {
            struct dsf_generator_spec how = { .workers = 1 };
            struct loaded l;

            make(&l, models[m].table, models[m].change, types[t].keys);
            assert_int_equal(feed_all(&l, how, pieces, want), CONTEXT);
            feed_all(&l, how, alone, want_alone);
            for (size_t w = 0; w < 2; w++) {
                how.workers = workers[w];
                feed_all(&l, how, alone, got);
                check_near(models[m].name, alone, got, want_alone, 0);
            }
            how = (struct dsf_generator_spec){ .workers = 2 };
            feed_all(&l, how, pieces, want);
            for (int k = 0; k < 2; k++) {
                how.other = true;
                how.kind = k == 0 ? DSFLOW_SERIAL : DSFLOW_STARPU;
                feed_all(&l, how, pieces, got);
                check_near(models[m].name, pieces, got, want, 0);
            }
            drop(&l);
        }
}

/* The root mean square of all logits, or of their differences. */
static double size_of(const int *feeds, logits v, logits minus)
{
    double sum = 0;
    int n = 0;

    for (; feeds[n] > 0; n++)
        for (int k = 0; k < VOCAB; k++) {
            double x = (double)v[n][k] - (minus ? (double)minus[n][k] : 0);

            sum += x * x;
        }
    return sqrt(sum / n / VOCAB);
}

static void logits_are_near_those_of_fp32(void **state)
{
    static logits want, got;

    for (size_t m = 0; m < NMODELS; m++)
        for (size_t t = 0; t < NTYPES; t++) {
            struct dsf_generator_spec how = { .workers = 2 };
            double apart, size;
            struct loaded l;

            make(&l, models[m].table, models[m].change, "");
            feed_all(&l, how, pieces, want);
            drop(&l);
            make(&l, models[m].table, models[m].change, types[t].keys);
            feed_all(&l, how, pieces, got);
            size = size_of(pieces, want, NULL);
            apart = size_of(pieces, got, want);
            /* Near, and yet it was not fp32 that made them. */
            if (!(apart > 0 && apart < types[t].near * size))
                fail_msg("%s, type %zu: %g apart, of %g", models[m].name, t,
                         apart, size);
            drop(&l);
        }
}

/* --- beside the forward pass of training --------------------------------- */

enum { N = 24 };

/* The tokens of a sequence, of which the last has a target. */
static int32_t asked;

static void tokens_of(int32_t *tokens, int64_t pos, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        tokens[i] = (int32_t)(((pos + i) * (pos + i) + 3 * (pos + i)) % VOCAB);
}

static int read_tokens(void *user, int64_t index, int64_t pos, int64_t n,
                       int32_t *tokens, int32_t *targets)
{
    tokens_of(tokens, pos, n);
    for (int64_t i = 0; i < n; i++)
        targets[i] = pos + i == N - 1 ? asked : -1;
    return 0;
}

/* Matrices that make attention look at something, as make() has them. */
static void scale(struct dsflow_run *run)
{
    struct dsflow_tensor_info t = DSFLOW_TENSOR_INFO();
    struct dsflow_err err;

    for (unsigned i = 0; dsflow_run_tensor(run, i, &t) == DSFLOW_OK; i++) {
        float *v = calloc((size_t)t.elems, sizeof(*v));

        must(dsflow_run_get(run, t.name, v, t.elems, &err), &err);
        for (int64_t k = 0; k < t.elems && t.ndims == 2; k++)
            v[k] *= 10;
        must(dsflow_run_put(run, t.name, v, t.elems, &err), &err);
        free(v);
    }
}

/* -log p of each token after the sequence, by the forward pass of training. */
static void forward_pass(const char *text, const char *keys, double *loss)
{
    const struct dsflow_batches batches =
        DSFLOW_BATCHES(.vocab = VOCAB, .train = read_tokens,
                       .validation = read_tokens, .validation_sequences = 1);
    const struct dsflow_train_options options =
        DSFLOW_TRAIN_OPTIONS(.batches = &batches, .serial = 1,
                             .start = DSFLOW_START_OVERWRITE);
    struct dsflow_job *any, *job;
    struct dsflow_validation v;
    struct dsflow_run *run;
    struct dsflow_err err;

    must(dsflow_job_parse(text, "test", &any, &err), &err);
    must(dsflow_job_with(any, &keys, 1, &job, &err), &err);
    must(dsflow_run_open(job, &options, &run, &err), &err);
    scale(run);
    for (asked = 0; asked < VOCAB; asked++) {
        must(dsflow_run_validate(run, &v, &err), &err);
        loss[asked] = v.loss * N;
    }
    dsflow_run_close(run);
    dsflow_job_free(any);
    dsflow_job_free(job);
}

static void losses_of(const float *v, double *loss)
{
    double sum = 0;

    for (int k = 0; k < VOCAB; k++)
        sum += exp((double)v[k]);
    for (int k = 0; k < VOCAB; k++)
        loss[k] = log(sum) - (double)v[k];
}

/* The same by generation: of `first` tokens, then one by one. */
static void generated(const char *text, const char *keys, int first,
                      double *loss)
{
    struct dsf_text_weights weights;
    struct dsf_generator *g;
    struct dsf_model model;
    struct dsflow_err err;
    struct dsf_job job;
    int32_t tokens[N];
    float **params;

    must(dsf_job_parse(text, strlen(text), "test", &keys, 1, NULL, &job, &err),
         &err);
    must(dsf_model_init(&model, &job, &err), &err);
    params = calloc(model.nunits, sizeof(*params));
    for (unsigned u = 0; u < model.nunits; u++) {
        must(dsf_unit_alloc(&model, u, &params[u], &err), &err);
        dsf_model_randomize(&model, u, (uint64_t)job.main.seed, params[u]);
        for (int64_t i = 0; i < model.units[u].decay; i++)
            params[u][i] *= 10;
    }
    must(dsf_text_weights_lend(&weights, &model, &job, 0, params, &err), &err);
    must(dsf_generator_new(&(struct dsf_generator_spec){ .model = &model,
                                                         .job = &job,
                                                         .weights = &weights,
                                                         .workers = 2 },
                           &g, &err),
         &err);
    tokens_of(tokens, 0, N);
    must(dsf_generator_feed(g, tokens, (size_t)first, &err), &err);
    for (int i = first; i < N; i++)
        must(dsf_generator_feed(g, tokens + i, 1, &err), &err);
    losses_of(dsf_generator_logits(g), loss);
    dsf_generator_free(g);
    dsf_text_weights_fini(&weights);
    for (unsigned u = 0; u < model.nunits; u++)
        free(params[u]);
    free(params);
    dsf_model_fini(&model);
    dsf_job_fini(&job);
}

static double mean_difference(const double *a, const double *b)
{
    double sum = 0;

    for (int k = 0; k < VOCAB; k++)
        sum += fabs(a[k] - b[k]) / VOCAB;
    return sum;
}

/* Both round where numbers are stored, and add up in another order: they are
 * nearer to each other than to fp32. */
static void logits_are_those_of_the_forward_pass(void **state)
{
    static const char *const keys[] = { IN("bf16"), IN("fp16") };
    static const char *const tables[] = { gpt2, llama };
    static const int first[] = { N, 1, N / 2 };
    char text[800];

    for (size_t m = 0; m < 2; m++) {
        double wide[VOCAB], want[VOCAB], got[VOCAB];

        snprintf(text, sizeof(text),
                 "[job]\nsteps = 1\noutput = \"%s/run\"\n[batch]\n"
                 "sequences = 1\nmicro = 1\nsequence = %d\n[model]\n"
                 "vocab = %d\ncontext = %d\n%s",
                 folder, (int)N, (int)VOCAB, (int)N, tables[m]);
        generated(text, IN("fp32"), N, wide);
        for (size_t t = 0; t < 2; t++) {
            forward_pass(text, keys[t], want);
            for (size_t i = 0; i < 3; i++) {
                double apart;

                generated(text, keys[t], first[i], got);
                apart = mean_difference(got, want);
                if (!(apart < mean_difference(wide, want)))
                    fail_msg("%s, model %zu, %d tokens at once: %g from the "
                             "forward pass, fp32 %g",
                             keys[t], m, first[i], apart,
                             mean_difference(wide, want));
            }
        }
    }
}

/* --- text ---------------------------------------------------------------- */

static void add_text(void *user, const char *text, size_t n)
{
    strncat(user, text, n);
}

/* The likeliest tokens after one: how several rows are added up may follow from
 * how many workers share them. */
static void continuations_are_the_same_for_any_workers(void **state)
{
    static const char bytes[] = "family = \"llama\"\nlayers = 2\nheads = 4\n"
                                "kv_heads = 2\nwidth = 64\nffn_width = 96\n";
    struct dsf_tokenizer *tok;
    struct dsflow_err err;

    must(dsf_tokenizer_open("bytes", &tok, &err), &err);
    for (size_t t = 0; t < NTYPES; t++) {
        char text[2][1024] = { "", "" };
        struct dsf_sampled sampled;
        struct loaded l;

        make_of(&l, 256, bytes, NULL, types[t].keys);
        for (unsigned workers = 1; workers <= 2; workers++) {
            const struct dsf_sampling how = { .top_p = 1,
                                              .workers = workers,
                                              .user = text[workers - 1],
                                              .on_text = add_text };

            must(dsf_generate(&l.model, &l.job, &l.weights, tok, "a", 1, 100,
                              &how, &sampled, &err),
                 &err);
            assert_int_equal(sampled.tokens, 100);
        }
        assert_string_equal(text[0], text[1]);
        drop(&l);
    }
    dsf_tokenizer_free(tok);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_keys_and_values_have_the_type),
        cmocka_unit_test(workers_and_executors_change_no_bit),
        cmocka_unit_test(logits_are_near_those_of_fp32),
        cmocka_unit_test_setup_teardown(logits_are_those_of_the_forward_pass,
                                        make_folder, remove_folder),
        cmocka_unit_test(continuations_are_the_same_for_any_workers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
