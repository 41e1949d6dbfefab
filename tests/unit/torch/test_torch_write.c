/* test_torch_write.c - what is written for torch.load is read back as it was,
 * by the reader of torch.save's own files. */
#include "torch/torch_write.h"

#include "base/alloc.h"
#include "lib/folder.h"
#include "torch/torch.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Tensor i has the numbers i, i + 1, … of its type. */
static int put_numbers(void *user, unsigned i, struct dsf_torch_out *out,
                       struct dsflow_err *err)
{
    const unsigned *counts = user;
    int status = DSFLOW_OK;

    for (unsigned j = 0; j < counts[i] && status == DSFLOW_OK; j++) {
        float x = (float)(i + j);
        int64_t whole = i + j;

        status = i == 1 ? dsf_torch_out(out, &whole, sizeof(whole), err)
                        : dsf_torch_out(out, &x, sizeof(x), err);
    }
    return status;
}

static struct dsf_torch_file *written(const struct dsf_torch_tree *tree,
                                      const unsigned *counts)
{
    struct dsflow_err err = { .msg = "" };
    struct dsf_torch_file *file = NULL;
    char path[64];

    snprintf(path, sizeof(path), "%s/written.pt", folder);
    unlink(path);
    if (dsf_torch_write(tree, path, put_numbers, (void *)counts, &err) < 0 ||
        dsf_torch_open(path, &file, &err) < 0)
        fail_msg("%s", err.msg);
    return file;
}

static void a_tree_is_read_as_it_was_written(void **state)
{
    static const unsigned counts[] = { 6, 3, 1, 0 };
    static const int64_t ints[] = { 0,         -1,        INT32_MAX,
                                    INT32_MIN, INT64_MAX, INT64_MIN };
    struct dsf_torch_tree *t = dsf_torch_tree_new();
    const struct dsf_torch_node *root, *node;
    struct dsf_torch_file *file;
    struct dsflow_err err;
    float x[6];
    int64_t n;

    dsf_torch_put_dict(t);
    dsf_torch_put_key(t, "matrix");
    assert_int_equal(
        dsf_torch_put_tensor(t, DSFLOW_FP32, 2, (int64_t[]){ 2, 3 }), 0);
    dsf_torch_put_key(t, "ints");
    dsf_torch_put_list(t);
    for (int i = 0; i < 6; i++)
        dsf_torch_put_int(t, ints[i]);
    dsf_torch_put_end(t);
    dsf_torch_put_int(t, 7); /* as a key */
    dsf_torch_put_tensor(t, DSFLOW_INT64, 1, (int64_t[]){ 3 });
    dsf_torch_put_key(t, "rest");
    dsf_torch_put_tuple(t);
    dsf_torch_put_none(t);
    dsf_torch_put_bool(t, true);
    dsf_torch_put_real(t, 0.1);
    dsf_torch_put_text(t, "\xc3\xa9");
    dsf_torch_put_tensor(t, DSFLOW_FP32, 0, NULL);
    dsf_torch_put_tensor(t, DSFLOW_FP32, 2, (int64_t[]){ 0, 5 });
    dsf_torch_put_end(t);
    dsf_torch_put_end(t);
    file = written(t, counts);

    root = dsf_torch_root(file);
    node = dsf_torch_find(root, "matrix");
    assert_int_equal(node->tensor->ndims, 2);
    assert_int_equal(node->tensor->strides[0], 3);
    assert_int_equal(node->tensor->storage->at % 64, 0);
    assert_int_equal(dsf_torch_read_f32(file, node->tensor, 0, 6, x, &err), 0);
    assert_float_equal(x[5], 5, 0);
    for (uint32_t i = 0; i < 6; i++) {
        node = dsf_torch_item(dsf_torch_find(root, "ints"), i);
        assert_int_equal(dsf_torch_int(file, node, &n, &err), 0);
        assert_true(n == ints[i]);
    }
    node = dsf_torch_find_int(root, 7);
    assert_int_equal(node->tensor->dtype, DSFLOW_INT64);
    assert_int_equal(node->tensor->storage->at % 64, 0);
    assert_int_equal(dsf_torch_read_f32(file, node->tensor, 0, 3, x, &err), 0);
    assert_float_equal(x[2], 3, 0);
    node = dsf_torch_find(root, "rest");
    assert_int_equal(dsf_torch_item(node, 0)->kind, DSF_TORCH_NONE);
    assert_true(dsf_torch_item(node, 1)->truth);
    assert_true(dsf_torch_item(node, 2)->real == 0.1);
    assert_string_equal(dsf_torch_item(node, 3)->str, "\xc3\xa9");
    assert_int_equal(dsf_torch_item(node, 4)->tensor->ndims, 0);
    assert_int_equal(dsf_torch_item(node, 5)->tensor->elems, 0);
    dsf_torch_close(file);
    dsf_torch_tree_free(t);
}

