/* model.c - the units of a model, from [model] of the job. */
#include "model/model.h"

#include "base/alloc.h"
#include "base/multiple.h"
#include "base/units.h"
#include "config/job_tables.h"
#include "config/layer_list.h"
#include "config/option.h"
#include "config/when.h"
#include "model/hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Unit `i` of a segment, unless the model has none. */
static void add_unit(struct dsf_model *m, const struct dsflow_layout *layout,
                     const struct dsflow_segment *segment, unsigned i)
{
    const char *name = dsf_segment_unit(segment, i);
    struct dsf_unit *u = &m->units[m->nunits];
    bool in_block = layout->layer >= 0 && layout->layer < m->layers;

    *u = (struct dsf_unit){ .segment = segment,
                            .index = i,
                            .layer = layout->layer,
                            .kind = -1,
                            .padding = m->dims.vocab_rows - m->dims.vocab };
    for (unsigned k = 0; k < DSFLOW_SEGMENT_TENSORS; k++)
        u->at[k] = -1;
    if (in_block)
        snprintf(u->name, sizeof(u->name), "layer%d.%s", (int)layout->layer,
                 name);
    else
        snprintf(u->name, sizeof(u->name), "%s", name);
    if (segment->tensors != NULL)
        dsf_unit_list(u, layout);
    else if (!segment->hooks->lay_out(layout, i, u))
        return;
    for (unsigned t = 0; t < u->ntensors; t++)
        m->params += u->tensors[t].rows * u->tensors[t].cols;
    u->block = dsf_unit_block(u->elems);
    u->elems = dsf_round_up(u->elems, u->block);
    u->file_elems = dsf_round_up(u->file_elems, dsf_unit_block(u->file_elems));
    m->nunits++;
    if (in_block)
        u->kind = m->nkinds;
    for (unsigned k = 0; k + 1 < m->nunits && in_block; k++)
        if (m->units[k].segment == segment && m->units[k].index == i &&
            m->units[k].kind >= 0 && m->units[k].elems == u->elems)
            u->kind = m->units[k].kind;
    m->nkinds += in_block && u->kind == m->nkinds;
}

static void add_layer(struct dsf_model *m, int32_t l)
{
    struct dsf_layer *layer = &m->layer[l + 1];
    const struct dsflow_layout layout = {
        .sizes = dsf_model_tile(m, l),
        .layer = l,
        .layers = m->layers,
        .llama = m->family == DSF_LLAMA,
        .tied = m->tied,
        .qkv_bias = layer->dims.qkv_bias,
        .out_bias = layer->dims.out_bias,
        .mlp_bias = layer->dims.mlp_bias,
    };

    layer->units = m->nunits;
    for (unsigned s = 0; layer->segments[s] != NULL; s++)
        for (unsigned i = 0; dsf_segment_unit(layer->segments[s], i) != NULL;
             i++)
            add_unit(m, &layout, layer->segments[s], i);
}

static void add_layers(struct dsf_model *m, dsf_layer_fn change, void *user)
{
    static const struct dsflow_segment *const first[] = { &dsf_segment_embed,
                                                          NULL };
    static const struct dsflow_segment *const last[] = { &dsf_segment_head,
                                                         NULL };
    size_t most = 0;

    m->layer = dsf_xcalloc((size_t)m->layers + 2, sizeof(*m->layer));
    for (int32_t l = -1; l <= m->layers; l++) {
        const struct dsflow_segment *const *s = l < 0           ? first
                                                : l < m->layers ? m->block
                                                                : last;

        m->layer[l + 1].segments = s;
        m->layer[l + 1].dims = m->dims;
        if (l >= 0 && l < m->layers)
            m->layer[l + 1].dims.window = m->windows[l];
        if (change != NULL && l >= 0 && l < m->layers)
            change(user, l, &m->layer[l + 1].dims);
        for (; *s != NULL; s++)
            most += DSFLOW_SEGMENT_UNITS;
    }
    m->units = dsf_xcalloc(most, sizeof(*m->units));
    for (int32_t l = -1; l <= m->layers; l++)
        add_layer(m, l);
}

/* Does each segment of a plug-in accept the sizes of its layers? */
static int check_segments(const struct dsf_model *m, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned u = 0; u < m->nunits && status == DSFLOW_OK; u++) {
        const struct dsf_unit *unit = &m->units[u];
        struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
        struct dsflow_site site = { .tile = dsf_model_tile(m, unit->layer),
                                    .at = { unit->at },
                                    .parts = 1,
                                    .padding = m->dims.vocab_rows -
                                               m->dims.vocab };

        site.tile.rows = site.tile.nseq = 1;
        if (unit->segment->hooks == NULL)
            status = dsf_segment_needs(unit->segment, &site, need, err);
    }
    return status;
}

