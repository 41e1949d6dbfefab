/* machine.h - what this machine has. */
#ifndef DSF_MACHINE_MACHINE_H
#define DSF_MACHINE_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <dsflow/error.h>

/* What it is made of, whoever may use it. */
struct dsf_topology {
    unsigned cores, numa; /* nodes */
    int64_t l2, l3;       /* bytes of cache of one core, shared */
    char cpu[96];         /* model name */
};

/* It is looked at once, and any thread may ask. */
int dsf_topology_probe(struct dsf_topology *topology, struct dsflow_err *err);

struct dsf_machine {
    unsigned cores;      /* that this process may use (affinity, cgroup) */
    int64_t memory;      /* bytes it may use (RAM, cgroup limit) */
    int64_t available;   /* bytes free now, within that */
    int64_t l2, l3;      /* bytes of cache of one core, shared */
    unsigned numa;       /* nodes */
    unsigned devices;    /* GPUs, one for each rank; 0: ranks share the cores */
    unsigned node_devices; /* of them, of each node; 0: they are of one */
    unsigned gpus;       /* beside the cores, for the ranks of a job, and */
    int64_t gpu_memory;  /* bytes that are free on each of them */
    int64_t logits;      /* bytes that those of a task may take; 0: 1 GiB where
                            ranks are GPUs, else any */
    char cpu[96];        /* model name */
    char isa[32];        /* "avx512", "avx2" or "portable" */

    /* Of a job in several processes: cores and memory above are those of all
     * nodes. All 0: of this process alone. */
    unsigned processes, nodes;
    unsigned node_cores;    /* of this node */
    const int32_t *node_of; /* by process: its node, from 0; borrowed. NULL: as
                               many on each, in their order */
};

int dsf_machine_probe(struct dsf_machine *machine, struct dsflow_err *err);

#endif
