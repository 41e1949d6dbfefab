/* fit_check.c - does a plan fit, and if not, what would? */
#include "tune/fit_private.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "config/option.h"
#include "config/when.h"

#include <stdlib.h>
#include <string.h>

static bool uses_disk(const struct dsf_choice *choice)
{
    for (int role = 0; role < DSFLOW_NROLES; role++)
        if (choice->offload.home[role] == DSFLOW_NVME)
            return true;
    return false;
}

/* A search for a way that fits. */
struct search {
    struct dsf_setup *s;
    const struct dsf_machine_model *m;
    int64_t micro; /* of the plan */
    uint32_t left; /* tasks that may be built before it has taken too long */
};

static bool fits(struct search *h, const struct dsf_choice *choice)
{
    struct dsf_setup *s = h->s;
    struct dsf_shortfall shortfall;
    uint32_t ntasks;
    bool does;

    if (h->left == 0)
        return false;
    does = dsf_fit_build_choice(s, choice, NULL) == DSFLOW_OK;
    ntasks = does ? dsflow_graph_ntasks(s->graph) : 0;
    h->left -= ntasks < h->left ? ntasks : h->left;
    does = does && !dsf_fit_falls_short(s, h->m, &shortfall);
    dsf_fit_forget(s);
    return does;
}

/* The largest micro-batch that fits. `every`: no size between is left out. */
static bool find_size(struct search *h, bool every, struct dsf_choice *found)
{
    for (found->micro = h->micro; found->micro >= 1; found->micro--)
        if (h->micro % found->micro == 0 &&
            (every || found->micro == h->micro || found->micro == 1) &&
            fits(h, found))
            return true;
    return false;
}

/* The least values of the first `n` keys with which it fits, of the last of
 * them above all. `every`: nothing between what is asked for and the last value
 * is left out. */
static bool find_steps(struct search *h, const struct dsf_steps *steps,
                       unsigned n, const struct dsf_choice *least, bool every,
                       struct dsf_choice *found)
{
    int value, last;

    if (n == 0)
        return find_size(h, every, found);
    value = least->step[n - 1];
    last = dsf_try_count(&steps->v[n - 1], h->s->job) - 1;
    last = last > value ? last : value;
    for (; value <= last; value += every || value == last ? 1 : last - value) {
        found->step[n - 1] = value;
        if (find_steps(h, steps, n - 1, least, every, found))
            return true;
    }
    return false;
}

/* With one fallback: with rings of activations as they are, or of one. */
static bool find_at(struct search *h, const struct dsf_choice *least,
                    bool every, struct dsf_choice *found)
{
    struct dsf_steps steps = dsf_steps_of_policies();

    *found = *least;
    if (find_steps(h, &steps, steps.n, least, every, found))
        return true;
    found->in_flight = 1;
    return find_steps(h, &steps, steps.n, least, every, found);
}

static bool find_choice(struct search *h, struct dsf_choice *found)
{
    const struct dsf_choice asked = dsf_choice_of(h->s->job);
    bool any = false;

    for (unsigned l = 0; !any; l++) {
        struct dsf_choice least = asked;

        if (!dsf_offload_fallback(l, &least.offload))
            break;
        if (l > 0 && memcmp(&least, &asked, sizeof(least)) == 0)
            continue;
        /* A machine that is described says whether it has a disk. */
        if (uses_disk(&least) && h->m != NULL && !(h->m->disk.read > 0))
            continue;
        any = find_at(h, &least, l == 0, found);
    }
    return any;
}

/* Keys with their values: "a = 1, b = 2 and c = 3". */
struct keys {
    char text[300];
    unsigned n;
};

static void add_key(struct keys *k, const char *key, const char *value)
{
    size_t at = strlen(k->text);

    snprintf(k->text + at, sizeof(k->text) - at, "%s%s = %s",
             k->n++ > 0 ? ", " : "", key, value);
}

static void add_number(struct keys *k, int64_t was, int64_t is, const char *key)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)is);
    if (was != is)
        add_key(k, key, text);
}

/* A choice stands in quotes. */
static void add_step(struct keys *k, const struct dsf_try *t, int value)
{
    const char *quote = t->option->type == DSFLOW_CHOICE ? "\"" : "";
    char *key = dsf_try_key(t), *text = dsf_try_text(t, value);
    char *quoted = dsf_xasprintf("%s%s%s", quote, text, quote);

    add_key(k, key, quoted);
    free(key);
    free(text);
    free(quoted);
}

