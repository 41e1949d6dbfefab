/* machine.c - what this machine has, and how much of it is ours: hwloc for the
 * topology, the cgroup for what it allows. */
#include "machine/machine.h"

#include "machine/memory.h"

#include <ctype.h>
#include <errno.h>
#include <hwloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Cores' worth of time that the cgroup grants, rounded up. */
static void cgroup_cores(struct dsf_machine *m)
{
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    double quota, period;

    if (f == NULL)
        return;
    if (fscanf(f, "%lf %lf", &quota, &period) == 2 && period > 0 &&
        quota / period < m->cores)
        m->cores = (unsigned)(quota / period + 0.999);
    if (m->cores < 1)
        m->cores = 1;
    fclose(f);
}

static int64_t cache_size(hwloc_topology_t topology, hwloc_obj_type_t type)
{
    hwloc_obj_t cache = hwloc_get_obj_by_type(topology, type, 0);

    return cache == NULL ? 0 : (int64_t)cache->attr->cache.size;
}

static void name_cpu(struct dsf_topology *t, hwloc_topology_t topology)
{
    hwloc_obj_t package =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *name =
        package == NULL ? NULL
                        : hwloc_obj_get_info_by_name(package, "CPUModel");

    snprintf(t->cpu, sizeof(t->cpu), "%s", name != NULL ? name : "unknown");
    for (size_t n = strlen(t->cpu); n > 0 && isspace(t->cpu[n - 1]); n--)
        t->cpu[n - 1] = '\0';
}

/* What does not change while the program runs. */
static struct {
    struct dsf_topology t;
    int why; /* errno, where it cannot be read */
} found;

static void find(void)
{
    struct dsf_topology *t = &found.t;
    hwloc_topology_t topology;

    if (hwloc_topology_init(&topology) < 0 ||
        hwloc_topology_load(topology) < 0) {
        found.why = errno != 0 ? errno : EIO;
        return;
    }
    t->cores = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    if (t->cores < 1)
        t->cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    t->numa = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    t->l2 = cache_size(topology, HWLOC_OBJ_L2CACHE);
    t->l3 = cache_size(topology, HWLOC_OBJ_L3CACHE);
    name_cpu(t, topology);
    hwloc_topology_destroy(topology);
}

int dsf_topology_probe(struct dsf_topology *t, struct dsflow_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find);
    *t = found.t;
    return found.why == 0
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EFAIL,
                             "machine: hwloc cannot read the topology: %s",
                             strerror(found.why));
}

static const char *find_isa(void)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f"))
        return "avx512";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return "avx2";
#endif
    return "portable";
}

int dsf_machine_probe(struct dsf_machine *m, struct dsflow_err *err)
{
    struct dsf_memory memory;
    struct dsf_topology t;
    int status = dsf_topology_probe(&t, err);
    int64_t said;
    cpu_set_t set;

    memset(m, 0, sizeof(*m));
    if (status < 0)
        return status;
    m->cores = t.cores;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 &&
        (unsigned)CPU_COUNT(&set) < m->cores)
        m->cores = (unsigned)CPU_COUNT(&set);
    m->numa = t.numa;
    m->l2 = t.l2;
    m->l3 = t.l3;
    snprintf(m->cpu, sizeof(m->cpu), "%s", t.cpu);

    cgroup_cores(m);
    if (dsf_memory_said(&said, err) < 0)
        return DSFLOW_EINVAL;
    memory = dsf_memory_probe("");
    m->memory = memory.total;
    m->available = memory.available;
    snprintf(m->isa, sizeof(m->isa), "%s", find_isa());
    return DSFLOW_OK;
}
