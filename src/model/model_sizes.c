/* model_sizes.c - the sizes of a model and its layers: those of [model] of the
 * job, or of the config.json of the folder that it starts from. */
#include "model/model_sizes.h"

#include "base/alloc.h"
#include "base/multiple.h"
#include "config/job_tables.h"
#include "config/layer_list.h"
#include "config/option.h"
#include "config/when.h"
#include "model/hf.h"
#include "model/model_inputs.h"

#include <stdlib.h>
#include <string.h>

/* One of the sizes that must be known by now. */
static int required(const struct dsf_job *job, const char *key, int64_t value,
                    struct dsflow_err *err)
{
    if (value > 0)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", key,
                        "is missing: a model with init = \"random\" needs it");
}

static int check_shape(const struct dsf_job *job, const struct dsf_job_model *c,
                       struct dsflow_err *err)
{
    const struct {
        const char *key;
        int64_t value;
    } sizes[] = { { "layers", c->layers },
                  { "heads", c->heads },
                  { "width", c->width },
                  { "vocab", c->vocab } };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        int status = required(job, sizes[i].key, sizes[i].value, err);

        if (status < 0)
            return status;
    }
    if (c->head_dim < 0 && c->width % c->heads != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "heads",
                            "%lld: expected a divisor of width, %lld",
                            (long long)c->heads, (long long)c->width);
    if ((c->head_dim < 0 ? c->width / c->heads : c->head_dim) >
        DSF_MOST_HEAD_DIM)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "width",
                            "%lld: expected heads of at most %d numbers (width "
                            "/ heads)",
                            (long long)c->width, DSF_MOST_HEAD_DIM);
    if (c->kv_heads > 0 && c->heads % c->kv_heads != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "kv_heads",
                            "%lld: expected a divisor of heads, %lld",
                            (long long)c->kv_heads, (long long)c->heads);
    return DSFLOW_OK;
}

/* Keys that one family has not. */
static int check_family(const struct dsf_job *job,
                        const struct dsf_job_model *c, struct dsflow_err *err)
{
    if (c->family == DSF_GPT2 && c->kv_heads > 0 && c->kv_heads != c->heads)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "kv_heads",
                            "%lld: gpt2 has as many as heads, %lld",
                            (long long)c->kv_heads, (long long)c->heads);
    if (c->family == DSF_GPT2 && c->head_dim > 0 &&
        c->head_dim * c->heads != c->width)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "head_dim",
                            "%lld: gpt2 has width / heads, %lld",
                            (long long)c->head_dim,
                            (long long)(c->width / c->heads));
    if (c->family == DSF_GPT2 && !c->tied)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "tied",
                            "false: gpt2's head is tied to its embedding");
    if (c->family == DSF_LLAMA && c->rope_scaling != 0 &&
        c->rope_high_freq_factor <= c->rope_low_freq_factor)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model",
                            "rope_high_freq_factor",
                            "%g: expected more than rope_low_freq_factor, %g",
                            c->rope_high_freq_factor, c->rope_low_freq_factor);
    return DSFLOW_OK;
}

static int64_t default_ffn(const struct dsf_job_model *c)
{
    return c->family == DSF_GPT2 ? 4 * c->width
                                 : dsf_round_up((8 * c->width + 2) / 3, 64);
}

/* Do both say the same? What is "auto" in the job says nothing, and numbers are
 * computed with in fp32. */
static bool is_same(const struct dsflow_option *o,
                    const struct dsf_job_model *asked,
                    const struct dsf_job_model *is)
{
    const char *a = (const char *)asked + o->offset;
    const char *b = (const char *)is + o->offset;

    if (o->type == DSFLOW_FLOAT)
        return (float)*(const double *)(const void *)a ==
               (float)*(const double *)(const void *)b;
    if (o->type == DSFLOW_AUTO && *(const int64_t *)(const void *)a < 0)
        return true;
    return dsf_option_same(o, asked, is);
}

/* A key that is given in the job must say what config.json says. */
static int agree(const struct dsf_job *job, const char *key,
                 const struct dsf_job_model *is, struct dsflow_err *err)
{
    const struct dsflow_option *o =
        dsf_option_find(dsf_job_find_table("model")->options, key);

    if (!dsf_job_has(job, "model", key) || is_same(o, &job->model, is))
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", key,
                        "%s: config.json in %s says %s",
                        dsf_value_text(o, &job->model).s, job->model.init,
                        dsf_value_text(o, is).s);
}

/* The context of a folder's model: rotary positions have no parameters, so a
 * job may take fewer. */
static int find_context(const struct dsf_job *job, struct dsf_job_model *c,
                        struct dsflow_err *err)
{
    bool given = dsf_job_has(job, "model", "context") && job->model.context > 0;

    if (given && (c->family == DSF_GPT2 || job->model.context > c->context))
        return agree(job, "context", c, err);
    if (given)
        c->context = job->model.context;
    return DSFLOW_OK;
}

/* The layers that have a window, as the job says. */
static int read_windows(const struct dsf_job *job, int32_t layers, bool *on,
                        struct dsflow_err *err)
{
    const char *text = job->model.window_layers;

    if (dsf_layer_list_read(text, layers, on))
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "window_layers",
                        "\"%.60s\": " DSF_LAYER_LIST_EXPECTED, text,
                        (int)layers - 1);
}