static struct keys keys_of(const struct dsf_choice *was,
                           const struct dsf_choice *is)
{
    const struct dsflow_option *o = dsf_policy_offload.options;
    struct dsf_steps steps = dsf_steps_of_policies();
    struct keys k = { .n = 0 };

    add_number(&k, was->micro, is->micro, "batch.micro");
    add_number(&k, was->in_flight, is->in_flight, "batch.in_flight");
    for (unsigned i = 0; i < steps.n; i++)
        if (was->step[i] != is->step[i])
            add_step(&k, &steps.v[i], is->step[i]);
    for (; o->key != NULL; o++)
        if (!dsf_option_same(o, &was->offload, &is->offload)) {
            char *key = dsf_xasprintf("offload.%s", o->key);

            add_key(&k, key, dsf_value_text(o, &is->offload).s);
            free(key);
        }
    return k;
}

/* "; these would fit", or what there is to be said of it. */
static char *advice(const struct dsf_setup *s,
                    const struct dsf_machine_model *m)
{
    static const uint32_t MANY = 300000; /* tasks: a search would take long */
    static const char none[] =
        "; nor does it fit with smaller micro-batches, recomputation, "
        "zero.stage = 3 and offloading: more ranks, or a smaller model";
    struct dsf_setup other = { .job = s->plan->job,
                               .model = s->model,
                               .machine = s->machine };
    struct search h = { &other, m, s->plan->micro, 5 * MANY };
    struct dsf_choice was = dsf_choice_of(s->plan->job), choice = was;
    double memory, disks;
    bool found;

    if (dsf_fit_is_hopeless(s->plan->job, s->model, s->machine, m, &memory,
                            &disks))
        return dsf_xstrdup(none);
    if (dsflow_graph_ntasks(s->graph) > MANY)
        return dsf_xstrdup("");
    dsf_notice("looking for what would fit");
    found = find_choice(&h, &choice);
    dsf_notice_end();
    if (!found)
        return dsf_xstrdup(h.left == 0 ? "" : none);
    was.micro = s->plan->micro;
    return dsf_xasprintf("; %s would fit", keys_of(&was, &choice).text);
}

/* "parameters 12.0 GiB, states 3.0 GiB": what a memory is needed for. */
struct uses {
    char text[200];
};

static struct uses uses_of(const struct dsf_setup *s,
                           const struct dsf_weights *w,
                           const struct dsf_shortfall *shortfall)
{
    static const char *const names[DSFLOW_NROLES] = { "parameters", "gradients",
                                                      "states", "activations",
                                                      "buffers" };
    struct uses u = { "" };

    for (int role = 0; role < DSFLOW_NROLES; role++) {
        double bytes = w->ranks[shortfall->rank].in_tier[shortfall->tier][role];
        size_t n = strlen(u.text);

        for (unsigned r = 1; shortfall->tier == DSFLOW_NVME && r < w->nranks;
             r++)
            bytes += w->ranks[r].in_tier[shortfall->tier][role];
        if (shortfall->tier == DSFLOW_DEVICE && role == DSFLOW_BUFFERS)
            bytes += w->ranks[shortfall->rank].scratch;
        if (bytes > 0 || shortfall->tier == DSFLOW_DEVICE)
            snprintf(u.text + n, sizeof(u.text) - n, "%s%s %s",
                     n > 0 ? ", " : "", names[role], dsf_size_text(bytes).s);
    }
    if (shortfall->tier == DSFLOW_HOST && dsf_fit_window(s->plan, s->graph) > 0) {
        size_t n = strlen(u.text);

        snprintf(u.text + n, sizeof(u.text) - n, "%sa window on nvme %s",
                 n > 0 ? ", " : "", dsf_size_text(dsf_fit_window(s->plan, s->graph)).s);
    }
    return u;
}

static int fail_short(struct dsf_setup *s,
                      const struct dsf_shortfall *shortfall, const char *uses,
                      const char *then, struct dsflow_err *err)
{
    const struct dsf_job *job = s->job;
    struct dsf_text needs = dsf_size_text(shortfall->needs);
    struct dsf_text has = dsf_size_text(shortfall->has);

    if (shortfall->tier == DSFLOW_NVME)
        return dsf_job_fail(job, err, DSFLOW_EFIT, "memory.nvme", "size",
                            "%s are needed (%s) and there are %s", needs.s,
                            uses, has.s);
    return dsf_job_fail(job, err, DSFLOW_EFIT, "memory",
                        shortfall->tier == DSFLOW_HOST ? "host" : "device",
                        "rank %u needs %s (%s) and has %s%s", shortfall->rank,
                        needs.s, uses, has.s, then);
}

int dsf_fit_check(struct dsf_setup *s, const struct dsf_machine_model *m,
                  const struct dsf_weights *w, struct dsflow_err *err)
{
    struct dsf_shortfall shortfall;
    int status = DSFLOW_OK;

    if (dsf_fit_shortfall(s->plan, s->graph, m, w, &shortfall)) {
        char *then =
            shortfall.tier == DSFLOW_NVME ? dsf_xstrdup("") : advice(s, m);

        status = fail_short(s, &shortfall, uses_of(s, w, &shortfall).text,
                            then, err);
        free(then);
    }
    return status;
}
