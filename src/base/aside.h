/* aside.h - a file that is written beside its name and takes the name once it
 * is whole: who reads it finds the contents of before, or those of now. */
#ifndef DSF_BASE_ASIDE_H
#define DSF_BASE_ASIDE_H

#include <stdbool.h>
#include <stdio.h>

struct dsf_aside {
    char *path, *beside;
    FILE *out;     /* write here */
    int fd, why;   /* of it; the reason of the first write that failed, or 0 */
    unsigned slot; /* what dsf_aside_drop_all knows of it */
};

/* Begin; *a stays where it is until it is closed. 0, or -1 with errno: then
 * there is nothing to close. */
int dsf_aside_open(struct dsf_aside *a, const char *path);

/* `whole`: on disk, and then in place of what was there; otherwise, or where
 * that or a write before fails, nothing is left of it. 0, or -1 with the errno
 * of what failed first; of one that is not whole errno stays as it is. */
int dsf_aside_close(struct dsf_aside *a, bool whole);

/* A folder that is not whole until it is forgotten, by the same path. */
void dsf_aside_add_folder(const char *path);
void dsf_aside_forget_folder(const char *path);

/* Remove all that are not whole yet, folders with what is in them: for a signal
 * that ends the process. Safe in its handler. */
void dsf_aside_drop_all(void);

#endif
