/* bench_io.h - how to use the disks of a job, and how fast they are: at length
 * for who asks, and in a moment for a prediction. */
#ifndef DSF_CLI_BENCH_IO_H
#define DSF_CLI_BENCH_IO_H

#include "cli/cmd.h"
#include "cli/disk_load.h"
#include "machine/machine_model.h"

/* The words of `args` begin with "io"; the folders follow. */
int dsf_bench_io(const struct dsf_cli_args *args, struct dsflow_err *err);

/* As a machine file has it, without a size. */
struct dsf_machine_disk dsf_disk_of_rates(double read, double write,
                                          double both, double latency);

/* Reading, writing and both at once by `measure`, on files that were written.
 */
int dsf_disk_of_load(const struct dsf_disk_load *load,
                     dsf_disk_measure_fn measure, struct dsf_machine_disk *disk,
                     struct dsf_machine_scatter *scatter,
                     struct dsflow_err *err);

/* What files in these folders give, in a second and a half at most: all but
 * the size, which is left as no limit. 0 stands for the engine's own block or
 * depth. */
int dsf_bench_disk(const char *const *paths, unsigned npaths, size_t block,
                   unsigned depth, struct dsf_machine_disk *disk,
                   struct dsf_machine_scatter *scatter, struct dsflow_err *err);

#endif
