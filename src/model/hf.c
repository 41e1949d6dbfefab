/* hf.c - weights of a Hugging Face folder, in and out. */
#include "model/hf.h"

#include "base/alloc.h"
#include "base/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The files of a model: one, or the shards of an index. */
struct shards {
    struct dsf_st_file **files;
    char **names;
    size_t n, cap_files, cap_names;
};

static void close_shards(struct shards *s)
{
    for (size_t i = 0; i < s->n; i++) {
        dsf_st_close(s->files[i]);
        free(s->names[i]);
    }
    free(s->files);
    free(s->names);
}

static int open_shard(struct shards *s, const char *folder, const char *name,
                      struct dsflow_err *err)
{
    char *path;
    int status;

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->names[i], name) == 0)
            return DSFLOW_OK;
    path = dsf_xasprintf("%s/%s", folder, name);
    dsf_grow(&s->files, &s->cap_files, s->n + 1, sizeof(*s->files));
    dsf_grow(&s->names, &s->cap_names, s->n + 1, sizeof(*s->names));
    status = dsf_st_open(path, &s->files[s->n], err);
    if (status == DSFLOW_OK)
        s->names[s->n++] = dsf_xstrdup(name);
    free(path);
    return status;
}

/* The files that model.safetensors.index.json names; they may not leave the
 * folder. */
static int open_index(struct shards *s, const char *folder, const char *path,
                      struct dsflow_err *err)
{
    json_error_t why;
    json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &why), *file;
    json_t *map = json_object_get(root, "weight_map");
    const char *tensor;
    int status = DSFLOW_OK;

    if (!json_is_object(map))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %s: expected a weight_map", path,
                             root == NULL ? why.text : "no index");
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);

        if (status < 0)
            break;
        if (name == NULL || strchr(name, '/') != NULL || name[0] == '.' ||
            name[0] == '\0')
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: %.100s: expected the name of a file "
                                 "beside it",
                                 path, tensor);
        else
            status = open_shard(s, folder, name, err);
    }
    json_decref(root);
    return status;
}

static int open_shards(struct shards *s, const char *folder,
                       struct dsflow_err *err)
{
    char *index = dsf_xasprintf("%s/model.safetensors.index.json", folder);
    int status;

    if (access(index, F_OK) == 0)
        status = open_index(s, folder, index, err);
    else
        status = open_shard(s, folder, "model.safetensors", err);
    free(index);
    return status;
}

/* GPT-2's first files have no "transformer." before their names. */
static const struct dsf_st_tensor *find(const struct shards *s,
                                        const char *name, size_t *shard)
{
    static const char prefix[] = "transformer.";

    for (int bare = 0; bare < 2; bare++) {
        if (bare && strncmp(name, prefix, sizeof(prefix) - 1) != 0)
            break;
        for (*shard = 0; *shard < s->n; (*shard)++) {
            const struct dsf_st_tensor *t = dsf_st_find(
                s->files[*shard], bare ? name + sizeof(prefix) - 1 : name);

            if (t != NULL)
                return t;
        }
    }
    return NULL;
}

static int check_tensor(const struct dsf_tensor *t,
                        const struct dsf_st_tensor *in, const char *where,
                        struct dsflow_err *err)
{
    int64_t first = t->transposed ? t->cols : t->rows;
    int64_t second = t->transposed ? t->rows : t->cols;

    if (in->dtype > DSF_F16)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: expected F32, F64, BF16 or F16", where,
                           in->name);
    if (t->vector && (in->ndims != 1 || in->dims[0] != t->cols))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: expected %lld numbers",
                           where, in->name, (long long)t->cols);
    if (!t->vector && (in->ndims != 2 || in->dims[0] != first ||
                       in->dims[1] != second))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: expected %lld by %lld numbers", where,
                           in->name, (long long)first, (long long)second);
    return DSFLOW_OK;
}

/* to[cols][rows] of a file's [rows][cols], or the other way round, in blocks
 * that stay in the cache. */