/* The unit of the first layer, before unit `most`, that has a tensor of this
 * name; NULL: none. */
static const struct dsf_unit *having(const struct dsf_model *m,
                                     const char *name, unsigned most)
{
    for (unsigned u = dsf_model_layer(m, 0)->units; u < most; u++)
        for (unsigned t = 0; t < m->units[u].ntensors; t++)
            if (strcmp(m->units[u].tensors[t].name, name) == 0)
                return &m->units[u];
    return NULL;
}

/* What takes the place of attention does not know of windows. */
static int check_windows(const struct dsf_model *m, const struct dsf_job *job,
                         struct dsflow_err *err)
{
    int32_t window = 0;

    for (int32_t l = 0; l < m->layers; l++)
        window = m->windows[l] > window ? m->windows[l] : window;
    if (window == 0 || strcmp(job->model.attention, "builtin") == 0)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "attention",
                        "\"%s\": expected \"builtin\" with a window of %d: "
                        "what replaces it sees all tokens",
                        job->model.attention, (int)window);
}

/* Files know tensors by their names: each is there once. */
static int check_names(const struct dsf_model *m, const struct dsf_job *job,
                       struct dsflow_err *err)
{
    for (unsigned u = 0; u < m->nunits; u++) {
        const struct dsf_unit *unit = &m->units[u], *other;

        for (unsigned t = 0; t < unit->ntensors && unit->layer == 0; t++) {
            other = having(m, unit->tensors[t].name, u);
            if (other != NULL)
                return dsf_job_fail(job, err, DSFLOW_EINVAL, "model",
                                    "segments",
                                    "\"%s\": its tensor %s is one of \"%s\", "
                                    "too",
                                    unit->segment->name, unit->tensors[t].name,
                                    other->segment->name);
        }
    }
    return DSFLOW_OK;
}

unsigned dsf_model_unit(const struct dsf_model *m, int32_t l,
                        const struct dsflow_segment *segment, unsigned i)
{
    for (unsigned u = dsf_model_layer(m, l)->units;
         u < m->nunits && m->units[u].layer == l; u++)
        if (m->units[u].segment == segment && m->units[u].index == i)
            return u;
    return 0;
}

struct dsflow_tile dsf_model_tile(const struct dsf_model *m, int32_t l)
{
    const struct dsf_dims *d = &dsf_model_layer(m, l)->dims;

    return (struct dsflow_tile){ .width = d->width,
                                 .heads = d->heads,
                                 .kv_heads = d->kv_heads,
                                 .head_dim = d->head_dim,
                                 .ffn = d->ffn,
                                 .vocab = d->vocab_rows,
                                 .context = d->context,
                                 .rms = d->rms,
                                 .swiglu = d->swiglu,
                                 .rope = d->rope,
                                 .eps = d->eps };
}

double dsf_model_keys(const struct dsf_model *m, int32_t l, int64_t sequence)
{
    const double n = (double)sequence;
    const double window = (double)dsf_model_layer(m, l)->dims.window;

    return window == 0 || window >= n ? n : window * (2 - window / n);
}

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
    } sizes[] = { { "layers", c->layers }, { "heads", c->heads },
                  { "width", c->width },   { "vocab", c->vocab } };

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

int dsf_model_init(struct dsf_model *m, const struct dsf_job *job,
                   struct dsflow_err *err)
{
    return dsf_model_init_layers(m, job, NULL, NULL, err);
}

int dsf_model_init_layers(struct dsf_model *m, const struct dsf_job *job,
                          dsf_layer_fn change, void *user,
                          struct dsflow_err *err)
{
    struct dsf_hf_windows windows = { .layers = NULL };
    struct dsf_job_model c;
    bool llama;
    int status;

    memset(m, 0, sizeof(*m));
    status = find_numbers(job, &c, &windows, err);
    if (status == DSFLOW_OK)
        status = check_shape(job, &c, err);
    if (status == DSFLOW_OK)
        status = check_family(job, &c, err);
    if (status == DSFLOW_OK)
        status = list_windows(job, &c, &windows, &m->windows, err);
    free(windows.layers);
    if (status < 0) {
        dsf_model_fini(m);
        return status;
    }

