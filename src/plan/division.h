/* division.h - how the ranks of a job are divided among processes, and these
 * among nodes. */
#ifndef DSF_PLAN_DIVISION_H
#define DSF_PLAN_DIVISION_H

#include <stdbool.h>
#include <dsflow/graph.h>

#include "machine/machine.h"

/* `ranks` ranks are shared out among `n` processes, at most as many: each has
 * some that follow each other. */
struct dsf_processes {
    int32_t ranks, n;
    bool devices; /* ranks are on devices: messages are of main memory, and
                     what they are of is copied there and on … */
    bool direct;  /* … but where they go from GPU to GPU */
};

/* Those that a machine has for so many ranks. */
struct dsf_processes dsf_processes_of(const struct dsf_machine *machine,
                                      int32_t ranks);

/* The first rank of process `p`; of the one behind the last, `ranks`. */
int32_t dsf_process_first(const struct dsf_processes *all, int32_t p);
int32_t dsf_process_of(const struct dsf_processes *all, int32_t rank);

/* Its share of `workers`, by its ranks: one at least. */
unsigned dsf_process_workers(const struct dsf_processes *all, int32_t p,
                             unsigned workers);

/* How many of `all` workers group i of n has: each w with w * n / all == i. */
unsigned dsf_share_of_workers(unsigned all, unsigned n, unsigned i);

/* The node of a process, out of `all`. `machine` NULL: there is one. */
int32_t dsf_process_node(const struct dsf_processes *all,
                         const struct dsf_machine *machine, int32_t p);

/* The node of a rank; and of each of `ranks`, for the caller to free. */
int32_t dsf_rank_node(const struct dsf_machine *machine, int32_t ranks,
                      int32_t rank);
int32_t *dsf_rank_nodes(const struct dsf_machine *machine, int32_t ranks);

/* GPUs, of all nodes, that so many ranks are on: `machine->gpus` of each node,
 * as far as its ranks need them, and rank r on number r modulo these. */
struct dsf_gpus_used {
    unsigned n;    /* 0: the ranks are on cores */
    unsigned most; /* ranks of the one that has most */
};
struct dsf_gpus_used dsf_gpus_of(const struct dsf_machine *machine,
                                 int32_t ranks);

/* Bytes of what a task moves that it reads of other processes, and whether
 * there are any. */
double dsf_process_sent(const struct dsf_processes *all,
                        const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t);
bool dsf_process_crosses(const struct dsf_processes *all,
                         const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t);

#endif
