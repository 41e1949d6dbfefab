/* budget.h - what each rank may use of its memories, and what a plan needs that
 * is more. */
#ifndef DSF_TUNE_BUDGET_H
#define DSF_TUNE_BUDGET_H

#include "machine/machine_model.h"
#include "plan/plan.h"
#include "sim/weights.h"

/* Does each rank have a device of its own, beside main memory? */
bool dsf_fit_is_gpu(const struct dsf_machine_model *m);

/* Bytes that each rank may use of its device: what the job says, else the
 * memory of a GPU, or an equal share of the main memory that is free, with room
 * left for the process itself. `m` NULL: the present machine. */
double dsf_fit_budget(const struct dsflow_plan *plan,
                      const struct dsf_machine_model *m);

/* The same of each tier; INFINITY: no limit that is known. Where the ranks are
 * cores, the device and the memory beside it come out of the same: one has what
 * the other leaves. NVMe is shared out too. `w` is what dsf_fit_weigh says. */
void dsf_fit_budgets(const struct dsflow_plan *plan,
                     const struct dsf_machine_model *m,
                     const struct dsf_weights *w, double *budget);

/* Too little of a memory. */
struct dsf_shortfall {
    enum dsflow_tier tier;
    unsigned rank; /* that has too little; of NVMe, all together have */
    double needs, has;
    double most_host; /* what memory.host may be for the device to have enough;
                         0: that is not why it has too little */
};

/* Main memory that is left to the program once all tensors have theirs. */
double dsf_fit_room(const struct dsflow_plan *plan,
                    struct dsflow_graph *graph);

/* The weights of the graph of a plan, on `m`, or of a process's part of it,
 * whose ranks alone weigh something then; freed with dsf_weights_fini. */
void dsf_fit_weigh(const struct dsflow_plan *plan,
                   struct dsflow_graph *graph,
                   const struct dsf_machine_model *m, struct dsf_weights *w);

/* The same of ranks `first` to `end` - 1 of a graph that may have something of
 * others, too. */
void dsf_fit_weigh_some(const struct dsflow_plan *plan,
                        struct dsflow_graph *graph, int32_t first, int32_t end,
                        struct dsf_weights *w);

/* Whether a memory is too small: the largest shortfall, into *shortfall. */
bool dsf_fit_shortfall(const struct dsflow_plan *plan,
                       const struct dsflow_graph *graph,
                       const struct dsf_machine_model *m,
                       const struct dsf_weights *w,
                       struct dsf_shortfall *shortfall);

/* Bytes that the parameters and the states of the optimizer take, wherever they
 * are: the job needs more than that. */
double dsf_fit_least(const struct dsf_job *job, const struct dsf_model *model);

/* Do they not fit in all memory of `m` (NULL: the present machine) and the
 * space of its disks together (which are told)? Then no plan does. */
bool dsf_fit_is_hopeless(const struct dsf_job *job,
                         const struct dsf_model *model,
                         const struct dsf_machine *machine,
                         const struct dsf_machine_model *m, double *memory,
                         double *disks);

/* The largest share of the offloaded states that the devices have room for; of
 * a plan that keeps none of them there. */
double dsf_fit_share(const struct dsflow_plan *plan,
                     const struct dsf_machine_model *m,
                     const struct dsf_weights *w);

#endif
