/* cost.c - how long a task takes on a described machine. */
#include "sim/cost.h"

#include "graph/task.h"
#include "sim/gpu_attention.h"
#include "sim/joined.h"
#include "sim/staged.h"
#include "tasks/tasks.h"

unsigned dsf_cost_devices(const struct dsf_cost_model *model)
{
    if (dsf_cost_kind(model) == DSF_ON_VIRTUALS)
        return model->virtuals < model->nranks ? model->virtuals
                                               : model->nranks;
    return dsf_cost_kind(model) == DSF_ON_GPUS && model->gpus > 0
               ? model->gpus
               : model->nranks;
}

/* Bytes that a task reads from other devices: of other nodes, of its own. */
struct remote {
    double network, link;
};

static struct remote remote_of(const struct dsf_cost_model *model,
                               const struct dsflow_graph *g,
                               const struct dsflow_task_spec *t)
{
    struct remote remote = { 0, 0 };
    int node, devices;

    if (!t->op->comm || t->rank == DSFLOW_ANYWHERE)
        return remote;
    devices = (int)dsf_cost_devices(model);
    node = dsf_machine_model_node(model->machine, model->nranks, t->rank);
    for (unsigned p = 0; p < t->ndata; p++) {
        double bytes = dsf_task_moves(g, t, p);
        int home = dsflow_graph_data(g, t->data[p])->home;

        if (!(bytes > 0))
            continue;
        if (dsf_machine_model_node(model->machine, model->nranks, home) != node)
            remote.network += bytes;
        else if (home % devices != t->rank % devices)
            remote.link += bytes;
    }
    return remote;
}

/* --- messages between processes ------------------------------------------- */

struct dsf_processes dsf_cost_processes(const struct dsf_cost_model *model)
{
    if (model->on == NULL || dsf_cost_kind(model) != DSF_ON_CORES)
        return (struct dsf_processes){ .ranks = (int32_t)model->nranks,
                                       .n = 1 };
    return dsf_processes_of(model->on, (int32_t)model->nranks);
}

static bool is_message(const struct dsf_cost_model *model,
                       const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t)
{
    const struct dsf_processes all = dsf_cost_processes(model);

    return dsf_joined_is_message(&all, g, t);
}

/* What comes from other processes: of other nodes, of its own. */
static struct remote sent_to(const struct dsf_cost_model *model,
                             const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    const struct dsf_processes all = dsf_cost_processes(model);
    int32_t to = dsf_process_of(&all, t->rank);
    struct remote remote = { 0, 0 };

    for (unsigned p = 0; p < t->ndata; p++) {
        int32_t home = dsflow_graph_data(g, t->data[p])->home, from;

        if (home < 0 || (from = dsf_process_of(&all, home)) == to)
            continue;
        *(dsf_process_node(&all, model->on, from) !=
                  dsf_process_node(&all, model->on, to)
              ? &remote.network
              : &remote.link) += dsf_task_moves(g, t, p);
    }
    return remote;
}

static double message_seconds(const struct dsf_cost_model *model,
                              const struct dsflow_graph *g,
                              const struct dsflow_task_spec *t)
{
    struct remote remote = sent_to(model, g, t);

    return remote.network / model->machine->network.bandwidth +
           remote.link / model->machine->link.bandwidth;
}

double dsf_cost_fn_delay(void *user, const struct dsflow_graph *g,
                         const struct dsflow_task_spec *t)
{
    const struct dsf_cost_model *model = user;

    if (!is_message(model, g, t))
        return 0;
    return sent_to(model, g, t).network > 0 ? model->machine->network.latency
                                            : model->machine->link.latency;
}

double dsf_cost_fn_toll(void *user, const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    const struct dsf_cost_model *model = user;
    const struct dsf_machine_model *m = model->machine;
    struct remote remote = { 0, 0 };

    if (is_message(model, g, t))
        remote = sent_to(model, g, t);
    /* A rate is of bytes that are sent by the core and of as many that it is
     * sent. */
    return ((m->network.core > 0 ? remote.network / m->network.core : 0) +
            (m->link.core > 0 ? remote.link / m->link.core : 0)) /
           2;
}

/* --- links between devices ------------------------------------------------ */

