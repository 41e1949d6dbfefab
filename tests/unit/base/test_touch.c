/* test_touch.c - memory that is there before it is used. */
#include "base/touch.h"

#include "lib/test.h"

#include <errno.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096, MOST = 80 << 20, PAGES = MOST / PAGE };

static char *fresh(void)
{
    void *at = mmap(NULL, MOST, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(at, MAP_FAILED);
    madvise(at, MOST, MADV_NOHUGEPAGE); /* they would bring more */
    return at;
}

static size_t present(char *at)
{
    static unsigned char pages[PAGES];
    size_t n = 0;

    assert_int_equal(mincore(at, MOST, pages), 0);
    for (size_t i = 0; i < PAGES; i++)
        n += pages[i] & 1;
    return n;
}

static int kernel_can(void)
{
    char *at = fresh();
    int status = madvise(at, PAGE, MADV_POPULATE_WRITE);

    munmap(at, MOST);
    return status == 0;
}

static void all_pages_are_there_and_no_others(void **state)
{
    const size_t sizes[] = { 0, 1, PAGE, 3 * PAGE + 1, 5 << 20, MOST - PAGE };

    if (!kernel_can())
        skip();
    for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
        char *at = fresh();

        dsf_touch(at, sizes[k]);
        assert_int_equal(present(at), (sizes[k] + PAGE - 1) / PAGE);
        munmap(at, MOST);
    }
}

static void what_is_in_it_stays(void **state)
{
    char *at = fresh();

    for (size_t i = 0; i < PAGES; i += 3)
        at[i * PAGE] = (char)i;
    dsf_touch(at, MOST);
    for (size_t i = 0; i < PAGES; i++)
        assert_int_equal(at[i * PAGE], i % 3 == 0 ? (char)i : 0);
    munmap(at, MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pages_are_there_and_no_others),
        cmocka_unit_test(what_is_in_it_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
