/* bound.h - what no order of the tasks of a step can be faster than. */
#ifndef DSF_TIMELINE_BOUND_H
#define DSF_TIMELINE_BOUND_H

#include <stdbool.h>

#include "timeline/timeline.h"

/* What it is that a step cannot be faster than. */
enum dsf_bound {
    DSF_BOUND_CRITICAL, /* the critical path through the graph */
    DSF_BOUND_WORK,     /* the work of workers */
    DSF_BOUND_LINK,     /* the use of a link */
    DSF_BOUND_HOST,     /* the work of the cores beside a GPU */
    DSF_BOUND_DISK,     /* the use of a disk that is not duplex */
    DSF_BOUND_READS,    /* of one that is: by reads, … */
    DSF_BOUND_WRITES,   /* … by writes */
    DSF_NBOUNDS
};
/* "way", "work", …: names that do not change. */
const char *dsf_bound_str(enum dsf_bound bound);

/* Lanes that have their work in common. The workers of a rank, which follow
 * each other, are a team. A worker that several ranks share is one alone, as
 * each rank keeps to its worker; so is a link. The cores beside a device are as
 * workers are. The
 * two directions of a disk work one at a time, or are two teams where it is
 * duplex. */
struct dsf_teams {
    struct dsf_team {
        enum dsf_bound kind;
        unsigned members; /* that work at the same time */
    } * v;
    unsigned n;
    uint16_t *of_lane;
    unsigned workers; /* in all */
};
void dsf_teams_init(struct dsf_teams *teams, const struct dsf_timeline *lanes,
                    bool duplex);
void dsf_teams_fini(struct dsf_teams *teams);

/* What each team has to do in a step. */
struct dsf_load {
    const struct dsf_teams *teams; /* borrowed */
    double *seconds;               /* by team */
    double workers;                /* seconds of all workers */
};
void dsf_load_init(struct dsf_load *load, const struct dsf_teams *teams);
void dsf_load_clear(struct dsf_load *load);
/* `placed`: no worker of another team could have done it. */
void dsf_load_add(struct dsf_load *load, unsigned lane, double seconds,
                  bool placed);
void dsf_load_fini(struct dsf_load *load);

/* The least time of a step of these tasks: the most of its critical path, of
 * the work of a team by its members, and of all work by all workers. */
double dsf_bound_seconds(const struct dsf_load *load, double critical,
                         enum dsf_bound *what);

/* The least time as a share of the time that a step took: 1 at most. */
static inline double dsf_efficiency(double bound, double seconds)
{
    return !(bound < seconds) && bound == bound ? 1 : bound / seconds;
}

#endif
