/* launch_private.h - what the files of the launcher share. */
#ifndef DSF_CLI_LAUNCH_PRIVATE_H
#define DSF_CLI_LAUNCH_PRIVATE_H

#include "cli/cmd.h"
#include "cli/mpirun.h"
#include "cli/tagged.h"

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* A line of one of the others, until it is whole. */
struct whole {
    char text[1024];
    size_t n;
};

struct process {
    struct whole lines[2]; /* of its output, of its error */
    char host[64];
    int pid;
    bool begun, told, ended; /* told: mpirun ended it, as another had died */
    int status;              /* its own, where it has `ended` */
};

struct launch;

struct stream {
    struct launch *l;
    struct dsf_tagged tagged;
    int from, to; /* files */
    bool open, bracket; /* bracket: the last result of process 0 is a '[' */
};

struct launch {
    struct dsf_places places;
    const struct dsf_cli_args *args;
    char program[PATH_MAX];

    pid_t mpirun;
    int status; /* of mpirun, as waitpid says it */
    bool over;
    struct stream streams[2];
    struct process *processes;
    size_t nprocesses, cap;
    bool joined;  /* signals are taken by process 0 */
    bool in_line; /* what process 0 wrote last was no whole line */
    bool unwritten; /* some of its standard output */
    bool terminal;
    struct whole said; /* the beginning of what mpirun said itself */
    char found[512];   /* what a process says of another's death, or "" */
    double ending;     /* when it was first heard that all are to end; 0: not */

    int sig;        /* the first that came; 0: none */
    double sig_at;  /* when, */
    unsigned nsigs; /* and how many came, more than a second apart */
};

/* launch_said.c: one of them; what it writes, for a dsf_tagged of the stream
 * `user`; and the last lines, which may have no end. */
struct process *dsf_launch_process(struct launch *l, int i);
void dsf_launch_take(void *user, int process, const char *bytes, size_t n);
void dsf_launch_end_lines(struct launch *l);

/* launch_end.c: the exit status of process 0, or how it came that there is
 * none. `*again`: neither the job nor the user wanted it so. */
int dsf_launch_judge(struct launch *l, bool *again, struct dsflow_err *err);

#endif
