/* text_files.c - the files of [data]: found, mapped, and checked. */
#include "text/text_files.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct found {
    char *path;
    dev_t device;
    ino_t inode;
    bool link;
};

struct list {
    struct found *v;
    unsigned n;
    size_t cap;
};

static void add(struct list *list, const char *path, const struct stat *st)
{
    struct stat own;

    dsf_grow(&list->v, &list->cap, list->n + 1, sizeof(*list->v));
    list->v[list->n++] = (struct found){
        .path = dsf_xstrdup(path),
        .device = st->st_dev,
        .inode = st->st_ino,
        .link = lstat(path, &own) == 0 && S_ISLNK(own.st_mode),
    };
}

/* "quotes.dat" beside "quotes" is an index made by strfile(1). */
static bool is_index(const char *path)
{
    size_t n = strlen(path);
    struct stat st;
    bool yes;
    char *of;

    if (n < 5 || strcmp(path + n - 4, ".dat") != 0)
        return false;
    of = dsf_xstrndup(path, n - 4);
    yes = stat(of, &st) == 0 && S_ISREG(st.st_mode);
    free(of);
    return yes;
}

static int add_glob(const struct dsf_job *job, const char *key,
                    const char *pattern, struct list *list,
                    struct dsflow_err *err)
{
    unsigned before = list->n;
    int status = DSFLOW_OK;
    struct stat st;
    glob_t found;
    int rc = glob(pattern, GLOB_NOSORT, NULL, &found);

    if (rc != 0 && rc != GLOB_NOMATCH)
        return dsflow_fail(err, DSFLOW_EIO, "%s: cannot be searched", pattern);
    for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++)
        if (stat(found.gl_pathv[i], &st) == 0 && S_ISREG(st.st_mode) &&
            !is_index(found.gl_pathv[i]))
            add(list, found.gl_pathv[i], &st);
    if (list->n == before)
        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                              rc == 0 ? "%s: no text file among what it matches"
                                      : "%s: matches no file",
                              pattern);
    if (rc == 0)
        globfree(&found);
    return status;
}

static int add_name(const struct dsf_job *job, const char *key,
                    const char *name, struct list *list, struct dsflow_err *err)
{
    struct stat st;

    if (name[0] == '\0')
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                            "\"\": expected a file");
    if (stat(name, &st) < 0) {
        if (strpbrk(name, "*?[") != NULL)
            return add_glob(job, key, name, list, err);
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key, "%s: %s",
                            name, strerror(errno));
    }
    if (S_ISDIR(st.st_mode))
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                            "%s: is a folder; expected a file, or \"%s/*\"",
                            name, name);
    if (!S_ISREG(st.st_mode))
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                            "%s: is not a file", name);
    add(list, name, &st);
    return DSFLOW_OK;
}

/* Of the names of one file, the first is the one to keep: no link, and the
 * first in order. */
static int by_file(const void *one, const void *other)
{
    const struct found *a = one, *b = other;

    if (a->device != b->device)
        return a->device < b->device ? -1 : 1;
    if (a->inode != b->inode)
        return a->inode < b->inode ? -1 : 1;
    if (a->link != b->link)
        return a->link ? 1 : -1;
    return strcmp(a->path, b->path);
}

static int by_path(const void *one, const void *other)
{
    const struct found *a = one, *b = other;

    return strcmp(a->path, b->path);
}

static void sort_once_each(struct list *list)
{
    unsigned kept = 0;

    if (list->n == 0)
        return;
    qsort(list->v, list->n, sizeof(*list->v), by_file);
    for (unsigned i = 0; i < list->n; i++) {
        if (i > 0 && list->v[i].device == list->v[kept - 1].device &&
            list->v[i].inode == list->v[kept - 1].inode)
            free(list->v[i].path);
        else
            list->v[kept++] = list->v[i];
    }
    list->n = kept;
    qsort(list->v, list->n, sizeof(*list->v), by_path);
}