/* More files than the 16 bits of a directory count. */
static void ten_thousands_of_tensors(void **state)
{
    enum { MANY = 66000 };
    unsigned *counts = dsf_xcalloc(MANY, sizeof(*counts));
    struct dsf_torch_tree *t = dsf_torch_tree_new();
    const struct dsf_torch_node *root;
    struct dsf_torch_file *file;
    struct dsflow_err err;
    float x;

    dsf_torch_put_list(t);
    for (int i = 0; i < MANY; i++) {
        counts[i] = 1;
        dsf_torch_put_tensor(t, i == 1 ? DSFLOW_INT64 : DSFLOW_FP32, 0, NULL);
    }
    dsf_torch_put_end(t);
    file = written(t, counts);
    root = dsf_torch_root(file);
    assert_int_equal(root->n, MANY);
    for (uint32_t i = 0; i < MANY; i += 1000) {
        assert_int_equal(dsf_torch_read_f32(file,
                                            dsf_torch_item(root, i)->tensor, 0,
                                            1, &x, &err),
                         0);
        assert_float_equal(x, (float)i, 0);
    }
    dsf_torch_close(file);
    dsf_torch_tree_free(t);
    free(counts);
}

/* A gibibyte and more in one tensor, and a directory beyond 4 GiB: FULL=1, as
 * it writes 5 GB. */
static int put_zeroes(void *user, unsigned i, struct dsf_torch_out *out,
                      struct dsflow_err *err)
{
    enum { PIECE = 1 << 20 };
    char *zeroes = dsf_xcalloc(PIECE, 1);
    int64_t left = *(const int64_t *)user;
    int status = DSFLOW_OK;

    for (; left > 0 && status == DSFLOW_OK; left -= PIECE)
        status = dsf_torch_out(out, zeroes, PIECE, err);
    free(zeroes);
    return status;
}

static void more_than_32_bits(void **state)
{
    int64_t bytes = (INT64_C(5) << 30), dims[] = { bytes };
    struct dsf_torch_tree *t;
    struct dsf_torch_file *file = NULL;
    struct dsflow_err err = { .msg = "" };
    char path[64];

    if (getenv("FULL") == NULL)
        skip();
    t = dsf_torch_tree_new();
    dsf_torch_put_tensor(t, DSFLOW_UINT8, 1, dims);
    snprintf(path, sizeof(path), "%s/large.pt", folder);
    if (dsf_torch_write(t, path, put_zeroes, &bytes, &err) < 0 ||
        dsf_torch_open(path, &file, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(dsf_torch_root(file)->tensor->elems, bytes);
    dsf_torch_close(file);
    dsf_torch_tree_free(t);
}

static int fails(void *user, unsigned i, struct dsf_torch_out *out,
                 struct dsflow_err *err)
{
    return dsflow_fail(err, DSFLOW_EIO, "the source is gone");
}

static void errors_are_handed_on(void **state)
{
    struct dsf_torch_tree *t = dsf_torch_tree_new();
    struct dsflow_err err = { .msg = "" };
    char path[64];

    dsf_torch_put_tensor(t, DSFLOW_FP32, 0, NULL);
    snprintf(path, sizeof(path), "%s/no/x.pt", folder);
    assert_int_equal(dsf_torch_write(t, path, fails, NULL, &err), DSFLOW_EIO);
    assert_non_null(strstr(err.msg, "no/x.pt: No such file"));
    snprintf(path, sizeof(path), "%s/x.pt", folder);
    assert_int_equal(dsf_torch_write(t, path, fails, NULL, &err), DSFLOW_EIO);
    assert_string_equal(err.msg, "the source is gone");
    dsf_torch_tree_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_read_as_it_was_written),
        cmocka_unit_test(ten_thousands_of_tensors),
        cmocka_unit_test(more_than_32_bits),
        cmocka_unit_test(errors_are_handed_on),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
