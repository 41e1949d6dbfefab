/* trace_private.h - how a trace stands on disk, and what the graph of one that
 * was read borrows.
 *
 *   "dsflow trace 9\n"
 *   head    u32 bytes, JSON: facts, lanes, programs, kinds of task with their
 *           ports
 *   data    u32 count, then struct data_record and the name of each
 *   tasks   u32 count, then struct task_record and the data of each
 *   spans   blocks: u32 count, then struct dsf_span; a count of 0 ends them
 *   steps   between these blocks: u32 STEP, then struct step_record
 *
 * Numbers are the machine's own; the head says which byte comes first.
 */
#ifndef DSF_TRACE_TRACE_PRIVATE_H
#define DSF_TRACE_TRACE_PRIVATE_H

#include <dsflow/graph.h>

#include "graph/traffic.h"

#define DSF_TRACE_MAGIC "dsflow trace 9\n"
enum {
    MAGIC = sizeof(DSF_TRACE_MAGIC) - 1,
    ORDER = 0x01020304,
    MOST_HEAD = 1 << 28
};

struct data_record {
    int64_t elems, dims[DSFLOW_MAX_DIMS];
    int64_t at, block;
    int32_t unit, part;
    uint32_t ring; /* of the head's, from 1; 0: none */
    int16_t home;
    uint8_t role, persistent, constant;
    uint8_t name; /* bytes of it, which follow */
    uint8_t tier, dtype, ndims, rest[3];
};

struct task_record {
    double flops, bytes, predicted;
    struct dsf_traffic moves;
    int32_t priority;
    int16_t layer, microbatch, tile, rank;
    uint32_t fresh, without, apart;
    uint32_t ndata; /* numbers of data, uint32_t each, which follow */
    uint16_t op;
    uint8_t program, pass;
};

/* In the place of a count of spans. */
#define STEP UINT32_MAX

struct step_record {
    uint32_t step, program;
    double begin, end, critical, bound, idle, loss_scale;
    uint32_t skipped, rest;
};

struct dsf_trace_ops {
    struct dsflow_op *v;
    char **rings; /* of data */
    unsigned n, nrings;
};

#endif
