/* candidates.c - what could be changed in a job to make its steps shorter. */
#include "explain/candidates.h"

#include "base/alloc.h"
#include "config/option.h"
#include "policies/keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One more; its only --set is "key=to", unless it is not of the job. */
static struct dsf_candidate *add(struct dsf_candidates *c,
                                 enum dsf_reason reason, const char *key,
                                 char *from, char *to)
{
    struct dsf_candidate *x;

    dsf_grow(&c->v, &c->cap, c->n + 1, sizeof(*c->v));
    x = &c->v[c->n++];
    *x = (struct dsf_candidate){
        .reason = reason, .key = key, .from = from, .to = to
    };
    x->sets[0] = dsf_xasprintf("%s=%s", key, to);
    return x;
}

/* It is no key of the job. */
static void unset(struct dsf_candidate *x)
{
    free(x->sets[0]);
    x->sets[0] = NULL;
}

static char *whole(int64_t n)
{
    return dsf_xasprintf("%lld", (long long)n);
}

static struct dsf_candidate *add_whole(struct dsf_candidates *c,
                                       enum dsf_reason reason, const char *key,
                                       int64_t from, int64_t to)
{
    return add(c, reason, key, whole(from), whole(to));
}

static void add_rings(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsflow_plan *plan = w->base.plan;
    const struct dsf_job *job = &w->base.job;
    int64_t ahead = dsf_zero_keys(job)->prefetch, slots = 0;

    if (dsf_zero_stage(job) == 3 && plan->nreplicas > 1)
        for (int64_t i = 1; i <= 4; i *= 2)
            if (ahead + i <= plan->model->layers && ahead + i <= 64)
                add_whole(c, DSF_REASON_SLOT, "zero.prefetch", ahead,
                          ahead + i);
    for (int32_t i = 0; i < plan->nchunks; i++)
        if (plan->slots[i] > slots)
            slots = plan->slots[i];
    if (plan->layer_major || slots >= plan->turns ||
        (plan->nstages > 1 && job->batch.in_flight < 0))
        return;
    for (int64_t i = 1; i <= 4; i *= 2)
        if (slots + i <= plan->turns)
            add_whole(c, DSF_REASON_SLOT, "batch.in_flight", slots, slots + i);
}

/* "[3, 3]"; freed by the caller. */
static char *split_text(const int64_t *blocks, int n)
{
    size_t bytes;
    char *text = NULL;
    FILE *out = open_memstream(&text, &bytes);

    if (out == NULL)
        return dsf_xstrdup("[]");
    for (int i = 0; i < n; i++)
        fprintf(out, "%s%lld", i == 0 ? "[" : ", ", (long long)blocks[i]);
    fputc(']', out);
    fclose(out);
    return text;
}

/* Balanced; or one block from the chunk of the busiest stage to a neighbour. */
static void add_splits(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsf_account *a = w->account;
    const struct dsflow_plan *plan = w->base.plan;
    int n = plan->nchunks, stages = plan->nstages, busiest = 0;
    int64_t *blocks = dsf_xcalloc((size_t)n + 1, sizeof(*blocks));
    double *busy = dsf_xcalloc((size_t)stages + 1, sizeof(*busy));
    char *now;

    for (int l = 0; l < plan->model->layers; l++)
        blocks[dsf_plan_chunk(plan, l)]++;
    now = split_text(blocks, n);
    for (unsigned r = 0; r < a->nranks; r++)
        busy[dsf_account_stage(a, (int)r) % stages] += a->ranks[r].busy;
    for (int s = 1; s < stages; s++)
        if (busy[s] > busy[busiest])
            busiest = s;
    if (dsf_pipeline_keys(&w->base.job)->split.n > 0)
        add(c, DSF_REASON_STAGES, "pipeline.split", dsf_xstrdup(now),
            dsf_xstrdup("[]"));
    for (int from = 0; from < n; from++)
        for (int to = from - 1; to <= from + 1; to += 2) {
            if (from % stages != busiest || to < 0 || to >= n ||
                blocks[from] < 2)
                continue;
            blocks[from]--;
            blocks[to]++;
            add(c, DSF_REASON_STAGES, "pipeline.split", dsf_xstrdup(now),
                split_text(blocks, n));
            blocks[from]++;
            blocks[to]--;
        }
    free(now);
    free(blocks);
    free(busy);
}

