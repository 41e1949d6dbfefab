/* checkpoint.c - writing, reading and finding checkpoints: complete or
 * absent. */
#include "checkpoint/checkpoint.h"

#include "base/alloc.h"
#include "base/crc64.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* 1 had XXH3 in place of CRC-64. */
#define VERSION 2

static int sync_folder(const char *path, struct dsflow_err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = DSFLOW_OK;

    if (fd < 0 || fsync(fd) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Remove a folder of plain files. */
static void remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *e;

    while (dir != NULL && (e = readdir(dir)) != NULL)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            unlinkat(dirfd(dir), e->d_name, 0);
    if (dir != NULL)
        closedir(dir);
    rmdir(path);
}

static char *part_path(const char *folder, const struct dsf_ckpt_part *part)
{
    return dsf_xasprintf("%s/%s.safetensors", folder, part->name);
}

/* Close what was written; NFS says only then what went wrong. */
static int close_part(int fd, const char *path, bool syncs, int status,
                      struct dsflow_err *err)
{
    if (status == DSFLOW_OK && syncs && fsync(fd) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (close(fd) < 0 && status == DSFLOW_OK)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    return status;
}

/* The file with its header and its size, for all who write it. */
static int begin_part(const char *folder, const struct dsf_ckpt_part *part,
                      struct dsflow_err *err)
{
    char *path = part_path(folder, part);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    int status;

    if (fd < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    } else {
        status = dsf_st_begin(fd, path, part->tensors, part->n, err);
        status = close_part(fd, path, false, status, err);
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
        status = close_part(fd, path, true, status, err);
    }
    free(path);
    return status;
}

/* All files, with those who write them too; their sums. */
static int write_parts(const char *folder, const struct dsf_ckpt_others *others,
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
            status = close_part(fd, path, true, status, err);
        dsf_st_close(file);
        free(path);
    }
    return status;
}

static int write_text(const char *path, const char *text,
                      struct dsflow_err *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    size_t n = strlen(text);
    int status = DSFLOW_OK;

    if (fd < 0)
        return dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    while (n > 0 && status == DSFLOW_OK) {
        ssize_t k = write(fd, text, n);

        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            status = dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m",
                                 path);
            break;
        }
        text += k;
        n -= (size_t)k;
    }
    if (status == DSFLOW_OK && fsync(fd) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (close(fd) < 0 && status == DSFLOW_OK)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    return status;
}

static json_t *hash_json(uint64_t hash)
{
    char text[17];

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    return json_string(text);
}

void dsf_ckpt_fields_add(struct dsf_ckpt_fields *of, const char *key,
                         const char *value)
{
    dsf_grow(&of->v, &of->cap, of->n + 1, sizeof(*of->v));
    of->v[of->n++] =
        (struct dsf_ckpt_field){ dsf_xstrdup(key), dsf_xstrdup(value) };
}

const char *dsf_ckpt_fields_find(const struct dsf_ckpt_fields *of,
                                 const char *key)
{
    for (size_t i = 0; i < of->n; i++)
        if (strcmp(of->v[i].key, key) == 0)
            return of->v[i].value;
    return NULL;
}

void dsf_ckpt_fields_fini(struct dsf_ckpt_fields *of)
{
    for (size_t i = 0; i < of->n; i++) {
        free(of->v[i].key);
        free(of->v[i].value);
    }
    free(of->v);
    *of = (struct dsf_ckpt_fields){ 0 };
}

static json_t *fields_json(const struct dsf_ckpt_fields *of)
{
    json_t *object = json_object();

    for (size_t i = 0; of != NULL && i < of->n; i++)
        json_object_set_new(object, of->v[i].key, json_string(of->v[i].value));
    return object;
}

