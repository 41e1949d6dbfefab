/* token_cache.c - tokens on disk: a header, then the tokens as the machine has
 * them in memory, so that they are mapped and not read. */
#include "text/token_cache.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/file.h"
#include "base/log.h"
#include "base/synced.h"
#include "text/mapped.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC   "dsflowTK"
#define VERSION 2u

struct header {
    char magic[8];
    uint32_t version; /* also tells the byte order */
    uint32_t width;
    uint64_t key; /* of contents, tokenizer and split */
    uint64_t train, validation;
    uint64_t train_bytes, validation_bytes; /* of text */
    uint64_t most;
    uint64_t tokens_hash;
    uint64_t header_hash; /* of all before */
};

static uint64_t header_hash(const struct header *h)
{
    return XXH3_64bits(h, offsetof(struct header, header_hash));
}

static char *path_of(const char *dir, uint64_t key)
{
    return dsf_xasprintf("%s/tokens-%016" PRIx64 ".bin", dir, key);
}

/* The tokens that a whole and true cache has behind its header, or NULL. */
static const void *tokens_of(const struct header *h, size_t bytes, uint64_t key)
{
    const void *tokens = h + 1;
    uint64_t room, n;

    if (bytes < sizeof(*h) || memcmp(h->magic, MAGIC, sizeof(h->magic)) != 0 ||
        h->version != VERSION || h->key != key ||
        h->header_hash != header_hash(h) || (h->width != 2 && h->width != 4))
        return NULL;
    room = (bytes - sizeof(*h)) / h->width;
    if (h->train > room || h->validation > room - h->train)
        return NULL;
    n = (h->train + h->validation) * h->width;
    if (n != bytes - sizeof(*h) ||
        dsf_mapped_hash(h, bytes, sizeof(*h)) != h->tokens_hash)
        return NULL;
    return tokens;
}

/* The store of what is mapped, if it is whole and true. */
static bool take(const struct header *h, size_t bytes, uint64_t key,
                 struct dsf_token_store *store)
{
    const void *tokens = tokens_of(h, bytes, key);

    if (tokens == NULL)
        return false;
    *store = (struct dsf_token_store){
        .tokens = tokens,
        .width = h->width,
        .train = h->train,
        .validation = h->validation,
        .train_bytes = h->train_bytes,
        .validation_bytes = h->validation_bytes,
        .most = (uint32_t)h->most,
        .map = (void *)h,
        .map_bytes = bytes,
    };
    return true;
}

bool dsf_token_cache_open(const char *dir, uint64_t key,
                          struct dsf_token_store *store)
{
    char *path = path_of(dir, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = false;
    struct stat st;
    void *map;

    free(path);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(struct header)) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        good = map != MAP_FAILED && take(map, (size_t)st.st_size, key, store);
        if (map != MAP_FAILED && !good)
            munmap(map, (size_t)st.st_size);
    }
    close(fd);
    return good;
}

struct dsf_token_writer {
    char *path;
    uint64_t key;
    unsigned width;
    struct dsf_aside file;
    bool in_file; /* or in memory */
    int fd;       /* of either */
    int why;      /* errno, where neither had room */
    uint64_t n;
    uint32_t most;
    XXH3_state_t *hash; /* of the tokens */
    void *packed;       /* the last ones */
    size_t cap;         /* bytes */
};

static bool take_lock(int fd)
{
    struct flock all = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

    return fcntl(fd, F_OFD_SETLK, &all) == 0;
}

/* What writers that were killed have left: a writer that lives has the lock. */
static void remove_left(const char *dir)
{
    DIR *d = opendir(dir);

    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;) {
        size_t n = strlen(e->d_name);
        int fd;

        if (strncmp(e->d_name, "tokens-", 7) != 0 ||
            strcmp(e->d_name + n - 4, ".tmp") != 0)
            continue;
        fd = openat(dirfd(d), e->d_name, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            continue;
        if (take_lock(fd))
            unlinkat(dirfd(d), e->d_name, 0);
        close(fd);
    }
    if (d != NULL)
        closedir(d);
}

static off_t end_of(const struct dsf_token_writer *w)
{
    return (off_t)(sizeof(struct header) + w->n * w->width);
}

static void warn_of_file(const struct dsf_token_writer *w)
{
    dsf_warn("%s: %s: the text will be encoded again by the next run", w->path,
             strerror(errno));
}

/* All that is in the file so far. */
static int copy_file(const struct dsf_token_writer *w, int to)
{
    static const size_t most = (size_t)1 << 20;
    char *some = dsf_xcalloc(1, most);
    off_t at = 0, end = w->n > 0 ? end_of(w) : 0;
    ssize_t n = 0;
    int rc = 0;

    for (; at < end && rc == 0; at += n) {
        size_t left = (size_t)(end - at);

        n = pread(w->fd, some, left < most ? left : most, at);
        rc = n > 0 ? dsf_file_write(to, some, (size_t)n, at) : -1;
    }
    free(some);
    return rc;
}

