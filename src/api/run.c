/* run.c - training from a program. */
#include <dsflow/train.h>

#include "api/api.h"
#include "base/alloc.h"
#include "train/evaluation.h"
#include "train/params.h"
#include "train/run.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct dsflow_run {
    struct dsf_run run;
    struct dsflow_train_options options;
    struct dsflow_step step; /* the last one */
    bool stopped;
    bool by_step;             /* the caller asks for each one */
    struct dsflow_err failed; /* status DSFLOW_OK: not yet */
};

/* StarPU, and the machine, are one for the process. */
static atomic_bool is_open;

static bool should_stop(struct dsflow_run *x)
{
    x->stopped = x->stopped || (x->options.should_stop != NULL &&
                                x->options.should_stop(x->options.user) != 0);
    return x->stopped;
}

static bool may_begin(void *user, int64_t step)
{
    struct dsflow_run *x = user;

    return x->by_step || !should_stop(x);
}

static bool is_stopped(void *user)
{
    return should_stop(user);
}

static void on_step(void *user, const struct dsf_step *s)
{
    struct dsflow_run *x = user;

    x->step = (struct dsflow_step){ .step = s->step,
                                    .loss = s->loss,
                                    .lr = s->lr,
                                    .grad_norm = s->grad_norm,
                                    .seconds = s->seconds,
                                    .efficiency = s->efficiency,
                                    .mfu = s->mfu,
                                    .tokens = s->tokens,
                                    .peak_bytes = s->peak_bytes,
                                    .skipped = s->skipped,
                                    .loss_scale = s->loss_scale,
                                    .overflows = s->overflows };
    if (x->options.on_step != NULL)
        x->options.on_step(x->options.user, &x->step);
}

static struct dsflow_validation public_of(const struct dsf_validation *v)
{
    return (struct dsflow_validation){ v->step, v->loss, v->per_byte,
                                       v->perplexity };
}

static void on_validation(void *user, const struct dsf_validation *v)
{
    const struct dsflow_run *x = user;
    struct dsflow_validation out = public_of(v);

    if (x->options.on_validation != NULL)
        x->options.on_validation(x->options.user, &out);
}

/* A run that failed stays so: what is in memory means nothing any more. */
static int keep(struct dsflow_run *x, int status, struct dsflow_err *err)
{
    if (status == DSFLOW_OK)
        return status;
    x->failed = *err;
    x->failed.status = (enum dsflow_status)status;
    dsf_run_end(&x->run, DSF_FAILED, err->msg);
    x->run.begun = false; /* that was the last line */
    return status;
}

static int check(const struct dsflow_run *x, struct dsflow_err *err)
{
    if (x->failed.status == DSFLOW_OK)
        return DSFLOW_OK;
    return dsflow_fail(err, x->failed.status, "%s", x->failed.msg);
}

static void set_start(struct dsf_resume *r, enum dsflow_start start)
{
    r->asked = start == DSFLOW_START_RESUME ||
               start == DSFLOW_START_RESUME_GOOD ||
               start == DSFLOW_START_RESUME_CHANGED;
    r->good = start == DSFLOW_START_RESUME_GOOD;
    r->changes = start == DSFLOW_START_RESUME_CHANGED;
    r->overwrite = start == DSFLOW_START_OVERWRITE;
}

static int open_run(struct dsflow_run *x, const struct dsflow_job *job,
                    struct dsflow_err *err)
{
    struct dsf_run *r = &x->run;
    locale_t own = dsf_api_enter();
    int status = dsf_api_open(job, x->options.batches, &r->s, err);

    if (status == DSFLOW_OK)
        status = dsf_run_check(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_plan(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_text(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_predict(r, err);
    if (status == DSFLOW_OK)
        status = dsf_run_open(r, err);
    dsf_api_leave(own);
    return status;
}

static int check_options(const struct dsflow_train_options *options,
                         struct dsflow_err *err)
{
    int status = dsf_api_check_size("struct dsflow_train_options",
                                    options->size, sizeof(*options), err);

    if (status == DSFLOW_OK && options->start > DSFLOW_START_OVERWRITE)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "struct dsflow_train_options: start: %u: expected "
                             "one of enum dsflow_start",
                             (unsigned)options->start);
    return status;
}

/* The executor is this caller's until it sets is_open to false. */
static int begin(const struct dsflow_train_options *options,
                 struct dsflow_err *err)
{
    int status = options == NULL ? DSFLOW_OK : check_options(options, err);

    if (status == DSFLOW_OK && atomic_exchange(&is_open, true))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "a run is open: expected one at a time");
    return status;
}

int dsflow_run_open(const struct dsflow_job *job,
                    const struct dsflow_train_options *options,
                    struct dsflow_run **out, struct dsflow_err *err)
{
    struct dsflow_err own;
    struct dsflow_run *x;
    int status;

