/* kept.c - what a run has of what it began with. */
#include "train/kept.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/file.h"
#include "base/synced.h"
#include "checkpoint/checkpoint.h"
#include "text/tokenizer_export.h"
#include "train/vocabulary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool dsf_kept_is_run(const struct dsf_session *s)
{
    char *path = dsf_xasprintf("%s/job.toml", s->job->main.output);
    bool is = strcmp(path, s->job->path) == 0;

    free(path);
    return is;
}

static char *tokenizer_of(const struct dsf_session *s)
{
    return dsf_xasprintf("%s/tokenizer", s->job->main.output);
}

static int write_file(const char *folder, const struct dsf_tokenizer_file *f,
                      struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s", folder, f->name);
    struct dsf_aside file;
    int status = DSFLOW_OK;

    if (dsf_aside_open(&file, path) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    } else {
        fwrite(f->text, 1, f->n, file.out); /* failures stay in the file */
        if (dsf_aside_close(&file, true) < 0)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    }
    free(path);
    return status;
}

/* The ids of special tokens, which are not always those of tokens in
 * tokenizer_config.json. */
static int write_ids(const char *folder, const json_t *ids,
                     struct dsflow_err *err)
{
    char *text = json_dumps(ids, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    int status = write_file(
        folder,
        &(struct dsf_tokenizer_file){ "config.json", text, strlen(text) }, err);

    free(text);
    return status;
}

static bool is_of(const struct dsf_tokenizer_export *x, const char *name)
{
    for (unsigned i = 0; i < x->nfiles; i++)
        if (strcmp(x->files[i].name, name) == 0)
            return true;
    return false;
}

/* What an earlier run in this folder has left of another kind of tokenizer, and
 * would be read in its place. */
static void remove_others(const char *folder,
                          const struct dsf_tokenizer_export *x)
{
    static const char *const names[] = { "tokenizer.json", "vocab.json",
                                         "merges.txt", "chat_template.jinja" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        char *path = dsf_xasprintf("%s/%s", folder, names[i]);

        if (!is_of(x, names[i]))
            unlink(path);
        free(path);
    }
}

int dsf_kept_write_tokenizer(const struct dsf_session *s,
                             struct dsflow_err *err)
{
    char *folder = tokenizer_of(s);
    struct dsf_tokenizer_export x = { .nfiles = 0 };
    char *source = NULL;
    int status = DSFLOW_OK;

    if (strcmp(s->job->data.tokenizer, "bytes") == 0 ||
        dsf_file_is_same(s->job->data.tokenizer, folder)) {
        free(folder);
        return DSFLOW_OK;
    }
    source = dsf_vocabulary_source(s);
    status =
        dsf_tokenizer_export(s->tok, source, s->model.dims.context, &x, err);
    free(source);
    if (status == DSFLOW_OK)
        status = dsf_synced_folders(folder, err);
    for (unsigned i = 0; i < x.nfiles && status == DSFLOW_OK; i++)
        status = write_file(folder, &x.files[i], err);
    if (status == DSFLOW_OK)
        status = write_ids(folder, x.ids, err);
    if (status == DSFLOW_OK)
        remove_others(folder, &x);
    dsf_tokenizer_export_fini(&x);
    free(folder);
    return status;
}

char *dsf_kept_tokenizer(const struct dsf_session *s)
{
    char *folder = tokenizer_of(s);

    if (dsf_kept_is_run(s) && dsf_tokenizer_is_in(folder))
        return folder;
    free(folder);
    return NULL;
}

bool dsf_kept_is_of(const struct dsf_ckpt_fields *of,
                    const struct dsf_tokenizer *tok)
{
    const char *was = dsf_ckpt_fields_find(of, "data.tokenizer");
    char hash[32];

    snprintf(hash, sizeof(hash), "%016" PRIx64, dsf_tokenizer_hash(tok));
    return was == NULL || strcmp(was, hash) == 0;
}

void dsf_kept_fields(const char *folder, struct dsf_ckpt_fields *of)
{
    char *dir = dsf_xasprintf("%s/checkpoints", folder);
    const struct dsf_ckpt_use use = dsf_ckpt_use(dir);
    char *newest = use.n > 0
                       ? dsf_xasprintf("%s/step-%" PRId64, dir, use.newest)
                       : dsf_xstrdup(folder);

    *of = (struct dsf_ckpt_fields){ .n = 0 };
    if (dsf_file_is_in(newest, "manifest.json") &&
        dsf_ckpt_fields_read(newest, "of", of, NULL) < 0)
        dsf_ckpt_fields_fini(of);
    free(newest);
    free(dir);
}

int dsf_kept_checkpoint(const struct dsf_session *s, char **folder,
                        struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);
    struct dsf_ckpt_meta meta;
    int status = DSFLOW_OK;

    *folder = NULL;
    if (dsf_kept_is_run(s))
        status = dsf_ckpt_latest(dir, 0, folder, &meta, err);
    free(dir);
    return status;
}
