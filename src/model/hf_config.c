/* hf_config.c - config.json of a Hugging Face folder: every key that changes
 * the arithmetic is honoured, or refused by name. */
#include "model/hf.h"

#include "base/alloc.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A config.json being read; the first thing that is wrong stays in `err`. */
struct config {
    const char *path;
    json_t *root;
    int status;
    struct dsflow_err *err;
};

static void wrong(struct config *c, const char *key, const char *expected)
{
    char *text;

    if (c->status < 0)
        return;
    text = json_dumps(json_object_get(c->root, key), JSON_ENCODE_ANY);
    c->status = dsflow_fail(c->err, DSFLOW_EINVAL, "%s: %s: %.60s: expected %s",
                            c->path, key, text != NULL ? text : "is missing",
                            expected);
    free(text);
}

static const json_t *get(const struct config *c, const char *key)
{
    const json_t *v = json_object_get(c->root, key);

    return json_is_null(v) ? NULL : v;
}

/* A whole number from 1 to `most`; absent: `fallback`, or an error if -1. */
static int64_t whole(struct config *c, const char *key, int64_t fallback,
                     int64_t most)
{
    const json_t *v = get(c, key);
    char expected[64];

    if (v == NULL && fallback >= 0)
        return fallback;
    if (json_is_integer(v) && json_integer_value(v) >= 1 &&
        json_integer_value(v) <= most)
        return json_integer_value(v);
    snprintf(expected, sizeof(expected), "a whole number, 1 to %lld",
             (long long)most);
    wrong(c, key, expected);
    return 1;
}

static double number(struct config *c, const char *key, double fallback)
{
    const json_t *v = get(c, key);

    if (v == NULL)
        return fallback;
    if (json_is_number(v) && json_number_value(v) > 0)
        return json_number_value(v);
    wrong(c, key, "a number above 0");
    return fallback;
}

static bool flag(struct config *c, const char *key, bool fallback)
{
    const json_t *v = get(c, key);

    if (v == NULL)
        return fallback;
    if (json_is_boolean(v))
        return json_is_true(v);
    wrong(c, key, "true or false");
    return fallback;
}

/* A flag that this version knows at one value only. */
static void only(struct config *c, const char *key, bool absent, bool is)
{
    if (flag(c, key, absent) != is)
        wrong(c, key, is ? "true" : "false");
}

static bool one_of(const struct config *c, const char *key,
                   const char *const *names)
{
    const char *text = json_string_value(get(c, key));

    for (; text != NULL && *names != NULL; names++)
        if (strcmp(text, *names) == 0)
            return true;
    return false;
}

static void read_gpt2(struct config *c, struct dsf_job_model *m)
{
    static const char *const gelus[] = { "gelu_new", "gelu_pytorch_tanh",
                                         NULL };

    m->family = DSF_GPT2;
    m->layers = whole(c, "n_layer", 12, 1024);
    m->heads = m->kv_heads = whole(c, "n_head", 12, 1024);
    m->width = whole(c, "n_embd", 768, 65536);
    m->context = whole(c, "n_positions", 1024, 1048576);
    m->vocab = whole(c, "vocab_size", 50257, 4194304);
    m->ffn_width = whole(c, "n_inner", 4 * m->width, 1048576);
    m->norm_eps = number(c, "layer_norm_epsilon", 1e-5);
    m->head_dim = m->width / m->heads;
    m->tied = true;
    m->qkv_bias = true;
    if (get(c, "activation_function") != NULL &&
        !one_of(c, "activation_function", gelus))
        wrong(c, "activation_function", "gelu_new or gelu_pytorch_tanh");
    only(c, "scale_attn_weights", true, true);
    only(c, "scale_attn_by_inverse_layer_idx", false, false);
    only(c, "add_cross_attention", false, false);
    only(c, "tie_word_embeddings", true, true);
    if (m->width % m->heads != 0)
        wrong(c, "n_head", "a divisor of n_embd");
}

/* rope_scaling, or rope_parameters as newer versions of transformers write
 * it, with rope_theta inside. */