static void add_pipeline(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsf_pipeline_keys *job = dsf_pipeline_keys(&w->base.job);
    const char *const *names =
        dsf_option_find(dsf_policy_pipeline.options, "schedule")->choices;

    if (w->base.plan->nstages < 2)
        return;
    add_splits(c, w);
    if (job->strict)
        add(c, DSF_REASON_STAGES, "pipeline.strict", dsf_xstrdup("true"),
            dsf_xstrdup("false"));
    for (int s = DSF_1F1B; s <= DSF_ZERO_BUBBLE; s++) {
        struct dsf_candidate *x;

        if (s == job->schedule)
            continue;
        x = add(c, DSF_REASON_STAGES, "pipeline.schedule",
                dsf_xstrdup(names[job->schedule]), dsf_xstrdup(names[s]));
        /* As many chunks as the list has parts, or balanced. */
        if (s == DSF_INTERLEAVED || job->schedule == DSF_INTERLEAVED)
            x->sets[1] = dsf_xstrdup("pipeline.split=[]");
    }
}

/* Tasks as large, or as many, as suits the workers. */
static void add_sizes(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsflow_plan *plan = w->base.plan;
    int64_t rows = plan->tiles[0].rows;
    int64_t of_micro = (int64_t)plan->micro * plan->sequence;
    int64_t each = (int64_t)plan->nmicro * plan->micro / plan->nreplicas;

    for (int64_t i = 2; i <= 8; i *= 2)
        if (rows * i <= of_micro)
            add_whole(c, DSF_REASON_SMALL, "batch.tile", rows, rows * i)
                ->rounds = true;
    if (rows >= 32 && rows % 2 == 0)
        add_whole(c, DSF_REASON_LARGE, "batch.tile", rows, rows / 2)->rounds =
            true;
    for (int64_t i = 2; i <= 8; i *= 2)
        if (each % (plan->micro * i) == 0) {
            struct dsf_candidate *x =
                add_whole(c, DSF_REASON_SMALL, "batch.micro", plan->micro,
                          plan->micro * i);

            x->rounds = true;
            if (w->base.job.batch.tile > 0)
                x->sets[1] = dsf_xstrdup("batch.tile=auto");
        }
    if (plan->micro % 2 == 0)
        add_whole(c, DSF_REASON_LARGE, "batch.micro", plan->micro,
                  plan->micro / 2)
            ->rounds = true;
}

static void add_workers(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsflow_plan *plan = w->base.plan;
    int64_t virtuals = w->base.job.machine.virtuals;
    int64_t cpus = (int64_t)plan->workers - virtuals;
    struct dsf_candidate *x;

    if (w->machine.main.kind == DSF_MACHINE_GPU)
        return;
    if (dsf_whatif_is_serial(w)) {
        x = add(c, DSF_REASON_BUSY, "--executor", dsf_xstrdup("serial"),
                dsf_xstrdup("starpu"));
        unset(x);
        x->parallel = true;
        return;
    }
    if (plan->workers < w->account->trace->facts.cores)
        add_whole(c, DSF_REASON_BUSY, "machine.workers", cpus, cpus + 1);
    if (virtuals == 0)
        return;
    x = add_whole(c, DSF_REASON_TRANSFER, "machine.virtual", virtuals,
                  virtuals - 1);
    x->sets[1] = dsf_xasprintf("machine.workers=%lld", (long long)cpus + 1);
    x->transfers = 1.0 / (double)virtuals;
}

static char *rate_text(double bandwidth)
{
    return dsf_xasprintf("%.3e", bandwidth);
}

/* Faster wires, which are bought and not set. */
static void add_wires(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsf_machine_model *m = &w->machine;
    struct dsf_candidate *x;

    if (m->main.kind != DSF_MACHINE_GPU || w->base.plan->nranks < 2)
        return;
    for (int network = 0; network <= (m->main.nodes > 1); network++) {
        double now = network ? m->network.bandwidth : m->link.bandwidth;

        for (double times = 2; times <= 8; times *= 2) {
            x = add(c, DSF_REASON_MOVING,
                    network ? "network.bandwidth" : "link.bandwidth",
                    rate_text(now), rate_text(times * now));
            unset(x);
            x->machine = true;
            *(network ? &x->network : &x->link) = times;
        }
    }
}

/* Links of virtual devices are as slow as the job says. */
static void add_virtual_link(struct dsf_candidates *c,
                             const struct dsf_whatif *w)
{
    const struct dsf_job_machine *m = &w->base.job.machine;

    for (int64_t times = 2; times <= 8 && m->virtuals > 0; times *= 2)
        if (m->virtual_link > 0)
            add_whole(c, DSF_REASON_TRANSFER, "machine.virtual_link",
                      m->virtual_link, times * m->virtual_link)
                ->transfers = 1 - 1.0 / (double)times;
}

