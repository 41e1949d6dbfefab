/* hf_config.c - config.json of a Hugging Face folder: every key that changes
 * the arithmetic is honoured, or refused by name. What is absent means what it
 * means to transformers. */
#include "model/hf.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

#define MOST_CONFIG ((int64_t)16 << 20)

/* A config.json being read, or an object in it; the first thing that is wrong
 * stays in `err`. */
struct config {
    const char *path; /* of the file, with the key of the object */
    const json_t *object;
    int *status;
    struct dsflow_err *err;
};

/* What an absent key means: this number, or nothing good. */
#define REQUIRED (-1)

static void wrong(const struct config *c, const char *key, const char *expected)
{
    const json_t *v = json_object_get(c->object, key);
    char *text;

    if (*c->status < 0)
        return;
    text = json_dumps(v, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
    *c->status =
        v == NULL
            ? dsflow_fail(c->err, DSFLOW_EINVAL,
                          "%s: %s: is missing: expected %s", c->path, key,
                          expected)
            : dsflow_fail(c->err, DSFLOW_EINVAL, "%s: %s: %.60s: expected %s",
                          c->path, key, text != NULL ? text : "?", expected);
    free(text);
}

static bool has(const struct config *c, const char *key)
{
    return json_object_get(c->object, key) != NULL;
}

/* The key says something: it is neither absent nor null. */
static bool says(const struct config *c, const char *key)
{
    return has(c, key) && !json_is_null(json_object_get(c->object, key));
}

/* A whole number from `least` to `most`. */
static int64_t whole(const struct config *c, const char *key, int64_t absent,
                     int64_t least, int64_t most)
{
    const json_t *v = json_object_get(c->object, key);
    char expected[80];

    if (v == NULL && absent != REQUIRED)
        return absent;
    if (json_is_integer(v) && json_integer_value(v) >= least &&
        json_integer_value(v) <= most)
        return json_integer_value(v);
    snprintf(expected, sizeof(expected), "a whole number, %lld to %lld",
             (long long)least, (long long)most);
    wrong(c, key, expected);
    return least > 0 ? least : 1;
}

/* The same of a key that may be null, which means `null`. */
static int64_t whole_or_null(const struct config *c, const char *key,
                             int64_t absent, int64_t null, int64_t most)
{
    if (has(c, key) && !says(c, key))
        return null;
    return whole(c, key, absent, 1, most);
}

static double number(const struct config *c, const char *key, double absent,
                     double least, double most)
{
    const json_t *v = json_object_get(c->object, key);
    char expected[80];

    if (v == NULL && absent != REQUIRED)
        return absent;
    if (json_is_number(v) && json_number_value(v) >= least &&
        json_number_value(v) <= most)
        return json_number_value(v);
    if (least == most)
        snprintf(expected, sizeof(expected), "%g", least);
    else
        snprintf(expected, sizeof(expected), "a number, %g to %g", least, most);
    wrong(c, key, expected);
    return least;
}

static bool flag(const struct config *c, const char *key, bool absent)
{
    const json_t *v = json_object_get(c->object, key);

    if (v == NULL)
        return absent;
    if (json_is_boolean(v))
        return json_is_true(v);
    wrong(c, key, "true or false");
    return absent;
}

/* A flag that this version knows at one value only, which it also has where it
 * is absent. */
static void only(const struct config *c, const char *key, bool is)
{
    if (flag(c, key, is) != is)
        wrong(c, key, is ? "true" : "false");
}

/* What `key` says, or means where it is absent, must divide another number. */
static void divides(const struct config *c, const char *key, int64_t n,
                    const char *whole_key, int64_t whole)
{
    if (whole % n == 0 || *c->status < 0)
        return;
    *c->status = dsflow_fail(
        c->err, DSFLOW_EINVAL, "%s: %s: %s%lld: expected a divisor of %s, %lld",
        c->path, key, has(c, key) ? "" : "is missing, which means ",
        (long long)n, whole_key, (long long)whole);
}

static bool is_one_of(const json_t *value, const char *const *names)
{
    const char *text = json_string_value(value);

    for (; text != NULL && *names != NULL; names++)
        if (strcmp(text, *names) == 0)
            return true;
    return false;
}

/* A name that may be absent. */
static void one_of(const struct config *c, const char *key,
                   const char *const *names)
{
    char expected[120];
    size_t at = 0;

    if (!has(c, key) || is_one_of(json_object_get(c->object, key), names))
        return;
    for (size_t i = 0; names[i] != NULL && at < sizeof(expected); i++)
        at += (size_t)snprintf(expected + at, sizeof(expected) - at, "%s%s",
                               i > 0 ? " or " : "", names[i]);
    wrong(c, key, expected);
}

/* The name that a size of a GPT-2 has here: its own, or that of other models,
 * which transformers takes for it. */
static const char *named(const struct config *c, const char *own,
                         const char *other)
{
    char expected[80];

    if (!has(c, other))
        return own;
    snprintf(expected, sizeof(expected), "what %s says", other);
    if (has(c, own) && !json_equal(json_object_get(c->object, own),
                                   json_object_get(c->object, other)))
        wrong(c, own, expected);
    return other;
}

static void read_gpt2(const struct config *c, struct dsf_job_model *m)
{
    static const char *const gelus[] = { "gelu_new", "gelu_pytorch_tanh",
                                         NULL };
    const char *heads = named(c, "n_head", "num_attention_heads");
    const char *width = named(c, "n_embd", "hidden_size");

    m->family = DSF_GPT2;
    m->layers = whole(c, named(c, "n_layer", "num_hidden_layers"), 12, 1, 1024);
    m->heads = m->kv_heads = whole(c, heads, 12, 1, 1024);
    m->width = whole(c, width, 768, 1, 65536);
    m->context = whole(c, named(c, "n_positions", "max_position_embeddings"),
                       1024, 1, 1048576);
    m->vocab = whole(c, "vocab_size", 50257, 2, 4194304);
    m->ffn_width =
        whole_or_null(c, "n_inner", 4 * m->width, 4 * m->width, 1048576);
    m->norm_eps = number(c, "layer_norm_epsilon", 1e-5, 1e-12, 0.1);
    m->head_dim = m->width / m->heads;
    m->tied = true;
    m->qkv_bias = true;
    m->rope_scaling = 0;
    m->window = 0;
    one_of(c, "activation_function", gelus);
    only(c, "scale_attn_weights", true);
    only(c, "scale_attn_by_inverse_layer_idx", false);
    only(c, "add_cross_attention", false);
    only(c, "tie_word_embeddings", true);
    divides(c, heads, m->heads, width, m->width);
}

/* How positions turn: one of the two places where a config.json says it. */
struct rope {
    double theta, factor, low, high;
    int64_t context;
    bool llama3;
};

/* The context that `in`, an object of `c`, is the scaling of. What stands in
 * `c` itself is what newer versions of transformers take. */
static int64_t read_original(const struct config *c, const struct config *in,
                             int64_t context)
{
    static const char key[] = "original_max_position_embeddings";
    int64_t beside = whole(c, key, context, 1, 1048576);
    int64_t inside = whole(in, key, beside, 1, 1048576);

    if (has(c, key) && inside != beside && *c->status == DSFLOW_OK)
        *c->status = dsflow_fail(
            c->err, DSFLOW_EINVAL, "%s: %s: %lld: the one beside it says %lld",
            in->path, key, (long long)inside, (long long)beside);
    return inside;
}

/* What one object says, with what an absent key of it means. */
static struct rope read_rope(const struct config *c, const char *key,
                             double theta, int64_t context)
{
    static const char *const types[] = { "default", "llama3", NULL };
    char *path = dsf_xasprintf("%s: %s", c->path, key);
    struct config in = { path, json_object_get(c->object, key), c->status,
                         c->err };
    const char *type = has(&in, "rope_type") ? "rope_type" : "type";
    struct rope r = { .factor = 1, .low = 1, .high = 1 };
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)in.object, name, value)
        if (json_is_object(value)) /* of some layers, by their type */
            wrong(&in, name, "none: all layers turn alike");
    r.theta = number(&in, "rope_theta", theta, 1, 1e12);
    one_of(&in, type, types);
    number(&in, "partial_rotary_factor", 1, 1, 1);
    r.llama3 = is_one_of(json_object_get(in.object, type), types + 1);
    if (r.llama3) {
        r.factor = number(&in, "factor", REQUIRED, 1, 1024);
        r.low = number(&in, "low_freq_factor", REQUIRED, 1e-3, 1024);
        r.high = number(&in, "high_freq_factor", REQUIRED, 1e-3, 1024);
        r.context = read_original(c, &in, context);
        if (r.high <= r.low)
            wrong(&in, "high_freq_factor", "more than low_freq_factor");
    }
    free(path);
    return r;
}

