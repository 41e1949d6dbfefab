/* test_wire_formats.c - formats for what ranks send: what is known, and what is
 * refused when it is registered. */
#include "lib/test.h"

#include <dsflow/wire_format.h>

#include <string.h>

/* Numbers as they are, and variants that do not keep to their bytes. */
static size_t plain_bytes(size_t block)
{
    return block * sizeof(float);
}

static void plain_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    memcpy(out, in, block * n * sizeof(*in));
}

static void plain_decode(size_t block, const uint8_t *in, float *out, size_t n)
{
    memcpy(out, in, block * n * sizeof(*out));
}

static size_t half_bytes(size_t block)
{
    return block * sizeof(float) / 2;
}

static void half_encode(size_t block, const float *in, uint8_t *out, size_t n)
{
    memcpy(out, in, block * n * sizeof(*in) / 2);
}

static size_t no_bytes(size_t block)
{
    return 0;
}

static size_t many_bytes(size_t block)
{
    return block * sizeof(float) + 1;
}

static struct dsflow_wire_format plain_format(void)
{
    return (struct dsflow_wire_format){
        .abi = DSFLOW_WIRE_FORMAT_ABI,
        .name = "plain",
        .summary = "numbers as they are",
        .block = 64,
        .bytes = plain_bytes,
        .encode = plain_encode,
        .decode = plain_decode,
    };
}

static void refused(const struct dsflow_wire_format *f, const char *message)
{
    struct dsflow_err err;

    assert_int_equal(dsflow_wire_format_register(f, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
    assert_null(dsflow_wire_format_find("plain"));
}

static void what_does_not_keep_to_its_bytes_is_refused(void **state)
{
    struct dsflow_wire_format f = plain_format();

    f.bytes = half_bytes;
    refused(&f, "format plain: writes beyond the 192 bytes and 96 numbers of "
                "a block");
    f.encode = half_encode;
    refused(&f,
            "format plain: decodes more than the 192 bytes that it encodes");
    f.bytes = no_bytes;
    refused(&f, "format plain: 0 bytes for 96 numbers: expected 1 to 384");
    f.bytes = many_bytes;
    refused(&f, "format plain: 385 bytes for 96 numbers: expected 1 to 384");
}

static void what_is_not_whole_is_refused(void **state)
{
    struct dsflow_wire_format f = plain_format();

    f.block = 40;
    refused(&f, "format plain: block: 40: expected a multiple of 16, up to "
                "4096");
    f = plain_format();
    f.decode = NULL;
    refused(&f, "format plain: expected the functions bytes, encode and "
                "decode");
    f = plain_format();
    f.error = 2;
    refused(&f, "format plain: error: 2: expected 0 to 1");
    f = plain_format();
    f.name = "none";
    refused(&f, "format none: name: expected at most 23 letters, and not "
                "none");
}

static void a_sound_one_is_known_from_then_on(void **state)
{
    static struct dsflow_wire_format f;
    struct dsflow_err err;

    f = plain_format();
    assert_int_equal(dsflow_wire_format_register(&f, &err), DSFLOW_OK);
    assert_ptr_equal(dsflow_wire_format_find("plain"), &f);
    assert_int_equal(dsflow_wire_format_register(&f, &err), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_does_not_keep_to_its_bytes_is_refused),
        cmocka_unit_test(what_is_not_whole_is_refused),
        cmocka_unit_test(a_sound_one_is_known_from_then_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
