/* model.c - the units of a model, from [model] of the job. */
#include "model/model.h"

#include "base/alloc.h"
#include "base/units.h"
#include "model/hf.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* GPT-2's rule: weights are normal(0, 0.02), and those that write to the
 * residual stream are scaled down with the depth (Radford et al. 2019, 2.3). */
#define INIT_STD 0.02f

static int64_t round_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Append a tensor to a unit. Fused tensors follow each other without a gap;
 * whoever begins a new matrix or vector calls align first. */
static struct dsf_tensor *add(struct dsf_unit *u, int64_t rows, int64_t cols,
                              float std, const char *fmt, ...)
    __attribute__((format(printf, 5, 6)));

static struct dsf_tensor *add(struct dsf_unit *u, int64_t rows, int64_t cols,
                              float std, const char *fmt, ...)
{
    struct dsf_tensor *t = &u->tensors[u->ntensors++];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(t->name, sizeof(t->name), fmt, ap);
    va_end(ap);
    t->rows = rows;
    t->cols = cols;
    t->offset = u->elems;
    t->init_std = std;
    u->elems += rows * cols;
    return t;
}

static void add_vector(struct dsf_unit *u, int64_t n, float value,
                       const char *name, const char *suffix)
{
    struct dsf_tensor *t = add(u, 1, n, 0, "%s%s", name, suffix);

    t->vector = true;
    t->init_value = value;
}

static int64_t align(struct dsf_unit *u)
{
    return u->elems = round_up(u->elems, 16);
}

/* From here on, nothing decays. */
static void end_matrices(struct dsf_unit *u)
{
    u->decay = align(u);
}

