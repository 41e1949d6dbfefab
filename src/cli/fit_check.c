/* fit_check.c - does a plan fit, and if not, what would? */
#include "cli/fit_private.h"

#include "base/alloc.h"
#include "base/units.h"
#include "cli/notice.h"

#include <stdlib.h>
#include <string.h>

static const char *const offload_names[] = { "none", "cpu", "nvme" };

/* What is tried one after the other, beside what the job asks for. */
static const struct fallback {
    bool short_reads; /* rings of what is offloaded as short as may be */
    int optimizer, others, activations; /* enum dsflow_tier, at least */
} fallbacks[] = {
    { false, 0, 0, 0 },
    { true, 0, 0, 0 },
    { false, DSFLOW_HOST, 0, 0 },
    { false, DSFLOW_NVME, 0, 0 },
    { true, DSFLOW_NVME, 0, 0 },
    { false, DSFLOW_HOST, DSFLOW_HOST, 0 },
    { false, DSFLOW_NVME, DSFLOW_HOST, 0 },
    { true, DSFLOW_NVME, DSFLOW_NVME, 0 },
    { true, DSFLOW_NVME, DSFLOW_NVME, DSFLOW_NVME },
};
enum { NFALLBACKS = sizeof(fallbacks) / sizeof(*fallbacks) };

static void at_least(int *where, int least)
{
    *where = *where > least ? *where : least;
}

static struct dsf_choice choice_at(const struct dsf_choice *asked,
                             const struct fallback *fallback)
{
    struct dsf_choice choice = *asked;
    struct dsf_offload_keys *o = &choice.offload;

    if (fallback->short_reads) {
        o->read_ahead = o->write_behind = 0;
        o->piece = o->piece < 1 << 20 ? o->piece : 1 << 20;
    }
    at_least(&o->home[DSFLOW_STATES], fallback->optimizer);
    at_least(&o->home[DSFLOW_PARAMS], fallback->others);
    at_least(&o->home[DSFLOW_GRADS], fallback->others);
    at_least(&o->home[DSFLOW_ACTIVATIONS], fallback->activations);
    return choice;
}

static bool uses_disk(const struct dsf_choice *choice)
{
    return choice->offload.home[DSFLOW_STATES] == DSFLOW_NVME ||
           choice->offload.home[DSFLOW_PARAMS] == DSFLOW_NVME ||
           choice->offload.home[DSFLOW_GRADS] == DSFLOW_NVME ||
           choice->offload.home[DSFLOW_ACTIVATIONS] == DSFLOW_NVME;
}

/* A search for a way that fits. */
struct search {
    struct dsf_session *s;
    const struct dsf_machine_model *m;
    int64_t micro; /* of the plan */
    uint32_t left; /* tasks that may be built before it has taken too long */
};

static bool fits(struct search *h, const struct dsf_choice *choice)
{
    struct dsf_session *s = h->s;
    struct dsf_shortfall shortfall;
    uint32_t ntasks;
    bool does;

    if (h->left == 0)
        return false;
    dsf_choice_set(s, choice);
    does = dsf_fit_build(s, NULL, NULL) == DSFLOW_OK;
    ntasks = does ? dsflow_graph_ntasks(s->graph) : 0;
    h->left -= ntasks < h->left ? ntasks : h->left;
    does = does && !dsf_fit_falls_short(s, h->m, &shortfall);
    dsf_fit_forget(s);
    return does;
}

/* With one fallback: with rings of activations as they are, or of one; least of all
 * is shared out, then least is computed again, with micro-batches as large as
 * may be. `every`: nothing between is left out. */
static bool find_at(struct search *h, const struct dsf_choice *least, bool every,
                    struct dsf_choice *found)
{
    int64_t most = h->s->job.mesh.size[DSF_AXIS_DATA] > 1 ? 3 : least->stage;
    int zs = every || most == least->stage ? 1 : (int)(most - least->stage);
    int rs = every || least->recompute == DSF_RECOMPUTE_BLOCK
                 ? 1
                 : DSF_RECOMPUTE_BLOCK - least->recompute;

    *found = *least;
    for (int ring = 0; ring < 2; ring++) {
        found->in_flight = ring == 0 ? least->in_flight : 1;
        for (int64_t z = least->stage; z <= most; z += zs)
            for (int r = least->recompute; r < DSF_RECOMPUTE_AUTO; r += rs)
                for (int64_t n = h->micro; n >= 1; n--) {
                    if (h->micro % n != 0 ||
                        (!every && n != h->micro && n != 1))
                        continue;
                    found->stage = z;
                    found->recompute = r;
                    found->micro = n;
                    if (fits(h, found))
                        return true;
                }
    }
    return false;
}

static bool find_choice(struct search *h, struct dsf_choice *found)
{
    struct dsf_session *s = h->s;
    const struct dsf_choice asked = dsf_choice_of(s);
    struct dsflow_plan *plan = s->plan;
    struct dsflow_graph *graph = s->graph;
    bool any = false;

    s->plan = NULL;
    s->graph = NULL;
    for (int l = 0; l < NFALLBACKS && !any; l++) {
        struct dsf_choice least = choice_at(&asked, &fallbacks[l]);

        if (l > 0 && memcmp(&least, &asked, sizeof(least)) == 0)
            continue;
        /* A machine that is described says whether it has a disk. */
        if (uses_disk(&least) && h->m != NULL && !(h->m->disk.read > 0))
            continue;
        any = find_at(h, &least, l == 0, found);
    }
    dsf_choice_set(s, &asked);
    s->plan = plan;
    s->graph = graph;
    return any;
}

