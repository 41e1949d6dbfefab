/* test_crc64.c - sums of parts are the sum of the whole. */
#include "base/crc64.h"

#include "lib/test.h"

#include <stdlib.h>

static void it_is_the_crc_of_xz(void **state)
{
    assert_true(dsf_crc64_of(dsf_crc64_add(0, "123456789", 9), 9) ==
                UINT64_C(0x995dc9bbdf1939fa));
    assert_true(dsf_crc64_of(0, 0) == 0);
}

/* Each byte belongs to one of three, by chance. */
static void sums_of_parts_are_that_of_the_whole(void **state)
{
    unsigned char bytes[3000];
    uint64_t sums[3] = { 0 }, whole;
    unsigned seed = 7;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (unsigned char)rand_r(&seed);
    whole = dsf_crc64_add(0, bytes, sizeof(bytes));
    for (size_t i = 0, n; i < sizeof(bytes); i += n) {
        int owner = rand_r(&seed) % 3;

        n = (size_t)rand_r(&seed) % 40;
        n = n < sizeof(bytes) - i ? n : sizeof(bytes) - i;
        for (int p = 0; p < 3; p++)
            sums[p] = p == owner ? dsf_crc64_add(sums[p], bytes + i, n)
                                 : dsf_crc64_skip(sums[p], n);
    }
    assert_true((sums[0] ^ sums[1] ^ sums[2]) == whole);
}

/* As many as gigabytes make: past 32 bits. */
static void many_zeroes_are_skipped(void **state)
{
    const uint64_t many = UINT64_C(5000000000);
    uint64_t sum = dsf_crc64_add(0, "a", 1);

    assert_true(dsf_crc64_skip(dsf_crc64_skip(sum, many), 3) ==
                dsf_crc64_skip(sum, many + 3));
    assert_true(dsf_crc64_skip(sum, many) != dsf_crc64_skip(sum, many + 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_crc_of_xz),
        cmocka_unit_test(sums_of_parts_are_that_of_the_whole),
        cmocka_unit_test(many_zeroes_are_skipped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
