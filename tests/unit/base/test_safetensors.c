/* test_safetensors.c - what is written reads back, and nothing damaged does. */
#include "base/safetensors_write.h"

#include "lib/test.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[] = "/tmp/test-safetensors.XXXXXX";

static int make_path(void **state)
{
    int fd = mkstemp(path);

    if (fd < 0)
        return -1;
    return close(fd);
}

static int remove_path(void **state)
{
    return unlink(path);
}

/* A file with this header and `ndata` bytes after it. */
static void put(const char *header, size_t ndata)
{
    FILE *out = fopen(path, "wb");
    unsigned char length[8] = { (unsigned char)strlen(header),
                                (unsigned char)(strlen(header) >> 8) };

    fwrite(length, 1, 8, out);
    fwrite(header, 1, strlen(header), out);
    for (size_t i = 0; i < ndata; i++)
        fputc((int)i, out);
    fclose(out);
}

static void check_tensor(const struct dsf_st_file *f, const char *name,
                         const void *want, size_t bytes)
{
    const struct dsf_st_tensor *t = dsf_st_find(f, name);
    char *got = malloc(bytes);
    struct dsflow_err err;

    assert_non_null(t);
    assert_int_equal(t->bytes, bytes);
    assert_int_equal(dsf_st_read(f, t, 0, bytes / 2, got, &err), DSFLOW_OK);
    assert_int_equal(dsf_st_read(f, t, bytes / 2, bytes - bytes / 2,
                                 got + bytes / 2, &err),
                     DSFLOW_OK);
    assert_memory_equal(got, want, bytes);
    free(got);
}

