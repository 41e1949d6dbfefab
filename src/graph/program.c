/* program.c - the programs of a graph, by name. */
#include "graph/program.h"

#include "base/alloc.h"
#include "graph/graph_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool dsf_program_is_name(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz"
                                  "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

    return name[0] != '\0' && name[strspn(name, letters)] == '\0';
}

int dsflow_graph_find_program(const struct dsflow_graph *g, const char *name,
                              dsflow_program *program)
{
    for (unsigned p = 0; p < g->nprograms; p++)
        if (strcmp(g->programs[p].name, name) == 0) {
            *program = (dsflow_program)p;
            return 1;
        }
    return 0;
}

dsflow_program dsflow_graph_add_program(struct dsflow_graph *g,
                                        const char *name)
{
    dsflow_program found;

    if (dsflow_graph_find_program(g, name, &found))
        return found;
    if (g->nprograms == DSFLOW_MAX_PROGRAMS) {
        dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                    "program %.60s: expected at most %d in a graph", name,
                    DSFLOW_MAX_PROGRAMS);
        return DSFLOW_MAX_PROGRAMS - 1;
    }
    if (!dsf_program_is_name(name))
        dsflow_fail(dsf_graph_fault(g), DSFLOW_EINVAL,
                    "program \"%.60s\": expected a name of letters, digits "
                    "and _",
                    name);
    g->programs =
        dsf_xrealloc(g->programs, g->nprograms + 1, sizeof(*g->programs));
    g->programs[g->nprograms] =
        (struct dsf_program){ .name = dsf_xstrdup(name) };
    return (dsflow_program)g->nprograms++;
}

unsigned dsflow_graph_nprograms(const struct dsflow_graph *g)
{
    return g->nprograms;
}

const char *dsflow_graph_program(const struct dsflow_graph *g,
                                 dsflow_program program)
{
    assert(program < g->nprograms);
    return g->programs[program].name;
}

uint32_t dsflow_graph_program_tasks(const struct dsflow_graph *g,
                                    dsflow_program program, uint32_t *first)
{
    assert(program < g->nprograms);
    *first = g->programs[program].first;
    return g->programs[program].ntasks;
}

void dsf_programs_free(struct dsflow_graph *g)
{
    for (unsigned p = 0; p < g->nprograms; p++)
        free(g->programs[p].name);
    free(g->programs);
}
