/* shards.h - a model of random numbers as the files that Megatron-LM would have
 * written of it: what each tensor rank and stage has follows from what its
 * heads and rows are in the whole model, element by element. */
#ifndef DSF_TESTS_FOREIGN_SHARDS_H
#define DSF_TESTS_FOREIGN_SHARDS_H

#include "lib/torch_write.h"

#include "foreign/source.h"
#include "model/model.h"

#include <sys/stat.h>

enum style {
    FIRST, /* transformer, attention */
    LATER, /* encoder, self_attention */
    CORE,  /* decoder, linear_qkv */
    ENGINE /* the core's with Transformer Engine */
};

struct shards {
    const struct dsf_model *model;
    enum style style;
    double version; /* 0: none is written */
    int tensor, stages, chunks;
    int padding;    /* rows behind the vocabulary */
    bool half;      /* weights are of 16 bits, with masters */
    bool optimizer; /* there is one */
    bool one_group;
    bool args;
    bool deepspeed;
    float *truth[DSF_SOURCE_STATES][64]; /* of units, as files have them */
    /* To be wrong: */
    const char *left_out, *extra; /* parts of names */
    int skip_rank;                /* -1; of left_out */
    int experts, ranks_of_args;   /* 0: none, and as there are */
};

/* One element of a tensor of the job: row and column in its layout. */
static inline float truth_at(const struct shards *s, int state,
                             const char *name, int64_t row, int64_t col)
{
    for (unsigned u = 0; u < s->model->nunits; u++)
        for (unsigned i = 0; i < s->model->units[u].ntensors; i++) {
            const struct dsf_tensor *t = &s->model->units[u].tensors[i];

            if (strcmp(t->name, name) != 0)
                continue;
            assert_true(row < (t->vector ? t->cols : t->rows));
            return s->truth[state][u][t->file_offset +
                                      (t->vector ? row : row * t->cols + col)];
        }
    fail_msg("%s: the model does not have it", name);
    return 0;
}

/* --- one shard ------------------------------------------------------------ */

/* Which rows and columns of which tensor of the job an element of a shard is.
 */
struct shape {
    const char *role; /* "qkv", "up", "out", "down", "words", "same" */
    char job[3][96];  /* names of the job; of "qkv" one or three, of "up" one or
                         two */
    int names;
    int64_t rows, cols; /* of the shard; a vector has cols 0 */
};

static inline float qkv_at(const struct shards *s, const struct shape *w,
                           int state, int rank, int64_t row, int64_t col)
{
    const struct dsf_dims *d = &s->model->dims;
    int64_t hn = d->head_dim, heads = d->heads / s->tensor;
    int64_t groups = d->kv_heads / s->tensor, queries = d->heads / d->kv_heads;
    int64_t part, head, at;

    if (s->version == 0) {
        part = row / (heads * hn);
        head = row / hn % heads;
        at = row % hn;
    } else if (s->version == 1) {
        part = row % 3;
        head = row / 3 / hn;
        at = row / 3 % hn;
    } else {
        int64_t group = row / ((queries + 2) * hn);
        int64_t in = row % ((queries + 2) * hn) / hn;

        assert_true(group < groups);
        part = in < queries ? 0 : in - queries + 1;
        head = part == 0 ? group * queries + in : group;
        at = row % hn;
    }
    head += rank * (part == 0 ? heads : groups);
    row = head * hn + at;
    if (w->names == 3)
        return truth_at(s, state, w->job[part], row, col);
    if (part > 0)
        row += d->heads * hn + (part - 1) * d->kv_heads * hn;
    return truth_at(s, state, w->job[0], row, col);
}

static inline float element(const struct shards *s, const struct shape *w,
                            int state, int rank, int64_t row, int64_t col)
{
    if (strcmp(w->role, "qkv") == 0)
        return qkv_at(s, w, state, rank, row, col);
    if (strcmp(w->role, "up") == 0 && w->names == 2) {
        int64_t ffn = w->rows / 2;

        return truth_at(s, state, w->job[row / ffn], rank * ffn + row % ffn,
                        col);
    }
    if (strcmp(w->role, "up") == 0)
        return truth_at(s, state, w->job[0], rank * w->rows + row, col);
    if (strcmp(w->role, "words") == 0) {
        row += rank * w->rows;
        return row < s->model->dims.vocab
                   ? truth_at(s, state, w->job[0], row, col)
                   : -7;
    }
    if (strcmp(w->role, "out") == 0)
        return truth_at(s, state, w->job[0], row, rank * w->cols + col);
    return truth_at(s, state, w->job[0], row, col);
}