/* Keys with their values: "a = 1, b = 2 and c = 3". */
struct keys {
    char text[300];
    unsigned n;
};

static void add_key(struct keys *k, bool differs, const char *key,
                    const char *value)
{
    size_t at = strlen(k->text);

    if (!differs)
        return;
    snprintf(k->text + at, sizeof(k->text) - at, "%s%s = %s",
             k->n++ > 0 ? ", " : "", key, value);
}

static void add_number(struct keys *k, int64_t was, int64_t is, const char *key)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", (long long)is);
    add_key(k, was != is, key, text);
}

static void add_name(struct keys *k, int was, int is, const char *key,
                     const char *const *names)
{
    char text[32];

    snprintf(text, sizeof(text), "\"%s\"", names[is]);
    add_key(k, was != is, key, text);
}

static struct keys keys_of(const struct dsf_choice *was, const struct dsf_choice *is)
{
    const struct dsf_offload_keys *a = &was->offload, *b = &is->offload;
    struct keys k = { .n = 0 };

    add_number(&k, was->micro, is->micro, "batch.micro");
    add_number(&k, was->in_flight, is->in_flight, "batch.in_flight");
    add_name(&k, was->recompute, is->recompute, "recompute.what",
             dsf_recompute_names);
    add_number(&k, was->stage, is->stage, "zero.stage");
    add_name(&k, a->home[DSFLOW_STATES], b->home[DSFLOW_STATES],
             "offload.optimizer", offload_names);
    add_name(&k, a->home[DSFLOW_PARAMS], b->home[DSFLOW_PARAMS],
             "offload.params", offload_names);
    add_name(&k, a->home[DSFLOW_GRADS], b->home[DSFLOW_GRADS],
             "offload.gradients", offload_names);
    add_name(&k, a->home[DSFLOW_ACTIVATIONS], b->home[DSFLOW_ACTIVATIONS],
             "offload.activations", offload_names);
    add_number(&k, a->read_ahead, b->read_ahead, "offload.read_ahead");
    add_number(&k, a->write_behind, b->write_behind, "offload.write_behind");
    add_key(&k, a->piece != b->piece, "offload.piece", "\"1MiB\"");
    return k;
}

/* "; these would fit", or what there is to be said of it. */
static char *advice(struct dsf_session *s, const struct dsf_machine_model *m)
{
    static const uint32_t MANY = 300000; /* tasks: a search would take long */
    static const char none[] =
        "; nor does it fit with smaller micro-batches, recomputation, "
        "zero.stage = 3 and offloading: more ranks, or a smaller model";
    struct search h = { s, m, s->plan->micro, 5 * MANY };
    struct dsf_choice was = dsf_choice_of(s), choice = was;
    double memory, disks;
    bool found;

    if (dsf_fit_is_hopeless(s, m, &memory, &disks))
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

static struct uses uses_of(const struct dsf_session *s,
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

        for (unsigned r = 1; shortfall->tier == DSFLOW_NVME && r < w->nranks; r++)
            bytes += w->ranks[r].in_tier[shortfall->tier][role];
        if (shortfall->tier == DSFLOW_DEVICE && role == DSFLOW_BUFFERS)
            bytes += w->ranks[shortfall->rank].scratch;
        if (bytes > 0 || shortfall->tier == DSFLOW_DEVICE)
            snprintf(u.text + n, sizeof(u.text) - n, "%s%s %s",
                     n > 0 ? ", " : "", names[role], dsf_size_text(bytes).s);
    }
    if (shortfall->tier == DSFLOW_HOST && dsf_fit_window(s) > 0) {
        size_t n = strlen(u.text);

        snprintf(u.text + n, sizeof(u.text) - n, "%sa window on nvme %s",
                 n > 0 ? ", " : "", dsf_size_text(dsf_fit_window(s)).s);
    }
    return u;
}

static int fail_short(struct dsf_session *s, const struct dsf_shortfall *shortfall,
                     const char *uses, const char *then, struct dsflow_err *err)
{
    const struct dsf_job *job = &s->job;
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

int dsf_fit_check(struct dsf_session *s, const struct dsf_machine_model *m,
                  struct dsflow_err *err)
{
    struct dsf_weights w;
    struct dsf_shortfall shortfall;
    int status = DSFLOW_OK;

    dsf_fit_weigh(s, m, &w);
    if (dsf_fit_shortfall(s, m, &w, &shortfall)) {
        char *then = shortfall.tier == DSFLOW_NVME ? dsf_xstrdup("") : advice(s, m);

        status = fail_short(s, &shortfall, uses_of(s, &w, &shortfall).text, then, err);
        free(then);
    }
    dsf_weights_fini(&w);
    return status;
}
