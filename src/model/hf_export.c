/* hf_export.c - a model as a Hugging Face folder. */
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
