/* folder.h - a folder of the test's own, below the present one. */
#ifndef DSF_TESTS_LIB_FOLDER_H
#define DSF_TESTS_LIB_FOLDER_H

#include "lib/test.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <dsflow/error.h>

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

/* The message, with the folder's name cut out, must be this. */
static inline void check_message(struct dsflow_err *err, const char *expected)
{
    char *at;

    while ((at = strstr(err->msg, folder)) != NULL)
        memmove(at, at + strlen(folder), strlen(at + strlen(folder)) + 1);
    assert_string_equal(err->msg, expected);
}

#endif
