/* torch_zip.c - where the files of an archive begin in it, and whether they are
 * whole. libzip reads the directory; the numbers are then read from where they
 * stand. */
#include "torch/torch_private.h"

#include "base/alloc.h"

#include <assert.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

/* The directory of an archive, some 120,000 tensors. libzip takes five times as
 * much memory. */
#define MOST_DIRECTORY ((int64_t)8 << 20)
enum { LOCAL_HEADER = 30 }; /* bytes before a name and what an entry has */
enum { CHUNK = 1 << 16 };   /* bytes on the stack */

/* What libzip reads through. */
struct source {
    struct dsf_torch_file *file;
    int64_t at;   /* of the next read */
    int64_t last; /* where the last one began */
    int64_t read; /* bytes, of all reads */
    zip_error_t error;
    bool too_much;
    struct dsflow_err err; /* what reading came to */
};

static zip_int64_t source_read(struct source *s, void *to, zip_uint64_t n)
{
    int64_t left = s->file->bytes - s->at;

    if (left < 0)
        left = 0;
    if (n > (zip_uint64_t)left)
        n = (zip_uint64_t)left;
    s->last = s->at;
    s->read += (int64_t)n;
    s->too_much = s->read > MOST_DIRECTORY;
    if (s->too_much ||
        dsf_torch_read_file(s->file, s->at, to, n, &s->err) < 0) {
        zip_error_set(&s->error, ZIP_ER_READ, EIO);
        return -1;
    }
    s->at += (int64_t)n;
    return (zip_int64_t)n;
}

static zip_int64_t source_call(void *user, void *data, zip_uint64_t n,
                               zip_source_cmd_t cmd)
{
    struct source *s = user;
    zip_int64_t to;

    switch (cmd) {
    case ZIP_SOURCE_OPEN:
        s->at = 0;
        return 0;
    case ZIP_SOURCE_READ:
        return source_read(s, data, n);
    case ZIP_SOURCE_CLOSE:
        return 0;
    case ZIP_SOURCE_STAT: {
        zip_stat_t *st = data;

        zip_stat_init(st);
        st->size = (zip_uint64_t)s->file->bytes;
        st->valid = ZIP_STAT_SIZE;
        return sizeof(*st);
    }
    case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&s->error, data, n);
    case ZIP_SOURCE_FREE:
        return 0;
    case ZIP_SOURCE_SEEK:
        to = zip_source_seek_compute_offset((zip_uint64_t)s->at,
                                            (zip_uint64_t)s->file->bytes, data,
                                            n, &s->error);
        if (to < 0)
            return -1;
        s->at = to;
        return 0;
    case ZIP_SOURCE_TELL:
        return s->at;
    case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(
            ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE, ZIP_SOURCE_STAT,
            ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE, ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL,
            ZIP_SOURCE_SUPPORTS, -1);
    default:
        zip_error_set(&s->error, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
}

/* What libzip says, or what reading for it came to. */
static int failed(struct source *s, const char *what, zip_error_t *e,
                  struct dsflow_err *err)
{
    const struct dsf_torch_file *f = s->file;

    if (s->too_much)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: a zip archive with a directory of more than "
                           "%lld MiB",
                           f->path, (long long)(MOST_DIRECTORY >> 20));
    if (s->err.msg[0] != '\0')
        return dsflow_fail(err, s->err.status, "%s", s->err.msg);
    return dsflow_fail(err, DSFLOW_EINVAL, "%s: %s%sa damaged zip archive: %s",
                       f->path, what, what[0] != '\0' ? ": " : "",
                       zip_error_strerror(e));
}

/* Where the bytes of entry `i` begin: libzip does not say it, but its first
 * read of them is ours. */
static int locate(struct source *s, zip_t *zip, zip_uint64_t i,
                  struct dsf_torch_entry *e, struct dsflow_err *err)
{
    char seen[32], there[32];
    size_t n =
        e->bytes < (int64_t)sizeof(seen) ? (size_t)e->bytes : sizeof(seen);
    zip_file_t *in = zip_fopen_index(zip, i, ZIP_FL_COMPRESSED);
    int status = DSFLOW_OK;

    if (in == NULL)
        return failed(s, e->name, zip_get_error(zip), err);
    s->read = 0;
    if (zip_fread(in, seen, n) != (zip_int64_t)n) {
        status = failed(s, e->name, zip_file_get_error(in), err);
    } else {
        e->at = s->last;
        if (e->at > s->file->bytes - e->bytes ||
            dsf_torch_read_file(s->file, e->at, there, n, err) < 0 ||
            memcmp(seen, there, n) != 0)
            status = dsflow_fail(err, DSFLOW_EINVAL,
                                 "%s: %.200s: its bytes are not in the file",
                                 s->file->path, e->name);
    }
    zip_fclose(in);
    return status;
}

static int read_entry(struct source *s, zip_t *zip, zip_uint64_t i,
                      struct dsf_torch_entry *e, struct dsflow_err *err)
{
    const struct dsf_torch_file *f = s->file;
    zip_stat_t st;

