/* hf_export.c - a model as a Hugging Face folder. */
#include "model/hf.h"

#include "base/alloc.h"
#include "base/half.h"
#include "base/new_folder.h"
#include "base/safetensors_write.h"
#include "base/synced.h"
#include "model/hf_tensor.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The number of the fewest digits that is the same float: 1e-05. */
static double shortest(float x)
{
    char text[32];

    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, (double)x);
        if (strtof(text, NULL) == x)
            return strtod(text, NULL);
    }
    return (double)x;
}

static json_t *gpt2_config(const struct dsf_model *m)
{
    const struct dsf_dims *d = &m->dims;

    return json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, s:f, s:f, "
        "s:b}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "n_layer",
        m->layers, "n_head", d->heads, "n_embd", d->width, "n_inner", d->ffn,
        "n_positions", d->context, "vocab_size", d->vocab,
        "activation_function", "gelu_new", "layer_norm_epsilon",
        shortest(d->eps), "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop",
        0.0, "tie_word_embeddings", 1);
}

/* Layers that have a window, and the window of those. */
struct windows {
    int32_t window, n;
    int32_t from; /* those from here on have it, if it is all of them */
};

static struct windows windows_of(const struct dsf_model *m)
{
    struct windows w = { .window = 0, .from = m->layers };

    for (int32_t l = 0; l < m->layers; l++)
        if (m->windows[l] > 0) {
            w.window = m->windows[l];
            w.from = w.n++ == 0 ? l : w.from;
        }
    return w;
}

/* Models of Hugging Face that have a window: Mistral in all layers, Qwen2,
 * which has biases, in some. */
static int check_windows(const struct dsf_model *m, struct dsflow_err *err)
{
    const struct windows w = windows_of(m);

    if (w.n == 0 ||
        (m->family == DSF_LLAMA && (m->dims.qkv_bias || w.n == m->layers)))
        return DSFLOW_OK;
    return dsflow_fail(
        err, DSFLOW_EINVAL,
        "model.window: %d%s: expected no window, or a window in all layers of "
        "a "
        "llama (Mistral), or a llama with qkv_bias (Qwen2): no other model of "
        "Hugging Face's has one",
        (int)w.window,
        m->family == DSF_GPT2 ? " of a gpt2" : " in some layers of a llama");
}

/* Newer versions of transformers read layer_types, older ones
 * max_window_layers. */
static void put_window(json_t *c, const struct dsf_model *m)
{
    const struct windows w = windows_of(m);
    json_t *types;

    if (w.n == 0)
        return;
    json_object_set_new(c, "sliding_window", json_integer(w.window));
    if (!m->dims.qkv_bias)
        return;
    json_object_set_new(c, "use_sliding_window", json_true());
    json_object_set_new(
        c, "max_window_layers",
        json_integer(w.from + w.n == m->layers ? w.from : m->layers));
    types = json_array();
    for (int32_t l = 0; l < m->layers; l++)
        json_array_append_new(types, json_string(m->windows[l] > 0
                                                     ? "sliding_attention"
                                                     : "full_attention"));
    json_object_set_new(c, "layer_types", types);
}

/* A llama, or what that is called with biases or a window. transformers takes
 * one only where heads divide the width: others are a Mistral without a window.
 */
static json_t *llama_config(const struct dsf_model *m)
{
    static const char *const names[][2] = { { "LlamaForCausalLM", "llama" },
                                            { "MistralForCausalLM", "mistral" },
                                            { "Qwen2ForCausalLM", "qwen2" } };
    const struct dsf_dims *d = &m->dims;
    const bool slides = windows_of(m).n > 0;
    const char *const *name = names[d->qkv_bias                          ? 2
                                    : slides || d->width % d->heads != 0 ? 1
                                                                         : 0];
    json_t *c = json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, "
        "s:b}",
        "architectures", name[0], "model_type", name[1], "num_hidden_layers",
        m->layers, "num_attention_heads", d->heads, "num_key_value_heads",
        d->kv_heads, "head_dim", d->head_dim, "hidden_size", d->width,
        "intermediate_size", d->ffn, "max_position_embeddings", d->context,
        "vocab_size", d->vocab, "hidden_act", "silu", "rms_norm_eps",
        shortest(d->eps), "rope_theta", m->rope_theta, "tie_word_embeddings",
        (int)m->tied);

    if (m->rope_llama3)
        json_object_set_new(
            c, "rope_scaling",
            json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3",
                      "factor", m->rope_factor, "low_freq_factor",
                      m->rope_low_freq_factor, "high_freq_factor",
                      m->rope_high_freq_factor,
                      "original_max_position_embeddings",
                      (json_int_t)m->rope_original_context));
    if (name == names[1] && !slides)
        json_object_set_new(c, "sliding_window", json_null());
    put_window(c, m);
    return c;
}

