/* tunables.c - what may be changed in a job: the table, and the values of keys
 * that are of no policy. Those of policies stand with the policies (tries.c).
 */
#include "tune/tunables.h"

#include "base/alloc.h"
#include "config/job_tables.h"
#include "config/option.h"
#include "config/when.h"
#include "policies/keys.h"
#include "tune/budget.h"

#include <stdlib.h>
#include <string.h>

struct dsf_change *dsf_changes_add(struct dsf_changes *c, char *from, char *to)
{
    struct dsf_change *x = dsf_xcalloc(1, sizeof(*x));

    *x = (struct dsf_change){
        .row = c->row, .reason = c->row->reason, .from = from, .to = to
    };
    if (to != NULL)
        x->sets[x->nsets++] = dsf_xasprintf("%s=%s", c->row->key, to);
    dsf_grow(&c->v, &c->cap, (size_t)c->n + 1, sizeof(*c->v));
    return c->v[c->n++] = x;
}

void dsf_changes_fini(struct dsf_changes *c)
{
    for (unsigned i = 0; i < c->n; i++) {
        free(c->v[i]->from);
        free(c->v[i]->to);
        for (unsigned k = 0; k < c->v[i]->nsets; k++)
            free(c->v[i]->sets[k]);
        free(c->v[i]);
    }
    free(c->v);
    c->v = NULL;
    c->n = 0;
    c->cap = 0;
}

static struct dsf_change *add_whole(struct dsf_changes *c, int64_t from,
                                    int64_t to)
{
    return dsf_changes_add(c, dsf_xasprintf("%lld", (long long)from),
                           dsf_xasprintf("%lld", (long long)to));
}

static void also(struct dsf_change *x, char *set)
{
    x->sets[x->nsets++] = set;
}

/* Every size of a micro-batch. */
static void list_micros(struct dsf_changes *c)
{
    const struct dsf_job *job = c->job;
    int64_t each = job->batch.sequences / job->mesh.size[DSF_AXIS_DATA];

    for (int64_t n = 1; n <= each && n <= 1024; n++)
        if (each % n == 0)
            add_whole(c, job->batch.micro, n);
}

static void list_less_micros(struct dsf_changes *c)
{
    int64_t now = c->plan->micro;

    for (int64_t n = now - 1; n >= 1; n--)
        if (now % n == 0)
            add_whole(c, now, n);
}

static void list_better_micros(struct dsf_changes *c)
{
    const struct dsflow_plan *plan = c->plan;
    int64_t each = (int64_t)plan->nmicro * plan->micro / plan->nreplicas;

    for (int64_t i = 2; i <= 8; i *= 2)
        if (each % (plan->micro * i) == 0) {
            struct dsf_change *x = add_whole(c, plan->micro, plan->micro * i);

            if (c->job->batch.tile > 0)
                also(x, dsf_xstrdup("batch.tile=auto"));
        }
    if (plan->micro % 2 == 0)
        add_whole(c, plan->micro, plan->micro / 2)->reason = DSF_REASON_LARGE;
}

/* As many micro-batches as there are by default, or one. */
static void list_flights(struct dsf_changes *c)
{
    c->cost = 1;
    dsf_changes_add(c, dsf_xstrdup("auto"), NULL);
    dsf_changes_add(c, dsf_xstrdup("auto"), dsf_xstrdup("1"));
}

/* It changes no bit, and costs next to nothing where neither another stage nor
 * another worker waits for the next micro-batch. */
static void list_one_in_flight(struct dsf_changes *c)
{
    if (c->job->batch.in_flight == 1 || c->plan->micro_steps == 1 ||
        c->plan->layer_major)
        return;
    if (c->plan->nstages == 1 && c->plan->rank_workers == 1)
        c->cost = 1;
    add_whole(c, c->job->batch.in_flight, 1);
}

static void list_more_in_flight(struct dsf_changes *c)
{
    const struct dsflow_plan *plan = c->plan;
    int64_t slots = 0;

    for (int32_t i = 0; i < plan->nchunks; i++)
        if (plan->activation_slots[i] > slots)
            slots = plan->activation_slots[i];
    if (plan->layer_major || slots >= plan->micro_steps ||
        (plan->nstages > 1 && c->job->batch.in_flight < 0))
        return;
    for (int64_t i = 1; i <= 4; i *= 2)
        if (slots + i <= plan->micro_steps)
            add_whole(c, slots, slots + i);
}