    if (zip_stat_index(zip, i, ZIP_FL_ENC_RAW, &st) < 0)
        return failed(s, "", zip_get_error(zip), err);
    *e = (struct dsf_torch_entry){
        .name = dsf_blocks_copy(&s->file->mem, st.name, strlen(st.name) + 1, 1)
    };
    if (st.comp_method != ZIP_CM_STORE || st.encryption_method != ZIP_EM_NONE)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.200s: is compressed or encrypted: expected "
                           "what torch.save stores as it is",
                           f->path, e->name);
    if (st.comp_size != st.size || st.size > (zip_uint64_t)f->bytes)
        return dsflow_fail(
            err, DSFLOW_EINVAL,
            "%s: %.200s: %llu bytes, stored in %llu of a file of "
            "%lld",
            f->path, e->name, (unsigned long long)st.size,
            (unsigned long long)st.comp_size, (long long)f->bytes);
    e->bytes = (int64_t)st.size;
    e->crc = st.crc;
    e->unchecked = st.crc != 0; /* it may be written without */
    s->read = 0;
    return e->bytes > 0 ? locate(s, zip, i, e, err) : DSFLOW_OK;
}

static int by_place(const void *a, const void *b)
{
    const struct dsf_torch_entry *x = a, *y = b;

    return (x->at > y->at) - (x->at < y->at);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dsf_torch_entry *)a)->name,
                  ((const struct dsf_torch_entry *)b)->name);
}

/* No byte is in two entries or in one and the header of another, no name is
 * there twice. */
static int check_entries(struct dsf_torch_file *f, struct dsflow_err *err)
{
    struct dsf_torch_entry *e = f->entries;
    const char *before = "what is before it";
    int64_t end = 0;

    qsort(e, f->nentries, sizeof(*e), by_place);
    for (size_t i = 0; i < f->nentries; i++) {
        int64_t begin = e[i].at - LOCAL_HEADER - (int64_t)strlen(e[i].name);

        if (e[i].bytes == 0)
            continue;
        if (begin < end)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: %.200s begins inside %.200s", f->path,
                               e[i].name, before);
        before = e[i].name;
        end = e[i].at + e[i].bytes;
    }
    qsort(e, f->nentries, sizeof(*e), by_name);
    for (size_t i = 1; i < f->nentries; i++)
        if (strcmp(e[i].name, e[i - 1].name) == 0)
            return dsflow_fail(err, DSFLOW_EINVAL, "%s: has %.200s twice",
                               f->path, e[i].name);
    return DSFLOW_OK;
}

/* The folder that has data.pkl. */
static int find_top(struct dsf_torch_file *f, struct dsflow_err *err)
{
    const char *script = NULL;

    for (size_t i = 0; i < f->nentries; i++) {
        const char *name = f->entries[i].name, *slash = strchr(name, '/');

        if (slash == NULL)
            continue;
        if (strcmp(slash, "/constants.pkl") == 0)
            script = name;
        if (strcmp(slash, "/data.pkl") != 0)
            continue;
        if (f->top != NULL)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: has %sdata.pkl and %.200s", f->path, f->top,
                               name);
        f->top = strcpy(dsf_blocks_take(&f->mem, strlen(name) + 1, 1), name);
        *strchr(f->top, '/') = '\0';
        f->top = strcat((char *)f->top, "/");
    }
    if (script != NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: a TorchScript archive (%.200s): expected what "
                           "torch.save writes",
                           f->path, script);
    if (f->top == NULL)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: a zip archive without data.pkl in a folder: "
                           "expected what torch.save writes",
                           f->path);
    return DSFLOW_OK;
}

struct dsf_torch_entry *dsf_torch_zip_find(const struct dsf_torch_file *f,
                                           const char *name)
{
    struct dsf_torch_entry key = { .name = name };

    return f->nentries == 0
               ? NULL
               : bsearch(&key, f->entries, f->nentries, sizeof(key), by_name);
}

int dsf_torch_zip_check(const struct dsf_torch_file *f,
                        struct dsf_torch_entry *e, struct dsflow_err *err)
{
    unsigned char chunk[CHUNK];
    uint32_t crc = 0;

    for (int64_t at = 0, n; at < e->bytes && e->unchecked; at += n) {
        int status;

        n = e->bytes - at < CHUNK ? e->bytes - at : CHUNK;
        status = dsf_torch_read_file(f, e->at + at, chunk, (size_t)n, err);
        if (status < 0)
            return status;
        crc = crc32_gzip_refl(crc, chunk, (uint64_t)n);
    }
    if (e->unchecked && crc != e->crc)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: %.200s: is damaged: its CRC-32 is %08x, and "
                           "that of what was written %08x",
                           f->path, e->name, (unsigned)crc, (unsigned)e->crc);
    e->unchecked = false;
    return DSFLOW_OK;
}

int dsf_torch_zip_open(struct dsf_torch_file *f, struct dsflow_err *err)
{
    struct source s = { .file = f };
    zip_source_t *source;
    zip_error_t e;
    zip_t *zip = NULL;
    int status = DSFLOW_OK;

    zip_error_init(&s.error);
    zip_error_init(&e);
    source = zip_source_function_create(source_call, &s, &e);
    if (source != NULL)
        zip = zip_open_from_source(source, ZIP_RDONLY, &e);
    if (zip == NULL) {
        status = failed(&s, "", &e, err);
        if (source != NULL)
            zip_source_free(source);
        goto out_error;
    }
    f->nentries = (size_t)zip_get_num_entries(zip, 0);
    f->entries =
        dsf_xcalloc(f->nentries > 0 ? f->nentries : 1, sizeof(*f->entries));
    for (size_t i = 0; i < f->nentries && status == DSFLOW_OK; i++)
        status = read_entry(&s, zip, i, &f->entries[i], err);
    if (status < 0)
        f->nentries = 0;
    zip_discard(zip);
    if (status == DSFLOW_OK)
        status = check_entries(f, err);
    if (status == DSFLOW_OK)
        status = find_top(f, err);

out_error:
    zip_error_fini(&e);
    zip_error_fini(&s.error);
    return status;
}