static int transpose(const struct dsf_tensor *t, const struct dsf_st_file *file,
                     const struct dsf_st_tensor *in, float *to,
                     struct dsflow_err *err)
{
    enum { BLOCK = 32 };
    float *rows = dsf_xcalloc(BLOCK * (size_t)t->rows, sizeof(*rows));
    int status = DSFLOW_OK;

    for (int64_t c = 0; c < t->cols && status == DSFLOW_OK; c += BLOCK) {
        int64_t n = t->cols - c < BLOCK ? t->cols - c : BLOCK;

        status = dsf_st_read_f32(file, in, (size_t)(c * t->rows),
                                 (size_t)(n * t->rows), rows, err);
        if (status < 0)
            break;
        for (int64_t r = 0; r < t->rows; r++)
            for (int64_t i = 0; i < n; i++)
                to[r * t->cols + c + i] = rows[i * t->rows + r];
    }
    free(rows);
    return status;
}

/* What files have that is not a weight, or is one again. */
static bool is_ignored(const struct dsf_model *m, const char *name)
{
    static const char *const endings[] = { ".attn.bias", ".attn.masked_bias",
                                           ".rotary_emb.inv_freq" };
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t k = strlen(endings[i]);

        if (n >= k && strcmp(name + n - k, endings[i]) == 0)
            return true;
    }
    return m->tied && strcmp(name, "lm_head.weight") == 0;
}

/* Tensors of the files that no unit took: the model is not what it seems. */
static int check_all_used(const struct dsf_model *m, const struct shards *s,
                          size_t used, struct dsflow_err *err)
{
    size_t n = 0;

    for (size_t f = 0; f < s->n; f++)
        for (unsigned i = 0; i < dsf_st_count(s->files[f]); i++)
            n += !is_ignored(m, dsf_st_at(s->files[f], i)->name);
    if (n == used)
        return DSFLOW_OK;
    for (size_t f = 0; f < s->n; f++)
        for (unsigned i = 0; i < dsf_st_count(s->files[f]); i++) {
            const char *name = dsf_st_at(s->files[f], i)->name;
            bool known = is_ignored(m, name);

            for (unsigned u = 0; u < m->nunits && !known; u++)
                for (unsigned t = 0; t < m->units[u].ntensors; t++) {
                    const char *ours = m->units[u].tensors[t].name;

                    known |= strcmp(name, ours) == 0 ||
                             (strncmp(ours, "transformer.", 12) == 0 &&
                              strcmp(name, ours + 12) == 0);
                }
            if (!known)
                return dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s: %.100s: a tensor that this model has "
                                   "no place for",
                                   s->names[f], name);
        }
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: a tensor stands in two files", s->names[0]);
}

struct dsf_hf {
    const struct dsf_model *model;
    char *folder;
    struct shards shards;
};

/* Is there every tensor of every unit, in its shape, and no other? */
static int check_all(const struct dsf_hf *hf, struct dsflow_err *err)
{
    const struct dsf_model *m = hf->model;
    size_t used = 0;

    for (unsigned u = 0; u < m->nunits; u++)
        for (unsigned i = 0; i < m->units[u].ntensors; i++, used++) {
            const struct dsf_tensor *t = &m->units[u].tensors[i];
            size_t shard;
            const struct dsf_st_tensor *in = find(&hf->shards, t->name, &shard);
            int status;

            if (in == NULL)
                return dsflow_fail(err, DSFLOW_EINVAL, "%s: has no tensor %s",
                                   hf->folder, t->name);
            status = check_tensor(t, in, hf->shards.names[shard], err);
            if (status < 0)
                return status;
        }
    return check_all_used(m, &hf->shards, used, err);
}

int dsf_hf_open(const struct dsf_model *m, const char *folder,
                struct dsf_hf **out, struct dsflow_err *err)
{
    struct dsf_hf *hf = dsf_xcalloc(1, sizeof(*hf));
    int status;

    hf->model = m;
    hf->folder = dsf_xstrdup(folder);
    status = open_shards(&hf->shards, folder, err);
    if (status == DSFLOW_OK)
        status = check_all(hf, err);
    if (status < 0) {
        dsflow_fail_in(err, status, folder);
        dsf_hf_close(hf);
        return status;
    }
    *out = hf;
    return DSFLOW_OK;
}

