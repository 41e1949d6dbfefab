/* parts.c - the files of tensors of a checkpoint. */
#include "checkpoint/parts.h"

#include "base/alloc.h"
#include "base/synced.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *part_path(const char *folder, const struct dsf_ckpt_part *part)
{
    return dsf_xasprintf("%s/%s.safetensors", folder, part->name);
}

/* The file with its header and its size, for all who write it. */
static int begin_part(const char *folder, const struct dsf_ckpt_part *part,
                      struct dsflow_err *err)
{
    char *path = part_path(folder, part);
    int fd, status = dsf_synced_create(path, false, &fd, err);

    if (status == DSFLOW_OK) {
        status = dsf_st_begin(fd, path, part->tensors, part->n, err);
        status = dsf_synced_close(fd, path, status, err);
    }
    free(path);
    return status;
}

/* Let the file be written, or what is of this process, and sync it. */
static int write_part(const char *folder, const struct dsf_ckpt_part *part,
                      bool begun, uint64_t *sum, struct dsflow_err *err)
{
    char *path = part_path(folder, part);
    int fd =
        open(path, O_WRONLY | O_CREAT | (begun ? 0 : O_EXCL) | O_CLOEXEC, 0666);
    int status;

    if (fd < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    } else {
        status = dsf_st_write(fd, path, part->tensors, part->n, NULL, part->put,
                              part->user, sum, err);
        status = dsf_synced_close(fd, path, status, err);
    }
    free(path);
    return status;
}

int dsf_ckpt_write_parts(const char *folder,
                         const struct dsf_ckpt_others *others,
                         const struct dsf_ckpt_part *parts, unsigned nparts,
                         uint64_t *sums, struct dsflow_err *err)
{
    int status = DSFLOW_OK, end;

    for (unsigned i = 0; others != NULL && i < nparts && status == DSFLOW_OK;
         i++)
        status = begin_part(folder, &parts[i], err);
    if (status == DSFLOW_OK && others != NULL)
        status = others->begin(others->user, folder, err);
    if (status < 0)
        return status;
    for (unsigned i = 0; i < nparts && status == DSFLOW_OK; i++)
        status = write_part(folder, &parts[i], others != NULL, &sums[i], err);
    if (others == NULL)
        return status;
    end = others->end(others->user, sums, status == DSFLOW_OK ? err : NULL);
    return status == DSFLOW_OK ? end : status;
}

/* A file that another process has begun, and what this one has of it. */
struct some {
    const struct dsf_st_file *file;
    const struct dsf_ckpt_part *part;
};

static int put_some(void *user, unsigned i, struct dsf_st_writer *out,
                    struct dsflow_err *err)
{
    const struct some *x = user;
    const struct dsf_st_tensor *t = dsf_st_at(x->file, i);

    for (unsigned own = 0; own < x->part->n; own++)
        if (strcmp(x->part->tensors[own].name, t->name) == 0)
            return x->part->put(x->part->user, own, out, err);
    return dsf_st_skip(out, t->bytes, err);
}

int dsf_ckpt_write_some(const char *folder, const struct dsf_ckpt_part *parts,
                        unsigned nparts, uint64_t *sums, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < nparts && status == DSFLOW_OK; i++) {
        struct some x = { .part = &parts[i] };
        struct dsf_st_file *file = NULL;
        char *path = part_path(folder, &parts[i]);
        int fd = -1;

        status = dsf_st_open(path, &file, err);
        if (status == DSFLOW_OK && (fd = open(path, O_WRONLY | O_CLOEXEC)) < 0)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        x.file = file;
        if (status == DSFLOW_OK)
            status = dsf_st_write_some(file, fd, put_some, &x, &sums[i], err);
        if (fd >= 0)
            status = dsf_synced_close(fd, path, status, err);
        dsf_st_close(file);
        free(path);
    }
    return status;
}

int dsf_ckpt_open_part(const char *folder, const char *name,
                       struct dsf_st_file **file, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/%s.safetensors", folder, name);
    int status = dsf_st_open(path, file, err);

    free(path);
    return status;
}

const struct dsf_st_tensor *dsf_ckpt_find(const struct dsf_st_file *file,
                                          const struct dsf_st_tensor *wanted,
                                          struct dsflow_err *err)
{
    const struct dsf_st_tensor *t = dsf_st_find(file, wanted->name);
    const char *path = dsf_st_path(file);

    if (t == NULL) {
        dsflow_fail(err, DSFLOW_EINVAL, "%s: has no tensor %s", path,
                    wanted->name);
    } else if (t->dtype != wanted->dtype || t->bytes != wanted->bytes) {
        dsflow_fail(err, DSFLOW_EINVAL, "%s: %s: %zu bytes: this job has %zu",
                    path, wanted->name, t->bytes, wanted->bytes);
        t = NULL;
    }
    return t;
}

static int load_tensor(const struct dsf_st_file *file,
                       const struct dsf_ckpt_part *part, unsigned i,
                       struct dsflow_err *err)
{
    const struct dsf_st_tensor *to = &part->tensors[i];
    const struct dsf_st_tensor *from = dsf_ckpt_find(file, to, err);

    if (from == NULL)
        return DSFLOW_EINVAL;
    if (to->data == NULL)
        return part->take(part->user, i, file, from, err);
    return dsf_st_read(file, from, 0, to->bytes, (void *)to->data, err);
}

int dsf_ckpt_load(const char *folder, const struct dsf_ckpt_part *parts,
                  unsigned nparts, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    for (unsigned i = 0; i < nparts && status == DSFLOW_OK; i++) {
        struct dsf_st_file *file = NULL;

        status = dsf_ckpt_open_part(folder, parts[i].name, &file, err);
        for (unsigned t = 0; t < parts[i].n && status == DSFLOW_OK; t++)
            status = load_tensor(file, &parts[i], t, err);
        dsf_st_close(file);
    }
    return status;
}
