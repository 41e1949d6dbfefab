/* test_generate.c - a model that is fed a token at a time gives the logits of
 * PyTorch, and a choice among logits is what its options say. */
#include "train/generate.h"
#include "train/sample.h"

#include "base/safetensors.h"
#include "model/hf.h"

#include "lib/train.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BOUND 1e-4 /* absolute, of a logit */

static const char *const folders[] = { "gpt2",        "gpt2_odd",
                                       "llama_gqa",   "llama_rope",
                                       "qwen2",       "mistral_window",
                                       "qwen2_window" };
#define NFOLDERS (sizeof(folders) / sizeof(*folders))

struct loaded {
    struct dsf_job job;
    struct dsf_model model;
    float **params;
    struct dsf_text_weights weights; /* those */
};

/* Fail the test with the message when `status` says so. */
/* The model of a [model] table; its parameters are zero. */
static void make(struct loaded *l, const char *table)
{
    struct dsflow_err err;
    char text[1600];
    int n =
        snprintf(text, sizeof(text),
                 "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[model]\n%s", table);

    must(dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, &l->job, &err),
         &err);
    must(dsf_model_init(&l->model, &l->job, &err), &err);
    l->params = calloc(l->model.nunits, sizeof(*l->params));
    for (unsigned u = 0; u < l->model.nunits; u++)
        l->params[u] =
            aligned_alloc(64, (size_t)l->model.units[u].elems * sizeof(float));
    for (unsigned u = 0; u < l->model.nunits; u++)
        memset(l->params[u], 0,
               (size_t)l->model.units[u].elems * sizeof(float));
    must(
        dsf_text_weights_lend(&l->weights, &l->model, NULL, 0, l->params, &err),
        &err);
}

static void drop(struct loaded *l)
{
    dsf_text_weights_fini(&l->weights);
    for (unsigned u = 0; u < l->model.nunits; u++)
        free(l->params[u]);
    free(l->params);
    dsf_model_fini(&l->model);
    dsf_job_fini(&l->job);
}

static const char *path_of(const char *name, const char *file)
{
    const char *src = getenv("srcdir");
    static char path[600];

    snprintf(path, sizeof(path), "%s/tests/reference/%s%s", src ? src : ".",
             name, file);
    return path;
}

/* A model of tests/reference, and what PyTorch says of its first prompt. */
struct reference {
    struct loaded l;
    size_t n, vocab;
    int32_t *tokens; /* n */
    float *logits;   /* [n][vocab] */
};

static void load(struct reference *r, const char *name)
{
    const struct dsf_st_tensor *tokens, *logits;
    struct dsf_st_file *file;
    struct dsf_hf *hf;
    struct dsflow_err err;
    char table[700];
    uint8_t *bytes;

    snprintf(table, sizeof(table), "family = \"%s\"\ninit = \"%s\"\n",
             strncmp(name, "gpt2", 4) == 0 ? "gpt2" : "llama",
             path_of(name, ""));
    make(&r->l, table);
    must(dsf_hf_open(&r->l.model, path_of(name, ""), &hf, &err), &err);
    for (unsigned u = 0; u < r->l.model.nunits; u++)
        must(dsf_hf_read(hf, u, r->l.params[u], &err), &err);
    dsf_hf_close(hf);
    must(dsf_st_open(path_of(name, "/batches.safetensors"), &file, &err), &err);
    tokens = dsf_st_find(file, "tokens");
    logits = dsf_st_find(file, "logits");
    assert_non_null(tokens);
    assert_non_null(logits);
    r->n = (size_t)logits->dims[0];
    r->vocab = (size_t)logits->dims[1];
    assert_int_equal(r->vocab, r->l.model.dims.vocab);
    assert_true(r->n > 8);
    r->tokens = calloc(r->n, sizeof(*r->tokens));
    bytes = calloc(r->n, 1);
    must(dsf_st_read(file, tokens, 0, r->n, bytes, &err), &err);
    for (size_t i = 0; i < r->n; i++)
        r->tokens[i] = bytes[i];
    free(bytes);
    r->logits = calloc(r->n * r->vocab, sizeof(*r->logits));
    must(dsf_st_read_f32(file, logits, 0, r->n * r->vocab, r->logits, &err),
         &err);
    dsf_st_close(file);
}

