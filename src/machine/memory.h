/* memory.h - how much main memory this process may use. */
#ifndef DSF_MACHINE_MEMORY_H
#define DSF_MACHINE_MEMORY_H

#include <stdint.h>

/* Bytes in all, and bytes free now: of the machine, or of the cgroup (version 1
 * or 2) that holds us to less. What caches files counts as free, as it gives
 * way. Where /proc is not mounted, all counts as free. -1: unknown. `root` is
 * "", or a folder that stands for the root. */
struct dsf_memory {
    int64_t total, available;
};
struct dsf_memory dsf_memory_probe(const char *root);

#endif
