/* fuzz_torch.c - any bytes as a file of torch.save, an archive or a stream:
 * every tensor that is shown can be read, or one line says what is wrong: of
 * some its CRC-32. What is in a pickle is fuzz_pickle's. */
#include "torch/torch.h"

#include "fuzz/fuzz.h"
#include "lib/torch_bytes.h"

static const char *const words[] = {
    "PK\1\2",      "PK\3\4",     "PK\5\6",   "PK\6\6",
    "PK\6\7",      "a/data.pkl", "a/data/0", "a/data/1",
    "a/byteorder", "little",     "big",      "\xff\xff\xff\xff",
    "\x80\x02",    "}",          "N",        ".",
    "u",           "\x8a\x0al",  NULL,
};

/* {"a": tensor, "b": tensor} of two storages. */
static char *sound(size_t *n)
{
    static const char text[] =
        "\x80\x02}q\0(X\1\0\0\0aq\1ctorch._utils\n_rebuild_tensor_v2\nq\2(("
        "X\7\0\0\0"
        "storageq\3ctorch\nFloatStorage\nq\4X\1\0\0\0000q\5X\3\0\0\0cpuq\6K\4tq"
        "\7"
        "QK\0K\4\x85q\x08K\1\x85q\x09\x89Ntq\x0cRq\x0d"
        "X\1\0\0\0bq\x0eh\2(("
        "h\3ctorch\nHalfStorage\nq\x0fX\1\0\0\0001q\x10h\6K\3tQK"
        "\1K\2\x85q\x11K\1\x85q\x12\x89Ntq\x13Ru.";
    static const float numbers[4] = { 1, 2, 3, 4 };
    const struct zip_file files[] = {
        { "a/data.pkl", text, sizeof(text) - 1 },
        { "a/byteorder", "little", 6 },
        { "a/data/0", numbers, 16 },
        { "a/data/1", numbers, 6 },
        { "a/version", "3\n", 2 },
    };
    struct torch_bytes b = archive_of(files, sizeof(files) / sizeof(*files));

    *n = b.n;
    return (char *)b.v;
}

/* No CRC-32 in either header of the files. */
static void mend(char *text, size_t n)
{
    static const struct {
        const char *magic;
        size_t crc;
    } headers[] = { { "PK\3\4", 14 }, { "PK\1\2", 16 } };

    for (unsigned i = 0; i < 2; i++)
        for (char *at = text; (at = memmem(at, n - (size_t)(at - text),
                                           headers[i].magic, 4)) != NULL;
             at++)
            if (n - (size_t)(at - text) >= headers[i].crc + 4)
                memset(at + headers[i].crc, 0, 4);
}

static bool read_all(const struct dsf_torch_file *file,
                     const struct dsf_torch_tensor *t)
{
    struct dsflow_err err;
    float some[64];

    for (int64_t at = 0; at < t->elems && at < 4096; at += 64)
        if (dsf_torch_read_f32(file, t, at,
                               t->elems - at < 64 ? t->elems - at : 64, some,
                               &err) < 0) {
            if (strstr(err.msg, ": its CRC-32 is ") == NULL)
                fuzz_die("what was accepted cannot be read");
            fuzz_refused(&err);
            return false;
        }
    return true;
}

static bool accepts(const char *text, size_t n)
{
    struct dsflow_err err = { .msg = "" };
    const char *path = fuzz_file("x.pt", text, n);
    const struct dsf_torch_node *root;
    struct dsf_torch_file *file;
    bool is = dsf_torch_is(path), whole = true;

    if (dsf_torch_open(path, &file, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    if (!is)
        fuzz_die("it is read, and does not look like one");
    root = dsf_torch_root(file);
    for (uint32_t i = 0; root->kind == DSF_TORCH_DICT && i < root->n; i++)
        if (dsf_torch_value(root, i)->kind == DSF_TORCH_TENSOR)
            whole = read_all(file, dsf_torch_value(root, i)->tensor) && whole;
    dsf_torch_close(file);
    return whole;
}

const struct fuzz_reader fuzz_reader = {
    .name = "torch",
    .rounds = 10000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
    .mend = mend,
};