/* All parts, then the manifest that makes them a checkpoint. */
static int write_all(const char *folder, const struct dsf_ckpt_meta *meta,
                     const struct dsf_ckpt_part *parts, unsigned nparts,
                     struct dsflow_err *err)
{
    json_t *files = json_object();
    json_t *root = json_pack(
        "{s:i, s:s, s:I, s:o, s:o, s:o, s:o}", "version", VERSION, "job", meta->job,
        "step", (json_int_t)meta->step, "identity", hash_json(meta->identity),
        "of", fields_json(meta->of), "numbers", fields_json(meta->numbers),
        "files", files);
    uint64_t *sums = dsf_xcalloc(nparts, sizeof(*sums));
    int status = write_parts(folder, meta->others, parts, nparts, sums, err);
    char *path, *text;

    for (unsigned i = 0; i < nparts; i++) {
        char *name = dsf_xasprintf("%s.safetensors", parts[i].name);
        int64_t bytes = dsf_st_bytes(parts[i].tensors, parts[i].n, NULL);

        json_object_set_new(
            files, name,
            json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "crc64",
                      hash_json(dsf_crc64_of(sums[i], (uint64_t)bytes))));
        free(name);
    }
    free(sums);
    if (status == DSFLOW_OK) {
        path = dsf_xasprintf("%s/manifest.json", folder);
        text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
        status = write_text(path, text, err);
        free(text);
        free(path);
    }
    json_decref(root);
    return status == DSFLOW_OK ? sync_folder(folder, err) : status;
}

/* "step-120" gives 120; anything else -1. */
static int64_t step_of(const char *name)
{
    char *end;
    long long step;

    if (strncmp(name, "step-", 5) != 0 || name[5] < '0' || name[5] > '9')
        return -1;
    step = strtoll(name + 5, &end, 10);
    return *end == '\0' ? step : -1;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return x < y ? -1 : x > y;
}

/* The steps there are folders of, oldest first. */
static int64_t *list_steps(const char *dir, size_t *n)
{
    DIR *d = opendir(dir);
    struct dirent *e;
    int64_t *steps = NULL;
    size_t cap = 0;

    *n = 0;
    while (d != NULL && (e = readdir(d)) != NULL)
        if (step_of(e->d_name) >= 0) {
            dsf_grow(&steps, &cap, *n + 1, sizeof(*steps));
            steps[(*n)++] = step_of(e->d_name);
        }
    if (d != NULL)
        closedir(d);
    if (*n > 0)
        qsort(steps, *n, sizeof(*steps), ascending);
    return steps;
}

static char *step_path(const char *dir, int64_t step)
{
    return dsf_xasprintf("%s/step-%" PRId64, dir, step);
}

/* What a run that died left behind. */
static bool is_unfinished(const char *name)
{
    return strncmp(name, "step-", 5) == 0 &&
           (strstr(name, ".tmp") != NULL || strstr(name, ".old") != NULL);
}

