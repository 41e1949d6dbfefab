/* into.c - a source as a checkpoint of a job. */
#include "foreign/into.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/log.h"
#include "base/notice.h"
#include "base/units.h"
#include "foreign/match.h"
#include "foreign/put.h"
#include "tasks/loss_scale.h"
#include "tasks/components.h"
#include "tasks/muon.h"
#include "policies/keys.h"
#include "policies/policies.h"
#include "train/early.h"
#include "train/identity.h"
#include "train/kept.h"
#include "train/machine_keys.h"
#include "train/run.h"
#include "tune/fit.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 1000000000 }; /* the most that a job takes */

/* A checkpoint on its way to disk. */
struct into {
    struct dsf_session *s;
    struct dsf_source *from;
    const struct dsf_into_spec *spec;
    struct dsf_matches matches;
    unsigned nstates;      /* of the job's optimizer */
    int64_t step, updates; /* where the run goes on */
    struct dsf_ckpt_part parts[2];
    struct place {
        unsigned unit, kind;
    } * places[2]; /* of the tensors of each */
};

/* The rules of an optimizer go by these words in its name. */
static const char *family_of(const char *name)
{
    static const char *const words[] = { "lamb", "muon", "adagrad", "amsgrad",
                                         "adam", "lion", "sgd" };
    char small[64];
    size_t n = 0;

    for (; name[n] != '\0' && n + 1 < sizeof(small); n++)
        small[n] =
            (char)(name[n] >= 'A' && name[n] <= 'Z' ? name[n] + 32 : name[n]);
    small[n] = '\0';
    for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
        if (strstr(small, words[i]) != NULL)
            return words[i];
    return NULL;
}

/* Do the moments mean what those of the job do? */
static int check_optimizer(const struct into *x, struct dsflow_err *err)
{
    const char *kind = x->s->job->optimizer.kind;
    const char *was = family_of(x->from->optimizer), *now = family_of(kind);
    unsigned has = 0;

    if (x->spec->weights_only)
        return DSFLOW_OK;
    if (x->nstates >= DSF_SOURCE_STATES)
        return dsf_job_fail(x->s->job, err, DSFLOW_ENOSYS, "optimizer", "kind",
                            "%s: keeps %u states of a tensor, and %s has two "
                            "at most (--weights-only goes without)",
                            kind, x->nstates, x->from->path);
    for (size_t i = 0; i < x->from->n; i++)
        has |= x->from->tensors[i].has;
    if ((was != NULL && now != NULL && strcmp(was, now) != 0) ||
        (x->nstates < 2 && (has & 1u << DSF_SOURCE_SECOND) != 0))
        return dsf_job_fail(x->s->job, err, DSFLOW_EINVAL, "optimizer", "kind",
                            "%s: %s has the moments of %s: expected the same "
                            "rule, or --weights-only",
                            kind, x->from->path,
                            x->from->optimizer[0] != '\0' ? x->from->optimizer
                            : x->nstates < 2              ? "Adam"
                                                          : "another one");
    return DSFLOW_OK;
}

static bool is_muon(const struct dsf_job *job)
{
    return strcmp(job->optimizer.kind, "muon") == 0;
}

static void warn_key(const struct into *x, const char *key, double now,
                     double was)
{
    if (!isnan(was) && fabs(now - was) > 1e-6 * fabs(was))
        dsf_warn("%s: %s in the job, and %s in %s", key, dsf_real_text(now).s,
                 dsf_real_text(was).s, x->from->path);
}

/* Keys that a configuration may have left to a program: what was set there is
 * what the moments are of. */
static void warn_optimizer(const struct into *x)
{
    const struct dsf_job *job = x->s->job;
    const struct dsf_muon_keys *muon;

    if (x->spec->weights_only)
        return;
    if (is_muon(job)) {
        muon = dsf_job_part(job, dsf_muon_options);
        warn_key(x, "muon.momentum", muon->momentum, x->from->momentum);
        if (x->from->clips_updates && job->optimizer.clip > 0)
            dsf_warn("%s: with ZeRO, DeepSpeed clips what Muon has made of "
                     "gradients: the job clips gradients, and moves further "
                     "(optimizer.clip = 0 where gradient_clipping was 0)",
                     x->from->path);
    }
    if (strcmp(job->optimizer.kind, "sgd") == 0)
        warn_key(x, "optimizer.momentum", job->optimizer.momentum,
                 x->from->momentum);
    if (x->nstates == 2) {
        warn_key(x, "optimizer.betas[0]", job->optimizer.betas[0],
                 x->from->betas[0]);
        warn_key(x, "optimizer.betas[1]", job->optimizer.betas[1],
                 x->from->betas[1]);
        warn_key(x, "optimizer.eps", job->optimizer.eps, x->from->eps);
    }
    warn_key(x, "optimizer.weight_decay", job->optimizer.weight_decay,
             x->from->weight_decay);
    if (x->from->least_decay > 0 && job->optimizer.weight_decay > 0)
        dsf_warn("%s: all groups of parameters have a weight decay: the job's "
                 "is that of matrices alone",
                 x->from->path);
    if (strcmp(job->schedule.kind, "constant") == 0)
        warn_key(x, "optimizer.lr", job->optimizer.lr, x->from->lr);
}

