/* fuzz_pickle.c - any bytes as the pickle of a file of torch.save: a tree that
 * can be walked, whose tensors can be read, or one line that says what is
 * wrong. */
#include "torch/torch.h"

#include "fuzz/fuzz.h"
#include "lib/torch_bytes.h"

enum { NUMBERS = 30 };

static const char *const words[] = {
    "(",
    ".",
    "0",
    "1",
    "2",
    "N",
    "\x88",
    "}",
    "]",
    ")",
    "\x8f",
    "a",
    "e",
    "s",
    "u",
    "t",
    "\x85",
    "\x86",
    "\x87",
    "R",
    "\x81",
    "\x92",
    "b",
    "Q",
    "h\1",
    "q\1",
    "\x94",
    "K\1",
    "\x91",
    "\x90",
    "\x93",
    "ccollections\nOrderedDict\n",
    "ctorch._utils\n_rebuild_tensor_v2\n",
    "ctorch._utils\n_rebuild_parameter\n",
    "ctorch\nSize\n",
    "c_codecs\nencode\n",
    "cnumpy\ndtype\n",
    "ctorch\ndevice\n",
    "cargparse\nNamespace\n",
    "cnumpy.core.multiarray\n_reconstruct\n",
    "cnumpy.core.multiarray\nscalar\n",
    "ccopy_reg\n_reconstructor\n",
    "ctorch._tensor\n_rebuild_from_type_v2\n",
    "ctorch\nBFloat16Storage\n",
    "\x8b\xff\xff\xff\x7f",
    NULL,
};

/* {"a": tensor of storage "0", "b": [1, -1.5, None], "c": an object} */
static char *sound(size_t *n)
{
    static const char text[] =
        "\x80\x02}q\0(X\1\0\0\0aq\1ctorch._utils\n_rebuild_tensor_v2\nq\2(("
        "X\7\0\0\0"
        "storageq\3ctorch\nFloatStorage\nq\4X\1\0\0\0000q\5X\3\0\0\0cpuq\6K\x1e"
        "tq\7"
        "QK\2K\5K\4\x86q\x08K\1K\6\x86q\x09\x89"
        "ccollections\nOrderedDict\nq\x0a)Rq\x0btq\x0cRq\x0d"
        "X\1\0\0\0bq\x0e]q\x0f(K\1G\xbf\xf8\0\0\0\0\0\0Ne"
        "X\1\0\0\0cq\x10"
        "cargparse\nNamespace\nq\x11)\x81q\x12}q\x13X\1\0\0\0xq\x14h\1sb"
        "X\1\0\0\0dq\x15"
        "cnumpy.core.multiarray\n_reconstruct\nq\x16"
        "cnumpy\nndarray\nq\x17K\0\x85q\x18"
        "c_"
        "codecs\nencode\nq\x19X\1\0\0\0bq\x1aX\6\0\0\0latin1q\x1b\x86q\x1cRq"
        "\x1d"
        "\x87q\x1eRq\x1f(K\1K\2\x85q "
        "cnumpy\ndtype\nq!X\2\0\0\0i2q\"\x89\x88\x87q#Rq$(K\3X\1\0\0\0<q%"
        "NNNJ\xff"
        "\xff\xff\xffJ\xff\xff\xff\xffK\0tq&b\x89h\x19X\4\0\0\0abcdq'"
        "h\x1b\x86q("
        "Rq)tq*b"
        "u.";

    *n = sizeof(text) - 1;
    return fuzz_copy(text, *n);
}

static void read_some(const struct dsf_torch_file *file,
                      const struct dsf_torch_tensor *t)
{
    enum { SOME = 48 };
    struct dsflow_err err;
    float numbers[SOME];

    for (int64_t at = 0; at < t->elems && at < 4 * SOME; at += SOME)
        if (dsf_torch_read_f32(file, t, at,
                               t->elems - at < SOME ? t->elems - at : SOME,
                               numbers, &err) < 0)
            fuzz_die("what was accepted cannot be read");
    /* The last ones, too. */
    if (t->elems > SOME &&
        dsf_torch_read_f32(file, t, t->elems - SOME, SOME, numbers, &err) < 0)
        fuzz_die("what was accepted cannot be read to its end");
}

static void walk(const struct dsf_torch_file *file,
                 const struct dsf_torch_node *n, int *left)
{
    if (n == NULL || --*left < 0)
        return;
    if (n->kind == DSF_TORCH_TENSOR)
        read_some(file, n->tensor);
    if (n->kind == DSF_TORCH_STR && n->str[n->n] != '\0')
        fuzz_die("a text without an end");
    if (n->kind == DSF_TORCH_BYTES && n->n > 0) {
        struct dsflow_err err;
        char last;

        if (dsf_torch_read_bytes(file, n, n->n - 1, 1, &last, &err) < 0)
            fuzz_die("bytes that are not there");
    }
    if (n->kind == DSF_TORCH_OBJECT) {
        walk(file, n->object.args, left);
        walk(file, n->object.filled, left);
    }
    for (uint32_t i = 0; n->kind == DSF_TORCH_DICT && i < n->n; i++) {
        const struct dsf_torch_node *key = dsf_torch_key(n, i);

        if (key->kind == DSF_TORCH_STR && strlen(key->str) == key->n &&
            dsf_torch_find(n, key->str) != dsf_torch_value(n, i))
            fuzz_die("a key that is not found");
        walk(file, key, left);
        walk(file, dsf_torch_value(n, i), left);
    }
    for (uint32_t i = 0;
         (n->kind == DSF_TORCH_LIST || n->kind == DSF_TORCH_TUPLE ||
          n->kind == DSF_TORCH_SET) &&
         i < n->n;
         i++)
        walk(file, dsf_torch_item(n, i), left);
    walk(file, n->state, left);
}

static bool accepts(const char *text, size_t n)
{
    struct dsflow_err err = { .msg = "" };
    struct torch_bytes all = stream_of(text, n, NUMBERS);
    const char *path = fuzz_file("x.pt", (const char *)all.v, all.n);
    struct dsf_torch_file *file;
    int left = 10000;

    free(all.v);
    if (dsf_torch_open(path, &file, &err) < 0) {
        fuzz_refused(&err);
        return false;
    }
    walk(file, dsf_torch_root(file), &left);
    free(dsf_torch_where(file, dsf_torch_root(file)));
    dsf_torch_close(file);
    return true;
}

const struct fuzz_reader fuzz_reader = {
    .name = "pickle",
    .rounds = 20000,
    .sound = sound,
    .words = words,
    .accepts = accepts,
};