static inline void put_shard(const struct shards *s, struct torch_out *o,
                             const struct shape *w, int state, int rank,
                             bool half)
{
    int64_t cols = w->cols > 0 ? w->cols : 1;
    const int64_t dims[2] = { w->rows, cols };
    float *v = dsf_xcalloc((size_t)(w->rows * cols), sizeof(*v));

    for (int64_t r = 0; r < w->rows; r++)
        for (int64_t c = 0; c < cols; c++)
            v[r * cols + c] = element(s, w, state, rank, r, c);
    put_tensor(o, w->cols > 0 ? 2 : 1, dims, v, half);
    free(v);
}

/* --- the parameters of one stage, in order -------------------------------- */

struct params {
    char name[128][160];
    struct shape shape[128];
    int n;
};

static inline struct shape *add(struct params *p, const char *role,
                                int64_t rows, int64_t cols, const char *fmt,
                                ...)
{
    va_list ap;

    assert_true(p->n < 128);
    p->shape[p->n] = (struct shape){ .role = role, .rows = rows, .cols = cols };
    va_start(ap, fmt);
    vsnprintf(p->name[p->n], sizeof(p->name[0]), fmt, ap);
    va_end(ap);
    return &p->shape[p->n++];
}

static inline void name(struct shape *w, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(w->job[w->names++], sizeof(w->job[0]), fmt, ap);
    va_end(ap);
}

/* Weight, and bias where the job has one, of a norm. */
static inline void add_norm(const struct shards *s, struct params *p,
                            const char *of, const char *weight,
                            const char *bias, const char *job)
{
    const struct dsf_dims *d = &s->model->dims;

    name(add(p, "same", d->width, 0, "%s%s", of, weight), "%s.weight", job);
    if (!d->rms)
        name(add(p, "same", d->width, 0, "%s%s", of, bias), "%s.bias", job);
}