/* The places in the list of what the plan keeps: the states of the optimizer,
 * and what plug-ins keep of tensors. */
static bool keeps_tensors(const struct dsf_kept_list *kept, unsigned k)
{
    return k >= DSF_KEPT_STATE && kept->v[k].kind == DSFLOW_KEPT_TENSORS &&
           !kept->v[k].transient;
}

static int check_output(const struct dsf_session *s, struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);
    struct dsf_ckpt_use use = dsf_ckpt_use(dir);

    free(dir);
    if (use.n > 0)
        return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "job", "output",
                            "%s: has checkpoints already, the newest of step "
                            "%" PRId64 ": expected another folder",
                            s->job->main.output, use.newest);
    return dsf_run_check_output(s->job, err);
}

/* As a run would: what a checkpoint depends on is of the plan and the text. */
static int plan(struct dsf_session *s, struct dsflow_err *err)
{
    int status = dsf_machine_probe(&s->machine, err);

    if (status == DSFLOW_OK)
        status =
            dsf_machine_keys_find_gpus(s->job, 1, &s->machine, &s->model, err);
    if (status == DSFLOW_OK)
        status = dsf_early_check_text(s, err);
    if (status < 0)
        return status;
    if (dsf_fit_is_open(s->job) || s->job->codelets.load.n > 0)
        return dsf_session_plan(s, err);
    status = dsf_plan_new(s->job, &s->model, &s->machine, &s->plan, err);
    /* Without its graph, which may be large: of built-in policies, only those
     * of the optimizer keep tensors. */
    return status == DSFLOW_OK ? dsf_reference_keep(s->job, &s->plan->kept, err)
                               : status;
}

/* Where the run goes on. Without its numbers, or without its moments, it
 * begins.
 */
static int find_place(struct into *x, struct dsflow_err *err)
{
    const struct dsf_source *from = x->from;

    if (x->spec->weights_only)
        return DSFLOW_OK;
    x->step = from->steps >= 0 ? from->steps : from->updates;
    x->step = x->step < 0 ? 0 : x->step;
    x->updates = x->step - (from->skipped > 0 ? from->skipped : 0);
    if (x->step > MOST_STEPS || x->updates < 0)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: step %" PRId64 ", of which %" PRId64
                           " without an update: expected a step up to %d and "
                           "no more of these",
                           from->path, x->step, x->step - x->updates,
                           MOST_STEPS);
    if (from->updates >= 0 && from->updates != x->updates)
        dsf_warn("%s: its optimizer counts %" PRId64
                 " updates, and the run %" PRId64
                 " steps with an update: the schedule and the bias "
                 "correction go on after the latter",
                 from->path, from->updates, x->updates);
    return DSFLOW_OK;
}

static int check_stopped(const struct into *x, struct dsflow_err *err)
{
    return x->spec->stopped != NULL && x->spec->stopped(x->spec->user)
               ? dsflow_fail(err, DSFLOW_EINVAL, "stopped: nothing was written")
               : DSFLOW_OK;
}

static int put_tensor(const struct into *x, const struct place *place,
                      struct dsf_st_writer *out, struct dsflow_err *err)
{
    unsigned state = place->kind == DSF_KEPT_PARAM
                         ? DSF_SOURCE_WEIGHT
                         : DSF_SOURCE_FIRST + (place->kind - DSF_KEPT_STATE);

    if (check_stopped(x, err) < 0)
        return DSFLOW_EINVAL;
    if (state != DSF_SOURCE_WEIGHT &&
        (x->spec->weights_only || state > x->nstates)) /* a plug-in's, too */
        return dsf_put_zeroes(out, x->s->model.units[place->unit].file_elems,
                              err);
    return dsf_put_unit(x->from, &x->matches, place->unit,
                        (enum dsf_source_state)state, out, err);
}

static int put_param(void *user, unsigned i, struct dsf_st_writer *out,
                     struct dsflow_err *err)
{
    const struct into *x = user;

    return put_tensor(x, &x->places[0][i], out, err);
}

static int put_state(void *user, unsigned i, struct dsf_st_writer *out,
                     struct dsflow_err *err)
{
    const struct into *x = user;

