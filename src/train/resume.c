/* resume.c - where a run begins: anew, or with a checkpoint of an earlier one.
 */
#include "train/resume.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/notice.h"
#include "config/job_saved.h"
#include "plugin/plugin.h"
#include "train/identity.h"
#include "train/machine_keys.h"

#include <stdlib.h>
#include <string.h>

/* The run's own job, with what --set changed. */
static void read_job(struct dsf_resume *r, const struct dsf_session *s)
{
    char *path = dsf_xasprintf("%s/job.toml", s->job->main.output);

    r->job = dsf_xcalloc(1, sizeof(*r->job));
    if (dsf_job_read_saved(path, NULL, 0, dsflow_plugin_load, true, r->job,
                           NULL) < 0) {
        free(r->job);
        r->job = NULL;
    }
    free(path);
}

/* A number that counted in the run; -1: not known. `fallback` is what the job
 * of an old checkpoint says. */
static int64_t number_of(const struct dsf_resume *r, const char *key,
                         int64_t fallback)
{
    const char *text = dsf_ckpt_fields_find(&r->was, key);

    return text != NULL ? strtoll(text, NULL, 10) : fallback;
}

static bool is_power_of_two(int64_t n)
{
    return (n & (n - 1)) == 0;
}

static void set_of(char *set, size_t size, const char *key, int64_t value)
{
    if (value < 0)
        snprintf(set, size, "%s=auto", key);
    else
        snprintf(set, size, "%s=%lld", key, (long long)value);
}

/* "auto" means what it meant in the run, where that is possible still: then the
 * bits stay. */
static int take_open_sizes(const struct dsf_resume *r, struct dsf_session *s,
                           struct dsflow_err *err)
{
    const struct dsf_job *was = r->job;
    struct dsf_job_batch batch = s->job->batch;
    char sets[3][48];
    const char *const settings[] = { sets[0], sets[1], sets[2] };
    const int64_t *mesh = s->job->mesh.size;
    int64_t data = mesh[DSF_AXIS_DATA], tokens = mesh[DSF_AXIS_SEQUENCE];
    int64_t token_groups = number_of(r, "batch.sequence_groups", -1);
    int64_t groups = was == NULL             ? -1
                     : was->batch.groups < 0 ? was->mesh.size[DSF_AXIS_DATA]
                                             : was->batch.groups;
    int64_t micro =
        number_of(r, "batch.micro", was != NULL ? was->batch.micro : -1);

    groups = number_of(r, "batch.groups", groups);
    if (batch.micro < 0 && micro > 0 && batch.sequences % (micro * data) == 0)
        batch.micro = micro;
    if (batch.groups < 0 && groups > 0 && batch.micro > 0 &&
        batch.sequences % (batch.micro * groups) == 0 && groups % data == 0 &&
        is_power_of_two(groups / data)) /* a subtree for each data rank */
        batch.groups = groups;
    if (batch.sequence_groups < 0 && token_groups > 0 &&
        token_groups % tokens == 0 &&
        (data * tokens == 1 || is_power_of_two(token_groups / tokens)))
        batch.sequence_groups = token_groups;
    set_of(sets[0], sizeof(sets[0]), "batch.micro", batch.micro);
    set_of(sets[1], sizeof(sets[1]), "batch.groups", batch.groups);
    set_of(sets[2], sizeof(sets[2]), "batch.sequence_groups",
           batch.sequence_groups);
    return dsf_session_set(s, DSF_FOLLOWS, settings, 3, err);
}

int dsf_resume_find(struct dsf_resume *r, struct dsf_session *s,
                    struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);
    int status = DSFLOW_OK;

    dsf_notice("checking the last checkpoint");
    if (!r->overwrite)
        status = dsf_ckpt_latest(dir, r->good, &r->folder, &r->meta, err);
    dsf_notice_end();
    free(dir);
    if (!r->asked && !r->overwrite && (status < 0 || r->folder != NULL))
        return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "job", "output",
                            "%s has checkpoints: go on with --resume, or start "
                            "over with --overwrite, which removes them",
                            s->job->main.output);
    if (status < 0 || r->folder == NULL)
        return status;
    status = dsf_identity_read(r->folder, &r->was, err);
    if (status < 0)
        return status;
    if (r->meta.step > s->job->main.steps)
        return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "job", "steps",
                            "%lld: %s is of step %lld already: expected at "
                            "least that many",
                            (long long)s->job->main.steps, r->folder,
                            (long long)r->meta.step);
    read_job(r, s);
    return take_open_sizes(r, s, err);
}