void dsf_hf_close(struct dsf_hf *hf)
{
    if (hf == NULL)
        return;
    close_shards(&hf->shards);
    free(hf->folder);
    free(hf);
}

int dsf_hf_read(void *user, unsigned u, float *to, struct dsflow_err *err)
{
    const struct dsf_hf *hf = user;
    const struct dsf_unit *unit = &hf->model->units[u];
    int status = DSFLOW_OK;

    memset(to, 0, (size_t)unit->elems * sizeof(float));
    for (unsigned i = 0; i < unit->ntensors && status == DSFLOW_OK; i++) {
        const struct dsf_tensor *t = &unit->tensors[i];
        size_t shard;
        const struct dsf_st_tensor *in = find(&hf->shards, t->name, &shard);
        const struct dsf_st_file *file = hf->shards.files[shard];
        float *at = to + t->offset;

        if (t->transposed)
            status = transpose(t, file, in, at, err);
        else
            status = dsf_st_read_f32(file, in, 0, (size_t)(t->rows * t->cols),
                                     at, err);
    }
    return status;
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
        (double)d->eps, "attn_pdrop", 0.0, "embd_pdrop", 0.0, "resid_pdrop",
        0.0, "tie_word_embeddings", 1);
}

static json_t *llama_config(const struct dsf_model *m)
{
    const struct dsf_dims *d = &m->dims;
    json_t *c = json_pack(
        "{s:[s], s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:f, "
        "s:b}",
        "architectures",
        d->qkv_bias ? "Qwen2ForCausalLM" : "LlamaForCausalLM", "model_type",
        d->qkv_bias ? "qwen2" : "llama", "num_hidden_layers", m->layers,
        "num_attention_heads", d->heads, "num_key_value_heads", d->kv_heads,
        "head_dim", d->head_dim, "hidden_size", d->width, "intermediate_size",
        d->ffn, "max_position_embeddings", d->context, "vocab_size", d->vocab,
        "hidden_act", "silu", "rms_norm_eps", (double)d->eps, "rope_theta",
        m->rope_theta, "tie_word_embeddings", (int)m->tied);

    if (m->rope_llama3)
        json_object_set_new(
            c, "rope_scaling",
            json_pack("{s:s, s:f, s:f, s:f, s:I}", "rope_type", "llama3",
                      "factor", m->rope_factor, "low_freq_factor",
                      m->rope_low_freq_factor, "high_freq_factor",
                      m->rope_high_freq_factor,
                      "original_max_position_embeddings",
                      (json_int_t)m->rope_original_context));
    return c;
}

