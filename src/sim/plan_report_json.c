/* plan_report_json.c - a plan, its graph and what it will take, as JSON. */
#include "sim/plan_report.h"

#include "graph/shape_text.h"
#include "sim/largest.h"
#include "sim/step_kinds.h"
#include "sim/traffic_report.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

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

/* Kinds by name: {"embed.forward": 4, …}; those of a rank, or of all. */
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
                            bytes_json(dsf_weights_in(r, t)));
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

    rank = json_pack("{s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
                     "rank", (int)i, "device", gpu ? "gpu" : "cpu", "stage",
                     (int)stage, "coords", axes_json(coords.at), "peak_bytes",
                     peaks_json(r), "budget_bytes", budgets_json(facts->budget),
                     "role_bytes", roles_json(r), "tasks", tasks_json(w, r),
                     "bytes", moved_json(w, r), "traffic",
                     dsf_traffic_json(&r->traffic), "tiers", tiers_json(r));
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
        r->critical_seconds, "efficiency", r->efficiency, "workers_idle",
        r->idle, "work_seconds", r->work_seconds, "comm_seconds",
        r->comm_seconds, "comm_hidden", r->hidden, "sent_seconds",
        r->sent_seconds, "sent_hidden", r->sent_hidden, "io_seconds",
        r->io_seconds, "io_hidden", r->io_hidden, "holders", holders);
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
        json_object_set_new(
            one, "bytes",
            bytes_json(dsf_step_kind(plan, g, p, (dsflow_program)i).bytes));
        json_array_append_new(list, one);
    }
    return list;
}

/* Over the steps of the job, which may be of several kinds. */
static json_t *mean_json(const struct dsflow_plan *plan,
                         const struct dsflow_graph *g,
                         const struct dsf_prediction *p)
{
    const struct dsf_step_kind mean = dsf_step_mean(plan, g, p);
    json_t *one = json_pack("{s:I, s:f, s:f}", "steps", (json_int_t)mean.steps,
                            "tasks", mean.tasks, "bytes", mean.bytes);

    if (p != NULL && p->seconds != NULL)
        json_object_set_new(one, "seconds", json_real(mean.seconds));
    return one;
}

/* How ranks share sequences, and what is compared. */
static json_t *shares_json(const struct dsflow_plan *plan)
{
    const struct dsf_sequence_choice *s = &plan->shares;
    json_t *one = json_pack(
        "{s:s, s:b, s:f}", "kind",
        s->kind == DSF_SEQUENCE_HEADS ? "heads" : "keys", "chosen",
        (int)s->chosen, "imbalance", s->imbalance);

    json_object_set_new(one, "keys_bytes", bytes_json(s->keys));
    if (s->heads > 0)
        json_object_set_new(one, "heads_bytes", bytes_json(s->heads));
    return one;
}

/* null: not known. */
static json_t *count_json(double n)
{
    return isfinite(n) ? json_integer((json_int_t)n) : json_null();
}

static json_t *saves_json(const struct dsf_plan_saves *s)
{
    return json_pack("{s:o, s:o, s:o, s:o}", "saves", count_json(s->n), "kept",
                     count_json(s->kept), "bytes", bytes_json(s->bytes),
                     "disk_bytes", count_json(s->most * s->bytes));
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
    if (plan->nsequence > 1)
        json_object_set_new(root, "sequence", shares_json(plan));
    json_object_set_new(root, "traffic", dsf_traffic_kinds_json(w));
    if (facts->saves != NULL)
        json_object_set_new(root, "checkpoints", saves_json(facts->saves));
    if (facts->on != NULL)
        json_object_set_new(root, "on", json_string(facts->on));
    if (!facts->some)
        json_object_set_new(root, "largest", largest_json(g, w));
    if (!facts->some && plan->nprograms > 0)
        json_object_set_new(root, "mean",
                            mean_json(plan, g, facts->prediction));
    if (!facts->some)
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
