/* found.c - folders are known by the names in them, files by how they begin. */
#include "foreign/found.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "foreign/folder.h"
#include "torch/torch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n >= m && strcmp(s + n - m, end) == 0;
}

static void add_file(struct dsf_found *f, char *name)
{
    dsf_grow(&f->files, &f->cap, f->nfiles + 1, sizeof(*f->files));
    f->files[f->nfiles++] = name;
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

void dsf_found_fini(struct dsf_found *f)
{
    for (size_t i = 0; i < f->nfiles; i++)
        free(f->files[i]);
    free(f->files);
    free(f->path);
    free(f->tag);
    *f = (struct dsf_found){ 0 };
}

/* Names in the folder, in order. */
static int list_names(const char *path, char ***names, size_t *n,
                      struct dsflow_err *err)
{
    DIR *dir = opendir(path);
    const struct dirent *e;
    size_t cap = 0;

    *names = NULL;
    *n = 0;
    if (dir == NULL)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    while ((e = readdir(dir)) != NULL) {
        dsf_grow(names, &cap, *n + 1, sizeof(**names));
        (*names)[(*n)++] = dsf_xstrdup(e->d_name);
    }
    closedir(dir);
    qsort(*names, *n, sizeof(**names), by_name);
    return DSFLOW_OK;
}

static void free_names(char **names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* --- DeepSpeed --- */

static void raise_to(int *most, int x)
{
    if (x + 1 > *most)
        *most = x + 1;
}

/* What the first file of a folder says of all of them. */
static int read_deepspeed(struct dsf_found *f, const char *name, bool optim,
                          struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", f->path, name);
    struct dsf_torch_file *file;
    const struct dsf_torch_node *root, *x;
    int status = dsf_torch_open(path, &file, err);

    free(path);
    if (status < 0)
        return status;
    root = dsf_torch_root(file);
    x = dsf_torch_find(root, "ds_version");
    if (x != NULL && x->kind == DSF_TORCH_STR) {
        snprintf(f->version, sizeof(f->version), "%s", x->str);
        dsf_utf8_clean(f->version);
    }
    x = dsf_torch_find(root, "dp_world_size");
    if (!optim && f->data == 0 && x != NULL && x->kind == DSF_TORCH_INT)
        f->data = (int)x->integer.value;
    x = dsf_torch_find(dsf_torch_find(root, "optimizer_state_dict"),
                       "zero_stage");
    if (optim && x != NULL && x->kind == DSF_TORCH_INT &&
        x->integer.value >= 0 && x->integer.value <= 3)
        f->stage = (int)x->integer.value;
    if (optim && x != NULL)
        f->bf16_optimizer = false;
    dsf_torch_close(file);
    return DSFLOW_OK;
}

static int look_deepspeed(struct dsf_found *f, struct dsflow_err *err)
{
    const char *model = NULL, *optim = NULL;
    int models = 0, layers = 0, status = DSFLOW_OK;

    for (size_t i = 0; i < f->nfiles; i++) {
        struct dsf_folder_file file;
        bool is_optim;

        dsf_folder_file(f->files[i], &file);
        if (file.kind == DSF_FOLDER_EXPERT)
            continue;
        if (file.kind == DSF_FOLDER_LAYER) {
            raise_to(&layers, file.model < 0 ? 0 : file.model);
            continue;
        }
        is_optim = file.kind == DSF_FOLDER_OPTIM;
        raise_to(&models, file.model);
        raise_to(&f->data, file.rank);
        f->bf16_optimizer |= file.bf16 && is_optim;
        if (is_optim && optim == NULL)
            optim = f->files[i];
        if (!is_optim && model == NULL)
            model = f->files[i];
        if (file.kind == DSF_FOLDER_SHARD)
            f->stage = 3;
    }
    f->tensor = layers > 0 ? layers : models;
    f->pipeline = f->tensor > 0 && layers > 0 ? models / f->tensor : 1;
    if (optim != NULL) {
        if (f->stage == 0)
            f->stage = 1;
        status = read_deepspeed(f, optim, true, err);
    }
    if (status == DSFLOW_OK && model != NULL)
        status = read_deepspeed(f, model, false, err);
    /* A universal folder has the shards of no rank. */
    if (f->kind == DSF_FOUND_DEEPSPEED && f->data == 0)
        f->data = 1;
    return status;
}

/* The parameters of a universal folder: each is a folder with a file for each
 * state. */
static int list_universal(struct dsf_found *f, struct dsflow_err *err)
{
    char *zero = dsf_xasprintf("%s/zero", f->path), **names;
    size_t n;
    int status = list_names(zero, &names, &n, err);

    for (size_t i = 0; i < n; i++) {
        char *file = dsf_xasprintf("zero/%s/fp32.pt", names[i]);

        if (names[i][0] != '.' && dsf_file_is_in(f->path, file))
            add_file(f, file);
        else
            free(file);
    }
    free_names(names, n);
    free(zero);
    return status;
}

/* --- Megatron --- */

/* "mp_rank_00", "mp_rank_00_001" (tensor, pipeline). */
static bool parse_rank(const char *name, int *tensor, int *pipeline)
{
    int n = 0;

    *pipeline = 0;
    if (sscanf(name, "mp_rank_%d_%d%n", tensor, pipeline, &n) == 2)
        return true;
    return sscanf(name, "mp_rank_%d%n", tensor, &n) == 1 && name[n] == '\0';
}

static int look_megatron(struct dsf_found *f, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", f->path, f->files[0]);
    const struct dsf_torch_node *version;
    struct dsf_torch_file *file;
    int status = dsf_torch_open(path, &file, err);

    free(path);
    if (status < 0)
        return status;
    version = dsf_torch_find(dsf_torch_root(file), "checkpoint_version");
    if (version == NULL)
        snprintf(f->version, sizeof(f->version), "0");
    else if (version->kind == DSF_TORCH_FLOAT)
        snprintf(f->version, sizeof(f->version), "%.1f", version->real);
    else if (version->kind == DSF_TORCH_INT)
        snprintf(f->version, sizeof(f->version), "%lld",
                 (long long)version->integer.value);
    dsf_torch_close(file);
    return DSFLOW_OK;
}

/* --- folders --- */

/* What the text file `name` in the folder has in its first line; NULL: there is
 * none. */
static char *first_line(const char *folder, const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name), *text = NULL;
    size_t n;

    if (access(path, F_OK) < 0 ||
        dsf_file_load(path, 4096, &text, &n, NULL) < 0) {
        free(path);
        return NULL;
    }
    free(path);
    text[strcspn(text, "\r\n")] = '\0';
    /* It is the name of a folder beside it. */
    if (text[0] == '\0' || strchr(text, '/') != NULL || text[0] == '.') {
        free(text);
        return NULL;
    }
    return text;
}

/* The kind that one name in a folder speaks for; -1: none. */
static int speaks_for(struct dsf_found *f, const char *name)
{
    struct dsf_folder_file of;
    int tensor, pipeline;
    char *file;

    if (strcmp(name, "manifest.json") == 0)
        return DSF_FOUND_CHECKPOINT;
    if (dsf_folder_file(name, &of)) {
        add_file(f, dsf_xstrdup(name));
        return DSF_FOUND_DEEPSPEED;
    }
    if (ends_with(name, ".distcp") || strcmp(name, ".metadata") == 0)
        return DSF_FOUND_DISTCP;
    if (parse_rank(name, &tensor, &pipeline)) {
        file = dsf_xasprintf("%s/model_optim_rng.pt", name);
        if (!dsf_file_is_in(f->path, file)) {
            free(file);
            file = dsf_xasprintf("%s/model_rng.pt", name);
        }
        if (dsf_file_is_in(f->path, file)) {
            raise_to(&f->tensor, tensor);
            raise_to(&f->pipeline, pipeline);
            add_file(f, file);
            return DSF_FOUND_MEGATRON;
        }
        free(file);
        return -1;
    }
    if (ends_with(name, ".safetensors") ||
        (strncmp(name, "pytorch_model", 13) == 0 && ends_with(name, ".bin")) ||
        strcmp(name, "optimizer.pt") == 0 ||
        strcmp(name, "optimizer.bin") == 0) {
        add_file(f, dsf_xstrdup(name));
        return DSF_FOUND_HF;
    }
    return strcmp(name, "config.json") == 0 ? DSF_FOUND_HF : -1;
}

static void forget_files(struct dsf_found *f)
{
    for (size_t i = 0; i < f->nfiles; i++)
        free(f->files[i]);
    f->nfiles = 0;
    f->tensor = f->pipeline = 0;
}

/* The folder itself; -1: nothing in it is known. */
static int look_inside(struct dsf_found *f, struct dsflow_err *err)
{
    /* What speaks loudest: a manifest has files of safetensors beside it. */
    static const enum dsf_found_kind order[] = {
        DSF_FOUND_CHECKPOINT, DSF_FOUND_DEEPSPEED, DSF_FOUND_MEGATRON,
        DSF_FOUND_DISTCP,     DSF_FOUND_HF,
    };
    size_t best = sizeof(order) / sizeof(*order), n;
    char **names;
    int status = list_names(f->path, &names, &n, err);

    if (status < 0)
        return status;
    /* First which kind it is, then its files. */
    for (size_t i = 0; i < n; i++) {
        int kind = speaks_for(f, names[i]);

        for (size_t j = 0; kind >= 0 && j < best; j++)
            if (order[j] == (enum dsf_found_kind)kind)
                best = j;
    }
    forget_files(f);
    for (size_t i = 0; i < n && best < sizeof(order) / sizeof(*order); i++) {
        size_t had = f->nfiles;
        int kind = speaks_for(f, names[i]);

        if (kind != (int)order[best] &&
            (order[best] != DSF_FOUND_CHECKPOINT || kind != DSF_FOUND_HF))
            while (f->nfiles > had)
                free(f->files[--f->nfiles]);
    }
    free_names(names, n);
    if (best == sizeof(order) / sizeof(*order))
        return 1;
    f->kind = order[best];
    if (f->kind == DSF_FOUND_DEEPSPEED && dsf_file_is_in(f->path, "zero"))
        f->kind = DSF_FOUND_UNIVERSAL;
    if (f->kind == DSF_FOUND_MEGATRON)
        return look_megatron(f, err);
    if (f->kind == DSF_FOUND_DEEPSPEED || f->kind == DSF_FOUND_UNIVERSAL)
        status = look_deepspeed(f, err);
    if (status == DSFLOW_OK && f->kind == DSF_FOUND_UNIVERSAL)
        status = list_universal(f, err);
    return status;
}

/* What `latest` and its like name. */
static char *tag_of(const char *path)
{
    char *tag = first_line(path, "latest"), *number;

    if (tag == NULL)
        tag = first_line(path, "latest_universal");
    if (tag != NULL)
        return tag;
    number = first_line(path, "latest_checkpointed_iteration.txt");
    if (number == NULL || strcmp(number, "release") == 0)
        return number;
    tag = dsf_xasprintf("iter_%07lld", strtoll(number, NULL, 10));
    free(number);
    return tag;
}

static int look_folder(const char *path, const char *tag, struct dsf_found *f,
                       struct dsflow_err *err)
{
    char *checkpoints = dsf_xasprintf("%s/checkpoints", path);
    bool run =
        dsf_file_is_folder(checkpoints) && dsf_file_is_in(path, "job.toml");
    int status;

    free(checkpoints);
    f->path = dsf_xstrdup(path);
    if (run && tag == NULL) {
        f->kind = DSF_FOUND_RUN;
        return DSFLOW_OK;
    }
    f->trainer = dsf_file_is_in(path, "trainer_state.json");
    f->tag = tag != NULL ? dsf_xstrdup(tag) : tag_of(path);
    if (f->tag != NULL) {
        char *inner = dsf_xasprintf("%s/%s", path, f->tag);

        if (dsf_file_is_folder(inner)) {
            free(f->path);
            f->path = inner;
        } else if (tag != NULL) {
            free(inner);
            return dsflow_fail(err, DSFLOW_EINVAL, "%s: has no folder %s", path,
                               tag);
        } else {
            free(inner);
            free(f->tag);
            f->tag = NULL;
        }
    }
    status = look_inside(f, err);
    if (status == 1)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: expected a run or checkpoint of dsflow, a model "
            "of Hugging Face, or a checkpoint of DeepSpeed or "
            "Megatron",
            f->path);
    return status;
}

