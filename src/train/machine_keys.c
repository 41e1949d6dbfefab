/* machine_keys.c - [machine] of a job, beside what there is. */
#include "train/machine_keys.h"

#include "base/log.h"

void dsf_machine_keys_warn(const struct dsf_job *job,
                           const struct dsf_machine *machine)
{
    long long workers = job->machine.workers, virtuals = job->machine.virtuals;
    const char *more =
        virtuals > 0 ? ", and virtual devices take one each" : "";
    struct dsflow_err text;

    if (workers <= 0 || workers + virtuals <= machine->cores)
        return;
    dsf_job_fail(job, &text, DSFLOW_EINVAL, "machine", "workers",
                 "%lld: this machine has %u core%s%s: workers take turns, "
                 "which is slower than \"auto\"",
                 workers, machine->cores, machine->cores == 1 ? "" : "s", more);
    dsf_warn("%s", text.msg);
}
