/* launch.h - the processes of a command, started here and on other hosts by
 * mpirun. */
#ifndef DSF_CLI_LAUNCH_H
#define DSF_CLI_LAUNCH_H

#include "cli/cmd.h"

#define DSF_FLAGS_LAUNCH                                                       \
    { "processes", "N", "in so many processes, which mpirun starts", 'n' },    \
        { "hosts", "HOST:N,HOST:N",                                            \
          "on these hosts, N processes on each (default: 1), which mpirun "    \
          "reaches by ssh" },                                                  \
    {                                                                          \
        "hostfile", "FILE", "on the hosts of a file: HOST slots=N in a line"   \
    }

/* Does one of these flags ask for processes? */
bool dsf_launch_is_asked(const struct dsf_cli_args *args);

/* Whether the command makes sense in `n` processes, as far as that is known
 * before they start. */
typedef int (*dsf_launch_check_fn)(const struct dsf_cli_args *args, int64_t n,
                                   struct dsflow_err *err);

/* Run this command with the same words in them, without these flags, to its
 * end; what they write goes to this standard output and error, and signals to
 * process 0. `check` NULL: any number of processes will do.
 * Returns the exit status of process 0, or DSFLOW_EINVAL: what cannot be
 * started, DSFLOW_EIO: what ended it. */
int dsf_launch(const char *command, const struct dsf_cli_args *args,
               dsf_launch_check_fn check, struct dsflow_err *err);

#endif
