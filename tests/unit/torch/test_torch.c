/* test_torch.c - files of torch.save: what tests/reference/torch/make_torch.py
 * wrote with it is read as it was. */
#include "torch/torch.h"

#include "base/alloc.h"
#include "lib/folder.h"
#include "lib/torch_bytes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct dsf_torch_file *open_file(const char *name)
{
    const char *srcdir = getenv("srcdir");
    char *path = dsf_xasprintf("%s/tests/reference/torch/%s",
                               srcdir != NULL ? srcdir : ".", name);
    struct dsf_torch_file *file;
    struct dsflow_err err = { .msg = "" };

    assert_true(dsf_torch_is(path));
    if (dsf_torch_open(path, &file, &err) < 0)
        fail_msg("%s", err.msg);
    free(path);
    return file;
}

static const struct dsf_torch_tensor *tensor(const struct dsf_torch_file *file,
                                             const char *name)
{
    const struct dsf_torch_node *node =
        dsf_torch_find(dsf_torch_root(file), name);

    assert_non_null(node);
    assert_int_equal(node->kind, DSF_TORCH_TENSOR);
    return node->tensor;
}

/* The numbers of a tensor, read in pieces of `piece`. */
static void read_all(const struct dsf_torch_file *file,
                     const struct dsf_torch_tensor *t, int64_t piece, float *to)
{
    struct dsflow_err err = { .msg = "" };

    for (int64_t at = 0; at < t->elems; at += piece)
        if (dsf_torch_read_f32(file, t, at,
                               t->elems - at < piece ? t->elems - at : piece,
                               to + at, &err) < 0)
            fail_msg("%s", err.msg);
}

static float value_at(int64_t i)
{
    return (float)i / 4 - 3;
}

/* Number (i, j) of the tensor is number from + i rows + j columns of those that
 * the script made. */
static void check_matrix(const struct dsf_torch_file *file, const char *name,
                         const int64_t *dims, int64_t from, int64_t rows,
                         int64_t columns)
{
    const struct dsf_torch_tensor *t = tensor(file, name);
    float numbers[200];

    assert_int_equal(t->ndims, 2);
    assert_memory_equal(t->dims, dims, 2 * sizeof(*dims));
    for (int64_t piece = 1; piece <= t->elems; piece++) {
        read_all(file, t, piece, numbers);
        for (int64_t i = 0; i < dims[0]; i++)
            for (int64_t j = 0; j < dims[1]; j++)
                assert_float_equal(numbers[i * dims[1] + j],
                                   value_at(from + i * rows + j * columns), 0);
    }
}

static void check_strides(const struct dsf_torch_file *file)
{
    const struct dsf_torch_tensor *t = tensor(file, "permuted");
    float numbers[200];
    int at = 0;

    check_matrix(file, "plain", (int64_t[]){ 6, 5 }, 0, 5, 1);
    check_matrix(file, "transposed", (int64_t[]){ 5, 6 }, 0, 1, 5);
    check_matrix(file, "slices", (int64_t[]){ 2, 3 }, 6, 10, 1);
    assert_int_equal(t->ndims, 4);
    for (int64_t piece = 1; piece <= t->elems; piece += 7) {
        read_all(file, t, piece, numbers);
        at = 0;
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 2; j++)
                for (int k = 0; k < 5; k++)
                    for (int l = 0; l < 3; l++)
                        assert_float_equal(
                            numbers[at++],
                            value_at(j * 60 + l * 20 + i * 5 + k), 0);
    }
    t = tensor(file, "expanded");
    assert_int_equal(t->elems, 36);
    for (int64_t piece = 1; piece <= 36; piece++) {
        read_all(file, t, piece, numbers);
        for (int i = 0; i < 36; i++)
            assert_float_equal(numbers[i], value_at(11 + i % 3), 0);
    }
}

