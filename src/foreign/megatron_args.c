/* megatron_args.c - what the arguments that Megatron-LM was called with, which
 * are in its files, say of the model that no shape says. */
#include "foreign/megatron_private.h"

#include "base/alloc.h"
#include "model/model.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct dsf_torch_node *arg(const struct dsf_megatron *m,
                                        const char *key)
{
    const struct dsf_torch_node *node = dsf_torch_find(m->args, key);

    return node == NULL || node->kind == DSF_TORCH_NONE ? NULL : node;
}

bool dsf_megatron_flag(const struct dsf_megatron *m, const char *key,
                       bool fallback)
{
    const struct dsf_torch_node *node = arg(m, key);

    return node != NULL && node->kind == DSF_TORCH_BOOL ? node->truth
                                                        : fallback;
}

double dsf_megatron_number(const struct dsf_megatron *m, const char *key,
                           double fallback)
{
    const struct dsf_torch_node *node = arg(m, key);

    if (node != NULL && node->kind == DSF_TORCH_INT)
        return (double)node->integer.value;
    return node != NULL && node->kind == DSF_TORCH_FLOAT ? node->real
                                                         : fallback;
}

static const char *text(const struct dsf_megatron *m, const char *key,
                        const char *fallback)
{
    const struct dsf_torch_node *node = arg(m, key);

    return node != NULL && node->kind == DSF_TORCH_STR ? node->str : fallback;
}

/* --- as keys of a job ----------------------------------------------------- */

struct keys {
    const struct dsf_megatron *m;
    char **sets;
    unsigned n;
};

static void add(struct keys *k, const char *key, const char *value)
{
    if (k->n < DSF_MEGATRON_SETS)
        k->sets[k->n++] = dsf_xasprintf("model.%s=%s", key, value);
}

static void add_flag(struct keys *k, const char *key, bool value)
{
    add(k, key, value ? "true" : "false");
}

/* Where there is one of the two. */
static void add_number(struct keys *k, const char *key, const char *from,
                       const char *or_from)
{
    double value = dsf_megatron_number(k->m, from, NAN);
    char text[40];

    if (isnan(value) && or_from != NULL)
        value = dsf_megatron_number(k->m, or_from, NAN);
    if (isnan(value))
        return;
    snprintf(text, sizeof(text), "%.15g", value);
    add(k, key, text);
}

static void add_llama(struct keys *k)
{
    add_number(k, "ffn_width", "ffn_hidden_size", NULL);
    add_number(k, "head_dim", "kv_channels", NULL);
    add_number(k, "kv_heads",
               dsf_megatron_flag(k->m, "group_query_attention", false)
                   ? "num_query_groups"
                   : "num_attention_heads",
               NULL);
    add_number(k, "rope_theta", "rotary_base", NULL);
    add_flag(
        k, "tied",
        !dsf_megatron_flag(k->m, "untie_embeddings_and_output_weights", false));
    add_flag(k, "qkv_bias",
             dsf_megatron_flag(k->m, "add_qkv_bias", false) ||
                 dsf_megatron_flag(k->m, "add_bias_linear", true));
}

/* The padded vocabulary is Megatron's own: its loss is over all of it. What
 * else the model is, and a family of dsflow's is not, dsf_megatron_check says.
 */
unsigned dsf_megatron_keys(const struct dsf_megatron *m,
                           char *sets[DSF_MEGATRON_SETS])
{
    struct keys k = { m, sets, 0 };
    bool rope = strcmp(text(m, "position_embedding_type", "learned_absolute"),
                       "rope") == 0;

    add(&k, "family", rope ? "llama" : "gpt2");
    add_number(&k, "layers", "num_layers", NULL);
    add_number(&k, "heads", "num_attention_heads", NULL);
    add_number(&k, "width", "hidden_size", NULL);
    add_number(&k, "context", "max_position_embeddings", NULL);
    add_number(&k, "vocab", "padded_vocab_size", NULL);
    add_number(&k, "norm_eps", "norm_epsilon", "layernorm_epsilon");
    if (rope)
        add_llama(&k);
    return k.n;
}

/* --- against a job -------------------------------------------------------- */

struct check {
    const struct dsf_megatron *m;
    void (*say)(void *user, const char *line);
    void *user;
};

DSFLOW_PRINTF(3, 4)
static void differs(const struct check *c, const char *key, const char *fmt,
                    ...)
{
    char what[300], line[700];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(what, sizeof(what), fmt, ap);
    va_end(ap);
    snprintf(line, sizeof(line), "%.300s: args.%s: %s",
             dsf_torch_path(c->m->first), key, what);
    c->say(c->user, line);
}

