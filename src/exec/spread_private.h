/* spread_private.h - the functions of an executor, where it is spread. */
#ifndef DSF_EXEC_SPREAD_PRIVATE_H
#define DSF_EXEC_SPREAD_PRIVATE_H

#include "exec/exec_private.h"
#include "exec/spread.h"
#include "graph/part.h"

struct dsf_spread {
    struct dsflow_exec *own; /* of the part of this process */
    const struct dsf_graph_part *part;
    struct dsf_wire *wire;

    /* What dsflow_exec_map shows of another process: one at a time. */
    void *shown;
    size_t bytes;
    uint32_t data;
    bool dirty;
};

int dsf_spread_open(struct dsflow_exec *exec,
                    const struct dsflow_exec_options *options,
                    const struct dsflow_host *host, struct dsflow_err *err);
void dsf_spread_close(struct dsflow_exec *exec);
int dsf_spread_submit(struct dsflow_exec *exec, dsflow_program program,
                      struct dsflow_err *err);
int dsf_spread_wait(struct dsflow_exec *exec, struct dsflow_err *err);
void *dsf_spread_map(struct dsflow_exec *exec, dsflow_data_id id,
                     enum dsflow_access access);
size_t dsf_spread_resident(const struct dsflow_exec *exec, unsigned rank,
                           enum dsflow_tier tier);

#endif
