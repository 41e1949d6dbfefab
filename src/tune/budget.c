/* budget.c - what each rank may use of its memories, and what a plan needs that
 * is more. */
#include "tune/budget.h"

#include "exec/exec_memory.h"
#include "machine/memory.h"
#include "measure/disks.h"
#include "plan/division.h"
#include "policies/keys.h"
#include "policies/policies.h"
#include "tasks/components.h"

#include <math.h>
#include <stdlib.h>

/* What a process needs beside tensors: libraries, queues, the text at hand. On a
 * small machine, where those are small too, a quarter. */
static const double ROOM = 300 << 20;

bool dsf_fit_is_gpu(const struct dsf_machine_model *m)
{
    return m != NULL && m->main.kind == DSF_MACHINE_GPU;
}

/* Of another machine, and not of the GPUs of this one. */
static bool is_described(const struct dsf_machine *machine,
                         const struct dsf_machine_model *m)
{
    return dsf_fit_is_gpu(m) && machine->gpus == 0;
}

/* What a rank may use of main memory, for all its tiers. */
static double share_of_memory(const struct dsflow_plan *plan)
{
    double free = (double)plan->machine->available;

    if (plan->machine->available < 0 || plan->machine->available == INT64_MAX)
        return INFINITY;
    free -= free < 4 * ROOM ? free / 4 : ROOM;
    return free < 0 ? 0 : free / plan->nranks;
}

/* Of the memory of a GPU that has as many ranks as any. */
static double share_of_gpu(const struct dsflow_plan *plan)
{
    return (double)plan->machine->gpu_memory /
           dsf_gpus_of(plan->machine, plan->nranks).most;
}

double dsf_fit_budget(const struct dsflow_plan *plan,
                      const struct dsf_machine_model *m)
{
    const struct dsf_job_memory *memory = &plan->job->memory;
    double share;

    if (memory->device >= 0)
        return (double)memory->device;
    if (is_described(plan->machine, m))
        return plan->machine->available == INT64_MAX
                   ? INFINITY
                   : (double)plan->machine->available;
    if (plan->machine->gpus > 0)
        return share_of_gpu(plan);
    share = share_of_memory(plan);
    if (memory->host >= 0)
        share -= (double)memory->host;
    return share < 0 ? 0 : share;
}

/* Main memory beside a device that takes `device` bytes. */
static double host_budget(const struct dsflow_plan *plan,
                          const struct dsf_machine_model *m, double device)
{
    const struct dsf_job_memory *memory = &plan->job->memory;
    double left;

    if (memory->host >= 0)
        return (double)memory->host;
    if (is_described(plan->machine, m))
        return m->main.host < 0
                   ? INFINITY
                   : (double)m->main.host / dsf_machine_model_node_ranks(
                                                m, (unsigned)plan->nranks);
    left = share_of_memory(plan);
    if (plan->machine->gpus == 0)
        left -= memory->device >= 0 ? (double)memory->device : device;
    return left < 0 ? 0 : left;
}

/* Of all ranks together. */
static double disk_budget(const struct dsf_job *job,
                          const struct dsf_machine_model *m)
{
    if (job->nvme.size >= 0)
        return (double)job->nvme.size;
    if (m != NULL && m->disk.size >= 0)
        return (double)m->disk.size * (double)m->main.nodes;
    return INFINITY; /* dsf_disks_check knows more */
}

/* Each process has as many devices as its ranks need, and `most` at most: those
 * of all whose ranks are in the graph. */
static unsigned devices_of(const struct dsflow_plan *plan,
                           const struct dsflow_graph *graph, unsigned most)
{
    const struct dsf_processes all =
        dsf_processes_of(plan->machine, plan->nranks);
    unsigned first, end, n = 0;

    dsf_exec_ranks_of(graph, &first, &end);
    for (int32_t p = dsf_process_of(&all, (int32_t)first);
         p <= dsf_process_of(&all, (int32_t)end - 1); p++) {
        const unsigned own = (unsigned)(dsf_process_first(&all, p + 1) -
                                        dsf_process_first(&all, p));

        n += own < most ? own : most;
    }
    return n;
}

/* As the executor will; a graph that is not whole is left as it is. */
static void place_on_devices(const struct dsflow_plan *plan,
                             struct dsflow_graph *graph, struct dsf_weights *w)
{
    const unsigned virtuals = (unsigned)plan->job->machine.virtuals;
    const struct dsflow_exec_options options =
        DSFLOW_EXEC_OPTIONS(.workers = plan->workers - virtuals,
                            .virtuals = devices_of(plan, graph, virtuals),
                            .gpus = devices_of(plan, graph,
                                               plan->machine->gpus));
    struct dsf_exec_needs needs;

    if (dsf_exec_needs_find(graph, &options, &needs, NULL) < 0)
        return;
    for (unsigned r = needs.first; r < w->nranks && r < needs.nranks; r++)
        dsf_weights_place(
            w, r, (double)needs.ranks[r].device, (double)needs.ranks[r].near,
            ceil((double)needs.host / (needs.nranks - needs.first)));
    dsf_exec_needs_fini(&needs);
}

