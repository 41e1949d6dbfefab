/* machine.c - what this machine has, and how much of it is ours: hwloc for the
 * topology, the cgroup for what it allows. */
#include "machine/machine.h"

#include "base/alloc.h"

#include <ctype.h>
#include <hwloc.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The first number of a file, or -1: "max" is no number. */
static int64_t read_number(const char *path)
{
    FILE *f = fopen(path, "r");
    int64_t n = -1;

    if (f == NULL)
        return -1;
    if (fscanf(f, "%" SCNd64, &n) != 1)
        n = -1;
    fclose(f);
    return n;
}

/* "key: 123 kB" of /proc/meminfo, in bytes. */
static int64_t meminfo(const char *key)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[256];
    int64_t kib = -1;
    size_t n = strlen(key);

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, n) == 0 && line[n] == ':')
            kib = strtoll(line + n + 1, NULL, 10);
    if (f != NULL)
        fclose(f);
    return kib < 0 ? -1 : kib << 10;
}

static void limit(int64_t *value, int64_t most)
{
    if (most >= 0 && most < *value)
        *value = most;
}

/* The folder of our cgroup (version 2), and every one above it, may hold us to
 * less; version 1 has one file that matters. */
static void cgroup_memory(struct dsf_machine *m)
{
    char line[512], path[768], *at;
    FILE *f = fopen("/proc/self/cgroup", "r");
    int64_t v1 = read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes");

    if (v1 >= 0) {
        limit(&m->memory, v1);
        limit(&m->available,
              v1 - read_number("/sys/fs/cgroup/memory/memory.usage_in_bytes"));
    }
    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, "0::", 3) != 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        for (at = line + 3;;) {
            int64_t max, used;

            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.max", at);
            max = read_number(path);
            snprintf(path, sizeof(path), "/sys/fs/cgroup%s/memory.current",
                     at);
            used = read_number(path);
            if (max >= 0) {
                limit(&m->memory, max);
                limit(&m->available, max - (used > 0 ? used : 0));
            }
            if (strrchr(at, '/') == NULL || at[0] == '\0')
                break;
            *strrchr(at, '/') = '\0';
        }
    }
    if (f != NULL)
        fclose(f);
}

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

static void name_cpu(struct dsf_machine *m, hwloc_topology_t topology)
{
    hwloc_obj_t package =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *name =
        package == NULL ? NULL
                        : hwloc_obj_get_info_by_name(package, "CPUModel");

    snprintf(m->cpu, sizeof(m->cpu), "%s", name != NULL ? name : "unknown");
    for (size_t n = strlen(m->cpu); n > 0 && isspace(m->cpu[n - 1]); n--)
        m->cpu[n - 1] = '\0';
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
    hwloc_topology_t topology;
    cpu_set_t set;

    memset(m, 0, sizeof(*m));
    if (hwloc_topology_init(&topology) < 0 ||
        hwloc_topology_load(topology) < 0)
        return dsflow_fail(err, DSFLOW_EFAIL,
                           "machine: hwloc cannot read the topology: %m");
    m->cores =
        (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    if (m->cores < 1)
        m->cores = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    if (sched_getaffinity(0, sizeof(set), &set) == 0 &&
        (unsigned)CPU_COUNT(&set) < m->cores)
        m->cores = (unsigned)CPU_COUNT(&set);
    m->numa = (unsigned)hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    m->l2 = cache_size(topology, HWLOC_OBJ_L2CACHE);
    m->l3 = cache_size(topology, HWLOC_OBJ_L3CACHE);
    name_cpu(m, topology);
    hwloc_topology_destroy(topology);

    cgroup_cores(m);
    m->memory = meminfo("MemTotal");
    m->available = meminfo("MemAvailable");
    cgroup_memory(m);
    snprintf(m->isa, sizeof(m->isa), "%s", find_isa());
    return DSFLOW_OK;
}
