/* verify.c - everything that a library brings, each in a process of its own. */
#include "verify/verify.h"

#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "policies/policies.h"
#include "tasks/components.h"
#include "verify/try_component.h"
#include "verify/try_cuda.h"
#include "verify/try_segment.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* One thing to try: a codelet, or what its sort says. */
struct subject {
    const struct dsf_verify_options *how;
    const struct dsflow_codelet *codelet;
    bool on_gpu; /* its CUDA side */
    const struct dsflow_optimizer *optimizer; /* the codelet is of it */
    const struct dsflow_lr_schedule *schedule;
    const struct dsflow_policy *policy;
    const struct dsflow_wire_format *format;
};

/* What a codelet is tried on, and held against. */
struct trial {
    const struct dsflow_trials *trials; /* NULL: none */
    struct dsf_computes reference;      /* its cpu is NULL: none */
    const struct dsflow_segment *segment; /* NULL: of none */
};

static struct trial trial_of(const struct dsflow_codelet *c)
{
    struct trial t = { .trials = c->trials };
    const struct dsflow_op *original = NULL;

    t.segment = dsf_segment_of(c->op, &original);
    if (t.segment != NULL && original != NULL && original != c->op) {
        const struct dsflow_codelet *builtin = dsflow_codelet_find(original);

        t.trials = t.trials != NULL ? t.trials : builtin->trials;
        t.reference =
            (struct dsf_computes){ .op = original, .cpu = builtin->cpu };
    }
    if (t.trials != NULL && t.trials->reference != NULL)
        t.reference = (struct dsf_computes){ .op = c->op,
                                             .cpu = t.trials->reference };
    if (t.segment != NULL && t.trials == NULL)
        t.trials = &dsf_trials_described;
    return t;
}

static void try_cases(const struct subject *s, const struct trial *t,
                      const struct dsf_computes *codelet,
                      const struct dsf_computes *reference,
                      struct dsf_verdict *verdict)
{
    if (s->codelet->trials == &dsf_trials_segment)
        dsf_try_codelet(codelet, reference, &dsf_trials_part, s->how, verdict);
    if (t->trials != NULL)
        dsf_try_codelet(codelet, reference, t->trials, s->how, verdict);
}

static void try_codelet(const struct subject *s, struct dsf_verdict *verdict)
{
    const struct trial t = trial_of(s->codelet);
    const struct dsf_computes nothing = { .cpu = NULL };
    const struct dsf_computes codelet = { .op = s->codelet->op,
                                          .cpu = s->codelet->cpu };

    try_cases(s, &t, &codelet, &t.reference, verdict);
    if (s->optimizer != NULL)
        dsf_try_optimizer(s->optimizer, &codelet, &nothing, s->how, verdict);
    if (t.segment != NULL)
        dsf_try_gradients(t.segment, s->codelet->op, s->how);
}

static void note_bounds(const struct trial *t, bool same_bits,
                        struct dsf_verdict *verdict)
{
    double own = t->trials != NULL ? t->trials->tolerance : 0;

    if (same_bits)
        snprintf(verdict->note, sizeof(verdict->note), "the bits of cores");
    else
        snprintf(verdict->note, sizeof(verdict->note),
                 "within %g of cores in fp32, 2^%d in bf16, 2^%d in fp16",
                 own > 0 ? own : DSF_TRY_FP32, ilogb(DSF_TRY_BF16),
                 ilogb(DSF_TRY_FP16));
}

/* Beside its CPU side on the same cases. */
static void try_cuda(const struct subject *s, struct dsf_verdict *verdict)
{
    const struct dsflow_codelet *c = s->codelet;
    const struct trial t = trial_of(c);
    const struct dsf_computes gpu = dsf_cuda_computes(c);
    const struct dsf_computes cores = { .op = c->op,
                                        .cpu = c->cpu,
                                        .who = "its CPU side ",
                                        .same_bits = dsf_cuda_same_bits(c) };
    const struct dsf_computes *reference = c->cpu != NULL ? &cores
                                                          : &t.reference;

    try_cases(s, &t, &gpu, reference, verdict);
    if (s->optimizer != NULL)
        dsf_try_optimizer(s->optimizer, &gpu, reference, s->how, verdict);
    note_bounds(&t, reference->same_bits, verdict);
}

static void try_subject(const void *user, struct dsf_verdict *verdict)
{
    const struct subject *s = user;

    if (s->on_gpu)
        try_cuda(s, verdict);
    else if (s->codelet != NULL)
        try_codelet(s, verdict);
    else if (s->schedule != NULL)
        dsf_try_schedule(s->schedule, s->how, verdict);
    else if (s->policy != NULL)
        dsf_try_policy(s->policy, s->how, verdict);
    else
        dsf_try_format(s->format, s->how, verdict);
}

/* Why a codelet cannot be tried alone; NULL: it can. */
static const char *cannot_try(const struct subject *s)
{
    const struct dsflow_op *original = NULL;
    const struct dsflow_codelet *c = s->codelet;

    if (c == NULL)
        return NULL;
    if (c->cpu == NULL && !s->on_gpu)
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
           : s->policy != NULL   ? s->policy->name
                                 : s->format->name;
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

static const char *sort_of(const struct subject *s)
{
    return s->on_gpu             ? "CUDA "
           : s->codelet != NULL  ? ""
           : s->schedule != NULL ? "schedule "
           : s->policy != NULL   ? "policy "
                                 : "format ";
}

static void try_one(const struct subject *s, const struct dsf_verify *v)
{
    struct dsf_verified t = { .sort = sort_of(s), .name = name_of(s) };
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

/* The optimizer that the codelet computes, by tasks as optimizer.h says. */
static const struct dsflow_optimizer *optimizer_of(const struct dsflow_op *op)
{
    const struct dsflow_optimizer *o;

    for (unsigned i = 0; (o = dsflow_optimizer_at(i)) != NULL; i++)
        if (o->op == op && dsf_optimizer_front(op) == NULL)
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

static void try_sides(const struct dsf_verify *v,
                      const struct dsflow_codelet *c)
{
    struct subject s = { .how = v->how,
                         .codelet = c,
                         .optimizer = optimizer_of(c->op) };

    try_one(&s, v);
    s.on_gpu = true;
    if (v->on_gpu && dsf_cuda_has(c))
        try_one(&s, v);
}

/* The built-in ones are in the module, which may not be open. */
bool dsf_verify_has_cuda(const struct dsf_verify *v)
{
    const struct dsflow_codelet *c;
    bool has = strcmp(v->origin, DSF_BUILTIN) == 0;

    for (size_t i = 0;
         (c = next_of(&dsf_codelet_kinds, v->origin, &i)) != NULL;)
        has |= c->cuda != NULL && is_wanted(v, c->op->name);
    return has;
}

void dsf_verify(const struct dsf_verify *v)
{
    const void *thing;

    for (size_t i = 0;
         (thing = next_of(&dsf_task_kinds, v->origin, &i)) != NULL;)
        name_uncomputed(v, thing);
    for (size_t i = 0;
         (thing = next_of(&dsf_codelet_kinds, v->origin, &i)) != NULL;)
        try_sides(v, thing);
    for (size_t i = 0;
         (thing = next_of(&dsf_lr_schedules, v->origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = v->how, .schedule = thing }, v);
    for (size_t i = 0;
         (thing = next_of(&dsf_policies, v->origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = v->how, .policy = thing }, v);
    for (size_t i = 0;
         (thing = next_of(&dsf_wire_formats, v->origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = v->how, .format = thing }, v);
}
