/* checkpoint.c - a folder of checkpoints, each complete or absent: saving,
 * finding and removing them. */
#include "checkpoint/checkpoint.h"

#include "base/alloc.h"
#include "base/synced.h"
#include "checkpoint/manifest.h"
#include "checkpoint/parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* "step-120" and `suffix` give 120; anything else, as "step-0120", -1. */
static int64_t step_with(const char *name, const char *suffix)
{
    char same[64];
    long long step;

    if (sscanf(name, "step-%lld", &step) != 1 || step < 0)
        return -1;
    snprintf(same, sizeof(same), "step-%lld%s", step, suffix);
    return strcmp(name, same) == 0 ? step : -1;
}

static int64_t step_of(const char *name)
{
    return step_with(name, "");
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The steps there are folders of, oldest first; none where there is no `dir`.
 * `steps` is freed by the caller. */
static int list_steps(const char *dir, int64_t **steps, size_t *n,
                      struct dsflow_err *err)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    size_t cap = 0;

    *steps = NULL;
    *n = 0;
    if (d == NULL && errno != ENOENT)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", dir);
    if (d == NULL)
        return DSFLOW_OK;
    while (errno = 0, (e = readdir(d)) != NULL)
        if (step_of(e->d_name) >= 0) {
            dsf_grow(steps, &cap, *n + 1, sizeof(**steps));
            (*steps)[(*n)++] = step_of(e->d_name);
        }
    if (errno != 0) {
        dsflow_fail(err, DSFLOW_EIO, "%s: %m", dir);
        closedir(d);
        return DSFLOW_EIO;
    }
    closedir(d);
    if (*n > 0)
        qsort(*steps, *n, sizeof(**steps), ascending);
    return DSFLOW_OK;
}

static char *step_path(const char *dir, int64_t step)
{
    return dsf_xasprintf("%s/step-%" PRId64, dir, step);
}

/* What a run that died left behind. */
static bool is_unfinished(const char *name)
{
    return step_with(name, ".tmp") >= 0 || step_with(name, ".old") >= 0;
}

static void remove_unfinished(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL)
        if (is_unfinished(e->d_name)) {
            char *path = dsf_xasprintf("%s/%s", dir, e->d_name);

            dsf_synced_remove(path);
            free(path);
        }
    if (d != NULL)
        closedir(d);
}

