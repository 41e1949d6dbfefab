/* cmd_report.c - the machine and the libraries, as dsflow sees them. */
#include "config.h"

#include "base/units.h"
#include "cli/cmd.h"
#include "exec/about.h"
#include "kernels/kernels.h"
#include "machine/machine.h"

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
    printf("GPUs       %s\n",
           dsf_exec_has_cuda()
               ? "StarPU knows CUDA; this version of dsflow has no GPU kernels"
               : "StarPU was built without CUDA, and this version of dsflow "
                 "has no GPU kernels");
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
