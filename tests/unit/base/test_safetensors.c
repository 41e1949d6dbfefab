/* test_safetensors.c - what is written reads back, and nothing damaged does. */
#include "base/safetensors.h"

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

static void what_is_written_reads_back(void **state)
{
    float a[6] = { 1, -2, 3.5f, 0, INFINITY, 1e-40f };
    int64_t b[3] = { 1, -5, INT64_MAX };
    struct dsf_st_tensor list[] = {
        { .name = (char *)"first \"a\"", .dtype = DSF_F32, .ndims = 2,
          .dims = { 2, 3 }, .data = a, .bytes = sizeof(a) },
        { .name = (char *)"b", .dtype = DSF_I64, .ndims = 1, .dims = { 3 },
          .data = b, .bytes = sizeof(b) },
    };
    static const char *const metadata[] = { "format", "pt", NULL };
    struct dsflow_err err;
    struct dsf_st_file *f;
    uint64_t hash[2];
    float some[2];

    for (int i = 0; i < 2; i++) {
        int fd = open(path, O_WRONLY | O_TRUNC);

        assert_int_equal(
            dsf_st_write(fd, path, list, 2, metadata, &hash[i], &err), 0);
        close(fd);
    }
    assert_true(hash[0] == hash[1]);
    if (dsf_st_open(path, &f, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(dsf_st_count(f), 2);
    assert_int_equal(dsf_st_find(f, "first \"a\"")->dims[1], 3);
    assert_memory_equal(dsf_st_find(f, "first \"a\"")->data, a, sizeof(a));
    assert_memory_equal(dsf_st_find(f, "b")->data, b, sizeof(b));
    assert_null(dsf_st_find(f, "c"));
    dsf_st_read_f32(dsf_st_find(f, "first \"a\""), 1, 2, some);
    assert_true(some[0] == -2 && some[1] == 3.5f);
    dsf_st_close(f);
}

/* Every half there is, against the definition of IEEE 754. */
static void halves_are_what_they_stand_for(void **state)
{
    static uint16_t bits[2 * 65536];
    struct dsf_st_tensor t = { .dtype = DSF_F16, .data = bits };
    static float half[65536], bf16[65536];

    for (unsigned i = 0; i < 65536; i++)
        bits[i] = (uint16_t)i;
    dsf_st_read_f32(&t, 0, 65536, half);
    t.dtype = DSF_BF16;
    dsf_st_read_f32(&t, 0, 65536, bf16);
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
          "a type this version does not read" },
        { "{\"a\":{\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "a type" },
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
    assert_int_equal(dsf_st_open("/nonexistent/x", &f, &err), DSFLOW_EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back),
        cmocka_unit_test(halves_are_what_they_stand_for),
        cmocka_unit_test(damaged_files_are_named_with_what_is_wrong),
        cmocka_unit_test(short_and_absent_files_are_refused),
    };

    return cmocka_run_group_tests(tests, make_path, remove_path);
}