/* The wires between nodes and those inside one work at the same time. */
static double wire_seconds(const struct dsf_cost_model *model,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_machine_model *m = model->machine;
    struct remote remote = remote_of(model, g, t);
    double network = 0, link = 0;

    if (remote.network > 0)
        network = m->network.latency + remote.network / m->network.bandwidth;
    /* In one node of a CPU machine it is one memory: no wire. */
    if (remote.link > 0 && m->main.kind == DSF_MACHINE_GPU)
        link = m->link.latency + remote.link / m->link.bandwidth;
    return network > link ? network : link;
}

struct dsf_work dsf_work_of(const struct dsflow_graph *g,
                            const struct dsflow_task_spec *t)
{
    struct dsflow_cost cost = dsf_task_cost(g, t);

    return (struct dsf_work){ cost.flops, cost.bytes, cost.scores };
}

double dsf_rate_seconds(const struct dsf_kind_rate *rate,
                        const struct dsf_work *work)
{
    return rate->fixed + work->flops * rate->per_flop +
           work->bytes * rate->per_byte + work->scores * rate->per_score;
}

bool dsf_cost_only_copies(const struct dsflow_op *op)
{
    return op->comm && op->comm != DSFLOW_COMM_REDUCE &&
           op != &dsf_op_decompress;
}

static enum dsflow_dtype type_on(const struct dsflow_graph *g,
                                 const struct dsflow_task_spec *t, unsigned i)
{
    return (enum dsflow_dtype)dsflow_graph_data(g, t->data[i])->dtype;
}

enum dsflow_dtype dsf_cost_type(const struct dsflow_graph *g,
                                const struct dsflow_task_spec *t)
{
    /* What it writes may be fp32 all the same: sums, and the loss. */
    for (unsigned p = 0; p < t->ndata; p++)
        if (dsf_task_port(t, p)->floats == DSFLOW_NARROW)
            return type_on(g, t, p);
    for (unsigned p = 0; p < t->ndata; p++)
        if (dsflow_task_access(t, p) & DSFLOW_W)
            return type_on(g, t, p);
    return DSFLOW_BYTES;
}

static double flop_rate(const struct dsf_machine_main *m,
                        enum dsflow_dtype dtype)
{
    double narrow = dtype == DSFLOW_BF16   ? m->bf16
                    : dtype == DSFLOW_FP16 ? m->fp16
                                           : 0;

    return narrow > 0 ? narrow : m->fp32;
}