static struct dsf_unit *add_unit(struct dsf_model *m, enum dsf_segment segment,
                                 int layer, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static struct dsf_unit *add_unit(struct dsf_model *m, enum dsf_segment segment,
                                 int layer, const char *fmt, ...)
{
    struct dsf_unit *u = &m->units[m->nunits++];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(u->name, sizeof(u->name), fmt, ap);
    va_end(ap);
    u->segment = segment;
    u->layer = layer;
    return u;
}

/* Names of the two families: what stands before a layer's tensors, and the
 * tensors themselves. */
static const char *prefix(const struct dsf_model *m, int l, char *buf,
                          size_t size)
{
    snprintf(buf, size, m->family == DSF_GPT2 ? "transformer.h.%d" :
                                                "model.layers.%d", l);
    return buf;
}

/* The norm of a segment: weight, and bias unless it is RMSNorm. */
static void add_norm(const struct dsf_model *m, struct dsf_unit *u,
                     const char *name, int64_t *w, int64_t *b)
{
    *w = align(u);
    add_vector(u, m->dims.width, 1, name, ".weight");
    *b = -1;
    if (m->dims.rms)
        return;
    *b = align(u);
    add_vector(u, m->dims.width, 0, name, ".bias");
}

static void add_embed(struct dsf_model *m)
{
    struct dsf_unit *u = add_unit(m, DSF_EMBED, -1, "embed");
    bool gpt2 = m->family == DSF_GPT2;

    m->embed_at = (struct dsf_embed_at){ 0, -1 };
    add(u, m->dims.vocab, m->dims.width, INIT_STD, "%s",
        gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight");
    if (!m->dims.rope) {
        m->embed_at.wpe = align(u);
        add(u, m->dims.context, m->dims.width, INIT_STD,
            "transformer.wpe.weight");
    }
    end_matrices(u);
}

static void add_qkv(struct dsf_model *m, int l)
{
    struct dsf_unit *u = add_unit(m, DSF_QKV, l, "layer%d.qkv", l);
    const struct dsf_dims *d = &m->dims;
    int64_t nq = (int64_t)d->heads * d->head_dim;
    int64_t nk = (int64_t)d->kv_heads * d->head_dim;
    static const char *const parts[] = { "q", "k", "v" };
    char p[48], norm[96];

    prefix(m, l, p, sizeof(p));
    m->qkv_at.w = 0;
    if (m->family == DSF_GPT2) {
        add(u, nq + 2 * nk, d->width, INIT_STD, "%s.attn.c_attn.weight", p)
            ->transposed = true;
    } else {
        for (int i = 0; i < 3; i++)
            add(u, i == 0 ? nq : nk, d->width, INIT_STD,
                "%s.self_attn.%s_proj.weight", p, parts[i]);
    }
    end_matrices(u);
    m->qkv_at.b = d->qkv_bias ? u->elems : -1;
    if (d->qkv_bias && m->family == DSF_GPT2) {
        add_vector(u, nq + 2 * nk, 0, p, ".attn.c_attn.bias");
    } else if (d->qkv_bias) {
        for (int i = 0; i < 3; i++) {
            char name[80];

            snprintf(name, sizeof(name), "%s.self_attn.%s_proj", p, parts[i]);
            add_vector(u, i == 0 ? nq : nk, 0, name, ".bias");
        }
    }
    snprintf(norm, sizeof(norm), "%s.%s", p,
             m->family == DSF_GPT2 ? "ln_1" : "input_layernorm");
    add_norm(m, u, norm, &m->qkv_at.norm_w, &m->qkv_at.norm_b);
}

static void add_out(struct dsf_model *m, int l)
{
    struct dsf_unit *u = add_unit(m, DSF_OUT, l, "layer%d.out", l);
    const struct dsf_dims *d = &m->dims;
    bool gpt2 = m->family == DSF_GPT2;
    float std = INIT_STD / sqrtf(2.0f * (float)m->layers);
    char p[48], name[80];

    prefix(m, l, p, sizeof(p));
    snprintf(name, sizeof(name), "%s.%s", p,
             gpt2 ? "attn.c_proj" : "self_attn.o_proj");
    m->out_at.w = 0;
    add(u, d->width, (int64_t)d->heads * d->head_dim, std, "%s.weight", name)
        ->transposed = gpt2;
    end_matrices(u);
    m->out_at.b = d->out_bias ? u->elems : -1;
    if (d->out_bias)
        add_vector(u, d->width, 0, name, ".bias");
}

static void add_mlp(struct dsf_model *m, int l)
{
    struct dsf_unit *u = add_unit(m, DSF_MLP, l, "layer%d.mlp", l);
    const struct dsf_dims *d = &m->dims;
    bool gpt2 = m->family == DSF_GPT2;
    float std = INIT_STD / sqrtf(2.0f * (float)m->layers);
    char p[48], norm[96], name[80];

    prefix(m, l, p, sizeof(p));
    m->mlp_at.w1 = 0;
    if (d->swiglu) {
        add(u, d->ffn, d->width, INIT_STD, "%s.mlp.gate_proj.weight", p);
        add(u, d->ffn, d->width, INIT_STD, "%s.mlp.up_proj.weight", p);
    } else {
        add(u, d->ffn, d->width, INIT_STD, "%s.mlp.c_fc.weight", p)
            ->transposed = true;
    }
    m->mlp_at.w2 = align(u);
    snprintf(name, sizeof(name), "%s.mlp.%s", p, gpt2 ? "c_proj" : "down_proj");
    add(u, d->width, d->ffn, std, "%s.weight", name)->transposed = gpt2;
    end_matrices(u);
    m->mlp_at.b1 = m->mlp_at.b2 = -1;
    if (d->mlp_bias) {
        m->mlp_at.b1 = u->elems;
        add_vector(u, d->ffn, 0, p, ".mlp.c_fc.bias");
        m->mlp_at.b2 = align(u);
        add_vector(u, d->width, 0, name, ".bias");
    }
    snprintf(norm, sizeof(norm), "%s.%s", p,
             gpt2 ? "ln_2" : "post_attention_layernorm");
    add_norm(m, u, norm, &m->mlp_at.norm_w, &m->mlp_at.norm_b);
}

static void add_units(struct dsf_model *m)
{
    struct dsf_unit *u;

    m->units = dsf_xcalloc(3 * (size_t)m->layers + 3, sizeof(*m->units));
    add_embed(m);
    for (int l = 0; l < m->layers; l++) {
        add_qkv(m, l);
        add_out(m, l);
        add_mlp(m, l);
    }
    u = add_unit(m, DSF_NORM, m->layers, "norm");
    add_norm(m, u, m->family == DSF_GPT2 ? "transformer.ln_f" : "model.norm",
             &m->norm_at.w, &m->norm_at.b);
    m->head_at.w = m->embed_at.wte;
    if (!m->tied) {
        u = add_unit(m, DSF_HEAD, m->layers, "head");
        m->head_at.w = 0;
        add(u, m->dims.vocab, m->dims.width, INIT_STD, "lm_head.weight");
        end_matrices(u);
    }
    for (unsigned i = 0; i < m->nunits; i++) {
        u = &m->units[i];
        for (unsigned t = 0; t < u->ntensors; t++)
            m->params += u->tensors[t].rows * u->tensors[t].cols;
        u->block = dsf_unit_block(u->elems);
        u->elems = round_up(u->elems, u->block);
    }
}

int64_t dsf_unit_block(int64_t elems)
{
    return round_up(elems / 4096 + 1, 1024);
}

/* The units stand in a fixed order: embed, three for each layer, norm, head. */
unsigned dsf_model_unit(const struct dsf_model *m, enum dsf_segment segment,
                        int32_t layer)
{
    switch (segment) {
    case DSF_EMBED:
        return 0;
    case DSF_QKV:
    case DSF_OUT:
    case DSF_MLP:
        return 1 + 3 * (unsigned)layer + (unsigned)(segment - DSF_QKV);
    case DSF_NORM:
        return 1 + 3 * (unsigned)m->layers;
    case DSF_HEAD:
        break;
    }
    return m->tied ? 0 : 2 + 3 * (unsigned)m->layers;
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
                                 : round_up((8 * c->width + 2) / 3, 64);
}

/* A key that is given in the job must say what config.json says. */
static int agree(const struct dsf_job *job, const char *key, int64_t asked,
                 int64_t is, struct dsflow_err *err)
{
    if (!dsf_job_has(job, "model", key) || asked < 0 || asked == is)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", key,
                        "%lld: config.json in %s says %lld", (long long)asked,
                        job->model.init, (long long)is);
}

/* The same of a number that is no whole one. */
static int agree_real(const struct dsf_job *job, const char *key, double asked,
                      double is, struct dsflow_err *err)
{
    if (!dsf_job_has(job, "model", key) || (float)asked == (float)is)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", key,
                        "%g: config.json in %s says %g", asked, job->model.init,
                        is);
}

