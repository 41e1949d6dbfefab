/* new_folder.h - a folder that appears whole or not at all: it is written
 * beside its name, and takes the name then. A signal that ends a command
 * (aside.h) leaves nothing of it. */
#ifndef DSF_BASE_NEW_FOLDER_H
#define DSF_BASE_NEW_FOLDER_H

#include <dsflow/error.h>

/* Make a folder to write to, *beside `folder`, which must be new or empty; it
 * is closed. Error: DSFLOW_EINVAL, and there is nothing to close. */
int dsf_new_folder_open(const char *folder, char **beside,
                        struct dsflow_err *err);

/* `status` is what writing came to: where it is good the folder takes its name;
 * otherwise, or where that fails, nothing is left of it. Frees `beside`.
 * Returns `status`, or the error of that, DSFLOW_EINVAL. */
int dsf_new_folder_close(const char *folder, char *beside, int status,
                         struct dsflow_err *err);

/* Whether it could be made, before anything is done for it; leaves nothing.
 * Error: DSFLOW_EINVAL. */
int dsf_new_folder_check(const char *folder, struct dsflow_err *err);

#endif
