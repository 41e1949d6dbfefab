/* bound.c - which process of a machine binds its workers to cores.
 *
 * StarPU binds workers to the first cores that a process may run on. Two runs
 * with one worker each would share a core beside one that idles, so the first
 * of them binds, and the others leave it to the system where their workers run.
 * The right is a name of a socket: it is gone with the process, whatever ends
 * it, and belongs to no user and no folder. */
#include "exec/bound.h"

#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int held = -1;

/* Runs that were given cores apart from each other (taskset, Slurm) have
 * different first ones. */
static int first_core(void)
{
    cpu_set_t set;
    int core = 0;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 0; /* more processors than a mask has bits for */
    while (core < CPU_SETSIZE - 1 && !CPU_ISSET(core, &set))
        core++;
    return core;
}

bool dsf_bound_claim(void)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    /* Behind the first byte, which says that it is in no folder. */
    int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1,
                     "dsflow-workers-of-core-%d", first_core());
    socklen_t length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    bool taken;

    held = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    taken = held >= 0 && bind(held, (struct sockaddr *)&name, length) < 0 &&
            errno == EADDRINUSE;
    if (taken)
        dsf_bound_release();
    return !taken;
}

void dsf_bound_release(void)
{
    if (held >= 0)
        close(held);
    held = -1;
}
