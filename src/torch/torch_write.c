/* torch_write.c - the archive that torch.load reads: files that are stored as
 * they are, each from a multiple of 64 bytes on, as PyTorchStreamWriter has it
 * (caffe2/serialize/inline_container.cc). Of zip's format (APPNOTE.TXT) that
 * takes three records; libzip leaves no choice of where a file begins. */
#include "torch/pickle_write.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/synced.h"

#include <assert.h>
#include <endian.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALIGNED = 64,
    LOCAL = 30,        /* bytes of a local header, before its name */
    ZIP64 = 4 + 2 * 8, /* of the field that has sizes of 64 bits */
    FIELD = 4,         /* of the head of a field */
    BUFFER = 1 << 18,
};
#define MOST 0xffffffffu /* what 32 bits hold is below it */

/* A file of the archive. */
struct entry {
    char *name;
    int64_t at, bytes; /* of its header; of itself */
    uint32_t crc;
};

struct dsf_torch_out {
    const char *path;
    int fd;
    int64_t at; /* bytes that were put */
    unsigned char *buffer;
    size_t n;     /* of them not yet written */
    uint32_t crc; /* of the file at hand */
    int64_t left; /* of it, yet to come */
    struct entry *entries;
    size_t nentries, cap;
};

static int write_at(const struct dsf_torch_out *o, const void *p, size_t n,
                    int64_t at, struct dsflow_err *err)
{
    return dsf_file_write(o->fd, p, n, at) == 0
               ? DSFLOW_OK
               : dsflow_fail(err, DSFLOW_EIO, "%s: cannot be written: %m",
                             o->path);
}

static int flush(struct dsf_torch_out *o, struct dsflow_err *err)
{
    int status = write_at(o, o->buffer, o->n, o->at - (int64_t)o->n, err);

    o->n = 0;
    return status;
}

static int put(struct dsf_torch_out *o, const void *p, size_t n,
               struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (o->n + n > BUFFER)
        status = flush(o, err);
    if (status == DSFLOW_OK && n > BUFFER) {
        status = write_at(o, p, n, o->at, err);
    } else if (status == DSFLOW_OK) {
        memcpy(o->buffer + o->n, p, n);
        o->n += n;
    }
    o->at += (int64_t)n;
    return status;
}

int dsf_torch_out(struct dsf_torch_out *o, const void *data, size_t bytes,
                  struct dsflow_err *err)
{
    assert((int64_t)bytes <= o->left);
    o->left -= (int64_t)bytes;
    o->crc = crc32_gzip_refl(o->crc, data, bytes);
    return put(o, data, bytes, err);
}

/* --- records --- */

/* Little-endian numbers, one after the other. */
struct record {
    unsigned char v[128];
    size_t n;
};

static void add(struct record *r, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++)
        r->v[r->n++] = i < 8 ? (unsigned char)(x >> 8 * i) : 0;
}

/* What a local header and the directory both say of a file. */
static void add_common(struct record *r, const struct entry *e, size_t extra)
{
    bool large = e->bytes >= MOST;

    add(r, large ? 45 : 20, 2); /* version that is needed */
    add(r, 0x800, 2);           /* names are UTF-8 */
    add(r, 0, 2);               /* stored */
    add(r, 0x21u << 16, 4);     /* 1980-01-01, 00:00: the same each time */
    add(r, e->crc, 4);
    add(r, large ? MOST : (uint64_t)e->bytes, 4);
    add(r, large ? MOST : (uint64_t)e->bytes, 4);
    add(r, strlen(e->name), 2);
    add(r, extra, 2);
}

/* The local header, padded ("FB", as torch does) so that the file begins at a
 * multiple of ALIGNED. It has a place before its sum is known. */