/* Of the ranks of each process, its cores. */
static void share_cores(const struct dsflow_plan *plan, struct dsf_weights *w)
{
    const struct dsf_processes all =
        dsf_processes_of(plan->machine, plan->nranks);

    for (int32_t p = 0; p < all.n; p++)
        dsf_weights_share_workers(w, (unsigned)dsf_process_first(&all, p),
                                  (unsigned)dsf_process_first(&all, p + 1),
                                  dsf_process_workers(&all, p, plan->workers));
}

/* The largest piece of what the program looks at that is not in main memory: it
 * is saved one piece at a time. */
static double window_of(const struct dsflow_plan *plan,
                        const struct dsflow_graph *graph,
                        const struct dsf_machine_model *m)
{
    const bool devices = plan->machine->gpus > 0 || dsf_fit_is_gpu(m) ||
                         plan->job->machine.virtuals > 0;
    size_t most = 0;

    for (uint32_t i = 0; i < dsflow_graph_ndata(graph); i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(graph, (dsflow_data_id){ i });

        if ((d->tier == DSFLOW_NVME || (d->tier == DSFLOW_DEVICE && devices)) &&
            d->persistent && d->bytes > most)
            most = d->bytes;
    }
    return (double)most;
}

/* Each process has one, which its ranks share; ranks `first` to `end` - 1. */
static void add_windows(const struct dsflow_plan *plan,
                        const struct dsflow_graph *graph,
                        const struct dsf_machine_model *m, int32_t first,
                        int32_t end, struct dsf_weights *w)
{
    const struct dsf_processes all =
        dsf_processes_of(plan->machine, plan->nranks);
    const double window = window_of(plan, graph, m);

    for (int32_t r = first; r < end; r++) {
        const int32_t p = dsf_process_of(&all, r);

        w->ranks[r].window = ceil(window / (dsf_process_first(&all, p + 1) -
                                            dsf_process_first(&all, p)));
    }
}

void dsf_fit_weigh(const struct dsflow_plan *plan,
                   struct dsflow_graph *graph,
                   const struct dsf_machine_model *m, struct dsf_weights *w)
{
    int32_t *node_of = dsf_rank_nodes(plan->machine, plan->nranks);

    dsf_weights_init(w, graph, (unsigned)plan->nranks, node_of);
    free(node_of);
    add_windows(plan, graph, m, 0, plan->nranks, w);
    if (is_described(plan->machine, m))
        return;
    if (plan->machine->gpus > 0 || plan->job->machine.virtuals > 0)
        place_on_devices(plan, graph, w);
    else
        share_cores(plan, w);
}

void dsf_fit_weigh_some(const struct dsflow_plan *plan,
                        struct dsflow_graph *graph, int32_t first, int32_t end,
                        struct dsf_weights *w)
{
    int32_t *node_of = dsf_rank_nodes(plan->machine, plan->nranks);

    dsf_weights_init_some(w, graph, (unsigned)plan->nranks, node_of,
                          (unsigned)first, (unsigned)end);
    free(node_of);
    add_windows(plan, graph, NULL, first, end, w);
    if (plan->machine->gpus == 0)
        share_cores(plan, w);
}

void dsf_fit_budgets(const struct dsflow_plan *plan,
                     const struct dsf_machine_model *m,
                     const struct dsf_weights *w, double *budget)
{
    budget[DSFLOW_DEVICE] = dsf_fit_budget(plan, m);
    budget[DSFLOW_HOST] =
        host_budget(plan, m, w->ranks[dsf_weights_neediest(w)].peak);
    budget[DSFLOW_NVME] = disk_budget(plan->job, m) / plan->nranks;
}

/* Is it the worst of its tier so far? */
static void note(struct dsf_shortfall *shortfall, enum dsflow_tier tier,
                 unsigned rank, double needs, double has)
{
    if (needs > has && !(shortfall->needs - shortfall->has > needs - has))
        *shortfall = (struct dsf_shortfall){ tier, rank, needs, has, 0 };
}

/* Do ranks share main memory with what memory.host takes of it? */
static bool is_beside_host(const struct dsflow_plan *plan,
                           const struct dsf_machine_model *m)
{
    return plan->job->memory.device < 0 && plan->job->memory.host >= 0 &&
           plan->machine->gpus == 0 && !is_described(plan->machine, m);
}

bool dsf_fit_shortfall(const struct dsflow_plan *plan,
                       const struct dsflow_graph *graph,
                       const struct dsf_machine_model *m,
                       const struct dsf_weights *w,
                       struct dsf_shortfall *shortfall)
{
    double device = dsf_fit_budget(plan, m), disk = 0;

