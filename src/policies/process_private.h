/* process_private.h - what processes.c and process_messages.c share. */
#ifndef DSF_POLICIES_PROCESS_PRIVATE_H
#define DSF_POLICIES_PROCESS_PRIVATE_H

#include <dsflow/rewrite.h>

#include "plan/division.h"
#include "plan/process_buffers.h"

/* A part that is being taken out of the graph of all. */
struct apart {
    const struct dsf_processes *all;
    int32_t own;
    struct dsflow_rewrite rw;
    uint32_t *sent, *got; /* by process: messages to it, and from it */
    uint64_t *out, *in;   /* hashes of these */
    struct dsf_process_buffers buffers;
    uint32_t *written; /* by data: how often, by what is here */
    uint32_t *carried; /* by tasks of the part that send something: the data of
                          the part that it is of */
    size_t cap_carried;

    /* Of a task: by data of it, the process that it comes from, or -1: it is
     * here; and the number of the message. */
    int32_t *from;
    uint32_t *tags;
    dsflow_data_id *ports;
    size_t cap_from, cap_tags, cap_ports;
};

static inline const struct dsflow_data_spec *
dsf_apart_data(const struct apart *a, const struct dsflow_task_spec *t,
               unsigned i)
{
    return dsflow_graph_data(a->rw.in, t->data[i]);
}

/* The process that it is at home in. */
static inline int32_t dsf_apart_home(const struct apart *a,
                                     const struct dsflow_task_spec *t,
                                     unsigned i)
{
    return dsf_process_of(a->all, dsf_apart_data(a, t, i)->home);
}

/* The data[i] of a task of another process goes there; what comes of one of
 * this process has the next number. */
void dsf_apart_send(struct apart *a, const struct dsflow_task_spec *t,
                    unsigned i);
void dsf_apart_expect(struct apart *a, const struct dsflow_task_spec *t,
                      unsigned i);

/* A task of which some data comes: what is received in its place, or beside it.
 */
void dsf_apart_take(struct apart *a, const struct dsflow_task_spec *t);

#endif