/* Where both say which layers have a window, they must say the same. */
static int agree_windows(const struct dsf_job *job,
                         const struct dsf_job_model *c,
                         const struct dsf_hf_windows *hf,
                         struct dsflow_err *err)
{
    bool *on = dsf_xcalloc((size_t)c->layers, sizeof(*on));
    int status = read_windows(job, (int32_t)c->layers, on, err);

    if (status == DSFLOW_OK && c->window > 0 &&
        memcmp(on, hf->layers, (size_t)c->layers * sizeof(*on)) != 0) {
        char *text = dsf_layer_list_text(hf->layers, (int32_t)c->layers);

        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "window_layers",
                              "\"%.60s\": config.json in %s says \"%.60s\"",
                              job->model.window_layers, job->model.init, text);
        free(text);
    }
    free(on);
    return status;
}

/* The numbers of the model: those of the job, or of the folder it starts from,
 * and then which layers have a window. */
static int find_numbers(const struct dsf_job *job, struct dsf_job_model *c,
                        struct dsf_hf_windows *windows, struct dsflow_err *err)
{
    static const char *const keys[] = {
        "family",
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "width",
        "ffn_width",
        "vocab",
        "tied",
        "qkv_bias",
        "window",
        "rope_scaling",
        "rope_original_context",
        "norm_eps",
        "rope_theta",
        "rope_factor",
        "rope_low_freq_factor",
        "rope_high_freq_factor",
    };
    const struct dsf_job_model *j = &job->model;
    int status;

    *c = *j;
    if (strcmp(j->init, "random") == 0 || j->from_run)
        return DSFLOW_OK;
    status = dsf_hf_read_config(j->init, c, windows, err);
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && status >= 0; i++)
        status = agree(job, keys[i], c, err);
    if (status == DSFLOW_OK && dsf_job_has(job, "model", "window_layers"))
        status = agree_windows(job, c, windows, err);
    return status < 0 ? status : find_context(job, c, err);
}

/* The window of each layer, in memory that the caller frees; 0: none. */
static int list_windows(const struct dsf_job *job,
                        const struct dsf_job_model *c,
                        const struct dsf_hf_windows *hf, int32_t **windows,
                        struct dsflow_err *err)
{
    bool *on = dsf_xcalloc((size_t)c->layers, sizeof(*on));
    int status = DSFLOW_OK;

    *windows = dsf_xcalloc((size_t)c->layers, sizeof(**windows));
    if (hf->layers == NULL)
        status = read_windows(job, (int32_t)c->layers, on, err);
    else
        memcpy(on, hf->layers, (size_t)c->layers * sizeof(*on));
    for (int64_t l = 0; l < c->layers && c->window > 0; l++)
        (*windows)[l] = on[l] ? (int32_t)c->window : 0;
    free(on);
    return status;
}

static void fill_sizes(struct dsf_model *m, const struct dsf_job_model *c)
{
    const bool llama = c->family == DSF_LLAMA;

    m->family = (enum dsf_family)c->family;
    m->layers = (int32_t)c->layers;
    m->tied = c->tied;
    m->rope_theta = c->rope_theta;
    m->rope_llama3 = llama && c->rope_scaling != 0;
    m->rope_factor = c->rope_factor;
    m->rope_low_freq_factor = c->rope_low_freq_factor;
    m->rope_high_freq_factor = c->rope_high_freq_factor;
    m->rope_original_context = c->rope_original_context;
    m->dims = (struct dsf_dims){
        .width = (int32_t)c->width,
        .heads = (int32_t)c->heads,
        .kv_heads = (int32_t)(c->kv_heads < 0 ? c->heads : c->kv_heads),
        .head_dim =
            (int32_t)(c->head_dim < 0 ? c->width / c->heads : c->head_dim),
        .ffn = (int32_t)(c->ffn_width < 0 ? default_ffn(c) : c->ffn_width),
        .context = (int32_t)(c->context < 0 ? 1024 : c->context),
        .vocab = (int32_t)c->vocab,
        .vocab_rows = (int32_t)c->vocab,
        .vocab_step = 1,
        .rms = llama,
        .swiglu = llama,
        .rope = llama,
        .qkv_bias = !llama || c->qkv_bias,
        .out_bias = !llama,
        .mlp_bias = !llama,
        .eps = (float)c->norm_eps,
    };
}

int dsf_model_find_sizes(struct dsf_model *m, const struct dsf_job *job,
                         struct dsflow_err *err)
{
    struct dsf_hf_windows windows = { .layers = NULL };
    struct dsf_job_model c;
    int status = find_numbers(job, &c, &windows, err);

    if (status == DSFLOW_OK)
        status = check_shape(job, &c, err);
    if (status == DSFLOW_OK)
        status = check_family(job, &c, err);
    if (status == DSFLOW_OK)
        status = list_windows(job, &c, &windows, &m->windows, err);
    free(windows.layers);
    if (status < 0)
        return status;
    fill_sizes(m, &c);
    dsf_model_find_inputs(m, job);
    if (m->dims.rope && m->dims.head_dim % 2 != 0)
        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "heads",
                              "%lld: heads of %d: expected an even width for "
                              "rotary positions",
                              (long long)c.heads, (int)m->dims.head_dim);
    return status;
}