static void check_types(const struct dsf_torch_file *file)
{
    static const struct {
        const char *name;
        enum dsflow_dtype dtype;
    } reals[] = {
        { "plain", DSFLOW_FP32 },        { "fp64", DSFLOW_FP64 },
        { "bf16", DSFLOW_BF16 },         { "fp16", DSFLOW_FP16 },
        { "fp8_e4m3", DSFLOW_FP8_E4M3 },
    };
    static const struct {
        const char *name;
        enum dsflow_dtype dtype;
        int from;
    } ints[] = {
        { "int8", DSFLOW_INT8, -4 },    { "int16", DSFLOW_INT16, -4 },
        { "int32", DSFLOW_INT32, -4 },  { "int64", DSFLOW_INT64, -4 },
        { "uint8", DSFLOW_UINT8, 0 },   { "uint16", DSFLOW_UINT16, 0 },
        { "uint32", DSFLOW_UINT32, 0 }, { "uint64", DSFLOW_UINT64, 0 },
    };
    float numbers[200];

    for (size_t i = 0; i < sizeof(reals) / sizeof(*reals); i++) {
        const struct dsf_torch_tensor *t = tensor(file, reals[i].name);

        assert_int_equal(t->dtype, reals[i].dtype);
        read_all(file, t, 7, numbers);
        /* fp8 has 3 bits: it rounds those beyond 4 in steps of 1/4 no more. */
        for (int64_t j = 0; j < 28; j++)
            assert_float_equal(numbers[j], value_at(j), 0);
    }
    for (size_t i = 0; i < sizeof(ints) / sizeof(*ints); i++) {
        const struct dsf_torch_tensor *t = tensor(file, ints[i].name);

        assert_int_equal(t->dtype, ints[i].dtype);
        read_all(file, t, 5, numbers);
        for (int j = 0; j < 24; j++)
            assert_float_equal(numbers[j], ints[i].from + j, 0);
    }
    read_all(file, tensor(file, "fp8_e5m2"), 3, numbers);
    assert_float_equal(numbers[1], -3, 0); /* -2.75, ties to even */
    assert_float_equal(numbers[2], -2.5, 0);
    assert_int_equal(tensor(file, "bool")->dtype, DSFLOW_BOOLEAN);
    read_all(file, tensor(file, "bool"), 3, numbers);
    assert_float_equal(numbers[1], 0, 0);
    assert_float_equal(numbers[2], 1, 0);
}

static void check_rest(const struct dsf_torch_file *file)
{
    const struct dsf_torch_tensor *t = tensor(file, "zero");
    int32_t raw[3];
    float number;
    struct dsflow_err err;

    assert_int_equal(t->elems, 0);
    assert_int_equal(t->dims[1], 3);
    t = tensor(file, "number");
    assert_int_equal(t->ndims, 0);
    read_all(file, t, 1, &number);
    assert_float_equal(number, 2.5, 0);
    t = tensor(file, "parameter");
    assert_int_equal(t->storage->elems, 30);
    assert_ptr_equal(t->storage, tensor(file, "transposed")->storage);
    assert_int_equal(
        dsf_torch_read(file, tensor(file, "int32"), 3, 3, raw, &err), 0);
    assert_memory_equal(raw, ((int32_t[]){ -1, 0, 1 }), sizeof(raw));
}

static void tensors_of_every_container_and_protocol(void **state)
{
    static const char *const names[] = { "zip2.pt", "zip3.pt", "zip4.pt",
                                         "zip5.pt", "stream.pt" };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct dsf_torch_file *file = open_file(names[i]);

        assert_int_equal(dsf_torch_root(file)->kind, DSF_TORCH_DICT);
        assert_string_equal(dsf_torch_root(file)->of,
                            "collections.OrderedDict");
        assert_string_equal(dsf_torch_key(dsf_torch_root(file), 1)->str,
                            "transposed");
        check_strides(file);
        check_types(file);
        check_rest(file);
        dsf_torch_close(file);
    }
}

static const struct dsf_torch_node *kinds(const struct dsf_torch_file *file,
                                          const char *name,
                                          enum dsf_torch_kind kind, uint32_t n)
{
    const struct dsf_torch_node *node =
        dsf_torch_find(dsf_torch_root(file), name);

