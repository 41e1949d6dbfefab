/* shares.h - where the time of workers goes: counted in one way, whoever asks. */
#ifndef DSF_TIMELINE_SHARES_H
#define DSF_TIMELINE_SHARES_H

#include <dsflow/graph.h>

#include "timeline/timeline.h"

/* What a worker does. */
enum dsf_share {
    DSF_SHARE_FORWARD,
    DSF_SHARE_BACKWARD,
    DSF_SHARE_UPDATE,
    DSF_SHARE_MOVE,
    DSF_SHARE_IDLE,
    DSF_NSHARES
};

/* Of a task; NULL: of a transfer. */
enum dsf_share dsf_share_of(const struct dsflow_task_spec *task);

/* Seconds. All zero: nothing was added. */
struct dsf_shares {
    double did[DSF_SHARE_IDLE]; /* of workers */
    double computing, moving;   /* of workers: all but the last, and the last */
    double busy;                /* of workers: both */
    double carrying; /* moving data, of workers, links and cores beside a GPU */
    double beside;   /* of links, disks and cores beside a GPU */
};

/* A span, or a part of it, on a lane. */
void dsf_shares_add(struct dsf_shares *s, enum dsf_lane_kind lane,
                    enum dsf_share what, double seconds);

/* What `from` has, too. */
void dsf_shares_join(struct dsf_shares *s, const struct dsf_shares *from);

/* The share of `all` seconds of workers in which they did nothing: 0 where a
 * task that has begun before counts with more than there are. */
double dsf_shares_idle(const struct dsf_shares *s, double all);

#endif
