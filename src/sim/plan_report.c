/* plan_report.c - a plan, its graph and what it will take: for people, and as
 * JSON. */
#include "sim/plan_report.h"

#include "base/units.h"
#include "graph/shape_text.h"
#include "plan/programs.h"
#include "sim/largest.h"
#include "sim/weights.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A GPU is one worker; a rank on a CPU has its share of them. */
static void print_head(const struct dsflow_plan *plan,
                       const struct dsf_machine_model *machine,
                       const struct dsf_weights *w, FILE *out)
{
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
    if (plan->nranks > 1)
        fprintf(out, "mesh    %s: %d ranks\n", dsf_mesh_text(&plan->mesh).s,
                plan->nranks);
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
 * device in main memory, or all of it. */
struct amount {
    enum { ROLE, SCRATCH, BESIDE, TOTAL } what;
    int tier, role;
};

static double bytes_in(const struct dsf_rank_weight *r, int tier)
{
    return tier == DSFLOW_DEVICE ? r->peak
           : tier == DSFLOW_HOST ? r->tier_bytes[tier] + r->beside
                                 : r->tier_bytes[tier];
}

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
    case TOTAL:
        break;
    }
    return bytes_in(r, amount->tier);
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
        print_memory_line(w, ntiers, "beside GPUs",
                          (struct amount){ BESIDE, 0, 0 }, out);
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
    fprintf(out, "%-26s %10.1f %%\n", "workers idle", 100 * r->bubble);
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

/* What is submitted: by name, with its tasks and its time, and when it runs. */
static void print_programs(const struct dsflow_plan *plan,
                           const struct dsflow_graph *g,
                           const struct dsf_prediction *p, FILE *out)
{
    bool timed = p != NULL && p->seconds != NULL;

    fprintf(out, "%-26s %8s%s  runs in\n", "program", "tasks",
            timed ? "    predicted" : "");
    for (unsigned i = 0; i < dsflow_graph_nprograms(g); i++) {
        const char *name = dsflow_graph_program(g, (dsflow_program)i);
        uint32_t first;

        fprintf(out, "%-26s %8u", name,
                dsflow_graph_program_tasks(g, (dsflow_program)i, &first));
        if (timed)
            fprintf(out, " %12s", dsf_seconds_text(p->seconds[i]).s);
        fputs("  ", out);
        dsf_plan_write_runs(plan, name, out);
        fputc('\n', out);
    }
    fputc('\n', out);
}

int dsf_plan_report(const struct dsflow_plan *plan, struct dsflow_graph *g,
                    const struct dsf_plan_facts *facts, FILE *out)
{
    const struct dsf_weights *w = facts->weights;

    print_head(plan, facts->machine, w, out);
    print_programs(plan, g, facts->prediction, out);
    print_kinds(w, out);
    print_memory(w, facts->budget, out);
    print_largest(g, w, out);
    print_traffic(w, out);
    if (facts->prediction != NULL)
        print_time(plan, facts->prediction, out);
    return ferror(out) ? DSFLOW_EIO : DSFLOW_OK;
}

/* Whole numbers: bytes. */
static json_t *bytes_json(double bytes)
{
    return json_integer((json_int_t)bytes);
}

static json_t *roles_json(const struct dsf_rank_weight *r)
{
    json_t *roles = json_object();

    for (int role = 0; role < DSFLOW_NROLES; role++)
        json_object_set_new(roles, dsflow_role_str((enum dsflow_role)role),
                            bytes_json(r->role_bytes[role]));
    json_object_set_new(roles, "scratch", bytes_json(r->scratch));
    return roles;
}

/* Kinds by name, as in DESIGN: {"embed.forward": 4, …}; those of a rank, or of
 * all. */
static json_t *tasks_json(const struct dsf_weights *w,
                          const struct dsf_rank_weight *r)
{
    json_t *tasks = json_object();

    for (unsigned k = 0; k < w->nkinds; k++) {
        uint32_t n = r != NULL ? r->tasks[k] : w->kinds[k].tasks;

        if (n > 0)
            json_object_set_new(tasks, w->kinds[k].op->name, json_integer(n));
    }
    return tasks;
}

/* Bytes that a step moves, by kind; of a rank, or of all. */
static json_t *moved_json(const struct dsf_weights *w,
                          const struct dsf_rank_weight *r)
{
    json_t *bytes = json_object();
    double in = 0, out = 0;

    for (unsigned k = 0; k < w->nkinds; k++)
        if (w->kinds[k].op->comm)
            json_object_set_new(
                bytes, w->kinds[k].op->name,
                bytes_json(r != NULL ? r->moved[k] : w->kinds[k].moved));
    for (unsigned i = 0; i < w->nranks; i++)
        for (int t = 0; t < DSFLOW_NTIERS; t++)
            if (r == NULL || r == &w->ranks[i]) {
                in += w->ranks[i].in[t];
                out += w->ranks[i].out[t];
            }
    if (in + out > 0) {
        json_object_set_new(bytes, "swap_in", bytes_json(in));
        json_object_set_new(bytes, "swap_out", bytes_json(out));
    }
    return bytes;
}

