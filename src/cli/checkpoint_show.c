/* checkpoint_show.c - what a file or folder is, and the names, types and shapes
 * in it. Of the shards of many ranks, the first of each sort stands for all. */
#include "cli/cmd.h"

#include "base/alloc.h"
#include "base/safetensors.h"
#include "base/units.h"
#include "base/utf8.h"
#include "cli/torch_tree.h"
#include "foreign/found.h"

#include <ctype.h>
#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where what is shown goes: to `json`, an object, where it is not NULL. */
struct show {
    const struct dsf_found *found;
    json_t *json, *files;
    struct dsflow_err *err;
};

/* A name that a file or folder has, as a terminal can be trusted with it, or as
 * JSON takes it, which has escapes but is UTF-8; freed by the caller. */
static char *shown(const struct show *s, const char *name)
{
    char *copy = dsf_xstrdup(name);
    size_t n = strlen(copy);

    if (s->json == NULL || dsf_utf8_valid(copy, n) < n)
        dsf_utf8_clean(copy);
    return copy;
}

static int64_t bytes_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* The line of a file, and the object of its contents. */
static json_t *begin_file(const struct show *s, const char *name,
                          const char *path, const char *more)
{
    char *as = shown(s, name);
    json_t *file = NULL;

    if (s->json != NULL) {
        file = json_pack("{s:s, s:I}", "name", as, "bytes",
                         (json_int_t)bytes_of(path));
        json_array_append_new(s->files, file);
    } else if (path != s->found->path) { /* it was named when it began */
        printf("\n%s  %s%s\n", as, dsf_size_text((double)bytes_of(path)).s,
               more);
    }
    free(as);
    return file;
}

static int show_torch(const struct show *s, const char *name, const char *path,
                      const char *more)
{
    struct dsf_torch_file *file;
    json_t *into;
    int status = dsf_torch_open(path, &file, s->err);

    if (status < 0)
        return status;
    into = begin_file(s, name, path, more);
    if (into == NULL)
        dsf_tree_print(dsf_torch_root(file), 2);
    else
        json_object_set_new(into, "tree", dsf_tree_json(dsf_torch_root(file)));
    dsf_torch_close(file);
    return DSFLOW_OK;
}

static void show_tensor(const struct show *s, json_t *tree,
                        const struct dsf_st_tensor *t, int width)
{
    char *shape = dsf_dims_text(t->dims, t->ndims), *as = shown(s, t->name);
    json_t *dims;

    if (tree == NULL) {
        printf("  %-*s  %-5s %s\n", width, as, dsflow_dtype_str(t->dtype),
               shape);
    } else {
        dims = json_array();
        for (unsigned d = 0; d < t->ndims; d++)
            json_array_append_new(dims, json_integer(t->dims[d]));
        json_object_set_new(tree, as,
                            json_pack("{s:s, s:o}", "dtype",
                                      dsflow_dtype_str(t->dtype), "shape",
                                      dims));
    }
    free(shape);
    free(as);
}

static int show_safetensors(const struct show *s, const char *name,
                            const char *path)
{
    struct dsf_st_file *file;
    json_t *into, *tree = NULL;
    int width = 0, status = dsf_st_open(path, &file, s->err);

    if (status < 0)
        return status;
    into = begin_file(s, name, path, "");
    if (into != NULL)
        json_object_set_new(into, "tree", tree = json_object());
    for (unsigned i = 0; i < dsf_st_count(file); i++) {
        int n = (int)strlen(dsf_st_at(file, i)->name);

        if (n > width && n <= 44)
            width = n;
    }
    for (unsigned i = 0; i < dsf_st_count(file); i++)
        show_tensor(s, tree, dsf_st_at(file, i), width);
    dsf_st_close(file);
    return DSFLOW_OK;
}

static int show_file(const struct show *s, const char *name, const char *more)
{
    char *path = dsf_xasprintf("%s/%s", s->found->path, name);
    const char *dot = strrchr(name, '.');
    int status = dot != NULL && strcmp(dot, ".safetensors") == 0
                     ? show_safetensors(s, name, path)
                     : show_torch(s, name, path, more);

    free(path);
    return status;
}

