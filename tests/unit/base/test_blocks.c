/* test_blocks.c - many small things in few pieces of memory. */
#include "base/blocks.h"

#include "lib/test.h"

#include <stdint.h>
#include <string.h>

static void what_was_taken_stays_apart_and_in_its_place(void **state)
{
    enum { N = 5000 };
    struct dsf_blocks b = { 0 };
    unsigned char *at[N];
    size_t bytes[N];

    for (unsigned i = 0; i < N; i++) {
        size_t align = (size_t)1 << i % 5;

        /* One is larger than a block. */
        bytes[i] = i == N / 2 ? 3 << 20 : 1 + i * 7 % 300;
        at[i] = dsf_blocks_take(&b, bytes[i], align);
        assert_int_equal((uintptr_t)at[i] % align, 0);
        memset(at[i], (int)(i % 251), bytes[i]);
    }
    for (unsigned i = 0; i < N; i++)
        assert_true(at[i][0] == i % 251 && at[i][bytes[i] - 1] == i % 251);
    assert_true(b.n > 1 && b.n < 20);
    assert_string_equal(dsf_blocks_copy(&b, "text", 5, 1), "text");
    dsf_blocks_fini(&b);
    assert_int_equal(b.n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_taken_stays_apart_and_in_its_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
