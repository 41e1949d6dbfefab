/* folder.h - a folder of the test's own, below the present one. */
#ifndef DSF_TESTS_LIB_FOLDER_H
#define DSF_TESTS_LIB_FOLDER_H

#include "lib/test.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char folder[] = "test.XXXXXX";

/* FOLDER/name, until it is asked for another one. */
static inline char *path_in(const char *name)
{
    static char path[200];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static inline int make_folder(void **state)
{
    strcpy(folder, "test.XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int remove_one(const char *path, const struct stat *st, int kind,
                             struct FTW *at)
{
    return remove(path);
}

static inline int remove_folder(void **state)
{
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
