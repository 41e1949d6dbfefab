/* torch_file.c - a file of torch.save: which container it is, its tree, and
 * where its storages are. */
#include "torch/torch_private.h"

#include "base/alloc.h"
#include "base/file.h"

#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What torch/serialization.py begins a stream with: PROTO 2, LONG1 of 10 bytes,
 * 0x1950a86a20f9469cfc6c, STOP. */
static const unsigned char magic[] = { 0x80, 2,    0x8a, 10,   0x6c,
                                       0xfc, 0x9c, 0x46, 0xf9, 0x20,
                                       0x6a, 0xa8, 0x50, 0x19, '.' };

int dsf_torch_read_file(const struct dsf_torch_file *f, int64_t at, void *to,
                        size_t bytes, struct dsflow_err *err)
{
    return dsf_file_read(f->fd, f->path, f->bytes, at, to, bytes, err);
}

const char *dsf_torch_path(const struct dsf_torch_file *file)
{
    return file->path;
}

const struct dsf_torch_node *dsf_torch_root(const struct dsf_torch_file *file)
{
    return file->root;
}

/* --- storages --- */

static uint32_t hash_of(const char *key)
{
    uint32_t h = 2166136261u; /* FNV-1a */

    for (; *key != '\0'; key++)
        h = (h ^ (unsigned char)*key) * 16777619u;
    return h;
}

static void put_storage(struct dsf_torch_storage **v, size_t cap,
                        struct dsf_torch_storage *s)
{
    size_t i = hash_of(s->key) & (cap - 1);

    while (v[i] != NULL)
        i = (i + 1) & (cap - 1);
    v[i] = s;
}

/* Half of the places stay free. */
static void grow_storages(struct dsf_torch_file *f)
{
    size_t cap = f->cap > 0 ? f->cap * 2 : 64;
    struct dsf_torch_storage **v;

    if (f->nstorages * 2 < f->cap)
        return;
    v = dsf_xcalloc(cap, sizeof(*v));
    for (size_t i = 0; i < f->cap; i++)
        if (f->storages[i] != NULL)
            put_storage(v, cap, f->storages[i]);
    free(f->storages);
    f->storages = v;
    f->cap = cap;
}

static const char *keep(struct dsf_torch_file *f, const char *s)
{
    return dsf_blocks_copy(&f->mem, s, strlen(s) + 1, 1);
}

/* Where the archive has it. */
static int place_storage(const struct dsf_torch_file *f,
                         struct dsf_torch_storage *s, struct dsflow_err *err)
{
    char *name = dsf_xasprintf("%sdata/%s", f->top, s->key);
    struct dsf_torch_entry *e = dsf_torch_zip_find(f, name);
    size_t want = dsflow_dtype_bytes(s->dtype, s->elems);
    int status = DSFLOW_OK;

    if (e == NULL)
        status =
            dsflow_fail(err, DSFLOW_EINVAL, "the archive has no %.200s", name);
    else if (want > (size_t)e->bytes)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%.200s has %lld bytes: expected %zu", name,
                             (long long)e->bytes, want);
    else
        s->at = e->at;
    s->entry = e;
    free(name);
    return status;
}

struct dsf_torch_storage *dsf_torch_storage_named(struct dsf_torch_file *f,
                                                  const char *key,
                                                  enum dsflow_dtype dtype,
                                                  int64_t elems,
                                                  struct dsflow_err *err)
{
    struct dsf_torch_storage *s;

    if (elems < 0 || elems > f->bytes / (int64_t)dsflow_dtype_bytes(dtype, 1)) {
        dsflow_fail(err, DSFLOW_EINVAL,
                    "a storage of %lld numbers in a file of %lld bytes",
                    (long long)elems, (long long)f->bytes);
        return NULL;
    }
    grow_storages(f);
    for (size_t i = hash_of(key) & (f->cap - 1); f->storages[i] != NULL;
         i = (i + 1) & (f->cap - 1)) {
        s = f->storages[i];
        if (strcmp(s->key, key) == 0 && s->dtype == dtype && s->elems == elems)
            return s;
    }
    s = dsf_blocks_take(&f->mem, sizeof(*s), 8);
    *s = (struct dsf_torch_storage){
        .key = keep(f, key), .dtype = dtype, .elems = elems, .at = -1
    };
    if (!f->stream && elems > 0 && place_storage(f, s, err) < 0)
        return NULL;
    put_storage(f->storages, f->cap, s);
    f->nstorages++;
    return s;
}