static double kernel_seconds(const struct dsf_cost_model *model,
                             const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    const struct dsf_machine_model *m = model->machine;
    enum dsflow_dtype dtype = dsf_cost_type(g, t);
    const struct dsf_kind_rate *rate =
        dsf_machine_model_kind(m, t->op->name, false, dtype);
    struct dsf_work work = dsf_cost_kind(model) == DSF_ON_GPUS
                               ? dsf_gpu_work_of(model, g, t)
                               : dsf_work_of(g, t);
    double arithmetic = work.flops / flop_rate(&m->main, dtype);
    double traffic = work.bytes / m->main.bandwidth;

    if (rate != NULL)
        return dsf_rate_seconds(rate, &work);
    return arithmetic > traffic ? arithmetic : traffic;
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static double disk_seconds(const struct dsf_machine_disk *disk,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    double rate = dsf_task_brings(g, t) ? disk->read : disk->write;

    return disk->latency + (double)dsf_task_swapped(g, t) / rate;
}

/* Ranks of a node that has as many as it can. */
static double ranks_of_node(const struct dsf_cost_model *model)
{
    return (double)least(model->nranks, model->machine->main.devices);
}

/* Cores of a node that are at work beside its GPUs, while there is enough of
 * it: at least one for each rank. */
static double cores_of_node(const struct dsf_cost_model *model)
{
    return longer(ranks_of_node(model), (double)model->machine->main.workers);
}

/* On a core beside a GPU: what was measured there, or the time of the node's
 * main memory or of the wires, of which each core has a part. */
static double host_seconds(const struct dsf_cost_model *model,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_machine_main *m = &model->machine->main;
    const struct dsf_kind_rate *rate = dsf_machine_model_kind(
        model->machine, t->op->name, true, dsf_cost_type(g, t));
    struct dsf_work work = dsf_work_of(g, t);
    double cores = cores_of_node(model);
    double memory = work.bytes * cores / m->host_bandwidth;
    struct dsf_staged_bytes staged = dsf_staged_bytes(g, t);
    double wires = longer(staged.brought, staged.taken_back) * cores /
                   ranks_of_node(model) / m->host_link;
    double kernel = rate != NULL ? dsf_rate_seconds(rate, &work) : 0;

    return m->overhead + longer(kernel, longer(memory, wires));
}

/* A kernel on what the rank computes on; and what moves its data: a swap
 * between two memories that are no disk's, or a task that reads other ranks. */
static double own_seconds(const struct dsf_cost_model *model,
                          const struct dsflow_graph *g,
                          const struct dsflow_task_spec *t)
{
    return model->machine->main.overhead + kernel_seconds(model, g, t);
}

/* The launch of a kernel goes on while others run: struct dsf_sim_spec. None is
 * over sooner than this, whatever it does. */
static double gpu_seconds(const struct dsf_cost_model *model,
                          const struct dsflow_graph *g,
                          const struct dsflow_task_spec *t)
{
    const double LEAST = 2e-6;

    return dsf_task_uses(g, t, DSFLOW_DEVICE)
               ? longer(kernel_seconds(model, g, t), LEAST)
               : own_seconds(model, g, t);
}

static double wired_seconds(const struct dsf_cost_model *model,
                            const struct dsflow_graph *g,
                            const struct dsflow_task_spec *t)
{
    return model->machine->main.overhead +
           longer(kernel_seconds(model, g, t), wire_seconds(model, g, t));
}

/* Copies between GPUs are waited for; what a kernel does, and copies in the
 * memory of one, is launched ahead. */
static double gpu_comm_seconds(const struct dsf_cost_model *model,
                               const struct dsflow_graph *g,
                               const struct dsflow_task_spec *t)
{
    double wire = wire_seconds(model, g, t);

    return wire > 0 && dsf_cost_only_copies(t->op)
               ? wired_seconds(model, g, t)
               : longer(gpu_seconds(model, g, t), wire);
}

static double gpu_swap_seconds(const struct dsf_cost_model *model,
                               const struct dsflow_graph *g,
                               const struct dsflow_task_spec *t)
{
    const struct dsf_machine_model *m = model->machine;

    return m->main.overhead + m->link.latency +
           (double)dsf_task_swapped(g, t) / m->main.host_link;
}

/* Bytes that come to the task's device from another one, or leave it. */
static double crossing(const struct dsf_cost_model *model,
                       const struct dsflow_graph *g,
                       const struct dsflow_task_spec *t)
{
    const struct remote remote = remote_of(model, g, t);

    return t->op->swaps ? (double)dsf_task_swapped(g, t)
                        : remote.link + remote.network;
}

static double linked_seconds(const struct dsf_cost_model *model,
                             const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    double link = model->virtual_link > 0
                      ? crossing(model, g, t) / model->virtual_link
                      : 0;

    return longer(own_seconds(model, g, t), link);
}

/* What a task takes, by what ranks compute on. */
typedef double (*seconds_fn)(const struct dsf_cost_model *model,
                             const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t);
static const struct device_costs {
    seconds_fn kernel, host, swap, comm; /* host: with data in main memory */
} costs[DSF_NDEVICE_KINDS] = {
    [DSF_ON_CORES] = { own_seconds, own_seconds, own_seconds, wired_seconds },
    [DSF_ON_VIRTUALS] = { own_seconds, own_seconds, linked_seconds,
                          linked_seconds },
    [DSF_ON_GPUS] = { gpu_seconds, host_seconds, gpu_swap_seconds,
                      gpu_comm_seconds },
};

enum dsf_device_kind dsf_cost_kind(const struct dsf_cost_model *model)
{
    if (model->machine->main.kind == DSF_MACHINE_GPU)
        return DSF_ON_GPUS;
    return model->virtuals > 0 ? DSF_ON_VIRTUALS : DSF_ON_CORES;
}

double dsf_cost_seconds(const struct dsf_cost_model *model,
                        const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    const struct device_costs *by = &costs[dsf_cost_kind(model)];

    if (dsf_task_uses(g, t, DSFLOW_NVME))
        return disk_seconds(&model->machine->disk, g, t);
    if (t->op->swaps)
        return by->swap(model, g, t);
    if (is_message(model, g, t))
        return message_seconds(model, g, t);
    if (t->op->comm)
        return by->comm(model, g, t);
    return dsf_task_uses(g, t, DSFLOW_HOST) ? by->host(model, g, t)
                                            : by->kernel(model, g, t);
}

double dsf_cost_fn_seconds(void *user, const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    return dsf_cost_seconds(user, g, t);
}
