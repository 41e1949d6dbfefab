/* tries.c - the values of keys that policies say are worth trying (policy.h).
 */
#include "tune/tunables.h"

#include "base/alloc.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/when.h"
#include "plan/stretch.h"
#include "policies/keys.h"

#include <math.h>
#include <string.h>

static const void *field_of(const struct dsf_changes *c)
{
    return (const char *)dsf_job_fields(c->job, c->row->table) +
           c->row->option->offset;
}

static bool is_used(const struct dsf_changes *c)
{
    const char *when = c->row->option->used_with;

    return when == NULL || dsf_job_is(c->job, when);
}

/* Of a choice, or a number among a few, whose values count from 0: how many
 * there are but for "auto", which is the last choice. */
static int count(const struct dsflow_option *o)
{
    int n = 0;

    if (o->type != DSFLOW_CHOICE)
        return (int)(o->max - o->min) + 1;
    while (o->choices[n] != NULL && strcmp(o->choices[n], "auto") != 0)
        n++;
    return n;
}

/* The value that the job has; -1: auto. */
static int value_of(const struct dsf_changes *c)
{
    const struct dsflow_option *o = c->row->option;
    int64_t number;

    if (o->type == DSFLOW_CHOICE) {
        int choice = *(const int *)field_of(c);

        return choice < count(o) ? choice : -1;
    }
    number = *(const int64_t *)field_of(c);
    return number < 0 ? -1 : (int)(number - (int64_t)o->min);
}

static char *text_of(const struct dsflow_option *o, int value)
{
    if (value < 0)
        return dsf_xstrdup("auto");
    return o->type == DSFLOW_CHOICE ? dsf_xstrdup(o->choices[value])
                                    : dsf_xasprintf("%d", value + (int)o->min);
}

/* Values from `i` on, up to `end` or down to it. */
static void add_values(struct dsf_changes *c, int i, int end)
{
    const struct dsflow_option *o = c->row->option;
    int now = value_of(c), by = i < end ? 1 : -1;

    for (; i != end; i += by) {
        struct dsf_change *x =
            dsf_changes_add(c, text_of(o, now), text_of(o, i));

        /* As many chunks as the list has parts, or balanced. */
        if (strcmp(c->row->key, "pipeline.schedule") == 0 &&
            (strcmp(x->from, "interleaved") == 0 ||
             strcmp(x->to, "interleaved") == 0))
            x->sets[x->nsets++] = dsf_xstrdup("pipeline.split=[]");
    }
}

/* All, or one of a key that has no effect. */
static void list_all(struct dsf_changes *c)
{
    add_values(c, 0, is_used(c) ? count(c->row->option) : 1);
}

static void list_behind(struct dsf_changes *c)
{
    int now = value_of(c), n = count(c->row->option);

    if (is_used(c) && now >= 0 && now < n)
        add_values(c, now + 1, n);
}

static void list_before(struct dsf_changes *c)
{
    int now = value_of(c);

    if (now > 0)
        add_values(c, now - 1, -1);
}

static void list_others(struct dsf_changes *c)
{
    list_before(c);
    list_behind(c);
}

static void list_default(struct dsf_changes *c)
{
    const char *to = c->row->option->fallback;
    const char *from = *(const bool *)field_of(c) ? "true" : "false";

    if (strcmp(to, from) != 0)
        dsf_changes_add(c, dsf_xstrdup(from), dsf_xstrdup(to));
}

static void list_more(struct dsf_changes *c)
{
    long long now = *(const int64_t *)field_of(c);

    for (int i = 1; i <= 4; i *= 2)
        if ((double)(now + i) <= c->row->option->max)
            dsf_changes_add(c, dsf_xasprintf("%lld", now),
                            dsf_xasprintf("%lld", now + i));
}

/* As a job has it: "16MiB". */
static char *size_text(int64_t bytes)
{
    return bytes % (1 << 20) == 0
               ? dsf_xasprintf("%lldMiB", (long long)(bytes >> 20))
               : dsf_xasprintf("%lldKiB", (long long)(bytes >> 10));
}

static void list_scaled(struct dsf_changes *c)
{
    int64_t now = *(const int64_t *)field_of(c);
    const int64_t sizes[] = { now / 2, now / 4, now * 2, now * 4 };

    for (int i = 0; i < 4; i++)
        if (sizes[i] >= 1 << 16)
            dsf_changes_add(c, size_text(now), size_text(sizes[i]));
}

