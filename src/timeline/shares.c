/* shares.c - where the time of workers goes. */
#include "timeline/shares.h"

#include "timeline/hidden.h"

enum dsf_share dsf_share_of(const struct dsflow_task_spec *task)
{
    if (task == NULL || dsf_task_carries(task))
        return DSF_SHARE_MOVE;
    return task->pass == DSFLOW_UPDATE     ? DSF_SHARE_UPDATE
           : task->pass == DSFLOW_BACKWARD ? DSF_SHARE_BACKWARD
                                           : DSF_SHARE_FORWARD;
}

void dsf_shares_add(struct dsf_shares *s, enum dsf_lane_kind lane,
                    enum dsf_share what, double seconds)
{
    if (what == DSF_SHARE_MOVE && lane != DSF_LANE_DISK)
        s->carrying += seconds;
    if (lane != DSF_LANE_WORKER) {
        s->beside += seconds;
        return;
    }
    s->did[what] += seconds;
    *(what == DSF_SHARE_MOVE ? &s->moving : &s->computing) += seconds;
    s->busy += seconds;
}

void dsf_shares_join(struct dsf_shares *s, const struct dsf_shares *from)
{
    for (int k = 0; k < DSF_SHARE_IDLE; k++)
        s->did[k] += from->did[k];
    s->computing += from->computing;
    s->moving += from->moving;
    s->busy += from->busy;
    s->carrying += from->carrying;
    s->beside += from->beside;
}

double dsf_shares_idle(const struct dsf_shares *s, double all)
{
    return all > s->busy ? 1 - s->busy / all : 0;
}
