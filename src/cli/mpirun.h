/* mpirun.h - the command that starts the processes of a run, or of a
 * measurement. */
#ifndef DSF_CLI_MPIRUN_H
#define DSF_CLI_MPIRUN_H

#include "cli/cmd.h"

#include <sys/types.h>

enum { DSF_MOST_PROCESSES = 65536 };

/* Where it runs, of the flags: checked. */
struct dsf_places {
    const char *command; /* of dsflow */
    int64_t n;           /* processes */
    const char *hosts;   /* of --hosts, or `read`, or NULL */
    char *read;          /* what --hostfile has, to be freed, or NULL */
    int64_t restarts;
};

/* Without -n there are as many processes as the hosts have room for.
 * DSFLOW_EINVAL: what is wrong with them; `read` may be there all the same. */
int dsf_places_read(struct dsf_places *p, const char *command,
                    const struct dsf_cli_args *args, struct dsflow_err *err);

/* The words of its command line, up to a NULL; all of them are freed by
 * dsf_mpirun_free. `again`: a start after a failure, which goes on. */
char **dsf_mpirun_words(const struct dsf_places *p,
                        const struct dsf_cli_args *args, const char *program,
                        bool again);
void dsf_mpirun_free(char **words);

/* What it, and the processes, find in their environment. */
void dsf_mpirun_environment(int64_t start, const char *failed);

#endif