/* --- the archive --- */

static int check_byteorder(const struct dsf_torch_file *f,
                           struct dsflow_err *err)
{
    char *name = dsf_xasprintf("%sbyteorder", f->top), text[8] = "";
    const struct dsf_torch_entry *e = dsf_torch_zip_find(f, name);
    int status = DSFLOW_OK;

    if (e != NULL && e->bytes > 0)
        status = dsf_torch_read_file(f, e->at, text,
                                     e->bytes < (int64_t)sizeof(text)
                                         ? (size_t)e->bytes
                                         : sizeof(text) - 1,
                                     err);
    if (status == DSFLOW_OK && e != NULL && strcmp(text, "little") != 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: its byte order is %s: expected little",
                             f->path, text);
    free(name);
    return status;
}

static int open_archive(struct dsf_torch_file *f, struct dsflow_err *err)
{
    struct dsf_torch_entry *pickle = NULL;
    int status = dsf_torch_zip_open(f, err);
    int64_t at;

    if (status == DSFLOW_OK)
        status = check_byteorder(f, err);
    if (status == DSFLOW_OK) {
        char *name = dsf_xasprintf("%sdata.pkl", f->top);

        pickle = dsf_torch_zip_find(f, name);
        free(name);
        at = pickle->at;
        status = dsf_torch_zip_check(f, pickle, err);
        if (status == DSFLOW_OK)
            status = dsf_torch_unpickle(f, &at, at + pickle->bytes, at,
                                        &f->root, err);
    }
    return status;
}

/* --- the stream --- */

/* A stream says what wrote it: its protocol, and the order of bytes. */
static int check_system(const struct dsf_torch_file *f,
                        const struct dsf_torch_node *protocol,
                        const struct dsf_torch_node *system,
                        struct dsflow_err *err)
{
    const struct dsf_torch_node *little =
        dsf_torch_find(system, "little_endian");

    if (protocol->kind != DSF_TORCH_INT || protocol->integer.value != 1001)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: its protocol is not 1001, that of torch.save",
                           f->path);
    if (little != NULL && little->kind == DSF_TORCH_BOOL && !little->truth)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: its byte order is big: expected little",
                           f->path);
    return DSFLOW_OK;
}

/* Storages of this key begin at `at`; so many bytes belong to them. */
static int place_streamed(struct dsf_torch_file *f, const char *key, int64_t at,
                          int64_t numbers, int64_t *bytes,
                          struct dsflow_err *err)
{
    bool known = false;

    for (size_t i = f->cap > 0 ? hash_of(key) & (f->cap - 1) : 0;
         f->cap > 0 && f->storages[i] != NULL; i = (i + 1) & (f->cap - 1)) {
        struct dsf_torch_storage *s = f->storages[i];

        if (strcmp(s->key, key) != 0)
            continue;
        if (s->at >= 0)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: has storage %.60s twice", f->path, key);
        if (s->elems != numbers || known)
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: storage %.60s has %lld numbers: expected "
                               "%lld",
                               f->path, key, (long long)numbers,
                               (long long)s->elems);
        *bytes = (int64_t)dsflow_dtype_bytes(s->dtype, s->elems);
        if (*bytes > f->bytes - at)
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: ends in storage %.60s, which has %lld bytes "
                "from byte %lld on",
                f->path, key, (long long)*bytes, (long long)at);
        s->at = at;
        known = true;
    }
    if (!known)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: storage %.60s is of no tensor", f->path, key);
    return DSFLOW_OK;
}

