/* traffic.h - what tasks read of other ranks: over which wires, and what it
 * would be if nothing were coded. */
#ifndef DSF_GRAPH_TRAFFIC_H
#define DSF_GRAPH_TRAFFIC_H

#include <dsflow/graph.h>

/* Between ranks that share a node, and between nodes. */
enum dsf_wires { DSF_WIRES_INSIDE, DSF_WIRES_BETWEEN, DSF_NWIRES };

/* "inside", "between": names that do not change. */
const char *dsf_wires_str(enum dsf_wires wires);

struct dsf_traffic {
    double bytes[DSF_NWIRES];
    double dense[DSF_NWIRES]; /* of the same numbers, none of which is coded */
};

/* Of one task. `node_of` has the node of each rank; NULL: they share one. */
struct dsf_traffic dsf_traffic_of(const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t,
                                  const int32_t *node_of);

void dsf_traffic_add(struct dsf_traffic *to, const struct dsf_traffic *of);
double dsf_traffic_bytes(const struct dsf_traffic *t); /* over all wires */
double dsf_traffic_dense(const struct dsf_traffic *t);

#endif
