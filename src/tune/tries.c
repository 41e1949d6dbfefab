/* tries.c - the values of keys that policies say are worth trying. */
#include "tune/tries.h"

#include "base/alloc.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/when.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool dsf_try_at(unsigned i, struct dsf_try *t)
{
    const struct dsflow_policy *policy;

    for (unsigned p = 0; (policy = dsflow_policy_at(p)) != NULL; p++)
        for (const struct dsflow_try *how = policy->tries;
             how != NULL && how->key != NULL; how++)
            if (i-- == 0) {
                *t = (struct dsf_try){
                    dsf_job_find_table(policy->name),
                    dsf_option_find(policy->options, how->key), how
                };
                return true;
            }
    return false;
}

static const void *field_of(const struct dsf_try *t, const struct dsf_job *job)
{
    return (const char *)dsf_job_fields(job, t->table) + t->option->offset;
}

/* Choices but for "auto", which is the last. */
static int choices_of(const struct dsflow_option *o)
{
    int n = 0;

    while (o->choices[n] != NULL && strcmp(o->choices[n], "auto") != 0)
        n++;
    return n;
}

static bool is_used(const struct dsf_try *t, const struct dsf_job *job)
{
    return t->option->used_with == NULL ||
           dsf_job_is(job, t->option->used_with);
}

int dsf_try_count(const struct dsf_try *t, const struct dsf_job *job)
{
    const struct dsflow_option *o = t->option;

    if (!is_used(t, job))
        return 1;
    return o->type == DSFLOW_CHOICE ? choices_of(o)
                                    : (int)(o->max - o->min) + 1;
}

int dsf_try_get(const struct dsf_try *t, const struct dsf_job *job)
{
    const struct dsflow_option *o = t->option;
    int64_t number;
    int choice;

    if (o->type == DSFLOW_CHOICE) {
        choice = *(const int *)field_of(t, job);
        return choice < choices_of(o) ? choice : -1;
    }
    number = *(const int64_t *)field_of(t, job);
    return number < 0 ? -1 : (int)(number - (int64_t)o->min);
}

char *dsf_try_text(const struct dsf_try *t, int value)
{
    if (value < 0)
        return dsf_xstrdup("auto");
    return t->option->type == DSFLOW_CHOICE
               ? dsf_xstrdup(t->option->choices[value])
               : dsf_xasprintf("%d", value + (int)t->option->min);
}

char *dsf_try_key(const struct dsf_try *t)
{
    return dsf_xasprintf("%s.%s", t->table->name, t->option->key);
}

char *dsf_try_set(const struct dsf_try *t, int value)
{
    char *key = dsf_try_key(t), *text = dsf_try_text(t, value);
    char *set = dsf_xasprintf("%s=%s", key, text);

    free(key);
    free(text);
    return set;
}

/* One value after the other, for dsf_try_each. */
struct trying {
    const struct dsf_try *t;
    void (*each)(void *user, const struct dsf_try *t, const char *from,
                 const char *to);
    void *user;
};

/* The texts are freed. */
static void give(const struct trying *g, char *from, char *to)
{
    g->each(g->user, g->t, from, to);
    free(from);
    free(to);
}

static void give_choices(const struct trying *g, const struct dsf_job *job)
{
    const struct dsf_try *t = g->t;
    int now = dsf_try_get(t, job), n = dsf_try_count(t, job);

    /* Those before it are faster; where nobody knows, all are tried. */
    for (int i = now - 1; i >= 0; i--)
        give(g, dsf_try_text(t, now), dsf_try_text(t, i));
    for (int i = now + 1;
         now >= 0 && i < n && t->how->values == DSFLOW_VALUES_ANY; i++)
        give(g, dsf_try_text(t, now), dsf_try_text(t, i));
}

static void give_more(const struct trying *g, int64_t now)
{
    for (int64_t i = 1; i <= 4; i *= 2)
        if ((double)(now + i) <= g->t->option->max)
            give(g, dsf_xasprintf("%lld", (long long)now),
                 dsf_xasprintf("%lld", (long long)(now + i)));
}

/* As a job has it: "16MiB". */
static char *size_text(int64_t bytes)
{
    return bytes % (1 << 20) == 0
               ? dsf_xasprintf("%lldMiB", (long long)(bytes >> 20))
               : dsf_xasprintf("%lldKiB", (long long)(bytes >> 10));
}

static void give_scaled(const struct trying *g, int64_t now)
{
    const int64_t sizes[] = { now / 2, now / 4, now * 2, now * 4 };

    for (int i = 0; i < 4; i++)
        if (sizes[i] >= 1 << 16)
            give(g, size_text(now), size_text(sizes[i]));
}

static void give_quarters(const struct trying *g, double now)
{
    for (double to = fmax(now, 0) + 0.25; to < 1.2; to += 0.25)
        give(g, dsf_xasprintf("%.2f", fmax(now, 0)),
             dsf_xasprintf("%.2f", fmin(to, 1)));
}

static void give_default(const struct trying *g, bool now)
{
    if (strcmp(g->t->option->fallback, now ? "true" : "false") != 0)
        give(g, dsf_xstrdup(now ? "true" : "false"),
             dsf_xstrdup(g->t->option->fallback));
}

void dsf_try_each(const struct dsf_try *t, const struct dsf_job *job,
                  void (*each)(void *user, const struct dsf_try *t,
                               const char *from, const char *to),
                  void *user)
{
    const struct trying g = { t, each, user };
    const void *field = field_of(t, job);

    if (!is_used(t, job))
        return;
    switch (t->how->values) {
    case DSFLOW_VALUES_RISING:
    case DSFLOW_VALUES_ANY:
        give_choices(&g, job);
        break;
    case DSFLOW_VALUES_DEFAULT:
        give_default(&g, *(const bool *)field);
        break;
    case DSFLOW_VALUES_MORE:
        give_more(&g, *(const int64_t *)field);
        break;
    case DSFLOW_VALUES_SCALED:
        give_scaled(&g, *(const int64_t *)field);
        break;
    case DSFLOW_VALUES_QUARTERS:
        give_quarters(&g, *(const double *)field);
        break;
    }
}
