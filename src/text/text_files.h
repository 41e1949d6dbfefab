/* text_files.h - the files of [data]: found, mapped, and checked to be text. */
#ifndef DSF_TEXT_TEXT_FILES_H
#define DSF_TEXT_TEXT_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <dsflow/error.h>
#include <dsflow/option.h>
#include "config/job.h"

struct dsf_text_file {
    char *path;
    const char *text; /* mapped */
    size_t bytes;
};

struct dsf_text_files {
    struct dsf_text_file *v;
    unsigned n;
    size_t cap;
};

/* The files of `names` (paths and globs), which is key `key` of [data]: each
 * once, in the order of their paths. What a glob finds besides text is left
 * out: folders, indexes "x.dat" beside "x", links to files that are there. */
int dsf_text_files_open(const struct dsf_job *job, const char *key,
                        const struct dsflow_strings *names,
                        struct dsf_text_files *files, struct dsflow_err *err);
void dsf_text_files_close(struct dsf_text_files *files);

/* A file is text if it has no NUL byte and, where `utf8`, is UTF-8 for nine
 * tenths at least. */
int dsf_text_files_check(const struct dsf_job *job, const char *key,
                         const struct dsf_text_files *files, bool utf8,
                         struct dsflow_err *err);

#endif