static void unload(struct reference *r)
{
    free(r->tokens);
    free(r->logits);
    drop(&r->l);
}

static struct dsf_generator *generator_of(struct loaded *l,
                                          struct dsf_generator_spec how)
{
    struct dsf_generator *g = NULL;
    struct dsflow_err err;

    how.model = &l->model;
    how.weights = &l->weights;
    must(dsf_generator_new(&how, &g, &err), &err);
    return g;
}

/* Two workers, where the model's heads and widths can be shared out. */
static struct dsf_generator *new_generator(struct loaded *l)
{
    return generator_of(l, (struct dsf_generator_spec){ .workers = 2 });
}

static void feed(struct dsf_generator *g, const int32_t *tokens, size_t n)
{
    struct dsflow_err err;

    must(dsf_generator_feed(g, tokens, n, &err), &err);
}

static void check_logits(const char *what, size_t row, const float *got,
                         const float *want, size_t vocab)
{
    for (size_t i = 0; i < vocab; i++)
        if (!(fabsf(got[i] - want[i]) <= BOUND))
            fail_msg("%s: token %zu, logit %zu: %.9g: expected %.9g", what, row,
                     i, got[i], want[i]);
}

static void a_token_at_a_time_gives_pytorchs_logits(void **state)
{
    for (size_t k = 0; k < NFOLDERS; k++) {
        struct dsf_generator *g;
        struct reference r;

        load(&r, folders[k]);
        g = new_generator(&r.l);
        for (size_t i = 0; i < r.n; i++) {
            feed(g, &r.tokens[i], 1);
            check_logits(folders[k], i, dsf_generator_logits(g),
                         r.logits + i * r.vocab, r.vocab);
        }
        dsf_generator_free(g);
        unload(&r);
    }
}

static void a_whole_prompt_and_pieces_of_it_give_pytorchs_logits(void **state)
{
    for (size_t k = 0; k < NFOLDERS; k++) {
        struct reference r;

        load(&r, folders[k]);
        for (size_t first = 0; first < r.n; first++) {
            struct dsf_generator *g = new_generator(&r.l);

            /* Feeding nothing changes nothing. */
            feed(g, r.tokens, first);
            feed(g, r.tokens, 0);
            if (first > 0)
                check_logits(folders[k], first - 1, dsf_generator_logits(g),
                             r.logits + (first - 1) * r.vocab, r.vocab);
            feed(g, r.tokens + first, r.n - first);
            check_logits(folders[k], r.n - 1, dsf_generator_logits(g),
                         r.logits + (r.n - 1) * r.vocab, r.vocab);
            dsf_generator_free(g);
        }
        unload(&r);
    }
}

/* What transformers wrote, up to the whole context; *n: its length. */
static int32_t *text_of(const char *name, size_t *n)
{
    const struct dsf_st_tensor *t;
    struct dsf_st_file *file;
    struct dsflow_err err;
    uint8_t *bytes;
    int32_t *text;

    must(dsf_st_open(path_of(name, "/batches.safetensors"), &file, &err), &err);
    t = dsf_st_find(file, "text");
    assert_non_null(t);
    *n = t->bytes;
    bytes = calloc(*n, 1);
    text = calloc(*n, sizeof(*text));
    must(dsf_st_read(file, t, 0, *n, bytes, &err), &err);
    for (size_t i = 0; i < *n; i++)
        text[i] = bytes[i];
    free(bytes);
    dsf_st_close(file);
    return text;
}

static int32_t top_of(const float *logits, size_t vocab)
{
    size_t top = 0;

    for (size_t i = 1; i < vocab; i++)
        if (logits[i] > logits[top])
            top = i;
    return (int32_t)top;
}

