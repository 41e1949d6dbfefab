/* gpu_present.c - the GPUs of this machine, measured. */
#include "measure/gpu_present.h"

#include "base/alloc.h"
#include "base/log.h"
#include "exec/cuda_module.h"
#include "measure/calibrate.h"
#include "measure/gpu_links.h"
#include "measure/machine_cache.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* The name that the file has of these GPUs: model and number, versions of CUDA,
 * of the driver and of cuBLASLt, processor. Freed by the caller; NULL without
 * GPUs. */
static char *present_name(const struct dsf_machine *machine)
{
    struct dsf_gpu_about about;
    char versions[128];
    unsigned n;

    if (dsf_cuda_count(&n, NULL) < 0 || dsf_cuda_about(0, &about, NULL) < 0)
        return NULL;
    dsf_cuda_versions(versions, sizeof(versions));
    return dsf_xasprintf("%u x %s, %s, %s, %u core%s", n, about.name, versions,
                         machine->cpu, machine->cores,
                         machine->cores == 1 ? "" : "s");
}

char *dsf_gpu_present_path(const struct dsf_machine *machine)
{
    char *name = present_name(machine), *file, *path;

    if (name == NULL)
        return NULL;
    file = dsf_xasprintf("gpu-%016llx.toml",
                         (unsigned long long)XXH3_64bits(name, strlen(name)));
    path = dsf_machine_cache_file(file);
    free(file);
    free(name);
    return path;
}

bool dsf_gpu_present_load(const struct dsf_machine *machine,
                          struct dsf_machine_model *m)
{
    char *name = present_name(machine);
    char *path = dsf_gpu_present_path(machine);
    bool found = path != NULL && dsf_machine_load(path, name, m);

    free(path);
    free(name);
    return found;
}

/* An update reads and writes the same memory. Copies, which cores were measured
 * with, also read what they write over: 1.5 times the traffic, and less than
 * AdamW had of an H200's main memory. */
static int put_host_bandwidth(const struct dsf_machine *machine,
                              struct dsf_machine_model *m,
                              struct dsflow_err *err)
{
    struct dsf_measured update;
    int status =
        dsf_machine_measure_memory(machine, DSF_BENCH_UPDATE, &update, err);

    if (status == DSFLOW_OK)
        m->main.host_bandwidth = update.value * machine->cores;
    return status;
}

/* What cores do beside the GPUs: they were measured while all of them work. */
static int add_cores(const struct dsf_machine *machine,
                     struct dsf_machine_model *m, struct dsflow_err *err)
{
    struct dsf_machine_model cores;
    int status = dsf_machine_present(machine, &cores, err);

    if (status < 0)
        return status;
    m->main.workers = machine->cores;
    m->main.host = machine->memory;
    for (unsigned k = 0; k < cores.nkinds; k++) {
        const struct dsf_kind_rate *from = &cores.kinds[k];
        struct dsf_kind_rate *to;

        if (from->host)
            continue;
        to = dsf_machine_model_add_kind(m, from->kind, true, from->dtype);
        to->fixed = from->fixed;
        to->per_flop = from->per_flop;
        to->per_byte = from->per_byte;
        to->per_score = from->per_score;
    }
    dsf_machine_model_fini(&cores);
    return put_host_bandwidth(machine, m, err);
}

/* The smallest memory of all, in bytes; `with` is this machine with its GPUs.
 */
static int look(struct dsf_machine *with, int64_t *memory,
                struct dsflow_err *err)
{
    struct dsf_gpu_about about = { .name = "" };
    int status = dsf_cuda_count(&with->gpus, err);

    with->gpu_memory = *memory = INT64_MAX;
    for (unsigned i = with->gpus; i-- > 0 && status == DSFLOW_OK;) {
        status = dsf_cuda_about(i, &about, err);
        if (*memory > (int64_t)about.memory)
            *memory = (int64_t)about.memory;
        if (with->gpu_memory > (int64_t)about.free)
            with->gpu_memory = (int64_t)about.free;
    }
    return status;
}