static int finish_file(int fd, const char *path, int status,
                       struct dsflow_err *err)
{
    if (status == DSFLOW_OK && fsync(fd) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (close(fd) < 0 && status == DSFLOW_OK)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    return status;
}

static int create(const char *path, int *fd, struct dsflow_err *err)
{
    *fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (*fd < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    return DSFLOW_OK;
}

static int write_text(const char *path, const char *text, size_t n,
                      struct dsflow_err *err)
{
    int fd, status = create(path, &fd, err);

    if (status < 0)
        return status;
    while (n > 0 && status == DSFLOW_OK) {
        ssize_t k = write(fd, text, n);

        if (k < 0 && errno != EINTR)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        if (k > 0) {
            text += k;
            n -= (size_t)k;
        }
    }
    return finish_file(fd, path, status, err);
}

static int write_config(const struct dsf_model *m, const char *folder,
                        struct dsflow_err *err)
{
    json_t *config = m->family == DSF_GPT2 ? gpt2_config(m) : llama_config(m);
    char *path = dsf_xasprintf("%s/config.json", folder), *text;
    int status;

    json_object_set_new(config, "torch_dtype", json_string("float32"));
    text = json_dumps(config, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    status = write_text(path, text, strlen(text), err);
    json_decref(config);
    free(text);
    free(path);
    return status;
}

/* Where the tensors of a file that is written come from: one unit is in memory
 * at a time. */
struct export {
    const struct dsf_model *model;
    dsf_unit_fn read;
    void *user;
    const struct dsf_tensor **tensors; /* as in the file … */
    unsigned *units;                   /* … and of which unit each is */
    float *unit;                       /* what is in memory … */
    unsigned which;                    /* … of this one + 1; 0: nothing */
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
                .dtype = DSF_F32,
                .ndims = t->vector ? 1 : 2,
                .dims = { flipped ? t->cols : t->rows,
                          t->transposed ? t->rows : t->cols },
                .bytes = (size_t)(t->rows * t->cols) * sizeof(float),
            };
        }
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

/* The other way round than it is here, some rows of the file at a time. */
static int put_flipped(const struct dsf_tensor *t, const float *from,
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
        status = dsf_st_put(out, rows, (size_t)(n * t->rows) * sizeof(*rows),
                            err);
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
    if (t->transposed)
        return put_flipped(t, x->unit + t->offset, out, err);
    return dsf_st_put(out, x->unit + t->offset,
                      (size_t)(t->rows * t->cols) * sizeof(float), err);
}

static int write_weights(struct export *x, const char *folder,
                         struct dsflow_err *err)
{
    static const char *const metadata[] = { "format", "pt", NULL };
    char *path = dsf_xasprintf("%s/model.safetensors", folder);
    unsigned n;
    struct dsf_st_tensor *list = list_tensors(x, &n);
    int fd, status = create(path, &fd, err);

    if (status == DSFLOW_OK)
        status = finish_file(fd, path,
                             dsf_st_write(fd, path, list, n, metadata,
                                          put_tensor, x, NULL, err),
                             err);
    free(x->unit);
    free(x->units);
    free(x->tensors);
    free(list);
    free(path);
    return status;
}

static int copy_file(const char *from, const char *folder,
                     struct dsflow_err *err)
{
    const char *slash = strrchr(from, '/');
    char *to = dsf_xasprintf("%s/%s", folder, slash != NULL ? slash + 1 : from);
    FILE *in = fopen(from, "rb");
    char *text = NULL;
    size_t n = 0, cap = 0;
    int status;

    if (in == NULL) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", from);
    } else {
        do {
            dsf_grow(&text, &cap, n + 65536, 1);
            n += fread(text + n, 1, 65536, in);
        } while (!feof(in) && !ferror(in));
        status = ferror(in) ? dsflow_fail(err, DSFLOW_EIO, "%s: %m", from)
                            : write_text(to, text, n, err);
        fclose(in);
    }
    free(text);
    free(to);
    return status;
}

/* Remove a folder of plain files that we made. */
static void remove_folder(const char *folder)
{
    DIR *dir = opendir(folder);
    struct dirent *e;

    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (e->d_name[0] != '.')
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(folder);
}

int dsf_hf_export(const struct dsf_model *m, const char *folder,
                  dsf_unit_fn read, void *user,
                  const char *const *tokenizer_files, struct dsflow_err *err)
{
    struct export x = { .model = m, .read = read, .user = user };
    size_t n = strlen(folder);
    char *tmp;
    int status;

    while (n > 1 && folder[n - 1] == '/')
        n--;
    tmp = dsf_xasprintf("%.*s.tmp-%ld", (int)n, folder, (long)getpid());
    if (mkdir(tmp, 0777) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", tmp);
        goto out;
    }
    status = write_config(m, tmp, err);
    if (status == DSFLOW_OK)
        status = write_weights(&x, tmp, err);
    for (; status == DSFLOW_OK && tokenizer_files != NULL &&
           *tokenizer_files != NULL;
         tokenizer_files++)
        status = copy_file(*tokenizer_files, tmp, err);
    /* An empty folder is replaced; one that has files is refused. */
    if (status == DSFLOW_OK && rename(tmp, folder) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %m: expected a new or empty folder", folder);
    if (status < 0)
        remove_folder(tmp);
out:
    free(tmp);
    return status;
}