/* A prompt of `n` tokens, by workers that share a token or by one; then one
 * token after the other. */
static void write_behind(struct reference *r, const char *name, size_t n,
                         unsigned workers)
{
    size_t length;
    int32_t *text = text_of(name, &length);
    struct dsf_generator *g =
        generator_of(&r->l, (struct dsf_generator_spec){ .workers = workers });

    assert_int_equal(length, r->l.model.dims.context);
    feed(g, text, n);
    for (size_t i = n; i < length; i++) {
        int32_t next = top_of(dsf_generator_logits(g), r->vocab);

        if (next != text[i])
            fail_msg("%s, %u workers: token %zu behind a prompt of %zu: %d: "
                     "expected %d",
                     name, workers, i, n, (int)next, (int)text[i]);
        feed(g, &next, 1);
    }
    dsf_generator_free(g);
    free(text);
}

/* Prompts that fill the ring of keys in part, once and several times. */
static void text_past_the_window_is_that_of_transformers(void **state)
{
    static const char *const names[] = { "mistral_window", "qwen2_window" };

    for (size_t k = 0; k < 2; k++) {
        struct reference r;

        load(&r, names[k]);
        for (size_t n = 13; n < 70; n += n < 30 ? 1 : 13)
            for (unsigned workers = 1; workers <= 2; workers++)
                write_behind(&r, names[k], n, workers);
        unload(&r);
    }
}

/* Keys and values are as many as the window has tokens. */
static void a_window_needs_memory_for_its_tokens_only(void **state)
{
    static const struct {
        const char *name;
        double rows, width;
    } cases[] = { { "mistral_window", 2 * 11, 2 * 2 * 6 },
                  { "qwen2_window", 96 + 2 * 19, 2 * 10 } };

    for (size_t k = 0; k < 2; k++) {
        struct reference r;

        load(&r, cases[k].name);
        assert_true(dsf_generator_bytes(&r.l.model, NULL) ==
                    cases[k].rows * cases[k].width * 4);
        unload(&r);
    }
}

/* The keys of a reference of make_sparse.py, as a table of job.toml. */
static void add_keys(char *table, size_t size, json_t *keys)
{
    size_t at = strlen(table);

    at += (size_t)snprintf(table + at, size - at, "[sparse_attention]\n");
    for (size_t i = 0; i < json_array_size(keys); i++) {
        const char *key = strchr(json_string_value(json_array_get(keys, i)), '.');
        const char *value = strchr(key, '=') + 1;
        const char *quote =
            isalpha((unsigned char)*value) && strcmp(value, "true") != 0 ? "\""
                                                                         : "";

        at += (size_t)snprintf(table + at, size - at, "%.*s = %s%s%s\n",
                               (int)(value - key - 2), key + 1, quote, value,
                               quote);
    }
    assert_true(at < size);
}

static void load_laid(struct loaded *l, const char *name, json_t *keys)
{
    struct dsflow_err err;
    struct dsf_hf *hf;
    char table[1200];

    snprintf(table, sizeof(table), "family = \"%s\"\ninit = \"%s\"\n",
             strncmp(name, "gpt2", 4) == 0 ? "gpt2" : "llama",
             path_of(name, ""));
    add_keys(table, sizeof(table), keys);
    make(l, table);
    must(dsf_hf_open(&l->model, path_of(name, ""), &hf, &err), &err);
    for (unsigned u = 0; u < l->model.nunits; u++)
        must(dsf_hf_read(hf, u, l->params[u], &err), &err);
    dsf_hf_close(hf);
}

/* -log softmax of one of `n` logits. */
static double loss_of(const float *logits, size_t n, size_t target)
{
    double top = -INFINITY, sum = 0;

    for (size_t i = 0; i < n; i++)
        top = fmax(top, logits[i]);
    for (size_t i = 0; i < n; i++)
        sum += exp(logits[i] - top);
    return top + log(sum) - logits[target];
}