static int map(const struct dsf_job *job, const char *key, const char *path,
               struct dsf_text_file *file, struct dsflow_err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int status = DSFLOW_OK;
    struct stat st;
    void *text;

    if (fd < 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key, "%s: %s",
                            path, strerror(errno));
    if (fstat(fd, &st) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        goto out_close;
    }
    if (st.st_size <= 0) {
        status = dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                              "%s: is empty; expected text", path);
        goto out_close;
    }
    text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (text == MAP_FAILED) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: cannot be mapped: %m", path);
        goto out_close;
    }
    *file =
        (struct dsf_text_file){ dsf_xstrdup(path), text, (size_t)st.st_size };

out_close:
    close(fd);
    return status;
}

int dsf_text_files_open(const struct dsf_job *job, const char *key,
                        const struct dsflow_strings *names,
                        struct dsf_text_files *files, struct dsflow_err *err)
{
    struct list list = { 0 };
    int status = DSFLOW_OK;

    *files = (struct dsf_text_files){ 0 };
    for (unsigned i = 0; i < names->n && status == DSFLOW_OK; i++)
        status = add_name(job, key, names->v[i], &list, err);
    sort_once_each(&list);
    for (unsigned i = 0; i < list.n && status == DSFLOW_OK; i++) {
        dsf_grow(&files->v, &files->cap, i + 1, sizeof(*files->v));
        status = map(job, key, list.v[i].path, &files->v[i], err);
        files->n += status == DSFLOW_OK;
    }
    for (unsigned i = 0; i < list.n; i++)
        free(list.v[i].path);
    free(list.v);
    if (status < 0)
        dsf_text_files_close(files);
    return status;
}

void dsf_text_files_close(struct dsf_text_files *files)
{
    for (unsigned i = 0; i < files->n; i++) {
        munmap((void *)files->v[i].text, files->v[i].bytes);
        free(files->v[i].path);
    }
    free(files->v);
    *files = (struct dsf_text_files){ 0 };
}

/* Where the piece at `at` ends, which cuts no character. */
static size_t end_of_piece(const struct dsf_text_file *file, size_t at)
{
    size_t end = at + dsf_mapped_piece(file->text, file->bytes, at);

    for (int i = 0; i < 3 && end < file->bytes &&
                    ((unsigned char)file->text[end] & 0xc0) == 0x80;
         i++)
        end--;
    return end;
}

static int check_utf8(const struct dsf_job *job, const char *key,
                      const struct dsf_text_file *file, struct dsflow_err *err)
{
    size_t at = 0, end = 0, bad = 0, first = 0, n;

    while (at < file->bytes) {
        if (at >= end)
            end = end_of_piece(file, at);
        at += dsf_utf8_valid(file->text + at, end - at);
        if (at == end)
            continue;
        if (bad == 0)
            first = at;
        n = dsf_utf8_invalid(file->text + at, file->bytes - at);
        bad += n;
        at += n;
    }
    dsf_mapped_let_go(file->text, file->bytes);
    if (bad <= file->bytes / 10)
        return DSFLOW_OK;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                        "%s: is no UTF-8 text: %zu of %zu bytes are invalid, "
                        "the first at offset %zu",
                        file->path, bad, file->bytes, first);
}

static const char *find_nul(const struct dsf_text_file *file)
{
    const char *nul = NULL;
    size_t n;

    for (size_t at = 0;
         nul == NULL && (n = dsf_mapped_piece(file->text, file->bytes, at)) > 0;
         at += n)
        nul = memchr(file->text + at, 0, n);
    return nul;
}

int dsf_text_files_check(const struct dsf_job *job, const char *key,
                         const struct dsf_text_files *files, bool utf8,
                         struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < files->n && status == DSFLOW_OK; i++) {
        const struct dsf_text_file *file = &files->v[i];
        const char *nul = find_nul(file);

        if (nul != NULL)
            status = dsf_job_fail(job, err, DSFLOW_EINVAL, "data", key,
                                  "%s: is no text: a NUL byte at offset %zu",
                                  file->path, (size_t)(nul - file->text));
        else if (utf8)
            status = check_utf8(job, key, file, err);
    }
    return status;
}