static void list_quarters(struct dsf_changes *c)
{
    double now = fmax(*(const double *)field_of(c), 0);

    for (double to = now + 0.25; to < 1.2; to += 0.25)
        dsf_changes_add(c, dsf_xasprintf("%.2f", now),
                        dsf_xasprintf("%.2f", fmin(to, 1)));
}

bool dsf_changes_serial(const struct dsf_changes *c)
{
    return strcmp(c->account->trace->facts.executor, "serial") == 0;
}

/* The values of each kind. */
static const struct {
    dsf_list_fn values, less, better;
} kinds[] = {
    [DSFLOW_VALUES_RISING] = { list_all, list_behind, list_before },
    [DSFLOW_VALUES_ANY] = { NULL, NULL, list_others },
    [DSFLOW_VALUES_DEFAULT] = { NULL, NULL, list_default },
    [DSFLOW_VALUES_MORE] = { NULL, NULL, list_more },
    [DSFLOW_VALUES_SCALED] = { NULL, NULL, list_scaled },
    [DSFLOW_VALUES_QUARTERS] = { NULL, NULL, list_quarters },
};

static const enum dsf_reason reasons[] = {
    [DSFLOW_CAUSE_SLOTS] = DSF_REASON_SLOT,
    [DSFLOW_CAUSE_STAGES] = DSF_REASON_STAGES,
    [DSFLOW_CAUSE_MOVING] = DSF_REASON_MOVING,
    [DSFLOW_CAUSE_DISK] = DSF_REASON_DISK,
    [DSFLOW_CAUSE_AGAIN] = DSF_REASON_AGAIN,
};

/* One task at a time, and no other beside what the disk does; or nothing that
 * is moved between replicas. */
static bool is_pointless(const struct dsf_changes *c, enum dsflow_cause cause)
{
    if (cause == DSFLOW_CAUSE_MOVING)
        return dsf_plan_sharers(c->plan) < 2;
    return dsf_changes_serial(c) &&
           (cause == DSFLOW_CAUSE_SLOTS || cause == DSFLOW_CAUSE_DISK);
}

void dsf_list_tries(struct dsf_changes *c)
{
    if (is_used(c) && !is_pointless(c, c->row->how->cause))
        kinds[c->row->how->values].better(c);
}

/* Is anything of it on a disk? */
static bool on_disk(const struct dsf_offload_keys *keys)
{
    for (int role = 0; role < DSFLOW_NROLES; role++)
        if (keys->home[role] == DSFLOW_NVME)
            return true;
    return false;
}

void dsf_list_memories(struct dsf_changes *c)
{
    const struct dsf_offload_keys *asked = dsf_offload_keys(c->job);
    const bool no_disk = !dsf_machine_may_use_disk(c->machine);
    struct dsf_offload_keys keys = *asked;

    for (unsigned i = 1; dsf_offload_fallback(i, &keys); i++, keys = *asked) {
        struct dsf_change *x = NULL;

        if (on_disk(&keys) && no_disk)
            continue;
        for (const struct dsflow_option *o = dsf_policy_offload.options;
             o->key != NULL; o++) {
            if (dsf_option_same(o, asked, &keys))
                continue;
            if (x == NULL)
                x = dsf_changes_add(c, dsf_xstrdup(""), NULL);
            x->sets[x->nsets++] = dsf_xasprintf("offload.%s=%s", o->key,
                                                dsf_value_text(o, &keys).s);
        }
    }
}

void dsf_tunable_of_policy(struct dsf_tunable *row,
                           const struct dsflow_policy *policy,
                           const struct dsflow_try *how)
{
    *row = (struct dsf_tunable){
        .reason = reasons[how->cause],
        .regroups = how->regroups,
        .cost = 3,
        .values = kinds[how->values].values,
        .less = kinds[how->values].less,
        .better = dsf_list_tries,
        .how = how,
    };
    snprintf(row->key, sizeof(row->key), "%s.%s", policy->name, how->key);
    if (row->values != NULL)
        snprintf(row->open, sizeof(row->open), "%s = auto", row->key);
}
