/* trace.c - what goes with a timeline. */
#include "trace/trace.h"

#include "base/alloc.h"
#include "graph/task.h"
#include "trace/trace_private.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool dsf_trace_is_step(const struct dsf_trace *trace,
                       const struct dsf_span *span)
{
    dsflow_program program;

    if (span->kind != DSF_SPAN_TASK)
        return false;
    program = dsflow_graph_task(trace->graph, (dsflow_task_id){ span->what })
                  ->program;
    return program == DSFLOW_STEP || trace->facts.steps >> program & 1;
}

long long dsf_trace_step_of(const struct dsf_trace *trace,
                            const struct dsf_span *span)
{
    return dsf_trace_is_step(trace, span) ? trace->facts.first + span->step : 0;
}

void dsf_trace_weigh(struct dsf_trace *trace, const int32_t *node_of)
{
    uint32_t n = dsflow_graph_ntasks(trace->graph);

    free(trace->tasks);
    trace->tasks = dsf_xcalloc((size_t)n + 1, sizeof(*trace->tasks));
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(trace->graph, (dsflow_task_id){ i });
        struct dsflow_cost cost = dsf_task_cost(trace->graph, t);

        trace->tasks[i] = (struct dsf_trace_task){
            cost.flops, cost.bytes, dsf_traffic_of(trace->graph, t, node_of), -1
        };
    }
}

static const struct dsf_trace_axis *find(const struct dsf_trace_facts *facts,
                                         const char *axis)
{
    for (unsigned i = 0; i < facts->naxes; i++)
        if (strcmp(facts->axes[i].name, axis) == 0)
            return &facts->axes[i];
    return NULL;
}

unsigned dsf_trace_axis(const struct dsf_trace_facts *facts, const char *axis)
{
    const struct dsf_trace_axis *found = find(facts, axis);

    return found != NULL ? found->size : 1;
}

unsigned dsf_trace_coord(const struct dsf_trace_facts *facts, unsigned rank,
                         const char *axis)
{
    const struct dsf_trace_axis *found = find(facts, axis);

    return found != NULL ? rank / found->stride % found->size : 0;
}

struct dsf_rank_text dsf_trace_rank_text(const struct dsf_trace_facts *facts,
                                         unsigned rank)
{
    struct dsf_rank_text text;
    size_t n =
        (size_t)snprintf(text.s, sizeof(text.s), "rank %u", rank);
    unsigned several = 0, said = 0;

    for (unsigned i = 0; i < facts->naxes; i++)
        several += facts->axes[i].size > 1;
    for (unsigned i = 0; i < facts->naxes && several > 1; i++) {
        const struct dsf_trace_axis *a = &facts->axes[i];

        if (a->size > 1 && n < sizeof(text.s))
            n += (size_t)snprintf(text.s + n, sizeof(text.s) - n, "%s%s %u%s",
                                  said == 0 ? " (" : " ", a->name,
                                  rank / a->stride % a->size,
                                  said + 1 == several ? ")" : "");
        said += a->size > 1;
    }
    return text;
}

void dsf_trace_mesh_text(const struct dsf_trace_facts *facts, char *text,
                         size_t size)
{
    size_t n = 0;

    text[0] = '\0';
    for (unsigned i = 0; i < facts->naxes && n < size; i++)
        n += (size_t)snprintf(text + n, size - n, "%s%s %u", i > 0 ? " x " : "",
                              facts->axes[i].name, facts->axes[i].size);
}

void dsf_laps_add(struct dsf_laps *laps, unsigned step,
                  const struct dsf_lap *lap)
{
    if (laps->n == 0)
        laps->first = step;
    laps->v = dsf_xrealloc(laps->v, (size_t)step + 1, sizeof(*laps->v));
    for (; laps->n < step; laps->n++)
        laps->v[laps->n] = (struct dsf_lap){ .ran = false };
    laps->v[step] = *lap;
    laps->n = step + 1;
}

void dsf_laps_fini(struct dsf_laps *laps)
{
    free(laps->v);
    memset(laps, 0, sizeof(*laps));
}

void dsf_trace_fini(struct dsf_trace *trace)
{
    struct dsf_trace_ops *ops = trace->ops;

    if (ops != NULL) {
        dsflow_graph_free(trace->graph);
        for (unsigned i = 0; i < ops->n; i++) {
            free((char *)ops->v[i].name);
            free((char *)ops->v[i].segment);
            for (unsigned p = 0; p < ops->v[i].nports; p++)
                free((char *)ops->v[i].ports[p].name);
            free((struct dsflow_port *)ops->v[i].ports);
        }
        for (unsigned i = 0; i < ops->nrings; i++)
            free(ops->rings[i]);
        free(ops->rings);
        free(ops->v);
        free(ops);
    }
    free(trace->facts.name);
    free(trace->facts.job);
    free(trace->facts.machine);
    free(trace->facts.rates);
    free(trace->facts.executor);
    free(trace->tasks);
    dsf_timeline_fini(&trace->timeline);
    dsf_laps_fini(&trace->laps);
    memset(trace, 0, sizeof(*trace));
}