static void list_executor(struct dsf_changes *c)
{
    if (!dsf_fit_is_gpu(c->machine) && dsf_changes_serial(c))
        dsf_changes_add(c, dsf_xstrdup("serial"), dsf_xstrdup("starpu"))
            ->effect.parallel = true;
}

/* Cores that work; -1: how many does not matter, as ranks are GPUs, or tasks
 * run one at a time. */
static int64_t cores_of(const struct dsf_changes *c)
{
    if (dsf_fit_is_gpu(c->machine) || dsf_changes_serial(c))
        return -1;
    return (int64_t)c->plan->workers - c->job->machine.virtuals;
}

static void list_workers(struct dsf_changes *c)
{
    int64_t cores = cores_of(c);

    if (cores >= 0 && c->plan->workers < c->account->trace->facts.cores)
        add_whole(c, cores, cores + 1);
}

static void list_virtuals(struct dsf_changes *c)
{
    const struct dsf_account *a = c->account;
    double all = a->all.workers * a->seconds;
    int64_t virtuals = c->job->machine.virtuals, cores = cores_of(c);
    struct dsf_change *x;

    if (cores < 0 || virtuals == 0)
        return;
    x = add_whole(c, virtuals, virtuals - 1);
    also(x, dsf_xasprintf("machine.workers=%lld", (long long)cores + 1));
    x->effect.transfers = 1.0 / (double)virtuals;
    /* One core more that computes helps without transfers, too. */
    if (a->all.idle[DSF_CAUSE_TRANSFER] < 0.01 * all)
        x->reason =
            a->all.did.busy > 0.5 * all ? DSF_REASON_BUSY : DSF_REASON_ORDER;
}

/* Links of virtual devices are as slow as the job says. */
static void list_virtual_links(struct dsf_changes *c)
{
    const struct dsf_job_machine *m = &c->job->machine;

    for (int64_t times = 2; times <= 8 && m->virtuals > 0; times *= 2)
        if (m->virtual_link > 0)
            add_whole(c, m->virtual_link, times * m->virtual_link)
                ->effect.transfers = 1 - 1.0 / (double)times;
}

/* "[3, 3]"; freed by the caller. */
static char *split_text(const int64_t *blocks, int n)
{
    char *text = dsf_xstrdup("[");

    for (int i = 0; i < n; i++) {
        char *longer = dsf_xasprintf("%s%lld%s", text, (long long)blocks[i],
                                     i < n - 1 ? ", " : "]");

        free(text);
        text = longer;
    }
    return text;
}

/* The stage whose ranks work most. */
static int busiest_of(const struct dsf_changes *c)
{
    const struct dsf_account *a = c->account;
    int stages = c->plan->nstages, busiest = 0;
    double *busy = dsf_xcalloc((size_t)stages + 1, sizeof(*busy));

    for (unsigned r = 0; r < a->nranks; r++)
        busy[dsf_account_stage(a, (int)r) % stages] += a->ranks[r].did.computing;
    for (int s = 1; s < stages; s++)
        if (busy[s] > busy[busiest])
            busiest = s;
    free(busy);
    return busiest;
}

/* Balanced; or one block from a chunk of the busiest stage to a neighbour. */
static void list_splits(struct dsf_changes *c)
{
    const struct dsflow_plan *plan = c->plan;
    int n = plan->nchunks, from = busiest_of(c);
    int64_t *blocks = dsf_xcalloc((size_t)n + 1, sizeof(*blocks));
    char *now;

    for (int l = 0; l < plan->model->layers; l++)
        blocks[dsflow_plan_chunk_of(plan, l)]++;
    now = split_text(blocks, n);
    if (plan->nstages > 1 && dsf_pipeline_keys(c->job)->split.n > 0)
        dsf_changes_add(c, dsf_xstrdup(now), dsf_xstrdup("[]"));
    for (; plan->nstages > 1 && from < n; from += plan->nstages)
        for (int to = from - 1; to <= from + 1; to += 2) {
            if (to < 0 || to >= n || blocks[from] < 2)
                continue;
            blocks[from]--;
            blocks[to]++;
            dsf_changes_add(c, dsf_xstrdup(now), split_text(blocks, n));
            blocks[from]++;
            blocks[to]--;
        }
    free(now);
    free(blocks);
}

/* Tasks as large, or as many, as suits the workers. */
static void list_tiles(struct dsf_changes *c)
{
    const struct dsflow_plan *plan = c->plan;
    int64_t rows = plan->tiles[0].rows;

    for (int64_t i = 2; i <= 8; i *= 2)
        if (rows * i <= (int64_t)plan->micro * plan->sequence)
            add_whole(c, rows, rows * i);
    if (rows >= 32 && rows % 2 == 0)
        add_whole(c, rows, rows / 2)->reason = DSF_REASON_LARGE;
}

