/* test_pruned.c - a model of parts of another has the numbers of these parts,
 * and those parts stay that the loss would miss most. */
#include "model/pruned.h"

#include "base/alloc.h"
#include "lib/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 3, HEADS = 8, KEYS = 4, DIM = 10, FFN = 12, WIDTH = 36 };

/* A model, and numbers for its units. */
struct numbers {
    struct dsf_model model;
    struct dsf_job job;
    float **weights, **moments;
};

static void make(struct dsf_model *m, struct dsf_job *job, const char *family,
                 int layers, int heads, int keys, int ffn)
{
    const bool llama = strcmp(family, "llama") == 0;
    char text[512];
    int n =
        snprintf(text, sizeof(text),
                 "[job]\nsteps = 1\n[data]\ntrain = \"x\"\n[model]\n"
                 "family = \"%s\"\nlayers = %d\nheads = %d\nkv_heads = %d\n"
                 "%swidth = %d\nffn_width = %d\nvocab = 61\ncontext = 16\n",
                 family, layers, heads, keys,
                 llama ? "head_dim = 10\ntied = false\nqkv_bias = true\n" : "",
                 WIDTH, ffn);
    struct dsflow_err err;

    if (dsf_job_parse(text, (size_t)n, "job.toml", NULL, 0, NULL, job, &err) <
            0 ||
        dsf_model_init(m, job, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Weights 1, 2, 3 … that are no other unit's, and moments of 1. */
static void make_numbers(struct numbers *n, const char *family)
{
    const bool llama = strcmp(family, "llama") == 0;
    float next = 1;

    make(&n->model, &n->job, family, LAYERS, llama ? HEADS : 4,
         llama ? KEYS : 4, FFN);
    n->weights = dsf_xcalloc(n->model.nunits, sizeof(*n->weights));
    n->moments = dsf_xcalloc(n->model.nunits, sizeof(*n->moments));
    for (unsigned u = 0; u < n->model.nunits; u++) {
        const size_t elems = (size_t)n->model.units[u].elems;

        n->weights[u] = dsf_xcalloc(elems, sizeof(float));
        n->moments[u] = dsf_xcalloc(elems, sizeof(float));
        for (size_t i = 0; i < elems; i++) {
            n->weights[u][i] = next++;
            n->moments[u][i] = 1;
        }
    }
}

static void free_numbers(struct numbers *n)
{
    for (unsigned u = 0; u < n->model.nunits; u++) {
        free(n->weights[u]);
        free(n->moments[u]);
    }
    free(n->weights);
    free(n->moments);
    dsf_model_fini(&n->model);
    dsf_job_fini(&n->job);
}

static int read_weights(void *user, unsigned u, float *to,
                        struct dsflow_err *err)
{
    const struct numbers *n = user;

    memcpy(to, n->weights[u], (size_t)n->model.units[u].elems * sizeof(*to));
    return DSFLOW_OK;
}

static int read_moments(void *user, unsigned u, float *to,
                        struct dsflow_err *err)
{
    const struct numbers *n = user;

    memcpy(to, n->moments[u], (size_t)n->model.units[u].elems * sizeof(*to));
    return DSFLOW_OK;
}

static int fail_to_read(void *user, unsigned u, float *to,
                        struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EIO, "the disk is gone");
}

/* A tensor of the units, and its numbers. */
static const struct dsf_tensor *find(const struct dsf_model *m, float **units,
                                     const char *name, float **v)
{
    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned t = 0; t < m->units[u].ntensors; t++)
            if (strcmp(m->units[u].tensors[t].name, name) == 0) {
                *v = units[u] + m->units[u].tensors[t].offset;
                return &m->units[u].tensors[t];
            }
    fail_msg("no tensor %s", name);
    return NULL;
}

static float **read_all(struct dsf_pruned *p, const struct dsf_model *m)
{
    float **all = dsf_xcalloc(m->nunits, sizeof(*all));
    struct dsflow_err err;

    for (unsigned u = 0; u < m->nunits; u++) {
        all[u] = dsf_xcalloc((size_t)m->units[u].elems, sizeof(float));
        if (dsf_pruned_read(p, u, all[u], &err) < 0)
            fail_msg("%s", err.msg);
    }
    return all;
}

static void free_all(float **all, const struct dsf_model *m)
{
    for (unsigned u = 0; u < m->nunits; u++)
        free(all[u]);
    free(all);
}

static void end(struct numbers *from, struct dsf_model *m, struct dsf_job *job,
                struct dsf_pruned *p, float **all)
{
    free_all(all, m);
    dsf_pruned_close(p);
    dsf_model_fini(m);
    dsf_job_fini(job);
    free_numbers(from);
}

static struct dsf_pruned *open_pruned(struct numbers *from,
                                      const struct dsf_model *to,
                                      const int32_t *layers)
{
    return dsf_pruned_open(&from->model, to, layers,
                           (struct dsf_pruned_source){ read_weights, from },
                           (struct dsf_pruned_source){ read_moments, from });
}

/* Which rows and columns of a tensor of the whole model stay; -1: all. */
struct stay {
    const char *name;
    const int *rows, *cols;
};

static void check_tensor(const struct numbers *from, int of,
                         const struct dsf_model *m, float **all, int layer,
                         const struct stay *stay)
{
    char was_name[96], is_name[96];
    const struct dsf_tensor *was, *is;
    float *a, *b;

    snprintf(was_name, sizeof(was_name), stay->name, of);
    snprintf(is_name, sizeof(is_name), stay->name, layer);
    was = find(&from->model, from->weights, was_name, &a);
    is = find(m, all, is_name, &b);
    for (int64_t r = 0; r < is->rows; r++)
        for (int64_t c = 0; c < is->cols; c++) {
            const int64_t row = stay->rows == NULL ? r : stay->rows[r];
            const int64_t col = stay->cols == NULL ? c : stay->cols[c];

            if (b[r * is->cols + c] != a[row * was->cols + col])
                fail_msg("%s: row %d, column %d", is_name, (int)r, (int)c);
        }
}

static void layers_stay_in_the_order_that_is_asked_for(void **state)
{
    static const char *const names[] = {
        "transformer.h.%d.ln_1.weight",
        "transformer.h.%d.ln_2.bias",
        "transformer.h.%d.attn.c_attn.weight",
        "transformer.h.%d.attn.c_attn.bias",
        "transformer.h.%d.mlp.c_fc.weight",
        "transformer.h.%d.attn.c_proj.bias",
        "transformer.h.%d.mlp.c_proj.weight",
    };
    static const char *const others[] = { "transformer.wte.weight",
                                          "transformer.wpe.weight",
                                          "transformer.ln_f.bias" };
    static const int32_t layers[] = { 2, 0, 2, 1 };
    struct numbers from;
    struct dsf_model m;
    struct dsf_job job;
    struct dsf_pruned *p;
    float **all;

    make_numbers(&from, "gpt2");
    make(&m, &job, "gpt2", 4, 4, 4, FFN);
    p = open_pruned(&from, &m, layers);
    all = read_all(p, &m);
    for (int l = 0; l < 4; l++)
        for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
            check_tensor(&from, layers[l], &m, all, l,
                         &(struct stay){ .name = names[i] });
    for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
        check_tensor(&from, 0, &m, all, 0, &(struct stay){ .name = others[i] });
    end(&from, &m, &job, p, all);
}

/* The weights of column `c`, and their moments, of layer `l`. */
static void set_column(struct numbers *n, const char *name, int l, int64_t c,
                       float weight, float moment)
{
    char full[96];
    const struct dsf_tensor *t;
    float *w, *v;

    snprintf(full, sizeof(full), name, l);
    t = find(&n->model, n->weights, full, &w);
    find(&n->model, n->moments, full, &v);
    for (int64_t r = 0; r < t->rows; r++) {
        w[r * t->cols + c] = weight;
        v[r * t->cols + c] = moment;
    }
}

/* w^2 v decides, not w: in layer 1 heads of keys 3 and 0 matter, and inner
 * columns 1, 2, 7, 9 and 11; in layer 2 others. */
static void what_the_loss_would_miss_most_stays(void **state)
{
    static const char o[] = "model.layers.%d.self_attn.o_proj.weight";
    static const char down[] = "model.layers.%d.mlp.down_proj.weight";
    static const int32_t layers[] = { 2, 1 };
    static const int keys[2][2] = { { 1, 2 }, { 0, 3 } };
    static const int inner[2][5] = { { 0, 3, 4, 10, 11 }, { 1, 2, 7, 9, 11 } };
    int q[4 * DIM], k[2 * DIM];
    struct numbers from;
    struct dsf_model m;
    struct dsf_job job;
    struct dsf_pruned *p;
    float **all;

    make_numbers(&from, "llama");
    make(&m, &job, "llama", 2, HEADS / 2, KEYS / 2, 5);
    for (int l = 0; l < 2; l++) {
        /* Large weights that the loss does not feel, … */
        for (int c = 0; c < HEADS * DIM; c++)
            set_column(&from, o, layers[l], c, 100, 0x1p-20f);
        for (int c = 0; c < FFN; c++)
            set_column(&from, down, layers[l], c, 100, 0x1p-20f);
        /* … and small ones that it does: one column of a head is enough. */
        for (int i = 0; i < 2; i++)
            set_column(&from, o, layers[l], (keys[l][i] * 2 + i) * DIM + 7, 1,
                       1);
        for (int i = 0; i < 5; i++)
            set_column(&from, down, layers[l], inner[l][i], 1, 1 + (float)i);
    }
    p = open_pruned(&from, &m, layers);
    all = read_all(p, &m);
    for (int l = 0; l < 2; l++) {
        const struct stay stays[] = {
            { "model.layers.%d.self_attn.q_proj.weight", q, NULL },
            { "model.layers.%d.self_attn.k_proj.weight", k, NULL },
            { "model.layers.%d.self_attn.v_proj.weight", k, NULL },
            { "model.layers.%d.self_attn.q_proj.bias", NULL, q },
            { "model.layers.%d.self_attn.k_proj.bias", NULL, k },
            { "model.layers.%d.self_attn.v_proj.bias", NULL, k },
            { o, NULL, q },
            { "model.layers.%d.mlp.gate_proj.weight", inner[l], NULL },
            { "model.layers.%d.mlp.up_proj.weight", inner[l], NULL },
            { down, NULL, inner[l] },
            { "model.layers.%d.input_layernorm.weight", NULL, NULL },
            { "model.layers.%d.post_attention_layernorm.weight", NULL, NULL },
        };

        for (int i = 0; i < 4 * DIM; i++) /* two heads of queries for each */
            q[i] = (keys[l][i / (2 * DIM)] * 2 + i / DIM % 2) * DIM + i % DIM;
        for (int i = 0; i < 2 * DIM; i++)
            k[i] = keys[l][i / DIM] * DIM + i % DIM;
        for (size_t i = 0; i < sizeof(stays) / sizeof(*stays); i++)
            check_tensor(&from, layers[l], &m, all, l, &stays[i]);
    }
    end(&from, &m, &job, p, all);
}

/* What is no number says nothing, and of equal ones the first stay. */
static void of_equal_columns_the_first_stay(void **state)
{
    static const char proj[] = "transformer.h.%d.mlp.c_proj.weight";
    static const int32_t layers[] = { 0, 1, 2 };
    static const int stay[] = { 0, 1, 4 };
    struct numbers from;
    struct dsf_model m;
    struct dsf_job job;
    struct dsf_pruned *p;
    float **all;

    make_numbers(&from, "gpt2");
    make(&m, &job, "gpt2", LAYERS, 4, 4, 3);
    for (int c = 0; c < FFN; c++)
        set_column(&from, proj, 1, c, 2, c == 4 ? 2 : 1);
    set_column(&from, proj, 1, 7, 2, NAN);
    p = open_pruned(&from, &m, layers);
    all = read_all(p, &m);
    check_tensor(&from, 1, &m, all, 1, &(struct stay){ proj, NULL, stay });
    end(&from, &m, &job, p, all);
}

/* And moments are not asked for where all columns stay. */
static void what_cannot_be_read_is_an_error(void **state)
{
    static const int32_t layers[] = { 0, 1 };
    const struct dsf_pruned_source none = { fail_to_read, NULL };

    for (int fewer = 0; fewer < 2; fewer++) {
        struct numbers from;
        struct dsf_model m;
        struct dsf_job job;
        struct dsf_pruned *p;
        struct dsflow_err err;
        float *v;

        make_numbers(&from, "gpt2");
        make(&m, &job, "gpt2", 2, 4, 4, FFN - fewer);
        p = dsf_pruned_open(&from.model, &m, layers,
                            (struct dsf_pruned_source){ read_weights, &from },
                            none);
        for (unsigned u = 0; u < m.nunits; u++) {
            const bool fails = fewer && m.units[u].segment == &dsf_segment_mlp;

            v = dsf_xcalloc((size_t)m.units[u].elems, sizeof(*v));
            assert_int_equal(dsf_pruned_read(p, u, v, &err),
                             fails ? DSFLOW_EIO : DSFLOW_OK);
            free(v);
        }
        dsf_pruned_close(p);
        p = dsf_pruned_open(&from.model, &m, layers, none, none);
        v = dsf_xcalloc((size_t)m.units[0].elems, sizeof(*v));
        assert_int_equal(dsf_pruned_read(p, 0, v, &err), DSFLOW_EIO);
        assert_string_equal(err.msg, "the disk is gone");
        free(v);
        dsf_pruned_close(p);
        dsf_model_fini(&m);
        dsf_job_fini(&job);
        free_numbers(&from);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_stay_in_the_order_that_is_asked_for),
        cmocka_unit_test(what_the_loss_would_miss_most_stays),
        cmocka_unit_test(of_equal_columns_the_first_stay),
        cmocka_unit_test(what_cannot_be_read_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
