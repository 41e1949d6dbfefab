/* gpu_once.c - the GPUs of this machine, measured quickly by the first plan or
 * run that is on them. */
#include "measure/gpu_once.h"

#include "base/log.h"
#include "exec/cuda_module.h"
#include "measure/gpu_present.h"
#include "measure/machine_cache.h"
#include "policies/keys.h"

#include <stdlib.h>
#include <string.h>

/* Of each type: what small models need on a GPU, most of it to start. */
static const double SECONDS = 4;

static bool is_forbidden(void)
{
    const char *says = getenv("DSFLOW_MEASURE_GPUS");

    return says != NULL && strcmp(says, "no") == 0;
}

/* Has anybody else much of one? What is measured then would be wrong for good.
 */
static bool are_idle(unsigned n)
{
    struct dsf_gpu_about about;

    for (unsigned i = 0; i < n; i++)
        if (dsf_cuda_about(i, &about, NULL) < 0 ||
            about.free < about.memory / 4 * 3)
            return false;
    return true;
}

/* Is the job on all of them, in this process, and nobody else? A GPU on which
 * no rank is, is left alone. */
static bool may_measure(const struct dsf_machine *machine,
                        const struct dsf_job *job)
{
    unsigned n;

    return !is_forbidden() && machine->processes <= 1 &&
           dsf_cuda_count(&n, NULL) == DSFLOW_OK && machine->gpus == n &&
           dsf_job_ranks(job) >= n && are_idle(n);
}

static void keep(const struct dsf_machine *machine,
                 const struct dsf_machine_model *m)
{
    char *path = dsf_gpu_present_path(machine);
    struct dsflow_err err;

    if (path != NULL && dsf_machine_save(m, path, &err) < 0)
        dsf_warn("what was measured is not kept: %s", err.msg);
    free(path);
}

static bool measure(const struct dsf_machine *machine, enum dsflow_dtype type,
                    struct dsf_machine_model *m)
{
    const enum dsflow_dtype types[] = { DSFLOW_FP32, type };
    const struct dsf_gpu_how how = { .quick = true,
                                     .seconds = SECONDS,
                                     .types = types,
                                     .ntypes = type == DSFLOW_FP32 ? 1 : 2 };
    struct dsf_gpu_found found = { 0 };
    struct dsflow_err err;
    int status;

    dsf_info("measuring the GPU%s, once: this takes some seconds (dsflow bench "
             "gpu measures more)",
             machine->gpus == 1 ? "" : "s");
    status = dsf_gpu_present_measure(machine, &how, m, &found, &err);
    free(found.samples.v);
    if (status == DSFLOW_OK)
        keep(machine, m);
    else
        dsf_warn("the GPUs are not measured: %s", err.msg);
    return status == DSFLOW_OK;
}

/* What was measured before a job asked for this type is completed. */
static void add_type(const struct dsf_machine *machine, enum dsflow_dtype type,
                     struct dsf_machine_model *m)
{
    struct dsflow_err err;

    dsf_info("measuring the GPU%s in %s, once: this takes some seconds",
             machine->gpus == 1 ? "" : "s", dsflow_dtype_str(type));
    if (dsf_gpu_present_add_type(machine, type, SECONDS, m, &err) == DSFLOW_OK)
        keep(machine, m);
    else
        dsf_warn("%s is not measured: %s", dsflow_dtype_str(type), err.msg);
}

bool dsf_gpu_once(const struct dsf_machine *machine, const struct dsf_job *job,
                  struct dsf_machine_model *m)
{
    enum dsflow_dtype type = dsf_compute_type(job);
    bool may = may_measure(machine, job);

    if (!dsf_gpu_present_load(machine, m))
        return may && measure(machine, type, m);
    if (may && type != DSFLOW_FP32 && !dsf_machine_model_knows(m, type))
        add_type(machine, type, m);
    return true;
}
