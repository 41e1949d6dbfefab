/* params.c - the weights of a model, from where they are kept. */
#include "train/params.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/notice.h"
#include "model/hf.h"
#include "train/identity.h"
#include "train/kept.h"
#include "train/origin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct dsf_params {
    const struct dsf_session *s;
    struct dsf_st_file *checkpoint; /* of this run, or of the one that it
                                       starts from; NULL: … */
    struct dsf_hf *hf;              /* … from here; NULL: at random */
    char *folder;    /* of the checkpoint, where it is of this run */
    int64_t updates; /* that made them */
};

/* A key of the model that is another than in the checkpoint. */
static int check_key(const struct dsf_session *s, const char *folder,
                     const struct dsf_identity_key *k, const char *was,
                     struct dsflow_err *err)
{
    const int table = (int)strcspn(k->key, ".");
    char *name = dsf_xasprintf("%.*s", table, k->key);
    const bool is_set = dsf_job_has_set(s->job, name, k->key + table + 1);

    free(name);
    if (k->effect == DSF_EFFECT_WEIGHTS)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %s is %s in it, and %s in the job: %s", folder,
                           k->key, was, k->value, dsf_effect_str(k->effect));
    if (!is_set)
        dsf_warn_of_job("%s: %s in the run, now %s: %s", k->key, was, k->value,
                        dsf_effect_str(k->effect));
    return DSFLOW_OK;
}

/* Is it a checkpoint of this model? An old one does not say. */
static int check_model(const struct dsf_session *s, const char *folder,
                       struct dsflow_err *err)
{
    struct dsf_ckpt_fields was = { .n = 0 };
    struct dsf_identity now;
    int status = dsf_identity_read(folder, &was, err);

    dsf_identity_of_model(s->job, &s->model, &now);
    for (size_t i = 0; i < now.n && status == DSFLOW_OK; i++) {
        const struct dsf_identity_key *k = &now.v[i];
        const char *value = dsf_ckpt_fields_find(&was, k->key);

        if (value != NULL && k->value != NULL && strcmp(value, k->value) != 0)
            status = check_key(s, folder, k, value, err);
    }
    if (status == DSFLOW_OK && !dsf_kept_is_of(&was, s->tok) &&
        !dsf_job_has_set(s->job, "data", "tokenizer"))
        dsf_warn_of_job("data.tokenizer: %s is another than in the run: %s",
                        s->job->data.tokenizer,
                        dsf_effect_str(DSF_EFFECT_TOKENS));
    dsf_identity_fini(&now);
    dsf_ckpt_fields_fini(&was);
    return status;
}

int dsf_params_find(const struct dsf_session *s, int64_t step, char **folder,
                    struct dsf_ckpt_meta *meta, struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);
    int status;

    if (step < 0) {
        status = dsf_ckpt_latest(dir, 0, folder, meta, err);
    } else {
        *folder = dsf_xasprintf("%s/step-%" PRId64, dir, step);
        status = access(*folder, F_OK) == 0
                     ? dsf_ckpt_verify(*folder, meta, err)
                     : dsflow_fail(err, DSFLOW_EINVAL,
                                   "%s: has no checkpoint of step %" PRId64
                                   " (dsflow checkpoint list)",
                                   s->job->main.output, step);
    }
    free(dir);
    if (status == DSFLOW_OK && *folder != NULL)
        status = check_model(s, *folder, err);
    if (status < 0) {
        free(*folder);
        *folder = NULL;
    }
    return status;
}

/* Of an old one all steps count, as it does not say which were skipped. */
static int read_updates(struct dsf_params *p, const char *folder, int64_t step,
                        struct dsflow_err *err)
{
    struct dsf_ckpt_fields numbers = { .n = 0 };
    int status = dsf_ckpt_fields_read(folder, "numbers", &numbers, err);
    const char *text = dsf_ckpt_fields_find(&numbers, "control.step");
    char *end = NULL;

    p->updates = text == NULL ? step : strtoll(text, &end, 10);
    if (text != NULL && (p->updates < 0 || end == text || *end != '\0'))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s/manifest.json: numbers: control.step: %.60s: "
                             "expected a number of updates",
                             folder, text);
    dsf_ckpt_fields_fini(&numbers);
    return status;
}

static int open_checkpoint(struct dsf_params *p, int64_t step, int64_t *from,
                           struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta = { 0 };
    char *folder = NULL;
    int status = dsf_params_find(p->s, step, &folder, &meta, err);

    if (status == DSFLOW_OK && folder != NULL) {
        status = dsf_ckpt_open_part(folder, "params", &p->checkpoint, err);
        *from = meta.step;
    }
    if (status == DSFLOW_OK && folder != NULL)
        status = read_updates(p, folder, meta.step, err);
    p->folder = folder;
    return status;
}

