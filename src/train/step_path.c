/* step_path.c - the critical path of the steps of a program, in a run. */
#include "train/step_path.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "sim/joined.h"
#include "timeline/critical.h"

#include <stdlib.h>
#include <string.h>

/* Of the tasks that there are for one of the graph, the last is that. */
static bool is_message(const struct dsf_joined *j, uint32_t i)
{
    return i + 1 < dsflow_graph_ntasks(j->graph) && j->of[i + 1] == j->of[i];
}

static void find_messages(struct dsf_step_path *p, const struct dsflow_graph *g,
                          const struct dsf_joined *j)
{
    p->of = dsf_xcalloc((size_t)p->n + 1, sizeof(*p->of));
    p->message = dsf_xcalloc((size_t)p->n + 1, sizeof(*p->message));
    p->took = dsf_xcalloc((size_t)p->n + 1, sizeof(*p->took));
    for (uint32_t i = 0; i < p->n; i++) {
        const uint32_t of = j->of[p->first + i];
        const struct dsflow_task_spec *t = dsf_nth_task(g, of);

        p->message[i] = is_message(j, p->first + i);
        p->of[i] = p->message[i] ? t->data[dsf_task_makes(t)].i : of;
    }
}

static void init(struct dsf_step_path *p, struct dsflow_graph *g,
                 dsflow_program program, const struct dsf_joined *j)
{
    struct dsflow_graph *with = j->graph != NULL ? j->graph : g;

    p->n = dsflow_graph_program_tasks(with, program, &p->first);
    dsf_succs_init(&p->edges, with, p->first, p->n, true);
    if (j->graph != NULL)
        find_messages(p, g, j);
}

void dsf_step_paths_init(struct dsf_step_path *paths, const bool *wanted,
                         const struct dsf_processes *all,
                         struct dsflow_graph *g)
{
    struct dsf_joined joined = { .graph = NULL };

    if (all->n > 1)
        dsf_joined_init(&joined, all, g);
    for (unsigned p = 0; p < dsflow_graph_nprograms(g); p++)
        if (wanted[p])
            init(&paths[p], g, (dsflow_program)p, &joined);
    dsf_joined_fini(&joined);
}

void dsf_step_paths_fini(struct dsf_step_path *paths, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        dsf_succs_fini(&paths[i].edges);
        free(paths[i].of);
        free(paths[i].message);
        free(paths[i].took);
    }
}

double dsf_step_path_seconds(struct dsf_step_path *p, const double *seconds,
                             const double *came)
{
    enum { MIDDLE = 1 };

    if (p->message == NULL)
        return dsf_critical(&p->edges, seconds + p->first, p->n, MIDDLE, NULL,
                            NULL);
    for (uint32_t i = 0; i < p->n; i++)
        p->took[i] = (p->message[i] ? came : seconds)[p->of[i]];
    return dsf_critical(&p->edges, p->took, p->n, MIDDLE, NULL, NULL);
}
