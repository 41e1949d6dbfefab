/* origin.c - what a model starts from: model.init. */
#include "train/origin.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "config/job_saved.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "plugin/plugin.h"
#include "segments/segment.h"
#include "train/identity.h"
#include "train/kept.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "gpt2", "owner/name". */
static bool looks_like_hub(const char *name)
{
    unsigned slashes = 0;
    const char *c = name;

    if (!isalnum((unsigned char)*c))
        return false;
    for (; *c != '\0'; c++) {
        slashes += *c == '/';
        if (!isalnum((unsigned char)*c) && strchr("/._-", *c) == NULL)
            return false;
    }
    return slashes <= 1 && c[-1] != '/';
}

static int fail(const struct dsf_session *s, struct dsflow_err *err,
                const char *why)
{
    return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "model", "init", "%s: %s",
                        s->job->model.init, why);
}

/* The job of the run that the checkpoint `folder` is in. */
static int read_job(const struct dsf_session *s, const char *run,
                    struct dsf_job *job, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/job.toml", run);
    int status =
        dsf_job_read_saved(path, NULL, 0, dsflow_plugin_load, true, job, err);

    free(path);
    if (status < 0 && err != NULL) {
        struct dsflow_err why = *err;

        status = dsf_job_fail(s->job, err, DSFLOW_EINVAL, "model", "init",
                              "%s: its job cannot be read: %s",
                              s->job->model.init, why.msg);
    }
    return status;
}

/* Shapes only: what computes a segment is a matter of the new job. */
static bool is_segment(const char *key)
{
    const char *name;

    for (unsigned i = 0; (name = dsf_segment_name(i)) != NULL; i++)
        if (strcmp(name, key) == 0)
            return true;
    return strcmp(key, "segments") == 0;
}

/* The settings of another job that this one goes on with. */
struct settings {
    char **v;
    size_t n, cap;
};

static void add(struct settings *l, char *set)
{
    dsf_grow(&l->v, &l->cap, l->n + 1, sizeof(*l->v));
    l->v[l->n++] = set;
}

/* Those of keys that this version has. */
static void add_sizes(struct settings *l, const struct dsf_ckpt_fields *of)
{
    const struct dsflow_option *keys = dsf_job_find_table("model")->options;

    for (size_t i = 0; i < of->n; i++) {
        const char *key = of->v[i].key;

        if (strncmp(key, "model.", 6) == 0 && !is_segment(key + 6) &&
            dsf_option_find(keys, key + 6) != NULL)
            add(l, dsf_xasprintf("%s=%s", key, of->v[i].value));
    }
}

/* A key that is given must have the value that the run has. */
struct agreement {
    const struct dsf_session *s;
    int status;
    struct dsflow_err *err;
};

static void agree(void *user, const char *table, const char *key,
                  const char *given, const char *unused)
{
    struct agreement *a = user;
    const struct dsf_session *s = a->s;
    char name[128];
    const char *was;

    snprintf(name, sizeof(name), "%s.%s", table, key);
    was = dsf_ckpt_fields_find(&s->origin.of, name);
    if (a->status == DSFLOW_OK && was != NULL &&
        dsf_job_has(s->job, table, key) && strcmp(given, "\"auto\"") != 0)
        a->status =
            dsf_job_fail(s->job, a->err, DSFLOW_EINVAL, table, key,
                         "%s: %s says %s", given, s->job->model.init, was);
}

static void free_settings(struct settings *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
}

/* The numbers of the run, and its tokenizer where none is given. */
static int take(struct dsf_session *s, const char *tokenizer,
                struct dsflow_err *err)
{
    struct agreement a = { s, DSFLOW_OK, err };
    struct settings l = { NULL, 0, 0 };
    struct dsf_job *job = dsf_xcalloc(1, sizeof(*job));
    char *quoted = dsf_toml_quote(tokenizer);
    int status;

    add_sizes(&l, &s->origin.of);
    if (!dsf_job_has(s->job, "data", "tokenizer"))
        add(&l, dsf_xasprintf("data.tokenizer=%s", quoted));
    status = dsf_job_with(s->job, DSF_FROM_RUN, (const char *const *)l.v,
                          (unsigned)l.n, job, err);
    if (status == DSFLOW_OK) {
        dsf_job_compare(s->job, job, agree, &a);
        dsf_session_take_job(s, job);
        status = a.status;
    } else {
        free(job);
    }
    free_settings(&l);
    free(quoted);
    return status;
}

/* What layers are made of must be the same: no weight is left over. */
static int check_segments(struct dsf_session *s, struct dsflow_err *err)
{
    const struct dsflow_strings *list = &s->job->model.segments;
    const char *was = dsf_ckpt_fields_find(&s->origin.of, "model.segments");
    char now[300] = "";
    size_t at = 0;

    for (unsigned i = 0; i < list->n && at < sizeof(now); i++)
        at += (size_t)snprintf(now + at, sizeof(now) - at, "%s%s",
                               i == 0 ? "" : ", ", list->v[i]);
    if (was == NULL)
        was = DSF_USUAL_SEGMENTS;
    if (strcmp(was, now) == 0)
        return DSFLOW_OK;
    return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "model", "segments",
                        "%s: the layers of %s are %s", now, s->job->model.init,
                        was);
}

