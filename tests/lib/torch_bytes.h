/* torch_bytes.h - files as torch.save writes them, byte by byte: a pickle in a
 * stream, and archives with whatever is wrong with them. */
#ifndef DSF_TESTS_LIB_TORCH_BYTES_H
#define DSF_TESTS_LIB_TORCH_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct torch_bytes {
    unsigned char *v;
    size_t n, cap;
};

static inline void put_bytes(struct torch_bytes *b, const void *p, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n) + 64;
        b->v = realloc(b->v, b->cap);
        if (b->v == NULL)
            abort();
    }
    memcpy(b->v + b->n, p, n);
    b->n += n;
}

/* The lowest `bytes` of x, lowest first. */
static inline void put_number(struct torch_bytes *b, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        unsigned char byte = i < 8 ? (unsigned char)(x >> 8 * i) : 0;

        put_bytes(b, &byte, 1);
    }
}

/* So many of them. */
static inline void put_times(struct torch_bytes *b, const char *s, size_t n,
                             size_t times)
{
    while (times-- > 0)
        put_bytes(b, s, n);
}

/* Magic number, protocol, system; the pickle; storage "0" of `numbers` fp32. */
static inline struct torch_bytes stream_of(const void *pickle, size_t n,
                                           unsigned numbers)
{
    static const char head[] =
        "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20j\xa8P\x19."
        "\x80\x02M\xe9\x03."
        "\x80\x02}q\0(X\x10\0\0\0protocol_versionq\1M\xe9\x03X\x0d\0\0\0"
        "little_endianq\2\x88u.";
    static const char keys[] = "\x80\x02]q\0X\1\0\0\0000q\1a.";
    static const char none[] = "\x80\x02].";
    struct torch_bytes b = { 0 };
    float x = 0.5f;

    put_bytes(&b, head, sizeof(head) - 1);
    put_bytes(&b, pickle, n);
    if (numbers == 0) {
        put_bytes(&b, none, sizeof(none) - 1);
        return b;
    }
    put_bytes(&b, keys, sizeof(keys) - 1);
    put_number(&b, numbers, 8);
    for (unsigned i = 0; i < numbers; i++)
        put_bytes(&b, &x, sizeof(x));
    return b;
}

/* A file of an archive, and what its headers say of it where that is not so. */
struct zip_file {
    const char *name;
    const void *bytes;
    size_t n;
    unsigned method, flags; /* 0: stored */
    uint32_t size;          /* other than n, in both headers */
    const char *local;      /* NULL: the same name in the local header */
    int at;                 /* its local header is that of file at - 1 */
};

static inline uint32_t crc32_of(const unsigned char *p, size_t n)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* What is alike in both headers. */
static inline void put_zip_entry(struct torch_bytes *b,
                                 const struct zip_file *f, const char *name)
{
    uint32_t size = f->size != 0 ? f->size : (uint32_t)f->n;

    put_number(b, 20, 2);
    put_number(b, f->flags, 2);
    put_number(b, f->method, 2);
    put_number(b, 0x21 << 16, 4); /* 1980-01-01 */
    put_number(b, crc32_of(f->bytes, f->n), 4);
    put_number(b, size, 4);
    put_number(b, size, 4);
    put_number(b, strlen(name), 2);
    put_number(b, 0, 2);
}

static inline struct torch_bytes archive_of(const struct zip_file *files,
                                            size_t n)
{
    struct torch_bytes b = { 0 };
    uint32_t at[64], directory;

    for (size_t i = 0; i < n; i++) {
        const char *name =
            files[i].local != NULL ? files[i].local : files[i].name;

        at[i] = (uint32_t)b.n;
        if (files[i].at > 0) {
            at[i] = at[files[i].at - 1];
            continue;
        }
        put_bytes(&b, "PK\3\4", 4);
        put_zip_entry(&b, &files[i], name);
        put_bytes(&b, name, strlen(name));
        put_bytes(&b, files[i].bytes, files[i].n);
    }
    directory = (uint32_t)b.n;
    for (size_t i = 0; i < n; i++) {
        put_bytes(&b, "PK\1\2\24\0", 6);
        put_zip_entry(&b, &files[i], files[i].name);
        put_number(&b, 0, 2 + 2 + 2 + 4);
        put_number(&b, at[i], 4);
        put_bytes(&b, files[i].name, strlen(files[i].name));
    }
    put_bytes(&b, "PK\5\6\0\0\0\0", 8);
    put_number(&b, n, 2);
    put_number(&b, n, 2);
    put_number(&b, b.n - 12 - directory, 4);
    put_number(&b, directory, 4);
    put_number(&b, 0, 2);
    return b;
}

#endif
