/* sim_private.h - what the schedule of a graph, and what is read from it,
 * share.
 *
 * An *instance* is a task in one of the steps: step * ntasks + task. A *group*
 * is lanes that take the same tasks: the workers of a rank, or one that several
 * ranks share, the link of a rank, the cores beside it, a disk, or what carries
 * messages to a process or a node.
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
    bool messages, network; /* it carries messages; between nodes */
    int32_t to;             /* which process or node; below 0: several */
    unsigned most, idle;    /* that work at a time; that could begin */
    bool dirty;             /* something became ready, or idle */
};

/* What messages take of the cores of a process, and no worker has lost yet;
 * since when. */
struct owed {
    double seconds, since;
};

struct sim {
    struct dsflow_graph *g;
    const struct dsf_sim_spec *spec;
    uint32_t first, ntasks; /* of the program */
    uint32_t n;             /* instances */
    uint32_t reported;      /* step */
    struct dsf_succs edges;
    double *cost;        /* by task of the program */
    double *delay;       /* likewise; NULL: there is none */
    double *toll;        /* likewise: of a core, at each end */
    uint16_t *wire;      /* likewise: 1 + the group of a message, 0: it is none;
                            NULL: there are no messages */
    uint32_t *waits;     /* by instance: predecessors that have not ended */
    double *more;        /* by instance: what messages took of its worker; NULL:
                            they take nothing */
    struct owed *owed;   /* by process */
    bool *ahead;         /* by task of the program: what follows it is launched
                            before it ends; NULL: launches take no time */
    double *known;       /* by instance: since when it can be launched; once it
                            is, when that was */
    double *launcher;    /* by lane: when its thread has launched all so far */
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
    struct heap wanting; /* of groups, what each would begin next: those that
                            wait for a core, and some that do no more */
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
    struct heap flying;  /* messages on their way, by when they arrive */
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

/* When the lane of an instance that has begun is free, and when it ends. */
static inline double dsf_sim_free(const struct sim *s, uint32_t x)
{
    return s->start[x] + s->cost[dsf_sim_of(s, x)] +
           (s->more != NULL ? s->more[x] : 0);
}

static inline double dsf_sim_end(const struct sim *s, uint32_t x)
{
    return dsf_sim_free(s, x) +
           (s->delay != NULL ? s->delay[dsf_sim_of(s, x)] : 0);
}

static inline bool dsf_sim_is_message(const struct sim *s, uint32_t x)
{
    return s->wire != NULL && s->wire[dsf_sim_of(s, x)] > 0;
}

/* The task of an instance. */
const struct dsflow_task_spec *dsf_sim_task(const struct sim *s,
                                            uint32_t instance);

/* sim_lanes.c: how many lanes there are of each sort, in `nworking` and its
 * like; where there are too many, DSFLOW_EINVAL. Then their groups. */
int dsf_sim_count_lanes(struct sim *s, struct dsflow_err *err);
void dsf_sim_make_groups(struct sim *s);
/* One more group, of so many lanes. */
struct group *dsf_sim_add_group(struct sim *s, enum dsf_bound kind,
                                unsigned nlanes);
/* On what a task runs that is no message; and which group has an instance. */
enum dsf_bound dsf_sim_place_of(const struct sim *s,
                                const struct dsflow_task_spec *t);
unsigned dsf_sim_group_of(const struct sim *s, uint32_t x);

/* sim_messages.c: what carries messages between processes, a group for each
 * that carries any; and how long they are on their way. */
void dsf_sim_add_wires(struct sim *s);
/* A message begins: what it takes of cores is owed. A worker begins a task that
 * it was free for since `idle`: what it has lost by then, or loses now. */
void dsf_sim_owe(struct sim *s, uint32_t x);
void dsf_sim_pay(struct sim *s, uint32_t x, double idle);
void dsf_sim_name_wire(const struct group *group, char *name, size_t size);

/* sim_launch.c: which tasks are launched ahead, once there are lanes; that `x`
 * is over, to one that follows; and when one that its lane takes can begin. */
void dsf_sim_find_ahead(struct sim *s);
void dsf_sim_tell(struct sim *s, uint32_t x, uint32_t next);
double dsf_sim_launch(struct sim *s, unsigned lane, uint32_t x);

/* sim_measure.c: what a schedule that is complete says. `timeline` may be
 * NULL. */
void dsf_sim_measure(struct sim *s, struct dsf_sim_result *result,
                     struct dsf_timeline *timeline);

#endif
