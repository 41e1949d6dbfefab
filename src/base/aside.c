/* aside.c - files that are written beside their names. */
#include "base/aside.h"

#include "base/alloc.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files that are written at the same time; what is beyond is not removed by a
 * signal. */
enum { MOST = 8 };

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

int dsf_aside_open(struct dsf_aside *a, const char *path)
{
    a->path = dsf_xstrdup(path);
    /* Two processes that write the same file write each its own. */
    a->beside = dsf_xasprintf("%s.%ld.tmp", path, (long)getpid());
    a->slot = take_slot(a->beside);
    a->out = fopen(a->beside, "we");
    if (a->out != NULL)
        return 0;
    forget(a);
    return -1;
}

int dsf_aside_close(struct dsf_aside *a, bool whole)
{
    bool failed = ferror(a->out) != 0;
    int rc = whole ? 0 : -1, why = EIO; /* of a write before, it is not known */

    if (whole && (failed || fflush(a->out) != 0 || fsync(fileno(a->out)) < 0)) {
        rc = -1;
        why = failed ? why : errno;
    }
    if (fclose(a->out) != 0 && rc == 0) {
        rc = -1;
        why = errno;
    }
    if (rc == 0 && rename(a->beside, a->path) < 0) {
        rc = -1;
        why = errno;
    }
    if (rc < 0)
        unlink(a->beside);
    forget(a);
    errno = why;
    return whole ? rc : 0;
}

void dsf_aside_drop_all(void)
{
    for (unsigned i = 0; i < MOST; i++)
        if (atomic_load(&slots[i].written))
            unlink(slots[i].name);
}