static int point_latest(const char *dir, int64_t step, struct dsflow_err *err)
{
    char *path = dsf_xasprintf("%s/latest", dir);
    char *tmp = dsf_xasprintf("%s/latest.tmp", dir);
    char *text = dsf_xasprintf("step-%" PRId64 "\n", step);
    int status = dsf_synced_text(tmp, true, text, strlen(text), err);

    if (status == DSFLOW_OK && rename(tmp, path) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (status < 0)
        unlink(tmp);
    free(text);
    free(tmp);
    free(path);
    return status == DSFLOW_OK ? dsf_synced_folder(dir, err) : status;
}

/* What `latest` names: a path, or NULL with a message. No `latest` at all is
 * `absent`, and no message. */
static char *read_latest(const char *dir, bool *absent, struct dsflow_err *err)
{
    char *file = dsf_xasprintf("%s/latest", dir), *path = NULL;
    FILE *f = fopen(file, "r");
    char name[64] = "";

    *absent = f == NULL && errno == ENOENT;
    if (*absent) {
        /* A run that died between naming its first checkpoint and pointing
         * at it: what has its name is whole. */
    } else if (f == NULL) {
        dsflow_fail(err, DSFLOW_EFAIL, "%s: %m", file);
    } else {
        if (fgets(name, sizeof(name), f) != NULL)
            name[strcspn(name, "\n")] = '\0';
        fclose(f);
        if (step_of(name) >= 0)
            path = dsf_xasprintf("%s/%s", dir, name);
        else
            dsflow_fail(err, DSFLOW_EFAIL,
                        "%s: damaged: expected the name of a checkpoint", file);
    }
    free(file);
    return path;
}

int dsf_ckpt_name_latest(const char *path, struct dsflow_err *err)
{
    const char *slash = strrchr(path, '/');
    char *dir = dsf_xstrndup(path, (size_t)(slash - path)), *named;
    bool absent;
    int status = DSFLOW_OK;

    named = read_latest(dir, &absent, NULL);
    if (named == NULL || strcmp(named, path) != 0)
        status = point_latest(dir, step_of(slash + 1), err);
    free(named);
    free(dir);
    return status;
}

static void remove_oldest(const char *dir, int64_t newest, int64_t keep)
{
    int64_t *steps;
    size_t n;
    int status = list_steps(dir, &steps, &n, NULL);

    for (size_t i = 0; status == DSFLOW_OK && keep > 0 && i + (size_t)keep < n;
         i++)
        if (steps[i] != newest) {
            char *path = step_path(dir, steps[i]);
            char *doomed = dsf_xasprintf("%s.old", path);

            /* Renamed first: what is half removed is no checkpoint. */
            if (rename(path, doomed) == 0)
                dsf_synced_remove(doomed);
            free(doomed);
            free(path);
        }
    free(steps);
}

/* All parts, then the manifest that makes them a checkpoint. */
static int write_all(const char *folder, const struct dsf_ckpt_meta *meta,
                     const struct dsf_ckpt_part *parts, unsigned nparts,
                     struct dsflow_err *err)
{
    uint64_t *sums = dsf_xcalloc(nparts, sizeof(*sums));
    int status =
        dsf_ckpt_write_parts(folder, meta->others, parts, nparts, sums, err);

    if (status == DSFLOW_OK)
        status =
            dsf_ckpt_manifest_write(folder, meta, parts, nparts, sums, err);
    free(sums);
    return status == DSFLOW_OK ? dsf_synced_folder(folder, err) : status;
}

/* Give what was written its name. A damaged one, or one of another run, makes
 * way: at once where the file system can change two names, with which a crash
 * leaves either. */
static int rename_whole(const char *tmp, const char *path, const char *old,
                        struct dsflow_err *err)
{
    bool there = access(path, F_OK) == 0;

    if (there && renameat2(AT_FDCWD, tmp, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return DSFLOW_OK;
    if (there && rename(path, old) < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (rename(tmp, path) == 0)
        return DSFLOW_OK;
    dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    rename(old, path);
    return DSFLOW_EIO;
}

int dsf_ckpt_save(const char *dir, const struct dsf_ckpt_meta *meta,
                  const struct dsf_ckpt_part *parts, unsigned nparts,
                  int64_t keep, struct dsflow_err *err)
{
    char *path = step_path(dir, meta->step);
    char *tmp = dsf_xasprintf("%s.tmp", path);
    char *old = dsf_xasprintf("%s.old", path);
    struct dsf_ckpt_meta there;
    int status = dsf_synced_folders(dir, err);

    if (status < 0)
        goto out;
    remove_unfinished(dir);
    /* The same step of the same run has the same bytes, if nobody wrote there.
     */
    if (!meta->edited && dsf_ckpt_verify(path, &there, NULL) == DSFLOW_OK &&
        there.identity == meta->identity) {
        status = point_latest(dir, meta->step, err);
        if (status == DSFLOW_OK)
            remove_oldest(dir, meta->step, keep);
        goto out;
    }
    if (mkdir(tmp, 0777) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", tmp);
        goto out;
    }
    status = write_all(tmp, meta, parts, nparts, err);
    if (status == DSFLOW_OK)
        status = rename_whole(tmp, path, old, err);
    if (status < 0) {
        dsf_synced_remove(tmp);
        goto out;
    }
    status = dsf_synced_folder(dir, err);
    if (status == DSFLOW_OK)
        status = point_latest(dir, meta->step, err);
    if (status == DSFLOW_OK) {
        remove_unfinished(dir); /* what made way */
        remove_oldest(dir, meta->step, keep);
    }
out:
    free(old);
    free(tmp);
    free(path);
    return status;
}

void dsf_ckpt_remove_all(const char *dir)
{
    char *latest = dsf_xasprintf("%s/latest", dir);
    int64_t *steps;
    size_t n;

    list_steps(dir, &steps, &n, NULL);
    unlink(latest);
    for (size_t i = 0; i < n; i++) {
        char *path = step_path(dir, steps[i]);

        dsf_synced_remove(path);
        free(path);
    }
    remove_unfinished(dir);
    free(steps);
    free(latest);
}

/* The newest whole checkpoint, or NULL. */
static char *newest_whole(const char *dir, struct dsf_ckpt_meta *meta)
{
    int64_t *steps;
    size_t n;
    char *path = NULL;

    list_steps(dir, &steps, &n, NULL);
    for (size_t i = n; i-- > 0 && path == NULL;) {
        path = step_path(dir, steps[i]);
        if (dsf_ckpt_verify(path, meta, NULL) < 0) {
            free(path);
            path = NULL;
        }
    }
    free(steps);
    return path;
}

int dsf_ckpt_latest(const char *dir, int good, char **path,
                    struct dsf_ckpt_meta *meta, struct dsflow_err *err)
{
    struct dsf_ckpt_meta other;
    int64_t *steps;
    bool absent;
    size_t n;
    char *best;
    int status = list_steps(dir, &steps, &n, err);

    free(steps);
    *path = NULL;
    if (status < 0 || n == 0)
        return status;
    if (!good) {
        *path = read_latest(dir, &absent, err);
        if (*path != NULL && dsf_ckpt_verify(*path, meta, err) == DSFLOW_OK)
            return DSFLOW_OK;
        free(*path);
        *path = NULL;
        good = absent;
    }
    best = newest_whole(dir, good ? meta : &other);
    if (good && best != NULL) {
        *path = best;
        return DSFLOW_OK;
    }
    if (good)
        return dsflow_fail(err, DSFLOW_EFAIL,
                           "%s: none of the %zu checkpoints is whole", dir, n);
    if (err != NULL) {
        char msg[sizeof(err->msg)];

        memcpy(msg, err->msg, sizeof(msg));
        if (best != NULL)
            dsflow_fail(err, DSFLOW_EFAIL,
                        "%s; --resume=latest-good would take step %" PRId64,
                        msg, other.step);
        else
            dsflow_fail(err, DSFLOW_EFAIL, "%s; no other is whole", msg);
    }
    free(best);
    return DSFLOW_EFAIL;
}

/* The bytes of the files in a folder. */
static double bytes_in(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;
    struct stat st;
    double bytes = 0;

    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(st.st_mode))
            bytes += 512.0 * (double)st.st_blocks;
    if (dir != NULL)
        closedir(dir);
    return bytes;
}

struct dsf_ckpt_use dsf_ckpt_use(const char *dir)
{
    struct dsf_ckpt_use use = { 0 };
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL) {
        char *path = dsf_xasprintf("%s/%s", dir, e->d_name);

        if (step_of(e->d_name) >= 0) {
            if (use.n == 0 || step_of(e->d_name) > use.newest)
                use.newest = step_of(e->d_name);
            use.n++;
            use.bytes += bytes_in(path);
        } else if (is_unfinished(e->d_name)) {
            use.unfinished += bytes_in(path);
        }
        free(path);
    }
    if (d != NULL)
        closedir(d);
    return use;
}

int dsf_ckpt_list(const char *dir,
                  void (*each)(void *user, const char *path,
                               const struct dsf_ckpt_meta *meta,
                               int64_t bytes, int status,
                               const struct dsflow_err *why),
                  void *user, struct dsflow_err *err)
{
    int64_t *steps;
    size_t n;
    int status = list_steps(dir, &steps, &n, err);

    if (status == DSFLOW_OK && n == 0 && access(dir, F_OK) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", dir);
    for (size_t i = 0; status == DSFLOW_OK && i < n; i++) {
        struct dsf_ckpt_meta meta = { .step = steps[i] };
        struct dsflow_err why = { 0 };
        char *path = step_path(dir, steps[i]);
        int whole = dsf_ckpt_verify(path, &meta, &why);
        int64_t bytes = 0;

        if (whole == DSFLOW_OK)
            bytes = dsf_ckpt_manifest_bytes(path);
        each(user, path, &meta, bytes, whole, &why);
        free(path);
    }
    free(steps);
    return status;
}
