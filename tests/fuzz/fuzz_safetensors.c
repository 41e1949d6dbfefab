/* fuzz_safetensors.c - any bytes as a safetensors file: every tensor that is
 * shown can be read, or one line says what is wrong. */
#include "base/safetensors.h"

#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 4000, CAP = 4096 };

static const char *const words[] = {
    "{",  "}",   "[",     "]",     ",",          ":",       "\"",
    "-1", "1e9", "null",  "[0,0]", "4611686018427387904",   "\"F32\"",
    "\"BF16\"",  "\"shape\"",      "\"data_offsets\"",      "\"__metadata__\"",
};

static size_t make_sound(char *to)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
        "\"__metadata__\":{\"format\":\"pt\"}}";
    size_t n = sizeof(header) - 1;

    memset(to, 0, 8);
    to[0] = (char)n;
    to[1] = (char)(n >> 8);
    memcpy(to + 8, header, n);
    memset(to + 8 + n, 1, 32);
    return 8 + n + 32;
}

static int try(const char *path, const char *text, size_t n)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_st_file *file;
    FILE *out = fopen(path, "wb");
    float some[64];

    if (out == NULL || fwrite(text, 1, n, out) != n || fclose(out) != 0)
        fuzz_die("the file cannot be written");
    if (dsf_st_open(path, &file, &err) < 0) {
        if (err.msg[0] == '\0' || strchr(err.msg, '\n') != NULL)
            fuzz_die("refused without a line");
        return 0;
    }
    for (unsigned i = 0; i < dsf_st_count(file); i++) {
        const struct dsf_st_tensor *t = dsf_st_at(file, i);
        size_t count = 1;

        for (unsigned d = 0; d < t->ndims; d++)
            count *= (size_t)t->dims[d];
        for (size_t at = 0; at < count && dsf_st_is_float(t->dtype); at += 64) {
            size_t k = count - at < 64 ? count - at : 64;

            if (dsf_st_read_f32(file, t, at, k, some, &err) < 0)
                fuzz_die("what was accepted cannot be read");
        }
    }
    dsf_st_close(file);
    return 1;
}

int main(void)
{
    char path[] = "/tmp/fuzz-safetensors.XXXXXX", sound[CAP], text[CAP];
    size_t nsound = make_sound(sound);
    unsigned files = 0;
    int fd = mkstemp(path);

    if (fd < 0)
        fuzz_die("no temporary file");
    close(fd);
    if (!try(path, sound, nsound))
        fuzz_die("the sound file was refused");
    for (unsigned round = 0; round < ROUNDS; round++) {
        size_t n = nsound, length;

        memcpy(text, sound, n);
        for (size_t faults = 1 + fuzz_any(3); faults > 0; faults--)
            fuzz_damage(text, &n, CAP, words, sizeof(words) / sizeof(*words));
        /* Most damage moves the end of the header: put its length right in
         * half of the files, so that what is in it is looked at. */
        if (n > 48 && fuzz_any(2) == 0) {
            length = n - 40;
            memset(text, 0, 8);
            text[0] = (char)length;
            text[1] = (char)(length >> 8);
        }
        files += (unsigned)try(path, text, n);
    }
    unlink(path);
    printf("%d damaged files, %u of them still safetensors\n", ROUNDS, files);
    return 0;
}
