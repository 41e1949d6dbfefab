/* used.c - what a run has used of the machine. */
#include "train/used.h"

#include "exec/exec_memory.h"
#include "exec/lacking.h"
#include "machine/memory.h"
#include "measure/measured.h"
#include "plan/division.h"
#include "sim/weights.h"
#include "timeline/bound.h"
#include "train/machine_keys.h"

#include <math.h>
#include <string.h>

/* The serial executor has one worker, whatever the plan has; and what cores
 * take says nothing of GPUs, nor fp32 of TF32. */
static bool is_predicted(const struct dsf_run *r, const struct dsf_used *used)
{
    if (r->s.machine.gpus > 0)
        return r->executor != DSFLOW_SERIAL &&
               r->machine.main.kind == DSF_MACHINE_GPU &&
               !dsf_machine_keys_tf32(r->s.job, &r->s.machine);
    if (r->wire != NULL)
        return r->prediction.workers == r->meter.lanes.workers;
    return r->s.job->machine.virtuals > 0
               ? r->executor != DSFLOW_SERIAL
               : used->exec.workers == r->s.plan->workers;
}

/* Bytes from process to process. Where this one has not the tasks of the others,
 * they have said it. */
static double sent_by(const struct dsf_run *r)
{
    const struct dsf_processes *all = &r->meter.processes;
    uint32_t first,
        n = dsflow_graph_program_tasks(r->s.graph, DSFLOW_STEP, &first);
    double bytes = r->s.together.heard.sent;

    for (uint32_t i = first; i < first + n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(r->s.graph, (dsflow_task_id){ i });

        bytes += dsf_process_sent(all, r->s.graph, t);
    }
    return bytes;
}

static void add_seconds(const struct dsf_run *r, struct dsf_used *used)
{
    double n = (double)r->nseconds;

    used->steps = r->nseconds;
    if (used->steps == 0)
        return;
    dsf_scatter(r->seconds, (unsigned)r->nseconds, &used->median);
    used->mean = r->taken / n;
    used->least = r->least / n;
    used->efficiency = dsf_efficiency(r->least, r->taken);
    if (r->token_seconds > 0)
        used->mfu = (double)r->s.job->batch.sequences * r->s.plan->sequence *
                    r->token_seconds / used->median;
    used->predicted =
        is_predicted(r, used) ? r->prediction.sim.step_seconds : NAN;
    if (r->io > 0) {
        used->disk = r->io / n;
        used->disk_hidden = r->io_hidden / r->io;
    }
    if (r->sent > 0) {
        /* Of all processes, or of this one. */
        used->sent =
            r->sent / n / (r->s.together.alone ? 1 : r->meter.processes.n);
        used->sent_hidden = r->sent_hidden / r->sent;
        used->sent_bytes = sent_by(r) - r->unsent / n;
    }
}

static void add_bytes(struct dsf_run *r, struct dsf_used *used)
{
    const struct dsf_weights *w = dsf_session_weights(&r->s);
    const struct dsf_rank_weight *neediest;

    used->gpus = dsf_gpus_of(&r->s.machine, r->s.plan->nranks).n;
    used->nranks = w->nranks;
    used->neediest = dsf_weights_neediest(w);
    neediest = &w->ranks[used->neediest];
    for (unsigned i = 0; i < w->nranks; i++) {
        if (used->gpus == 0)
            used->memory.planned += w->ranks[i].peak;
        used->device.planned += w->ranks[i].peak;
        for (int t = 0; t < DSFLOW_NTIERS; t++) {
            used->tier[t].planned += w->ranks[i].tier_bytes[t];
            used->tier[t].measured +=
                (double)dsflow_exec_resident(r->s.exec, i, (enum dsflow_tier)t);
        }
    }
    used->device.measured = (double)dsf_exec_on_devices(r->s.exec);
    used->memory.planned += used->tier[DSFLOW_HOST].planned;
    used->memory.measured = used->tier[DSFLOW_HOST].measured;
    if (used->gpus == 0)
        used->memory.measured += used->tier[DSFLOW_DEVICE].measured;
    used->of_neediest.planned = neediest->peak;
    used->of_neediest.measured =
        (double)dsflow_exec_resident(r->s.exec, used->neediest, DSFLOW_DEVICE);
    used->peak = fmax((double)dsf_memory_most(), used->memory.measured);
}

char *dsf_run_lacking(const struct dsf_run *r, double *share)
{
    return dsf_exec_lacking(r->s.exec, share);
}

void dsf_run_used(struct dsf_run *r, struct dsf_used *used)
{
    memset(used, 0, sizeof(*used));
    dsflow_exec_stats(r->s.exec, &used->exec);
    used->mfu = NAN;
    add_seconds(r, used);
    add_bytes(r, used);
}
