/* account.h - where the time of the steps of a trace went. */
#ifndef DSF_EXPLAIN_ACCOUNT_H
#define DSF_EXPLAIN_ACCOUNT_H

#include "graph/edges.h"
#include "sim/weights.h"
#include "explain/executed.h"
#include "timeline/hidden.h"
#include "timeline/shares.h"
#include "trace/steps.h"

/* Why a worker does nothing: what the task that it runs next waits for. */
enum dsf_cause {
    DSF_CAUSE_DATA,     /* that a task of its own rank computes */
    DSF_CAUSE_RANK,     /* that a task of another rank computes */
    DSF_CAUSE_SLOT,     /* a buffer that it writes, and that is in use */
    DSF_CAUSE_TRANSFER, /* data that is under way */
    DSF_CAUSE_RUNTIME,  /* nothing: it is ready */
    DSF_CAUSE_END,      /* there is no next task in the trace */
    DSF_NCAUSES
};
/* "data", "rank", …: names that do not change. */
const char *dsf_cause_str(enum dsf_cause cause);

/* Idle time of the workers of a rank, by what they waited for. */
struct dsf_wait {
    int rank;
    enum dsf_cause cause;
    const char *what; /* the ring, or the kind of task waited for; NULL: that
                         of cause says it all */
    bool ring;        /* `what` is the key that sizes a ring */
    int from;         /* rank of the task waited for, or ANYWHERE */
    double seconds;
};

struct dsf_kind_use {
    const struct dsflow_op *op; /* NULL: transfers */
    uint32_t count;             /* in the steps that count */
    double seconds;             /* of them */
    double on_workers;          /* of that; else on links, disks, … */
    double predicted;           /* seconds of the same; < 0: not known */
    uint32_t all;               /* in the whole trace, whatever the program */
    double all_seconds;
    struct dsf_traffic traffic; /* in the steps that count */
};

struct dsf_rank_use {
    double workers; /* those of its own; of those that it shares, its part */
    struct dsf_shares did;
    double idle[DSF_NCAUSES]; /* of workers, by what they waited for */
};

/* Tasks of one kind and layer on the path that the step took. */
struct dsf_stretch {
    const struct dsflow_op *op;
    int layer;
    uint32_t count;
    double seconds;
};

/* What tasks waited for a slot after all else that they need was there. */
struct dsf_ring_delay {
    const char *ring;
    int rank;
    uint32_t tasks;
    double seconds;
};

struct dsf_account {
    const struct dsf_trace *trace; /* borrowed */
    struct dsf_edges edges;
    struct dsf_executed steps;
    unsigned nsteps; /* that count: what follows is of all of them */
    double seconds;  /* from their start to their end */
    double unsent[DSF_NWIRES]; /* bytes that messages left behind (add_rows) */
    bool links;      /* tasks run on links */

    struct dsf_rank_use *ranks, all;
    unsigned nranks;
    double *busy;                /* by lane */
    const struct dsf_lane *link; /* the busiest that is longer at work than any
                                    worker; NULL: none is */
    double link_seconds;         /* of it */
    struct dsf_kind_use *kinds;
    unsigned nkinds;
    size_t cap_kinds;
    struct dsf_wait *waits; /* longest first */
    size_t nwaits, cap_waits;
    struct dsf_ring_delay *rings; /* longest first */
    size_t nrings, cap_rings;

    struct dsf_hidden hidden;
    double bubble;            /* share of the workers' time that a stage waits
                                 for another */
    double queued;            /* seconds that tasks waited for a busy worker */
    uint32_t nqueued;         /* tasks that did */

    struct dsf_lap_sum laps; /* how near its steps came to the least time */
    double simulated;       /* seconds of a step in the order that the
                               simulator would take */

    uint32_t step;            /* that the path is of */
    double path_seconds;      /* of it */
    struct dsf_stretch *path; /* longest first */
    size_t npath, cap_path;
    double path_gaps[DSF_NCAUSES]; /* between its tasks */
};

/* Errors: DSFLOW_EINVAL for a trace without a whole step, or of more ranks
 * than it says. */
int dsf_account_init(struct dsf_account *a, const struct dsf_trace *trace,
                     struct dsflow_err *err);
void dsf_account_fini(struct dsf_account *a);

/* The bytes that kinds of task read of other ranks in a step; all else in `w`
 * is 0. For dsf_weights_fini. */
void dsf_account_traffic(const struct dsf_account *a, struct dsf_weights *w);

/* Seconds as a share of the time of all workers. */
double dsf_account_share(const struct dsf_account *a, double seconds);

/* The pipeline stage of a rank. */
int dsf_account_stage(const struct dsf_account *a, int rank);

#endif
