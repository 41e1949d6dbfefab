/* plan_print.c - a plan and its graph, weighed: for people, and as JSON. */
#include "plan/plan.h"

#include "base/alloc.h"
#include "base/units.h"
#include "graph/task.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

void dsf_plan_weigh(const struct dsflow_plan *plan, struct dsflow_graph *g,
                    struct dsf_weight *weight)
{
    memset(weight, 0, sizeof(*weight));
    weight->ndata = dsflow_graph_ndata(g);
    for (uint32_t i = 0; i < weight->ndata; i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(g, (dsflow_data_id){ i });

        weight->role_bytes[d->role] += (double)d->bytes;
        weight->total += (double)d->bytes;
    }
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });
        const dsflow_task_id *preds;
        double scratch = (double)dsf_task_scratch(g, t);

        if (scratch > weight->scratch)
            weight->scratch = scratch;
        if (t->phase != DSFLOW_STEP)
            continue;
        weight->ntasks++;
        weight->nedges += dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);
    }
    weight->total += weight->scratch * plan->workers;
}

/* How often each kind stands in a step, in the order of first appearance. */
struct count {
    const struct dsflow_op *op;
    uint32_t tasks;
    double flops;
};

static struct count *count_kinds(struct dsflow_graph *g, unsigned *n)
{
    struct count *counts = NULL;
    size_t cap = 0;

    *n = 0;
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });
        unsigned k = 0;

        if (t->phase != DSFLOW_STEP)
            continue;
        while (k < *n && counts[k].op != t->op)
            k++;
        if (k == *n) {
            dsf_grow(&counts, &cap, *n + 1, sizeof(*counts));
            counts[(*n)++].op = t->op;
        }
        counts[k].tasks++;
        counts[k].flops += dsf_task_cost(g, t).flops;
    }
    return counts;
}

int dsf_plan_print(const struct dsflow_plan *plan, struct dsflow_graph *g,
                   FILE *out)
{
    const struct dsf_model *model = plan->model;
    struct dsf_weight w;
    unsigned n;
    struct count *counts = count_kinds(g, &n);
    double flops = 0;

    dsf_plan_weigh(plan, g, &w);
    fprintf(out,
            "model   %s, %d layers, width %d, %d heads of %d, vocabulary %d: "
            "%.4g M parameters\n",
            model->family == DSF_GPT2 ? "gpt2" : "llama", model->layers,
            model->dims.width, model->dims.heads, model->dims.head_dim,
            model->dims.vocab, (double)model->params / 1e6);
    fprintf(out,
            "step    %d sequences of %d tokens in %d micro-batches of %d "
            "(%d in flight), %d tile%s of up to %d tokens each\n",
            plan->nmicro * plan->micro, plan->sequence, plan->nmicro,
            plan->micro, plan->slots[0], plan->ntiles,
            plan->ntiles == 1 ? "" : "s", plan->tiles[0].rows);
    fprintf(out, "workers %u\n", plan->workers);
    fprintf(out, "graph   %u tasks, %u data, %u edges\n\n", w.ntasks, w.ndata,
            w.nedges);

    fprintf(out, "%-26s %8s %12s\n", "task", "count", "GFLOP");
    for (unsigned k = 0; k < n; k++) {
        fprintf(out, "%-26s %8u %12.3f\n", counts[k].op->name,
                counts[k].tasks, counts[k].flops / 1e9);
        flops += counts[k].flops;
    }
    fprintf(out, "%-26s %8u %12.3f\n\n", "total", w.ntasks, flops / 1e9);

    fprintf(out, "%-26s %12s\n", "memory", "bytes");
    for (int r = 0; r < DSFLOW_NROLES; r++)
        fprintf(out, "%-26s %12s\n", dsflow_role_str((enum dsflow_role)r),
                dsf_size_text(w.role_bytes[r]).s);
    fprintf(out, "scratch of %-3u workers     %12s\n", plan->workers,
            dsf_size_text(w.scratch * plan->workers).s);
    fprintf(out, "%-26s %12s\n", "total", dsf_size_text(w.total).s);
    free(counts);
    return ferror(out) ? DSFLOW_EIO : DSFLOW_OK;
}

static json_t *mesh_json(void)
{
    return json_pack("{s:i, s:i, s:i, s:i, s:i}", "data", 1, "pipeline", 1,
                     "tensor", 1, "sequence", 1, "expert", 1);
}

/* Kinds by name, as in DESIGN: {"embed.forward": 4, …}. */
static json_t *tasks_json(const struct count *counts, unsigned n)
{
    json_t *tasks = json_object();

    for (unsigned k = 0; k < n; k++)
        json_object_set_new(tasks, counts[k].op->name,
                            json_integer(counts[k].tasks));
    return tasks;
}

int dsf_plan_write_json(const struct dsflow_plan *plan, struct dsflow_graph *g,
                        FILE *out, struct dsflow_err *err)
{
    struct dsf_weight w;
    unsigned n;
    struct count *counts = count_kinds(g, &n);
    json_t *roles = json_object();
    json_t *rank, *root;
    int ret;

    dsf_plan_weigh(plan, g, &w);
    for (int r = 0; r < DSFLOW_NROLES; r++)
        json_object_set_new(roles, dsflow_role_str((enum dsflow_role)r),
                            json_integer((json_int_t)w.role_bytes[r]));
    json_object_set_new(
        roles, "scratch",
        json_integer((json_int_t)(w.scratch * plan->workers)));
    rank = json_pack("{s:i, s:s, s:i, s:{s:I}, s:o, s:o}", "rank", 0, "device",
                     "cpu", "stage", 0, "peak_bytes", "cpu",
                     (json_int_t)w.total, "role_bytes", roles, "tasks",
                     tasks_json(counts, n));
    root = json_pack("{s:o, s:[o], s:o, s:I, s:I}", "mesh", mesh_json(),
                     "ranks", rank, "tasks", tasks_json(counts, n), "data",
                     (json_int_t)w.ndata, "edges", (json_int_t)w.nedges);
    ret = json_dumpf(root, out, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    fputc('\n', out);
    json_decref(root);
    free(counts);
    if (ret != 0 || fflush(out) != 0 || ferror(out))
        return dsflow_fail(err, DSFLOW_EIO, "plan: cannot be written: %m");
    return DSFLOW_OK;
}
