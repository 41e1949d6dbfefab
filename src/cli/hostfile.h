/* hostfile.h - hosts of a run, in a file. */
#ifndef DSF_CLI_HOSTFILE_H
#define DSF_CLI_HOSTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <dsflow/error.h>

/* May a host have this name of `n` bytes, or is it an IPv4 address? mpirun
 * takes no others. */
bool dsf_is_host(const char *name, size_t n);

/* "a:8,b:8", as --hosts has them, to be freed. A line is empty or has a host
 * and slots=N (1 where there is none); what is behind a # is for people. */
int dsf_hostfile_read(const char *path, char **hosts, struct dsflow_err *err);

#endif