/* Versions of transformers differ in which of the two counts. */
static void must_agree(const struct config *c, const struct rope *parameters,
                       const struct rope *scaling)
{
    const struct {
        const char *key;
        double one, other;
    } numbers[] = {
        { "rope_theta", parameters->theta, scaling->theta },
        { "rope_type (llama3: 1)", parameters->llama3, scaling->llama3 },
        { "factor", parameters->factor, scaling->factor },
        { "low_freq_factor", parameters->low, scaling->low },
        { "high_freq_factor", parameters->high, scaling->high },
        { "original_max_position_embeddings", (double)parameters->context,
          (double)scaling->context },
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
        if (numbers[i].one != numbers[i].other && *c->status == DSFLOW_OK)
            *c->status = dsflow_fail(
                c->err, DSFLOW_EINVAL,
                "%s: rope_scaling: %s: %.9g: rope_parameters says %.9g",
                c->path, numbers[i].key, numbers[i].other, numbers[i].one);
}

/* rope_theta and rope_scaling, or rope_parameters with both inside, as newer
 * versions of transformers write them. */
static void read_ropes(const struct config *c, struct dsf_job_model *m)
{
    static const char *const keys[] = { "rope_parameters", "rope_scaling" };
    double theta = number(c, "rope_theta", 10000, 1, 1e12);
    struct rope r = { .theta = theta }, found[2];
    unsigned n = 0;

    number(c, "partial_rotary_factor", 1, 1, 1);
    for (int i = 0; i < 2; i++) {
        const json_t *v = json_object_get(c->object, keys[i]);

        if (says(c, keys[i]) && !json_is_object(v))
            wrong(c, keys[i], "an object or null");
        if (json_object_size(v) == 0)
            continue;
        r = found[n++] = read_rope(c, keys[i], theta, m->context);
        if (has(c, "rope_theta") && r.theta != theta && *c->status == DSFLOW_OK)
            *c->status = dsflow_fail(
                c->err, DSFLOW_EINVAL,
                "%s: %s: rope_theta: %.9g: the one beside it says %.9g",
                c->path, keys[i], r.theta, theta);
    }
    if (n == 2)
        must_agree(c, &found[0], &found[1]);
    m->rope_theta = r.theta;
    m->rope_scaling = r.llama3;
    if (!r.llama3)
        return;
    m->rope_factor = r.factor;
    m->rope_low_freq_factor = r.low;
    m->rope_high_freq_factor = r.high;
    m->rope_original_context = r.context;
}

/* What differs between the models of this family. */
struct llama {
    const char *type;
    int64_t kv_heads; /* where the key is absent; 0: heads */
    int64_t context;
    bool qkv_bias;
};

static const char *const types_of_layers[] = { "full_attention",
                                               "sliding_attention", NULL };

static bool names_sliding(const struct config *c)
{
    const json_t *list = json_object_get(c->object, "layer_types");

    for (size_t l = 0; l < json_array_size(list); l++)
        if (is_one_of(json_array_get(list, l), types_of_layers + 1))
            return true;
    return false;
}

/* Which layers have the window: those that layer_types names, or else, of a
 * Qwen2, those from max_window_layers on. Returns whether any has. */
static bool list_windows(const struct config *c, int64_t layers, bool *on)
{
    const json_t *list = json_object_get(c->object, "layer_types");
    int64_t full = whole(c, "max_window_layers", 28, 0, 1048576);
    bool any = false;

    if (says(c, "layer_types") && (int64_t)json_array_size(list) != layers) {
        wrong(c, "layer_types", "as many as num_hidden_layers");
        return false;
    }
    for (int64_t l = 0; l < layers; l++) {
        const json_t *type = json_array_get(list, (size_t)l);

        if (type != NULL && !is_one_of(type, types_of_layers))
            wrong(c, "layer_types", "full_attention or sliding_attention");
        on[l] = type != NULL ? is_one_of(type, types_of_layers + 1) : l >= full;
        any |= on[l];
    }
    return any;
}

/* More than any context. */
#define MOST_WINDOW 1048576

/* The tokens that a token sees, itself included, and in which layers; 0: all
 * before it. A Mistral with layer_types is a Ministral to AutoModel of newer
 * versions of transformers, and has the window in all layers to others. */
static int64_t read_window(const struct config *c, const struct llama *kind,
                           int64_t layers, struct dsf_hf_windows *windows)
{
    const bool mistral = strcmp(kind->type, "mistral") == 0;
    int64_t window = whole_or_null(c, "sliding_window",
                                   strcmp(kind->type, "llama") == 0 ? 0 : 4096,
                                   0, INT64_MAX);
    bool any = true;

    if (strcmp(kind->type, "llama") == 0 && window != 0)
        wrong(c, "sliding_window", "null");
    if (strcmp(kind->type, "llama") == 0)
        return 0;
    if (strcmp(kind->type, "qwen2") == 0 &&
        !flag(c, "use_sliding_window", false))
        window = 0;
    if (window == 0 && names_sliding(c))
        wrong(c, "layer_types", "full_attention: there is no sliding window");
    if (window == 0)
        return 0;
    windows->layers = dsf_xcalloc((size_t)layers, sizeof(*windows->layers));
    if (mistral && !says(c, "layer_types"))
        memset(windows->layers, true, (size_t)layers * sizeof(bool));
    else
        any = list_windows(c, layers, windows->layers);
    for (int64_t l = 0; l < layers && mistral; l++)
        if (!windows->layers[l])
            wrong(c, "layer_types", "sliding_attention in all layers");
    return !any ? 0 : window < MOST_WINDOW ? window : MOST_WINDOW;
}

static void read_llama(const struct config *c, const struct llama *kind,
                       struct dsf_job_model *m, struct dsf_hf_windows *windows)
{
    static const char *const silu[] = { "silu", "swish", NULL };

    m->family = DSF_LLAMA;
    m->layers = whole(c, "num_hidden_layers", REQUIRED, 1, 1024);
    m->heads = whole(c, "num_attention_heads", REQUIRED, 1, 1024);
    m->kv_heads = whole_or_null(c, "num_key_value_heads",
                                kind->kv_heads > 0 ? kind->kv_heads : m->heads,
                                m->heads, 1024);
    m->width = whole(c, "hidden_size", REQUIRED, 1, 65536);
    m->ffn_width = whole(c, "intermediate_size", REQUIRED, 1, 1048576);
    m->context = whole(c, "max_position_embeddings", kind->context, 1, 1048576);
    m->vocab = whole(c, "vocab_size", REQUIRED, 2, 4194304);
    m->norm_eps = number(c, "rms_norm_eps", 1e-6, 1e-12, 0.1);
    m->tied = flag(c, "tie_word_embeddings", false);
    m->qkv_bias = kind->qkv_bias;
    if (!says(c, "head_dim"))
        divides(c, "num_attention_heads", m->heads, "hidden_size", m->width);
    m->head_dim = whole_or_null(c, "head_dim", m->width / m->heads,
                                m->width / m->heads, DSF_MOST_HEAD_DIM);
    divides(c, "num_key_value_heads", m->kv_heads, "num_attention_heads",
            m->heads);
    if (m->head_dim % 2 != 0)
        wrong(c, says(c, "head_dim") ? "head_dim" : "num_attention_heads",
              "heads of an even width");
    one_of(c, "hidden_act", silu);
    only(c, "attention_bias", false);
    only(c, "mlp_bias", false);
    read_ropes(c, m);
    m->window = read_window(c, kind, m->layers, windows);
}

static void read_model(const struct config *c, struct dsf_job_model *out,
                       struct dsf_hf_windows *windows)
{
    static const struct llama llamas[] = {
        { "llama", 0, 2048, false },
        { "mistral", 8, 131072, false },
        { "qwen2", 32, 32768, true },
    };
    const char *type =
        json_string_value(json_object_get(c->object, "model_type"));

    if (says(c, "quantization_config"))
        wrong(c, "quantization_config", "none: weights must be floats");
    if (type != NULL && strcmp(type, "gpt2") == 0) {
        read_gpt2(c, out);
        return;
    }
    for (size_t i = 0; i < sizeof(llamas) / sizeof(*llamas); i++)
        if (type != NULL && strcmp(type, llamas[i].type) == 0) {
            read_llama(c, &llamas[i], out, windows);
            return;
        }
    wrong(c, "model_type", "gpt2, llama, mistral or qwen2");
}

int dsf_hf_read_config(const char *folder, struct dsf_job_model *out,
                       struct dsf_hf_windows *windows, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/config.json", folder);
    json_t *root;
    int status = dsf_json_load(path, MOST_CONFIG, &root, err);
    struct config c = { path, root, &status, err };

    *windows = (struct dsf_hf_windows){ .layers = NULL };
    if (status == DSFLOW_OK && !json_is_object(root))
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "%s: expected an object", path);
    if (status == DSFLOW_OK)
        read_model(&c, out, windows);
    json_decref(root);
    free(path);
    return status;
}
