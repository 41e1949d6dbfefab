/* memory.h - how much main memory this process may use. */
#ifndef DSF_MACHINE_MEMORY_H
#define DSF_MACHINE_MEMORY_H

#include <stdint.h>
#include <dsflow/error.h>

/* Bytes in all, and bytes free now: of the machine, or of the cgroup (version 1
 * or 2) that holds us to less. What caches files counts as free, as it gives
 * way. Where /proc is not mounted, all counts as free. -1: unknown. `root` is
 * "", or a folder that stands for the root. What DSFLOW_MEMORY says of the
 * machine is believed: in a sandbox such as gVisor's /proc shows little at
 * first, and more when it is used. */
struct dsf_memory {
    int64_t total, available;
};
struct dsf_memory dsf_memory_probe(const char *root);

/* What it says, in bytes; -1: nothing. */
int dsf_memory_said(int64_t *bytes, struct dsflow_err *err);

/* Bytes that this program has held at most. What getrusage(2) says, which is
 * asked only without /proc, is never less than what its parent held when it
 * started it. */
int64_t dsf_memory_most(void);

#endif