    return put_tensor(x, &x->places[1][i], out, err);
}

/* One tensor of a part: of what stands at `kind` in the list, unit `u`. */
static void add_tensor(struct into *x, unsigned u, unsigned kind)
{
    int p = kind != DSF_KEPT_PARAM;
    struct dsf_ckpt_part *part = &x->parts[p];
    const struct dsf_unit *unit = &x->s->model.units[u];
    const char *name = x->s->plan->kept.v[kind].name;

    x->places[p][part->n] = (struct place){ u, kind };
    part->tensors[part->n++] = (struct dsf_st_tensor){
        .name = p == 0 ? dsf_xstrdup(unit->name)
                       : dsf_xasprintf("%s.%s", name, unit->name),
        .dtype = DSFLOW_FP32,
        .ndims = 1,
        .dims = { unit->file_elems },
        .bytes = (size_t)unit->file_elems * sizeof(float),
    };
}

/* The files of the checkpoint, as a session lists them (train/saved.c). */
static void list_parts(struct into *x)
{
    static const char *const names[] = { "params", "states" };
    const struct dsf_kept_list *kept = &x->s->plan->kept;
    size_t most = (size_t)x->s->model.nunits * kept->n;

    for (int p = 0; p < 2; p++) {
        x->parts[p] = (struct dsf_ckpt_part){
            .name = names[p],
            .tensors = dsf_xcalloc(most, sizeof(struct dsf_st_tensor)),
            .put = p == 0 ? put_param : put_state,
            .user = x,
        };
        x->places[p] = dsf_xcalloc(most, sizeof(struct place));
    }
    for (unsigned u = 0; u < x->s->model.nunits; u++)
        for (unsigned k = 0; k < kept->n; k++)
            if (k == DSF_KEPT_PARAM || keeps_tensors(kept, k))
                add_tensor(x, u, k);
}

static void forget_parts(struct into *x)
{
    for (int p = 0; p < 2; p++) {
        for (unsigned i = 0; i < x->parts[p].n; i++)
            free(x->parts[p].tensors[i].name);
        free(x->parts[p].tensors);
        free(x->places[p]);
    }
}

static void add_numbers(struct dsf_ckpt_fields *numbers,
                        const struct dsflow_kept *kept, const void *base)
{
    for (const struct dsflow_kept_field *f = kept->fields; f->name != NULL;
         f++) {
        char *name = dsf_xasprintf("%s.%s", kept->name, f->name);

        dsf_ckpt_fields_add(numbers, name, dsf_kept_field_text(f, base).s);
        free(name);
    }
}

/* The control of the last update, the place in the text, the loss scale. */
static void list_numbers(const struct into *x, struct dsf_ckpt_fields *numbers)
{
    const struct dsf_source *from = x->from;
    const struct dsf_job *job = x->s->job;
    const struct dsf_kept_list *kept = &x->s->plan->kept;
    const bool fresh = x->spec->weights_only;
    int64_t samples = fresh || from->samples < 0
                          ? x->step * job->batch.sequences
                          : from->samples;
    int64_t cursor[2] = { x->step, samples - x->step * job->batch.sequences };
    const struct dsflow_control control = {
        .updates = x->updates,
        .lr = fresh || isnan(from->lr) ? 0 : from->lr,
        .correction1 = 1 - pow(job->optimizer.betas[0], (double)x->updates),
        .correction2 = 1 - pow(job->optimizer.betas[1], (double)x->updates),
        .scale = 1,
        .loss_scale = fresh || !from->scale.is_there ? 1 : from->scale.scale,
        .skipped = x->step - x->updates,
    };
    const struct dsf_scaler scaler = {
        .scale = fresh || !from->scale.is_there ? 0 : from->scale.scale,
        .steps = from->scale.steps,
        .last_overflow = from->scale.last_overflow,
        .hysteresis = from->scale.hysteresis,
        .overflows = x->step - x->updates,
    };

    add_numbers(numbers, &kept->v[DSF_KEPT_CURSOR], cursor);
    add_numbers(numbers, &kept->v[DSF_KEPT_CONTROL], &control);
    for (size_t k = DSF_KEPT_STATE; k < kept->n; k++)
        if (kept->v[k].fields != NULL &&
            strcmp(kept->v[k].name, DSF_KEPT_SCALER) == 0 && scaler.scale > 0)
            add_numbers(numbers, &kept->v[k], &scaler);
}

static int write_job(const struct dsf_job *job, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/job.toml", job->main.output);
    struct dsf_aside file;
    int status = DSFLOW_OK;

    if (dsf_aside_open(&file, path) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    } else {
        fprintf(file.out, "# The job that a checkpoint was imported for.\n");
        dsf_job_write(job, file.out);
        if (dsf_aside_close(&file, true) < 0)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    }
    free(path);
    return status;
}