    *shortfall = (struct dsf_shortfall){ 0 };
    for (unsigned r = 0; r < w->nranks; r++)
        note(shortfall, DSFLOW_DEVICE, r, w->ranks[r].peak, device);
    if (shortfall->needs > 0 && is_beside_host(plan, m))
        shortfall->most_host =
            fmax(0, share_of_memory(plan) - shortfall->needs);
    for (unsigned r = 0; r < w->nranks && shortfall->needs == 0; r++)
        note(shortfall, DSFLOW_HOST, r,
             dsf_weights_in(&w->ranks[r], DSFLOW_HOST),
             host_budget(plan, m, w->ranks[r].peak));
    for (unsigned r = 0; r < w->nranks; r++)
        disk += w->ranks[r].tier_bytes[DSFLOW_NVME];
    if (disk > 0 && shortfall->needs == 0)
        note(shortfall, DSFLOW_NVME, 0, disk, disk_budget(plan->job, m));
    return shortfall->needs > 0;
}

/* Numbers of all states. */
static double count_states(const struct dsf_job *job,
                           const struct dsf_model *model)
{
    const struct dsflow_optimizer *o = dsf_job_optimizer(job, NULL);
    const unsigned nstates = dsf_optimizer_nstates(o, job);
    double n = 0;

    for (unsigned u = 0; u < model->nunits; u++)
        for (unsigned i = 0; i < nstates; i++) {
            const struct dsf_unit *unit = &model->units[u];
            const int64_t from = dsf_reference_state_from(unit, o, i);

            for (unsigned t = 0; t < unit->ntensors; t++)
                if (unit->tensors[t].offset >= from)
                    n +=
                        (double)(unit->tensors[t].rows * unit->tensors[t].cols);
        }
    return n;
}

double dsf_fit_least(const struct dsf_job *job, const struct dsf_model *model)
{
    const enum dsflow_dtype kept = dsf_job_states(job);

    return (double)model->params * (double)dsflow_dtype_bytes(DSFLOW_FP32, 1) +
           count_states(job, model) *
               (double)(kept == DSFLOW_INT8_BLOCK
                            ? 1 /* its scales are few */
                            : dsflow_dtype_bytes(kept, 1));
}

/* Of all nodes; INFINITY: unknown. */
static double all_memory(const struct dsf_machine *machine,
                         const struct dsf_machine_model *m)
{
    int64_t known = machine->available;
    double device, host;

    if (m == NULL || machine->gpus > 0)
        return known < 0 || known == INT64_MAX
                   ? INFINITY
                   : (double)known + (machine->nodes > 1 ? machine->nodes : 1) *
                                         machine->gpus *
                                         (double)machine->gpu_memory;
    if (m->main.memory < 0 || (dsf_fit_is_gpu(m) && m->main.host < 0))
        return INFINITY;
    device = (double)m->main.memory;
    host = dsf_fit_is_gpu(m) ? (double)m->main.host : 0;
    if (dsf_fit_is_gpu(m))
        device *= (double)m->main.devices;
    return (double)m->main.nodes * (device + host);
}

bool dsf_fit_is_hopeless(const struct dsf_job *job,
                         const struct dsf_model *model,
                         const struct dsf_machine *machine,
                         const struct dsf_machine_model *m, double *memory,
                         double *disks)
{
    *memory = all_memory(machine, m);
    if (job->nvme.size >= 0)
        *disks = (double)job->nvme.size;
    else if (m == NULL || m->here)
        *disks = dsf_disks_free(job);
    else if (m->disk.read > 0)
        *disks = disk_budget(job, m);
    else
        *disks = 0;
    return dsf_fit_least(job, model) > *memory + *disks;
}

double dsf_fit_share(const struct dsflow_plan *plan,
                     const struct dsf_machine_model *m,
                     const struct dsf_weights *w)
{
    double device = dsf_fit_budget(plan, m), share = 1;

    for (unsigned r = 0; r < w->nranks; r++) {
        const struct dsf_rank_weight *rank = &w->ranks[r];
        double states =
            rank->in_tier[dsf_offload_keys(plan->job)->home[DSFLOW_STATES]]
                         [DSFLOW_STATES];
        double room = device - rank->peak;

        if (states == 0) /* all of them fit in the ring of main memory */
            states = rank->in_tier[DSFLOW_HOST][DSFLOW_STATES];
        if (states > 0 && room < share * states)
            share = room / states;
    }
    return share < 0 ? 0 : share;
}

double dsf_fit_room(const struct dsflow_plan *plan,
                    struct dsflow_graph *graph)
{
    double room = (double)plan->nranks * (double)plan->job->memory.host;
    struct dsf_weights w;

    if (plan->job->memory.host < 0)
        return (double)dsf_memory_probe("").available;
    dsf_fit_weigh(plan, graph, NULL, &w);
    for (unsigned r = 0; r < w.nranks; r++)
        room -= dsf_weights_in(&w.ranks[r], DSFLOW_HOST);
    dsf_weights_fini(&w);
    return room < 0 ? 0 : room;
}