/* From now on: with what is in the file, which is given up. */
static void go_to_memory(struct dsf_token_writer *w)
{
    int fd = memfd_create("dsflow-tokens", MFD_CLOEXEC);

    if (fd < 0 || (w->in_file && copy_file(w, fd) < 0))
        w->why = errno;
    if (w->in_file)
        dsf_aside_close(&w->file, false);
    w->in_file = false;
    w->fd = fd;
}

struct dsf_token_writer *dsf_token_writer_new(const char *dir, uint64_t key,
                                              unsigned width)
{
    struct dsf_token_writer *w = dsf_xcalloc(1, sizeof(*w));

    w->path = path_of(dir, key);
    w->key = key;
    w->width = width;
    w->hash = XXH3_createState();
    XXH3_64bits_reset(w->hash);
    remove_left(dir);
    w->in_file = dsf_synced_folders(dir, NULL) == DSFLOW_OK &&
                 dsf_aside_open(&w->file, w->path) == 0;
    if (w->in_file) {
        w->fd = w->file.fd;
        take_lock(w->fd);
    } else {
        warn_of_file(w);
        go_to_memory(w);
    }
    return w;
}

static void write_some(struct dsf_token_writer *w, const void *from, size_t n,
                       off_t at)
{
    if (w->why == 0 && w->in_file && dsf_file_write(w->fd, from, n, at) < 0) {
        warn_of_file(w);
        go_to_memory(w);
    }
    if (w->why == 0 && !w->in_file && dsf_file_write(w->fd, from, n, at) < 0)
        w->why = errno;
}

void dsf_token_writer_put(struct dsf_token_writer *w, const int32_t *ids,
                          size_t n)
{
    dsf_grow(&w->packed, &w->cap, n * w->width, 1);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = (uint32_t)ids[i];

        if (id > w->most)
            w->most = id;
        if (w->width == 2)
            ((uint16_t *)w->packed)[i] = (uint16_t)id;
        else
            ((uint32_t *)w->packed)[i] = id;
    }
    XXH3_64bits_update(w->hash, w->packed, n * w->width);
    write_some(w, w->packed, n * w->width, end_of(w));
    w->n += n;
}

uint64_t dsf_token_writer_count(const struct dsf_token_writer *w)
{
    return w->n;
}

static void free_writer(struct dsf_token_writer *w)
{
    if (!w->in_file && w->fd >= 0)
        close(w->fd);
    XXH3_freeState(w->hash);
    free(w->packed);
    free(w->path);
    free(w);
}

void dsf_token_writer_drop(struct dsf_token_writer *w)
{
    if (w->in_file)
        dsf_aside_close(&w->file, false);
    free_writer(w);
}

/* What is mapped stays when the file takes its name, and when it does not. */
static int map_written(struct dsf_token_writer *w,
                       struct dsf_token_store *store, struct dsflow_err *err)
{
    const struct header *h = NULL;

    if (w->why == 0)
        h = mmap(NULL, (size_t)end_of(w), PROT_READ, MAP_SHARED, w->fd, 0);
    if (h == MAP_FAILED)
        w->why = errno;
    if (w->in_file && dsf_aside_close(&w->file, w->why == 0) < 0)
        warn_of_file(w);
    if (w->why != 0)
        return dsflow_fail(err, DSFLOW_ENOMEM,
                           "%" PRIu64 " tokens of the text: %s", w->n,
                           strerror(w->why));
    if (!take(h, (size_t)end_of(w), w->key, store)) {
        munmap((void *)h, (size_t)end_of(w));
        return dsflow_fail(err, DSFLOW_EIO,
                           "%s: reads other than it was written", w->path);
    }
    return DSFLOW_OK;
}

int dsf_token_writer_end(struct dsf_token_writer *w,
                         const struct dsf_token_split *split,
                         struct dsf_token_store *store, struct dsflow_err *err)
{
    struct header h = {
        .magic = MAGIC,
        .version = VERSION,
        .width = w->width,
        .key = w->key,
        .train = split->train,
        .validation = w->n - split->train,
        .train_bytes = split->train_bytes,
        .validation_bytes = split->validation_bytes,
        .most = w->most,
        .tokens_hash = XXH3_64bits_digest(w->hash),
    };
    int status;

    h.header_hash = header_hash(&h);
    write_some(w, &h, sizeof(h), 0);
    status = map_written(w, store, err);
    free_writer(w);
    return status;
}

void dsf_token_store_fini(struct dsf_token_store *store)
{
    if (store->map != NULL)
        munmap(store->map, store->map_bytes);
    *store = (struct dsf_token_store){ 0 };
}