/* Do the names differ in ranks only? Layers are shown each. */
static bool is_alike(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        if (strncmp(a, "layer_", 6) == 0 && strncmp(b, "layer_", 6) == 0 &&
            strtol(a + 6, NULL, 10) != strtol(b + 6, NULL, 10))
            return false;
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            while (isdigit((unsigned char)*a))
                a++;
            while (isdigit((unsigned char)*b))
                b++;
        } else if (*a++ != *b++) {
            return false;
        }
    }
    return true;
}

/* One of each sort of DeepSpeed's and Megatron's files. */
static int show_ranks(const struct show *s)
{
    const struct dsf_found *f = s->found;
    int status = DSFLOW_OK;

    for (size_t i = 0; i < f->nfiles && status == DSFLOW_OK; i++) {
        size_t alike = 0;
        bool first = true;
        char more[64] = "";

        for (size_t j = 0; j < f->nfiles; j++)
            if (is_alike(f->files[i], f->files[j])) {
                first = first && j >= i;
                alike++;
            }
        if (!first)
            continue;
        if (alike > 1)
            snprintf(more, sizeof(more), ", the first of %zu", alike);
        status = show_file(s, f->files[i], more);
    }
    return status;
}

/* --- universal --- */

/* "zero/NAME/fp32.pt": the name in the middle, as it is shown. */
static char *parameter_of(const struct show *s, const char *file)
{
    const char *name = strchr(file, '/') + 1;
    char *copy = dsf_xstrndup(name, (size_t)(strrchr(name, '/') - name));
    char *as = shown(s, copy);

    free(copy);
    return as;
}

/* What fp32.pt has: a tensor, or a dict with it as "param". */
static int show_parameter(const struct show *s, const char *name,
                          const char *file, json_t *into, int width)
{
    char *path = dsf_xasprintf("%s/%s", s->found->path, file);
    const struct dsf_torch_node *node;
    struct dsf_torch_file *opened;
    int status = dsf_torch_open(path, &opened, s->err);

    free(path);
    if (status < 0)
        return status;
    node = dsf_torch_root(opened);
    if (node->kind == DSF_TORCH_DICT)
        status = dsf_torch_entry(opened, node, "param", DSF_TORCH_TENSOR, &node,
                                 s->err);
    else
        status = dsf_torch_expect(opened, node, DSF_TORCH_TENSOR, s->err);
    if (status == DSFLOW_OK && into == NULL) {
        char *shape = dsf_dims_text(node->tensor->dims, node->tensor->ndims);

        printf("  %-*s  %-5s %s\n", width, name,
               dsflow_dtype_str(node->tensor->dtype), shape);
        free(shape);
    } else if (status == DSFLOW_OK) {
        json_object_set_new(into, name, dsf_tree_json(node));
    }
    dsf_torch_close(opened);
    return status;
}

static int show_universal(const struct show *s)
{
    const struct dsf_found *f = s->found;
    json_t *into = NULL;
    int width = 0, status = DSFLOW_OK;
    size_t n = 0;

    for (size_t i = 0; i < f->nfiles; i++) {
        char *name;

        if (strncmp(f->files[i], "zero/", 5) != 0)
            continue;
        name = parameter_of(s, f->files[i]);
        n++;
        if ((int)strlen(name) > width && strlen(name) <= 44)
            width = (int)strlen(name);
        free(name);
    }
    if (s->json != NULL)
        json_object_set_new(s->json, "parameters", into = json_object());
    else
        printf("\nzero  %zu parameters, each with fp32, exp_avg and "
               "exp_avg_sq\n",
               n);
    for (size_t i = 0; i < f->nfiles && status == DSFLOW_OK; i++) {
        char *name;

        if (strncmp(f->files[i], "zero/", 5) != 0)
            continue;
        name = parameter_of(s, f->files[i]);
        status = show_parameter(s, name, f->files[i], into, width);
        free(name);
    }
    for (size_t i = 0; i < f->nfiles && status == DSFLOW_OK; i++)
        if (strncmp(f->files[i], "zero/", 5) != 0) {
            status = show_file(s, f->files[i], "");
            break;
        }
    return status;
}

/* --- dsflow's --- */

static int is_step(const struct dirent *e)
{
    return strncmp(e->d_name, "step-", 5) == 0 &&
           isdigit((unsigned char)e->d_name[5]);
}

