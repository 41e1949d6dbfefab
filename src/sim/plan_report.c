/* plan_report.c - a plan, its graph and what it will take, for people. */
#include "sim/plan_report.h"

#include "base/units.h"
#include "graph/shape_text.h"
#include "plan/programs.h"
#include "plan/stretch.h"
#include "sim/largest.h"
#include "sim/step_kinds.h"
#include "sim/traffic_report.h"

#include <math.h>

/* How ranks share sequences, and why so. */
static void print_shares(const struct dsflow_plan *plan, FILE *out)
{
    const struct dsf_sequence_choice *s = &plan->shares;
    const bool heads = s->kind == DSF_SEQUENCE_HEADS;

    fprintf(out, "stretch %d of %d tokens of each sequence on each rank, ",
            dsf_plan_stretches(plan) / plan->nsequence,
            plan->sequence / dsf_plan_stretches(plan));
    if (heads)
        fprintf(out, "attention by heads");
    else
        fprintf(out, "keys of other ranks %d tile%s at a time",
                dsf_plan_key_slots(plan) * plan->key_tiles,
                dsf_plan_key_slots(plan) * plan->key_tiles == 1 ? "" : "s");
    if (heads && s->imbalance > 1)
        fprintf(out, ": a rank has up to %.2f times an even share",
                s->imbalance);
    if (!heads && s->heads > 0 && s->imbalance > 1)
        fprintf(out,
                "; by heads a rank would have up to %.2f times an even share",
                s->imbalance);
    else if (s->heads > 0)
        fprintf(out, "; so a rank receives %s, by %s %s",
                dsf_size_text(heads ? s->heads : s->keys).s,
                heads ? "keys" : "heads",
                dsf_size_text(heads ? s->keys : s->heads).s);
    fputc('\n', out);
}

/* How many checkpoints there are, and the room that they take. */
static void print_saves(const struct dsf_plan_saves *s, FILE *out)
{
    fputs("saves   ", out);
    if (s->n <= 0) {
        fputs("no checkpoint\n", out);
        return;
    }
    if (isfinite(s->n))
        fprintf(out, "%.0f checkpoint%s of %s", s->n, s->n == 1 ? "" : "s",
                dsf_size_text(s->bytes).s);
    else
        fprintf(out, "checkpoints of %s", dsf_size_text(s->bytes).s);
    if (s->n > 1 && s->kept < s->n)
        fprintf(out, ", %.0f kept", s->kept);
    else if (s->n > 1)
        fputs(", all kept", out);
    if (s->n > 1 && isfinite(s->most))
        fprintf(out, ": up to %s on disk", dsf_size_text(s->most * s->bytes).s);
    fputc('\n', out);
}

/* A GPU is one worker; a rank on a CPU has its share of them. */
static void print_head(const struct dsflow_plan *plan,
                       const struct dsf_plan_facts *facts, FILE *out)
{
    const struct dsf_machine_model *machine = facts->machine;
    const struct dsf_weights *w = facts->weights;
    const struct dsf_model *model = plan->model;

    fprintf(out,
            "model   %s, %d layer%s, width %d, %d heads of %d, vocabulary %d: "
            "%.4g %s parameters\n",
            model->family == DSF_GPT2 ? "gpt2" : "llama", model->layers,
            model->layers == 1 ? "" : "s", model->dims.width, model->dims.heads,
            model->dims.head_dim, model->dims.vocab,
            (double)model->params / (model->params < 1e9 ? 1e6 : 1e9),
            model->params < 1e9 ? "million" : "billion");
    fprintf(out,
            "step    %d sequence%s of %d tokens in %d micro-batch%s of %d, "
            "%d tile%s of up to %d tokens%s\n",
            plan->nmicro * plan->micro,
            plan->nmicro * plan->micro == 1 ? "" : "s", plan->sequence,
            plan->nmicro, plan->nmicro == 1 ? "" : "es", plan->micro,
            plan->ntiles, plan->ntiles == 1 ? "" : "s", plan->tiles[0].rows,
            plan->ntiles == 1 ? "" : " each");
    if (plan->nslices > 0)
        fprintf(out, "head    %d slices of up to %lld tokens: %s of logits\n",
                plan->nslices, (long long)dsf_plan_head_rows(plan),
                dsf_size_text((double)dsf_plan_logits_bytes(plan)).s);
    if (plan->head_columns > 0)
        fprintf(out,
                "head    %d columns of the vocabulary at a time: %s of logits "
                "in the scratch of a worker\n",
                plan->head_columns,
                dsf_size_text((double)dsf_plan_logits_bytes(plan)).s);
    if (plan->nranks > 1)
        fprintf(out, "mesh    %s: %d ranks\n", dsf_mesh_text(&plan->mesh).s,
                plan->nranks);
    if (plan->nsequence > 1)
        print_shares(plan, out);
    if (plan->key_tiles > 1)
        fprintf(out, "keys    of up to %d tiles in a task of attention\n",
                plan->key_tiles);
    if (machine != NULL && machine->main.kind == DSF_MACHINE_GPU)
        fprintf(out, "machine %s\n", machine->main.name);
    else
        fprintf(out, "workers %u%s%s\n", plan->workers,
                machine != NULL ? " of " : "",
                machine != NULL ? machine->main.name : "");
    if (plan->machine->processes > 1)
        fprintf(out, "in      %d processes on %u node%s\n",
                (int)dsf_processes_of(plan->machine, plan->nranks).n,
                plan->machine->nodes, plan->machine->nodes == 1 ? "" : "s");
    if (facts->saves != NULL)
        print_saves(facts->saves, out);
    fprintf(out, "graph   %u tasks, %u pieces of data, %u edges\n\n", w->ntasks,
            w->ndata, w->nedges);
}

