/* cost.c - how long a task takes on a described machine. */
#include "sim/cost.h"

#include "graph/task.h"

struct dsf_remote dsf_cost_remote(const struct dsf_cost_model *model,
                                  const struct dsflow_graph *g,
                                  const struct dsflow_task_spec *t)
{
    struct dsf_remote remote = { 0, 0 };
    int node;

    if (!t->op->comm || t->rank == DSFLOW_ANYWHERE)
        return remote;
    node = dsf_machine_model_node(model->machine, model->nranks, t->rank);
    for (unsigned p = 0; p < t->ndata; p++) {
        double bytes = dsf_task_moves(g, t, p);
        int home = dsflow_graph_data(g, t->data[p])->home;

        if (bytes > 0 && dsf_machine_model_node(model->machine, model->nranks,
                                                home) != node)
            remote.network += bytes;
        else
            remote.link += bytes;
    }
    return remote;
}

/* The wires between nodes and those inside one work at the same time. */
static double wire_seconds(const struct dsf_cost_model *model,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_machine_model *m = model->machine;
    struct dsf_remote remote = dsf_cost_remote(model, g, t);
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

/* What it computes in: the type of the first that it writes. */
static enum dsflow_dtype type_of(const struct dsflow_graph *g,
                                 const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++)
        if (dsflow_task_access(t, p) & DSFLOW_W)
            return (enum dsflow_dtype)dsflow_graph_data(g, t->data[p])->dtype;
    return DSFLOW_BYTES;
}

static double kernel_seconds(const struct dsf_machine_model *m,
                             const struct dsflow_graph *g,
                             const struct dsflow_task_spec *t)
{
    const struct dsf_kind_rate *rate =
        dsf_machine_model_kind(m, t->op->name, false, type_of(g, t));
    struct dsf_work work = dsf_work_of(g, t);
    double arithmetic = work.flops / m->main.fp32;
    double traffic = work.bytes / m->main.bandwidth;

    if (rate != NULL)
        return dsf_rate_seconds(rate, &work);
    return arithmetic > traffic ? arithmetic : traffic;
}

static double disk_seconds(const struct dsf_machine_disk *disk,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    double rate = dsf_task_brings(g, t) ? disk->read : disk->write;

    return disk->latency + (double)dsf_task_swapped(g, t) / rate;
}

/* On the cores beside a GPU: what was measured there, or the time of the node's
 * main memory, of which one of its ranks has a part. */
static double host_seconds(const struct dsf_cost_model *model,
                           const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    const struct dsf_machine_main *m = &model->machine->main;
    const struct dsf_kind_rate *rate = dsf_machine_model_kind(
        model->machine, t->op->name, true, type_of(g, t));
    struct dsf_work work = dsf_work_of(g, t);
    int64_t ranks = model->nranks;

    if (rate != NULL)
        return m->overhead + dsf_rate_seconds(rate, &work);

    if (ranks > m->devices)
        ranks = m->devices;
    return m->overhead + work.bytes * (double)ranks / m->host_bandwidth;
}

double dsf_cost_seconds(const struct dsf_cost_model *model,
                        const struct dsflow_graph *g,
                        const struct dsflow_task_spec *t)
{
    const struct dsf_machine_model *m = model->machine;
    bool gpu = m->main.kind == DSF_MACHINE_GPU;
    double kernel, wire;

    if (dsf_task_uses(g, t, DSFLOW_NVME))
        return disk_seconds(&m->disk, g, t);
    if (gpu && t->op->swaps)
        return m->main.overhead + m->link.latency +
               (double)dsf_task_swapped(g, t) / m->main.host_link;
    if (gpu && !t->op->comm && dsf_task_uses(g, t, DSFLOW_HOST))
        return host_seconds(model, g, t);
    kernel = kernel_seconds(m, g, t);
    wire = t->op->comm ? wire_seconds(model, g, t) : 0;

    return m->main.overhead + (wire > kernel ? wire : kernel);
}

double dsf_cost_fn_seconds(void *user, const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    return dsf_cost_seconds(user, g, t);
}