static void what_is_written_reads_back(void **state)
{
    float a[6] = { 1, -2, 3.5f, 0, INFINITY, 1e-40f };
    int64_t b[3] = { 1, -5, INT64_MAX };
    struct dsf_st_tensor list[] = {
        { .name = (char *)"first \"a\"",
          .dtype = DSFLOW_FP32,
          .ndims = 2,
          .dims = { 2, 3 },
          .data = a,
          .bytes = sizeof(a) },
        { .name = (char *)"b",
          .dtype = DSFLOW_INT64,
          .ndims = 1,
          .dims = { 3 },
          .data = b,
          .bytes = sizeof(b) },
    };
    static const char *const metadata[] = { "format", "pt", NULL };
    struct dsflow_err err;
    struct dsf_st_file *f;
    uint64_t hash[2];
    float some[2];

    for (int i = 0; i < 2; i++) {
        int fd = open(path, O_WRONLY | O_TRUNC);

        assert_int_equal(
            dsf_st_write(fd, path, list, 2, metadata, NULL, NULL, &hash[i],
                         &err),
            0);
        close(fd);
    }
    assert_true(hash[0] == hash[1]);
    if (dsf_st_open(path, &f, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(dsf_st_count(f), 2);
    assert_int_equal(dsf_st_find(f, "first \"a\"")->dims[1], 3);
    check_tensor(f, "first \"a\"", a, sizeof(a));
    check_tensor(f, "b", b, sizeof(b));
    assert_null(dsf_st_find(f, "c"));
    assert_int_equal(dsf_st_read_f32(f, dsf_st_find(f, "first \"a\""), 1, 2,
                                     some, &err),
                     DSFLOW_OK);
    assert_true(some[0] == -2 && some[1] == 3.5f);
    dsf_st_close(f);
}

/* Hands out as many bytes at a time as it is told to. */
struct pieces {
    const char *from;
    size_t bytes, each;
};

static int put_pieces(void *user, unsigned i, struct dsf_st_writer *out,
                      struct dsflow_err *err)
{
    const struct pieces *p = (const struct pieces *)user + i;
    int status = DSFLOW_OK;

    for (size_t at = 0; at < p->bytes && status == DSFLOW_OK; at += p->each)
        status = dsf_st_put(
            out, p->from + at,
            p->bytes - at < p->each ? p->bytes - at : p->each, err);
    return status;
}

static void in_pieces_it_is_the_same_file(void **state)
{
    static float a[5000], b[300];
    struct dsf_st_tensor list[] = {
        { .name = (char *)"a",
          .dtype = DSFLOW_FP32,
          .ndims = 1,
          .dims = { 5000 },
          .data = a,
          .bytes = sizeof(a) },
        { .name = (char *)"b",
          .dtype = DSFLOW_FP32,
          .ndims = 1,
          .dims = { 300 },
          .data = b,
          .bytes = sizeof(b) },
    };
    struct pieces pieces[] = { { (char *)a, sizeof(a), 0 },
                               { (char *)b, sizeof(b), 0 } };
    size_t each[] = { sizeof(a), 4096, 7 };
    struct dsflow_err err;
    struct dsf_st_file *f;
    uint64_t whole, hash;
    int fd = open(path, O_WRONLY | O_TRUNC);

    for (int i = 0; i < 5000; i++)
        a[i] = b[i % 300] = (float)i;
    assert_int_equal(
        dsf_st_write(fd, path, list, 2, NULL, NULL, NULL, &whole, &err), 0);
    close(fd);
    for (size_t i = 0; i < sizeof(each) / sizeof(*each); i++) {
        list[0].data = i == 1 ? a : NULL; /* beside one that is whole */
        list[1].data = NULL;
        pieces[0].each = pieces[1].each = each[i];
        fd = open(path, O_WRONLY | O_TRUNC);
        assert_int_equal(dsf_st_write(fd, path, list, 2, NULL, put_pieces,
                                      pieces, &hash, &err),
                         0);
        close(fd);
        assert_true(hash == whole);
        assert_int_equal(dsf_st_open(path, &f, &err), DSFLOW_OK);
        check_tensor(f, "a", a, sizeof(a));
        check_tensor(f, "b", b, sizeof(b));
        dsf_st_close(f);
    }
}

static void a_file_that_is_cut_while_it_is_open_is_an_error(void **state)
{
    static float a[5000], back[5000];
    struct dsf_st_tensor t = { .name = (char *)"a",
                               .dtype = DSFLOW_FP32,
                               .ndims = 1,
                               .dims = { 5000 },
                               .data = a,
                               .bytes = sizeof(a) };
    struct dsflow_err err;
    struct dsf_st_file *f;
    int fd = open(path, O_WRONLY | O_TRUNC);

    assert_int_equal(
        dsf_st_write(fd, path, &t, 1, NULL, NULL, NULL, NULL, &err), 0);
    assert_int_equal(dsf_st_open(path, &f, &err), DSFLOW_OK);
    assert_int_equal(ftruncate(fd, 9000), 0);
    close(fd);
    assert_int_equal(
        dsf_st_read(f, dsf_st_at(f, 0), 0, sizeof(a), back, &err), DSFLOW_EIO);
    assert_non_null(strstr(err.msg, "ends at byte 9000"));
    dsf_st_close(f);
}

static void read_all_halves(enum dsflow_dtype dtype, float *to)
{
    static uint16_t bits[65536];
    struct dsf_st_tensor t = { .name = (char *)"a", .dtype = dtype, .ndims = 1,
                               .dims = { 65536 }, .data = bits,
                               .bytes = sizeof(bits) };
    struct dsflow_err err;
    struct dsf_st_file *f;
    int fd = open(path, O_WRONLY | O_TRUNC);

    for (unsigned i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    assert_int_equal(
        dsf_st_write(fd, path, &t, 1, NULL, NULL, NULL, NULL, &err), 0);
    close(fd);
    assert_int_equal(dsf_st_open(path, &f, &err), DSFLOW_OK);
    assert_int_equal(dsf_st_read_f32(f, dsf_st_at(f, 0), 0, 65536, to, &err),
                     DSFLOW_OK);
    dsf_st_close(f);
}

/* Every half there is, against the definition of IEEE 754. */
static void halves_are_what_they_stand_for(void **state)
{
    static float half[65536], bf16[65536];

    read_all_halves(DSFLOW_FP16, half);
    read_all_halves(DSFLOW_BF16, bf16);
    for (unsigned i = 0; i < 65536; i++) {
        int exponent = i >> 10 & 31, fraction = i & 1023;
        double want = exponent == 0 ? ldexp(fraction, -24)
                                    : ldexp(1024 + fraction, exponent - 25);
        uint32_t wide = i << 16;
        float direct;

        if (i & 0x8000)
            want = -want;
        if (exponent == 31)
            assert_true(fraction ? isnan(half[i])
                                 : isinf(half[i]) &&
                                       !signbit(half[i]) == !(i >> 15));
        else
            assert_true(half[i] == (float)want);
        memcpy(&direct, &wide, sizeof(direct));
        assert_memory_equal(&direct, &bf16[i], sizeof(direct));
    }
}

static void damaged_files_are_named_with_what_is_wrong(void **state)
{
#define T(rest) "{\"a\":{\"dtype\":\"F32\"," rest "}}"
    static const struct {
        const char *header;
        size_t ndata;
        const char *says;
    } cases[] = {
        { "{", 0, "header: " },
        { "[]", 0, "header: expected an object" },
        { "{\"a\":1}", 0, "a: expected an object" },
        { T("\"shape\":[2],\"data_offsets\":[0,8]"), 4, "truncated" },
        { T("\"shape\":[2],\"data_offsets\":[0,4]"), 4, "its shape makes 8" },
        { T("\"shape\":[2],\"data_offsets\":[8,0]"), 8, "expected within" },
        { T("\"shape\":[2],\"data_offsets\":[-8,0]"), 8, "expected within" },
        { T("\"shape\":[2],\"data_offsets\":[0]"), 8, "two data_offsets" },
        { T("\"shape\":[-2],\"data_offsets\":[0,8]"), 8, "no file can hold" },
        { T("\"shape\":[4611686018427387904],\"data_offsets\":[0,8]"), 8,
          "no file can hold" },
        { T("\"shape\":2,\"data_offsets\":[0,8]"), 8, "a shape" },
        { T("\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]"), 8,
          "up to 8" },
        { T("\"shape\":[2],\"data_offsets\":[0,8]"), 9, "after the last" },
        { T("\"shape\":[1],\"data_offsets\":[4,8]"), 8, "do not follow" },
        { "{\"a\":{\"dtype\":\"F8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "a: dtype F8: expected F32, F64, BF16, F16, I32, I64, U8, BOOL, " },
        { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1,
          "a: dtype is missing: expected F32" },
        { "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
          "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
          6, "b: its bytes do not follow" },
        { "{\"a\":{},\"a\":{}}", 0, "duplicate" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct dsflow_err err = { .msg = "" };
        struct dsf_st_file *f;

        put(cases[i].header, cases[i].ndata);
        assert_int_equal(dsf_st_open(path, &f, &err), DSFLOW_EINVAL);
        if (strstr(err.msg, cases[i].says) == NULL ||
            strncmp(err.msg, path, strlen(path)) != 0)
            fail_msg("case %zu: '%s' does not say '%s'", i, err.msg,
                     cases[i].says);
    }
}

static void short_and_absent_files_are_refused(void **state)
{
    struct dsflow_err err;
    struct dsf_st_file *f;

    truncate(path, 0);
    assert_int_equal(dsf_st_open(path, &f, &err), DSFLOW_EINVAL);
    put("{}", 0);
    truncate(path, 9);
    assert_int_equal(dsf_st_open(path, &f, &err), DSFLOW_EINVAL);
    assert_int_equal(dsf_st_open("/nonexistent/x", &f, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(in_pieces_it_is_the_same_file),
        cmocka_unit_test(a_file_that_is_cut_while_it_is_open_is_an_error),
        cmocka_unit_test(halves_are_what_they_stand_for),
        cmocka_unit_test(damaged_files_are_named_with_what_is_wrong),
        cmocka_unit_test(short_and_absent_files_are_refused),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
