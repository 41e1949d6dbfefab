/* asked.h - a graph of which only some tasks are made, as one of several
 * processes needs them. */
#ifndef DSF_GRAPH_ASKED_H
#define DSF_GRAPH_ASKED_H

#include <stdbool.h>
#include <dsflow/graph.h>

/* Which tasks are left out of a graph while a policy emits them. All of its
 * data is there. Its tasks are on lanes, which see only what was written on
 * them: those of one micro-batch on the lane of it, and all others on one that
 * sees everything. */
struct dsf_asked {
    uint8_t *tasks;        /* of the graph before: is it asked for? */
    int32_t *lanes;        /* by micro-batch, 0 to … */
    int32_t nlanes;        /* … so many, the last one that sees everything */
    bool leaves_out;       /* tasks that are added now */
    uint32_t reach;        /* what is by data has so many */
    uint8_t *used;         /* by data: how, says asked.c */
    dsflow_data_id *order; /* as it was first used, by any task */
    size_t cap_used, cap_order, norder;
    uint8_t *gone; /* by data and lane: who wrote it is left out */
    size_t cap_gone;
    struct dsf_asked_port { /* that reads what is gone, in order */
        uint32_t task, port;
        uint32_t moved; /* the task in the next graph */
    } * missing;
    size_t nmissing, cap_missing, at, nmoved;
};

/* From now on, tasks that are added to `g` are left out if task `i` of the
 * graph before is not asked for. */
void dsf_asked_follow(struct dsflow_graph *g, uint32_t i);

/* Are tasks that are added to `g` now left out? To say what such a task uses is
 * then as good as to add it, and sooner done: each piece of data in the order
 * of its ports, and whether the task is the first to write it. */
bool dsf_asked_leaves_out(const struct dsflow_graph *g);
void dsf_asked_pass(struct dsflow_graph *g, int32_t microbatch,
                    dsflow_data_id id, bool anew);

/* Is data[i] of the task what was written by a task that was left out? To be
 * asked of tasks in order. */
bool dsf_asked_misses(struct dsflow_graph *g, uint32_t task, unsigned i);

/* The data that tasks of `g` use, as it was first used by any task, also by
 * those that were left out; from *at = 0 on. NULL at the end, and where all
 * tasks are there. */
const dsflow_data_id *dsf_asked_used(const struct dsflow_graph *g,
                                     uint32_t *at);

/* For a policy that makes `out` of such a graph, with its data in the same
 * order and other tasks between its own: the last task of `out` is task `i` of
 * `in`; and from then on `out` is the graph of which tasks are left out. */
void dsf_asked_moved(const struct dsflow_graph *in,
                     const struct dsflow_graph *out, uint32_t i);
void dsf_asked_go_on(struct dsflow_graph *in, struct dsflow_graph *out);

void dsf_asked_set(struct dsflow_graph *g, struct dsf_asked *asked);
void dsf_asked_fini(struct dsf_asked *asked);

/* graph.c: whether the task is left out. */
bool dsf_asked_add(struct dsflow_graph *g, const struct dsflow_task_spec *t);

#endif