/* A key that has another value than in the run. */
struct difference {
    char *key, *was, *now;
    bool counts; /* the checkpoint depends on it */
    enum dsf_effect effect;
};

struct comparison {
    const struct dsf_resume *r;
    const struct dsf_session *s;
    struct dsf_identity now;
    bool same; /* nothing that counts has changed: a hash says so */
    struct difference *v;
    size_t n, cap;
};

/* Do both jobs leave the tiles open? */
static bool has_auto_tiles(const struct comparison *c)
{
    return c->s->job->batch.tile < 0 &&
           (c->r->job == NULL || c->r->job->batch.tile < 0);
}

static enum dsf_effect effect_of(const struct comparison *c,
                                 const struct dsf_identity_key *key,
                                 const char *was, const char *now)
{
    /* A GPU has other tiles than a core. */
    if (strcmp(key->key, "batch.tile") == 0 && has_auto_tiles(c))
        return DSF_EFFECT_DEVICE;
    /* Without a momentum there is no state of it. */
    if (key->effect == DSF_EFFECT_UPDATE &&
        (strcmp(was, "0") == 0 || strcmp(now, "0") == 0))
        return DSF_EFFECT_STATES;
    return key->effect;
}

static void add(struct comparison *c, const char *key, const char *was,
                const char *now)
{
    const struct dsf_identity_key *counts = dsf_identity_find(&c->now, key);

    /* The oldest hashes say nothing of precision. */
    if (counts != NULL && c->same && counts->effect != DSF_EFFECT_PRECISION)
        return;
    dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
    c->v[c->n++] = (struct difference){
        .key = dsf_xstrdup(key),
        .was = dsf_xstrdup(was),
        .now = dsf_xstrdup(now),
        .counts = counts != NULL,
        .effect =
            counts != NULL ? effect_of(c, counts, was, now) : DSF_EFFECT_BITS,
    };
}

/* The value of a key in this job; NULL: not known, or it does not count. */
static const char *now_of(const struct comparison *c, const char *key)
{
    const struct dsf_identity_key *now = dsf_identity_find(&c->now, key);

    return now != NULL ? now->value : NULL;
}

static bool differs(const struct comparison *c, const char *key)
{
    const char *was = dsf_ckpt_fields_find(&c->r->was, key);
    const char *now = now_of(c, key);

    return was != NULL && now != NULL && strcmp(was, now) != 0;
}

/* Another size of a step has other tiles, and another type is one of the head:
 * that goes without saying. */
static bool follows(const struct comparison *c, const char *key)
{
    if (strcmp(key, "precision.head") == 0 ||
        strcmp(key, "precision.tf32") == 0)
        return differs(c, "precision.compute");
    return strcmp(key, "batch.tile") == 0 && has_auto_tiles(c) &&
           (differs(c, "batch.sequences") || differs(c, "batch.micro") ||
            differs(c, "batch.sequence"));
}

/* A key of two jobs. Where the checkpoint has the value that counted, that is
 * compared, and not what the jobs say. */
static void compare_key(void *user, const char *table, const char *key,
                        const char *was, const char *now)
{
    struct comparison *c = user;
    const struct dsf_identity_key *counts;
    const char *says; /* the key whose value tells of this one */
    char name[128];
    bool known;

    snprintf(name, sizeof(name), "%s.%s", table, key);
    counts = dsf_identity_find(&c->now, name);
    says = counts != NULL && counts->whole != NULL ? counts->whole : name;
    known = dsf_ckpt_fields_find(&c->r->was, says) != NULL &&
            now_of(c, says) != NULL;
    if (!known && strcmp(name, "job.output") != 0 && strcmp(was, now) != 0)
        add(c, name, was, now);
}