/* The context of a folder's model: rotary positions have no parameters, so a
 * job may take fewer. Where attention slides, sequences that fit in the window
 * see all of themselves, as without one; longer ones are refused. */
static int find_context(const struct dsf_job *job, struct dsf_job_model *c,
                        int64_t window, struct dsflow_err *err)
{
    bool given = dsf_job_has(job, "model", "context") && job->model.context > 0;
    int64_t longest = job->batch.sequence;
    int status = DSFLOW_OK;

    if (given && (c->family == DSF_GPT2 || job->model.context > c->context))
        status = agree(job, "context", job->model.context, c->context, err);
    else if (given)
        c->context = job->model.context;
    if (status < 0 || window == 0)
        return status;
    if (longest < 0)
        longest = c->context;
    if (longest > window)
        return dsf_job_fail(job, err, DSFLOW_EINVAL,
                            job->batch.sequence < 0 ? "model" : "batch",
                            job->batch.sequence < 0 ? "context" : "sequence",
                            "%lld: config.json in %s means a sliding window "
                            "of %lld tokens, which is for sequences that fit "
                            "in it: expected model.context or batch.sequence "
                            "of %lld at most",
                            (long long)longest, job->model.init,
                            (long long)window, (long long)window);
    if (c->context > window)
        c->context = window;
    return DSFLOW_OK;
}

/* The numbers of the model: those of the job, or of the folder it starts
 * from. */
static int find_numbers(const struct dsf_job *job, struct dsf_job_model *c,
                        struct dsflow_err *err)
{
    const struct dsf_job_model *j = &job->model;
    int64_t window;
    int status;

    *c = *j;
    if (strcmp(j->init, "random") == 0 || j->from_run)
        return DSFLOW_OK;
    status = dsf_hf_read_config(j->init, c, &window, err);
    if (status < 0)
        return status;
    const struct {
        const char *key;
        int64_t asked, is;
    } keys[] = {
        { "family", j->family, c->family },
        { "layers", j->layers, c->layers },
        { "heads", j->heads, c->heads },
        { "kv_heads", j->kv_heads, c->kv_heads },
        { "head_dim", j->head_dim, c->head_dim },
        { "width", j->width, c->width },
        { "ffn_width", j->ffn_width, c->ffn_width },
        { "vocab", j->vocab, c->vocab },
        { "tied", j->tied, c->tied },
        { "qkv_bias", j->qkv_bias, c->qkv_bias },
        { "rope_scaling", j->rope_scaling, c->rope_scaling },
        { "rope_original_context", j->rope_original_context,
          c->rope_original_context },
    };
    const struct {
        const char *key;
        double asked, is;
    } reals[] = {
        { "norm_eps", j->norm_eps, c->norm_eps },
        { "rope_theta", j->rope_theta, c->rope_theta },
        { "rope_factor", j->rope_factor, c->rope_factor },
        { "rope_low_freq_factor", j->rope_low_freq_factor,
          c->rope_low_freq_factor },
        { "rope_high_freq_factor", j->rope_high_freq_factor,
          c->rope_high_freq_factor },
    };
    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && status >= 0; i++)
        status = agree(job, keys[i].key, keys[i].asked, keys[i].is, err);
    for (size_t i = 0; i < sizeof(reals) / sizeof(*reals) && status >= 0; i++)
        status =
            agree_real(job, reals[i].key, reals[i].asked, reals[i].is, err);
    return status < 0 ? status : find_context(job, c, window, err);
}

int dsf_model_init(struct dsf_model *m, const struct dsf_job *job,
                   struct dsflow_err *err)
{
    struct dsf_job_model c;
    bool llama;
    int status;

    memset(m, 0, sizeof(*m));
    status = find_numbers(job, &c, err);
    if (status == DSFLOW_OK)
        status = check_shape(job, &c, err);
    if (status == DSFLOW_OK)
        status = check_family(job, &c, err);
    if (status < 0)
        return status;

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
        .rms = llama,
        .swiglu = llama,
        .rope = llama,
        .qkv_bias = !llama || c.qkv_bias,
        .out_bias = !llama,
        .mlp_bias = !llama,
        .eps = (float)c.norm_eps,
    };
    if (llama && m->dims.head_dim % 2 != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "heads",
                            "%lld: heads of %d: expected an even width for "
                            "rotary positions",
                            (long long)c.heads, (int)m->dims.head_dim);
    add_units(m);
    return DSFLOW_OK;
}

void dsf_model_fini(struct dsf_model *m)
{
    free(m->units);
    m->units = NULL;
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