/* A prompt of n tokens, then one after the other. */
static void check_laid(struct loaded *l, const char *of, json_t *losses,
                       const uint8_t *text, size_t n, unsigned workers)
{
    struct dsf_generator *g = generator_of(
        l, (struct dsf_generator_spec){ .workers = workers, .job = &l->job });
    int32_t tokens[256];

    for (size_t i = 0; i < 256; i++)
        tokens[i] = text[i];
    feed(g, tokens, n);
    for (size_t i = n; i < 256; i++) {
        const double want = json_number_value(json_array_get(losses, i - 1));
        const double got =
            loss_of(dsf_generator_logits(g), (size_t)l->model.dims.vocab,
                    (size_t)tokens[i]);

        if (!(fabs(got - want) <= 2e-5 * (1 + fabs(want))))
            fail_msg("%s, %u workers: token %zu behind a prompt of %zu: %.9g: "
                     "expected %.9g",
                     of, workers, i, n, got, want);
        feed(g, &tokens[i], 1);
    }
    dsf_generator_free(g);
}

/* What dense attention with the expanded mask makes of each token. */
static void a_layout_gives_the_logits_of_training(void **state)
{
    static const char *const cases[][2] = {
        { "gpt2_sparse", "fixed16" },      { "gpt2_sparse", "variable64" },
        { "gpt2_sparse", "sliding16" },    { "llama_sparse", "variable16" },
        { "llama_sparse", "bigbird16" },   { "llama_sparse", "bigbird64" },
        { "llama_sparse", "bslongformer16" },
    };

    for (size_t k = 0; k < sizeof(cases) / sizeof(*cases); k++) {
        struct dsf_st_file *file;
        struct dsflow_err err;
        uint8_t text[257];
        json_error_t where;
        char name[64];
        struct loaded l;
        json_t *of;

        snprintf(name, sizeof(name), "/%s.json", cases[k][1]);
        of = json_load_file(path_of(cases[k][0], name), 0, &where);
        assert_non_null(of);
        load_laid(&l, cases[k][0], json_object_get(of, "keys"));
        must(dsf_st_open(path_of(cases[k][0], "/batches.safetensors"), &file,
                         &err),
             &err);
        must(dsf_st_read(file, dsf_st_find(file, "tokens"), 0, sizeof(text),
                         text, &err),
             &err);
        dsf_st_close(file);
        for (size_t n = 1; n < 240; n += 79)
            for (unsigned workers = 1; workers <= 2; workers++)
                check_laid(&l, cases[k][1], json_object_get(of, "tokens"), text,
                           n, workers);
        json_decref(of);
        drop(&l);
    }
}

/* Longer than the pieces that a prompt goes through the model in. */
static void a_long_prompt_gives_the_logits_of_its_tokens_alone(void **state)
{
    static const char *const tables[] = {
        "family = \"gpt2\"\nlayers = 2\nheads = 3\nwidth = 21\nvocab = 97\n"
        "context = 300\n",
        "family = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\n"
        "width = 24\nffn_width = 31\nvocab = 97\ncontext = 300\n",
        "family = \"gpt2\"\nlayers = 3\nheads = 3\nwidth = 21\nvocab = 97\n"
        "context = 300\nwindow = 37\nwindow_layers = \"0,2\"\n",
        "family = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\n"
        "width = 24\nffn_width = 31\nvocab = 97\ncontext = 300\n"
        "window = 150\n",
        "family = \"llama\"\nlayers = 2\nheads = 4\nkv_heads = 2\n"
        "width = 24\nffn_width = 31\nvocab = 97\ncontext = 300\n"
        "window = 1\nwindow_layers = \"1\"\n",
    };

    for (int k = 0; k < 5; k++) {
        struct dsf_generator *whole, *alone;
        struct dsflow_err err;
        int32_t tokens[300];
        struct loaded l;

        make(&l, tables[k]);
        for (unsigned u = 0; u < l.model.nunits; u++)
            dsf_model_randomize(&l.model, u, 7, l.params[u]);
        /* As random values are, attention would hardly look at anything. */
        for (unsigned u = 0; u < l.model.nunits; u++)
            for (int64_t i = 0; i < l.model.units[u].decay; i++)
                l.params[u][i] *= 10;
        for (int i = 0; i < 300; i++)
            tokens[i] = (i * i + 3 * i) % 97;
        whole = new_generator(&l);
        alone = new_generator(&l);
        feed(whole, tokens, 300);
        for (int i = 0; i < 300; i++)
            feed(alone, &tokens[i], 1);
        check_logits("300 tokens", 299, dsf_generator_logits(whole),
                     dsf_generator_logits(alone), 97);
        assert_int_equal(dsf_generator_feed(whole, tokens, 1, &err),
                         DSFLOW_EFIT);
        assert_string_equal(err.msg, "prompt: 1 tokens: the model's context "
                                     "has room for 0");
        dsf_generator_free(whole);
        dsf_generator_free(alone);
        drop(&l);
    }
}

