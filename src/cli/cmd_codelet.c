/* cmd_codelet.c - try what a plug-in brings, each in a process of its own. */
#include "base/alloc.h"
#include "cli/cmd.h"
#include "codelets/codelets.h"
#include "codelets/trials.h"
#include "plugin/plugin.h"
#include "policies/policies.h"
#include "tasks/components.h"
#include "verify/try_component.h"
#include "verify/try_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One thing to try: a codelet, or what its sort says. */
struct subject {
    const struct dsf_try *how;
    const struct dsflow_codelet *codelet;
    const struct dsflow_optimizer *optimizer; /* the codelet is of it */
    const struct dsflow_lr_schedule *schedule;
    const struct dsflow_policy *policy;
};

/* What was asked for, and what was found. */
struct count {
    const char *const *names;
    unsigned nnames;
    unsigned char *seen; /* by name */
    unsigned all, faults;
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

static void print_head(void)
{
    printf("%-28s %5s  %-7s %10s %8s %8s %10s\n", "", "cases", "", "time",
           "GFLOP/s", "GB/s", "reference");
}

static void print(const struct subject *s, const struct dsf_verdict *v)
{
    const char *sort = s->codelet != NULL    ? ""
                       : s->schedule != NULL ? "schedule "
                                             : "policy ";
    double scale = v->seconds < 1e-3 ? 1e6 : 1e3;

    printf("%s%-*s ", sort, 28 - (int)strlen(sort), name_of(s));
    if (v->untried[0] != '\0') {
        printf("%5s  not tried: %s\n", "-", v->untried);
    } else if (v->fault[0] != '\0') {
        printf("%5u  FAULT   %s\n", v->cases, v->fault);
    } else if (v->seconds <= 0) {
        printf("%5u  ok%s%s\n", v->cases, v->note[0] != '\0' ? "; " : "",
               v->note);
    } else {
        printf("%5u  %-7s %7.1f %s %8.2f %8.2f", v->cases, "ok",
               v->seconds * scale, scale > 1e3 ? "us" : "ms",
               1e-9 * v->flops / v->seconds, 1e-9 * v->bytes / v->seconds);
        if (v->reference > 0)
            printf(" %9.2fx", v->reference / v->seconds);
        printf("\n");
    }
    fflush(stdout);
}

/* Was it asked for by name, or was nothing? */
static bool is_wanted(struct count *count, const char *name)
{
    bool wanted = count->nnames == 0;

    for (unsigned i = 0; i < count->nnames; i++)
        if (strcmp(count->names[i], name) == 0) {
            count->seen[i] = 1;
            wanted = true;
        }
    return wanted;
}

static void try_one(const struct subject *s, struct count *count)
{
    struct dsf_verdict verdict = { .fault = "" };
    const char *why = cannot_try(s);

    if (!is_wanted(count, name_of(s)))
        return;
    if (why != NULL)
        snprintf(verdict.untried, sizeof(verdict.untried), "%s", why);
    else
        dsf_child_run(try_subject, s, s->how->limit, &verdict);
    if (count->all++ == 0)
        print_head();
    print(s, &verdict);
    count->faults += verdict.fault[0] != '\0';
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

static void try_all(const char *origin, const struct dsf_try *how,
                    struct count *count)
{
    const void *thing;

    for (size_t i = 0;
         (thing = next_of(&dsf_codelet_kinds, origin, &i)) != NULL;) {
        const struct dsflow_codelet *c = thing;

        try_one(&(struct subject){ .how = how,
                                   .codelet = c,
                                   .optimizer = optimizer_of(c->op) },
                count);
    }
    for (size_t i = 0;
         (thing = next_of(&dsf_lr_schedules, origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = how, .schedule = thing }, count);
    for (size_t i = 0; (thing = next_of(&dsf_policies, origin, &i)) != NULL;)
        try_one(&(struct subject){ .how = how, .policy = thing }, count);
}

/* What the flags say; how->sets is freed by the caller. */
static int read_flags(const struct dsf_cli_args *args, struct dsf_try *how,
                      struct dsflow_err *err)
{
    int64_t seed = 1, cases = 16;
    int status = dsf_flag_whole(args, "seed", 0, INT64_MAX / 16, &seed, err);

    if (status == DSFLOW_OK)
        status = dsf_flag_whole(args, "cases", 1, 100000, &cases, err);
    if (status == DSFLOW_OK)
        status = dsf_flag_number(args, "timeout", 0.1, 86400, &how->limit, err);
    how->seed = (uint64_t)seed;
    how->cases = (unsigned)cases;
    how->sets = dsf_flag_values(args, "set", &how->nsets);
    return status;
}

static int check(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const char *library = args->words[1];
    bool builtin = strcmp(library, "builtin") == 0;
    struct dsf_try how = { .limit = 10 };
    struct count count = {
        .names = args->words + 2,
        .nnames = args->nwords - 2,
        .seen = dsf_xcalloc(args->nwords, 1),
    };
    int status = read_flags(args, &how, err);

    if (status == DSFLOW_OK && !builtin)
        status = dsflow_plugin_load(library, err);
    if (status == DSFLOW_OK)
        status = dsf_try_keys(&how, err);
    if (status == DSFLOW_OK)
        try_all(builtin ? DSF_BUILTIN : library, &how, &count);
    for (unsigned i = 0; i < count.nnames && status == DSFLOW_OK; i++)
        if (!count.seen[i])
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: has no codelet, schedule or policy %.60s",
                                 library, count.names[i]);
    free(count.seen);
    free(how.sets);
    return status < 0 ? status : count.faults > 0;
}

static int codelet(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    if (strcmp(args->words[0], "check") == 0)
        return check(args, err);
    return dsflow_fail(err, DSFLOW_EINVAL, "codelet: %.60s: expected check",
                       args->words[0]);
}

static const struct dsf_flag codelet_flags[] = {
    { "seed", "N", "the first case is that of seed N (default 1)" },
    { "cases", "N", "random cases of each codelet (default 16)" },
    { "set", "TABLE.KEY=VALUE", "a key of the small jobs it tries" },
    { "timeout", "SECONDS", "a case that takes longer hangs (default 10)" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_codelet = {
    .name = "codelet",
    .args = "check LIBRARY|builtin [NAME…]",
    .summary = "try the codelets of a plug-in before a job does",
    .help =
        "Runs each codelet of the library on random cases, in a process of\n"
        "its own: beside its reference or the built-in one it replaces, its\n"
        "gradients beside differences of its forward pass, twice, with other\n"
        "garbage in what it only writes, in other places; then each schedule\n"
        "and each policy in small jobs. Says what is wrong and how to repeat\n"
        "it, how long the largest case takes, and how fast that is beside the\n"
        "reference. Exits with 1 when anything was wrong.",
    .flags = codelet_flags,
    .least = 2,
    .most = 64,
    .run = codelet,
};
