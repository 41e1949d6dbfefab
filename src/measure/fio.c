/* fio.c - run fio with libaio and O_DIRECT, and read its JSON. */
#include "measure/fio.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct arguments {
    char **v;
    size_t n, cap;
};

static void add(struct arguments *a, char *text)
{
    dsf_grow(&a->v, &a->cap, a->n + 2, sizeof(*a->v));
    a->v[a->n++] = text;
}

/* A file without a name is known by its number. */
static void add_jobs(struct arguments *a, const int *fds, unsigned n,
                     const char *rw)
{
    for (unsigned i = 0; i < n; i++) {
        add(a, dsf_xasprintf("--name=%s%u", rw, i));
        add(a, dsf_xasprintf("--rw=%s", rw));
        add(a, dsf_xasprintf("--filename=/proc/self/fd/%d", fds[i]));
    }
}

static void add_arguments(struct arguments *a, const struct dsf_disk_load *load,
                          const int *fds, bool reads, bool writes)
{
    add(a, dsf_xstrdup("fio"));
    add(a, dsf_xstrdup("--ioengine=libaio"));
    add(a, dsf_xstrdup("--direct=1"));
    add(a, dsf_xstrdup("--fallocate=none"));
    add(a, dsf_xstrdup("--time_based"));
    add(a, dsf_xstrdup("--output-format=json"));
    add(a, dsf_xasprintf("--bs=%zu", load->block));
    add(a, dsf_xasprintf("--iodepth=%u", load->depth));
    add(a, dsf_xasprintf("--size=%lld", (long long)load->size / load->nfiles));
    add(a, dsf_xasprintf("--runtime=%.0fms", load->seconds * 1e3));
    if (reads)
        add_jobs(a, fds, load->nfiles, "read");
    if (writes)
        add_jobs(a, fds, load->nfiles, "write");
}

/* What it says goes to `out`. It ends by itself when its time is over. */
static int start(char **argv, int out, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    int error;

    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDWR,
                                     0);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, STDIN_FILENO, STDERR_FILENO);
    error = posix_spawnp(pid, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

static char *read_all(int fd)
{
    size_t n = 0, cap = 0;
    char *text = NULL;
    ssize_t got;

    do {
        dsf_grow(&text, &cap, n + 65536, 1);
        got = read(fd, text + n, cap - n - 1);
        n += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    text[n] = '\0';
    return text;
}

/* What it printed; freed by the caller. */
static int run(char **argv, char **text, struct dsflow_err *err)
{
    int ends[2], status, error;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return dsflow_fail(err, DSFLOW_EFAIL, "fio: a pipe: %m");
    error = start(argv, ends[1], &pid);
    close(ends[1]);
    if (error == 0)
        *text = read_all(ends[0]);
    close(ends[0]);
    if (error == ENOENT || error == EACCES)
        return dsflow_fail(err, DSFLOW_ENOSYS, "fio is not installed");
    if (error != 0)
        return dsflow_fail(err, DSFLOW_EFAIL, "fio: %s", strerror(error));
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return DSFLOW_OK;
    free(*text);
    /* Where a spawned process has memory of its own, as under valgrind, that is
     * how posix_spawn says that there is no such program. */
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return dsflow_fail(err, DSFLOW_ENOSYS, "fio is not installed");
    return dsflow_fail(err, DSFLOW_EFAIL, "fio ended with status %d",
                       WIFEXITED(status) ? WEXITSTATUS(status)
                                         : 128 + WTERMSIG(status));
}

static double bytes_of(const json_t *job, const char *direction)
{
    return json_number_value(
        json_object_get(json_object_get(job, direction), "bw_bytes"));
}

static int read_rates(const char *text, struct dsf_disk_rate *rate,
                      struct dsflow_err *err)
{
    const char *start = strchr(text, '{'); /* behind its warnings */
    json_t *all =
        start != NULL ? json_loads(start, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    json_t *jobs = json_object_get(all, "jobs");

    *rate = (struct dsf_disk_rate){ 0 };
    for (size_t i = 0; i < json_array_size(jobs); i++) {
        rate->read += bytes_of(json_array_get(jobs, i), "read");
        rate->write += bytes_of(json_array_get(jobs, i), "write");
    }
    json_decref(all);
    return rate->read + rate->write > 0
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EFAIL,
                             "fio: expected JSON with bw_bytes of its jobs");
}

int dsf_fio_measure(const struct dsf_disk_load *load, bool reads, bool writes,
                    struct dsf_disk_rate *rate, struct dsflow_err *err)
{
    struct arguments a = { 0 };
    int *fds = dsf_xcalloc(load->nfiles, sizeof(*fds)), status;
    char *text = NULL;

    /* Others, as those of the store are closed in a child. */
    for (unsigned i = 0; i < load->nfiles; i++)
        fds[i] = fcntl(dsf_io_fd(load->io, i), F_DUPFD, 0);
    add_arguments(&a, load, fds, reads, writes);
    status = run(a.v, &text, err);
    if (status == DSFLOW_OK) {
        status = read_rates(text, rate, err);
        free(text);
    }
    for (unsigned i = 0; i < load->nfiles; i++)
        close(fds[i]);
    for (size_t i = 0; i < a.n; i++)
        free(a.v[i]);
    free(a.v);
    free(fds);
    return status;
}