static void the_likeliest_is_taken_at_temperature_zero(void **state)
{
    static const float logits[] = { -3, 2.5f, -1, 2.5f, 2.4f };
    struct dsf_sampling s = { .temperature = 0, .top_p = 1 };
    uint64_t random = 5;

    assert_int_equal(dsf_sample(&s, logits, 5, &random), 1);
    assert_int_equal(dsf_sample(&s, logits + 2, 3, &random), 1);
    assert_int_equal(dsf_sample(&s, logits, 1, &random), 0);
    assert_true(random == 5); /* nothing was left to chance */
    /* So is it when one token may be chosen. */
    s.temperature = 1.5;
    s.top_k = 1;
    for (int i = 0; i < 100; i++)
        assert_int_equal(dsf_sample(&s, logits, 5, &random), 1);
    s.top_k = 0;
    s.top_p = 1e-6;
    for (int i = 0; i < 100; i++)
        assert_int_equal(dsf_sample(&s, logits, 5, &random), 1);
}

/* How often each of five tokens comes must be `p`, within 5 deviations. */
static void check_shares(const struct dsf_sampling *s, const double *p)
{
    /* 0.10, 0.5, 0.001, 0.25, 0.149: the likeliest is not the first. */
    static const double shares[] = { 0.10, 0.5, 0.001, 0.25, 0.149 };
    enum { DRAWS = 40000 };
    int seen[5] = { 0 };
    uint64_t random = s->seed;
    float logits[5];

    for (int i = 0; i < 5; i++)
        logits[i] = (float)(log(shares[i]) + 11); /* softmax drops the 11 */
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = dsf_sample(s, logits, 5, &random);

        assert_in_range(id, 0, 4);
        seen[id]++;
    }
    for (int i = 0; i < 5; i++) {
        double off = fabs((double)seen[i] / DRAWS - p[i]);

        if (!(off <= 5 * sqrt(p[i] * (1 - p[i]) / DRAWS)))
            fail_msg("token %d: %d of %d: expected %.4f of them", i, seen[i],
                     DRAWS, p[i]);
    }
}

static void tokens_come_as_often_as_softmax_says(void **state)
{
    static const double as_is[] = { 0.10, 0.5, 0.001, 0.25, 0.149 };
    struct dsf_sampling s = { .temperature = 1, .top_p = 1, .seed = 3 };
    double p[5], hot = 0, cold = 0;

    check_shares(&s, as_is);
    for (int i = 0; i < 5; i++) {
        hot += sqrt(as_is[i]);
        cold += as_is[i] * as_is[i];
    }
    s.temperature = 2;
    for (int i = 0; i < 5; i++)
        p[i] = sqrt(as_is[i]) / hot;
    check_shares(&s, p);
    s.temperature = 0.5;
    for (int i = 0; i < 5; i++)
        p[i] = as_is[i] * as_is[i] / cold;
    check_shares(&s, p);
}

