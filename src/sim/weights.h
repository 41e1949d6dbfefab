/* weights.h - what a graph weighs: bytes, tasks and traffic, by rank. */
#ifndef DSF_SIM_WEIGHTS_H
#define DSF_SIM_WEIGHTS_H

#include "graph/traffic.h"
#include "plan/plan.h"

struct dsf_rank_weight {
    double role_bytes[DSFLOW_NROLES]; /* on the device */
    double tier_bytes[DSFLOW_NTIERS]; /* all roles; scratch is beside them */
    double in_tier[DSFLOW_NTIERS][DSFLOW_NROLES]; /* each */
    double scratch; /* of all its workers, or its part of that of its device */
    double beside;  /* of main memory, for what goes between it and its device */
    double window;  /* of main memory, in which its process looks at what is in
                       other memories: its part */
    double peak;    /* of the device, with scratch: nothing is freed during a
                       step */
    double in[DSFLOW_NTIERS], out[DSFLOW_NTIERS]; /* bytes that a step reads
                       from a tier (swap_in), and writes to it (swap_out) */
    uint32_t *tasks;   /* of a step, by kind */
    double *moved;     /* bytes from other ranks, by kind */
    struct dsf_traffic traffic; /* of all kinds */
};

struct dsf_kind_weight {
    const struct dsflow_op *op;
    uint32_t tasks;
    double flops, moved;
    struct dsf_traffic traffic;
};

struct dsf_weights {
    unsigned nranks, nkinds;
    struct dsf_rank_weight *ranks;
    struct dsf_kind_weight *kinds; /* in the order of first appearance */
    double moved;                  /* bytes between ranks, of all kinds */
    struct dsf_traffic traffic;
    double flops;
    uint32_t ntasks, nedges;       /* of a step */
    uint32_t ndata;
};

/* What has no home, and tasks of no rank, count for rank 0. Each rank has one
 * worker, with its scratch; `node_of` as in traffic.h. */
void dsf_weights_init(struct dsf_weights *w, struct dsflow_graph *g,
                      unsigned nranks, const int32_t *node_of);
/* The same of ranks `first` to `end` - 1 of a graph that may have tasks and
 * data of others, too: those weigh nothing. */
void dsf_weights_init_some(struct dsf_weights *w, struct dsflow_graph *g,
                           unsigned nranks, const int32_t *node_of,
                           unsigned first, unsigned end);
/* Add what other ranks `first` to `end` - 1 weigh, of the same mesh. */
void dsf_weights_add_some(struct dsf_weights *w, const struct dsf_weights *of,
                          unsigned first, unsigned end);
/* Ranks `first` to `end` - 1 have `workers` workers, shared out as an executor
 * does it: each worker has scratch for the tasks of its rank, or, where there
 * are more ranks, of those that share it, of which each counts an equal part.
 */
void dsf_weights_share_workers(struct dsf_weights *w, unsigned first,
                               unsigned end, unsigned workers);
/* The rank takes `device` bytes of its device; `near` bytes of what the graph has
 * there, and `beside` bytes in all, are in main memory. */
void dsf_weights_place(struct dsf_weights *w, unsigned rank, double device,
                       double near, double beside);
/* The rank takes the memory that `of` does: what it does there is as it was. */
void dsf_weights_take(struct dsf_weights *w, unsigned rank,
                      const struct dsf_rank_weight *of);
/* The rank that needs most memory. */
unsigned dsf_weights_neediest(const struct dsf_weights *w);

/* All that a rank has in a memory, enum dsflow_tier, with scratch and a window.
 */
double dsf_weights_in(const struct dsf_rank_weight *r, int tier);
void dsf_weights_fini(struct dsf_weights *w);

#endif