    err = err != NULL ? err : &own;
    *out = NULL;
    status = begin(options, err);
    if (status < 0)
        return status;
    x = dsf_xcalloc(1, sizeof(*x));
    if (options != NULL)
        x->options = *options;
    dsf_run_init(&x->run);
    x->run.executor = x->options.serial ? DSFLOW_SERIAL : DSFLOW_STARPU;
    x->run.calls = (struct dsf_run_calls){ .user = x,
                                           .may_begin = may_begin,
                                           .is_stopped = is_stopped,
                                           .on_step = on_step,
                                           .on_validation = on_validation };
    set_start(&x->run.start, x->options.start);
    status = open_run(x, job, err);
    if (status < 0) {
        keep(x, status, err);
        dsflow_run_close(x);
        return status;
    }
    *out = x;
    return DSFLOW_OK;
}

void dsflow_run_close(struct dsflow_run *x)
{
    if (x == NULL)
        return;
    if (x->failed.status == DSFLOW_OK) {
        bool whole = x->run.done == x->run.s.job->main.steps;

        dsf_run_end(&x->run, whole ? DSF_FINISHED : DSF_STOPPED, NULL);
    }
    dsf_run_close(&x->run);
    free(x);
    atomic_store(&is_open, false);
}

int64_t dsflow_run_done(const struct dsflow_run *x)
{
    return x->run.done;
}

int64_t dsflow_run_steps(const struct dsflow_run *x)
{
    return x->run.s.job->main.steps;
}

int dsflow_run_step(struct dsflow_run *x, const struct dsflow_step **step,
                    struct dsflow_err *err)
{
    struct dsflow_err ignored;
    locale_t own;
    int status;

    err = err != NULL ? err : &ignored;
    status = check(x, err);
    if (status == DSFLOW_OK && x->run.done == x->run.s.job->main.steps)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "all %lld steps of the job are done",
                             (long long)x->run.done);
    if (status < 0)
        return status;
    if (step != NULL)
        *step = &x->step;
    x->by_step = true;
    x->stopped = false;
    own = dsf_api_enter();
    status = dsf_run_step(&x->run, err);
    if (status == DSFLOW_OK && x->run.done == x->run.s.job->main.steps)
        dsf_run_finish(&x->run);
    if (status < 0)
        status = dsf_run_failed(&x->run, status, err);
    dsf_api_leave(own);
    return keep(x, status, err);
}

int dsflow_run_validate(struct dsflow_run *x, struct dsflow_validation *out,
                        struct dsflow_err *err)
{
    struct dsflow_err own;
    struct dsf_validation v;
    int status;

    err = err != NULL ? err : &own;
    status = check(x, err);
    if (status == DSFLOW_OK && x->run.s.text.validation_sequences == 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "there is nothing to validate on");
    x->stopped = false;
    if (status == DSFLOW_OK)
        status = keep(x, dsf_run_validate(&x->run, &v, err), err);
    if (status == DSFLOW_OK)
        *out = public_of(&v);
    return status;
}

int dsflow_run_save(struct dsflow_run *x, struct dsflow_err *err)
{
    int status = check(x, err);
    locale_t own;

    if (status < 0)
        return status;
    own = dsf_api_enter();
    status = dsf_run_save(&x->run, err); /* a full disk need not end the run */
    dsf_api_leave(own);
    return status;
}

int dsflow_run_tensor(const struct dsflow_run *x, unsigned i,
                      struct dsflow_tensor_info *tensor)
{
    return dsf_api_describe(&x->run.s.model, i, tensor);
}

/* The unit of a tensor, into memory of its own. */
static int fetch(struct dsflow_run *x, const char *name, int64_t elems,
                 struct dsf_tensor_place *place, float **unit,
                 struct dsflow_err *err)
{
    struct dsf_session *s = &x->run.s;
    int status = check(x, err);

