/* hf_files.c - the files with the weights of a Hugging Face folder. */
#include "model/hf_files.h"

#include "base/alloc.h"
#include "base/file.h"

#include <stdlib.h>
#include <string.h>

/* Names of tensors and files: no index is near this. */
#define MOST_INDEX ((int64_t)256 << 20)

bool dsf_hf_is_buffer(const char *name)
{
    static const char *const endings[] = { ".attn.bias", ".attn.masked_bias",
                                           ".rotary_emb.inv_freq" };
    size_t n = strlen(name);

    for (size_t i = 0; i < sizeof(endings) / sizeof(*endings); i++) {
        size_t k = strlen(endings[i]);

        if (n >= k && strcmp(name + n - k, endings[i]) == 0)
            return true;
    }
    return false;
}

void dsf_hf_files_close(struct dsf_hf_files *s)
{
    for (size_t i = 0; i < s->n; i++) {
        dsf_st_close(s->files[i]);
        free(s->names[i]);
    }
    free(s->files);
    free(s->names);
}

static int open_shard(struct dsf_hf_files *s, const char *folder,
                      const char *name, struct dsflow_err *err)
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

/* The files that an index names; they may not leave the folder. */
static int open_index(struct dsf_hf_files *s, const char *folder,
                      const char *path, struct dsflow_err *err)
{
    json_t *root, *file, *map;
    const char *tensor;
    int status = dsf_json_load(path, MOST_INDEX, &root, err);

    if (status < 0)
        return status;
    map = json_object_get(root, "weight_map");
    if (json_object_size(map) == 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: weight_map: expected an object of tensors "
                             "and files",
                             path);
    json_object_foreach(map, tensor, file) {
        const char *name = json_string_value(file);

        if (status < 0)
            break;
        if (name == NULL || strchr(name, '/') != NULL || name[0] == '.' ||
            name[0] == '\0')
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: weight_map: %.100s: expected the name "
                                 "of a file beside it",
                                 path, tensor);
        else if (!dsf_file_is_in(folder, name))
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: weight_map: %.100s: %.100s is not in "
                                 "this folder",
                                 path, tensor, name);
        else
            status = open_shard(s, folder, name, err);
    }
    json_decref(root);
    return status;
}

int dsf_hf_files_open(struct dsf_hf_files *s, const char *folder,
                      struct dsflow_err *err)
{
    static const char one[] = "model.safetensors";
    static const char many[] = "model.safetensors.index.json";
    char *path;
    int status;

    if (dsf_file_is_in(folder, one))
        return open_shard(s, folder, one, err);
    if (!dsf_file_is_in(folder, many))
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: has no %s, nor %s and the files it names%s", folder, one, many,
            dsf_file_is_in(folder, "pytorch_model.bin") ||
                    dsf_file_is_in(folder, "pytorch_model.bin.index.json")
                ? " (pytorch_model.bin is not read: save the "
                  "model as safetensors)"
                : "");
    path = dsf_xasprintf("%s/%s", folder, many);
    status = open_index(s, folder, path, err);
    free(path);
    return status;
}
