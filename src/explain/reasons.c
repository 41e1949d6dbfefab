/* reasons.c - what in a trace speaks for a change of its job. */
#include "explain/reasons.h"

#include "base/alloc.h"
#include "base/units.h"

#include <string.h>

/* " of stage 1": whose tasks they are, where that says anything. */
static struct dsf_text whose(const struct dsf_account *a, int rank)
{
    struct dsf_text t = { "" };

    if (dsf_trace_axis(&a->trace->facts, "pipeline") > 1)
        snprintf(t.s, sizeof(t.s), " of stage %d", dsf_account_stage(a, rank));
    else if (a->nranks > 1)
        snprintf(t.s, sizeof(t.s), " of rank %d", rank);
    return t;
}

static char *say_slot(const struct dsf_account *a, const char *key)
{
    for (size_t i = 0; i < a->nrings; i++) {
        const struct dsf_ring_delay *d = &a->rings[i];

        if (strcmp(d->ring, key) == 0)
            return dsf_xasprintf("%u tasks%s wait for a slot of %s, %s each",
                                 d->tasks / a->nsteps, whose(a, d->rank).s, key,
                                 dsf_time_text(d->seconds / d->tasks).s);
    }
    return dsf_xasprintf(
        "workers wait %.0f %% of the step for data",
        100 * dsf_account_share(a, a->all.idle[DSF_CAUSE_DATA] +
                                       a->all.idle[DSF_CAUSE_TRANSFER]));
}

static double busy_of(const struct dsf_account *a, unsigned r)
{
    const struct dsf_rank_use *u = &a->ranks[r];
    double all = u->workers * a->seconds;

    return all > 0 ? u->did.busy / all : 0;
}

static char *say_stages(const struct dsf_account *a)
{
    unsigned most = 0, least = 0;

    for (unsigned r = 1; r < a->nranks; r++) {
        if (busy_of(a, r) > busy_of(a, most))
            most = r;
        if (busy_of(a, r) < busy_of(a, least))
            least = r;
    }
    if (busy_of(a, most) - busy_of(a, least) > 0.1 &&
        dsf_account_stage(a, (int)most) != dsf_account_stage(a, (int)least))
        return dsf_xasprintf(
            "stages are unequal: stage %d is busy %.0f %% of the step, stage "
            "%d %.0f %%",
            dsf_account_stage(a, (int)most), 100 * busy_of(a, most),
            dsf_account_stage(a, (int)least), 100 * busy_of(a, least));
    return dsf_xasprintf("stages wait %.0f %% of the step for each other",
                         100 * a->bubble);
}

static char *say_small(const struct dsf_account *a, double overhead)
{
    double seconds = a->all.did.busy;
    uint32_t count = 0;

    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op != NULL)
            count += a->kinds[k].count;
    return dsf_xasprintf("tasks are small: %u a step, %s each, and the "
                         "runtime adds %s to each",
                         count / a->nsteps,
                         dsf_time_text(count > 0 ? seconds / count : 0).s,
                         dsf_time_text(overhead).s);
}

static char *say_busy(const struct dsf_account *a)
{
    unsigned n = a->trace->timeline.workers;

    return dsf_xasprintf("%u worker%s %s busy %.0f %% of the step, and the "
                         "machine has %u cores",
                         n, n == 1 ? "" : "s", n == 1 ? "is" : "are",
                         100 * dsf_account_share(a, a->all.did.busy),
                         a->trace->facts.cores);
}

static char *say_moving(const struct dsf_account *a)
{
    return dsf_xasprintf(
        "moving data takes %s of a step on each rank, %.0f %% of it while it "
        "computes",
        dsf_time_text(a->hidden.comm / a->nsteps / a->nranks).s,
        a->hidden.comm > 0 ? 100 * a->hidden.comm_hidden / a->hidden.comm : 0);
}

static double disk_share(const struct dsf_account *a)
{
    return a->seconds > 0 ? a->hidden.io_most / a->seconds : 0;
}

static char *say_disk(const struct dsf_account *a)
{
    return dsf_xasprintf(
        "the disk works %.0f %% of the step, %.0f %% of that "
        "while workers compute",
        100 * disk_share(a),
        a->hidden.io > 0 ? 100 * a->hidden.io_hidden / a->hidden.io : 0);
}