/* After the list of keys, each storage: how many numbers, and those. */
static int place_all(struct dsf_torch_file *f, int64_t at,
                     const struct dsf_torch_node *keys, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (keys->kind != DSF_TORCH_LIST)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: expected a list of its storages", f->path);
    for (uint32_t i = 0; i < keys->n && status == DSFLOW_OK; i++) {
        const struct dsf_torch_node *key = keys->items[i];
        uint64_t numbers = 0;
        int64_t bytes = 0;

        if (key->kind != DSF_TORCH_STR)
            return dsflow_fail(
                err, DSFLOW_EINVAL,
                "%s: the key of a storage is %s: expected a text", f->path,
                dsf_torch_kind_str(key->kind));
        if (f->bytes - at < (int64_t)sizeof(numbers))
            return dsflow_fail(err, DSFLOW_EINVAL,
                               "%s: ends before storage %.60s", f->path,
                               key->str);
        status = dsf_torch_read_file(f, at, &numbers, sizeof(numbers), err);
        at += (int64_t)sizeof(numbers);
        if (status == DSFLOW_OK)
            status = place_streamed(f, key->str, at, (int64_t)le64toh(numbers),
                                    &bytes, err);
        at += bytes;
    }
    for (size_t i = 0; i < f->cap && status == DSFLOW_OK; i++)
        if (f->storages[i] != NULL && f->storages[i]->at < 0)
            status = dsflow_fail(err, DSFLOW_EINVAL, "%s: has no storage %.60s",
                                 f->path, f->storages[i]->key);
    return status;
}

static int open_stream(struct dsf_torch_file *f, struct dsflow_err *err)
{
    const struct dsf_torch_node *protocol, *system, *keys;
    int64_t at = sizeof(magic);
    int status;

    f->stream = true;
    status = dsf_torch_unpickle(f, &at, f->bytes, 0, &protocol, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_unpickle(f, &at, f->bytes, 0, &system, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_check(f, system, err);
    if (status == DSFLOW_OK)
        status = check_system(f, protocol, system, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_unpickle(f, &at, f->bytes, 0, &f->root, err);
    if (status == DSFLOW_OK)
        status = dsf_torch_unpickle(f, &at, f->bytes, 0, &keys, err);
    return status < 0 ? status : place_all(f, at, keys, err);
}

/* --- open and close --- */

static int open_any(struct dsf_torch_file *f, struct dsflow_err *err)
{
    unsigned char head[sizeof(magic)] = { 0 };
    size_t n =
        f->bytes < (int64_t)sizeof(head) ? (size_t)f->bytes : sizeof(head);
    int status = dsf_torch_read_file(f, 0, head, n, err);

    if (status < 0)
        return status;
    if (memcmp(head, magic, sizeof(magic)) == 0)
        status = open_stream(f, err);
    else if (memcmp(head, "PK\3\4", 4) == 0)
        status = open_archive(f, err);
    else
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: expected a file that torch.save wrote, a zip "
                           "archive or a stream",
                           f->path);
    return status < 0 ? status : dsf_torch_check(f, f->root, err);
}

int dsf_torch_open(const char *path, struct dsf_torch_file **file,
                   struct dsflow_err *err)
{
    struct dsf_torch_file *f = dsf_xcalloc(1, sizeof(*f));
    int status;

    *file = NULL;
    f->fd = -1;
    f->path = dsf_xstrdup(path);
    status = dsf_file_open(path, &f->fd, &f->bytes, err);
    if (status == DSFLOW_OK)
        status = open_any(f, err);
    if (status < 0) {
        dsf_torch_close(f);
        return status;
    }
    *file = f;
    return DSFLOW_OK;
}

void dsf_torch_close(struct dsf_torch_file *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        close(f->fd);
    dsf_blocks_fini(&f->mem);
    free(f->entries);
    free(f->storages);
    free(f->path);
    free(f);
}

bool dsf_torch_is(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    unsigned char head[sizeof(magic)] = { 0 };
    struct stat st;
    bool is = false;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        pread(fd, head, sizeof(head), 0) > 4)
        is = memcmp(head, magic, sizeof(magic)) == 0 ||
             memcmp(head, "PK\3\4", 4) == 0;
    close(fd);
    return is;
}
