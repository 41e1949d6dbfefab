/* unnamed.c - files that have no name. */
#include "base/unnamed.h"

#include "base/alloc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* For file systems without O_TMPFILE: the name goes at once. */
static int open_and_unlink(const char *folder)
{
    char *name = dsf_xasprintf("%s/.dsflow-XXXXXX", folder);
    int fd = mkostemp(name, O_CLOEXEC);

    if (fd >= 0)
        unlink(name);
    free(name);
    return fd;
}

int dsf_unnamed_open(const char *folder)
{
    int fd = open(folder, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);

    return fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)
               ? open_and_unlink(folder)
               : fd;
}