static json_t *peaks_json(const struct dsf_rank_weight *r)
{
    json_t *peaks = json_object();

    for (int t = 0; t < DSFLOW_NTIERS; t++)
        json_object_set_new(peaks, dsflow_tier_str((enum dsflow_tier)t),
                            bytes_json(bytes_in(r, t)));
    return peaks;
}

/* What a rank may have; null: no limit. */
static json_t *budgets_json(const double *budget)
{
    json_t *budgets = json_object();

    for (int t = 0; t < DSFLOW_NTIERS; t++)
        json_object_set_new(budgets, dsflow_tier_str((enum dsflow_tier)t),
                            isfinite(budget[t]) ? bytes_json(budget[t])
                                                : json_null());
    return budgets;
}

/* What is kept in the larger memories, and what a step reads and writes there.
 */
static json_t *tiers_json(const struct dsf_rank_weight *r)
{
    json_t *tiers = json_object();

    for (int t = DSFLOW_HOST; t < DSFLOW_NTIERS; t++) {
        json_t *roles = json_object();

        for (int role = 0; role < DSFLOW_NROLES; role++)
            json_object_set_new(roles, dsflow_role_str((enum dsflow_role)role),
                                bytes_json(r->in_tier[t][role]));
        json_object_set_new(tiers, dsflow_tier_str((enum dsflow_tier)t),
                            json_pack("{s:o, s:o, s:o}", "role_bytes", roles,
                                      "read_bytes", bytes_json(r->in[t]),
                                      "written_bytes", bytes_json(r->out[t])));
    }
    return tiers;
}

/* What takes most of the memory of the rank that needs most. */
static json_t *largest_json(const struct dsflow_graph *g,
                            const struct dsf_weights *w)
{
    enum { MOST = 32 };
    unsigned rank = dsf_weights_neediest(w), n;
    struct dsf_largest v[MOST];
    json_t *list = json_array();

    n = dsf_largest_find(g, rank, v, MOST);
    for (unsigned i = 0; i < n; i++)
        json_array_append_new(
            list, json_pack("{s:i, s:s, s:s, s:s, s:s, s:i, s:o}", "rank",
                            (int)rank, "task", v[i].segment, "port", v[i].port,
                            "shape", dsf_shape_text(v[i].data).s, "role",
                            dsflow_role_str(v[i].data->role), "count",
                            (int)v[i].count, "bytes", bytes_json(v[i].bytes)));
    return list;
}

/* A number for each axis. */
static json_t *axes_json(const int32_t *numbers)
{
    const struct dsflow_axis *axis;
    json_t *all = json_object();

    for (unsigned i = 0; (axis = dsflow_axis_at(i)) != NULL; i++)
        json_object_set_new(all, axis->name, json_integer(numbers[i]));
    return all;
}

/* Readers ask for these axes too, which are to come. */
static json_t *mesh_json(const struct dsf_mesh *mesh)
{
    static const char *const awaited[] = { "sequence", "expert" };
    json_t *all = axes_json(mesh->size);

    for (size_t i = 0; i < sizeof(awaited) / sizeof(*awaited); i++)
        if (json_object_get(all, awaited[i]) == NULL)
            json_object_set_new(all, awaited[i], json_integer(1));
    return all;
}

static json_t *rank_json(const struct dsflow_plan *plan,
                         const struct dsf_plan_facts *facts,
                         const struct dsf_weights *w, unsigned i)
{
    const struct dsf_machine_model *machine = facts->machine;
    const struct dsf_prediction *p = facts->prediction;
    const struct dsf_rank_weight *r = &w->ranks[i];
    bool gpu = machine != NULL && machine->main.kind == DSF_MACHINE_GPU;
    int32_t stage = dsf_mesh_at(&plan->mesh, (int32_t)i, DSF_AXIS_PIPELINE);
    struct dsf_coords coords = dsf_mesh_coords(&plan->mesh, (int32_t)i);
    json_t *rank;

    rank = json_pack("{s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "rank", (int)i, "device", gpu ? "gpu" : "cpu", "stage",
                     (int)stage, "coords", axes_json(coords.at), "peak_bytes", peaks_json(r), "budget_bytes",
                     budgets_json(facts->budget), "role_bytes", roles_json(r),
                     "tasks", tasks_json(w, r), "bytes", moved_json(w, r),
                     "tiers", tiers_json(r));
    if (p != NULL && w->nranks > 1)
        json_object_set_new(rank, "busy_seconds", json_real(p->sim.busy[i]));
    else if (p != NULL)
        json_object_set_new(rank, "busy_seconds",
                            json_real(p->sim.work_seconds));
    return rank;
}