    assert_non_null(node);
    assert_int_equal(node->kind, kind);
    assert_int_equal(node->n, n);
    return node;
}

static void numbers_and_texts(void **state)
{
    static const int64_t ints[] = { 0,        255, 256,       65535,
                                    65536,    -1,  INT32_MIN, INT64_C(1) << 40,
                                    INT64_MAX };
    struct dsf_torch_file *file = open_file("kinds.pt");
    const struct dsf_torch_node *node, *root = dsf_torch_root(file);
    struct dsflow_err err;
    unsigned char bytes[6];
    int64_t x;
    double real;

    kinds(file, "none", DSF_TORCH_NONE, 0);
    assert_true(
        dsf_torch_item(kinds(file, "bools", DSF_TORCH_LIST, 2), 0)->truth);
    node = kinds(file, "ints", DSF_TORCH_LIST, 9);
    for (uint32_t i = 0; i < 9; i++) {
        assert_int_equal(dsf_torch_int(file, dsf_torch_item(node, i), &x, &err),
                         0);
        assert_int_equal(x, ints[i]);
    }
    node = kinds(file, "big", DSF_TORCH_LIST, 3);
    assert_string_equal(dsf_torch_item(node, 0)->integer.big,
                        "0x8000000000000000");
    assert_string_equal(dsf_torch_item(node, 1)->integer.big,
                        "-0x400000000000000000");
    assert_string_equal(dsf_torch_item(node, 2)->integer.big,
                        "0xffffffffffffffff");
    assert_int_equal(
        dsf_torch_real(file, dsf_torch_find(root, "real"), &real, &err), 0);
    assert_true(real == 0.1);
    assert_string_equal(kinds(file, "text", DSF_TORCH_STR, 5)->str,
                        "\xc3\xa9\xe4\xb8\x96");
    node = kinds(file, "bytes", DSF_TORCH_BYTES, 6);
    assert_int_equal(dsf_torch_read_bytes(file, node, 0, 6, bytes, &err), 0);
    assert_memory_equal(bytes,
                        "\0\xff\x80"
                        "abc",
                        6);
    node = kinds(file, "bytearray", DSF_TORCH_BYTES, 3);
    assert_int_equal(dsf_torch_read_bytes(file, node, 1, 2, bytes, &err), 0);
    assert_memory_equal(bytes, "bc", 2);
    dsf_torch_close(file);
}

static void what_holds_other_things(void **state)
{
    struct dsf_torch_file *file = open_file("kinds.pt");
    const struct dsf_torch_node *node;
    float numbers[12];

    node = kinds(file, "tuple", DSF_TORCH_TUPLE, 3);
    assert_int_equal(dsf_torch_item(node, 2)->n, 0);
    kinds(file, "set", DSF_TORCH_SET, 1);
    kinds(file, "frozenset", DSF_TORCH_SET, 1);
    node = kinds(file, "namespace", DSF_TORCH_DICT, 2);
    assert_string_equal(node->of, "argparse.Namespace");
    assert_int_equal(dsf_torch_find(node, "layers")->integer.value, 2);
    node = kinds(file, "default", DSF_TORCH_DICT, 1);
    assert_non_null(dsf_torch_find_int(node, 1));
    kinds(file, "size", DSF_TORCH_TUPLE, 2);
    assert_int_equal(dsf_torch_dtype(kinds(file, "dtype", DSF_TORCH_GLOBAL, 0)),
                     DSFLOW_BF16);
    assert_string_equal(kinds(file, "device", DSF_TORCH_STR, 6)->str, "cuda:1");
    for (int i = 0; i < 2; i++) {
        const struct dsf_torch_tensor *t =
            tensor(file, i == 0 ? "array" : "fortran");

        read_all(file, t, 5, numbers);
        for (int j = 0; j < 12; j++)
            assert_float_equal(numbers[j], j, 0);
    }
    node = kinds(file, "scalars", DSF_TORCH_LIST, 3);
    assert_true(dsf_torch_item(node, 0)->real == 3.25);
    assert_int_equal(dsf_torch_item(node, 1)->integer.value, 7);
    assert_true(dsf_torch_item(node, 2)->truth);
    node = kinds(file, "module", DSF_TORCH_DICT, 2);
    assert_non_null(dsf_torch_find(node->state, "_metadata"));
    node = kinds(file, "object", DSF_TORCH_OBJECT, 0);
    assert_string_equal(node->object.name, "builtins.slice");
    assert_int_equal(node->object.args->n, 3);
    dsf_torch_close(file);
}