static void compare(struct comparison *c)
{
    const struct dsf_ckpt_fields *was = &c->r->was;

    for (size_t i = 0; i < was->n; i++)
        if (differs(c, was->v[i].key) && !follows(c, was->v[i].key))
            add(c, was->v[i].key, was->v[i].value, now_of(c, was->v[i].key));
    if (c->r->job != NULL)
        dsf_job_compare(c->r->job, c->s->job, compare_key, c);
}

/* "auto" is the steps of the job: with more of them it is another schedule. */
static void say_schedule(const struct comparison *c)
{
    const struct dsf_job *was = c->r->job, *now = c->s->job;
    const struct dsflow_lr_schedule *before =
        dsflow_lr_schedule_find(was->schedule.kind);
    const struct dsflow_lr_schedule *after =
        dsflow_lr_schedule_find(now->schedule.kind);

    if (before != NULL && before == after && after->ends &&
        was->schedule.total < 0 && now->schedule.total < 0)
        dsf_warn("schedule.total: \"auto\" is job.steps: the steps so far had "
                 "the rates of a run of %lld steps; one that has "
                 "schedule.total = %lld from its start, or is stopped by a "
                 "signal, goes on bit for bit",
                 (long long)was->main.steps, (long long)now->main.steps);
}

static void say(const struct comparison *c, const struct difference *d)
{
    const char *effect = dsf_effect_str(d->effect);

    if (!d->counts)
        dsf_info("%s: %s in the run, now %s: the checkpoint does not depend on "
                 "it",
                 d->key, d->was, d->now);
    else if (strcmp(d->key, "data.train") == 0)
        dsf_warn("data.train: the text is another than in the run (its files, "
                 "what is in them, or data.validation): %s",
                 effect);
    else if (strcmp(d->key, "data.tokenizer") == 0)
        dsf_warn("data.tokenizer: %s is another than in the run: %s",
                 c->s->job->data.tokenizer, effect);
    else
        dsf_warn("%s: %s in the run, now %s: %s", d->key, d->was, d->now,
                 effect);
    if (strcmp(d->key, "job.steps") == 0)
        say_schedule(c);
    if (d->counts && strcmp(d->key, "batch.sequence_groups") == 0 &&
        c->s->job->batch.sequence_groups < 0)
        dsf_warn("batch.sequence_groups: \"auto\" is mesh.sequence; a run that "
                 "has batch.sequence_groups = %lld from its start goes on bit "
                 "for bit on 1 to %lld ranks of a sequence",
                 (long long)c->s->job->mesh.size[DSF_AXIS_SEQUENCE],
                 (long long)c->s->job->mesh.size[DSF_AXIS_SEQUENCE]);
    /* With "auto", how many groups there are is a question of the mesh. */
    if (d->counts && strcmp(d->key, "batch.groups") == 0 &&
        c->s->job->batch.groups < 0)
        dsf_warn("batch.groups: \"auto\" is mesh.data; a run that has "
                 "batch.groups = %lld from its start goes on bit for bit on 1 "
                 "to %lld data ranks",
                 (long long)c->s->job->mesh.size[DSF_AXIS_DATA],
                 (long long)c->s->job->mesh.size[DSF_AXIS_DATA]);
}

/* The first with which nothing that was saved means anything; NULL: none. */
static const struct difference *find_broken(const struct comparison *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].counts && c->v[i].effect <= DSF_EFFECT_TOKENS)
            return &c->v[i];
    return NULL;
}

/* The keys that count and make another run, as a list; how many there are. */
static unsigned list_keys(const struct comparison *c, char *text, size_t size)
{
    unsigned n = 0;
    size_t at = 0;

    text[0] = '\0';
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].counts && c->v[i].effect != DSF_EFFECT_PRECISION &&
            c->v[i].effect != DSF_EFFECT_DEVICE && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s",
                                   n++ > 0 ? ", " : "", c->v[i].key);
    return n;
}

static int decide(struct dsf_resume *r, const struct comparison *c,
                  struct dsflow_err *err)
{
    const struct difference *broken = find_broken(c);
    const char *back;
    char keys[200];
    unsigned n = list_keys(c, keys, sizeof(keys));