/* Is the one at `path` the tokenizer of the checkpoint? */
static bool is_trained_with(const struct dsf_session *s, const char *path)
{
    struct dsf_tokenizer *tok = NULL;
    bool is = dsf_tokenizer_open(path, &tok, NULL) == DSFLOW_OK &&
              dsf_kept_is_of(&s->origin.of, tok);

    dsf_tokenizer_free(tok);
    return is;
}

/* Where the tokenizer of a run is; freed by the caller. */
static char *tokenizer_of(const struct dsf_session *s, const char *run,
                          const struct dsf_job *job)
{
    const char *named = job->data.tokenizer, *init = job->model.init;
    char *kept = dsf_xasprintf("%s/tokenizer", run);
    bool given = dsf_job_has(job, "data", "tokenizer");

    if ((!given || !is_trained_with(s, named)) && is_trained_with(s, kept))
        return kept;
    free(kept);
    /* One that was written by a version which kept none. */
    return dsf_xstrdup(!given && strcmp(init, "random") != 0 &&
                               dsf_tokenizer_is_in(init)
                           ? init
                           : named);
}

/* A run, or one checkpoint of it. */
static int take_run(struct dsf_session *s, const char *run, char *folder,
                    struct dsflow_err *err)
{
    struct dsf_job job;
    char *tokenizer;
    int status;

    s->origin.path = folder;
    status = dsf_ckpt_fields_read(folder, "of", &s->origin.of, err);
    if (status == DSFLOW_OK && s->origin.of.n == 0)
        return fail(s, err,
                    "its checkpoint does not say what it is of: export it "
                    "(dsflow checkpoint export), or go on with the run for a "
                    "step");
    if (status == DSFLOW_OK)
        status = check_segments(s, err);
    if (status == DSFLOW_OK)
        status = read_job(s, run, &job, err);
    if (status < 0)
        return status;
    tokenizer = tokenizer_of(s, run, &job);
    status = take(s, tokenizer, err);
    free(tokenizer);
    dsf_job_fini(&job);
    return status;
}

static int find_run(struct dsf_session *s, struct dsflow_err *err)
{
    const char *init = s->job->model.init;
    char *dir = dsf_xasprintf("%s/checkpoints", init), *folder = NULL;
    struct dsf_ckpt_meta meta;
    int status = DSFLOW_OK;

    if (dsf_file_is_same(init, s->job->main.output))
        status = fail(s, err,
                      "is the output folder of this job: expected another "
                      "job.output, or --resume without init");
    if (status == DSFLOW_OK)
        status = dsf_ckpt_latest(dir, 0, &folder, &meta, err);
    if (status == DSFLOW_OK && folder == NULL)
        status = fail(s, err, "a run that has no checkpoint yet");
    free(dir);
    return status == DSFLOW_OK ? take_run(s, init, folder, err) : status;
}

static int find_checkpoint(struct dsf_session *s, struct dsflow_err *err)
{
    const char *init = s->job->model.init;
    char *run = dsf_xasprintf("%s/../..", init);
    struct dsf_ckpt_meta meta;
    int status = dsf_ckpt_verify(init, &meta, err);

    if (status == DSFLOW_OK)
        status = take_run(s, run, dsf_xstrdup(init), err);
    free(run);
    return status;
}

/* Is it a folder that a model can start from? */
static bool is_there(const char *init)
{
    char *dir = dsf_xasprintf("%s/checkpoints", init);
    bool is = dsf_file_is_in(init, "config.json") ||
              dsf_file_is_in(init, "manifest.json") ||
              (dsf_is_run(init) && dsf_ckpt_use(dir).n > 0);

    free(dir);
    return is;
}

int dsf_origin_lost(const struct dsf_session *s, struct dsflow_err *err)
{
    struct stat st;

    if (is_there(s->job->model.init))
        return fail(s, err,
                    "is not the model that the run began with: --set "
                    "model.init=... takes it none the less");
    if (stat(s->job->model.init, &st) == 0)
        return fail(s, err,
                    "has no weights any more: expected a Hugging Face folder, "
                    "or the output folder of a run");
    return fail(s, err,
                looks_like_hub(s->job->model.init)
                    ? "no such folder; a name on the Hugging Face hub: "
                      "download it first, and name the folder it is in"
                    : "no such folder: expected \"random\", a Hugging Face "
                      "folder, or the output folder of a run");
}

/* What the model is that init names; nothing where it cannot be read. */
static void fields_of_init(const struct dsf_job *job,
                           struct dsf_ckpt_fields *of)
{
    const char *init = job->model.init;
    struct dsf_identity now;
    struct dsf_model model;
    struct dsflow_err unread;

