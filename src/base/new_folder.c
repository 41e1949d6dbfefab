/* new_folder.c - a folder that appears whole or not at all. */
#include "base/new_folder.h"

#include "base/alloc.h"
#include "base/aside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(const char *folder, struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%s: %m: expected a new or empty folder", folder);
}

/* A folder that is begun beside "." or "x/.." cannot take that name. */
static bool is_name(const char *folder)
{
    const char *slash = strrchr(folder, '/');
    const char *last = slash != NULL ? slash + 1 : folder;

    return last[0] != '\0' && strcmp(last, ".") != 0 && strcmp(last, "..") != 0;
}

/* Can a folder be given this name? What is there counts, and not what a link
 * points to. */
static int check_name(const char *folder, struct dsflow_err *err)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *e;
    int names = 0; /* "." and ".." among them */

    if (dir == NULL)
        return errno == ENOENT && is_name(folder) ? DSFLOW_OK
                                                  : fail(folder, err);
    while ((e = readdir(dir)) != NULL)
        names++;
    closedir(dir);
    errno = ENOTEMPTY;
    if (names > 2)
        return fail(folder, err);
    return is_name(folder)
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: expected the name of a new or empty folder",
                             folder);
}

int dsf_new_folder_open(const char *folder, char **beside,
                        struct dsflow_err *err)
{
    size_t n = strlen(folder);
    char *name;
    int status;

    while (n > 1 && folder[n - 1] == '/')
        n--;
    name = dsf_xstrndup(folder, n);
    status = check_name(name, err);
    *beside = dsf_xasprintf("%s.tmp-%ld", name, (long)getpid());
    free(name);
    /* A signal may come as soon as it is there. */
    dsf_aside_add_folder(*beside);
    if (status == DSFLOW_OK && mkdir(*beside, 0777) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", folder);
    if (status < 0) {
        dsf_aside_forget_folder(*beside);
        free(*beside);
    }
    return status;
}

static int remove_one(const char *path, const struct stat *st, int kind,
                      struct FTW *at)
{
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

int dsf_new_folder_close(const char *folder, char *beside, int status,
                         struct dsflow_err *err)
{
    if (status == DSFLOW_OK && rename(beside, folder) < 0)
        status = fail(folder, err);
    if (status < 0)
        nftw(beside, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    dsf_aside_forget_folder(beside);
    free(beside);
    return status;
}

int dsf_new_folder_check(const char *folder, struct dsflow_err *err)
{
    char *beside;
    int status = dsf_new_folder_open(folder, &beside, err);

    if (status == DSFLOW_OK)
        dsf_new_folder_close(folder, beside, DSFLOW_EINVAL, err);
    return status;
}