static const struct {
    enum dsflow_dtype dtype;
    const char *name; /* of PyTorch */
    double most;
} dtypes[] = {
    { DSFLOW_FP32, "float32", 0x1.fffffep127 },
    { DSFLOW_BF16, "bfloat16", 0x1.fep127 },
    { DSFLOW_FP16, "float16", 65504 },
};

static unsigned index_of(enum dsflow_dtype dtype)
{
    unsigned i = 0;

    while (dtypes[i].dtype != dtype)
        i++;
    return i;
}

static int write_config(const struct dsf_model *m,
                        const struct dsf_hf_export_spec *spec,
                        const char *folder, struct dsflow_err *err)
{
    json_t *config = m->family == DSF_GPT2 ? gpt2_config(m) : llama_config(m);
    const char *dtype = dtypes[index_of(spec->dtype)].name;
    char *path = dsf_xasprintf("%s/config.json", folder), *text;
    int status;

    if (spec->config != NULL)
        json_object_update(config, (json_t *)spec->config);
    /* The second is the name that newer versions of transformers have. */
    json_object_set_new(config, "torch_dtype", json_string(dtype));
    json_object_set_new(config, "dtype", json_string(dtype));
    text = json_dumps(config, JSON_INDENT(2) | JSON_PRESERVE_ORDER |
                                  JSON_REAL_PRECISION(16));
    status = dsf_synced_text(path, false, text, strlen(text), err);
    json_decref(config);
    free(text);
    free(path);
    return status;
}

/* Where the tensors of a file that is written come from: one unit is in memory
 * at a time. */
struct export
{
    const struct dsf_model *model;
    enum dsflow_dtype dtype;
    const char *path; /* of the file */
    dsf_unit_fn read;
    void *user;
    const struct dsf_tensor **tensors; /* as in the file … */
    unsigned *units;                   /* … and of which unit each is */
    float *unit;                       /* what is in memory … */
    unsigned which;                    /* … of this one + 1; 0: nothing */
    const struct dsf_st_tensor *list;
    size_t put; /* elements of the tensor at hand */
};

/* Every tensor as the file has it. */
static struct dsf_st_tensor *list_tensors(struct export *x, unsigned *n)
{
    const struct dsf_model *m = x->model;
    size_t most = (size_t)m->nunits * DSF_MAX_TENSORS;
    struct dsf_st_tensor *list = dsf_xcalloc(most, sizeof(*list));

    x->tensors = dsf_xcalloc(most, sizeof(*x->tensors));
    x->units = dsf_xcalloc(most, sizeof(*x->units));
    *n = 0;
    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned i = 0; i < m->units[u].ntensors; i++) {
            const struct dsf_tensor *t = &m->units[u].tensors[i];
            bool flipped = t->vector || t->transposed;

            x->tensors[*n] = t;
            x->units[*n] = u;
            list[(*n)++] = (struct dsf_st_tensor){
                .name = (char *)t->name,
                .dtype = x->dtype,
                .ndims = t->vector ? 1 : 2,
                .dims = { flipped ? t->cols : t->rows,
                          t->transposed ? t->rows : t->cols },
                .bytes = (size_t)(t->rows * t->cols) *
                         (x->dtype == DSFLOW_FP32 ? 4 : 2),
            };
        }
    x->list = list;
    return list;
}

/* The unit of tensor `i` into memory, unless it is there. */
static int fetch_unit(struct export *x, unsigned i, struct dsflow_err *err)
{
    unsigned u = x->units[i];
    int status;

    if (x->which == u + 1)
        return DSFLOW_OK;
    free(x->unit);
    x->which = u + 1;
    status = dsf_unit_alloc(x->model, u, &x->unit, err);
    return status == DSFLOW_OK ? x->read(x->user, u, x->unit, err) : status;
}

/* A number that rounds to none of the type. */
static int fail_value(const struct export *x, const struct dsf_st_tensor *t,
                      size_t i, float value, struct dsflow_err *err)
{
    double most = dtypes[index_of(x->dtype)].most;
    char place[200];

    if (!isfinite(value))
        return dsf_hf_not_finite(x->path, t, i, value, err);
    return dsflow_fail(
        err, DSFLOW_EINVAL,
        "%s: element %s is %g: expected %g at %s in %s (fp32 has "
        "more range)",
        t->name, dsf_hf_place(t, i, place, sizeof(place)), (double)value,
        value < 0 ? -most : most, value < 0 ? "least" : "most",
        dtypes[index_of(x->dtype)].name);
}