static int put_local(struct dsf_torch_out *o, const struct entry *e, int64_t at,
                     bool again, struct dsflow_err *err)
{
    static const unsigned char zeroes[ALIGNED];
    size_t name = strlen(e->name), sizes = e->bytes >= MOST ? ZIP64 : 0;
    size_t head = LOCAL + name + sizes + FIELD;
    size_t pad = (ALIGNED - ((size_t)at + head) % ALIGNED) % ALIGNED;
    struct record r = { .n = 0 };
    int status;

    add(&r, 0x04034b50, 4);
    add_common(&r, e, sizes + FIELD + pad);
    if (again)
        return write_at(o, r.v, r.n, at, err);
    status = put(o, r.v, r.n, err);
    if (status == DSFLOW_OK)
        status = put(o, e->name, name, err);
    r.n = 0;
    if (sizes > 0) {
        add(&r, 1, 2);
        add(&r, 16, 2);
        add(&r, (uint64_t)e->bytes, 8);
        add(&r, (uint64_t)e->bytes, 8);
    }
    add(&r, 'F' | 'B' << 8, 2);
    add(&r, pad, 2);
    if (status == DSFLOW_OK)
        status = put(o, r.v, r.n, err);
    return status == DSFLOW_OK ? put(o, zeroes, pad, err) : status;
}

static int put_directory_entry(struct dsf_torch_out *o, const struct entry *e,
                               struct dsflow_err *err)
{
    bool large = e->bytes >= MOST, far = e->at >= MOST;
    size_t extra = (large ? 16 : 0) + (far ? 8 : 0);
    struct record r = { .n = 0 };
    int status;

    add(&r, 0x02014b50, 4);
    add(&r, 45, 2); /* version of who made it */
    add_common(&r, e, extra > 0 ? extra + FIELD : 0);
    add(&r, 0, 2 + 2 + 2 + 4); /* comment, disk, attributes */
    add(&r, far ? MOST : (uint64_t)e->at, 4);
    status = put(o, r.v, r.n, err);
    if (status == DSFLOW_OK)
        status = put(o, e->name, strlen(e->name), err);
    r.n = 0;
    if (extra > 0) {
        add(&r, 1, 2);
        add(&r, extra, 2);
    }
    if (large) {
        add(&r, (uint64_t)e->bytes, 8);
        add(&r, (uint64_t)e->bytes, 8);
    }
    if (far)
        add(&r, (uint64_t)e->at, 8);
    return status == DSFLOW_OK ? put(o, r.v, r.n, err) : status;
}

/* The directory and the two records that say where it is. */
static int put_directory(struct dsf_torch_out *o, struct dsflow_err *err)
{
    int64_t at = o->at, end;
    uint64_t n = o->nentries;
    struct record r = { .n = 0 };
    int status = DSFLOW_OK;

    for (size_t i = 0; i < o->nentries && status == DSFLOW_OK; i++)
        status = put_directory_entry(o, &o->entries[i], err);
    if (status < 0)
        return status;
    end = o->at;
    if (n >= 0xffff || at >= MOST || end - at >= MOST) {
        add(&r, 0x06064b50, 4); /* the end, of zip64 */
        add(&r, 44, 8);
        add(&r, 45, 2);
        add(&r, 45, 2);
        add(&r, 0, 4 + 4);
        add(&r, n, 8);
        add(&r, n, 8);
        add(&r, (uint64_t)(end - at), 8);
        add(&r, (uint64_t)at, 8);
        add(&r, 0x07064b50, 4); /* where that is */
        add(&r, 0, 4);
        add(&r, (uint64_t)end, 8);
        add(&r, 1, 4);
    }
    add(&r, 0x06054b50, 4);
    add(&r, 0, 2 + 2);
    add(&r, n >= 0xffff ? 0xffff : n, 2);
    add(&r, n >= 0xffff ? 0xffff : n, 2);
    add(&r, end - at >= MOST ? MOST : (uint64_t)(end - at), 4);
    add(&r, at >= MOST ? MOST : (uint64_t)at, 4);
    add(&r, 0, 2);
    return put(o, r.v, r.n, err);
}