int dsf_found_look(const char *path, const char *tag, struct dsf_found *f,
                   struct dsflow_err *err)
{
    int status, fd;
    int64_t bytes;

    *f = (struct dsf_found){ 0 };
    if (dsf_file_is_folder(path)) {
        status = look_folder(path, tag, f, err);
    } else {
        status = dsf_file_open(path, &fd, &bytes, err);
        if (status < 0)
            return status;
        close(fd);
        f->path = dsf_xstrdup(path);
        f->kind = dsf_torch_is(path) ? DSF_FOUND_TORCH : DSF_FOUND_SAFETENSORS;
        if (f->kind == DSF_FOUND_SAFETENSORS &&
            !ends_with(path, ".safetensors"))
            status =
                dsflow_fail(err, DSFLOW_EINVAL,
                            "%s: expected a file that torch.save wrote, or "
                            "one of safetensors",
                            path);
    }
    if (status < 0)
        dsf_found_fini(f);
    return status;
}

const char *dsf_found_kind_str(enum dsf_found_kind kind)
{
    static const char *const names[] = {
        "run",      "checkpoint", "huggingface", "deepspeed", "universal",
        "megatron", "distcp",     "safetensors", "torch",
    };

    _Static_assert(sizeof(names) / sizeof(*names) == DSF_FOUND_NKINDS,
                   "a name for each kind");
    return names[kind];
}

