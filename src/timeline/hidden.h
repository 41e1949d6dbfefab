/* hidden.h - how much of the moving of data goes on while its rank computes,
 * and of what disks do while any rank does. */
#ifndef DSF_TIMELINE_HIDDEN_H
#define DSF_TIMELINE_HIDDEN_H

#include <stdbool.h>
#include <dsflow/graph.h>

#include "timeline/cover.h"

/* Does a task carry data, and compute nothing? */
static inline bool dsf_task_carries(const struct dsflow_task_spec *t)
{
    return t->op->comm || t->op->swaps;
}

/* Does a worker compute while it does the task, so that what its process is
 * sent meanwhile is hidden? To add up what came is work that is there without
 * processes, too. */
static inline bool dsf_task_hides(const struct dsflow_task_spec *t)
{
    return !dsf_task_carries(t) || t->op->comm == DSFLOW_COMM_REDUCE;
}

/* Seconds. */
struct dsf_hidden {
    double comm, comm_hidden; /* of moving data, and of that, during which its
                                 rank computes */
    double io, io_hidden;     /* during which disks work, of all, and of that,
                                 during which some rank computes */
    double io_most;           /* of the busiest disk */
};

struct dsf_hiding {
    unsigned nranks, ndisks;
    double start, end;       /* of the steps that are asked for */
    struct dsf_cover *work;  /* by rank: computes; nranks: some rank does */
    struct dsf_cover *disks; /* by disk: both directions at once count once */
    uint16_t *disk_of;       /* by lane: + 1; 0: no disk */
    struct dsf_hidden sum;
};

/* Of steps that take the time from `start` to `end`. */
void dsf_hiding_init(struct dsf_hiding *h, const struct dsf_timeline *lanes,
                     unsigned nranks, double start, double end);
/* First all that computes, then all that moves data, both in order of start and
 * whichever step it is of. A rank below 0 is none: all of them hide what it
 * moves. */
void dsf_hiding_work(struct dsf_hiding *h, int rank,
                     const struct dsf_span *span);
/* `counts`: it is moved for a step that is asked for. All of that counts, also
 * what is late. But of disks, what they do between start and end: where one
 * reads for a step while it writes for the step before, neither has that time
 * for itself. */
void dsf_hiding_move(struct dsf_hiding *h, int rank,
                     const struct dsf_span *span, bool counts);
/* It is not known for which step: the part between start and end counts. */
void dsf_hiding_part(struct dsf_hiding *h, int rank,
                     const struct dsf_span *span);
/* What came of it, and the end of `h`. */
struct dsf_hidden dsf_hiding_end(struct dsf_hiding *h);

#endif
