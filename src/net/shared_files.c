/* shared_files.c - Open MPI opens the file of another process when it first has
 * something for it, so each sends all of its machine an empty message before
 * the names go. */
#include "net/shared_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* What leads to the guard, which sees this process's end by it; -1: none. */
static int guarded = -1;

static int greet_all(MPI_Comm near)
{
    MPI_Request *requests;
    int n, error = MPI_SUCCESS;

    MPI_Comm_size(near, &n);
    requests = malloc(2 * (size_t)n * sizeof(MPI_Request));
    if (requests == NULL)
        return MPI_ERR_NO_MEM;
    for (int i = 0; i < 2 * n; i++)
        requests[i] = MPI_REQUEST_NULL;
    for (int i = 0; i < n && error == MPI_SUCCESS; i++) {
        error = MPI_Irecv(NULL, 0, MPI_BYTE, i, 0, near, &requests[2 * i]);
        if (error == MPI_SUCCESS)
            error =
                MPI_Isend(NULL, 0, MPI_BYTE, i, 0, near, &requests[2 * i + 1]);
    }
    if (error == MPI_SUCCESS)
        error = MPI_Waitall(2 * n, requests, MPI_STATUSES_IGNORE);
    free(requests);
    return error == MPI_SUCCESS ? MPI_Barrier(near) : error;
}

/* As Open MPI 4 and 5 name them. */
static int is_of_mpi(const char *path)
{
    return strstr(path, "vader_segment.") != NULL ||
           strstr(path, "sm_segment.") != NULL;
}

/* Those with `part` in their names. */
static void remove_names(const char *part)
{
    DIR *folder = opendir("/dev/shm");
    const struct dirent *e;

    while (folder != NULL && (e = readdir(folder)) != NULL)
        if (is_of_mpi(e->d_name) && strstr(e->d_name, part) != NULL)
            unlinkat(dirfd(folder), e->d_name, 0);
    if (folder != NULL)
        closedir(folder);
}

/* Of a group of its own, as mpirun kills that of this process, and without
 * anything that another may wait for the end of. */
_Noreturn static void be_guard(int from, const char *part)
{
    static const int all[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
    char byte;

    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        signal(all[i], SIG_IGN);
    setsid();
    if (fork() != 0)
        _exit(0);
    dup2(from, STDIN_FILENO);
    close_range(STDIN_FILENO + 1, ~0U, 0);
    if (read(STDIN_FILENO, &byte, 1) == 0)
        remove_names(part);
    _exit(0);
}

void dsf_shared_files_guard(void)
{
    const char *job = getenv("PMIX_NAMESPACE");
    unsigned long number;
    char part[32];
    int ends[2];
    pid_t pid;

    if (job == NULL || sscanf(job, "%lu", &number) != 1 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    snprintf(part, sizeof(part), ".%lx.", number);
    pid = fork();
    if (pid == 0) {
        close(ends[1]);
        be_guard(ends[0], part);
    }
    close(ends[0]);
    guarded = ends[1];
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

static void end_guard(void)
{
    if (guarded < 0)
        return;
    send(guarded, "", 1, MSG_NOSIGNAL);
    close(guarded);
    guarded = -1;
}

static void for_each_mapped(void (*what)(char *path))
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[1024];

    while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
        char *path = strchr(line, '/');

        line[strcspn(line, "\n")] = '\0';
        if (path != NULL && is_of_mpi(path))
            what(path);
    }
    if (maps != NULL)
        fclose(maps);
}

static void remove_name(char *path)
{
    unlink(path); /* another one may have been faster */
}

static void make_empty(char *path)
{
    char *deleted = strstr(path, " (deleted)");
    int fd;

    if (deleted == NULL)
        return;
    *deleted = '\0';
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0)
        close(fd);
}

int dsf_shared_files_unlink(MPI_Comm comm)
{
    MPI_Comm near;
    int rank, error;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &near);
    error = greet_all(near);
    MPI_Comm_free(&near);
    if (error == MPI_SUCCESS) {
        for_each_mapped(remove_name);
        end_guard();
    }
    return error;
}

void dsf_shared_files_end(MPI_Comm comm)
{
    for_each_mapped(make_empty);
    MPI_Barrier(comm); /* none comes back after it was removed */
}