static inline void add_layer(const struct shards *s, struct params *p,
                             const char *above, int local, int layer)
{
    static const char *const words[][6] = {
        { "attention.query_key_value", "attention.dense", "mlp.dense_h_to_4h",
          "mlp.dense_4h_to_h", "input_layernorm", "post_attention_layernorm" },
        { "self_attention.query_key_value", "self_attention.dense",
          "mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "input_layernorm",
          "post_attention_layernorm" },
        { "self_attention.linear_qkv", "self_attention.linear_proj",
          "mlp.linear_fc1", "mlp.linear_fc2", "input_layernorm",
          "pre_mlp_layernorm" },
        { "self_attention.linear_qkv", "self_attention.linear_proj",
          "mlp.linear_fc1", "mlp.linear_fc2", "", "" },
    };
    const struct dsf_dims *d = &s->model->dims;
    const char *const *w = words[s->style];
    int64_t qkv = (d->heads + 2 * d->kv_heads) * d->head_dim / s->tensor;
    int64_t heads = d->heads * d->head_dim / s->tensor;
    int64_t ffn = d->ffn / s->tensor;
    bool llama = d->rope != 0;
    char at[100], of[200], job[48];
    struct shape *x;

    snprintf(at, sizeof(at), "%slayers.%d.", above, local);
    snprintf(job, sizeof(job), llama ? "model.layers.%d" : "transformer.h.%d",
             layer);
    snprintf(of, sizeof(of), "%s.%s", job, llama ? "input_layernorm" : "ln_1");
    if (s->style == ENGINE)
        add_norm(s, p, at, "self_attention.linear_qkv.layer_norm_weight",
                 "self_attention.linear_qkv.layer_norm_bias", of);
    else
        add_norm(s, p, at, "input_layernorm.weight", "input_layernorm.bias",
                 of);
    for (int bias = 0; bias < 1 + (d->qkv_bias != 0); bias++) {
        const char *end = bias ? "bias" : "weight";

        x = add(p, "qkv", qkv, bias ? 0 : d->width, "%s%s.%s", at, w[0], end);
        if (llama) {
            name(x, "%s.self_attn.q_proj.%s", job, end);
            name(x, "%s.self_attn.k_proj.%s", job, end);
            name(x, "%s.self_attn.v_proj.%s", job, end);
        } else {
            name(x, "%s.attn.c_attn.%s", job, end);
        }
    }
    name(add(p, "out", d->width, heads, "%s%s.weight", at, w[1]),
         "%s.%s.weight", job, llama ? "self_attn.o_proj" : "attn.c_proj");
    if (d->out_bias)
        name(add(p, "same", d->width, 0, "%s%s.bias", at, w[1]),
             "%s.attn.c_proj.bias", job);
    snprintf(of, sizeof(of), "%s.%s", job,
             llama ? "post_attention_layernorm" : "ln_2");
    if (s->style == ENGINE)
        add_norm(s, p, at, "mlp.linear_fc1.layer_norm_weight",
                 "mlp.linear_fc1.layer_norm_bias", of);
    else if (s->style == CORE)
        add_norm(s, p, at, "pre_mlp_layernorm.weight", "pre_mlp_layernorm.bias",
                 of);
    else
        add_norm(s, p, at, "post_attention_layernorm.weight",
                 "post_attention_layernorm.bias", of);
    x = add(p, "up", d->swiglu ? 2 * ffn : ffn, d->width, "%s%s.weight", at,
            w[2]);
    if (d->swiglu) {
        name(x, "%s.mlp.gate_proj.weight", job);
        name(x, "%s.mlp.up_proj.weight", job);
    } else {
        name(x, "%s.mlp.c_fc.weight", job);
    }
    if (d->mlp_bias)
        name(add(p, "up", ffn, 0, "%s%s.bias", at, w[2]), "%s.mlp.c_fc.bias",
             job);
    name(add(p, "out", d->width, ffn, "%s%s.weight", at, w[3]),
         "%s.mlp.%s.weight", job, llama ? "down_proj" : "c_proj");
    if (d->mlp_bias)
        name(add(p, "same", d->width, 0, "%s%s.bias", at, w[3]),
             "%s.mlp.c_proj.bias", job);
}

/* Chunk `chunk` of stage `stage`. */
static inline void add_stage(const struct shards *s, struct params *p,
                             int stage, int chunk)
{
    static const char *const outer[] = { "language_model.transformer.",
                                         "language_model.encoder.", "decoder.",
                                         "decoder." };
    const struct dsf_model *m = s->model;
    const struct dsf_dims *d = &m->dims;
    int64_t rows = (d->vocab + s->padding) / s->tensor;
    int each = m->layers / (s->stages * s->chunks);
    int first = (chunk * s->stages + stage) * each;
    bool is_first = stage == 0 && chunk == 0;
    bool is_last = stage == s->stages - 1 && chunk == s->chunks - 1;
    bool core = s->style >= CORE;
    const char *words =
        d->rope ? "model.embed_tokens.weight" : "transformer.wte.weight";
    const char *embedding = core ? "embedding." : "language_model.embedding.";

    p->n = 0;
    if (is_first)
        name(add(p, "words", rows, d->width, "%sword_embeddings.weight",
                 embedding),
             "%s", words);
    if (is_first && !d->rope)
        name(add(p, "same", d->context, d->width,
                 "%sposition_embeddings.weight", embedding),
             "transformer.wpe.weight");
    for (int i = 0; i < each; i++)
        add_layer(s, p, outer[s->style], i, first + i);
    if (!is_last)
        return;
    add_norm(s, p, outer[s->style], "final_layernorm.weight",
             "final_layernorm.bias",
             d->rope ? "model.norm" : "transformer.ln_f");
    if (!m->tied)
        name(add(p, "words", rows, d->width, "%soutput_layer.weight",
                 core ? "" : "language_model."),
             "lm_head.weight");
    else if (s->stages > 1)
        name(add(p, "words", rows, d->width, "%s",
                 core ? "output_layer.weight"
                      : "word_embeddings_for_head.weight"),
             "%s", words);
}

/* --- files ---------------------------------------------------------------- */

static inline bool is_left_out(const struct shards *s, const char *name,
                               int rank)
{
    return s->left_out != NULL && strstr(name, s->left_out) != NULL &&
           (s->skip_rank < 0 || s->skip_rank == rank);
}