static json_t *predicted_json(const struct dsf_machine_model *machine,
                              const struct dsf_prediction *p)
{
    const struct dsf_sim_result *r = &p->sim;
    json_t *holders = json_array();

    for (int i = 0; i < DSF_NHOLDERS && r->holders[i].op != NULL; i++)
        json_array_append_new(holders,
                              json_pack("{s:s, s:i, s:f}", "task",
                                        r->holders[i].op->name, "layer",
                                        r->holders[i].layer, "seconds",
                                        r->holders[i].seconds));
    return json_pack(
        "{s:s, s:i, s:i, s:f, s:f, s:s, s:f, s:f, s:f, s:f, s:f, s:f, s:f, "
        "s:f, s:f, s:f, s:o}",
        "machine", machine->main.name, "workers", (int)p->workers, "processes",
        p->processes.n > 1 ? (int)p->processes.n : 1, "step_seconds",
        r->step_seconds, "bound_seconds", r->bound_seconds, "bound",
        r->by_network ? "network" : dsf_bound_str(r->bound), "critical_seconds",
        r->critical_seconds, "efficiency", r->efficiency, "bubble", r->bubble,
        "work_seconds", r->work_seconds, "comm_seconds", r->comm_seconds,
        "comm_hidden", r->hidden, "sent_seconds", r->sent_seconds,
        "sent_hidden", r->sent_hidden, "io_seconds", r->io_seconds, "io_hidden",
        r->io_hidden, "holders", holders);
}

/* The steps that a program stands for; null: up to the end. */
static json_t *runs_json(const struct dsflow_plan *plan, const char *name)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < plan->nprograms; i++) {
        const struct dsf_plan_program *p = &plan->programs[i];

        if (strcmp(p->name, name) != 0)
            continue;
        json_array_append_new(
            list, json_pack("{s:I, s:I, s:o}", "first", (json_int_t)p->first,
                            "every", (json_int_t)p->every, "last",
                            p->last > 0 ? json_integer(p->last) : json_null()));
    }
    return list;
}

static json_t *programs_json(const struct dsflow_plan *plan,
                             const struct dsflow_graph *g,
                             const struct dsf_prediction *p)
{
    json_t *list = json_array();

    for (unsigned i = 0; i < dsflow_graph_nprograms(g); i++) {
        const char *name = dsflow_graph_program(g, (dsflow_program)i);
        uint32_t first;
        json_t *one = json_pack("{s:s, s:I, s:o}", "name", name, "tasks",
                                (json_int_t)dsflow_graph_program_tasks(
                                    g, (dsflow_program)i, &first),
                                "steps", runs_json(plan, name));

        if (p != NULL && p->seconds != NULL)
            json_object_set_new(one, "seconds", json_real(p->seconds[i]));
        json_array_append_new(list, one);
    }
    return list;
}

int dsf_plan_report_json(const struct dsflow_plan *plan, struct dsflow_graph *g,
                         const struct dsf_plan_facts *facts, FILE *out,
                         struct dsflow_err *err)
{
    json_t *ranks = json_array(), *root;
    const struct dsf_weights *w = facts->weights;
    int ret;

    for (unsigned r = 0; r < w->nranks; r++)
        json_array_append_new(ranks, rank_json(plan, facts, w, r));
    root = json_pack("{s:o, s:o, s:o, s:I, s:I, s:o}", "mesh",
                     mesh_json(&plan->mesh), "ranks", ranks, "tasks",
                     tasks_json(w, NULL), "data", (json_int_t)w->ndata, "edges",
                     (json_int_t)w->nedges, "bytes", moved_json(w, NULL));
    if (facts->on != NULL)
        json_object_set_new(root, "on", json_string(facts->on));
    json_object_set_new(root, "largest", largest_json(g, w));
    json_object_set_new(root, "programs",
                        programs_json(plan, g, facts->prediction));
    if (facts->prediction != NULL)
        json_object_set_new(root, "predicted",
                            predicted_json(facts->machine, facts->prediction));
    ret = json_dumpf(root, out,
                     JSON_INDENT(2) | JSON_PRESERVE_ORDER |
                         JSON_REAL_PRECISION(9));
    fputc('\n', out);
    json_decref(root);
    if (ret != 0 || fflush(out) != 0 || ferror(out))
        return dsflow_fail(err, DSFLOW_EIO, "plan: cannot be written: %m");
    return DSFLOW_OK;
}
