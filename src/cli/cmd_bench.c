/* cmd_bench.c - the machine's own limits, and the file that plan reads. */
#include "base/alloc.h"
#include "cli/cmd.h"
#include "cli/launch.h"
#include "measure/limits.h"
#include "measure/machine_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct bench {
    struct dsf_machine machine;
    struct dsf_machine_model model;
    struct dsf_limits how;
};

static void print_titles(const char *what, const char *of, const char *unit)
{
    char one[32];

    snprintf(one, sizeof(one), "1 core, %s", unit);
    printf("%-16s %21s %15s %12s %12s\n", what, of, one, "each of all",
           "scatter, %");
}

/* Billions a second. */
static void print_limit(void *user, const struct dsf_limit *l)
{
    printf("%-16s %21s %15.1f %12.1f %12.0f\n", l->what, l->size,
           l->one.value / 1e9, l->all.value / 1e9,
           100 * fmax(l->one.scatter, l->all.scatter));
}

static int bench_gemm(struct bench *b, struct dsflow_err *err)
{
    print_titles("product", "m x n x k", "GFLOP/s");
    return dsf_limits_gemm(&b->how, &b->model, err);
}

static int bench_memory(struct bench *b, struct dsflow_err *err)
{
    print_titles("memory", "size", "GB/s");
    return dsf_limits_memory(&b->how, &b->model, err);
}

static int bench_link(struct bench *b, struct dsflow_err *err)
{
    print_titles("link", "size", "GB/s");
    return dsf_limits_link(&b->how, &b->model, err);
}

/* Of a kind: the longest sample, and how far the rates are from the samples. */
static void print_kind(const struct dsf_kind_rate *rate,
                       const struct dsf_kind_limit *l)
{
    const struct dsf_rate_sample *longest = l->longest;
    bool any = rate->dtype == DSFLOW_BYTES;
    char ratio[16] = "", kind[80];

    snprintf(kind, sizeof(kind), "%s%s%s", rate->kind, any ? "" : " ",
             any ? "" : dsflow_dtype_str(rate->dtype));

    if (!isnan(l->against_one))
        snprintf(ratio, sizeof(ratio), "%.2f", l->against_one);
    printf("%-26s %11.3f %9.1f %9.1f %10s %9.1f %9.1f\n", kind,
           longest->seconds * 1e3, longest->work.flops / longest->seconds / 1e9,
           longest->work.bytes / longest->seconds / 1e9, ratio, 100 * l->off,
           100 * l->most_off);
}

/* In fp32 and bf16, which jobs are weighed between; in fp16 where a job has
 * asked for it before. */
static void time_tasks(const struct bench *b, unsigned workers,
                       struct dsf_samples *samples)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
        if (types[i] != DSFLOW_FP16 ||
            dsf_machine_model_knows(&b->model, types[i]))
            dsf_calibrate_tasks(&b->machine, workers, DSF_CALIBRATE_FULL,
                                types[i], samples);
}

static int bench_tasks(struct bench *b, struct dsflow_err *err)
{
    struct dsf_samples one = { 0 }, all = { 0 };
    struct dsf_machine_model *m = &b->model;
    struct dsf_kind_limit limit;
    int status;

    time_tasks(b, 1, &one);
    time_tasks(b, b->machine.cores, &all);
    dsf_rates_fit(&all, m);
    m->scatter.tasks = dsf_samples_scatter(&all);
    status = dsf_calibrate_overhead(&b->machine, m, err);
    printf("%-26s %11s %9s %9s %10s %9s %9s\n", "task, on all cores",
           "longest, ms", "GFLOP/s", "GB/s", "x 1 core's", "fit off %",
           "at most %");
    for (unsigned k = 0; k < m->nkinds; k++)
        if (dsf_limits_kind(&m->kinds[k], &one, &all, &limit))
            print_kind(&m->kinds[k], &limit);
    printf("a task takes %.1f us beside its kernel; scatter of tasks %.0f %%, "
           "of steps %.0f %%\n",
           m->main.overhead * 1e6, 100 * m->scatter.tasks,
           100 * m->scatter.overhead);
    free(one.v);
    free(all.v);
    return status;
}

static const struct part {
    const char *name;
    int (*run)(struct bench *b, struct dsflow_err *err);
} parts[] = {
    { "gemm", bench_gemm },
    { "memory", bench_memory },
    { "tasks", bench_tasks },
    { "link", bench_link },
};
enum { NPARTS = sizeof(parts) / sizeof(*parts) };

/* The parts that are named, or all. */
static int read_parts(const struct dsf_cli_args *args, bool asked[NPARTS],
                      struct dsflow_err *err)
{
    for (unsigned k = 0; k < NPARTS; k++)
        asked[k] = args->nwords == 0;
    for (unsigned i = 0; i < args->nwords; i++) {
        unsigned k = 0;

        while (k < NPARTS && strcmp(parts[k].name, args->words[i]) != 0)
            k++;
        if (k == NPARTS)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "bench: %.60s: expected gemm, memory, tasks, "
                               "link, gpu alone, or io and folders",
                               args->words[i]);
        asked[k] = true;
    }
    return DSFLOW_OK;
}