static void add_moving(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsflow_plan *plan = w->base.plan;
    const struct dsf_job *job = &w->base.job;
    bool micro = plan->reduce_micro;
    int32_t stage = dsf_zero_stage(job);

    add_wires(c, w);
    add_virtual_link(c, w);
    if (plan->nreplicas < 2)
        return;
    for (int32_t s = stage - 1; s >= 0; s--)
        add_whole(c, DSF_REASON_MOVING, "zero.stage", stage, s);
    add(c, DSF_REASON_MOVING, "zero.reduce",
        dsf_xstrdup(micro ? "micro" : "step"),
        dsf_xstrdup(micro ? "step" : "micro"))
        ->rounds = true;
}

/* As a job has it: "16MiB". */
static char *size_text(int64_t bytes)
{
    return bytes % (1 << 20) == 0
               ? dsf_xasprintf("%lldMiB", (long long)(bytes >> 20))
               : dsf_xasprintf("%lldKiB", (long long)(bytes >> 10));
}

/* Rings of what is offloaded, and how much of it is. */
static void add_offload(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsf_offload_keys *job = dsf_offload_keys(&w->base.job);
    enum dsflow_tier states = (enum dsflow_tier)job->home[DSFLOW_STATES];
    double share = fmax(job->share, 0);

    /* One task at a time, and no other beside what the disk does. */
    if (!dsf_is_offloaded(&w->base.job) || dsf_whatif_is_serial(w))
        return;
    for (int64_t i = 1; i <= 4; i *= 2)
        add_whole(c, DSF_REASON_SLOT, "offload.read_ahead", job->read_ahead,
                  job->read_ahead + i);
    for (int64_t i = 1; i <= 4; i *= 2)
        add_whole(c, DSF_REASON_SLOT, "offload.write_behind", job->write_behind,
                  job->write_behind + i);
    for (int i = 0; i < 4 && states == DSFLOW_NVME; i++) {
        int64_t to = i < 2 ? job->piece >> (i + 1) : job->piece << (i - 1);

        if (to >= 1 << 16)
            add(c, DSF_REASON_DISK, "offload.piece", size_text(job->piece),
                size_text(to));
    }
    for (double to = share + 0.25; states != DSFLOW_DEVICE && to < 1.2;
         to += 0.25)
        add(c, DSF_REASON_DISK, "offload.share", dsf_xasprintf("%.2f", share),
            dsf_xasprintf("%.2f", to < 1 ? to : 1));
}

/* Faster disks are bought, as wires are. */
static void add_disks(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsf_machine_disk *disk = &w->machine.disk;

    for (double times = 2; times <= 4 && w->account->io > 0; times *= 2) {
        struct dsf_candidate *x =
            add(c, DSF_REASON_DISK, "disk.read", rate_text(disk->read),
                rate_text(times * disk->read));

        unset(x);
        x->sets[1] = dsf_xasprintf("disk.write=%.3e", times * disk->write);
        x->machine = true;
        x->disk = times;
    }
}

static void add_rest(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    static const char *const what[] = { "none", "attention", "block" };
    bool layers = w->base.plan->layer_major;
    int now = dsf_recompute_keys(&w->base.job)->what;

    for (int r = now - 1; r >= 0 && now < DSF_RECOMPUTE_AUTO; r--)
        add(c, DSF_REASON_AGAIN, "recompute.what", dsf_xstrdup(what[now]),
            dsf_xstrdup(what[r]));
    if (w->base.plan->nstages == 1)
        add(c, DSF_REASON_ORDER, "batch.order",
            dsf_xstrdup(layers ? "layer_major" : "micro_major"),
            dsf_xstrdup(layers ? "micro_major" : "layer_major"));
}

void dsf_candidates_init(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    memset(c, 0, sizeof(*c));
    add_rings(c, w);
    add_workers(c, w);
    add_pipeline(c, w);
    add_sizes(c, w);
    add_moving(c, w);
    add_offload(c, w);
    add_disks(c, w);
    add_rest(c, w);
}

void dsf_candidates_fini(struct dsf_candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->v[i].from);
        free(c->v[i].to);
        for (int k = 0; k < 3; k++)
            free(c->v[i].sets[k]);
    }
    free(c->v);
    memset(c, 0, sizeof(*c));
}