static void messages_say_where(void **state)
{
    struct dsf_torch_file *file = open_file("kinds.pt");
    const struct dsf_torch_node *node, *root = dsf_torch_root(file);
    struct dsflow_err err;
    const char *text;
    int64_t x;

    node = kinds(file, "by number", DSF_TORCH_DICT, 3);
    assert_string_equal(dsf_torch_find_int(node, 1)->str, "one");
    assert_string_equal(dsf_torch_find(node, "1")->str, "text");
    node = dsf_torch_find(dsf_torch_find_int(node, 0), "step");
    assert_int_equal(dsf_torch_str(file, node, &text, &err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "kinds.pt: by number[0].step: a tensor: "
                                    "expected a text"));
    assert_int_equal(dsf_torch_entry(file, dsf_torch_find(root, "namespace"),
                                     "depth", DSF_TORCH_INT, &node, &err),
                     DSFLOW_EINVAL);
    assert_non_null(
        strstr(err.msg, ": namespace: has no depth: expected a whole number"));
    node = dsf_torch_item(dsf_torch_find(root, "big"), 1);
    assert_int_equal(dsf_torch_int(file, node, &x, &err), DSFLOW_EINVAL);
    assert_non_null(
        strstr(err.msg, ": big[1]: -0x400000000000000000: expected 64 bits"));
    dsf_torch_close(file);
}

/* --- a file of 30 GB -------------------------------------------------------
 */

#define LARGE (INT64_C(30) * 1000 * 1000 * 1000) /* bytes of its storage */

static void put_at(int fd, int64_t at, const struct torch_bytes *b)
{
    assert_int_equal(pwrite(fd, b->v, b->n, at), b->n);
}

/* What both headers of the storage have: sizes that only zip64 has room for. */
static void put_large_entry(struct torch_bytes *b, unsigned extra)
{
    put_number(b, 45, 2);
    put_number(b, 0, 2 + 2);
    put_number(b, 0x21 << 16, 4);
    put_number(b, 0, 4);
    put_number(b, 0xffffffff, 4);
    put_number(b, 0xffffffff, 4);
    put_number(b, 8, 2);
    put_number(b, extra, 2);
}

/* {storage "0"} as one tensor of fp32, its numbers a hole but for the last one.
 */
