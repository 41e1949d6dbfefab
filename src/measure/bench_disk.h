/* bench_disk.h - how fast the disks of a job are, measured in a moment. */
#ifndef DSF_MEASURE_BENCH_DISK_H
#define DSF_MEASURE_BENCH_DISK_H

#include "machine/machine_model.h"
#include "measure/disk_load.h"

/* As a machine file has it, without a size. */
struct dsf_machine_disk dsf_disk_of_rates(double read, double write,
                                          double both, double latency);

/* What files in these folders give, in a second and a half at most: all but
 * the size, which is left as no limit. 0 stands for the engine's own block or
 * depth. */
int dsf_bench_disk(const char *const *paths, unsigned npaths, size_t block,
                   unsigned depth, struct dsf_machine_disk *disk,
                   struct dsf_machine_scatter *scatter, struct dsflow_err *err);

#endif
