/* cpu.c - the cores, as a device: main memory is theirs, and a launch runs on
 * the thread that asks for it. */
#include "exec/device.h"

#include "base/alloc.h"
#include "base/units.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int cpu_open(struct dsf_device *device, struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void cpu_close(struct dsf_device *device)
{
}

/* Zeroed by the kernel, and in huge pages where it gives them. */
static void *cpu_allocate(struct dsf_device *device, size_t bytes,
                          const char *what, struct dsflow_err *err)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED) {
        dsflow_fail(err, DSFLOW_ENOMEM, "memory: %s for %s: %m",
                    dsf_size_text((double)bytes).s, what);
        return NULL;
    }
    madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

static void cpu_release(struct dsf_device *device, void *at, size_t bytes)
{
    if (at != NULL)
        munmap(at, bytes);
}

/* Pages that were touched. */
static size_t cpu_resident(const struct dsf_device *device, const void *at,
                           size_t bytes)
{
    size_t n = bytes / 4096, resident = 0;
    unsigned char *pages = dsf_xcalloc(n + 1, 1);

    if (at != NULL && mincore((void *)(uintptr_t)at, bytes, pages) == 0)
        for (size_t i = 0; i < n; i++)
            resident += (pages[i] & 1) * 4096u;
    free(pages);
    return resident;
}

static int cpu_pin(struct dsf_device *device, void *at, size_t bytes,
                   struct dsflow_err *err)
{
    return DSFLOW_OK;
}

static void cpu_unpin(struct dsf_device *device, void *at, size_t bytes)
{
}

static void cpu_launch(struct dsf_device *device, struct dsf_launch *launch)
{
    launch->start = dsf_now();
    dsf_device_compute(launch);
    for (unsigned i = 0; i < launch->ncopies; i++)
        memcpy(launch->copies[i].to, launch->copies[i].from,
               launch->copies[i].bytes);
    launch->end = dsf_now();
    dsf_device_done(device, launch);
}

static double cpu_clock(const struct dsf_device *device)
{
    return dsf_now();
}

const struct dsf_device_class dsf_device_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .allocate = cpu_allocate,
    .release = cpu_release,
    .resident = cpu_resident,
    .pin = cpu_pin,
    .unpin = cpu_unpin,
    .scratch = dsf_task_scratch,
    .launch = cpu_launch,
    .clock = cpu_clock,
};
