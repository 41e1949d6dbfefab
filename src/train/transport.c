/* transport.c - what carries messages between the processes of a job: MPI, by
 * way of main memory, or NCCL, from GPU to GPU. The numbers are the same. */
#include "train/transport.h"

#include "base/log.h"
#include "exec/nccl.h"

static bool share_a_gpu(const struct dsf_processes *all,
                        const struct dsf_machine *machine, int32_t a, int32_t b)
{
    const int32_t p = dsf_process_of(all, a), q = dsf_process_of(all, b);

    return p != q &&
           dsf_process_node(all, machine, p) ==
               dsf_process_node(all, machine, q) &&
           (unsigned)a % machine->gpus == (unsigned)b % machine->gpus;
}

/* NCCL wants one process for each GPU. */
static int check_own_gpus(const struct dsf_processes *all,
                          const struct dsf_machine *machine,
                          struct dsflow_err *why)
{
    for (int32_t a = 0; a < all->ranks; a++)
        for (int32_t b = 0; b < a; b++)
            if (share_a_gpu(all, machine, a, b))
                return dsflow_fail(
                    why, DSFLOW_EINVAL,
                    "ranks %d and %d are on one GPU, in two processes", (int)b,
                    (int)a);
    return DSFLOW_OK;
}

static int check(const struct dsf_processes *all,
                 const struct dsf_machine *machine, struct dsflow_err *why)
{
    if (machine->gpus == 0)
        return dsflow_fail(why, DSFLOW_EINVAL, "ranks are not on GPUs");
    if (check_own_gpus(all, machine, why) < 0)
        return DSFLOW_EINVAL;
    return dsf_nccl_module_open(why) != NULL ? DSFLOW_OK : DSFLOW_ENOSYS;
}

int dsf_transport_choose(const struct dsf_job *job,
                         const struct dsf_machine *machine,
                         const struct dsf_processes *all, bool *direct,
                         struct dsflow_err *err)
{
    const int wanted = job->mesh.transport;
    struct dsflow_err why;

    *direct = wanted != DSF_TRANSPORT_MPI &&
              check(all, machine, &why) == DSFLOW_OK;
    if (wanted == DSF_TRANSPORT_NCCL && !*direct)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "mesh", "transport",
                            "nccl: %s", why.msg);
    if (*direct)
        dsf_info("messages go from GPU to GPU, by NCCL %s",
                 dsf_nccl_version(NULL).s);
    else if (machine->gpus > 0 && wanted == DSF_TRANSPORT_AUTO)
        dsf_info("messages go by way of main memory, by MPI: %s", why.msg);
    return DSFLOW_OK;
}

void dsf_transport_warn_of_one(const struct dsf_job *job)
{
    struct dsflow_err text;

    if (job->mesh.transport == DSF_TRANSPORT_AUTO)
        return;
    dsf_job_fail(job, &text, DSFLOW_EINVAL, "mesh", "transport",
                 "has no effect: one process has all ranks");
    dsf_warn("%s", text.msg);
}
