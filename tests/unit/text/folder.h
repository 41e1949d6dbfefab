/* folder.h - a folder for a test's files, and a job about them. */
#ifndef DSF_TESTS_FOLDER_H
#define DSF_TESTS_FOLDER_H

#include "base/alloc.h"
#include "config/job.h"

#include "lib/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline void write_file(const char *name, const char *text, size_t n)
{
    char *path = dsf_xasprintf("%s/%s", folder, name);
    FILE *f = fopen(path, "wb");

    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    free(path);
}

static inline void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text));
}

/* A job whose [data] is `data`, where "@" is the folder. */
static inline void make_job(struct dsf_job *job, const char *data)
{
    char *text = dsf_xasprintf("[job]\nname = \"t\"\nsteps = 1\n[data]\n");
    struct dsflow_err err = { 0 };

    for (; *data != '\0'; data++) {
        char *more = *data == '@' ? dsf_xasprintf("%s%s", text, folder)
                                  : dsf_xasprintf("%s%c", text, *data);

        free(text);
        text = more;
    }
    if (dsf_job_parse(text, strlen(text), "job.toml", NULL, 0, NULL, job,
                      &err) < 0)
        fail_msg("%s", err.msg);
    free(text);
}

#endif