/* Those of others were not given. */
static int check_flags(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    if (dsf_launch_is_asked(args))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "bench: -n, --hosts, --hostfile: expected with link "
                           "alone");
    for (unsigned i = 0; i < args->nopts; i++) {
        const char *name = args->opts[i].flag->name;
        bool quick = strcmp(name, "quick") == 0;

        if (strcmp(name, "output") != 0)
            return dsflow_fail(
                err, DSFLOW_EINVAL, "bench: --%s: expected with %s only", name,
                quick ? "gpu, link -n, or io and folders" : "io and folders");
    }
    return DSFLOW_OK;
}

int dsf_bench_output(const struct dsf_cli_args *args, char *cached, char **path,
                     struct dsflow_err *err)
{
    const char *output = dsf_flag_value(args, "output");

    *path = cached;
    if (output != NULL) {
        free(cached);
        *path = dsf_xstrdup(output);
    }
    if (*path == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "bench: neither HOME nor XDG_CACHE_HOME is set: "
                           "expected --output FILE");
    return dsf_machine_can_save(*path, err);
}

static int bench(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    char *path = NULL;
    struct bench b = { .how = { .patience = 1, .on_limit = print_limit } };
    bool asked[NPARTS], first = true;
    int status = read_parts(args, asked, err);

    if (status == DSFLOW_OK)
        status = check_flags(args, err);
    if (status == DSFLOW_OK)
        status = dsf_bench_output(args, dsf_machine_cache_path(), &path, err);
    if (status == DSFLOW_OK)
        status = dsf_machine_probe(&b.machine, err);
    b.how.cores = b.machine.cores;
    /* What is not measured now keeps its value. */
    if (status == DSFLOW_OK)
        status = dsf_machine_present(&b.machine, &b.model, err);
    for (int i = 0; i < NPARTS && status == DSFLOW_OK; i++) {
        if (!asked[i])
            continue;
        if (!first)
            printf("\n");
        first = false;
        status = parts[i].run(&b, err);
        fflush(stdout);
    }
    if (status == DSFLOW_OK)
        status = dsf_machine_save(&b.model, path, err);
    if (status == DSFLOW_OK) {
        printf("\nwritten to %s\n", path);
        fflush(stdout);
        dsf_warn_of_scatter(&b.model, "the machine", "run dsflow bench again");
    }
    dsf_machine_model_fini(&b.model);
    free(path);
    return status;
}

static int bench_what(const struct dsf_cli_args *args, struct dsflow_err *err)
{
    if (args->nwords > 0 && strcmp(args->words[0], "io") == 0)
        return dsf_bench_io(args, err);
    if (args->nwords > 0 && strcmp(args->words[0], "gpu") == 0)
        return dsf_bench_gpu(args, err);
    if (dsf_bench_link_is_asked(args))
        return dsf_bench_link(args, err);
    return bench(args, err);
}

static const struct dsf_flag bench_flags[] = {
    { "output", "FILE", "write the machine file here, not in the cache" },
    DSF_FLAGS_LAUNCH,
    { "size", "SIZE", "io: size of all files together (1GiB)" },
    { "block", "SIZE", "io: try requests of this size only" },
    { "depth", "N", "io: try this many requests in flight only" },
    { "quick", NULL, "io, gpu, link -n: a part of it, in some seconds" },
    { 0 },
};

const struct dsf_cmd dsf_cmd_bench = {
    .name = "bench",
    .args = "[gemm] [memory] [tasks] [link] | gpu | io FOLDER…",
    .summary = "measure this machine, for dsflow plan",
    .help =
        "Measures products of matrices, memory, every kind of task and copies\n"
        "between ranks, all of them where none is named, and writes a machine\n"
        "file that dsflow plan and dsflow run predict with. Tasks take a\n"
        "minute and a half in fp32 and as much in bf16 (and in fp16, where a\n"
        "job has computed in it), the rest some seconds. Without it plan and\n"
        "run measure less, once. Nothing else should run.\n"
        "\n"
        "dsflow bench link -n 2 measures messages between processes, which\n"
        "mpirun starts here or on --hosts, as it does those of dsflow run:\n"
        "the time of a small one, and megabytes a second each way and both\n"
        "ways at once, while cores are idle and while they compute. Between\n"
        "hosts it goes to [network] of the machine file, in one to [link].\n"
        "\n"
        "dsflow bench gpu measures the GPUs: memory, links, what a task takes\n"
        "beside its kernel, and every kind of task in fp32, bf16 and fp16, in\n"
        "models as large as there is time for: some three minutes. Without it\n"
        "the first plan or run that is on all GPUs of this machine measures\n"
        "them quickly; others predict no times of jobs on them.\n"
        "\n"
        "dsflow bench io FOLDER… measures the disks of these folders, with\n"
        "files that have no name: blocks and numbers of transfers in flight,\n"
        "threads and files, for reading, writing and both, beside fio where\n"
        "it is installed. It ends with the tables to paste: [memory.nvme]\n"
        "for a job, and [disk] for a machine file, which --output writes.",
    .flags = bench_flags,
    .most = 64, /* parts, or folders */
    .run = bench_what,
};
