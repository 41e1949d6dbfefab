/* aside.c - files and folders that are written beside their names. */
#include "base/aside.h"

#include "base/alloc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files that are written at the same time; what is beyond is not removed by a
 * signal. */
enum { MOST = 8, DEEPEST = 8 /* folders in folders */ };

/* The names stay where they are, so that a handler may read them at any time.
 */
static struct {
    atomic_bool taken, written;
    char name[PATH_MAX];
} slots[MOST];

static unsigned take_slot(const char *name)
{
    unsigned i;

    if (strlen(name) >= PATH_MAX)
        return MOST;
    for (i = 0; i < MOST && atomic_exchange(&slots[i].taken, true); i++)
        ;
    if (i == MOST)
        return MOST;
    strcpy(slots[i].name, name);
    atomic_store(&slots[i].written, true);
    return i;
}

static void give_slot(unsigned i)
{
    if (i == MOST)
        return;
    atomic_store(&slots[i].written, false);
    atomic_store(&slots[i].taken, false);
}

static void forget(struct dsf_aside *a)
{
    int why = errno;

    give_slot(a->slot);
    free(a->path);
    free(a->beside);
    errno = why;
}

/* The stream writes here, so that the reason of a write that failed is known
 * when the file is closed. */
static ssize_t put(void *cookie, const char *text, size_t n)
{
    struct dsf_aside *a = cookie;
    size_t at = 0;

    while (at < n) {
        ssize_t some = write(a->fd, text + at, n - at);

        if (some < 0 && errno == EINTR)
            continue;
        if (some < 0) {
            a->why = a->why != 0 ? a->why : errno;
            break;
        }
        at += (size_t)some;
    }
    return (ssize_t)at;
}

int dsf_aside_open(struct dsf_aside *a, const char *path)
{
    const cookie_io_functions_t functions = { .write = put };

    a->why = 0;
    a->path = dsf_xstrdup(path);
    /* Two processes that write the same file write each its own. */
    a->beside = dsf_xasprintf("%s.%ld.tmp", path, (long)getpid());
    a->slot = take_slot(a->beside);
    a->fd = open(a->beside, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    a->out = a->fd < 0 ? NULL : fopencookie(a, "w", functions);
    if (a->out != NULL)
        return 0;
    if (a->fd >= 0)
        close(a->fd);
    forget(a);
    return -1;
}

int dsf_aside_close(struct dsf_aside *a, bool whole)
{
    int before = errno; /* why it is not whole */
    bool failed;

    fclose(a->out); /* writes what is left of it */
    if (whole && a->why == 0 && fsync(a->fd) < 0)
        a->why = errno;
    if (close(a->fd) < 0 && a->why == 0)
        a->why = errno;
    if (whole && a->why == 0 && rename(a->beside, a->path) < 0)
        a->why = errno;
    failed = whole && a->why != 0;
    if (failed || !whole)
        unlink(a->beside);
    forget(a);
    errno = failed ? a->why : before;
    return failed ? -1 : 0;
}

void dsf_aside_add_folder(const char *path)
{
    take_slot(path);
}

void dsf_aside_forget_folder(const char *path)
{
    for (unsigned i = 0; i < MOST; i++)
        if (atomic_load(&slots[i].written) && strcmp(slots[i].name, path) == 0)
            give_slot(i);
}

/* A name in a folder, with what is in it: by calls of the kernel alone, as
 * readdir and its like take memory. `depth` is for the stack of a handler. */
static void drop(int in, const char *name, int depth)
{
    _Alignas(struct dirent64) char names[2048];
    ssize_t n;
    int fd;

    if (unlinkat(in, name, 0) == 0 || depth == 0)
        return;
    fd = openat(in, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    while (fd >= 0 && (n = getdents64(fd, names, sizeof(names))) > 0)
        for (ssize_t at = 0; at < n;) {
            const struct dirent64 *e = (const void *)(names + at);

            if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
                drop(fd, e->d_name, depth - 1);
            at += e->d_reclen;
        }
    if (fd >= 0)
        close(fd);
    unlinkat(in, name, AT_REMOVEDIR);
}

void dsf_aside_drop_all(void)
{
    for (unsigned i = 0; i < MOST; i++)
        if (atomic_load(&slots[i].written))
            drop(AT_FDCWD, slots[i].name, DEEPEST);
}
