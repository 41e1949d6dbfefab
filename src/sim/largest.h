/* largest.h - what takes most of a rank's memory, by name. */
#ifndef DSF_SIM_LARGEST_H
#define DSF_SIM_LARGEST_H

#include <dsflow/graph.h>

/* Data of a rank's device of one shape, type and role, which the same port of a
 * segment, or of a kind of task, writes first. */
struct dsf_largest {
    const char *segment, *port;          /* or the kind of task; borrowed */
    const struct dsflow_data_spec *data; /* one of it */
    uint32_t count;
    double bytes; /* of all */
};

/* The largest of them, at most `most`, in `v`; returns how many. Data that no
 * task has is left out. What has no home counts for rank 0. */
unsigned dsf_largest_find(const struct dsflow_graph *g, unsigned rank,
                          struct dsf_largest *v, unsigned most);

#endif