static char *rate_text(double bandwidth)
{
    return dsf_xasprintf("%.3e", bandwidth);
}

/* Fewer bits, where the machine is known to be faster with them: by what its
 * tasks take, or by what its file says of products. */
static void list_types(struct dsf_changes *c)
{
    const struct dsf_machine_model *m = c->machine;
    bool faster = m->nkinds > 0 ? dsf_machine_model_knows(m, DSFLOW_BF16)
                                : m->main.bf16 > m->main.fp32;

    if (dsf_compute_type(c->job) == DSFLOW_FP32 && faster)
        dsf_changes_add(c, dsf_xstrdup("fp32"), dsf_xstrdup("bf16"));
}

/* Faster wires. */
static void list_wires(struct dsf_changes *c)
{
    const struct dsf_machine_model *m = c->machine;
    bool network = strcmp(c->row->key, "network.bandwidth") == 0;
    double now = network ? m->network.bandwidth : m->link.bandwidth;

    if (!dsf_fit_is_gpu(m) || c->plan->nranks < 2 ||
        (network && m->main.nodes < 2))
        return;
    for (double times = 2; times <= 8; times *= 2) {
        struct dsf_change *x =
            dsf_changes_add(c, rate_text(now), rate_text(times * now));

        *(network ? &x->effect.network : &x->effect.link) = times;
    }
}

static void list_disks(struct dsf_changes *c)
{
    const struct dsf_machine_disk *disk = &c->machine->disk;

    for (double times = 2; times <= 4 && c->account->hidden.io > 0;
         times *= 2) {
        struct dsf_change *x = dsf_changes_add(c, rate_text(disk->read),
                                               rate_text(times * disk->read));

        also(x, dsf_xasprintf("disk.write=%.3e", times * disk->write));
        x->effect.disk = times;
    }
}

/* Layers first: of two orders that are as fast, it reads less. */
static void list_orders(struct dsf_changes *c)
{
    dsf_changes_add(c, dsf_xstrdup("auto"), dsf_xstrdup("layer_major"));
    dsf_changes_add(c, dsf_xstrdup("auto"), dsf_xstrdup("micro_major"));
}

static void list_other_order(struct dsf_changes *c)
{
    bool layers = c->plan->layer_major;

    if (c->plan->nstages == 1)
        dsf_changes_add(c, dsf_xstrdup(layers ? "layer_major" : "micro_major"),
                        dsf_xstrdup(layers ? "micro_major" : "layer_major"));
}

/* Keys first: they are in few large pieces. */
static void list_sequence_kinds(struct dsf_changes *c)
{
    dsf_changes_add(c, dsf_xstrdup("auto"), dsf_xstrdup("keys"));
    dsf_changes_add(c, dsf_xstrdup("auto"), dsf_xstrdup("heads"));
}

static void list_other_sequence_kind(struct dsf_changes *c)
{
    bool heads = c->plan->shares.kind == DSF_SEQUENCE_HEADS;

    if (c->plan->nsequence > 1)
        dsf_changes_add(c, dsf_xstrdup(heads ? "heads" : "keys"),
                        dsf_xstrdup(heads ? "keys" : "heads"));
}

static void list_shares(struct dsf_changes *c)
{
    for (int hundredths = 0; hundredths <= 100; hundredths++)
        dsf_changes_add(c, dsf_xstrdup("auto"),
                        dsf_xasprintf("%.10g", hundredths / 100.0));
}

