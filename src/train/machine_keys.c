/* machine_keys.c - [machine] of a job, beside what there is. */
#include "train/machine_keys.h"

#include "base/log.h"
#include "exec/cuda_module.h"
#include "exec/nccl.h"
#include "policies/keys.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void dsf_machine_keys_warn(const struct dsf_job *job,
                           const struct dsf_machine *machine)
{
    long long workers = job->machine.workers, virtuals = job->machine.virtuals;
    unsigned cores =
        machine->processes > 0 ? machine->node_cores : machine->cores;
    const char *more =
        virtuals > 0 ? ", and virtual devices take one each" : "";
    struct dsflow_err text;

    if (workers <= 0 || workers + virtuals <= cores)
        return;
    dsf_job_fail(job, &text, DSFLOW_EINVAL, "machine", "workers",
                 "%lld: this machine has %u core%s%s: workers take turns, "
                 "which is slower than \"auto\"",
                 workers, cores, cores == 1 ? "" : "s", more);
    dsf_warn("%s", text.msg);
}

/* Of a key that only GPUs look at. */
static void warn_of_tf32(const struct dsf_job *job)
{
    struct dsflow_err text;

    if (!dsf_precision_keys(job)->tf32 || dsf_compute_type(job) != DSFLOW_FP32)
        return;
    dsf_job_fail(job, &text, DSFLOW_EINVAL, "precision", "tf32",
                 "has no effect: the ranks are cores");
    dsf_warn("%s", text.msg);
}

void dsf_machine_keys_warn_of_gpus(const struct dsf_job *job)
{
    struct dsflow_err text;

    warn_of_tf32(job);
    if (job->machine.gpus == 0)
        return;
    dsf_job_fail(job, &text, DSFLOW_EINVAL, "machine", "gpus",
                 "has no effect: the serial executor runs on a core");
    dsf_warn("%s", text.msg);
}

void dsf_machine_keys_warn_of_model(const struct dsf_job *job,
                                    const struct dsf_machine_model *m)
{
    struct dsflow_err text;

    if (m->main.kind == DSF_MACHINE_GPU)
        return;
    warn_of_tf32(job);
    if (job->machine.gpus <= 0)
        return;
    dsf_job_fail(job, &text, DSFLOW_EINVAL, "machine", "gpus",
                 "has no effect: %.100s has no GPUs", m->main.name);
    dsf_warn("%s", text.msg);
}

/* As many as are wanted, of those that there are. */
static int count_gpus(const struct dsf_job *job, unsigned *n,
                      struct dsflow_err *err)
{
    long long wanted = job->machine.gpus;
    struct dsflow_err why;
    int status = dsf_cuda_count(n, &why);

    if (wanted < 0 && status < 0)
        dsf_info("no GPU, so the job runs on cores: %s", why.msg);
    if (wanted < 0)
        return DSFLOW_OK;
    if (status < 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "machine", "gpus",
                            "%lld: %s", wanted, why.msg);
    if (wanted > *n)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "machine", "gpus",
                            "%lld: the driver shows %u", wanted, *n);
    *n = (unsigned)wanted;
    return DSFLOW_OK;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* CUDA loads a kernel when it is first launched, and libraries take memory as
 * they go: half a GiB at most, and less of a small GPU. So does NCCL, later. */
static int64_t usable(const struct dsf_gpu_about *about, int64_t nccl)
{
    const int64_t free = (int64_t)about->free;

    return free - least(free / 32, 512 << 20) - least(free / 16, nccl);
}

/* GPUs that the ranks of the job are on, those of the first of so many
 * processes: the others are left alone. */
static unsigned count_used(const struct dsf_job *job, unsigned gpus,
                           int32_t processes)
{
    double ranks = fmax(1, floor(dsf_job_ranks(job) / processes));

    return ranks < gpus ? (unsigned)ranks : gpus;
}

/* May GPUs of several processes send to each other? It was to be known before
 * the job was. */
