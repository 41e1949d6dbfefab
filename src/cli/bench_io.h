/* bench_io.h - how to use the disks of a job, and how fast they are. */
#ifndef DSF_CLI_BENCH_IO_H
#define DSF_CLI_BENCH_IO_H

#include "cli/cmd.h"

/* The words of `args` begin with "io"; the folders follow. */
int dsf_bench_io(const struct dsf_cli_args *args, struct dsflow_err *err);

#endif
