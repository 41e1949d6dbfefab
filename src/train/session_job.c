/* session_job.c - first stage of a session: its job, tokenizer and model. */
#include "train/session.h"

#include "base/alloc.h"
#include "base/file.h"
#include "config/job_saved.h"
#include "config/toml_read.h"
#include "measure/disks.h"
#include "plugin/plugin.h"
#include "segments/segment.h"
#include "tasks/components.h"
#include "train/origin.h"
#include "train/vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A job.toml alone is one that somebody wrote. */
bool dsf_is_run(const char *path)
{
    return dsf_file_is_folder(path) && dsf_file_is_in(path, "job.toml") &&
           (dsf_file_is_in(path, "metrics.jsonl") ||
            dsf_file_is_in(path, "checkpoints"));
}

char *dsf_session_checkpoints(const struct dsf_session *s)
{
    return dsf_xasprintf("%s/checkpoints", s->job->main.output);
}

void dsf_session_take_job(struct dsf_session *s, struct dsf_job *job)
{
    if (s->job != NULL)
        dsf_job_fini((struct dsf_job *)s->job);
    free((struct dsf_job *)s->job);
    s->job = job;
}

int dsf_session_set(struct dsf_session *s, enum dsf_said said,
                    const char *const *sets, unsigned nsets,
                    struct dsflow_err *err)
{
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    int status = dsf_job_with(s->job, said, sets, nsets, job, err);

    if (status == DSFLOW_OK)
        dsf_session_take_job(s, job);
    else
        free(job);
    return status;
}

int dsf_session_set_text(struct dsf_session *s, const char *key,
                         const char *value, struct dsflow_err *err)
{
    char *quoted = dsf_toml_quote(value);
    char *set = dsf_xasprintf("%s=%s", key, quoted);
    int status =
        dsf_session_set(s, DSF_FOLLOWS, (const char *const *)&set, 1, err);

    free(quoted);
    free(set);
    return status;
}

static int set_number(struct dsf_session *s, const char *key, int64_t value,
                      struct dsflow_err *err)
{
    char *set = dsf_xasprintf("%s=%lld", key, (long long)value);
    int status =
        dsf_session_set(s, DSF_FOLLOWS, (const char *const *)&set, 1, err);

    free(set);
    return status;
}

/* The job that was read, with `status`, becomes that of the session. */
static int adopt(struct dsf_session *s, struct dsf_job *job, int status,
                 struct dsflow_err *err)
{
    if (status < 0) {
        free(job);
        return status;
    }
    dsf_session_take_job(s, job);
    status = dsf_job_check_components(s->job, err);
    return status == DSFLOW_OK ? dsf_job_check_segments(s->job, err) : status;
}

static int read_job(struct dsf_session *s, const char *path,
                    const char *const *sets, unsigned nsets,
                    struct dsflow_err *err)
{
    bool is_run = dsf_is_run(path);
    char *file =
        is_run ? dsf_xasprintf("%s/job.toml", path) : dsf_xstrdup(path);
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    int status =
        is_run ? dsf_job_read_saved(file, sets, nsets, dsflow_plugin_load,
                                    false, job, err)
               : dsf_job_read(file, sets, nsets, dsflow_plugin_load, job, err);

    status = adopt(s, job, status, err);
    /* A run that was moved is where it was found. */
    if (status == DSFLOW_OK && is_run)
        status = dsf_session_set_text(s, "job.output", path, err);
    free(file);
    return status;
}

/* What config.json says decides which keys have an effect. */
static int set_family(struct dsf_session *s, struct dsflow_err *err)
{
    bool llama = s->model.family == DSF_LLAMA;
    const char *const sets[] = {
        llama ? "model.family=llama" : "model.family=gpt2",
        s->model.rope_llama3 ? "model.rope_scaling=llama3"
                             : "model.rope_scaling=none",
    };
    int status = dsf_session_set(s, DSF_FOLLOWS, sets, llama ? 2 : 1, err);
    char window[40] = "";

    for (int32_t l = 0; l < s->model.layers; l++)
        if (s->model.windows[l] > 0)
            snprintf(window, sizeof(window), "model.window=%d",
                     (int)s->model.windows[l]);
    return status == DSFLOW_OK && *window != '\0'
               ? dsf_session_set(s, DSF_FOLLOWS,
                                 (const char *const[]){ window }, 1, err)
               : status;
}

/* What follows from the job, up to the model. */
static int open_model(struct dsf_session *s, struct dsflow_err *err)
{
    int status = dsf_disks_check_keys(s->job, err);

    if (status < 0)
        return status;
    status = dsf_origin_find(s, err);
    if (status == DSFLOW_OK)
        status = dsf_vocabulary_open(s, err);
    if (status < 0)
        return status;
    dsf_origin_check_tokenizer(s);
    if (s->job->model.vocab < 0)
        status = set_number(s, "model.vocab", dsf_tokenizer_vocab(s->tok), err);
    if (status == DSFLOW_OK)
        status = dsf_model_init(&s->model, s->job, err);
    if (status == DSFLOW_OK)
        status = set_family(s, err);
    return status == DSFLOW_OK ? dsf_vocabulary_check(s, err) : status;
}

int dsf_session_model(struct dsf_session *s, const char *path,
                      const char *const *sets, unsigned nsets,
                      struct dsflow_err *err)
{
    int status;

    memset(s, 0, sizeof(*s));
    status = read_job(s, path, sets, nsets, err);
    return status == DSFLOW_OK ? open_model(s, err) : status;
}

int dsf_session_parse(struct dsf_session *s, const char *text, const char *path,
                      const char *const *sets, unsigned nsets,
                      const struct dsflow_batches *own, struct dsflow_err *err)
{
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    int status;

    memset(s, 0, sizeof(*s));
    s->own = own;
    status = dsf_job_parse(text, strlen(text), path, sets, nsets,
                           dsflow_plugin_load, job, err);
    status = adopt(s, job, status, err);
    return status == DSFLOW_OK ? open_model(s, err) : status;
}

int dsf_session_parse_written(struct dsf_session *s, const char *text,
                              const char *path, struct dsflow_err *err)
{
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    int status;

    memset(s, 0, sizeof(*s));
    status = dsf_job_parse_written(text, strlen(text), path, dsflow_plugin_load,
                                   job, err);
    status = adopt(s, job, status, err);
    return status == DSFLOW_OK ? open_model(s, err) : status;
}