/* --- files --- */

/* "TOP/NAME", of so many bytes, from here on. */
static int begin_file(struct dsf_torch_out *o, const char *top,
                      const char *name, int64_t bytes, struct dsflow_err *err)
{
    struct entry *e;

    dsf_grow(&o->entries, &o->cap, o->nentries + 1, sizeof(*o->entries));
    e = &o->entries[o->nentries++];
    *e = (struct entry){ .name = dsf_xasprintf("%s/%s", top, name),
                         .at = o->at,
                         .bytes = bytes };
    o->crc = 0;
    o->left = bytes;
    return put_local(o, e, e->at, false, err);
}

/* Its sum goes where its header has left room. */
static int end_file(struct dsf_torch_out *o, struct dsflow_err *err)
{
    struct entry *e = &o->entries[o->nentries - 1];
    int status;

    assert(o->left == 0);
    e->crc = o->crc;
    status = flush(o, err);
    return status == DSFLOW_OK ? put_local(o, e, e->at, true, err) : status;
}

static int put_file(struct dsf_torch_out *o, const char *top, const char *name,
                    const void *bytes, size_t n, struct dsflow_err *err)
{
    int status = begin_file(o, top, name, (int64_t)n, err);

    if (status == DSFLOW_OK)
        status = dsf_torch_out(o, bytes, n, err);
    return status == DSFLOW_OK ? end_file(o, err) : status;
}

static int put_tensor(struct dsf_torch_out *o, const char *top, unsigned i,
                      const struct dsf_torch_tree *t, dsf_torch_out_fn *fn,
                      void *user, struct dsflow_err *err)
{
    char *name = dsf_xasprintf("data/%u", i);
    int status = begin_file(o, top, name, dsf_torch_tree_bytes(t, i), err);

    free(name);
    if (status == DSFLOW_OK)
        status = fn(user, i, o, err);
    return status == DSFLOW_OK ? end_file(o, err) : status;
}

static int write_archive(struct dsf_torch_out *o, const char *top,
                         const struct dsf_torch_tree *t, dsf_torch_out_fn *fn,
                         void *user, struct dsflow_err *err)
{
    size_t n;
    const void *pickle = dsf_torch_tree_pickle(t, &n);
    int status = put_file(o, top, "data.pkl", pickle, n, err);

    if (status == DSFLOW_OK)
        status = put_file(o, top, ".storage_alignment", "64", 2, err);
    if (status == DSFLOW_OK)
        status = put_file(o, top, "byteorder", "little", 6, err);
    for (unsigned i = 0; i < dsf_torch_tree_count(t) && status == DSFLOW_OK;
         i++)
        status = put_tensor(o, top, i, t, fn, user, err);
    if (status == DSFLOW_OK)
        status = put_file(o, top, "version", "3\n", 2, err);
    if (status == DSFLOW_OK)
        status = put_directory(o, err);
    return status == DSFLOW_OK ? flush(o, err) : status;
}

/* "fp32" of "zero/x/fp32.pt". */
static char *top_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');

    return dot != NULL && dot > name ? dsf_xstrndup(name, (size_t)(dot - name))
                                     : dsf_xstrdup(name);
}

int dsf_torch_write(const struct dsf_torch_tree *t, const char *path,
                    dsf_torch_out_fn *fn, void *user, struct dsflow_err *err)
{
    struct dsf_torch_out o = { .path = path };
    int status = dsf_synced_create(path, false, &o.fd, err);
    char *top;

    if (status < 0)
        return status;
    top = top_of(path);
    o.buffer = dsf_xrealloc(NULL, BUFFER, 1);
    status = dsf_synced_close(o.fd, path,
                              write_archive(&o, top, t, fn, user, err), err);
    for (size_t i = 0; i < o.nentries; i++)
        free(o.entries[i].name);
    free(o.entries);
    free(o.buffer);
    free(top);
    return status;
}