static bool expect_messages(const struct dsf_job *job)
{
    if (job->machine.gpus != 0 && job->mesh.transport != DSF_TRANSPORT_MPI &&
        dsf_nccl_module_open(NULL) != NULL)
        return true;
    dsf_cuda_expect_none();
    return false;
}

/* By NCCL, of a GPU of a process that uses so many of those of its node. */
static int64_t take_for_messages(const struct dsf_job *job,
                                 const struct dsf_machine *machine,
                                 unsigned gpus, unsigned used)
{
    const unsigned nodes = machine->nodes > 1 ? machine->nodes : 1;
    const double ranks = dsf_job_ranks(job);
    const double here = fmin(gpus, ceil(ranks / nodes));
    const double all = fmin((double)gpus * nodes, ranks);

    return (int64_t)dsf_nccl_takes((unsigned)fmax(0, here - used),
                                   (unsigned)fmax(0, all - here));
}

/* A plug-in's head knows no padding. */
static void pad(const struct dsf_job *job, struct dsf_model *model)
{
    if (strcmp(dsf_job_replacing(job, "head"), "builtin") == 0)
        dsf_model_pad(model);
}

int dsf_machine_keys_find_gpus(const struct dsf_job *job, int32_t processes,
                               struct dsf_machine *machine,
                               struct dsf_model *model, struct dsflow_err *err)
{
    struct dsf_gpu_about about;
    int status = DSFLOW_OK;
    unsigned n = 0, used;
    int64_t nccl = 0;
    bool messages = processes > 1 && expect_messages(job);

    if (job->machine.gpus != 0)
        status = count_gpus(job, &n, err);
    used = count_used(job, n, processes);
    if (messages)
        nccl = take_for_messages(job, machine, n, used);
    machine->gpu_memory = INT64_MAX;
    for (unsigned i = 0; i < used && status == DSFLOW_OK; i++) {
        status = dsf_cuda_about(i, &about, err);
        if (status == DSFLOW_OK)
            machine->gpu_memory =
                least(machine->gpu_memory, usable(&about, nccl));
    }
    machine->gpus = n;
    if (status == DSFLOW_OK && n == 0)
        warn_of_tf32(job);
    if (status == DSFLOW_OK && n > 0)
        pad(job, model);
    return status;
}

int dsf_machine_keys_share_gpus(const struct dsf_job *job, int32_t first,
                                int32_t ranks,
                                const struct dsf_machine *machine,
                                struct dsf_model *model, struct dsflow_err *err)
{
    struct dsflow_err why;
    unsigned n;

    if (machine->gpus == 0)
        return DSFLOW_OK;
    expect_messages(job);
    if (dsf_cuda_count(&n, &why) < 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "machine", "gpus",
                            "%u: %s", machine->gpus, why.msg);
    for (int32_t r = first; r < first + ranks; r++)
        if ((unsigned)r % machine->gpus >= n)
            return dsf_job_fail(job, err, DSFLOW_EINVAL, "machine", "gpus",
                                "%u: rank %d is on GPU %u, and the driver "
                                "shows %u",
                                machine->gpus, (int)r,
                                (unsigned)r % machine->gpus, n);
    pad(job, model);
    return DSFLOW_OK;
}

bool dsf_machine_keys_tf32(const struct dsf_job *job,
                           const struct dsf_machine *machine)
{
    return machine->gpus > 0 && dsf_precision_keys(job)->tf32 &&
           dsf_compute_type(job) == DSFLOW_FP32;
}

void dsf_machine_keys_describe(const struct dsf_machine *machine, char *text,
                               size_t size)
{
    struct dsf_gpu_about about;
    char versions[128];

    snprintf(text, size, "cores");
    if (machine->gpus == 0 || dsf_cuda_about(0, &about, NULL) < 0)
        return;
    dsf_cuda_versions(versions, sizeof(versions));
    snprintf(text, size, "%s, %s", about.name, versions);
}

unsigned dsf_machine_keys_gpus(const struct dsf_machine *machine,
                               const struct dsflow_plan *plan)
{
    unsigned ranks = (unsigned)plan->nranks;

    return machine->gpus < ranks ? machine->gpus : ranks;
}
