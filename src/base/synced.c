/* synced.c - files and folders that are on disk, or gone, when a call
 * returns. */
#include "base/synced.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int dsf_synced_create(const char *path, bool replace, int *fd,
                      struct dsflow_err *err)
{
    int there = replace ? O_TRUNC : O_EXCL;

    *fd = open(path, O_WRONLY | O_CREAT | there | O_CLOEXEC, 0666);
    return *fd < 0 ? dsflow_fail(err, DSFLOW_EIO, "%s: %m", path) : DSFLOW_OK;
}

int dsf_synced_close(int fd, const char *path, int status,
                     struct dsflow_err *err)
{
    if (status == DSFLOW_OK && fsync(fd) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (close(fd) < 0 && status == DSFLOW_OK)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    return status;
}

int dsf_synced_text(const char *path, bool replace, const char *text, size_t n,
                    struct dsflow_err *err)
{
    int fd, status = dsf_synced_create(path, replace, &fd, err);

    if (status < 0)
        return status;
    while (n > 0 && status == DSFLOW_OK) {
        ssize_t k = write(fd, text, n);

        if (k < 0 && errno != EINTR)
            status =
                dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m", path);
        if (k > 0) {
            text += k;
            n -= (size_t)k;
        }
    }
    return dsf_synced_close(fd, path, status, err);
}

int dsf_synced_folder(const char *path, struct dsflow_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    return dsf_synced_close(fd, path, DSFLOW_OK, err);
}

/* The name of a folder that was made, in the one above. Who may make one there
 * may not always read it: then the name is there all the same. */
static void sync_above(char *path)
{
    char *slash = strrchr(path, '/');

    if (slash == NULL) {
        dsf_synced_folder(".", NULL);
        return;
    }
    *slash = '\0';
    dsf_synced_folder(slash > path ? path : "/", NULL);
    *slash = '/';
}

int dsf_synced_folders(const char *path, struct dsflow_err *err)
{
    char *copy = dsf_xstrdup(path);
    int status = DSFLOW_OK;

    for (char *c = copy + 1; status == DSFLOW_OK; c++) {
        bool last = *c == '\0';

        if (*c != '/' && !last)
            continue;
        *c = '\0';
        if (mkdir(copy, 0777) == 0)
            sync_above(copy);
        else if (errno != EEXIST)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", copy);
        if (last)
            break;
        *c = '/';
    }
    free(copy);
    return status;
}

void dsf_synced_remove(const char *path)
{
    DIR *dir;
    struct dirent *e;

    if (unlink(path) == 0) /* no folder */
        return;
    dir = opendir(path);
    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}
