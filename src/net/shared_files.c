/* shared_files.c - Open MPI opens the file of another process when it first has
 * something for it, so each sends all of its machine an empty message before
 * the names go. */
#include "net/shared_files.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    return strstr(path, "/vader_segment.") != NULL ||
           strstr(path, "/sm_segment.") != NULL;
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
    if (error == MPI_SUCCESS)
        for_each_mapped(remove_name);
    return error;
}

void dsf_shared_files_end(MPI_Comm comm)
{
    for_each_mapped(make_empty);
    MPI_Barrier(comm); /* none comes back after it was removed */
}