/* The checkpoints, by step; `dsflow checkpoint list` is what reads them. */
static int show_run(const struct show *s)
{
    char *dir = dsf_xasprintf("%s/checkpoints", s->found->path);
    struct dirent **steps;
    int n = scandir(dir, &steps, is_step, versionsort);

    for (int i = 0; i < n; i++) {
        char *path = dsf_xasprintf("%s/%s", dir, steps[i]->d_name);
        char *as = shown(s, path);

        if (s->json != NULL)
            json_array_append_new(s->files, json_pack("{s:s}", "name", as));
        else
            printf("  %s\n", as);
        free(steps[i]);
        free(path);
        free(as);
    }
    if (n < 0)
        dsflow_fail(s->err, DSFLOW_EIO, "%s: %m", dir);
    else
        free(steps);
    free(dir);
    return n < 0 ? DSFLOW_EIO : DSFLOW_OK;
}

/* --- all --- */

static void begin_json(const struct show *s, const char *text)
{
    const struct dsf_found *f = s->found;
    char *path = shown(s, f->path);

    json_object_set_new(s->json, "path", json_string(path));
    json_object_set_new(s->json, "kind",
                        json_string(dsf_found_kind_str(f->kind)));
    json_object_set_new(s->json, "text", json_string(text));
    if (f->tag != NULL) {
        char *tag = shown(s, f->tag);

        json_object_set_new(s->json, "tag", json_string(tag));
        free(tag);
    }
    if (f->version[0] != '\0')
        json_object_set_new(s->json, "version", json_string(f->version));
    if (f->kind == DSF_FOUND_DEEPSPEED) {
        json_object_set_new(s->json, "stage", json_integer(f->stage));
        json_object_set_new(s->json, "data", json_integer(f->data));
    }
    if (f->kind == DSF_FOUND_DEEPSPEED || f->kind == DSF_FOUND_MEGATRON) {
        json_object_set_new(s->json, "tensor", json_integer(f->tensor));
        json_object_set_new(s->json, "pipeline", json_integer(f->pipeline));
    }
    free(path);
}

static void begin(const struct show *s, const char *path)
{
    const struct dsf_found *f = s->found;
    char *text = dsf_found_text(f);
    char *as = shown(s, f->tag != NULL ? f->path : path);

    if (s->json != NULL)
        begin_json(s, text);
    else if (f->kind == DSF_FOUND_TORCH || f->kind == DSF_FOUND_SAFETENSORS)
        printf("%s: %s, %s\n", as, text,
               dsf_size_text((double)bytes_of(path)).s);
    else
        printf("%s: %s\n", as, text);
    free(text);
    free(as);
}

static int show_contents(const struct show *s)
{
    const struct dsf_found *f = s->found;
    int status = DSFLOW_OK;

    switch (f->kind) {
    case DSF_FOUND_RUN:
        return show_run(s);
    case DSF_FOUND_DEEPSPEED:
    case DSF_FOUND_MEGATRON:
        return show_ranks(s);
    case DSF_FOUND_UNIVERSAL:
        return show_universal(s);
    case DSF_FOUND_TORCH:
        return show_torch(s, f->path, f->path, "");
    case DSF_FOUND_SAFETENSORS:
        return show_safetensors(s, f->path, f->path);
    default:
        for (size_t i = 0; i < f->nfiles && status == DSFLOW_OK; i++)
            status = show_file(s, f->files[i], "");
        return status;
    }
}

int dsf_checkpoint_show(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    bool json = dsf_flag_value(args, "json") != NULL;
    struct dsf_found found;
    struct show s = { .found = &found, .err = err };
    int status = dsf_found_look(args->words[1], dsf_flag_value(args, "tag"),
                                &found, err);

    if (status < 0)
        return status;
    if (json) {
        s.json = json_object();
        s.files = json_array();
    }
    begin(&s, args->words[1]);
    if (json)
        json_object_set_new(s.json, "files", s.files);
    status = show_contents(&s);
    if (status == DSFLOW_OK && json) {
        json_dumpf(s.json, stdout, JSON_INDENT(1));
        putchar('\n');
    }
    json_decref(s.json);
    dsf_found_fini(&found);
    return status;
}
