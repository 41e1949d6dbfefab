/* process_buffers.h - buffers of what goes from one process to another, or
 * comes: those of a size take turns on each rank. */
#ifndef DSF_PLAN_PROCESS_BUFFERS_H
#define DSF_PLAN_PROCESS_BUFFERS_H

#include <dsflow/graph.h>

#include <stdbool.h>

/* What they are called. */
#define DSF_RECEIVED "received" /* comes, and is added up */
#define DSF_ARRIVING "arriving" /* comes, and is copied into a device */
#define DSF_LEAVING  "leaving"  /* is copied out of a device, and goes */

struct dsf_process_buffers {
    struct turns *v;
    size_t n, cap;
};

/* One of `elems` numbers on the rank, the k-th of its task; made in `g` when it
 * is first asked for. */
dsflow_data_id dsf_process_buffer(struct dsf_process_buffers *b,
                                  struct dsflow_graph *g, const char *name,
                                  int16_t rank, uint8_t dtype, int64_t elems,
                                  unsigned k);

/* A task of the rank has its buffers: the next one has those that it had not.
 */
void dsf_process_buffers_turn(struct dsf_process_buffers *b, int16_t rank);

/* Numbers of some data, as they were when it had been written so often in a
 * program. */
struct dsf_left {
    dsflow_data_id data;
    uint32_t written;
    int64_t from;
    int32_t program;
};

/* A leaving buffer for them. Returns whether they are there already: several
 * processes may want the same. */
bool dsf_process_leaving(struct dsf_process_buffers *b, struct dsflow_graph *g,
                         int16_t rank, uint8_t dtype, int64_t elems,
                         const struct dsf_left *what, dsflow_data_id *id);

void dsf_process_buffers_fini(struct dsf_process_buffers *b);

#endif
