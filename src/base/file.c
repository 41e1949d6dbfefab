/* file.c - files, read and written whole. */
#include "base/file.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int status_of(int code)
{
    switch (code) {
    case ENOENT:
    case ENOTDIR:
    case EACCES:
    case ELOOP:
    case ENAMETOOLONG:
        return DSFLOW_EINVAL;
    default:
        return DSFLOW_EIO;
    }
}

int dsf_file_open(const char *path, int *fd, int64_t *bytes,
                  struct dsflow_err *err)
{
    /* Opening a pipe would wait for its writer. */
    int opened = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    int status = DSFLOW_OK;
    struct stat st;

    if (opened < 0)
        return dsflow_fail(err, status_of(errno), "%s: %m", path);
    if (fstat(opened, &st) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    else if (S_ISDIR(st.st_mode))
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: is a folder: expected a file", path);
    else if (!S_ISREG(st.st_mode))
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "%s: is not a regular file", path);
    if (status < 0) {
        close(opened);
        return status;
    }
    *fd = opened;
    *bytes = st.st_size;
    return DSFLOW_OK;
}

bool dsf_file_is_in(const char *folder, const char *name)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    bool is = access(path, F_OK) == 0;

    free(path);
    return is;
}

bool dsf_file_is_same(const char *one, const char *other)
{
    struct stat a, b;

    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

bool dsf_file_is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int read_all(int fd, const char *path, char *to, size_t room, size_t *n,
                    struct dsflow_err *err)
{
    for (*n = 0; *n < room;) {
        ssize_t got = read(fd, to + *n, room - *n);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be read: %m", path);
        if (got == 0)
            break;
        *n += (size_t)got;
    }
    return DSFLOW_OK;
}

int dsf_file_read(int fd, const char *path, int64_t bytes, int64_t at, void *to,
                  size_t n, struct dsflow_err *err)
{
    char *into = to;

    while (n > 0) {
        ssize_t some = pread(fd, into, n, at);

        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be read: %m", path);
        if (some == 0)
            return dsflow_fail(
                err, DSFLOW_EIO,
                "%s: ends at byte %lld, and had %lld when it was "
                "opened",
                path, (long long)at, (long long)bytes);
        into += some;
        at += some;
        n -= (size_t)some;
    }
    return DSFLOW_OK;
}

int dsf_file_write(int fd, const void *from, size_t n, off_t at)
{
    const char *next = from;

    while (n > 0) {
        ssize_t some = pwrite(fd, next, n, at);

        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0)
            return -1;
        next += some;
        at += some;
        n -= (size_t)some;
    }
    return 0;
}

int dsf_file_load(const char *path, int64_t most, char **text, size_t *n,
                  struct dsflow_err *err)
{
    int64_t bytes;
    int fd, status = dsf_file_open(path, &fd, &bytes, err);

    *text = NULL;
    *n = 0;
    if (status < 0)
        return status;
    if (bytes > most) {
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: has %lld bytes: expected at most %lld", path,
                             (long long)bytes, (long long)most);
        goto out_close;
    }
    *text = dsf_xcalloc((size_t)bytes + 1, 1);
    status = read_all(fd, path, *text, (size_t)bytes, n, err);
    if (status < 0) {
        free(*text);
        *text = NULL;
    }

out_close:
    close(fd);
    return status;
}

int dsf_json_parse(const char *text, size_t n, const char *path, json_t **root,
                   struct dsflow_err *err)
{
    json_error_t why;

    *root = NULL;
    if (n == 0)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: is empty: expected JSON",
                           path);
    if ((n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) ||
        (n >= 2 && (memcmp(text, "\xff\xfe", 2) == 0 ||
                    memcmp(text, "\xfe\xff", 2) == 0)))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: begins with a byte order mark: expected JSON "
                           "in UTF-8 without one",
                           path);
    *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &why);
    if (*root == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL, "%s:%d: %s", path,
                           why.line > 0 ? why.line : 1, why.text);
    return DSFLOW_OK;
}

int dsf_json_load(const char *path, int64_t most, json_t **root,
                  struct dsflow_err *err)
{
    char *text;
    size_t n;
    int status = dsf_file_load(path, most, &text, &n, err);

    *root = NULL;
    if (status == DSFLOW_OK)
        status = dsf_json_parse(text, n, path, root, err);
    free(text);
    return status;
}
