/* token_cache.c - tokens on disk: a header, then the tokens as the machine has
 * them in memory, so that they are mapped and not read. */
#include "text/token_cache.h"

#include "base/alloc.h"
#include "base/aside.h"
#include "base/log.h"

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
#define VERSION 1u

struct header {
    char magic[8];
    uint32_t version; /* also tells the byte order */
    uint32_t width;
    uint64_t key; /* of contents, tokenizer and split */
    uint64_t train, validation;
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
    if (n != bytes - sizeof(*h) || XXH3_64bits(tokens, n) != h->tokens_hash)
        return NULL;
    return tokens;
}

bool dsf_token_cache_open(const char *dir, uint64_t key,
                          struct dsf_token_store *store)
{
    char *path = path_of(dir, key);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    const struct header *h = NULL;
    const void *tokens = NULL;
    struct stat st;

    free(path);
    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && st.st_size >= (off_t)sizeof(*h)) {
        h = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
        if (h != MAP_FAILED)
            tokens = tokens_of(h, (size_t)st.st_size, key);
        if (h != MAP_FAILED && tokens == NULL)
            munmap((void *)h, (size_t)st.st_size);
    }
    close(fd);
    if (tokens == NULL)
        return false;
    *store = (struct dsf_token_store){
        .tokens = tokens,
        .width = h->width,
        .train = h->train,
        .validation = h->validation,
        .most = (uint32_t)h->most,
        .map = (void *)h,
        .map_bytes = (size_t)st.st_size,
    };
    return true;
}

/* mkdir -p; 0 or -1 with errno. */
static int make_folder(const char *dir)
{
    char *path = dsf_xstrdup(dir);
    int rc = 0;

    for (char *c = path + 1; *c != '\0' && rc == 0; c++) {
        if (*c != '/')
            continue;
        *c = '\0';
        rc = mkdir(path, 0777) < 0 && errno != EEXIST ? -1 : 0;
        *c = '/';
    }
    if (rc == 0)
        rc = mkdir(path, 0777) < 0 && errno != EEXIST ? -1 : 0;
    free(path);
    return rc;
}

static int write_file(const char *path, uint64_t key,
                      const struct dsf_token_store *store)
{
    size_t bytes = (store->train + store->validation) * store->width;
    struct dsf_aside file;
    bool whole;
    struct header h = {
        .magic = MAGIC,
        .version = VERSION,
        .width = store->width,
        .key = key,
        .train = store->train,
        .validation = store->validation,
        .most = store->most,
        .tokens_hash = XXH3_64bits(store->tokens, bytes),
    };

    h.header_hash = header_hash(&h);
    if (dsf_aside_open(&file, path) < 0)
        return -1;
    /* Straight from memory: there may be many gigabytes. */
    setvbuf(file.out, NULL, _IONBF, 0);
    whole = fwrite(&h, sizeof(h), 1, file.out) == 1 &&
            fwrite(store->tokens, 1, bytes, file.out) == bytes;
    return dsf_aside_close(&file, whole) == 0 && whole ? 0 : -1;
}

void dsf_token_cache_write(const char *dir, uint64_t key,
                           struct dsf_token_store *store)
{
    char *path = path_of(dir, key);
    struct dsf_token_store mapped;

    if (make_folder(dir) < 0 || write_file(path, key, store) < 0) {
        dsf_warn("%s: %s: the text will be encoded again by the next run", path,
                 strerror(errno));
    } else if (dsf_token_cache_open(dir, key, &mapped)) {
        dsf_token_store_fini(store);
        *store = mapped;
    }
    free(path);
}

void dsf_token_store_fini(struct dsf_token_store *store)
{
    if (store->map != NULL)
        munmap(store->map, store->map_bytes);
    else
        free((void *)store->tokens);
    *store = (struct dsf_token_store){ 0 };
}