static void top_k_and_top_p_leave_the_likeliest(void **state)
{
    static const double two[] = { 0, 2 / 3.0, 0, 1 / 3.0, 0 };
    static const double three[] = { 0, 0.5 / 0.899, 0, 0.25 / 0.899,
                                    0.149 / 0.899 };
    static const double one[] = { 0, 1, 0, 0, 0 };
    struct dsf_sampling s = { .temperature = 1, .top_p = 1, .seed = 11 };

    s.top_k = 2;
    check_shares(&s, two);
    s.top_k = 3;
    check_shares(&s, three);
    s.top_k = 0;
    s.top_p = 0.74; /* 0.5 is less, 0.5 + 0.25 is enough */
    check_shares(&s, two);
    s.top_p = 0.76;
    check_shares(&s, three);
    s.top_p = 0.49;
    check_shares(&s, one);
    /* Of the two that top_k leaves, the first has 0.667. */
    s.top_k = 2;
    s.top_p = 0.66;
    check_shares(&s, one);
    s.top_p = 0.67;
    check_shares(&s, two);
    /* More than there are is all. */
    s.top_k = 50;
    s.top_p = 0.76;
    check_shares(&s, three);
}

struct word {
    double p;
    int32_t id;
};

static int likeliest_first(const void *a, const void *b)
{
    const struct word *x = a, *y = b;

    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id - y->id;
}

/* All words in order, of which the first that follow each other are kept. */
static int32_t sample_of_all(const struct dsf_sampling *s, const float *logits,
                             int32_t n, double u)
{
    struct word *w = calloc((size_t)n, sizeof(*w));
    int32_t most = s->top_k > 0 && s->top_k < n ? (int32_t)s->top_k : n, id;
    double sum = 0, kept = 0;
    float top = logits[0];

    for (int32_t i = 1; i < n; i++)
        top = logits[i] > top ? logits[i] : top;
    for (int32_t i = 0; i < n; i++)
        w[i] = (struct word){
            exp(((double)logits[i] - top) / s->temperature), i
        };
    qsort(w, (size_t)n, sizeof(*w), likeliest_first);
    for (int32_t i = 0; i < most; i++)
        sum += w[i].p;
    for (int32_t i = 0; i < most; i++) {
        kept += w[i].p;
        if (kept >= s->top_p * sum)
            most = i + 1;
    }
    u *= kept;
    id = w[most - 1].id;
    for (int32_t i = 0; i < most; i++) {
        u -= w[i].p;
        if (u < 0) {
            id = w[i].id;
            break;
        }
    }
    free(w);
    return id;
}

static void numbers_that_are_none_give_some_word(void **state)
{
    float logits[] = { NAN, 1, INFINITY, NAN, -INFINITY };
    struct dsf_sampling s = { .temperature = 1, .top_p = 0.9, .top_k = 3 };
    uint64_t random = 1;

    for (int i = 0; i < 20; i++) {
        assert_in_range(dsf_sample(&s, logits, 5, &random), 0, 4);
        assert_in_range(dsf_sample(&s, logits + 1, 4, &random), 0, 3);
    }
}

static void many_words_are_chosen_from_as_if_all_were_in_order(void **state)
{
    enum { WORDS = 3000, DRAWS = 40 };
    static float logits[WORDS];
    static const struct dsf_sampling ways[] = {
        { .temperature = 1, .top_p = 1, .seed = 1 },
        { .temperature = 0.2, .top_p = 1, .seed = 2 },
        { .temperature = 5, .top_p = 0.9, .seed = 3 },
        { .temperature = 1, .top_p = 1, .top_k = 500, .seed = 4 },
        { .temperature = 1, .top_p = 0.5, .top_k = 700, .seed = 5 },
    };

    for (int i = 0; i < WORDS; i++) /* many are alike, and some hopeless */
        logits[i] = (float)(i * 7919 % 613) / 50 - (i % 11 == 0 ? 2000 : 0);
    for (size_t w = 0; w < sizeof(ways) / sizeof(*ways); w++) {
        uint64_t random = ways[w].seed, uniforms = ways[w].seed;

        for (int i = 0; i < DRAWS; i++) {
            uint64_t x = uniforms += 0x9e3779b97f4a7c15u;

            x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
            x = (x ^ x >> 27) * 0x94d049bb133111ebu;
            assert_int_equal(
                dsf_sample(&ways[w], logits, WORDS, &random),
                sample_of_all(&ways[w], logits, WORDS,
                              (double)((x ^ x >> 31) >> 11) * 0x1p-53));
        }
    }
}

