/* fit_check.c - does a plan fit, and if not, what would? */
#include "tune/fit.h"

#include "base/alloc.h"
#include "base/notice.h"
#include "base/units.h"
#include "policies/keys.h"
#include "tune/search.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Tasks of a graph that may be built again, and of all that are. */
enum { MANY = 300000, MOST_TASKS = 5 * MANY };

static bool takes_long(const struct dsf_search *h)
{
    return h->e.tasks >= MOST_TASKS;
}

/* Does it fit? Or was enough tried? */
static bool try(struct dsf_search *h)
{
    bool *fits = h->user;
    struct dsf_outcome o;

    if (takes_long(h))
        return true;
    dsf_evaluate(&h->e, &h->now, false, &o);
    return *fits = o.status == DSFLOW_OK && o.fits;
}

/* "a = 1, b = \"two\"": the settings of a choice as they stand in a job. */
static char *text_of(const struct dsf_choice *choice)
{
    char *text = dsf_xstrdup("");

    for (unsigned i = 0; i < choice->n; i++)
        for (unsigned k = 0; choice->v[i] && k < choice->v[i]->nsets; k++) {
            const char *set = choice->v[i]->sets[k];
            const char *value = strchr(set, '=') + 1;
            const char *quote = isalpha((unsigned char)*value) ? "\"" : "";
            char *longer =
                dsf_xasprintf("%s%s%.*s = %s%s%s", text, *text ? ", " : "",
                              (int)(value - 1 - set), set, quote, value, quote);

            free(text);
            text = longer;
        }
    return text;
}

/* Data on a disk that a described machine has not: larger memories have more of
 * it there. */
static bool lacks_disk(const struct dsf_job *job,
                       const struct dsf_machine_model *m)
{
    bool uses = false;

    for (int role = 0; role < DSFLOW_NROLES; role++)
        uses = uses || dsf_offload_keys(job)->home[role] == DSFLOW_NVME;
    return uses && !dsf_machine_may_use_disk(m);
}

/* "; these would fit", or what there is to be said of it. */
static char *advice(const struct dsf_setup *s,
                    const struct dsf_machine_model *m)
{
    static const char none[] =
        "; nor does it fit with smaller micro-batches, recomputation, "
        "zero.stage = 3 and offloading: more ranks, or a smaller model";
    bool fits = false;
    struct dsf_search h = { .kind = DSF_SEARCH_LESS,
                            .visit = try,
                            .user = &fits,
                            .e = { .job = s->plan->job,
                                   .model = s->model,
                                   .machine = s->machine,
                                   .m = m,
                                   .plan = s->plan,
                                   .graph = s->graph,
                                   .said = DSF_FOLLOWS } };
    double memory, disks;
    char *then;

    if (lacks_disk(s->plan->job, m) ||
        dsf_fit_is_hopeless(s->plan->job, s->model, s->machine, m, &memory,
                            &disks))
        return dsf_xstrdup(none);
    if (s->some || dsflow_graph_ntasks(s->graph) > MANY)
        return dsf_xstrdup("");
    dsf_notice("looking for what would fit");
    dsf_search_run(&h);
    dsf_notice_end();
    if (!fits) {
        then = dsf_xstrdup(takes_long(&h) ? "" : none);
    } else {
        char *text = text_of(&h.now);

        then = dsf_xasprintf("; %s would fit", text);
        free(text);
    }
    dsf_search_end(&h);
    return then;
}

/* "parameters 12.0 GiB, states 3.0 GiB": what a memory is needed for. */
struct uses {
    char text[300];
};

static void add_use(struct uses *u, const char *name, double bytes)
{
    size_t n = strlen(u->text);

    if (bytes > 0)
        snprintf(u->text + n, sizeof(u->text) - n, "%s%s %s",
                 n > 0 ? ", " : "", name, dsf_size_text(bytes).s);
}

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
    if (shortfall->tier == DSFLOW_HOST) {
        add_use(&u, "a window on other memories",
                w->ranks[shortfall->rank].window);
        add_use(&u, "beside devices", w->ranks[shortfall->rank].beside);
    }
    return u;
}

int dsf_fit_fail_host(const struct dsf_job *job,
                      const struct dsf_shortfall *shortfall,
                      struct dsflow_err *err)
{
    double host = (double)job->memory.host;

    return dsf_job_fail(
        job, err, DSFLOW_EFIT, "memory", "host",
        "%s: expected at most %s, as rank %u needs %s beside it "
        "and there are %s for both",
        dsf_size_text(host).s, dsf_size_text(shortfall->most_host).s,
        shortfall->rank, dsf_size_text(shortfall->needs).s,
        dsf_size_text(shortfall->most_host + shortfall->needs).s);
}

static int fail_short(struct dsf_setup *s,
                      const struct dsf_shortfall *shortfall, const char *uses,
                      const char *then, struct dsflow_err *err)
{
    const struct dsf_job *job = s->job;
    struct dsf_text needs = dsf_size_beside(shortfall->needs, shortfall->has);
    struct dsf_text has = dsf_size_beside(shortfall->has, shortfall->needs);

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
    char *then;
    int status;

    if (!dsf_fit_shortfall(s->plan, s->graph, m, w, &shortfall))
        return DSFLOW_OK;
    if (shortfall.most_host > 0)
        return dsf_fit_fail_host(s->job, &shortfall, err);
    then = shortfall.tier == DSFLOW_NVME ? dsf_xstrdup("") : advice(s, m);
    status =
        fail_short(s, &shortfall, uses_of(s, w, &shortfall).text, then, err);
    free(then);
    return status;
}