static int write_checkpoint(struct into *x, struct dsflow_err *err)
{
    struct dsf_session *s = x->s;
    struct dsf_ckpt_meta meta = { .step = x->step };
    struct dsf_ckpt_fields of = { 0 }, numbers = { 0 };
    struct dsf_identity identity;
    char *dir = dsf_session_checkpoints(s), on[256];
    int status;

    snprintf(meta.job, sizeof(meta.job), "%s", s->job->main.name);
    dsf_identity_list(s, &identity);
    dsf_identity_fields(&identity, &of);
    dsf_machine_keys_describe(&s->machine, on, sizeof(on));
    if (s->machine.gpus > 0)
        dsf_ckpt_fields_add(&of, DSF_IDENTITY_ON, on);
    list_numbers(x, &numbers);
    list_parts(x);
    meta.identity = dsf_identity_hash(&identity);
    meta.of = &of;
    meta.numbers = &numbers;
    dsf_notice("writing %.250s", dir);
    status = dsf_ckpt_save(dir, &meta, x->parts, 2, 0, err);
    dsf_notice_end();
    forget_parts(x);
    dsf_ckpt_fields_fini(&of);
    dsf_ckpt_fields_fini(&numbers);
    dsf_identity_fini(&identity);
    free(dir);
    return status;
}

/* All that a run is told by, or none of it. */
static int write_files(struct into *x, struct dsflow_err *err)
{
    int status = check_stopped(x, err);
    char *dir;

    if (status == DSFLOW_OK)
        status = write_checkpoint(x, err);
    if (status == DSFLOW_OK)
        status = dsf_kept_write_tokenizer(x->s, err);
    if (status == DSFLOW_OK)
        status = write_job(x->s->job, err);
    if (status < 0) {
        dir = dsf_session_checkpoints(x->s);
        dsf_ckpt_remove_all(dir);
        free(dir);
    }
    return status;
}

/* While it is written no run has the folder; one may have had it since it was
 * checked. */
static int save(struct into *x, struct dsflow_err *err)
{
    const struct dsf_job *job = x->s->job;
    const struct dsf_output_before before = dsf_run_look(job);
    struct dsf_metrics metrics = { .fd = -1 };
    int status = dsf_run_take_output(job, &metrics, err);

    if (status == DSFLOW_OK)
        status = check_output(x->s, err);
    if (status < 0) /* what is there is not of here */
        dsf_metrics_close(&metrics);
    if (status == DSFLOW_OK)
        status = dsf_session_text(x->s, err);
    if (status == DSFLOW_OK)
        status = write_files(x, err);
    if (status < 0)
        dsf_run_clear_output(job, &before, &metrics);
    dsf_metrics_close(&metrics);
    return status;
}

/* Frozen tensors are trained from here on. */
static void warn_frozen(const struct dsf_source *from)
{
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < from->n; i++)
        if (from->tensors[i].frozen && !from->tensors[i].again && n++ == 0)
            first = from->tensors[i].name;
    if (n > 0)
        dsf_warn("%s: %zu tensor%s not trained (%s%s): the job trains %s, with "
                 "moments that begin as zeroes",
                 from->path, n, n == 1 ? " was" : "s were", first,
                 n == 1 ? "" : ", …", n == 1 ? "it" : "them");
}

int dsf_into_write(struct dsf_session *s, struct dsf_source *from,
                   const struct dsf_into_spec *spec, struct dsf_into_done *done,
                   struct dsflow_err *err)
{
    struct into x = { .s = s, .from = from, .spec = spec };
    int status = check_output(s, err);

    *done = (struct dsf_into_done){ 0 };
    if (status == DSFLOW_OK)
        status = plan(s, err);
    if (status < 0)
        return status;
    x.nstates = dsf_optimizer_nstates(dsf_job_optimizer(s->job, NULL), s->job);
    status = check_optimizer(&x, err);
    if (status < 0)
        return status;
    done->nrefused =
        dsf_match_all(from, &s->model, spec->weights_only ? 1 : 1 + x.nstates,
                      is_muon(s->job), &x.matches, spec->refused, spec->user);
    if (done->nrefused == 0) {
        status = find_place(&x, err);
    }
    if (done->nrefused == 0 && status == DSFLOW_OK) {
        warn_frozen(from);
        warn_optimizer(&x);
        status = save(&x, err);
        done->step = x.step;
        done->folder = dsf_xasprintf("%s/checkpoints/step-%" PRId64,
                                     s->job->main.output, x.step);
    }
    dsf_matches_fini(&x.matches);
    return status;
}
