/* folder.c - which files of DeepSpeed there are, by their names. */
#include "foreign/folder.h"

#include "base/alloc.h"
#include "base/file.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A number of at most 6 digits behind `word`; NULL: something else. */
static const char *number(const char *at, const char *word, int *value)
{
    size_t n = strlen(word), digits;

    if (at == NULL || strncmp(at, word, n) != 0)
        return NULL;
    at += n;
    digits = strspn(at, "0123456789");
    if (digits == 0 || digits > 6)
        return NULL;
    *value = atoi(at);
    return at + digits;
}

static bool ends(const char *at, const char *end)
{
    return at != NULL && strcmp(at, end) == 0;
}

bool dsf_folder_file(const char *name, struct dsf_folder_file *f)
{
    const char *at = name, *rest;

    *f = (struct dsf_folder_file){ .rank = -1, .model = -1, .layer = -1 };
    f->kind = DSF_FOLDER_MODEL;
    if (ends(number(name, "mp_rank_", &f->model), "_model_states.pt"))
        return true;
    f->kind = DSF_FOLDER_LAYER;
    at = number(name, "layer_", &f->layer);
    if (ends(at, "-model_states.pt") ||
        ends(number(at, "-model_", &f->model), "-model_states.pt"))
        return true;
    at = name;
    f->layer = f->model = -1;
    f->bf16 = strncmp(name, "bf16_", 5) == 0;
    if (f->bf16 || strncmp(name, "fp16_", 5) == 0)
        at += 5;
    rest =
        number(number(at, "zero_pp_rank_", &f->rank), "_mp_rank_", &f->model);
    f->kind =
        ends(rest, "_model_states.pt") ? DSF_FOLDER_SHARD : DSF_FOLDER_OPTIM;
    if (ends(rest, "_model_states.pt") || ends(rest, "_optim_states.pt"))
        return true;
    *f = (struct dsf_folder_file){ .rank = -1, .model = -1, .layer = -1 };
    f->kind = DSF_FOLDER_EXPERT;
    return strncmp(name, "expp_rank_", 10) == 0 ||
           (strncmp(name, "layer_", 6) == 0 &&
            strstr(name, "_expert_") != NULL);
}

static int by_place(const void *a, const void *b)
{
    const struct dsf_folder_file *x = a, *y = b;

    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->model != y->model)
        return x->model < y->model ? -1 : 1;
    if (x->layer != y->layer)
        return x->layer < y->layer ? -1 : 1;
    return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static void list(struct dsf_folder *f)
{
    DIR *d = opendir(f->path);
    char *zero = dsf_xasprintf("%s/zero", f->path);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        struct dsf_folder_file file;

        if (!dsf_folder_file(e->d_name, &file))
            continue;
        file.name = dsf_xstrdup(e->d_name);
        dsf_grow(&f->files, &f->cap, f->n + 1, sizeof(*f->files));
        f->files[f->n++] = file;
    }
    if (d != NULL)
        closedir(d);
    if (f->n > 0)
        qsort(f->files, f->n, sizeof(*f->files), by_place);
    f->universal = dsf_file_is_folder(zero);
    free(zero);
}

/* The tag in a file such as `latest`; NULL: there is no such file. */
static char *read_tag(const char *path, const char *name)
{
    char *file = dsf_xasprintf("%s/%s", path, name);
    char tag[300] = "";
    FILE *in = fopen(file, "r");

    free(file);
    if (in == NULL)
        return NULL;
    if (fgets(tag, sizeof(tag), in) == NULL)
        tag[0] = '\0';
    fclose(in);
    tag[strcspn(tag, "\r\n")] = '\0';
    return dsf_xstrdup(tag);
}

/* The newest checkpoint-N of a Trainer's output folder; NULL: none. */
static char *find_trainers(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    int newest = -1, step;

    while (d != NULL && (e = readdir(d)) != NULL)
        if (ends(number(e->d_name, "checkpoint-", &step), "") && step > newest)
            newest = step;
    if (d != NULL)
        closedir(d);
    return newest < 0 ? NULL : dsf_xasprintf("%s/checkpoint-%d", path, newest);
}

static int fail_empty(const char *path, struct dsflow_err *err)
{
    char *trainers;
    int status;

    /* As the Trainer's save_only_model has it. */
    if (dsf_file_is_in(path, "model.safetensors") ||
        dsf_file_is_in(path, "model.safetensors.index.json"))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: has weights, and no state of an optimizer "
                           "(optimizer.pt): expected a checkpoint, or "
                           "model.init = \"%s\" in a job, which begins with "
                           "them",
                           path, path);
    trainers = find_trainers(path);
    status =
        dsflow_fail(err, DSFLOW_EINVAL,
                    "%s: has no files of a checkpoint of DeepSpeed "
                    "(mp_rank_00_model_states.pt, …) and no latest that names "
                    "a folder of them%s%s",
                    path, trainers != NULL ? ": did you mean " : "",
                    trainers != NULL ? trainers : "");
    free(trainers);
    return status;
}

/* The folder `tag` of `path`. It may not lead elsewhere. */
static int take_tag(struct dsf_folder *f, const char *path, const char *tag,
                    const char *from, struct dsflow_err *err)
{
    if (tag[0] == '\0' || strchr(tag, '/') != NULL || strcmp(tag, "..") == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: %.60s: expected the name of a folder in it",
                           path, from, tag);
    free(f->path);
    f->path = dsf_xasprintf("%s/%s", path, tag);
    if (!dsf_file_is_folder(f->path))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s: %.60s: there is no such folder in it", path,
                           from, tag);
    list(f);
    return f->n > 0 || f->universal ? DSFLOW_OK : fail_empty(f->path, err);
}

int dsf_folder_open(struct dsf_folder *f, const char *path, const char *tag,
                    struct dsflow_err *err)
{
    static const char *const names[] = { "latest_universal", "latest" };
    int status = DSFLOW_OK;

    *f = (struct dsf_folder){ .path = dsf_xstrdup(path) };
    if (!dsf_file_is_folder(path))
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: there is no such folder",
                           path);
    if (tag != NULL)
        return take_tag(f, path, tag, "--tag", err);
    list(f);
    if (f->n > 0 || f->universal)
        return DSFLOW_OK;
    /* Where both are, the one that DeepSpeed itself would take. */
    for (size_t i = sizeof(names) / sizeof(*names); i-- > 0;) {
        char *found = read_tag(path, names[i]);

        if (found == NULL)
            continue;
        status = take_tag(f, path, found, names[i], err);
        free(found);
        return status;
    }
    return fail_empty(path, err);
}

void dsf_folder_fini(struct dsf_folder *f)
{
    for (size_t i = 0; i < f->n; i++)
        free(f->files[i].name);
    free(f->files);
    free(f->path);
    *f = (struct dsf_folder){ 0 };
}

const struct dsf_folder_file *dsf_folder_at(const struct dsf_folder *f,
                                            enum dsf_folder_kind kind,
                                            int model, size_t i)
{
    for (size_t k = 0; k < f->n; k++)
        if (f->files[k].kind == kind &&
            (model < 0 || f->files[k].model == model) && i-- == 0)
            return &f->files[k];
    return NULL;
}

const struct dsf_folder_file *dsf_folder_find(const struct dsf_folder *f,
                                              enum dsf_folder_kind kind)
{
    return dsf_folder_at(f, kind, -1, 0);
}

size_t dsf_folder_count(const struct dsf_folder *f, enum dsf_folder_kind kind,
                        int model)
{
    size_t n = 0;

    while (dsf_folder_at(f, kind, model, n) != NULL)
        n++;
    return n;
}
