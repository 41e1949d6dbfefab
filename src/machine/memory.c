/* memory.c - how much main memory this process may use: what the kernel says is
 * free, and the limits of its cgroups. */
#include "machine/memory.h"

#include "base/alloc.h"
#include "base/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

/* The files of a cgroup, of both versions. */
struct version {
    const char *mount;
    const char *limits[2]; /* "max" is no number, and no limit */
    const char *used;
    const char *cached[2]; /* keys of memory.stat */
};

static const struct version v1 = {
    "/sys/fs/cgroup/memory",
    { "memory.limit_in_bytes", NULL },
    "memory.usage_in_bytes",
    { "total_active_file", "total_inactive_file" },
};

static const struct version v2 = {
    "/sys/fs/cgroup",
    { "memory.max", "memory.high" },
    "memory.current",
    { "active_file", "inactive_file" },
};

/* The first number of a file, or -1. */
static int64_t read_number(const char *folder, const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "r");
    int64_t n = -1;

    if (f != NULL && fscanf(f, "%" SCNd64, &n) != 1)
        n = -1;
    if (f != NULL)
        fclose(f);
    free(path);
    return n;
}

/* The number after `key` and a space or a colon; -1: there is none. */
static int64_t read_key(const char *folder, const char *name, const char *key)
{
    char *path = dsf_xasprintf("%s/%s", folder, name), line[256];
    FILE *f = fopen(path, "r");
    size_t n = strlen(key);
    int64_t value = -1;

    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        if (strncmp(line, key, n) == 0 && (line[n] == ':' || line[n] == ' '))
            value = strtoll(line + n + 1, NULL, 10);
    if (f != NULL)
        fclose(f);
    free(path);
    return value;
}

static void limit(int64_t *value, int64_t most)
{
    if (most < 0)
        most = 0;
    if (*value < 0 || most < *value)
        *value = most;
}

/* What one cgroup allows. */
static void limit_to(const char *folder, const struct version *v,
                     struct dsf_memory *m)
{
    int64_t used = read_number(folder, v->used);

    for (int i = 0; i < 2 && used > 0; i++) {
        int64_t cached = read_key(folder, "memory.stat", v->cached[i]);

        used -= cached > 0 ? cached : 0;
    }
    for (int i = 0; i < 2 && v->limits[i] != NULL; i++) {
        int64_t most = read_number(folder, v->limits[i]);

        if (most < 0)
            continue;
        limit(&m->total, most);
        limit(&m->available, most - (used > 0 ? used : 0));
    }
}

/* The cgroup `path`, and every one above it: each may hold us to less. In a
 * container the path may be one of outside; then the top is ours. */
static void limit_to_all(const char *root, const struct version *v, char *path,
                         struct dsf_memory *m)
{
    for (;;) {
        char *folder = dsf_xasprintf("%s%s%s", root, v->mount, path);

        limit_to(folder, v, m);
        free(folder);
        if (strrchr(path, '/') == NULL)
            break;
        *strrchr(path, '/') = '\0';
    }
}

/* Is "memory" among the comma-separated controllers? */
static int has_memory(const char *controllers)
{
    for (const char *c = controllers; *c != '\0'; c += *c == ',') {
        size_t n = strcspn(c, ",");

        if (n == 6 && strncmp(c, "memory", n) == 0)
            return 1;
        c += n;
    }
    return 0;
}

/* "0::/path" of version 2, "4:memory:/path" of version 1. */
static void read_cgroups(const char *root, struct dsf_memory *m)
{
    char *file = dsf_xasprintf("%s/proc/self/cgroup", root), line[4096];
    FILE *f = fopen(file, "r");

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        char *names = strchr(line, ':');
        char *path = names == NULL ? NULL : strchr(names + 1, ':');

        if (path == NULL)
            continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        if (names[1] == '\0')
            limit_to_all(root, &v2, path, m);
        else if (has_memory(names + 1))
            limit_to_all(root, &v1, path, m);
    }
    if (f != NULL)
        fclose(f);
    free(file);
}

/* Where /proc is not mounted, the kernel still tells how much there is, but not
 * how much of it would be given up for us: all counts as free. */
static struct dsf_memory ask_kernel(void)
{
    struct sysinfo info;
    int64_t total;

    if (sysinfo(&info) < 0)
        return (struct dsf_memory){ -1, -1 };
    total = (int64_t)info.totalram * info.mem_unit;
    return (struct dsf_memory){ total, total };
}

static struct dsf_memory read_proc(const char *root)
{
    char *proc = dsf_xasprintf("%s/proc", root);
    int64_t total = read_key(proc, "meminfo", "MemTotal");
    int64_t available = read_key(proc, "meminfo", "MemAvailable");

    free(proc);
    return total < 0 || available < 0
               ? ask_kernel()
               : (struct dsf_memory){ total << 10, available << 10 };
}

int dsf_memory_said(int64_t *bytes, struct dsflow_err *err)
{
    const char *said = getenv("DSFLOW_MEMORY");

    *bytes = -1;
    if (said == NULL || dsf_parse_size(said, bytes) == 0)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "DSFLOW_MEMORY: \"%s\": expected a size, such as "
                       "100GiB",
                       said);
}

struct dsf_memory dsf_memory_probe(const char *root)
{
    struct dsf_memory m;
    int64_t said;

    dsf_memory_said(&said, NULL);
    m = said >= 0 ? (struct dsf_memory){ said, said } : read_proc(root);
    read_cgroups(root, &m);
    if (m.total >= 0)
        limit(&m.available, m.total);
    return m;
}

int64_t dsf_memory_most(void)
{
    int64_t kib = read_key("/proc/self", "status", "VmHWM");
    struct rusage usage;

    if (kib < 0) {
        getrusage(RUSAGE_SELF, &usage);
        kib = usage.ru_maxrss;
    }
    return kib << 10;
}