static void print_kinds(const struct dsf_weights *w, FILE *out)
{
    bool moves = w->moved > 0;

    fprintf(out, "%-26s %8s %12s%s\n", "task", "count", "GFLOP",
            moves ? "      traffic" : "");
    for (unsigned k = 0; k < w->nkinds; k++) {
        const struct dsf_kind_weight *kind = &w->kinds[k];

        fprintf(out, "%-26s %8u %12.3f", kind->op->name, kind->tasks,
                kind->flops / 1e9);
        if (kind->moved > 0)
            fprintf(out, " %12s", dsf_size_text(kind->moved).s);
        fputc('\n', out);
    }
    fprintf(out, "%-26s %8u %12.3f", "total", w->ntasks, w->flops / 1e9);
    if (moves)
        fprintf(out, " %12s", dsf_size_text(w->moved).s);
    fprintf(out, "\n\n");
}

/* What a line of the table is of: a role in a tier, scratch, what is beside a
 * device in main memory, a window there, or all of it. */
struct amount {
    enum { ROLE, SCRATCH, BESIDE, WINDOW, TOTAL } what;
    int tier, role;
};

static double amount_of(const struct dsf_rank_weight *r,
                        const struct amount *amount)
{
    bool device = amount->tier == DSFLOW_DEVICE;

    switch (amount->what) {
    case ROLE:
        return r->in_tier[amount->tier][amount->role];
    case SCRATCH:
        return device ? r->scratch : 0;
    case BESIDE:
        return amount->tier == DSFLOW_HOST ? r->beside : 0;
    case WINDOW:
        return amount->tier == DSFLOW_HOST ? r->window : 0;
    case TOTAL:
        break;
    }
    return dsf_weights_in(r, amount->tier);
}

struct spread {
    double sum, least, most; /* of all ranks, of one */
};

static struct spread spread_of(const struct dsf_weights *w,
                               const struct amount *amount)
{
    struct spread s = { 0, INFINITY, 0 };

    for (unsigned r = 0; r < w->nranks; r++) {
        double bytes = amount_of(&w->ranks[r], amount);

        s.sum += bytes;
        s.least = bytes < s.least ? bytes : s.least;
        s.most = bytes > s.most ? bytes : s.most;
    }
    return s;
}

/* Tiers that have anything, from the device on. */
static int tiers_of(const struct dsf_weights *w)
{
    int n = DSFLOW_NTIERS;

    while (n > 1 &&
           !(spread_of(w, &(struct amount){ TOTAL, n - 1, 0 }).sum > 0))
        n--;
    return n;
}

/* Of one tier: all ranks, the one that has least, the one that has most. Of
 * several: all ranks in each. */
static void print_memory_line(const struct dsf_weights *w, int ntiers,
                              const char *name, struct amount amount, FILE *out)
{
    fprintf(out, "%-26s", name);
    for (amount.tier = 0; amount.tier < ntiers; amount.tier++) {
        struct spread s = spread_of(w, &amount);

        fprintf(out, " %12s", dsf_size_text(s.sum).s);
        if (ntiers == 1 && w->nranks > 1)
            fprintf(out, " %12s %12s", dsf_size_text(s.least).s,
                    dsf_size_text(s.most).s);
    }
    fputc('\n', out);
}

/* Of one rank in each tier: the most that one needs, and what it may use. */
static void print_limits(const struct dsf_weights *w, int ntiers,
                         const double *budget, FILE *out)
{
    if (w->nranks > 1)
        fprintf(out, "%-26s", "most of a rank");
    for (int t = 0; t < ntiers && w->nranks > 1; t++) {
        struct amount total = { TOTAL, t, 0 };

        fprintf(out, " %12s", dsf_size_text(spread_of(w, &total).most).s);
    }
    fprintf(out, "%s%-26s", w->nranks > 1 ? "\n" : "", "budget of a rank");
    for (int t = 0; t < ntiers; t++)
        fprintf(out, " %12s",
                isfinite(budget[t]) ? dsf_size_text(budget[t]).s : "-");
    fputc('\n', out);
}

