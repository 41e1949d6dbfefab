/* cmd_report.c - the machine and the libraries, as dsflow sees them. */
#include "config.h"

#include "base/units.h"
#include "cli/cmd.h"
#include "exec/about.h"
#include "exec/cuda_module.h"
#include "exec/nccl.h"
#include "kernels/kernels.h"
#include "machine/machine.h"
#include "net/net.h"

static void report_gpu(unsigned gpu)
{
    struct dsf_gpu_about about;
    struct dsflow_err err;

    if (dsf_cuda_about(gpu, &about, &err) < 0)
        printf("GPU %-6u %s\n", gpu, err.msg);
    else
        printf("GPU %-6u %s: %s, %s free, compute capability %d.%d, %u "
               "processors\n",
               gpu, about.name, dsf_size_text((double)about.memory).s,
               dsf_size_text((double)about.free).s, about.major, about.minor,
               about.processors);
}

/* Or, in one line, why there are none. */
static void report_gpus(void)
{
    struct dsflow_err err;
    unsigned n;
    int status = dsf_cuda_count(&n, &err);
    char versions[128];

    if (status < 0) {
        printf("GPUs       none: %s\n", err.msg);
        return;
    }
    dsf_cuda_versions(versions, sizeof(versions));
    printf("GPUs       %u, %s\n", n, versions);
    for (unsigned i = 0; i < n; i++)
        report_gpu(i);
}

static void report_nccl(void)
{
    struct dsflow_err err;
    const struct dsf_nccl_version version = dsf_nccl_version(&err);

    printf("NCCL       %s%s\n", version.s[0] != '\0' ? version.s : "none: ",
           version.s[0] != '\0' ? "" : err.msg);
}

static void report_mpi(void)
{
    struct dsflow_err err;
    const char *version = dsf_net_version(&err);

    printf("MPI        %s%s\n", version != NULL ? version : "none: ",
           version != NULL ? "" : err.msg);
}

static int report(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    struct dsf_machine m;
    int status = dsf_machine_probe(&m, err);

    if (status < 0)
        return status;
    printf("dsflow     %s\n", PACKAGE_VERSION);
    printf("processor  %s\n", m.cpu);
    printf("cores      %u that this process may use, %u NUMA node%s\n",
           m.cores, m.numa, m.numa == 1 ? "" : "s");
    printf("caches     %s a core, %s shared\n", dsf_size_text((double)m.l2).s,
           dsf_size_text((double)m.l3).s);
    printf("memory     %s, %s free\n", dsf_size_text((double)m.memory).s,
           dsf_size_text((double)m.available).s);
    printf("kernels    %s\n", dsf_kernels_isa());
    printf("StarPU     %s\n", dsf_exec_starpu_version());
    report_mpi();
    report_gpus();
    report_nccl();
    return DSFLOW_OK;
}

const struct dsf_cmd dsf_cmd_report = {
    .name = "report",
    .args = "",
    .summary = "the machine and the libraries, and what is missing",
    .help = "Prints what dsflow found: processor, memory (as far as the cgroup\n"
            "allows), libraries, devices, and how to get what is missing.",
    .most = 0,
    .run = report,
};
