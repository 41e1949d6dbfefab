/* file.h - files, read and written whole. */
#ifndef DSF_BASE_FILE_H
#define DSF_BASE_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <dsflow/error.h>

/* Open a regular file for reading. Errors: DSFLOW_EINVAL where the path is
 * wrong (nothing there, a folder, a pipe, no permission), else DSFLOW_EIO. */
int dsf_file_open(const char *path, int *fd, int64_t *bytes,
                  struct dsflow_err *err);

/* `n` bytes of it from byte `at` on, of which it had `bytes` when it was opened.
 * Error: DSFLOW_EIO. */
int dsf_file_read(int fd, const char *path, int64_t bytes, int64_t at, void *to,
                  size_t n, struct dsflow_err *err);

/* All `n` bytes to byte `at` of it; 0, or -1 with errno. */
int dsf_file_write(int fd, const void *from, size_t n, off_t at);

/* A whole file of at most `most` bytes, ended with a NUL that is not counted;
 * free it. */
int dsf_file_load(const char *path, int64_t most, char **text, size_t *n,
                  struct dsflow_err *err);

/* Is there anything of that name in the folder? Is the path a folder? */
bool dsf_file_is_in(const char *folder, const char *name);
bool dsf_file_is_folder(const char *path);
/* Do two paths lead to one file or folder, which is there? */
bool dsf_file_is_same(const char *one, const char *other);

/* JSON in which no object has a key twice. Errors name the line: `path` is for
 * messages only. */
int dsf_json_parse(const char *text, size_t n, const char *path, json_t **root,
                   struct dsflow_err *err);
int dsf_json_load(const char *path, int64_t most, json_t **root,
                  struct dsflow_err *err);

#endif