static void print_memory(const struct dsf_weights *w, const double *budget,
                         FILE *out)
{
    int ntiers = tiers_of(w);

    fprintf(out, "%-26s", "memory");
    for (int t = 0; t < ntiers && ntiers > 1; t++)
        fprintf(out, " %12s", dsflow_tier_str((enum dsflow_tier)t));
    if (ntiers == 1)
        fprintf(out, " %12s%s", w->nranks > 1 ? "all ranks" : "size",
                w->nranks > 1 ? "   least rank    most rank" : "");
    fputc('\n', out);
    for (int role = 0; role < DSFLOW_NROLES; role++)
        print_memory_line(w, ntiers, dsflow_role_str((enum dsflow_role)role),
                          (struct amount){ ROLE, 0, role }, out);
    print_memory_line(w, ntiers, "scratch of workers",
                      (struct amount){ SCRATCH, 0, 0 }, out);
    if (spread_of(w, &(struct amount){ BESIDE, DSFLOW_HOST, 0 }).sum > 0)
        print_memory_line(w, ntiers, "beside devices",
                          (struct amount){ BESIDE, 0, 0 }, out);
    if (spread_of(w, &(struct amount){ WINDOW, DSFLOW_HOST, 0 }).sum > 0)
        print_memory_line(w, ntiers, "window on other memories",
                          (struct amount){ WINDOW, 0, 0 }, out);
    print_memory_line(w, ntiers, "total", (struct amount){ TOTAL, 0, 0 }, out);
    if (ntiers > 1)
        print_limits(w, ntiers, budget, out);
}

/* Of the rank that needs most. */
static void print_largest(const struct dsflow_graph *g,
                          const struct dsf_weights *w, FILE *out)
{
    enum { MOST = 6 };
    unsigned rank = dsf_weights_neediest(w), n;
    struct dsf_largest v[MOST];
    char name[64] = "largest data";

    n = dsf_largest_find(g, rank, v, MOST);
    if (n == 0)
        return;
    if (w->nranks > 1)
        snprintf(name, sizeof(name), "largest data of rank %u", rank);
    fprintf(out, "\n%-26s %12s\n", name, "size");
    for (unsigned i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "%.31s.%.31s", v[i].segment, v[i].port);
        fprintf(out, "%-26s %12s  %u of %s, %s\n", name,
                dsf_size_text(v[i].bytes).s, v[i].count,
                dsf_shape_text(v[i].data).s, dsflow_role_str(v[i].data->role));
    }
}

/* What a step reads from the larger memories, and writes to them: all ranks. */
static void print_traffic(const struct dsf_weights *w, FILE *out)
{
    double in[DSFLOW_NTIERS] = { 0 }, outward[DSFLOW_NTIERS] = { 0 };
    bool any = false;

    for (int t = DSFLOW_HOST; t < DSFLOW_NTIERS; t++)
        for (unsigned r = 0; r < w->nranks; r++) {
            in[t] += w->ranks[r].in[t];
            outward[t] += w->ranks[r].out[t];
            any = any || in[t] + outward[t] > 0;
        }
    if (!any)
        return;
    fprintf(out, "\n%-26s %12s %12s\n", "traffic of a step", "read", "written");
    for (int t = DSFLOW_HOST; t < DSFLOW_NTIERS; t++)
        if (in[t] + outward[t] > 0)
            fprintf(out, "%-26s %12s %12s\n",
                    dsflow_tier_str((enum dsflow_tier)t),
                    dsf_size_text(in[t]).s, dsf_size_text(outward[t]).s);
}

/* "no faster than … by" it. */
static const char *const bounds[DSF_NBOUNDS] = {
    [DSF_BOUND_CRITICAL] = "the critical path",
    [DSF_BOUND_WORK] = "the work of the workers",
    [DSF_BOUND_LINK] = "the traffic of a link",
    [DSF_BOUND_HOST] = "updates in main memory",
    [DSF_BOUND_DISK] = "reads from and writes to nvme",
    [DSF_BOUND_READS] = "reads from nvme",
    [DSF_BOUND_WRITES] = "writes to nvme",
};