    for (size_t i = 0; i < c->n; i++)
        say(c, &c->v[i]);
    if (broken != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: cannot go on with another %s: %s: set it back, "
                           "or train into another job.output",
                           r->folder, broken->key,
                           dsf_effect_str(broken->effect));
    if (n == 0)
        return DSFLOW_OK;
    back = n > 1 ? "them" : "it";
    if (strcmp(keys, "batch.groups") == 0 && c->s->job->batch.groups < 0)
        back = "mesh.data";
    if (strcmp(keys, "batch.sequence_groups") == 0 &&
        c->s->job->batch.sequence_groups < 0)
        back = "mesh.sequence";
    if (!r->changes)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: the job has changed (%s): set %s back, or go "
                           "on with --resume=changed, which is not bit for bit",
                           r->folder, keys, back);
    r->differs = true;
    for (size_t i = 0; i < c->n; i++)
        r->new_text |= c->v[i].counts && c->v[i].effect == DSF_EFFECT_TEXT;
    dsf_warn("%s: goes on with the job as it is now, not bit for bit; the text "
             "%s",
             r->folder,
             r->new_text ? "begins anew" : "goes on after what was read of it");
    return DSFLOW_OK;
}

/* Between cores and GPUs, or two of those, the last bits of products differ. */
static void say_machine(const struct dsf_resume *r, const struct dsf_session *s)
{
    const char *was = dsf_ckpt_fields_find(&r->was, DSF_IDENTITY_ON);
    char now[256];

    dsf_machine_keys_describe(&s->machine, now, sizeof(now));
    if (was == NULL)
        was = "cores";
    if (strcmp(was, now) != 0)
        dsf_info("%s: the run was on %s until now, and is on %s: last bits may "
                 "differ",
                 r->folder, was, now);
}

int dsf_resume_check(struct dsf_resume *r, const struct dsf_session *s,
                     struct dsflow_err *err)
{
    struct comparison c = { .r = r, .s = s };
    bool all = s->corpus != NULL; /* is known */
    int status = DSFLOW_OK;
    char keys[8];

    if (r->folder == NULL)
        return DSFLOW_OK;
    dsf_identity_list(s, &c.now);
    c.same = all && (dsf_identity_hash(&c.now) == r->meta.identity ||
                     dsf_identity_before(s) == r->meta.identity);
    compare(&c);
    /* Of the text an old checkpoint knows a hash, with all else. */
    if (all && !c.same && dsf_ckpt_fields_find(&r->was, "data.train") == NULL &&
        list_keys(&c, keys, sizeof(keys)) == 0)
        add(&c, "data.train", "", "");
    if (all || find_broken(&c) != NULL)
        status = decide(r, &c, err);
    if (all && status == DSFLOW_OK)
        say_machine(r, s);
    for (size_t i = 0; i < c.n; i++) {
        free(c.v[i].key);
        free(c.v[i].was);
        free(c.v[i].now);
    }
    free(c.v);
    dsf_identity_fini(&c.now);
    return status;
}

int dsf_resume_load(const struct dsf_resume *r, struct dsf_session *s,
                    struct dsflow_err *err)
{
    int64_t steps = r->meta.step, size = s->job->batch.sequences, seen;
    int status;

    dsf_notice("reading %.250s", r->folder);
    status = dsf_session_load(s, r->folder, err);
    dsf_notice_end();

    if (status < 0 || !r->differs)
        return status;
    seen = s->first +
           steps * number_of(r, "batch.sequences",
                             r->job != NULL ? r->job->batch.sequences : size);
    dsf_session_set_first(s, (r->new_text ? 0 : seen) - steps * size);
    return DSFLOW_OK;
}

int dsf_resume_begin(const struct dsf_resume *r, const struct dsf_session *s,
                     struct dsflow_err *err)
{
    char *dir = dsf_session_checkpoints(s);

    if (r->overwrite)
        dsf_ckpt_remove_all(dir);
    free(dir);
    return r->folder != NULL ? dsf_ckpt_name_latest(r->folder, err) : DSFLOW_OK;
}

void dsf_resume_fini(struct dsf_resume *r)
{
    if (r->job != NULL)
        dsf_job_fini(r->job);
    free(r->job);
    free(r->folder);
    dsf_ckpt_fields_fini(&r->was);
}
