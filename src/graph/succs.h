/* succs.h - what waits for each task: in its own step, and in the next. */
#ifndef DSF_GRAPH_SUCCS_H
#define DSF_GRAPH_SUCCS_H

#include <stdbool.h>
#include <dsflow/graph.h>

/* Tasks are counted from the first of the program. */
struct dsf_succs {
    uint32_t *first, *v;           /* in the step: of task i, first[i] on */
    uint32_t *first_next, *v_next; /* in the next step */
};

/* `next`: the same tasks are submitted again, on the same data. */
void dsf_succs_init(struct dsf_succs *s, struct dsflow_graph *g, uint32_t first,
                    uint32_t ntasks, bool next);
void dsf_succs_fini(struct dsf_succs *s);

static inline const uint32_t *dsf_succs(const struct dsf_succs *s, uint32_t i,
                                        uint32_t *n)
{
    *n = s->first[i + 1] - s->first[i];
    return s->v + s->first[i];
}

static inline const uint32_t *dsf_succs_next(const struct dsf_succs *s,
                                             uint32_t i, uint32_t *n)
{
    *n = 0;
    if (s->first_next == NULL)
        return NULL;
    *n = s->first_next[i + 1] - s->first_next[i];
    return s->v_next + s->first_next[i];
}

#endif