/* The modules as dicts below each other, as the first versions have them; what
 * is in a layer has dots in its key. */
static inline void put_model(const struct shards *s, struct torch_out *o,
                             const struct params *p, int rank)
{
    const int64_t one = 1;
    const float freq = 3;

    begin_dict(o);
    for (int i = 0; i < p->n; i++) {
        const char *rest = p->name[i];
        bool nested =
            s->style < CORE && strncmp(rest, "language_model.", 15) == 0;

        if (is_left_out(s, rest, rank))
            continue;
        if (nested) {
            size_t n = strcspn(rest + 15, ".");
            char *module = dsf_xstrndup(rest + 15, n);
            static char last[64];

            /* One dict for each run of tensors of a module. */
            if (i == 0 || strncmp(p->name[i - 1], "language_model.", 15) != 0) {
                put_str(o, "language_model");
                begin_dict(o);
                last[0] = '\0';
            }
            if (strcmp(last, module) != 0) {
                if (last[0] != '\0')
                    end_dict(o);
                put_str(o, module);
                begin_dict(o);
                snprintf(last, sizeof(last), "%s", module);
            }
            put_str(o, rest + 15 + n + 1);
            free(module);
        } else {
            put_str(o, rest);
        }
        put_shard(s, o, &p->shape[i], DSF_SOURCE_WEIGHT, rank, s->half);
        if (nested && (i + 1 == p->n ||
                       strncmp(p->name[i + 1], "language_model.", 15) != 0)) {
            end_dict(o);
            end_dict(o);
        }
    }
    /* What is no weight. */
    put_str(o, "rotary_pos_emb.inv_freq");
    put_tensor(o, 1, &one, &freq, false);
    put_str(o, "decoder.layers.0.self_attention.linear_qkv._extra_state");
    put_ops(o, "N");
    if (s->extra != NULL) {
        put_str(o, s->extra);
        put_tensor(o, 1, &one, &freq, false);
    }
    end_dict(o);
}

/* Does parameter i of a chunk come in group g? */
static inline bool is_in_group(const struct shards *s, const struct shape *w,
                               int g)
{
    return s->one_group || (w->cols == 0) == (g == 1);
}

static inline void put_optimizer(const struct shards *s, struct torch_out *o,
                                 const struct params chunks[], int rank)
{
    int ngroups = s->one_group ? 1 : 2, id = 0;
    const int64_t one = 1;
    const float scale = 1024;

    begin_dict(o);
    if (s->half) {
        put_str(o, "grad_scaler");
        begin_dict(o);
        put_str(o, "scale");
        put_tensor(o, 1, &one, &scale, false);
        put_str(o, "growth_tracker");
        put_int(o, 9);
        put_str(o, "hysteresis_tracker");
        put_int(o, 2);
        end_dict(o);
        put_str(o, "optimizer");
        begin_dict(o);
    }
    put_str(o, "state");
    begin_dict(o);
    for (int g = 0; g < ngroups; g++)
        for (int c = 0; c < s->chunks; c++)
            for (int i = 0; i < chunks[c].n; i++) {
                const struct shape *w = &chunks[c].shape[i];

                if (!is_in_group(s, w, g))
                    continue;
                put_int(o, id++);
                begin_dict(o);
                put_str(o, "exp_avg");
                put_shard(s, o, w, DSF_SOURCE_FIRST, rank, false);
                put_str(o, "exp_avg_sq");
                put_shard(s, o, w, DSF_SOURCE_SECOND, rank, false);
                end_dict(o);
            }
    end_dict(o);
    put_str(o, "param_groups");
    begin_list(o);
    id = 0;
    for (int g = 0; g < ngroups; g++) {
        begin_dict(o);
        put_str(o, "lr");
        put_real(o, 1.5e-4);
        put_str(o, "step");
        put_int(o, 90);
        put_str(o, "params");
        begin_list(o);
        for (int c = 0; c < s->chunks; c++)
            for (int i = 0; i < chunks[c].n; i++)
                if (is_in_group(s, &chunks[c].shape[i], g))
                    put_int(o, id++);
        end_list(o);
        end_dict(o);
    }
    end_list(o);
    if (s->half) {
        end_dict(o);
        put_str(o, "fp32_from_fp16_params");
        begin_list(o);
        for (int g = 0; g < ngroups; g++) {
            begin_list(o);
            for (int c = 0; c < s->chunks; c++)
                for (int i = 0; i < chunks[c].n; i++)
                    if (is_in_group(s, &chunks[c].shape[i], g))
                        put_shard(s, o, &chunks[c].shape[i], DSF_SOURCE_WEIGHT,
                                  rank, false);
            end_list(o);
        }
        end_list(o);
    }
    end_dict(o);
}