static void make_large(const char *path)
{
    struct torch_bytes p = { 0 }, head = { 0 }, tail = { 0 }, last = { 0 };
    static const char text[] =
        "\x80\2"
        "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0storage"
        "ctorch\nFloatStorage\nX\1\0\0\0000X\3\0\0\0cpu\x8a\x08";
    struct zip_file data = { .name = "a/data.pkl" };
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    float number = 0.25f;
    int64_t at;

    assert_true(fd >= 0);
    put_bytes(&p, text, sizeof(text) - 1);
    put_number(&p, LARGE / 4, 8);
    put_bytes(&p, "tQK\0\x8a\x08", 6);
    put_number(&p, LARGE / 4, 8);
    put_bytes(&p, "\x85K\1\x85\x89NtR.", 9);
    data.bytes = p.v;
    data.n = p.n;
    put_bytes(&head, "PK\3\4", 4);
    put_zip_entry(&head, &data, data.name);
    put_bytes(&head, data.name, 10);
    put_bytes(&head, p.v, p.n);
    at = (int64_t)head.n;
    put_bytes(&head, "PK\3\4", 4);
    put_large_entry(&head, 20);
    put_bytes(&head, "a/data/0", 8);
    put_number(&head, 1, 2);
    put_number(&head, 16, 2);
    put_number(&head, LARGE, 8);
    put_number(&head, LARGE, 8);
    put_at(fd, 0, &head);
    put_bytes(&last, &number, 4);
    put_at(fd, (int64_t)head.n + LARGE - 4, &last);

    put_bytes(&tail, "PK\1\2\55\0", 6);
    put_zip_entry(&tail, &data, data.name);
    put_number(&tail, 0, 2 + 2 + 2 + 4 + 4);
    put_bytes(&tail, data.name, 10);
    put_bytes(&tail, "PK\1\2\55\0", 6);
    put_large_entry(&tail, 20);
    put_number(&tail, 0, 2 + 2 + 2 + 4);
    put_number(&tail, (uint64_t)at, 4);
    put_bytes(&tail, "a/data/0", 8);
    put_number(&tail, 1, 2);
    put_number(&tail, 16, 2);
    put_number(&tail, LARGE, 8);
    put_number(&tail, LARGE, 8);
    at = (int64_t)tail.n; /* of the directory */
    put_bytes(&tail, "PK\6\6\54\0\0\0\0\0\0\0\55\0\55\0", 16);
    put_number(&tail, 0, 8);
    put_number(&tail, 2, 8);
    put_number(&tail, 2, 8);
    put_number(&tail, (uint64_t)at, 8);
    put_number(&tail, head.n + LARGE, 8);
    put_bytes(&tail, "PK\6\7\0\0\0\0", 8);
    put_number(&tail, head.n + LARGE + (uint64_t)at, 8);
    put_number(&tail, 1, 4);
    put_bytes(&tail, "PK\5\6\0\0\0\0\2\0\2\0", 12);
    put_number(&tail, (uint64_t)at, 4);
    put_number(&tail, 0xffffffff, 4);
    put_number(&tail, 0, 2);
    put_at(fd, (int64_t)head.n + LARGE, &tail);
    close(fd);
    free(p.v);
    free(head.v);
    free(tail.v);
    free(last.v);
}

static void a_file_of_30_gb_takes_megabytes(void **state)
{
    enum { PIECE = 1 << 20 };
    float *numbers = dsf_xcalloc(PIECE, sizeof(*numbers));
    const struct dsf_torch_tensor *t;
    struct dsf_torch_file *file;
    struct dsflow_err err = { .msg = "" };
    /* All of it: FULL=1. */
    int64_t step = getenv("FULL") != NULL ? PIECE : LARGE / 4 / 16;
    struct rusage use;
    char path[64];

    snprintf(path, sizeof(path), "%s/large.pt", folder);
    make_large(path);
    if (dsf_torch_open(path, &file, &err) < 0)
        fail_msg("%s", err.msg);
    t = dsf_torch_root(file)->tensor;
    assert_int_equal(t->elems, LARGE / 4);
    for (int64_t at = 0; at <= t->elems - PIECE; at += step)
        if (dsf_torch_read_f32(file, t, at, PIECE, numbers, &err) < 0)
            fail_msg("%s", err.msg);
    assert_int_equal(
        dsf_torch_read_f32(file, t, t->elems - PIECE, PIECE, numbers, &err), 0);
    assert_float_equal(numbers[PIECE - 1], 0.25, 0);
    assert_float_equal(numbers[PIECE - 2], 0, 0);
    dsf_torch_close(file);
    free(numbers);
    getrusage(RUSAGE_SELF, &use);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    assert_true(use.ru_maxrss < 100 << 10);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_of_every_container_and_protocol),
        cmocka_unit_test(numbers_and_texts),
        cmocka_unit_test(what_holds_other_things),
        cmocka_unit_test(messages_say_where),
        cmocka_unit_test(a_file_of_30_gb_takes_megabytes),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
