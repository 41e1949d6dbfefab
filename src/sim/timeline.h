/* timeline.h - when each task ran and where: of a simulation, or of a run. */
#ifndef DSF_SIM_TIMELINE_H
#define DSF_SIM_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

/* One execution of a task. */
struct dsf_span {
    double start, end; /* seconds since the timeline began */
    uint32_t task;     /* position in the graph */
    uint32_t step;     /* from 0 */
    uint16_t lane;     /* where it ran */
    int16_t rank;      /* of the task, or ANYWHERE */
};

/* Lanes are workers, then, on machines whose links work beside the devices,
 * one link for each rank. The spans of a lane are in order of time. */
struct dsf_timeline {
    struct dsf_span *v;
    size_t n, cap;
    unsigned workers, links;
};

void dsf_timeline_add(struct dsf_timeline *timeline,
                      const struct dsf_span *span);
void dsf_timeline_fini(struct dsf_timeline *timeline);

#endif