static void remove_unfinished(const char *dir)
{
    DIR *d = opendir(dir);
    struct dirent *e;

    while (d != NULL && (e = readdir(d)) != NULL)
        if (is_unfinished(e->d_name)) {
            char *path = dsf_xasprintf("%s/%s", dir, e->d_name);

            remove_folder(path);
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
    int status = write_text(tmp, text, err);

    if (status == DSFLOW_OK && rename(tmp, path) < 0)
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    if (status < 0)
        unlink(tmp);
    free(text);
    free(tmp);
    free(path);
    return status == DSFLOW_OK ? sync_folder(dir, err) : status;
}

static void remove_oldest(const char *dir, int64_t newest, int64_t keep)
{
    size_t n;
    int64_t *steps = list_steps(dir, &n);

    for (size_t i = 0; keep > 0 && i + (size_t)keep < n; i++)
        if (steps[i] != newest) {
            char *path = step_path(dir, steps[i]);
            char *doomed = dsf_xasprintf("%s.old", path);

            /* Renamed first: what is half removed is no checkpoint. */
            if (rename(path, doomed) == 0)
                remove_folder(doomed);
            free(doomed);
            free(path);
        }
    free(steps);
}

static int make_folders(const char *path, struct dsflow_err *err)
{
    char *copy = dsf_xstrdup(path);
    int status = DSFLOW_OK;

    for (char *c = copy + 1; status == DSFLOW_OK; c++) {
        bool last = *c == '\0';

        if (*c != '/' && !last)
            continue;
        *c = '\0';
        if (mkdir(copy, 0777) < 0 && errno != EEXIST)
            status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", copy);
        if (last)
            break;
        *c = '/';
    }
    free(copy);
    return status;
}

int dsf_ckpt_save(const char *dir, const struct dsf_ckpt_meta *meta,
                  const struct dsf_ckpt_part *parts, unsigned nparts,
                  int64_t keep, struct dsflow_err *err)
{
    char *path = step_path(dir, meta->step);
    char *tmp = dsf_xasprintf("%s.tmp", path);
    char *old = dsf_xasprintf("%s.old", path);
    struct dsf_ckpt_meta there;
    int status = make_folders(dir, err);

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
    if (status < 0)
        goto out_remove;
    /* A damaged one, or one of another run, makes way. */
    if (access(path, F_OK) == 0 && rename(path, old) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        goto out_remove;
    }
    if (rename(tmp, path) < 0) {
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
        rename(old, path);
        goto out_remove;
    }
    status = sync_folder(dir, err);
    if (status == DSFLOW_OK)
        status = point_latest(dir, meta->step, err);
    if (status == DSFLOW_OK) {
        remove_folder(old);
        remove_oldest(dir, meta->step, keep);
    }
    goto out;

out_remove:
    remove_folder(tmp);
out:
    free(old);
    free(tmp);
    free(path);
    return status;
}

void dsf_ckpt_remove_all(const char *dir)
{
    char *latest = dsf_xasprintf("%s/latest", dir);
    size_t n;
    int64_t *steps = list_steps(dir, &n);

    unlink(latest);
    for (size_t i = 0; i < n; i++) {
        char *path = step_path(dir, steps[i]);

        remove_folder(path);
        free(path);
    }
    remove_unfinished(dir);
    free(steps);
    free(latest);
}

static uint64_t parse_hash(const json_t *text)
{
    const char *s = json_string_value(text);

    return s == NULL ? 0 : strtoull(s, NULL, 16);
}

/* The manifest of `path`, checked; released by the caller. */
static int read_manifest(const char *path, json_t **root,
                         struct dsf_ckpt_meta *meta, struct dsflow_err *err)
{
    char *file = dsf_xasprintf("%s/manifest.json", path);
    json_error_t why;
    json_t *r = json_load_file(file, JSON_REJECT_DUPLICATES, &why);
    const char *job = json_string_value(json_object_get(r, "job"));
    int status = DSFLOW_OK;

    *root = NULL;
    if (access(file, F_OK) < 0)
        status = dsflow_fail(err, DSFLOW_EFAIL,
                             "%s: is no checkpoint: it has no manifest.json",
                             path);
    else if (r == NULL)
        status = dsflow_fail(err, DSFLOW_EFAIL, "%s:%d: damaged: %s", file,
                             why.line, why.text);
    else if (json_integer_value(json_object_get(r, "version")) < 1 ||
             json_integer_value(json_object_get(r, "version")) > VERSION)
        status = dsflow_fail(err, DSFLOW_EFAIL, "%s: version: expected 1 to %d",
                             file, VERSION);
    else if (job == NULL || !json_is_integer(json_object_get(r, "step")) ||
             !json_is_object(json_object_get(r, "files")))
        status = dsflow_fail(err, DSFLOW_EFAIL,
                             "%s: damaged: expected job, step and files", file);
    free(file);
    if (status < 0) {
        json_decref(r);
        return status;
    }
    memset(meta, 0, sizeof(*meta));
    snprintf(meta->job, sizeof(meta->job), "%s", job);
    dsf_utf8_clean(meta->job);
    meta->step = json_integer_value(json_object_get(r, "step"));
    meta->identity = parse_hash(json_object_get(r, "identity"));
    *root = r;
    return DSFLOW_OK;
}

int dsf_ckpt_fields_read(const char *path, const char *which,
                         struct dsf_ckpt_fields *fields, struct dsflow_err *err)
{
    struct dsf_ckpt_meta meta;
    json_t *root, *value;
    const char *key;
    int status = read_manifest(path, &root, &meta, err);

    if (status < 0)
        return status;
    json_object_foreach(json_object_get(root, which), key, value)
        if (json_is_string(value))
            dsf_ckpt_fields_add(fields, key, json_string_value(value));
    json_decref(root);
    return DSFLOW_OK;
}

/* Does the file hold what the manifest says? */
static int verify_file(const char *path, const json_t *file,
                       struct dsflow_err *err)
{
    enum { CHUNK = 1 << 20 };
    int64_t bytes = json_integer_value(json_object_get(file, "bytes"));
    const json_t *crc = json_object_get(file, "crc64");
    FILE *f = fopen(path, "rb");
    XXH3_state_t *state = XXH3_createState(); /* where there is no crc64 */
    char *buf = dsf_xcalloc(CHUNK, 1);
    uint64_t sum = 0;
    int64_t total = 0;
    int status = DSFLOW_OK;
    size_t n;

    XXH3_64bits_reset(state);
    if (f == NULL) {
        status = dsflow_fail(err, DSFLOW_EFAIL, "%s: %m", path);
        goto out;
    }
    while ((n = fread(buf, 1, CHUNK, f)) > 0) {
        if (crc != NULL)
            sum = dsf_crc64_add(sum, buf, n);
        else
            XXH3_64bits_update(state, buf, n);
        total += (int64_t)n;
    }
    if (ferror(f))
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", path);
    else if (total != bytes)
        status = dsflow_fail(err, DSFLOW_EFAIL,
                             "%s: damaged: %" PRId64 " bytes: expected %" PRId64,
                             path, total, bytes);
    else if (crc != NULL ? dsf_crc64_of(sum, (uint64_t)total) != parse_hash(crc)
                         : XXH3_64bits_digest(state) !=
                               parse_hash(json_object_get(file, "xxh3")))
        status = dsflow_fail(err, DSFLOW_EFAIL,
                             "%s: damaged: its contents have changed", path);
out:
    if (f != NULL)
        fclose(f);
    free(buf);
    XXH3_freeState(state);
    return status;
}

int dsf_ckpt_verify(const char *path, struct dsf_ckpt_meta *meta,
                    struct dsflow_err *err)
{
    json_t *root, *file;
    const char *name;
    int status = read_manifest(path, &root, meta, err);

    if (status < 0)
        return status;
    json_object_foreach(json_object_get(root, "files"), name, file) {
        char *part = dsf_xasprintf("%s/%s", path, name);

        status = verify_file(part, file, err);
        free(part);
        if (status < 0)
            break;
    }
    json_decref(root);
    return status;
}

/* The newest whole checkpoint, or NULL. */
static char *newest_whole(const char *dir, struct dsf_ckpt_meta *meta)
{
    size_t n;
    int64_t *steps = list_steps(dir, &n);
    char *path = NULL;

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

int dsf_ckpt_latest(const char *dir, int good, char **path,
                    struct dsf_ckpt_meta *meta, struct dsflow_err *err)
{
    struct dsf_ckpt_meta other;
    bool absent;
    size_t n;
    char *best;

    free(list_steps(dir, &n));
    *path = NULL;
    if (n == 0)
        return DSFLOW_OK;
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
    size_t n;
    int64_t *steps = list_steps(dir, &n);

    if (n == 0 && access(dir, F_OK) < 0) {
        free(steps);
        return dsflow_fail(err, DSFLOW_EINVAL, "%s: %m", dir);
    }
    for (size_t i = 0; i < n; i++) {
        struct dsf_ckpt_meta meta = { .step = steps[i] };
        struct dsflow_err why = { 0 };
        char *path = step_path(dir, steps[i]);
        int status = dsf_ckpt_verify(path, &meta, &why);
        int64_t bytes = 0;
        json_t *root = NULL, *file;
        const char *name;

        if (status == DSFLOW_OK)
            read_manifest(path, &root, &meta, NULL);
        json_object_foreach(json_object_get(root, "files"), name, file)
            bytes += json_integer_value(json_object_get(file, "bytes"));
        json_decref(root);
        each(user, path, &meta, bytes, status, &why);
        free(path);
    }
    free(steps);
    return DSFLOW_OK;
}
