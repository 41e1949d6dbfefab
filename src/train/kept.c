/* kept.c - what a run has of what it began with. */
#include "train/kept.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/synced.h"
#include "checkpoint/checkpoint.h"
#include "text/tokenizer_export.h"
#include "train/vocabulary.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

/* Does the tokenizer come from there? */
static bool is_from(const struct dsf_session *s, const char *folder)
{
    struct stat a, b;

    return stat(folder, &a) == 0 && stat(s->job->data.tokenizer, &b) == 0 &&
           a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int dsf_kept_write_tokenizer(const struct dsf_session *s,
                             struct dsflow_err *err)
{
    char *folder = tokenizer_of(s);
    struct dsf_tokenizer_export x = { .nfiles = 0 };
    int status = DSFLOW_OK;

    if (dsf_tokenizer_is_bytes(s->tok) || is_from(s, folder)) {
        free(folder);
        return DSFLOW_OK;
    }
    status = dsf_tokenizer_export(s->tok, dsf_vocabulary_source(s),
                                  s->model.dims.context, &x, err);
    if (status == DSFLOW_OK)
        status = dsf_synced_folders(folder, err);
    for (unsigned i = 0; i < x.nfiles && status == DSFLOW_OK; i++)
        status = write_file(folder, &x.files[i], err);
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