static void print_time(const struct dsflow_plan *plan,
                       const struct dsf_prediction *p, FILE *out)
{
    const struct dsf_sim_result *r = &p->sim;
    double tokens = (double)plan->nmicro * plan->micro * (double)plan->sequence;
    double least = INFINITY, most = 0;

    for (unsigned i = 0; i < r->nranks; i++) {
        least = r->busy[i] < least ? r->busy[i] : least;
        most = r->busy[i] > most ? r->busy[i] : most;
    }
    fprintf(out, "\n%-26s %12s, %.0f tokens/s\n", "predicted step",
            dsf_seconds_text(r->step_seconds).s,
            r->step_seconds > 0 ? tokens / r->step_seconds : 0);
    fprintf(out, "%-26s %12s, limited by %s; efficiency %.1f %%\n",
            "no faster than", dsf_seconds_text(r->bound_seconds).s,
            r->by_network ? "the network" : bounds[r->bound],
            100 * r->efficiency);
    fprintf(out, "%-26s %12s, %u tasks\n", "critical path",
            dsf_seconds_text(r->critical_seconds).s, r->ncritical);
    fprintf(out, "%-26s %10.1f %%\n", "workers idle", 100 * r->idle);
    if (r->nranks > 1)
        fprintf(out, "%-26s %12s to %s\n", "work of each rank",
                dsf_seconds_text(least).s, dsf_seconds_text(most).s);
    if (p->links && r->comm_seconds > 0)
        fprintf(out, "%-26s %12s a rank, %.1f %% of it hidden behind compute\n",
                "moving data", dsf_seconds_text(r->comm_seconds / r->nranks).s,
                100 * r->hidden);
    if (p->processes.n > 1)
        fprintf(
            out, "%-26s %12s a process, %.1f %% of it hidden behind compute\n",
            "messages", dsf_seconds_text(r->sent_seconds / p->processes.n).s,
            100 * r->sent_hidden);
    if (r->io_seconds > 0)
        fprintf(out, "%-26s %12s, %.1f %% of it hidden behind compute\n",
                "reading and writing nvme", dsf_seconds_text(r->io_seconds).s,
                100 * r->io_hidden);
    for (int i = 0; i < DSF_NHOLDERS && r->holders[i].op != NULL; i++) {
        const struct dsf_holder *h = &r->holders[i];
        char where[64] = "";

        if (h->layer >= 0)
            snprintf(where, sizeof(where), " of layer %d", h->layer);
        fprintf(out, "%-26s %12s, %s%s\n", i == 0 ? "held back most by" : "",
                dsf_seconds_text(h->seconds).s, h->op->name, where);
    }
}

/* What a step is on average, where there are several kinds of them. */
static void print_mean(const struct dsflow_plan *plan,
                       const struct dsflow_graph *g,
                       const struct dsf_prediction *p, bool timed, FILE *out)
{
    const struct dsf_step_kind mean = dsf_step_mean(plan, g, p);

    fprintf(out, "%-26s %8.0f", "mean of a step", mean.tasks);
    if (timed)
        fprintf(out, " %12s", dsf_seconds_text(mean.seconds).s);
    fprintf(out, " %12s  %lld steps\n", dsf_size_text(mean.bytes).s,
            (long long)mean.steps);
}

/* What is submitted: by name, with its tasks and its time, and when it runs; of
 * several kinds of step, what each moves between ranks. */
static void print_programs(const struct dsflow_plan *plan,
                           const struct dsflow_graph *g,
                           const struct dsf_prediction *p, FILE *out)
{
    bool timed = p != NULL && p->seconds != NULL;
    bool several = plan->nprograms > 0;

    fprintf(out, "%-26s %8s%s%s  runs in\n", "program", "tasks",
            timed ? "    predicted" : "", several ? "      traffic" : "");
    for (unsigned i = 0; i < dsflow_graph_nprograms(g); i++) {
        const char *name = dsflow_graph_program(g, (dsflow_program)i);
        uint32_t first;

        fprintf(out, "%-26s %8u", name,
                dsflow_graph_program_tasks(g, (dsflow_program)i, &first));
        if (timed)
            fprintf(out, " %12s", dsf_seconds_text(p->seconds[i]).s);
        if (several)
            fprintf(out, " %12s",
                    dsf_size_text(
                        dsf_step_kind(plan, g, p, (dsflow_program)i).bytes)
                        .s);
        fputs("  ", out);
        dsf_plan_write_runs(plan, name, out);
        fputc('\n', out);
    }
    if (several)
        print_mean(plan, g, p, timed, out);
    fputc('\n', out);
}

int dsf_plan_report(const struct dsflow_plan *plan, struct dsflow_graph *g,
                    const struct dsf_plan_facts *facts, FILE *out)
{
    const struct dsf_weights *w = facts->weights;

    print_head(plan, facts, out);
    print_programs(plan, g, facts->prediction, out);
    print_kinds(w, out);
    print_memory(w, facts->budget, out);
    print_largest(g, w, out);
    print_traffic(w, out);
    dsf_traffic_print(w, out);
    if (facts->prediction != NULL)
        print_time(plan, facts->prediction, out);
    return ferror(out) ? DSFLOW_EIO : DSFLOW_OK;
}
