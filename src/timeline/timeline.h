/* timeline.h - when each task ran and where: of a simulation, or of a run. */
#ifndef DSF_TIMELINE_TIMELINE_H
#define DSF_TIMELINE_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

enum dsf_span_kind {
    DSF_SPAN_TASK,    /* `what` is a task of the graph */
    DSF_SPAN_TRANSFER /* `what` is a piece of data, copied between memories */
};

/* One execution of a task, or one transfer. */
struct dsf_span {
    double start, end; /* seconds since the timeline began */
    uint32_t what;     /* position in the graph */
    uint32_t step;     /* executions of the same task before this one; in a
                          trace, the step (see dsf_trace_is_step) */
    uint16_t lane;     /* where it ran */
    int16_t rank;      /* of the task, home of the data, or ANYWHERE */
    uint8_t kind;      /* enum dsf_span_kind */
    uint8_t out, between; /* of a message: 1 where it goes out; 1 where it is
                             between nodes */
    uint8_t program;      /* of a message: of its task, of which `step` is */
    uint64_t unsent; /* of a message between processes: bytes of what it is of
                        that did not go, as nothing stood there */
};

enum dsf_lane_kind {
    DSF_LANE_WORKER, /* a core, a GPU or a virtual device: runs tasks */
    DSF_LANE_LINK,   /* between two memories, or into a rank */
    DSF_LANE_DISK,   /* one direction of what is behind the paths */
    DSF_LANE_HOST,   /* the cores beside a GPU: run what is in main memory */
    DSF_NLANE_KINDS
};

struct dsf_lane {
    char name[28]; /* "core 0", "device 1", "memory to device 1", "link 3" */
    int16_t rank;  /* whose it is, or ANYWHERE: of several */
    uint8_t kind;  /* enum dsf_lane_kind */
    uint16_t ends[2]; /* of a link: 1 + the worker whose memory it begins and
                         ends at, which does the copying; 0: of none */
};

/* Workers are the first lanes. The spans of a lane do not overlap, and are in
 * order of time. */
struct dsf_timeline {
    struct dsf_span *v;
    size_t n, cap;
    struct dsf_lane *lanes; /* [nlanes] */
    unsigned nlanes, workers;
};

void dsf_timeline_add(struct dsf_timeline *timeline,
                      const struct dsf_span *span);

/* One more lane, called by the format. */
void dsf_timeline_add_lane(struct dsf_timeline *timeline,
                           enum dsf_lane_kind kind, int rank, const char *fmt,
                           ...) __attribute__((format(printf, 4, 5)));

/* All spans in order of start, then of lane. */
void dsf_timeline_sort(struct dsf_timeline *timeline);
void dsf_timeline_fini(struct dsf_timeline *timeline);

#endif