/* What moves and keeps data comes with the policies, between these. */
/* clang-format off */
static const struct dsf_tunable first_rows[] = {
    { .key = "batch.micro", .reason = DSF_REASON_SMALL, .regroups = true,
      .open = "batch.micro = auto", .values = list_micros, .cost = 2,
      .less = list_less_micros, .better = list_better_micros },
    { .key = "batch.in_flight", .reason = DSF_REASON_SLOT, .cost = 4,
      .open = "batch.in_flight = auto and mesh.pipeline = 1 and "
              "recompute.what = auto and batch.order != layer_major",
      .values = list_flights,
      .less = list_one_in_flight, .better = list_more_in_flight },
    { .key = "--executor", .of = DSF_OF_COMMAND, .reason = DSF_REASON_BUSY,
      .better = list_executor },
    { .key = "machine.workers", .reason = DSF_REASON_BUSY,
      .better = list_workers },
    { .key = "machine.virtual", .reason = DSF_REASON_TRANSFER,
      .better = list_virtuals },
    { .key = "pipeline.split", .reason = DSF_REASON_STAGES,
      .better = list_splits },
    { .key = "batch.tile", .reason = DSF_REASON_SMALL, .regroups = true,
      .better = list_tiles },
    { .key = "precision.compute", .reason = DSF_REASON_TYPE, .narrows = true,
      .better = list_types },
    { .key = "link.bandwidth", .of = DSF_OF_MACHINE,
      .reason = DSF_REASON_MOVING, .better = list_wires },
    { .key = "network.bandwidth", .of = DSF_OF_MACHINE,
      .reason = DSF_REASON_MOVING, .better = list_wires },
    { .key = "machine.virtual_link", .reason = DSF_REASON_TRANSFER,
      .better = list_virtual_links },
};
static const struct dsflow_try share = { "share", DSFLOW_VALUES_QUARTERS,
                                         DSFLOW_CAUSE_DISK, 0 };
static const struct dsf_tunable last_rows[] = {
    { .key = "disk.read", .of = DSF_OF_MACHINE, .reason = DSF_REASON_DISK,
      .better = list_disks },
    { .key = "batch.order", .reason = DSF_REASON_ORDER,
      .open = "batch.order = auto and offload.params = nvme",
      .values = list_orders, .cost = 1, .better = list_other_order },
    { .key = "mesh.sequence_kind", .reason = DSF_REASON_MOVING,
      .open = "mesh.sequence_kind = auto and mesh.sequence >= 2",
      .most_ranks = 64,
      .values = list_sequence_kinds, .cost = 2,
      .better = list_other_sequence_kind },
    { .key = "offload.share", .reason = DSF_REASON_DISK, .how = &share,
      .open = "offload.share = auto and offload.optimizer != none",
      .values = list_shares, .most = true, .better = dsf_list_tries },
    { .key = "offload", .less = dsf_list_memories, .cost = 5 },
};
/* clang-format on */

static void add_row(struct dsf_tunables *t, const struct dsf_tunable *row)
{
    const char *dot = strrchr(row->key, '.');
    struct dsf_tunable *x;

    dsf_grow(&t->v, &t->cap, (size_t)t->n + 1, sizeof(*t->v));
    x = &t->v[t->n++];
    *x = *row;
    if (dot != NULL && row->of == DSF_OF_JOB) {
        char *table = dsf_xstrndup(row->key, (size_t)(dot - row->key));

        x->table = dsf_job_find_table(table);
        x->option = dsf_option_find(x->table->options, dot + 1);
        free(table);
    }
}

void dsf_tunables_init(struct dsf_tunables *t)
{
    const struct dsflow_policy *policy;
    struct dsf_tunable row;

    memset(t, 0, sizeof(*t));
    for (size_t i = 0; i < sizeof(first_rows) / sizeof(*first_rows); i++)
        add_row(t, &first_rows[i]);
    for (unsigned p = 0; (policy = dsflow_policy_at(p)) != NULL; p++)
        for (const struct dsflow_try *how = policy->tries;
             how != NULL && how->key != NULL; how++) {
            dsf_tunable_of_policy(&row, policy, how);
            add_row(t, &row);
        }
    for (size_t i = 0; i < sizeof(last_rows) / sizeof(*last_rows); i++)
        add_row(t, &last_rows[i]);
}

void dsf_tunables_fini(struct dsf_tunables *t)
{
    free(t->v);
    memset(t, 0, sizeof(*t));
}

const struct dsf_tunable *dsf_tunables_find(const struct dsf_tunables *t,
                                            const char *key)
{
    for (unsigned i = 0; i < t->n; i++)
        if (strcmp(t->v[i].key, key) == 0)
            return &t->v[i];
    return NULL;
}

bool dsf_tunable_is_open(const struct dsf_tunable *row,
                         const struct dsf_job *job)
{
    return row->open[0] != '\0' &&
           (row->most_ranks == 0 || dsf_job_ranks(job) <= row->most_ranks) &&
           dsf_job_is(job, row->open);
}

bool dsf_tunables_any_open(const struct dsf_job *job)
{
    struct dsf_tunables t;
    bool any = false;

    dsf_tunables_init(&t);
    for (unsigned i = 0; i < t.n; i++)
        any = any || dsf_tunable_is_open(&t.v[i], job);
    dsf_tunables_fini(&t);
    return any;
}