/* A number that must be that of the job, where it is there. */
static void same_number(const struct check *c, const char *key,
                        const char *job_key, double of_job)
{
    double value = dsf_megatron_number(c->m, key, of_job);

    /* Numbers of a job may be of fp32. */
    if (fabs(value - of_job) > 1e-6 * fabs(of_job))
        differs(c, key, "%.9g: the job has %s = %.9g", value, job_key, of_job);
}

/* A flag that must be as the job has it. */
static void same_flag(const struct check *c, const char *key, bool of_job,
                      const char *job_is)
{
    if (dsf_megatron_flag(c->m, key, of_job) != of_job)
        differs(c, key, "%s: the model of the job %s",
                of_job ? "false" : "true", job_is);
}

static void same_text(const struct check *c, const char *key, const char *want)
{
    const char *value = text(c->m, key, want);

    if (strcmp(value, want) != 0)
        differs(c, key, "%.60s: the model of the job needs %s", value, want);
}

static void check_sizes(const struct check *c, const struct dsf_model *model)
{
    const struct dsf_dims *d = &model->dims;
    double heads = dsf_megatron_number(c->m, "num_attention_heads", d->heads);
    bool grouped = dsf_megatron_flag(c->m, "group_query_attention", false);

    same_number(c, "num_layers", "model.layers", model->layers);
    same_number(c, "hidden_size", "model.width", d->width);
    same_number(c, "num_attention_heads", "model.heads", d->heads);
    if (grouped)
        same_number(c, "num_query_groups", "model.kv_heads", d->kv_heads);
    else if (arg(c->m, "num_attention_heads") != NULL && heads == d->heads &&
             d->kv_heads != d->heads)
        differs(c, "group_query_attention",
                "false: the job has model.kv_heads = %d of %d heads",
                (int)d->kv_heads, (int)d->heads);
    same_number(c, "kv_channels", "model.head_dim", d->head_dim);
    same_number(c, "ffn_hidden_size", "model.ffn_width", d->ffn);
    same_number(c,
                arg(c->m, "norm_epsilon") != NULL ? "norm_epsilon"
                                                  : "layernorm_epsilon",
                "model.norm_eps", (double)d->eps);
}

static void check_positions(const struct check *c, const struct dsf_model *m)
{
    same_text(c, "position_embedding_type",
              m->dims.rope ? "rope" : "learned_absolute");
    if (!m->dims.rope) {
        same_number(c, "max_position_embeddings", "model.context",
                    m->dims.context);
        return;
    }
    same_number(c, "rotary_base", "model.rope_theta", m->rope_theta);
    if (dsf_megatron_number(c->m, "rotary_percent", 1) != 1)
        differs(c, "rotary_percent", "%g: dsflow turns all of a head, 1",
                dsf_megatron_number(c->m, "rotary_percent", 1));
    same_flag(c, "rotary_interleaved", false, "turns halves of a head");
    if (dsf_megatron_flag(c->m, "use_rope_scaling", m->rope_llama3) !=
        m->rope_llama3)
        differs(c, "use_rope_scaling", "the job has model.rope_scaling = %s",
                m->rope_llama3 ? "\"llama3\"" : "\"none\"");
}

/* What shapes show as well (biases, a head of its own) is told by the tensors
 * that are missing or left over. */
static void check_kinds(const struct check *c, const struct dsf_model *m)
{
    same_text(c, "normalization", m->dims.rms ? "RMSNorm" : "LayerNorm");
    same_flag(c, "swiglu", m->dims.swiglu != 0,
              m->dims.swiglu ? "has SwiGLU" : "has GELU");
    same_flag(c, "squared_relu", false, "has no squared ReLU");
    same_flag(c, "apply_layernorm_1p", false, "has norms as they are");
    same_flag(c, "layernorm_zero_centered_gamma", false,
              "has norms as they are");
    same_flag(c, "apply_residual_connection_post_layernorm", false,
              "adds what is before the norm");
    same_flag(c, "qk_layernorm", false, "has no norms of queries and keys");
    if (arg(c->m, "window_size") != NULL)
        differs(c, "window_size", "the model of the job sees all tokens");
}

void dsf_megatron_check(const struct dsf_source *s,
                        const struct dsf_model *model,
                        void (*say)(void *user, const char *line), void *user)
{
    const struct dsf_megatron *m = s->of;
    const struct check c = { m, say, user };

    if (m->args == NULL)
        return;
    check_sizes(&c, model);
    check_kinds(&c, model);
    check_positions(&c, model);
}