    *of = (struct dsf_ckpt_fields){ .n = 0 };
    if (!dsf_file_is_in(init, "config.json")) {
        dsf_kept_fields(init, of);
    } else if (dsf_model_init(&model, job, &unread) == DSFLOW_OK) {
        dsf_identity_of_model(job, &model, &now);
        dsf_identity_fields(&now, of);
        dsf_identity_fini(&now);
        dsf_model_fini(&model);
    }
}

/* The first key of the model that has another value by now; NULL: none. */
static const char *find_changed(const struct dsf_ckpt_fields *was,
                                const struct dsf_ckpt_fields *now)
{
    for (size_t i = 0; i < was->n; i++) {
        const char *key = was->v[i].key;
        const char *value = dsf_ckpt_fields_find(now, key);

        if (strncmp(key, "model.", 6) == 0 && !is_segment(key + 6) &&
            value != NULL && strcmp(was->v[i].value, value) != 0)
            return key;
    }
    return NULL;
}

/* Has another model the name by now than the run's own began with? */
static bool is_other(const struct dsf_session *s)
{
    const char *init = s->job->model.init, *run = s->job->main.output, *key;
    struct dsf_ckpt_fields was, now;
    bool is;

    if (!dsf_kept_is_run(s) || dsf_job_has_set(s->job, "model", "init"))
        return false;
    dsf_kept_fields(run, &was);
    fields_of_init(s->job, &now);
    key = find_changed(&was, &now);
    if (key != NULL)
        dsf_warn_of_job("model.init %s is another model than in the run (%s is "
                        "%s there, and was %s): the sizes are those of %s",
                        init, key, dsf_ckpt_fields_find(&now, key),
                        dsf_ckpt_fields_find(&was, key), run);
    else if (was.n > 0 && now.n == 0)
        dsf_warn_of_job("model.init %s is no model any more that can be read: "
                        "the sizes are those of %s",
                        init, run);
    is = key != NULL || (was.n > 0 && now.n == 0);
    dsf_ckpt_fields_fini(&was);
    dsf_ckpt_fields_fini(&now);
    return is;
}

/* A run that has trained knows the sizes of its model. */
static int find_lost(struct dsf_session *s, struct dsflow_err *err)
{
    const char *init = s->job->model.init;
    char *folder = NULL, *tokenizer;
    int status = dsf_kept_checkpoint(s, &folder, err);

    if (status == DSFLOW_OK && folder != NULL)
        status = dsf_ckpt_fields_read(folder, "of", &s->origin.of, err);
    free(folder);
    if (status < 0)
        return status;
    if (s->origin.of.n == 0)
        return DSFLOW_OK;
    s->origin.lost = true;
    if (!is_there(init))
        dsf_info("model.init %s %s: the sizes are those of %s", init,
                 access(init, F_OK) < 0 ? "is not there any more"
                                        : "has no weights any more",
                 s->job->main.output);
    tokenizer = dsf_kept_tokenizer(s);
    status = take(s, tokenizer != NULL ? tokenizer : "bytes", err);
    free(tokenizer);
    return status;
}

int dsf_origin_find(struct dsf_session *s, struct dsflow_err *err)
{
    const char *init = s->job->model.init;
    struct stat st;
    int status;

    if (strcmp(init, "random") == 0)
        return DSFLOW_OK;
    status = is_there(init) && !is_other(s) ? DSFLOW_OK : find_lost(s, err);
    if (status < 0 || s->origin.lost)
        return status;
    if (stat(init, &st) < 0)
        return dsf_origin_lost(s, err);
    if (!S_ISDIR(st.st_mode))
        return fail(s, err,
                    "not a folder: expected a Hugging Face folder, or the "
                    "output folder of a run");
    if (dsf_file_is_in(init, "config.json"))
        return DSFLOW_OK;
    if (dsf_is_run(init))
        return find_run(s, err);
    if (dsf_file_is_in(init, "manifest.json"))
        return find_checkpoint(s, err);
    return fail(s, err,
                "has no config.json: expected a Hugging Face folder, or the "
                "output folder of a run");
}

int dsf_origin_say(const struct dsf_session *s, struct dsf_job *job,
                   struct dsflow_err *err)
{
    struct dsf_ckpt_fields fields = { .n = 0 };
    struct settings l = { NULL, 0, 0 };
    struct dsf_identity of;
    int status;

    dsf_identity_list(s, &of);
    dsf_identity_fields(&of, &fields);
    add(&l, dsf_xstrdup("model.init=random"));
    add_sizes(&l, &fields);
    status = dsf_job_with(s->job, DSF_GIVEN, (const char *const *)l.v,
                          (unsigned)l.n, job, err);
    free_settings(&l);
    dsf_ckpt_fields_fini(&fields);
    dsf_identity_fini(&of);
    return status;
}

void dsf_origin_check_tokenizer(const struct dsf_session *s)
{
    if (!dsf_kept_is_of(&s->origin.of, s->tok))
        dsf_warn("data.tokenizer %s is not the tokenizer of the run in "
                 "model.init, %s: its tokens mean something else",
                 s->job->data.tokenizer, s->job->model.init);
}