static char *say_again(const struct dsf_account *a)
{
    const struct dsflow_graph *g = a->trace->graph;
    double again = 0;

    for (uint32_t i = 0; i < a->steps.ntasks; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });
        const struct dsf_span *s =
            dsf_executed_span(&a->steps, a->trace, i, a->step);

        if (s != NULL && t->pass == DSFLOW_BACKWARD &&
            (t->op->direction == DSFLOW_DIR_FORWARD ||
             t->op->direction == DSFLOW_DIR_HIDDEN))
            again += s->end - s->start;
    }
    return dsf_xasprintf("%.0f %% of the workers' time goes into "
                         "recomputing activations",
                         100 * again / (a->all.workers * a->steps.seconds));
}

static char *say_type(const struct dsf_account *a)
{
    double seconds = 0;

    for (unsigned k = 0; k < a->nkinds; k++)
        if (a->kinds[k].op != NULL && a->kinds[k].op->segment != NULL)
            seconds += a->kinds[k].on_workers;
    return dsf_xasprintf(
        "tasks of the model take %.0f %% of the workers' time, "
        "in fp32, and the machine is faster in bf16",
        100 * dsf_account_share(a, seconds));
}

static char *say_waiting(const struct dsf_account *a)
{
    double sum = 0;

    for (int c = 0; c < DSF_NCAUSES; c++)
        sum += a->all.idle[c];
    return dsf_xasprintf("workers are idle %.0f %% of the step, most of it "
                         "waiting for what other tasks compute",
                         100 * dsf_account_share(a, sum));
}

static char *say_transfers(const struct dsf_account *a)
{
    return dsf_xasprintf(
        "workers wait %.0f %% of the step for data on its way "
        "between memories",
        100 * dsf_account_share(a, a->all.idle[DSF_CAUSE_TRANSFER]));
}

char *dsf_reason_text(const struct dsf_account *a, enum dsf_reason reason,
                      const char *key, double overhead)
{
    switch (reason) {
    case DSF_REASON_SLOT:
        return say_slot(a, key);
    case DSF_REASON_STAGES:
        return say_stages(a);
    case DSF_REASON_SMALL:
        return say_small(a, overhead);
    case DSF_REASON_BUSY:
        return say_busy(a);
    case DSF_REASON_MOVING:
        return say_moving(a);
    case DSF_REASON_TRANSFER:
        return say_transfers(a);
    case DSF_REASON_DISK:
        return say_disk(a);
    case DSF_REASON_AGAIN:
        return say_again(a);
    case DSF_REASON_TYPE:
        return say_type(a);
    case DSF_REASON_LARGE:
    case DSF_REASON_ORDER:
        break;
    }
    return say_waiting(a);
}

static const char *const causes[DSF_NCAUSES] = {
    [DSF_CAUSE_DATA] = "what other tasks compute",
    [DSF_CAUSE_RANK] = "what other ranks compute",
    [DSF_CAUSE_SLOT] = "buffers that are in use",
    [DSF_CAUSE_TRANSFER] = "data on its way",
    [DSF_CAUSE_RUNTIME] = "the runtime, with tasks that are ready",
    [DSF_CAUSE_END] = "the end of the trace",
};

char *dsf_limit_text(const struct dsf_account *a)
{
    double busy = dsf_account_share(a, a->all.did.busy);
    double path = a->laps.critical / a->laps.seconds; /* NAN: not known */
    unsigned n = a->trace->timeline.workers;
    int most = 0;

    for (int c = 1; c < DSF_NCAUSES; c++)
        if (a->all.idle[c] > a->all.idle[most])
            most = c;
    if (busy >= 0.9)
        return dsf_xasprintf("%u worker%s %s busy %.0f %% of the step: more "
                             "of them or less arithmetic would help",
                             n, n == 1 ? "" : "s", n == 1 ? "is" : "are",
                             100 * busy);
    if (disk_share(a) >= 0.9)
        return dsf_xasprintf(
            "the disk works %.0f %% of the step: a faster one, "
            "less on it (offload.share) or more tokens a "
            "step, with the same traffic, would help",
            100 * disk_share(a));
    if (path >= 0.9)
        return dsf_xasprintf("the critical path takes %.0f %% of the step: "
                             "faster workers or smaller tasks (batch.tile) "
                             "would help",
                             100 * path);
    return dsf_xasprintf("workers are busy %.0f %% of the step; they wait most "
                         "for %s, %.0f %%",
                         100 * busy, causes[most],
                         100 * dsf_account_share(a, a->all.idle[most]));
}
