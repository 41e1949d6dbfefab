/* hosts.h - which hosts the processes of a run are on, and what these have. */
#ifndef DSF_TRAIN_HOSTS_H
#define DSF_TRAIN_HOSTS_H

#include "machine/machine.h"
#include "net/wire.h"

/* In process 0; all zero elsewhere, and where there is one process. */
struct dsf_hosts {
    unsigned processes, nodes;
    int32_t *node_of; /* by process: its node, from 0 */
    unsigned cores;   /* of all nodes, as far as each process can have as many
                         as any; … */
    int64_t memory, available; /* … and their bytes, likewise */
};

/* All processes of the wire call it. DSFLOW_EIO: one cannot be reached. */
int dsf_hosts_gather(struct dsf_hosts *hosts, struct dsf_wire *wire,
                     struct dsflow_err *err);
void dsf_hosts_fini(struct dsf_hosts *hosts);

/* This machine becomes all of them, which it borrows. */
void dsf_hosts_join(const struct dsf_hosts *hosts, struct dsf_machine *machine);

#endif
