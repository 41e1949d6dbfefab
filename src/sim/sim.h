/* sim.h - the timeline of a graph on a machine that need not exist. */
#ifndef DSF_SIM_SIM_H
#define DSF_SIM_SIM_H

#include <stdbool.h>
#include <dsflow/graph.h>

#include "plan/division.h"
#include "timeline/bound.h"
#include "timeline/timeline.h"

/* Seconds of a task. */
typedef double (*dsf_cost_fn)(void *user, const struct dsflow_graph *g,
                              const struct dsflow_task_spec *t);

/* Ranks share `workers`: where there are at least as many workers as ranks,
 * rank r has workers w with w * nranks / workers == r; otherwise worker
 * r % workers. With `links`, tasks that move data run beside those that
 * compute, on the link of their rank, one after the other; and those with data
 * in main memory on the cores beside, likewise. With `two_way` too, workers are
 * devices that the ranks share, as an executor has them: each has a link into
 * it and one out of it, which carry what only copies, and the ranks share
 * `host_cores`. What has data on NVMe is done by the disk that the ranks of a
 * node share, in the order in which it becomes ready: reads one after the
 * other, and writes; both at the same time where it is `duplex`. Of several
 * `processes` messages (joined.h) take no worker, but the link into their
 * process or, from another node, the network into their node, in the order in
 * which they become ready. */
struct dsf_sim_spec {
    unsigned nranks, workers;
    bool links, two_way;
    unsigned host_cores; /* beside devices; 0: one for each rank */
    unsigned
        cores; /* of the machine: no more workers and cores beside devices
                  compute at a time, whoever is ready first; 0: each has one */
    unsigned node_ranks; /* of a node; 0: all */
    bool duplex;
    struct dsf_processes processes; /* n 0 or 1: one */
    const struct dsf_machine *on;   /* their nodes; NULL: one */
    /* All links of a node are one, and all of the network. */
    bool one_link, one_network;
    dsflow_program program;
    unsigned steps; /* consecutive: 1, or so many that the last but one, which
                       is reported, has others before and after it */
    dsf_cost_fn cost;
    void *user;
    double launch; /* seconds of the thread that launches what a worker does,
                      one after the other, while it does what it was given
                      before; 0: that is in the cost */
    const double *seconds; /* by task of the graph, instead of cost(); or NULL */
    /* How long a message is on its way, beside the time that it takes of its
     * link. NULL: no time. */
    dsf_cost_fn delay;
    /* Seconds of a core that a message takes of its process, and of those that
     * it comes from together. Who has no idle worker meanwhile takes as long
     * more for the task that it begins next. NULL: none. */
    dsf_cost_fn toll;
};

/* Tasks of one kind and layer on the path that decides how long the step is. */
struct dsf_holder {
    const struct dsflow_op *op;
    int layer;
    double seconds;
};
enum { DSF_NHOLDERS = 3 };

/* Of one of the steps. */
struct dsf_sim_step {
    double critical_seconds, bound_seconds; /* as below */
};

struct dsf_sim_result {
    double step_seconds;     /* from the end of the step before to its end */
    double critical_seconds; /* critical path through the graph */
    double bound_seconds;    /* no order takes less: dsf_bound_seconds */
    enum dsf_bound bound;    /* what that is */
    double efficiency;       /* bound / step */
    double idle;             /* share of the workers' time that is idle */
    double work_seconds;     /* of all tasks on workers */
    double comm_seconds;     /* of all tasks that move data, but for the disk's */
    double hidden;           /* share of it during which the rank computes */
    double sent_seconds;     /* of all messages between processes */
    double sent_hidden;      /* share of it during which the process that is
                                sent to computes */
    bool by_network;         /* the bound is a link, that of the network */
    double io_seconds;       /* of its time: disks read or write; of all */
    double io_hidden;        /* share of it during which some rank computes */
    unsigned nranks;
    double *busy;            /* by rank: seconds on workers */
    double *moving;          /* by rank: seconds of moving data */
    uint32_t *critical;      /* tasks of the critical path, in order */
    uint32_t ncritical;
    struct dsf_holder holders[DSF_NHOLDERS]; /* op NULL: no more */
    struct dsf_sim_step *steps; /* of all, where a timeline was asked for */
};

/* Ready tasks start by priority, then in the graph's order. The same graph and
 * costs give the same result. `timeline` may be NULL. Errors: DSFLOW_EINVAL
 * for a task of a rank that is not there. */
int dsf_simulate(struct dsflow_graph *g, const struct dsf_sim_spec *spec,
                 struct dsf_sim_result *result, struct dsf_timeline *timeline,
                 struct dsflow_err *err);
void dsf_sim_result_fini(struct dsf_sim_result *result);

#endif