static char *deepspeed_text(const struct dsf_found *f)
{
    char stage[40], by[64] = "";

    if (f->stage == 0)
        snprintf(stage, sizeof(stage), "without ZeRO");
    else
        snprintf(stage, sizeof(stage), "%sZeRO %d",
                 f->bf16_optimizer ? "BF16_Optimizer, " : "", f->stage);
    if (f->version[0] != '\0')
        snprintf(by, sizeof(by), ", written by DeepSpeed %s", f->version);
    return dsf_xasprintf("a checkpoint of DeepSpeed, %s, DP %d x TP %d x PP "
                         "%d%s%s",
                         stage, f->data, f->tensor, f->pipeline, by,
                         f->trainer ? ", of Hugging Face's Trainer" : "");
}

char *dsf_found_text(const struct dsf_found *f)
{
    switch (f->kind) {
    case DSF_FOUND_RUN:
        return dsf_xstrdup("a run of dsflow");
    case DSF_FOUND_CHECKPOINT:
        return dsf_xstrdup("a checkpoint of dsflow");
    case DSF_FOUND_HF:
        return dsf_xstrdup(f->trainer ? "a checkpoint of Hugging Face's Trainer"
                                      : "a model of Hugging Face's");
    case DSF_FOUND_DEEPSPEED:
        return deepspeed_text(f);
    case DSF_FOUND_UNIVERSAL:
        return dsf_xasprintf("a universal checkpoint of DeepSpeed%s%s",
                             f->version[0] != '\0' ? " " : "", f->version);
    case DSF_FOUND_MEGATRON:
        return dsf_xasprintf("a checkpoint of Megatron, version %s, TP %d x PP "
                             "%d",
                             f->version, f->tensor, f->pipeline);
    case DSF_FOUND_DISTCP:
        return dsf_xstrdup("a folder of torch.distributed.checkpoint "
                           "(torch_dist), which dsflow does not read");
    case DSF_FOUND_SAFETENSORS:
        return dsf_xstrdup("safetensors");
    default:
        return dsf_xstrdup("what torch.save wrote");
    }
}
