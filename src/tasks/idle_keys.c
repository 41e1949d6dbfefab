/* idle_keys.c - warnings of a job whose keys are right but do not do what they
 * seem to: those that have no effect, and lengths that are never reached. */
#include "tasks/components.h"

#include "base/log.h"
#include "config/job_tables.h"
#include "config/when.h"

#include <string.h>

/* With the place of the key in front. */
static void warn(const struct dsf_job *job, const char *table, const char *key,
                 const char *what, const char *why)
{
    struct dsflow_err err;

    dsf_job_fail(job, &err, DSFLOW_EINVAL, table, key, "%s%s", what, why);
    dsf_warn("%s", err.msg);
}

/* Plug-ins read the keys of [optimizer] and [schedule] as they like. */
static bool is_foreign(const char *table, const char *key, const char *value)
{
    const struct dsf_registered *r = NULL;

    if (strcmp(key, "kind") == 0 && strcmp(table, "optimizer") == 0)
        r = dsf_registry_find(&dsf_optimizers, value);
    else if (strcmp(key, "kind") == 0 && strcmp(table, "schedule") == 0)
        r = dsf_registry_find(&dsf_lr_schedules, value);
    return r != NULL && strcmp(r->origin, DSF_BUILTIN) != 0;
}

/* Those that a plug-in says it does not read. */
static bool is_read(const struct dsf_job *job, const char *table,
                    const char *key)
{
    if (strcmp(table, "optimizer") == 0 &&
        (strcmp(key, "momentum") == 0 || strcmp(key, "nesterov") == 0))
        return dsflow_optimizer_find(job->optimizer.kind)->uses_momentum;
    if (strcmp(table, "schedule") == 0 && strncmp(key, "warmup", 6) == 0)
        return dsflow_lr_schedule_find(job->schedule.kind)->warms_up;
    return true;
}

/* The key that chooses the component that brought this table, where another is
 * chosen; NULL: the table is used. */
static const char *unused_table(const struct dsf_job *job,
                                const struct dsf_table *t,
                                struct dsf_when_text *why)
{
    const struct dsflow_optimizer *o = dsflow_optimizer_find(t->name);
    const struct dsflow_lr_schedule *s = dsflow_lr_schedule_find(t->name);
    const char *table = NULL, *kind = NULL;

    if (o != NULL && o->options == t->options) {
        table = "optimizer";
        kind = job->optimizer.kind;
    } else if (s != NULL && s->options == t->options) {
        table = "schedule";
        kind = job->schedule.kind;
    }
    if (table == NULL || strcmp(kind, t->name) == 0)
        return NULL;
    snprintf(why->s, sizeof(why->s), "%s.kind is \"%.60s\" (needs %.60s)",
             table, kind, t->name);
    return table;
}

static bool is_idle(const struct dsf_job *job, const struct dsf_table *t,
                    unsigned row, const struct dsflow_option *o,
                    struct dsf_when_text *why)
{
    if (unused_table(job, dsf_table_owner(t), why) != NULL)
        return true;
    if (o->used_with == NULL || dsf_is_off(o, dsf_job_row(job, t, row)))
        return false;
    switch (dsf_when(job, o->used_with, is_foreign, why)) {
    case DSF_NO:
        return true;
    case DSF_YES:
        return false;
    case DSF_MAYBE:
        break;
    }
    snprintf(why->s, sizeof(why->s), "%s.kind does not read it", t->name);
    return !is_read(job, t->name, o->key);
}

/* A rise to the full rate that the run or the schedule ends before. */
static void warn_of_length(const struct dsf_job *job, const char *key,
                           int64_t length, int64_t end, const char *what)
{
    char text[160];

    if (length <= end)
        return;
    snprintf(text, sizeof(text),
             "%lld: longer than the %lld steps of the %s: the full rate is "
             "never reached",
             (long long)length, (long long)end, what);
    warn(job, "schedule", key, text, "");
}

/* A schedule that comes down to nothing, and a run that goes on. */
static void warn_of_end(const struct dsf_job *job, int64_t total)
{
    char text[160];

    if (total >= job->main.steps || job->schedule.min_ratio > 0)
        return;
    snprintf(text, sizeof(text),
             "%lld: shorter than the %lld steps of the run: the rate is 0 from "
             "then on",
             (long long)total, (long long)job->main.steps);
    warn(job, "schedule", "total", text, "");
}

static void warn_of_schedule(const struct dsf_job *job)
{
    const struct dsflow_lr_schedule *s =
        dsflow_lr_schedule_find(job->schedule.kind);
    struct dsflow_lr_keys keys = dsf_lr_keys(job);

    if (s->warms_up && s->ends && keys.total < job->main.steps)
        warn_of_length(job, "warmup", keys.warmup, keys.total, "schedule");
    else if (s->warms_up)
        warn_of_length(job, "warmup", keys.warmup, job->main.steps, "run");
    else if (strcmp(s->name, "one_cycle") == 0)
        warn_of_length(job, "half_cycle", keys.half_cycle, job->main.steps,
                       "run");
    if (s->ends)
        warn_of_end(job, keys.total);
}

void dsf_job_warn(const struct dsf_job *job)
{
    struct dsf_when_text why;
    const struct dsf_table *t;

    for (unsigned i = 0; (t = dsf_job_table_at(i)) != NULL; i++)
        for (unsigned row = 0; row < dsf_job_rows(job, t); row++) {
            struct dsf_row_name name = dsf_row_name(t, row);

            for (const struct dsflow_option *o = t->options; o->key != NULL;
                 o++)
                if (dsf_job_has(job, name.s, o->key) &&
                    is_idle(job, t, row, o, &why))
                    warn(job, name.s, o->key, "has no effect: ", why.s);
        }
    warn_of_schedule(job);
}
