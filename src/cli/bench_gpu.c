/* bench_gpu.c - what the GPUs of this machine do, for dsflow plan and run. */
#include "base/units.h"
#include "cli/cmd.h"
#include "exec/cuda_module.h"
#include "measure/gpu_present.h"
#include "measure/limits.h"
#include "measure/machine_cache.h"

#include <stdlib.h>
#include <string.h>

static void print_rate(const char *what, double rate, const char *unit)
{
    if (rate > 0)
        printf("%-34s %12.1f %s\n", what, rate / 1e9, unit);
}

/* Of each kind, the longest sample. */
static void print_kinds(const struct dsf_machine_model *m,
                        const struct dsf_samples *samples)
{
    const struct dsf_samples none = { 0 };
    struct dsf_kind_limit l;

    printf("\n%-26s %11s %12s %9s %9s\n", "task", "longest, ms", "GFLOP/s",
           "GB/s", "fit off %");
    for (unsigned k = 0; k < m->nkinds; k++) {
        const struct dsf_kind_rate *rate = &m->kinds[k];
        bool any = rate->dtype == DSFLOW_BYTES;
        char kind[80];

        if (rate->host || !dsf_limits_kind(rate, &none, samples, &l))
            continue;
        snprintf(kind, sizeof(kind), "%s%s%s", rate->kind, any ? "" : " ",
                 any ? "" : dsflow_dtype_str(rate->dtype));
        printf("%-26s %11.3f %12.1f %9.1f %9.1f\n", kind,
               l.longest->seconds * 1e3,
               l.longest->work.flops / l.longest->seconds / 1e9,
               l.longest->work.bytes / l.longest->seconds / 1e9, 100 * l.off);
    }
}

static void print_machine(const struct dsf_machine_model *m,
                          const struct dsf_gpu_found *found)
{
    const struct dsf_machine_main *x = &m->main;

    printf("%s: %s each\n", x->name, dsf_size_text((double)x->memory).s);
    print_rate("memory, read and written", x->bandwidth, "GB/s");
    print_rate("main memory to a GPU", found->links.in, "GB/s");
    print_rate("a GPU to main memory", found->links.out, "GB/s");
    print_rate("both at once", found->links.both, "GB/s");
    print_rate(x->devices > 1 ? "from GPU to GPU" : "ranks of the GPU",
               m->link.bandwidth, "GB/s");
    print_rate("fp32, the best task", x->fp32, "GFLOP/s");
    print_rate("bf16, the best task", x->bf16, "GFLOP/s");
    print_rate("fp16, the best task", x->fp16, "GFLOP/s");
    printf("%-34s %12.1f us\n", "a task beside its kernel", x->overhead * 1e6);
    printf("%-34s %12.1f us\n", "the least copy", m->link.latency * 1e6);
    print_kinds(m, &found->samples);
}

static int check_args(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    if (args->nwords > 1)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "bench: %.60s: expected nothing after gpu",
                           args->words[1]);
    for (unsigned i = 0; i < args->nopts; i++)
        if (strcmp(args->opts[i].flag->name, "output") != 0 &&
            strcmp(args->opts[i].flag->name, "quick") != 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "bench: --%s: expected with io and folders only",
                               args->opts[i].flag->name);
    return DSFLOW_OK;
}

int dsf_bench_gpu(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    const double FULL = 60, QUICK = 2; /* seconds of each type */
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    struct dsf_gpu_how how = { .quick = dsf_flag_value(args, "quick") != NULL,
                               .types = types,
                               .ntypes = sizeof(types) / sizeof(*types) };
    struct dsf_gpu_found found = { 0 };
    struct dsf_machine_model m = { 0 };
    struct dsf_machine machine;
    char *path = NULL;
    unsigned ngpus;
    int status = check_args(args, err);

    if (status == DSFLOW_OK)
        status = dsf_machine_probe(&machine, err);
    if (status == DSFLOW_OK) /* the file is named after them */
        status = dsf_cuda_count(&ngpus, err);
    if (status == DSFLOW_OK)
        status =
            dsf_bench_output(args, dsf_gpu_present_path(&machine), &path, err);
    how.seconds = how.quick ? QUICK : FULL;
    if (status == DSFLOW_OK)
        status = dsf_gpu_present_measure(&machine, &how, &m, &found, err);
    if (status == DSFLOW_OK) {
        print_machine(&m, &found);
        status = dsf_machine_save(&m, path, err);
    }
    if (status == DSFLOW_OK)
        printf("\nwritten to %s\n", path);
    free(path);
    free(found.samples.v);
    dsf_machine_model_fini(&m);
    return status;
}
