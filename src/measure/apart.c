/* apart.c - measure in a process of its own, which leaves its answer in memory
 * that both have. */
#include "measure/apart.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct shared {
    bool done;
    int status;
    struct dsflow_err err;
    max_align_t answer[];
};

static void work_there(dsf_apart_fn work, void *user, struct shared *shared)
{
    int silence;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* A file that is locked would stay so until this process has ended. */
    close_range(STDERR_FILENO + 1, ~0U, 0);
    silence = open("/dev/null", O_WRONLY);
    if (silence >= 0) {
        dup2(silence, STDERR_FILENO);
        close(silence);
    }
    shared->status = work(user, shared->answer, &shared->err);
    shared->done = true;
    _exit(0);
}

static int take_answer(const struct shared *shared, void *answer, size_t bytes,
                       struct dsflow_err *err)
{
    if (!shared->done)
        return dsflow_fail(err, DSFLOW_EFAIL,
                           "StarPU does not start (dsflow run says why)");
    if (shared->status < 0)
        return dsflow_fail(err, shared->status, "%s", shared->err.msg);
    memcpy(answer, shared->answer, bytes);
    return DSFLOW_OK;
}

int dsf_apart(dsf_apart_fn work, void *user, void *answer, size_t bytes,
              struct dsflow_err *err)
{
    size_t size = sizeof(struct shared) + bytes;
    struct shared *shared = mmap(NULL, size, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child;
    int status;

    if (shared == MAP_FAILED)
        return dsflow_fail(err, DSFLOW_EFAIL, "a process to measure in: %m");
    fflush(NULL);
    child = fork();
    if (child == 0)
        work_there(work, user, shared);
    if (child < 0) {
        status = dsflow_fail(err, DSFLOW_EFAIL, "a process to measure in: %m");
    } else {
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        status = take_answer(shared, answer, bytes, err);
    }
    munmap(shared, size);
    return status;
}
