/* dot.h - the DOT of a graph, with more to say of its tasks. */
#ifndef DSF_GRAPH_DOT_H
#define DSF_GRAPH_DOT_H

#include <stdbool.h>
#include <dsflow/graph.h>

struct dsf_dot {
    void *user;
    bool (*shows)(void *user, uint32_t task);
    /* More lines of the label, each begun with a backslash and an n. */
    void (*label)(void *user, uint32_t task, FILE *out);
    /* Attributes, each after a comma. */
    void (*style)(void *user, uint32_t task, FILE *out);
    /* Attributes in brackets, or nothing. */
    void (*edge)(void *user, uint32_t from, uint32_t to, FILE *out);
};

/* `more` may be NULL. */
int dsf_graph_write_dot(struct dsflow_graph *g, const struct dsf_dot *more,
                        FILE *out, struct dsflow_err *err);

#endif
