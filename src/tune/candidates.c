/* candidates.c - what could be changed in a job to make its steps shorter. */
#include "tune/candidates.h"

#include "base/alloc.h"
#include "policies/keys.h"
#include "tune/tries.h"

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
        .reason = reason, .key = dsf_xstrdup(key), .from = from, .to = to
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
    int64_t slots = 0;

    for (int32_t i = 0; i < plan->nchunks; i++)
        if (plan->activation_slots[i] > slots)
            slots = plan->activation_slots[i];
    if (plan->layer_major || slots >= plan->micro_steps ||
        (plan->nstages > 1 && job->batch.in_flight < 0))
        return;
    for (int64_t i = 1; i <= 4; i *= 2)
        if (slots + i <= plan->micro_steps)
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
        blocks[dsflow_plan_chunk_of(plan, l)]++;
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

static void add_try(void *user, const struct dsf_try *t, const char *from,
                    const char *to)
{
    static const enum dsf_reason reasons[] = {
        [DSFLOW_CAUSE_SLOTS] = DSF_REASON_SLOT,
        [DSFLOW_CAUSE_STAGES] = DSF_REASON_STAGES,
        [DSFLOW_CAUSE_MOVING] = DSF_REASON_MOVING,
        [DSFLOW_CAUSE_DISK] = DSF_REASON_DISK,
        [DSFLOW_CAUSE_AGAIN] = DSF_REASON_AGAIN,
    };
    char *key = dsf_try_key(t);
    struct dsf_candidate *x = add(user, reasons[t->how->cause], key,
                                  dsf_xstrdup(from), dsf_xstrdup(to));

    x->rounds = t->how->regroups;
    /* As many chunks as the list has parts, or balanced. */
    if (strcmp(key, "pipeline.schedule") == 0 &&
        (strcmp(from, "interleaved") == 0 || strcmp(to, "interleaved") == 0))
        x->sets[1] = dsf_xstrdup("pipeline.split=[]");
    free(key);
}

/* What policies say is worth trying. */
static void add_tries(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    bool serial = dsf_whatif_is_serial(w);
    struct dsf_try t;

    for (unsigned i = 0; dsf_try_at(i, &t); i++) {
        enum dsflow_cause cause = t.how->cause;

        /* One task at a time, and no other beside what the disk does. */
        if (serial &&
            (cause == DSFLOW_CAUSE_SLOTS || cause == DSFLOW_CAUSE_DISK))
            continue;
        if (cause == DSFLOW_CAUSE_MOVING && w->base.plan->nreplicas < 2)
            continue;
        dsf_try_each(&t, &w->base.job, add_try, c);
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

/* Faster disks are bought, as wires are. */
static void add_disks(struct dsf_candidates *c, const struct dsf_whatif *w)
{
    const struct dsf_machine_disk *disk = &w->machine.disk;

    for (double times = 2; times <= 4 && w->account->hidden.io > 0;
         times *= 2) {
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
    bool layers = w->base.plan->layer_major;

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
    if (w->base.plan->nstages > 1)
        add_splits(c, w);
    add_sizes(c, w);
    add_wires(c, w);
    add_virtual_link(c, w);
    add_tries(c, w);
    add_disks(c, w);
    add_rest(c, w);
}

void dsf_candidates_fini(struct dsf_candidates *c)
{
    for (size_t i = 0; i < c->n; i++) {
        free(c->v[i].key);
        free(c->v[i].from);
        free(c->v[i].to);
        for (int k = 0; k < 3; k++)
            free(c->v[i].sets[k]);
    }
    free(c->v);
    memset(c, 0, sizeof(*c));
}
