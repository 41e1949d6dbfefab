/* verify.c - everything that a library brings, each in a process of its own. */
#include "verify/verify.h"

#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "policies/policies.h"
#include "tasks/components.h"
#include "verify/try_component.h"
#include "verify/try_segment.h"

#include <stdio.h>
#include <string.h>

/* One thing to try: a codelet, or what its sort says. */
struct subject {
    const struct dsf_verify_options *how;
    const struct dsflow_codelet *codelet;
    const struct dsflow_optimizer *optimizer; /* the codelet is of it */
    const struct dsflow_lr_schedule *schedule;
    const struct dsflow_policy *policy;
};

static void try_codelet(const struct subject *s, struct dsf_verdict *verdict)
{
    const struct dsflow_codelet *c = s->codelet;
    const struct dsflow_trials *trials = c->trials;
    struct dsf_computes codelet = { c->op, c->cpu }, reference = { NULL, NULL };
    const struct dsflow_op *original = NULL;
    const struct dsflow_segment *segment = dsf_segment_of(c->op, &original);

    if (segment != NULL && original != NULL && original != c->op) {
        const struct dsflow_codelet *builtin = dsflow_codelet_find(original);

        trials = trials != NULL ? trials : builtin->trials;
        reference = (struct dsf_computes){ original, builtin->cpu };
    }
    if (trials != NULL && trials->reference != NULL)
        reference = (struct dsf_computes){ c->op, trials->reference };
    if (c->trials == &dsf_trials_segment)
        dsf_try_codelet(&codelet, &reference, &dsf_trials_part, s->how,
                        verdict);
    if (segment != NULL && trials == NULL)
        trials = &dsf_trials_described;
    if (trials != NULL)
        dsf_try_codelet(&codelet, &reference, trials, s->how, verdict);
    if (s->optimizer != NULL)
        dsf_try_optimizer(s->optimizer, s->how, verdict);
    if (segment != NULL)
        dsf_try_gradients(segment, c->op, s->how);
}

static void try_subject(const void *user, struct dsf_verdict *verdict)
{
    const struct subject *s = user;

    if (s->codelet != NULL)
        try_codelet(s, verdict);
    else if (s->schedule != NULL)
        dsf_try_schedule(s->schedule, s->how, verdict);
    else
        dsf_try_policy(s->policy, s->how, verdict);
}

/* Why a codelet cannot be tried alone; NULL: it can. */
static const char *cannot_try(const struct subject *s)
{
    const struct dsflow_op *original = NULL;
    const struct dsflow_codelet *c = s->codelet;

    if (c == NULL)
        return NULL;
    if (c->cpu == NULL)
        return "it has no function for a CPU";
    if (c->host_only)
        return "it calls the program around it";
    if (c->trials == NULL && s->optimizer == NULL &&
        dsf_segment_of(c->op, &original) == NULL)
        return "it has no trials";
    return NULL;
}

static const char *name_of(const struct subject *s)
{
    return s->codelet != NULL    ? s->codelet->op->name
           : s->schedule != NULL ? s->schedule->name
                                 : s->policy->name;
}

/* Was it asked for by name, or was nothing? */
static bool is_wanted(const struct dsf_verify *v, const char *name)
{
    bool wanted = v->nnames == 0;

    for (unsigned i = 0; i < v->nnames; i++)
        if (strcmp(v->names[i], name) == 0) {
            v->seen[i] = true;
            wanted = true;
        }
    return wanted;
}

static void try_one(const struct subject *s, const struct dsf_verify *v)
{
    struct dsf_verified t = { .sort = s->codelet != NULL    ? ""
                                      : s->schedule != NULL ? "schedule "
                                                            : "policy ",
                              .name = name_of(s) };
    const char *why = cannot_try(s);

    if (!is_wanted(v, t.name))
        return;
    if (why != NULL)
        snprintf(t.verdict.untried, sizeof(t.verdict.untried), "%s", why);
    else if (!v->untried)
        dsf_child_run(try_subject, s, s->how->limit, &t.verdict);
    v->each(v->user, &t);
}

/* Everything of the registries that comes from `origin`. */
static const void *next_of(struct dsf_registry *r, const char *origin,
                           size_t *i)
{
    const struct dsf_registered *found;

    while ((found = dsf_registry_at(r, (*i)++)) != NULL)
        if (strcmp(found->origin, origin) == 0)
            return found->thing;
    return NULL;
}

/* The optimizer that the codelet computes. */
static const struct dsflow_optimizer *optimizer_of(const struct dsflow_op *op)
{
    const struct dsflow_optimizer *o;

    for (unsigned i = 0; (o = dsflow_optimizer_at(i)) != NULL; i++)
        if (o->op == op)
            return o;
    return NULL;
}

/* A kind of task that no run can compute. (What a policy puts others in the
 * place of needs no codelet.) */
static void name_uncomputed(const struct dsf_verify *v,
                            const struct dsflow_op *op)
{
    struct dsf_verified t = { .sort = "",
                              .name = op->name,
                              .verdict.fault = "no codelet computes it" };

    if ((op->update || op->segment != NULL) &&
        dsflow_codelet_find(op) == NULL && is_wanted(v, op->name))
        v->each(v->user, &t);
}

void dsf_verify(const struct dsf_verify *v)
{
    const void *thing;

    for (size_t i = 0;
         (thing = next_of(&dsf_task_kinds, v->origin, &i)) != NULL;)
        name_uncomputed(v, thing);
    for (size_t i = 0;
         (thing = next_of(&dsf_codelet_kinds, v->origin, &i)) != NULL;) {
        const struct dsflow_codelet *c = thing;

        try_one(&(struct subject){ .how = v->how,
                                   .codelet = c,
                                   .optimizer = optimizer_of(c->op) },
                v);
    }
    for (size_t i = 0;
         (thing = next_of(&dsf_lr_schedules, v->origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = v->how, .schedule = thing }, v);
    for (size_t i = 0;
         (thing = next_of(&dsf_policies, v->origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = v->how, .policy = thing }, v);
}
