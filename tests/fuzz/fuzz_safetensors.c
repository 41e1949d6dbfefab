/* fuzz_safetensors.c - any bytes as a safetensors file: every tensor that is
 * shown can be read, or one line says what is wrong. */
#include "base/safetensors.h"

#include "fuzz/fuzz.h"

enum { DATA = 32 };

static const char *const words[] = {
    "{",  "}",   "[",     "]",     ",",          ":",       "\"",
    "-1", "1e9", "null",  "[0,0]", "4611686018427387904",   "\"F32\"",
    "\"BF16\"",  "\"shape\"",      "\"data_offsets\"",      "\"__metadata__\"",
    NULL,
};

static void set_length(char *text, size_t n)
{
    for (int i = 0; i < 8; i++)
        text[i] = (char)(n >> 8 * i);
}

static char *sound(size_t *n)
{
    static const char header[] =
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[4],\"data_offsets\":[24,32]},"
        "\"__metadata__\":{\"format\":\"pt\"}}";
    size_t length = sizeof(header) - 1;
    char *text = malloc(8 + length + DATA);

    set_length(text, length);
    memcpy(text + 8, header, length);
    memset(text + 8 + length, 1, DATA);
    *n = 8 + length + DATA;
    return text;
}

/* Most damage moves the end of the header. */
static void mend(char *text, size_t n)
{
    if (n > 8 + DATA)
        set_length(text, n - 8 - DATA);
}

static void read_all(const struct dsf_st_file *file,
                     const struct dsf_st_tensor *t)
{
    struct dsflow_err err;
    size_t count = 1;
    float some[64];

    for (unsigned d = 0; d < t->ndims; d++)
        count *= (size_t)t->dims[d];
    for (size_t at = 0; at < count && dsf_st_is_float(t->dtype); at += 64)
        if (dsf_st_read_f32(file, t, at, count - at < 64 ? count - at : 64,
                            some, &err) < 0)
            fuzz_die("what was accepted cannot be read");
}

static bool accepts(const char *text, size_t n)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_st_file *file;

    if (dsf_st_open(fuzz_file("x.safetensors", text, n), &file, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    for (unsigned i = 0; i < dsf_st_count(file); i++)
        read_all(file, dsf_st_at(file, i));
    dsf_st_close(file);
    return true;
}

const struct fuzz_reader fuzz_reader = {
    .name = "safetensors",
    .rounds = 4000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
    .mend = mend,
};