    llama = c.family == DSF_LLAMA;
    m->family = (enum dsf_family)c.family;
    m->layers = (int32_t)c.layers;
    m->tied = c.tied;
    m->rope_theta = c.rope_theta;
    m->rope_llama3 = llama && c.rope_scaling != 0;
    m->rope_factor = c.rope_factor;
    m->rope_low_freq_factor = c.rope_low_freq_factor;
    m->rope_high_freq_factor = c.rope_high_freq_factor;
    m->rope_original_context = c.rope_original_context;
    m->dims = (struct dsf_dims){
        .width = (int32_t)c.width,
        .heads = (int32_t)c.heads,
        .kv_heads = (int32_t)(c.kv_heads < 0 ? c.heads : c.kv_heads),
        .head_dim = (int32_t)(c.head_dim < 0 ? c.width / c.heads : c.head_dim),
        .ffn = (int32_t)(c.ffn_width < 0 ? default_ffn(&c) : c.ffn_width),
        .context = (int32_t)(c.context < 0 ? 1024 : c.context),
        .vocab = (int32_t)c.vocab,
        .vocab_rows = (int32_t)c.vocab,
        .vocab_step = 1,
        .rms = llama,
        .swiglu = llama,
        .rope = llama,
        .qkv_bias = !llama || c.qkv_bias,
        .out_bias = !llama,
        .mlp_bias = !llama,
        .eps = (float)c.norm_eps,
    };
    if (llama && m->dims.head_dim % 2 != 0)
        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "heads",
                              "%lld: heads of %d: expected an even width for "
                              "rotary positions",
                              (long long)c.heads, (int)m->dims.head_dim);
    if (status == DSFLOW_OK && (m->block = dsf_job_segments(job, err)) == NULL)
        status = DSFLOW_EINVAL;
    if (status == DSFLOW_OK)
        status = check_windows(m, job, err);
    if (status == DSFLOW_OK) {
        add_layers(m, change, user);
        status = check_segments(m, err);
    }
    if (status == DSFLOW_OK)
        status = check_names(m, job, err);
    if (status < 0)
        dsf_model_fini(m);
    return status;
}

void dsf_model_pad(struct dsf_model *m)
{
    dsf_dims_pad(&m->dims);
    free(m->units);
    free(m->layer);
    m->nunits = 0;
    m->nkinds = 0;
    m->params = 0;
    add_layers(m, NULL, NULL);
}

void dsf_model_fini(struct dsf_model *m)
{
    free(m->units);
    free(m->layer);
    free(m->block);
    free(m->windows);
    m->windows = NULL;
    m->units = NULL;
    m->layer = NULL;
    m->block = NULL;
}

bool dsf_unit_is_as_in_files(const struct dsf_unit *u)
{
    const struct dsf_tensor *last = &u->tensors[u->ntensors - 1];

    return u->elems == u->file_elems && last->offset == last->file_offset;
}

void dsf_unit_from_file(const struct dsf_unit *u, float *v)
{
    int64_t end = u->elems; /* from here on, all is done */

    if (dsf_unit_is_as_in_files(u))
        return;
    for (unsigned i = u->ntensors; i-- > 0;) {
        const struct dsf_tensor *t = &u->tensors[i];
        const int64_t n = t->rows * t->cols, behind = t->offset + n;

        memmove(v + t->offset, v + t->file_offset, (size_t)n * sizeof(*v));
        memset(v + behind, 0, (size_t)(end - behind) * sizeof(*v));
        end = t->offset;
    }
}

void dsf_unit_to_file(const struct dsf_unit *u, float *v)
{
    int64_t done = 0;

    if (dsf_unit_is_as_in_files(u))
        return;
    for (unsigned i = 0; i < u->ntensors; i++) {
        const struct dsf_tensor *t = &u->tensors[i];
        const int64_t n = t->rows * t->cols;

        memset(v + done, 0, (size_t)(t->file_offset - done) * sizeof(*v));
        memmove(v + t->file_offset, v + t->offset, (size_t)n * sizeof(*v));
        done = t->file_offset + n;
    }
    memset(v + done, 0, (size_t)(u->file_elems - done) * sizeof(*v));
}

int dsf_unit_alloc(const struct dsf_model *m, unsigned u, float **to,
                   struct dsflow_err *err)
{
    size_t bytes = (size_t)m->units[u].elems * sizeof(float);

    *to = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    if (*to == NULL)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "memory: %s for unit %s of the model",
                           dsf_size_text((double)bytes).s, m->units[u].name);
    return DSFLOW_OK;
}