static void read_rope(struct config *c, struct dsf_job_model *m)
{
    const char *key =
        get(c, "rope_parameters") != NULL ? "rope_parameters" : "rope_scaling";
    const json_t *rope = get(c, key), *v;
    const char *type;

    m->rope_theta = number(c, "rope_theta", 10000);
    m->rope_scaling = 0;
    if (rope == NULL)
        return;
    if (!json_is_object(rope)) {
        wrong(c, key, "an object");
        return;
    }
    v = json_object_get(rope, "rope_theta");
    if (json_is_number(v))
        m->rope_theta = json_number_value(v);
    type = json_string_value(json_object_get(rope, "rope_type"));
    if (type == NULL)
        type = json_string_value(json_object_get(rope, "type"));
    if (type == NULL || strcmp(type, "default") == 0)
        return;
    if (strcmp(type, "llama3") != 0) {
        wrong(c, key, "rope_type default or llama3");
        return;
    }
    m->rope_scaling = 1;
    m->rope_factor = json_number_value(json_object_get(rope, "factor"));
    m->rope_low_freq_factor =
        json_number_value(json_object_get(rope, "low_freq_factor"));
    m->rope_high_freq_factor =
        json_number_value(json_object_get(rope, "high_freq_factor"));
    m->rope_original_context = json_integer_value(
        json_object_get(rope, "original_max_position_embeddings"));
    if (!(m->rope_factor >= 1 && m->rope_low_freq_factor > 0 &&
          m->rope_high_freq_factor > m->rope_low_freq_factor &&
          m->rope_original_context > 0))
        wrong(c, key, "factor, low_freq_factor < high_freq_factor and "
                      "original_max_position_embeddings");
}

static void read_llama(struct config *c, struct dsf_job_model *m, bool qwen2)
{
    static const char *const silu[] = { "silu", "swish", NULL };

    m->family = DSF_LLAMA;
    m->layers = whole(c, "num_hidden_layers", -1, 1024);
    m->heads = whole(c, "num_attention_heads", -1, 1024);
    m->kv_heads = whole(c, "num_key_value_heads", m->heads, 1024);
    m->width = whole(c, "hidden_size", -1, 65536);
    m->ffn_width = whole(c, "intermediate_size", -1, 1048576);
    m->context = whole(c, "max_position_embeddings", 2048, 1048576);
    m->vocab = whole(c, "vocab_size", -1, 4194304);
    m->norm_eps = number(c, "rms_norm_eps", 1e-6);
    m->tied = flag(c, "tie_word_embeddings", false);
    m->qkv_bias = qwen2;
    if (get(c, "head_dim") == NULL && m->width % m->heads != 0)
        wrong(c, "num_attention_heads", "a divisor of hidden_size");
    m->head_dim = whole(c, "head_dim", m->width / m->heads, 1024);
    if (m->heads % m->kv_heads != 0)
        wrong(c, "num_key_value_heads", "a divisor of num_attention_heads");
    if (get(c, "hidden_act") != NULL && !one_of(c, "hidden_act", silu))
        wrong(c, "hidden_act", "silu");
    only(c, "attention_bias", false, false);
    only(c, "mlp_bias", false, false);
    only(c, "use_sliding_window", false, false);
    if (!qwen2 && get(c, "sliding_window") != NULL)
        wrong(c, "sliding_window", "null");
    read_rope(c, m);
}

int dsf_hf_read_config(const char *folder, struct dsf_job_model *out,
                       struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/config.json", folder);
    struct config c = { .path = path, .err = err };
    const char *type;
    json_error_t why;

    c.root = json_load_file(path, JSON_REJECT_DUPLICATES, &why);
    type = json_string_value(json_object_get(c.root, "model_type"));
    if (!json_is_object(c.root))
        c.status = dsflow_fail(err, DSFLOW_EINVAL, "%s:%d: %s", path,
                               c.root == NULL && why.line > 0 ? why.line : 1,
                               c.root == NULL ? why.text
                                              : "expected an object");
    else if (type != NULL && strcmp(type, "gpt2") == 0)
        read_gpt2(&c, out);
    else if (type != NULL && (strcmp(type, "llama") == 0 ||
                              strcmp(type, "mistral") == 0))
        read_llama(&c, out, false);
    else if (type != NULL && strcmp(type, "qwen2") == 0)
        read_llama(&c, out, true);
    else
        wrong(&c, "model_type", "gpt2, llama, mistral or qwen2");
    json_decref(c.root);
    free(path);
    return c.status;
}
