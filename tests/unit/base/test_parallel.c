/* test_parallel.c - a loop that all cores share. */
#include "base/parallel.h"

#include "lib/test.h"

#include <string.h>

enum { MOST = 100003 };

static unsigned char counts[MOST];

static void count(void *user, int64_t from, int64_t end)
{
    assert_ptr_equal(user, counts);
    assert_true(from <= end);
    for (int64_t i = from; i < end; i++)
        counts[i]++;
}

static void each_number_is_worked_on_once(void **state)
{
    const int64_t lengths[] = { 0, 1, 2, 63, 64, 65, 1000, MOST };

    for (unsigned k = 0; k < sizeof(lengths) / sizeof(*lengths); k++)
        for (int64_t least = 1; least <= MOST; least *= 8) {
            memset(counts, 0, sizeof(counts));
            dsf_parallel(lengths[k], least, count, counts);
            for (int64_t i = 0; i < MOST; i++)
                assert_int_equal(counts[i], i < lengths[k]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_is_worked_on_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
