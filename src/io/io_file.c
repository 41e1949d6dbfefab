/* io_file.c - a file of a store: it has no name, its space is reserved, and the
 * page cache is left out where the file system allows that. */
#include "base/alloc.h"
#include "base/units.h"
#include "base/unnamed.h"
#include "io/io_private.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

static int open_unnamed(const char *path, int *fd, struct dsflow_err *err)
{
    *fd = dsf_unnamed_open(path);
    if (*fd >= 0)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EINVAL,
                       "%.200s: %m: expected a folder that can be written",
                       path);
}

static int no_room(const char *path, int64_t bytes, double avail,
                   struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EIO,
                       "%.200s: no room on the disk: %s needed, %s free", path,
                       dsf_size_text((double)bytes).s, dsf_size_text(avail).s);
}

/* Asked of the kernel itself: where it cannot, the C library would write. */
static int reserve(int fd, const char *path, int64_t bytes,
                   struct dsflow_err *err)
{
    struct statvfs fs;
    double unit;
    int rc;

    if (bytes == 0) /* fewer blocks than paths */
        return DSFLOW_OK;
    if (fstatvfs(fd, &fs) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%.200s: %m", path);
    /* Not even for the administrator: nothing is taken from others first. */
    unit = (double)fs.f_frsize;
    if ((double)bytes > (double)fs.f_bfree * unit)
        return no_room(path, bytes, (double)fs.f_bavail * unit, err);
    do /* Ctrl-C, which is obeyed elsewhere */
        rc = fallocate(fd, 0, 0, bytes);
    while (rc < 0 && errno == EINTR);
    if (rc == 0)
        return DSFLOW_OK;
    if (errno == ENOSPC)
        return no_room(path, bytes, (double)fs.f_bavail * unit, err);
    if (errno == EOPNOTSUPP && (double)bytes > (double)fs.f_bavail * unit)
        return no_room(path, bytes, (double)fs.f_bavail * unit, err);
    if (errno == EOPNOTSUPP && ftruncate(fd, bytes) == 0)
        return DSFLOW_OK;
    return dsflow_fail(err, DSFLOW_EIO, "%.200s: a file of %s: %m", path,
                       dsf_size_text((double)bytes).s);
}

/* Some say so when it is set, some at the first transfer; and tmpfs takes it
 * though there is no disk. NULL: it is direct. */
static const char *refuses_direct(int fd)
{
    struct statfs fs;
    const char *why = NULL;
    void *memory;

    if (fstatfs(fd, &fs) == 0 &&
        (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC))
        return "tmpfs: it is in main memory";
    if (fcntl(fd, F_SETFL, O_DIRECT) < 0)
        return "O_DIRECT is refused: through the page cache";
    memory = aligned_alloc(DSF_IO_ALIGN, DSF_IO_ALIGN);
    if (memory != NULL && pread(fd, memory, DSF_IO_ALIGN, 0) < 0) {
        fcntl(fd, F_SETFL, 0);
        why = "direct reads are refused: through the page cache";
    }
    free(memory);
    return why;
}

int dsf_io_file_open(struct dsf_io_file *file, const char *path, int64_t bytes,
                     struct dsf_io_info *info, struct dsflow_err *err)
{
    const char *why;
    int status;

    status = open_unnamed(path, &file->fd, err);
    if (status < 0)
        return status;
    status = reserve(file->fd, path, bytes, err);
    if (status < 0) {
        close(file->fd);
        return status;
    }
    file->path = dsf_xstrdup(path);
    why = refuses_direct(file->fd);
    if (why != NULL && info->direct) {
        info->direct = false;
        snprintf(info->remark, sizeof(info->remark), "%.120s: %s", path, why);
    }
    return DSFLOW_OK;
}

void dsf_io_file_close(struct dsf_io_file *file)
{
    close(file->fd);
    free(file->path);
}