static inline void put_args(const struct shards *s, struct torch_out *o)
{
    const struct dsf_model *m = s->model;
    const struct dsf_dims *d = &m->dims;
    const struct {
        const char *key;
        int32_t value;
    } numbers[] = {
        { "num_layers", m->layers },
        { "hidden_size", d->width },
        { "num_attention_heads", d->heads },
        { "num_query_groups", d->kv_heads },
        { "ffn_hidden_size", d->ffn },
        { "max_position_embeddings", d->context },
        { s->version < 3 ? "model_parallel_size" : "tensor_model_parallel_size",
          s->ranks_of_args > 0 ? s->ranks_of_args : s->tensor },
        { "pipeline_model_parallel_size", s->stages },
        { "consumed_train_samples", 800 },
    };

    begin_args(o);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        put_str(o, numbers[i].key);
        put_int(o, numbers[i].value);
    }
    put_str(o, "group_query_attention");
    put_bool(o, d->kv_heads < d->heads);
    put_str(o, "swiglu");
    put_bool(o, d->swiglu != 0);
    put_str(o, "untie_embeddings_and_output_weights");
    put_bool(o, !m->tied);
    put_str(o, "normalization");
    put_str(o, d->rms ? "RMSNorm" : "LayerNorm");
    put_str(o, "position_embedding_type");
    put_str(o, d->rope ? "rope" : "learned_absolute");
    put_str(o, "num_experts");
    if (s->experts > 0)
        put_int(o, s->experts);
    else
        put_ops(o, "N");
    end_args(o);
}

static inline void put_file(const struct shards *s, const char *path, int rank,
                            int stage)
{
    static struct params chunks[4];
    struct torch_out o;
    char key[16];

    torch_begin(&o);
    begin_dict(&o);
    put_str(&o, "iteration");
    put_int(&o, 100);
    if (s->version > 0) {
        put_str(&o, "checkpoint_version");
        put_real(&o, s->version);
    }
    if (s->args) {
        put_str(&o, "args");
        put_args(s, &o);
    }
    for (int c = 0; c < s->chunks; c++) {
        add_stage(s, &chunks[c], stage, c);
        snprintf(key, sizeof(key), s->chunks > 1 ? "model%d" : "model", c);
        put_str(&o, s->deepspeed ? "module" : key);
        put_model(s, &o, &chunks[c], rank);
    }
    if (s->optimizer) {
        put_str(&o, "optimizer");
        put_optimizer(s, &o, chunks, rank);
    }
    end_dict(&o);
    torch_end(&o, path);
}

/* <folder>/iter_0000100/mp_rank_TT[_PPP]/model_optim_rng.pt, or DeepSpeed's. */
static inline void write_shards(const struct shards *s, const char *folder)
{
    char path[300];
    FILE *f;

    mkdir(folder, 0777);
    snprintf(path, sizeof(path), "%s/latest_checkpointed_iteration.txt",
             folder);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs("100", f);
    fclose(f);
    snprintf(path, sizeof(path), "%s/iter_0000100", folder);
    mkdir(path, 0777);
    for (int t = 0; t < s->tensor; t++)
        for (int p = 0; p < s->stages; p++) {
            int n = snprintf(path, sizeof(path), "%s/iter_0000100/mp_rank_%02d",
                             folder, t);

            if (s->stages > 1)
                n += snprintf(path + n, sizeof(path) - (size_t)n, "_%03d", p);
            if (!s->deepspeed)
                mkdir(path, 0777);
            snprintf(path + n, sizeof(path) - (size_t)n,
                     s->deepspeed ? "_model_states.pt" : "/model_optim_rng.pt");
            put_file(s, path, t, p);
        }
}

#endif
