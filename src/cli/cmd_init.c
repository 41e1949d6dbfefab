/* cmd_init.c - a job.toml to begin with, from the tables of options. */
#include "base/alloc.h"
#include "base/utf8.h"
#include "cli/cmd.h"
#include "cli/wrap.h"
#include "config/job.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/toml_read.h"
#include "config/when.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The keys that people set, in the order of the file. With a value the key is
 * set to it; without, its default stands behind a #. */
static const struct {
    const char *table, *key, *value;
} keys[] = {
    { "job", "name", "" /* of the folder */ },
    { "job", "steps", "500" },
    { "job", "output", "" /* runs/ and the name */ },
    { "job", "seed", NULL },
    { "data", "train", "\"text.txt\"" },
    { "data", "text_field", NULL },
    { "data", "tokenizer", NULL },
    { "data", "validation", NULL },
    { "model", "init", NULL },
    { "model", "family", "\"gpt2\"" },
    { "model", "layers", "4" },
    { "model", "heads", "4" },
    { "model", "width", "256" },
    { "model", "context", "256" },
    { "batch", "sequences", "8" },
    { "batch", "micro", "2" },
    { "batch", "groups", "2" },
    { "optimizer", "kind", NULL },
    { "optimizer", "lr", "1e-3" },
    { "optimizer", "weight_decay", NULL },
    { "optimizer", "clip", NULL },
    { "schedule", "kind", "\"warmup_cosine\"" },
    { "schedule", "warmup", "50" },
    { "schedule", "min_ratio", "0.1" },
    { "validation", "every", "100" },
    { "validation", "sequences", "64" },
    { "checkpoint", "every", "\"30min\"" },
    { "checkpoint", "keep", NULL },
    { "sample", "tokens", "200" },
    { "sample", "temperature", NULL },
    { "mesh", "data", NULL },
    { "mesh", "pipeline", NULL },
    { "mesh", "tensor", NULL },
    { "zero", "stage", NULL },
    { "recompute", "what", NULL },
    { "offload", "optimizer", NULL },
    { "offload", "params", NULL },
    { "memory", "device", NULL },
    { "memory.nvme", "path", NULL },
};

enum { COLUMNS = 80 };

static const char head[] =
    "A job for dsflow. Put a text of yours in data.train, then: dsflow plan "
    "job.toml shows what a step is made of, dsflow run job.toml trains. A key "
    "behind a # has the value it shows unless it is set. dsflow list keys has "
    "all keys, and job.toml(5) too.";

/* The value of keys[i] where it is set; freed by the caller. */
static char *value_of(unsigned i, const char *name)
{
    char *text, *value;

    if (keys[i].value == NULL || keys[i].value[0] != '\0')
        return keys[i].value != NULL ? dsf_xstrdup(keys[i].value) : NULL;
    text = dsf_xasprintf(
        "%s%s", strcmp(keys[i].key, "output") == 0 ? "runs/" : "", name);
    value = dsf_toml_quote(text);
    free(text);
    return value;
}

static void write_key(FILE *out, unsigned i, const char *name)
{
    const struct dsf_table *t = dsf_job_find_table(keys[i].table);
    const struct dsflow_option *o = dsf_option_find(t->options, keys[i].key);
    char *value = value_of(i, name), *text;
    bool any = o->names == NULL &&
               (o->type == DSFLOW_STRING || o->type == DSFLOW_STRINGS);
    bool condition = value == NULL && o->used_with != NULL;

    if (i == 0 || strcmp(keys[i - 1].table, keys[i].table) != 0)
        fprintf(out, "\n[%s] # %s\n", t->name, t->summary);
    text = dsf_xasprintf("%s%s%s%s%s", o->help, any ? "" : "; expects ",
                         any ? "" : dsf_option_expected(o).s,
                         condition ? "; used with " : "",
                         condition ? dsf_when_words(o->used_with).s : "");
    dsf_wrap(out, COLUMNS, "# ", "# ", text);
    free(text);
    if (value != NULL)
        fprintf(out, "%s = %s\n", o->key, value);
    else
        fprintf(out, "#%s = %s\n", o->key, o->fallback);
    free(value);
}

/* The last part of a path, "mine" of "jobs/mine/", where it can be a name. */
static char *name_of(const char *folder)
{
    size_t n = strlen(folder), from;

    while (n > 0 && folder[n - 1] == '/')
        n--;
    for (from = n; from > 0 && folder[from - 1] != '/';)
        from--;
    if (n == from || strspn(folder + from, ".") >= n - from ||
        dsf_utf8_valid(folder + from, n - from) < n - from)
        return dsf_xstrdup("mine");
    return dsf_xstrndup(folder + from, n - from);
}

static int write_job(const char *path, const char *name, struct dsflow_err *err)
{
    FILE *out = fopen(path, "wx");
    bool whole;

    if (out == NULL && errno == EEXIST)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: is there already, and stays as it is", path);
    if (out == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", path);
    dsf_wrap(out, COLUMNS, "# ", "# ", head);
    for (unsigned i = 0; i < sizeof(keys) / sizeof(*keys); i++)
        write_key(out, i, name);
    whole = ferror(out) == 0;
    if (fclose(out) == 0 && whole)
        return DSFLOW_OK;
    dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    unlink(path);
    return DSFLOW_EIO;
}

static int init(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *folder = args->nwords > 0 ? args->words[0] : NULL;
    char *path = folder != NULL ? dsf_xasprintf("%s/job.toml", folder)
                                : dsf_xstrdup("job.toml");
    char *name = name_of(folder != NULL ? folder : "");
    int status = DSFLOW_OK;

    if (folder != NULL && mkdir(folder, 0777) < 0 && errno != EEXIST)
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", folder);
    if (status == DSFLOW_OK)
        status = write_job(path, name, err);
    if (status == DSFLOW_OK)
        printf("%s: put a text of yours in data.train, then: dsflow plan %s\n",
               path, path);
    free(name);
    free(path);
    return status;
}

const struct dsf_cmd dsf_cmd_init = {
    .name = "init",
    .args = "[FOLDER]",
    .summary = "write a job.toml to begin with",
    .help =
        "Writes job.toml into FOLDER, or where dsflow is started, with the\n"
        "keys that people set: what each means, what it may be, and what it\n"
        "is if it is not set. It trains as it is once data.train names a text\n"
        "(paths in it are relative to where dsflow is started). A job.toml\n"
        "that is there already stays.",
    .most = 1,
    .run = init,
};
