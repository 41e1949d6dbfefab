/* synced.h - files and folders that are on disk, or gone, when a call
 * returns.
 *
 * All errors are DSFLOW_EIO and name the path. */
#ifndef DSF_BASE_SYNCED_H
#define DSF_BASE_SYNCED_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/error.h>

/* A new file to write; `replace`: one that is there is emptied, and not an
 * error. */
int dsf_synced_create(const char *path, bool replace, int *fd,
                      struct dsflow_err *err);

/* Close what was written, with fsync where `status`, which is what writing it
 * came to, is good; NFS says only then what went wrong. Returns `status`, or
 * the error of that. */
int dsf_synced_close(int fd, const char *path, int status,
                     struct dsflow_err *err);

/* A file of `n` bytes of text. */
int dsf_synced_text(const char *path, bool replace, const char *text, size_t n,
                    struct dsflow_err *err);

/* The names that are in a folder. */
int dsf_synced_folder(const char *path, struct dsflow_err *err);

/* A folder, and those above it, as far as they are not there. errno is that of
 * the error. */
int dsf_synced_folders(const char *path, struct dsflow_err *err);

/* Remove a folder of plain files, as far as that goes; of a link, the link:
 * what it points to stays. */
void dsf_synced_remove(const char *path);

#endif