    *unit = NULL;
    if (status == DSFLOW_OK)
        status = dsf_api_find(&s->model, name, elems, place, err);
    if (status == DSFLOW_OK)
        status = dsf_unit_alloc(&s->model, place->unit, unit, err);
    return status == DSFLOW_OK ? dsf_contents_get(&s->contents, place->unit,
                                                  DSF_KEPT_PARAM, *unit, err)
                               : status;
}

int dsflow_run_get(struct dsflow_run *x, const char *name, float *to,
                   int64_t elems, struct dsflow_err *err)
{
    struct dsf_tensor_place place;
    float *unit;
    int status = fetch(x, name, elems, &place, &unit, err);

    if (status == DSFLOW_OK)
        dsf_api_take(&place, unit, to);
    free(unit);
    return status;
}

int dsflow_run_put(struct dsflow_run *x, const char *name, const float *from,
                   int64_t elems, struct dsflow_err *err)
{
    struct dsf_tensor_place place;
    float *unit;
    int status = fetch(x, name, elems, &place, &unit, err);

    if (status == DSFLOW_OK) {
        dsf_api_give(&place, unit, from);
        status = dsf_contents_put(&x->run.s.contents, place.unit,
                                  DSF_KEPT_PARAM, unit, err);
        x->run.saved = -1; /* no checkpoint has it */
        x->run.s.edited = x->run.s.unprepared = true;
    }
    free(unit);
    return status;
}

int dsflow_run_generate(struct dsflow_run *x, const char *prompt, size_t bytes,
                        const struct dsflow_sampling *sampling,
                        dsflow_token_fn on_token, void *user,
                        struct dsflow_err *err)
{
    struct dsf_session *s = &x->run.s;
    struct dsf_text_weights weights = { .n = 0 };
    float **params = NULL;
    int status = check(x, err);

    if (status == DSFLOW_OK)
        status = dsf_run_check_copies(&x->run, err);
    if (status == DSFLOW_OK)
        status = dsf_session_units(s, &params, err);
    if (status == DSFLOW_OK)
        status = dsf_text_weights_lend(&weights, &s->model, s->job,
                                       dsf_session_updates(s), params, err);
    if (status == DSFLOW_OK)
        status = dsf_api_generate(s, &weights, prompt, bytes, sampling,
                                  on_token, user, err);
    dsf_text_weights_fini(&weights);
    dsf_session_units_free(s, params);
    return status;
}

int dsflow_train(const struct dsflow_job *job,
                 const struct dsflow_train_options *options,
                 struct dsflow_err *err)
{
    struct dsflow_err ignored;
    struct dsflow_run *x;
    locale_t own;
    int status;

    err = err != NULL ? err : &ignored;
    status = dsflow_run_open(job, options, &x, err);
    if (status < 0)
        return status;
    own = dsf_api_enter();
    status = dsf_run_train(&x->run, err);
    if (status == DSFLOW_OK && x->stopped)
        status = dsf_run_save(&x->run, err);
    if (status < 0)
        status = dsf_run_failed(&x->run, status, err);
    dsf_api_leave(own);
    keep(x, status, err);
    dsflow_run_close(x);
    return status;
}

int dsflow_evaluate(const struct dsflow_job *job,
                    const struct dsflow_train_options *options, int64_t step,
                    struct dsflow_validation *out, struct dsflow_err *err)
{
    bool serial = options != NULL && options->serial;
    struct dsf_session s = { 0 };
    struct dsf_validation v;
    locale_t own;
    int status = dsf_api_check_step(step, err);

    if (status == DSFLOW_OK)
        status = begin(options, err);
    if (status < 0)
        return status;
    own = dsf_api_enter();
    status = dsf_api_open(job, options != NULL ? options->batches : NULL, &s,
                          err);
    if (status < 0)
        dsf_session_close(&s);
    else
        status =
            dsf_session_evaluate(&s, serial ? DSFLOW_SERIAL : DSFLOW_STARPU,
                                 step < 0 ? DSF_LATEST : step, &v, err);
    dsf_api_leave(own);
    if (status == DSFLOW_OK)
        *out = public_of(&v);
    atomic_store(&is_open, false);
    return status;
}