static void put_flops(const struct dsf_samples *samples, enum dsflow_dtype type,
                      struct dsf_machine_model *m)
{
    double flops =
        dsf_samples_flops(samples, type == DSFLOW_FP32 ? DSFLOW_BYTES : type);

    if (type == DSFLOW_BF16)
        m->main.bf16 = flops;
    else if (type == DSFLOW_FP16)
        m->main.fp16 = flops;
    else if (flops > 0)
        m->main.fp32 = flops;
}

/* Tasks by type; a type of which nothing runs is estimated from fp32. */
static int measure_tasks(const struct dsf_machine *with,
                         const struct dsf_gpu_how *how,
                         struct dsf_machine_model *m,
                         struct dsf_samples *samples, struct dsflow_err *err)
{
    for (unsigned i = 0; i < how->ntypes; i++) {
        /* The last is the job's; fp32 is what little it has beside. */
        bool beside = how->quick && i + 1 < how->ntypes;
        unsigned n = dsf_calibrate_gpus(
            with, how->quick ? DSF_CALIBRATE_QUICK : DSF_CALIBRATE_FULL,
            how->types[i], beside ? how->seconds / 2 : how->seconds, samples,
            err);

        if (n == 0 && i == 0)
            return DSFLOW_EFAIL;
        if (n == 0)
            dsf_warn("%s is not measured: %s", dsflow_dtype_str(how->types[i]),
                     err->msg);
    }
    dsf_rates_fit(samples, m);
    for (unsigned i = 0; i < how->ntypes; i++)
        put_flops(samples, how->types[i], m);
    m->scatter.tasks = dsf_samples_scatter(samples);
    return DSFLOW_OK;
}

static void mend(struct dsf_machine_model *m)
{
    struct dsflow_err err;
    char assumed[32];

    while (dsf_machine_model_check(m, &err) < 0) {
        dsf_machine_model_mend(m, assumed, sizeof(assumed));
        dsf_warn("measured: %s; %s is assumed", err.msg, assumed);
    }
}

int dsf_gpu_present_measure(const struct dsf_machine *machine,
                            const struct dsf_gpu_how *how,
                            struct dsf_machine_model *m,
                            struct dsf_gpu_found *found, struct dsflow_err *err)
{
    enum { LARGEST = 256 << 20 };
    struct dsf_machine with = *machine;
    size_t bytes = LARGEST;
    int status;

    dsf_machine_model_init(m);
    m->main.kind = DSF_MACHINE_GPU;
    status = look(&with, &m->main.memory, err);
    m->main.devices = with.gpus;
    if (status == DSFLOW_OK)
        status = add_cores(machine, m, err);
    while (bytes > (size_t)with.gpu_memory / 16)
        bytes /= 2;
    if (status == DSFLOW_OK)
        status = dsf_gpu_links(with.gpus, bytes, m, &found->links, err);
    if (status == DSFLOW_OK)
        status = measure_tasks(&with, how, m, &found->samples, err);
    if (status == DSFLOW_OK)
        mend(m);
    if (status == DSFLOW_OK)
        status = dsf_calibrate_overhead(&with, m, err);
    free(m->main.name);
    m->main.name = present_name(machine);
    if (status < 0)
        dsf_machine_model_fini(m);
    return status;
}

int dsf_gpu_present_add_type(const struct dsf_machine *machine,
                             enum dsflow_dtype type, double seconds,
                             struct dsf_machine_model *m,
                             struct dsflow_err *err)
{
    struct dsf_machine with = *machine;
    struct dsf_samples samples = { 0 };
    int64_t memory;
    int status = look(&with, &memory, err);

    if (status == DSFLOW_OK &&
        dsf_calibrate_gpus(&with, DSF_CALIBRATE_QUICK, type, seconds, &samples,
                           err) == 0)
        status = DSFLOW_EFAIL;
    if (status == DSFLOW_OK) {
        m->scatter.tasks =
            fmax(m->scatter.tasks, dsf_samples_scatter(&samples));
        dsf_samples_keep_new(&samples, m);
        dsf_rates_fit(&samples, m);
        put_flops(&samples, type, m);
        mend(m);
    }
    free(samples.v);
    return status;
}
