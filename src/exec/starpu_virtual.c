/* starpu_virtual.c - virtual devices: PoCL gives StarPU OpenCL devices with
 * memory of their own, and the kernels that run there are the CPU's, on the
 * mapped buffers. What a GPU would show of transfers, eviction and placement
 * so shows on any machine. */
#include "config.h"

/* Before StarPU's headers, which settle for 1.0. */
#define CL_TARGET_OPENCL_VERSION 120

#include "exec/starpu_private.h"
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

#ifdef STARPU_USE_OPENCL
#include <starpu_opencl.h>

static cl_map_flags map_flags(enum dsflow_access access)
{
    return access == DSFLOW_R   ? CL_MAP_READ
           : access == DSFLOW_W ? CL_MAP_WRITE_INVALIDATE_REGION
                                : CL_MAP_READ | CL_MAP_WRITE;
}

static cl_mem memory_of(void *buffer)
{
    return (cl_mem)STARPU_VARIABLE_GET_DEV_HANDLE(buffer);
}

static void run_virtual(void *buffers[], void *arg)
{
    const struct dsf_exec_call *call = arg;
    unsigned worker = dsf_starpu_worker();
    struct dsflow_buf *bufs = call->exec->workers[worker].bufs;
    cl_command_queue queue;
    cl_int ret = CL_SUCCESS;

    starpu_opencl_get_queue(starpu_worker_get_devid((int)worker), &queue);
    for (unsigned p = 0; p < call->task->ndata; p++) {
        bufs[p] = dsf_exec_buf(call, p, NULL);
        bufs[p].ptr =
            clEnqueueMapBuffer(queue, memory_of(buffers[p]), CL_TRUE,
                               map_flags(dsflow_task_access(call->task, p)),
                               STARPU_VARIABLE_GET_OFFSET(buffers[p]),
                               bufs[p].bytes, 0, NULL, NULL, &ret);
        if (ret != CL_SUCCESS)
            STARPU_OPENCL_REPORT_ERROR(ret);
    }
    dsf_exec_run(call, bufs, worker);
    for (unsigned p = 0; p < call->task->ndata; p++)
        clEnqueueUnmapMemObject(queue, memory_of(buffers[p]), bufs[p].ptr, 0,
                                NULL, NULL);
    clFinish(queue);
}

const dsf_starpu_fn dsf_starpu_run_virtual = run_virtual;
#else
const dsf_starpu_fn dsf_starpu_run_virtual = NULL;
#endif

int dsf_starpu_offer_virtual(unsigned n, size_t bytes, struct dsflow_err *err)
{
    char devices[64 * 6 + 1] = "", limit[32];
    struct dsf_machine machine;
    int status;

    if (n == 0) {
        setenv("STARPU_NOPENCL", "0", 1);
        return DSFLOW_OK;
    }
    status = dsf_machine_probe(&machine, err);
    if (status < 0)
        return status;
    /* PoCL asks hwloc for memory, and ends the process where there is none. */
    if (!machine.has_sysfs)
        return dsflow_fail(err, DSFLOW_EFIT,
                           "machine: virtual: %u devices: PoCL needs /sys, "
                           "which is not mounted here",
                           n);
    /* "basic" devices run on the calling thread: one core each. */
    for (unsigned i = 0; i < n && i < 64; i++)
        strcat(devices, "basic ");
    setenv("POCL_DEVICES", devices, 1);
    setenv("STARPU_OPENCL_ON_CPUS", "1", 1);
    setenv("STARPU_OPENCL_ONLY_ON_CPUS", "1", 1);
    unsetenv("STARPU_NOPENCL");
    if (bytes > 0) {
        snprintf(limit, sizeof(limit), "%zu", bytes >> 20);
        setenv("STARPU_LIMIT_OPENCL_MEM", limit, 1);
    }
    return DSFLOW_OK;
}
