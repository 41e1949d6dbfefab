/* dot.c - a graph for Graphviz: same graph, same bytes. */
#include "graph/dot.h"

#include "base/alloc.h"
#include "graph/shape_text.h"
#include "graph/task.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Round: between ranks, or memories; a drum: to or from a disk. */
static const char *shape_of(const struct dsflow_graph *g,
                            const struct dsflow_task_spec *t)
{
    if (dsf_task_uses(g, t, DSFLOW_NVME))
        return ", shape=cylinder";
    return t->op->comm || t->op->swaps ? ", shape=ellipse" : "";
}

/* Colours are of the pass, and of the two directions of swaps, and differ for
 * colour-blind eyes too. */
static const char *colour_of(const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    static const char *const colours[] = { [DSFLOW_FORWARD] = "#cfe3f7",
                                           [DSFLOW_BACKWARD] = "#fbdcb8",
                                           [DSFLOW_UPDATE] = "#e6e6e6" };

    if (t->op->swaps)
        return dsf_task_brings(g, t) ? "#d9c8e8" : "#a98bc6";
    return colours[t->pass];
}

/* What a task is for: the first of its data that it writes. */
static const struct dsflow_data_spec *
result_of(const struct dsflow_graph *g, const struct dsflow_task_spec *t)
{
    for (uint32_t p = 0; p < t->ndata; p++)
        if (dsflow_task_access(t, p) & DSFLOW_W)
            return dsflow_graph_data(g, t->data[p]);
    return NULL;
}

/* "mlp.forward", where it is: "layer 3 tile 1", and what it writes. */
static void write_task(const struct dsflow_graph *g, uint32_t i,
                       const struct dsf_dot *more, FILE *out)
{
    const struct dsflow_task_spec *t =
        dsflow_graph_task(g, (dsflow_task_id){ i });
    const struct dsflow_data_spec *result = result_of(g, t);

    fprintf(out, "    t%u [label=\"%s", i, t->op->name);
    if (t->layer >= 0)
        fprintf(out, "\\nlayer %d", t->layer);
    if (t->tile >= 0)
        fprintf(out, " tile %d", t->tile);
    if (result != NULL)
        fprintf(out, "\\n%s", dsf_shape_text(result).s);
    if (more != NULL) {
        more->label(more->user, i, out);
        fputc('"', out);
        more->style(more->user, i, out);
    } else
        fprintf(out, "\", fillcolor=\"%s\"", colour_of(g, t));
    fputs(shape_of(g, t), out);
    if (t->priority != 0)
        fprintf(out, ", tooltip=\"priority %d\"", (int)t->priority);
    fprintf(out, "];\n");
}

static bool is_shown(const struct dsf_dot *more, uint32_t i)
{
    return more == NULL || more->shows(more->user, i);
}

static const struct dsflow_task_spec *task_at(struct dsflow_graph *g,
                                              uint32_t i)
{
    return dsflow_graph_task(g, (dsflow_task_id){ i });
}

/* By program, rank, micro-batch, and their order in the graph. */
static int by_cluster(const void *a, const void *b, void *graph)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    const struct dsflow_task_spec *x = task_at(graph, i);
    const struct dsflow_task_spec *y = task_at(graph, j);

    if (x->program != y->program)
        return x->program < y->program ? -1 : 1;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->microbatch != y->microbatch)
        return x->microbatch < y->microbatch ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* The tasks of one micro-batch on one rank in a box of their own, in that of
 * the rank. */
static void write_clusters(struct dsflow_graph *g, const struct dsf_dot *more,
                           FILE *out)
{
    uint32_t all = dsflow_graph_ntasks(g), n = 0;
    uint32_t *order = dsf_xcalloc(all + 1, sizeof(*order));

    for (uint32_t i = 0; i < all; i++)
        if (is_shown(more, i))
            order[n++] = i;
    qsort_r(order, n, sizeof(*order), by_cluster, g);
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t = task_at(g, order[i]);
        const struct dsflow_task_spec *before =
            i > 0 ? task_at(g, order[i - 1]) : NULL;
        const struct dsflow_task_spec *after =
            i + 1 < n ? task_at(g, order[i + 1]) : NULL;
        bool new_rank = before == NULL || before->program != t->program ||
                        before->rank != t->rank;
        bool end_rank = after == NULL || after->program != t->program ||
                        after->rank != t->rank;
        const char *program = dsflow_graph_program(g, t->program);

        if (new_rank && t->rank >= 0)
            fprintf(out,
                    "  subgraph cluster_%s_r%d {\n"
                    "    label=\"%s, rank %d\";\n",
                    program, t->rank, program, t->rank);
        if (t->microbatch >= 0 &&
            (new_rank || before->microbatch != t->microbatch))
            fprintf(out,
                    "  subgraph cluster_%s_r%d_m%d {\n"
                    "    label=\"%s, micro-batch %d\";\n",
                    program, t->rank < 0 ? 0 : t->rank, t->microbatch, program,
                    t->microbatch);
        write_task(g, order[i], more, out);
        if (t->microbatch >= 0 &&
            (end_rank || after->microbatch != t->microbatch))
            fprintf(out, "  }\n");
        if (end_rank && t->rank >= 0)
            fprintf(out, "  }\n");
    }
    free(order);
}

int dsf_graph_write_dot(struct dsflow_graph *g, const struct dsf_dot *more,
                        FILE *out, struct dsflow_err *err)
{
    fprintf(out,
            "digraph step {\n"
            "  node [shape=box, style=filled, fontname=\"sans-serif\"];\n");
    write_clusters(g, more, out);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(g); i++) {
        const dsflow_task_id *preds;
        uint32_t n = dsflow_graph_preds(g, (dsflow_task_id){ i }, &preds);

        for (uint32_t k = 0; k < n && is_shown(more, i); k++) {
            if (!is_shown(more, preds[k].i))
                continue;
            fprintf(out, "  t%u -> t%u", preds[k].i, i);
            if (more != NULL)
                more->edge(more->user, preds[k].i, i, out);
            fputs(";\n", out);
        }
    }
    fprintf(out, "}\n");
    if (fflush(out) != 0 || ferror(out))
        return dsflow_fail(err, DSFLOW_EIO, "graph: cannot be written: %s",
                           strerror(errno));
    return DSFLOW_OK;
}

int dsflow_graph_write_dot(struct dsflow_graph *g, FILE *out,
                           struct dsflow_err *err)
{
    return dsf_graph_write_dot(g, NULL, out, err);
}