int dsf_params_open(const struct dsf_session *s, int64_t step,
                    struct dsf_params **out, int64_t *from,
                    struct dsflow_err *err)
{
    struct dsf_params *p = dsf_xcalloc(1, sizeof(*p));
    const char *init = s->job->model.init;
    int status = DSFLOW_OK;

    p->s = s;
    *from = DSF_START;
    if (step == 0)
        step = DSF_START;
    if (step != DSF_START)
        status = open_checkpoint(p, step, from, err);
    if (status == DSFLOW_OK && p->checkpoint == NULL) {
        if (s->origin.path != NULL)
            status = dsf_ckpt_open_part(s->origin.path, "params",
                                        &p->checkpoint, err);
        else if (s->origin.lost)
            status = dsf_origin_lost(s, err);
        else if (strcmp(init, "random") != 0)
            status = dsf_hf_open(&s->model, init, &p->hf, err);
        else if (step != DSF_START)
            status = dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: has no checkpoint: train it first (dsflow run), or look "
                "at the model as it starts (step 0)",
                s->job->main.output);
    }
    if (status < 0) {
        dsf_params_close(p);
        return status;
    }
    *out = p;
    return DSFLOW_OK;
}

void dsf_params_close(struct dsf_params *p)
{
    if (p == NULL)
        return;
    dsf_st_close(p->checkpoint);
    dsf_hf_close(p->hf);
    free(p->folder);
    free(p);
}

const char *dsf_params_folder(const struct dsf_params *p)
{
    return p->folder;
}

int64_t dsf_params_updates(const struct dsf_params *p)
{
    return p->updates;
}

void dsf_params_say(const struct dsf_session *s, int64_t step, int64_t from)
{
    const char *output = s->job->main.output, *init = s->job->model.init;

    if (from >= 0)
        dsf_info("step %" PRId64 " of %s", from, output);
    else if (strcmp(init, "random") == 0)
        dsf_info("the model as it starts, without training");
    else if (step == DSF_LATEST)
        dsf_info("%s has no checkpoint: the weights of model.init, %s", output,
                 init);
    else
        dsf_info("the weights of model.init, %s", init);
}

static int read_saved(const struct dsf_params *p, unsigned u, float *to,
                      struct dsflow_err *err)
{
    const struct dsf_unit *unit = &p->s->model.units[u];
    struct dsf_st_tensor wanted = {
        .name = (char *)unit->name,
        .dtype = DSFLOW_FP32,
        .bytes = (size_t)unit->file_elems * sizeof(float),
    };
    const struct dsf_st_tensor *t = dsf_ckpt_find(p->checkpoint, &wanted, err);
    int status;

    if (t == NULL)
        return DSFLOW_EINVAL;
    status = dsf_st_read(p->checkpoint, t, 0, t->bytes, to, err);
    if (status == DSFLOW_OK)
        dsf_unit_from_file(unit, to);
    return status;
}

int dsf_params_read(void *params, unsigned u, float *to, struct dsflow_err *err)
{
    const struct dsf_params *p = params;

    if (p->checkpoint != NULL)
        return read_saved(p, u, to, err);
    if (p->hf != NULL)
        return dsf_hf_read(p->hf, u, to, err);
    dsf_model_randomize(&p->s->model, u, (uint64_t)p->s->job->main.seed, to);
    return DSFLOW_OK;
}

void dsf_params_free(const struct dsf_session *s, float **all)
{
    for (unsigned u = 0; all != NULL && u < s->model.nunits; u++)
        free(all[u]);
    free(all);
}

int dsf_params_all(const struct dsf_session *s, int64_t step, float ***out,
                   int64_t *updates, struct dsflow_err *err)
{
    struct dsf_params *p = NULL;
    int64_t from;
    float **all = dsf_xcalloc(s->model.nunits, sizeof(*all));
    int status = dsf_params_open(s, step, &p, &from, err);

    *updates = status == DSFLOW_OK ? p->updates : 0;
    dsf_notice("reading the weights");
    for (unsigned u = 0; u < s->model.nunits && status == DSFLOW_OK; u++) {
        status = dsf_unit_alloc(&s->model, u, &all[u], err);
        if (status == DSFLOW_OK)
            status = dsf_params_read(p, u, all[u], err);
    }
    dsf_notice_end();
    dsf_params_close(p);
    if (status < 0) {
        dsf_params_free(s, all);
        return status;
    }
    *out = all;
    return DSFLOW_OK;
}
