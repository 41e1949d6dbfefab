/* cost.h - how long a task takes on a described machine. */
#ifndef DSF_SIM_COST_H
#define DSF_SIM_COST_H

#include <dsflow/graph.h>

#include "machine/machine_model.h"
#include "plan/division.h"

/* A machine and how many ranks are on it: whom a link is shared with. Where the
 * ranks are on virtual devices of its cores, how many there are, and what their
 * links carry. */
struct dsf_cost_model {
    const struct dsf_machine_model *machine;
    unsigned nranks;
    unsigned virtuals;
    double virtual_link; /* bytes a second; 0: as fast as memory is copied */
    unsigned gpus;       /* that they are on; 0: each rank on one of its own */
    const struct dsf_machine *on; /* where its processes are; NULL: there is one
                                   */
    const struct dsflow_plan *plan; /* has the layouts of attention; NULL: they
                                       count as on cores */
    struct dsf_gpu_attention_memo *memo; /* of one graph, zeroes at first; may
                                            be NULL (gpu_attention.h) */
};

/* What ranks compute on. */
enum dsf_device_kind {
    DSF_ON_CORES,
    DSF_ON_VIRTUALS,
    DSF_ON_GPUS,
    DSF_NDEVICE_KINDS
};
enum dsf_device_kind dsf_cost_kind(const struct dsf_cost_model *model);
/* How many of those: GPUs of a described machine are as many as ranks. */
unsigned dsf_cost_devices(const struct dsf_cost_model *model);
/* Which the ranks are in: one, where they are on devices. */
struct dsf_processes dsf_cost_processes(const struct dsf_cost_model *model);

/* What the time of a kernel follows from. */
struct dsf_work {
    double flops, bytes;
    double scores; /* of attention: pairs of a query and a key, in every head */
};
struct dsf_work dsf_work_of(const struct dsflow_graph *g,
                            const struct dsflow_task_spec *t);
/* The type that a task computes in, or else that of the first that it writes;
 * DSFLOW_BYTES: it writes nothing. */
enum dsflow_dtype dsf_cost_type(const struct dsflow_graph *g,
                                const struct dsflow_task_spec *t);
double dsf_rate_seconds(const struct dsf_kind_rate *rate,
                        const struct dsf_work *work);

/* Does it move data between ranks, and compute nothing? */
bool dsf_cost_only_copies(const struct dsflow_op *op);

/* Seconds of a task: what was measured of its kind on the device that runs it,
 * in its type (dsf_cost_type), or else the roofline: the longer of its
 * arithmetic and its traffic with memory. Moving data between devices takes the
 * time of the wires as well. What the disk does takes the disk's time and no
 * worker's. On a machine of GPUs a swap takes the time of the wires to main
 * memory, and what cores do there no less than their part of this memory, and
 * of the wires what is on a device (staged.h); attention with a window or a
 * layout takes as long as dense attention of as many tiles (gpu_attention.h).
 * What comes to a virtual device from elsewhere takes the time of its link,
 * beside that of the copy. What crosses from one process to another takes the
 * time of [link], or from another node of [network]; what it takes of workers
 * is dsf_cost_fn_toll. */
double dsf_cost_seconds(const struct dsf_cost_model *model,
                        const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t);

/* The same, for struct dsf_sim_spec; `user` is a struct dsf_cost_model. */
double dsf_cost_fn_seconds(void *user, const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t);

/* Likewise: how long a message between processes is on its way beside that; and
 * seconds of a core that it takes at each of its two ends. */
double dsf_cost_fn_delay(void *user, const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t);
double dsf_cost_fn_toll(void *user, const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t);

#endif