/* splitmix64 from 0 begins e220a8397b1dcdaf, 6e789e6aa1b965f4,
 * 06c45d188009454f, f88bb8a8724c81ec: 0.88, 0.43, 0.03, 0.97 of 1. */
static void a_seed_gives_the_same_tokens_everywhere(void **state)
{
    static const int32_t want[] = { 88, 43, 2, 97 };
    struct dsf_sampling s = { .temperature = 1, .top_p = 1 };
    float logits[100] = { 0 };
    uint64_t random = 0;

    for (int i = 0; i < 4; i++)
        assert_int_equal(dsf_sample(&s, logits, 100, &random), want[i]);
}

/* Of 16 positions, a model of bytes that follows position p with script[p]
 * whatever the text: attention and MLP add nothing, the position is all there
 * is after the last norm, and the embedding of a byte is where it stands. */
static void make_script(struct loaded *l, const unsigned char *script)
{
    const struct dsf_model *m = &l->model;
    const int64_t *at;
    float *embed, *norm;

    make(l, "family = \"gpt2\"\nlayers = 1\nheads = 1\nwidth = 16\n"
            "vocab = 256\ncontext = 16\n");
    at = m->units[0].at;
    embed = l->params[dsf_model_unit(m, -1, &dsf_segment_embed, 0)];
    norm = l->params[dsf_model_unit(m, m->layers, &dsf_segment_head,
                                    DSF_HEAD_UNIT_NORM)];
    for (int p = 0; p < 16; p++) {
        embed[at[DSF_EMBED_WPE] + p * 16 + p] = 100;
        embed[at[DSF_EMBED_WTE] + script[p] * 16 + p] = 1;
        norm[p] = 1;
    }
}

static void add_text(void *user, const char *text, size_t n)
{
    strncat(user, text, n);
}

static void check_text(const unsigned char *script, const char *prompt,
                       int64_t tokens, const char *want,
                       struct dsf_sampled *sampled)
{
    char text[256] = "";
    struct dsf_sampling s = { .top_p = 1, .user = text, .on_text = add_text };
    struct dsf_tokenizer *tok = NULL;
    struct dsflow_err err;
    struct loaded l;

    make_script(&l, script);
    must(dsf_tokenizer_open("bytes", &tok, &err), &err);
    must(dsf_generate(&l.model, NULL, &l.weights, tok, prompt, strlen(prompt),
                      tokens, &s, sampled, &err),
         &err);
    assert_string_equal(text, want);
    dsf_tokenizer_free(tok);
    drop(&l);
}

static void check_print(const unsigned char *script, const char *prompt,
                        int64_t tokens, const char *want)
{
    struct dsf_sampled sampled;

    check_text(script, prompt, tokens, want, &sampled);
}

static void text_is_utf8(void **state)
{
    static const unsigned char script[] = "\xc3\xa9t\xff\xe6\x97\xa5"
                                          "a\xf0\x9f\x98\x80!\xe6\x97(";

    check_print(script, "x", 1, "x\xef\xbf\xbd");
    check_print(script, "x", 2, "x\xc3\xa9");
    check_print(script, "x", 7, "x\xc3\xa9t\xef\xbf\xbd\xe6\x97\xa5");
    /* A prompt of three bytes is followed by what comes third. */
    check_print(script, "abc", 5, "abct\xef\xbf\xbd\xe6\x97\xa5");
    /* No prompt is a new line. */
    check_print(script, "", 2, "\n\xc3\xa9");
    /* The context is full before 100 tokens are there. */
    check_print(script, "x", 100,
                "x\xc3\xa9t\xef\xbf\xbd\xe6\x97\xa5"
                "a\xf0\x9f\x98\x80!\xef\xbf\xbd\xef\xbf\xbd(");
}

