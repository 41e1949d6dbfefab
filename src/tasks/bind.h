/* bind.h - the data of a task, port by port. */
#ifndef DSF_TASKS_BIND_H
#define DSF_TASKS_BIND_H

#include <assert.h>
#include <dsflow/graph.h>

#include "tasks/tile.h"

/* Ports are bound, or left out, one after the other from 0 on. */
struct dsf_binding {
    unsigned next; /* port */
    uint32_t n, fresh, without; /* of a task (graph.h) */
    dsflow_data_id data[DSFLOW_SEGMENT_PORTS];
};

static inline void dsf_bind(struct dsf_binding *b, unsigned port,
                            dsflow_data_id id)
{
    assert(port == b->next);
    b->next++;
    b->data[b->n++] = id;
}

/* The task is the first to write the port. */
static inline void dsf_bind_fresh(struct dsf_binding *b, unsigned port,
                                  dsflow_data_id id)
{
    dsf_bind(b, port, id);
    b->fresh |= 1u << port;
}

static inline void dsf_leave_out(struct dsf_binding *b, unsigned port)
{
    assert(port == b->next);
    b->next++;
    b->without |= 1u << port;
}

#endif
