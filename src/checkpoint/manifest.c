/* manifest.c - what a checkpoint says of itself, and whether it holds that. */
#include "checkpoint/manifest.h"

#include "base/alloc.h"
#include "base/crc64.h"
#include "base/synced.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* 1 had XXH3 in place of CRC-64. */
#define VERSION 2

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

static json_t *hash_json(uint64_t hash)
{
    char text[17];

    snprintf(text, sizeof(text), "%016" PRIx64, hash);
    return json_string(text);
}

static uint64_t parse_hash(const json_t *text)
{
    const char *s = json_string_value(text);

    return s == NULL ? 0 : strtoull(s, NULL, 16);
}

int dsf_ckpt_manifest_write(const char *folder,
                            const struct dsf_ckpt_meta *meta,
                            const struct dsf_ckpt_part *parts, unsigned nparts,
                            const uint64_t *sums, struct dsflow_err *err)
{
    /* A long name may have been cut within a character. */
    const size_t whole = dsf_utf8_valid(meta->job, strlen(meta->job));
    json_t *files = json_object();
    json_t *root = json_pack(
        "{s:i, s:s%, s:I, s:o, s:o, s:o, s:o}", "version", VERSION, "job",
        meta->job, whole, "step", (json_int_t)meta->step, "identity",
        hash_json(meta->identity), "of", fields_json(meta->of), "numbers",
        fields_json(meta->numbers), "files", files);
    char *path = dsf_xasprintf("%s/manifest.json", folder), *text;
    int status;

    for (unsigned i = 0; i < nparts; i++) {
        char *name = dsf_xasprintf("%s.safetensors", parts[i].name);
        int64_t bytes = dsf_st_bytes(parts[i].tensors, parts[i].n);

        json_object_set_new(
            files, name,
            json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "crc64",
                      hash_json(dsf_crc64_of(sums[i], (uint64_t)bytes))));
        free(name);
    }
    text = json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    status = dsf_synced_text(path, false, text, strlen(text), err);
    free(text);
    free(path);
    json_decref(root);
    return status;
}

/* The manifest of `path`, checked; released by the caller. */
static int read_manifest(const char *path, json_t **root,
                         struct dsf_ckpt_meta *meta, struct dsflow_err *err)
{
    char *file = dsf_xasprintf("%s/manifest.json", path);
    FILE *f = fopen(file, "r");
    json_error_t why;
    json_t *r = f != NULL ? json_loadf(f, JSON_REJECT_DUPLICATES, &why) : NULL;
    const char *job = json_string_value(json_object_get(r, "job"));
    int status = DSFLOW_OK;

    *root = NULL;
    if (f == NULL && (errno == ENOENT || errno == ENOTDIR))
        status =
            dsflow_fail(err, DSFLOW_EFAIL,
                        "%s: is no checkpoint: it has no manifest.json", path);
    else if (f == NULL || ferror(f))
        status = dsflow_fail(err, DSFLOW_EIO, "%s: %m", file);
    else if (r == NULL)
        status = dsflow_fail(err, DSFLOW_EFAIL, "%s:%d: damaged: %s", file,
                             why.line, why.text);
    else if (json_integer_value(json_object_get(r, "version")) < 1 ||
             json_integer_value(json_object_get(r, "version")) > VERSION)
        status = dsflow_fail(err, DSFLOW_EFAIL, "%s: version: expected 1 to %d",
                             file, VERSION);
    else if (job == NULL || !json_is_object(json_object_get(r, "files")))
        status = dsflow_fail(err, DSFLOW_EFAIL,
                             "%s: damaged: expected job, step and files", file);
    else if (!json_is_integer(json_object_get(r, "step")) ||
             json_integer_value(json_object_get(r, "step")) < 0)
        status = dsflow_fail(err, DSFLOW_EFAIL,
                             "%s: damaged: step: expected a whole number, at "
                             "least 0",
                             file);
    if (f != NULL)
        fclose(f);
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
        status =
            dsflow_fail(err, DSFLOW_EFAIL,
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

int64_t dsf_ckpt_manifest_bytes(const char *path)
{
    struct dsf_ckpt_meta meta;
    json_t *root, *file;
    const char *name;
    int64_t bytes = 0;

    read_manifest(path, &root, &meta, NULL);
    json_object_foreach(json_object_get(root, "files"), name, file)
        bytes += json_integer_value(json_object_get(file, "bytes"));
    json_decref(root);
    return bytes;
}
