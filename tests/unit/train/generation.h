/* generation.h - small models with random weights that are fed tokens. */
#ifndef DSF_TESTS_UNIT_TRAIN_GENERATION_H
#define DSF_TESTS_UNIT_TRAIN_GENERATION_H

#include "train/generate.h"
#include "train/generation.h"

#include "lib/train.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONTEXT = 300, VOCAB = 97 };

struct loaded {
    struct dsf_job job;
    struct dsf_model model;
    float **params;
    struct dsf_text_weights weights; /* of them */
};

/* A model with random weights that make attention look at something, which
 * computes as `precision` says. */
static inline void make_of(struct loaded *l, int vocab, const char *table,
                           dsf_layer_fn change, const char *precision)
{
    struct dsflow_err err;
    char text[800];
    int n = snprintf(text, sizeof(text),
                     "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[precision]\n"
                     "%s\n[model]\nvocab = %d\ncontext = 300\n%s",
                     precision, vocab, table);

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
    must(dsf_text_weights_lend(&l->weights, &l->model, &l->job, 0, l->params,
                               &err),
         &err);
}

static inline void make(struct loaded *l, const char *table,
                        dsf_layer_fn change, const char *precision)
{
    make_of(l, VOCAB, table, change, precision);
}

static inline void drop(struct loaded *l)
{
    dsf_text_weights_fini(&l->weights);
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
static inline void unlike(void *user, int32_t layer, struct dsf_dims *d)
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

static inline int feed_all(struct loaded *l, struct dsf_generator_spec how,
                           const int *feeds, logits out)
{
    int32_t tokens[CONTEXT];
    struct dsf_generator *g = NULL;
    struct dsflow_err err;
    int at = 0;

    how.model = &l->model;
    how.job = &l->job;
    how.weights = &l->weights;
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
static inline void check_near(const char *what, const int *feeds, logits got,
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

#endif
