/* components.h - the components that are made of kinds of task: optimizers,
 * schedules of the learning rate and formats for the wire; and which of them a
 * job names. */
#ifndef DSF_TASKS_COMPONENTS_H
#define DSF_TASKS_COMPONENTS_H

#include <dsflow/lr_schedule.h>
#include <dsflow/optimizer.h>
#include <dsflow/wire_format.h>

#include "base/registry.h"
#include "config/job.h"

/* Where something comes from that a program registered by itself. */
#define DSF_PROGRAM "the program"

extern struct dsf_registry dsf_optimizers, dsf_lr_schedules, dsf_task_kinds,
    dsf_wire_formats;

/* The component `name` of `r`, which is the last that was added, has a table in
 * job.toml. Where that cannot be, it is forgotten. */
int dsf_component_options(struct dsf_registry *r, const char *name,
                          const char *summary,
                          const struct dsflow_option *options, size_t size,
                          struct dsflow_err *err);

/* What the job names; NULL, with the place in `err`, where there is no such
 * component or other keys do not go with it. */
const struct dsflow_optimizer *dsf_job_optimizer(const struct dsf_job *job,
                                                 struct dsflow_err *err);
const struct dsflow_lr_schedule *dsf_job_lr_schedule(const struct dsf_job *job,
                                                     struct dsflow_err *err);
int dsf_job_check_components(const struct dsf_job *job, struct dsflow_err *err);

/* Warn of each key that was given and does nothing in this job, and of
 * schedules that are longer than the run. Once a run, when sizes that were auto
 * are known. */
void dsf_job_warn(const struct dsf_job *job);

struct dsflow_optimizer_keys dsf_optimizer_keys(const struct dsf_job *job);
struct dsflow_lr_keys dsf_lr_keys(const struct dsf_job *job);

/* The port `copy` of a built-in optimizer's op, which writes the new parameters
 * in another type, too (args.h); 0: the op has none. */
unsigned dsf_optimizer_copy_port(const struct dsflow_op *op);

/* The tasks in front of the op of a built-in optimizer whose rule needs sums
 * over whole tensors. `measure` is { control R, grad R, param R, states RW,
 * sums W }, with the arguments of the op, `weigh` is { ratio W, sums R, … }:
 * the op has what that makes of them on its port 1, and only reads states. */
struct dsf_optimizer_front {
    const struct dsflow_op *measure, *weigh;
};
/* NULL: there are none. */
const struct dsf_optimizer_front *
dsf_optimizer_front(const struct dsflow_op *op);

/* How many states the job's optimizer has. */
unsigned dsf_optimizer_nstates(const struct dsflow_optimizer *o,
                               const struct dsf_job *job);

/* The number of a whole unit from which on there is state `i`: 0, or where what
 * is before it has none; unit->elems: the unit has none. */
int64_t dsf_optimizer_state_from(const struct dsflow_optimizer *o, unsigned i,
                                 const struct dsflow_update_args *unit);

#endif