/* Rounded to 16 bits; whether these hold it. */
static bool halve(enum dsflow_dtype dtype, float value, uint16_t *half)
{
    const uint16_t top = dtype == DSFLOW_BF16 ? 0x7f80 : 0x7c00;

    *half = dtype == DSFLOW_BF16 ? dsf_to_bf16(value) : dsf_to_fp16(value);
    return (*half & top) != top;
}

/* The next `n` numbers of tensor `t`, in the order of the file. */
static int put_values(struct export *x, const struct dsf_st_tensor *t,
                      const float *from, size_t n, struct dsf_st_writer *out,
                      struct dsflow_err *err)
{
    enum { BLOCK = 1 << 14 };
    const bool whole = x->dtype == DSFLOW_FP32;
    uint16_t halves[BLOCK];
    int status = DSFLOW_OK;

    for (size_t i = 0; i < n && status == DSFLOW_OK; i += BLOCK) {
        const float *v = from + i;
        size_t k = n - i < BLOCK ? n - i : BLOCK;

        for (size_t j = 0; j < k; j++)
            if (!isfinite(v[j]) ||
                (!whole && !halve(x->dtype, v[j], &halves[j])))
                return fail_value(x, t, x->put + i + j, v[j], err);
        status = whole ? dsf_st_put(out, v, k * sizeof(*v), err)
                       : dsf_st_put(out, halves, k * sizeof(*halves), err);
    }
    x->put += n;
    return status;
}

/* The other way round than it is here, some rows of the file at a time. */
static int put_flipped(struct export *x, const struct dsf_st_tensor *to,
                       const struct dsf_tensor *t, const float *from,
                       struct dsf_st_writer *out, struct dsflow_err *err)
{
    enum { BLOCK = 32 };
    float *rows = dsf_xcalloc(BLOCK * (size_t)t->rows, sizeof(*rows));
    int status = DSFLOW_OK;

    for (int64_t c = 0; c < t->cols && status == DSFLOW_OK; c += BLOCK) {
        int64_t n = t->cols - c < BLOCK ? t->cols - c : BLOCK;

        for (int64_t r = 0; r < t->rows; r++)
            for (int64_t i = 0; i < n; i++)
                rows[i * t->rows + r] = from[r * t->cols + c + i];
        status = put_values(x, to, rows, (size_t)(n * t->rows), out, err);
    }
    free(rows);
    return status;
}

static int put_tensor(void *user, unsigned i, struct dsf_st_writer *out,
                      struct dsflow_err *err)
{
    struct export *x = user;
    const struct dsf_tensor *t = x->tensors[i];
    int status = fetch_unit(x, i, err);

    if (status < 0)
        return status;
    x->put = 0;
    if (t->transposed)
        return put_flipped(x, &x->list[i], t, x->unit + t->offset, out, err);
    return put_values(x, &x->list[i], x->unit + t->offset,
                      (size_t)(t->rows * t->cols), out, err);
}

static int write_weights(struct export *x, const char *folder,
                         struct dsflow_err *err)
{
    static const char *const metadata[] = { "format", "pt", NULL };
    char *path = dsf_xasprintf("%s/model.safetensors", folder);
    unsigned n;
    struct dsf_st_tensor *list = list_tensors(x, &n);
    int fd, status = dsf_synced_create(path, false, &fd, err);

    x->path = path;
    if (status == DSFLOW_OK)
        status = dsf_synced_close(
            fd, path,
            dsf_st_write(fd, path, list, n, metadata, put_tensor, x, NULL, err),
            err);
    free(x->unit);
    free(x->units);
    free(x->tensors);
    free(list);
    free(path);
    return status;
}

static int write_file(const struct dsf_hf_file *file, const char *folder,
                      struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", folder, file->name);
    int status = dsf_synced_text(path, false, file->text, file->n, err);

    free(path);
    return status;
}

int dsf_hf_export(const struct dsf_model *m,
                  const struct dsf_hf_export_spec *spec, dsf_unit_fn read,
                  void *user, struct dsflow_err *err)
{
    struct export x = {
        .model = m, .dtype = spec->dtype, .read = read, .user = user
    };
    char *folder;
    int status = check_windows(m, err);

    if (status == DSFLOW_OK)
        status = dsf_new_folder_open(spec->folder, &folder, err);
    if (status < 0)
        return status;
    status = write_config(m, spec, folder, err);
    if (status == DSFLOW_OK)
        status = write_weights(&x, folder, err);
    for (unsigned i = 0; i < spec->nfiles && status == DSFLOW_OK; i++)
        status = write_file(&spec->files[i], folder, err);
    return dsf_new_folder_close(spec->folder, folder, status, err);
}
