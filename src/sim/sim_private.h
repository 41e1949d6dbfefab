/* sim_private.h - what the schedule of a graph, and what is read from it,
 * share.
 *
 * An *instance* is a task in one of the steps: step * ntasks + task. A *group*
 * is lanes that take the same tasks: the workers of a rank, or one that several
 * ranks share, the link of a rank, the cores beside it, or a disk.
 */
#ifndef DSF_SIM_SIM_PRIVATE_H
#define DSF_SIM_SIM_PRIVATE_H

#include "graph/succs.h"
#include "sim/sim.h"

#define NONE UINT32_MAX

struct heap {
    uint32_t *v;
    size_t n, cap;
};

struct group {
    struct heap ready;
    enum dsf_bound kind;    /* WORK, LINK, HOST, or one of a disk's */
    unsigned first, nlanes; /* of lanes */
    unsigned most, idle;    /* that work at a time; that could begin */
    bool dirty;             /* something became ready, or idle */
};

struct sim {
    struct dsflow_graph *g;
    const struct dsf_sim_spec *spec;
    uint32_t first, ntasks; /* of the program */
    uint32_t n;             /* instances */
    uint32_t reported;      /* step */
    struct dsf_succs edges;
    double *cost;        /* by task of the program */
    uint32_t *waits;     /* by instance: predecessors that have not ended */
    double *start;       /* by instance; until it begins, when it is ready */
    uint32_t *blocker; /* by instance: what it started right after */

    struct group *groups;
    unsigned ngroups, nworking;   /* the first ones are workers */
    unsigned links, hosts, disks; /* the first group of each */
    unsigned nlinks, nhosts, ndisks;
    bool crowded;       /* there are fewer cores than lanes that compute */
    unsigned computing; /* lanes that have a core */
    uint16_t *group_of; /* by lane */
    struct heap anywhere;
    uint32_t *last_on; /* by lane: the last instance */
    bool *busy;        /* by lane */
    unsigned nlanes;
    uint16_t *lane; /* by instance */

    unsigned *dirty; /* groups */
    unsigned ndirty;
    struct heap instant; /* ready instances that take no time: a stack */
    uint32_t *order;     /* instances as they began */
    uint32_t nbegun;
    struct heap running; /* lanes, by the end of what they run */
    uint32_t *runs;      /* by lane: what it runs */
    double *until;       /* by lane: when that ends */
    double now;
};

/* Which task of the program an instance is of. There are few steps, and this is
 * asked often: a division takes longer. */
static inline uint32_t dsf_sim_of(const struct sim *s, uint32_t x)
{
    while (x >= s->ntasks)
        x -= s->ntasks;
    return x;
}

/* When an instance ends that has begun. */
static inline double dsf_sim_end(const struct sim *s, uint32_t x)
{
    return s->start[x] + s->cost[dsf_sim_of(s, x)];
}

/* The task of an instance. */
const struct dsflow_task_spec *dsf_sim_task(const struct sim *s,
                                            uint32_t instance);

/* Where a task runs: on a worker, unless it moves data or is of the host; and
 * its group. */
enum dsf_bound dsf_sim_place(const struct sim *s,
                             const struct dsflow_task_spec *t);
unsigned dsf_sim_group(const struct sim *s, const struct dsflow_task_spec *t);

/* sim_measure.c: what a schedule that is complete says. `timeline` may be
 * NULL. */
void dsf_sim_measure(struct sim *s, struct dsf_sim_result *result,
                     struct dsf_timeline *timeline);

#endif