static void a_full_context_is_told(void **state)
{
    const unsigned char *script = (const unsigned char *)"0123456789abcdef";
    struct dsf_sampled sampled;

    check_text(script, "x", 4, "x0123", &sampled);
    assert_false(sampled.full);
    assert_int_equal(sampled.tokens, 4);
    check_text(script, "x", 100, "x0123456789abcdef", &sampled);
    assert_true(sampled.full);
    assert_int_equal(sampled.tokens, 16);
}

static bool is_third(void *user)
{
    return strlen(user) >= 3;
}

static void it_ends_when_it_is_told(void **state)
{
    char text[256] = "";
    struct dsf_sampling s = { .top_p = 1, .user = text, .on_text = add_text,
                              .is_stopped = is_third };
    struct dsf_sampled sampled;
    struct dsf_tokenizer *tok = NULL;
    struct dsflow_err err;
    struct loaded l;

    make_script(&l, (const unsigned char *)"0123456789abcdef");
    must(dsf_tokenizer_open("bytes", &tok, &err), &err);
    must(dsf_generate(&l.model, NULL, &l.weights, tok, "x", 1, 9, &s, &sampled,
                      &err),
         &err);
    assert_string_equal(text, "x01");
    assert_int_equal(sampled.tokens, 2);
    assert_false(sampled.full);
    dsf_tokenizer_free(tok);
    drop(&l);
}

static void a_prompt_beyond_the_context_is_refused(void **state)
{
    char text[256] = "";
    struct dsf_sampling s = { .top_p = 1, .user = text, .on_text = add_text };
    struct dsf_sampled sampled;
    struct dsf_tokenizer *tok = NULL;
    struct dsflow_err err;
    struct loaded l;

    make_script(&l, (const unsigned char *)"0123456789abcdef");
    must(dsf_tokenizer_open("bytes", &tok, &err), &err);
    assert_int_equal(dsf_generate(&l.model, NULL, &l.weights, tok,
                                  "seventeen letters", 17, 5, &s, &sampled,
                                  &err),
                     DSFLOW_EFIT);
    assert_string_equal(err.msg, "prompt: 17 tokens: the model's context has "
                                 "room for 16");
    assert_string_equal(text, "");
    dsf_tokenizer_free(tok);
    drop(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_at_a_time_gives_pytorchs_logits),
        cmocka_unit_test(a_whole_prompt_and_pieces_of_it_give_pytorchs_logits),
        cmocka_unit_test(text_past_the_window_is_that_of_transformers),
        cmocka_unit_test(a_window_needs_memory_for_its_tokens_only),
        cmocka_unit_test(a_layout_gives_the_logits_of_training),
        cmocka_unit_test(a_long_prompt_gives_the_logits_of_its_tokens_alone),
        cmocka_unit_test(the_likeliest_is_taken_at_temperature_zero),
        cmocka_unit_test(tokens_come_as_often_as_softmax_says),
        cmocka_unit_test(top_k_and_top_p_leave_the_likeliest),
        cmocka_unit_test(numbers_that_are_none_give_some_word),
        cmocka_unit_test(many_words_are_chosen_from_as_if_all_were_in_order),
        cmocka_unit_test(a_seed_gives_the_same_tokens_everywhere),
        cmocka_unit_test(text_is_utf8),
        cmocka_unit_test(a_full_context_is_told),
        cmocka_unit_test(it_ends_when_it_is_told),
        cmocka_unit_test(a_prompt_beyond_the_context_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
