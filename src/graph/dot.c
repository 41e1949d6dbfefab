/* dot.c - a graph for Graphviz: same graph, same bytes. */
#include <dsflow/graph.h>

#include "base/units.h"

#include <errno.h>
#include <string.h>

static const char *phase_name(unsigned phase)
{
    static const char *const names[DSFLOW_NPHASES] = { "step", "eval" };

    return names[phase];
}

/* "mlp.forward" and where it is: "layer 3, micro 0, tile 1". */
static void write_task(const struct dsflow_graph *g, uint32_t i, FILE *out)
{
    const struct dsflow_task_spec *t =
        dsflow_graph_task(g, (dsflow_task_id){ i });

    fprintf(out, "    t%u [label=\"%s", i, t->op->name);
    if (t->layer >= 0)
        fprintf(out, "\\nlayer %d", t->layer);
    if (t->tile >= 0)
        fprintf(out, " tile %d", t->tile);
    fprintf(out, "\"");
    if (t->priority != 0)
        fprintf(out, ", tooltip=\"priority %d\"", (int)t->priority);
    fprintf(out, "];\n");
}

/* The tasks of one micro-batch of one phase, in a box of their own. */
static void write_cluster(const struct dsflow_graph *g, unsigned phase,
                          int microbatch, FILE *out)
{
    int open = 0;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        if (t->phase != phase || t->microbatch != microbatch)
            continue;
        if (!open && microbatch >= 0)
            fprintf(out,
                    "  subgraph cluster_%s_%d {\n"
                    "    label=\"%s, micro-batch %d\";\n",
                    phase_name(phase), microbatch, phase_name(phase),
                    microbatch);
        open = 1;
        write_task(g, i, out);
    }
    if (open && microbatch >= 0)
        fprintf(out, "  }\n");
}

int dsflow_graph_write_dot(struct dsflow_graph *g, FILE *out,
                           struct dsflow_err *err)
{
    int last[DSFLOW_NPHASES];

    memset(last, -1, sizeof(last));
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        if (t->microbatch > last[t->phase])
            last[t->phase] = t->microbatch;
    }

    fprintf(out, "digraph step {\n"
                 "  node [shape=box, fontname=\"sans-serif\"];\n");
    for (unsigned phase = 0; phase < DSFLOW_NPHASES; phase++)
        for (int m = -1; m <= last[phase]; m++)
            write_cluster(g, phase, m, out);

    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const dsflow_task_id *preds;
        uint32_t n = dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);

        for (uint32_t k = 0; k < n; k++)
            fprintf(out, "  t%u -> t%u;\n", preds[k].i, i);
    }
    fprintf(out, "}\n");
    if (fflush(out) != 0 || ferror(out))
        return dsflow_fail(err, DSFLOW_EIO, "graph: cannot be written: %s",
                           strerror(errno));
    return DSFLOW_OK;
}
