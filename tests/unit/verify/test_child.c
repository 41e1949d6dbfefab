/* test_child.c - what becomes of something that crashes, hangs or exits. */
#include "verify/child.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void be_well(const void *user, struct dsf_verdict *verdict)
{
    verdict->cases = *(const unsigned *)user;
    snprintf(verdict->note, sizeof(verdict->note), "well");
}

static void be_wrong(const void *user, struct dsf_verdict *verdict)
{
    dsf_child_step("its reference ", "case 7");
    dsf_child_fault("is %d", 3);
}

static void leave(const void *user, struct dsf_verdict *verdict)
{
    dsf_child_step("", "case 8");
    _exit(5);
}

static void hang(const void *user, struct dsf_verdict *verdict)
{
    for (;;)
        pause();
}

static void give_up(const void *user, struct dsf_verdict *verdict)
{
    abort();
}

/* A write where a port is only read, or past its end. */
static void touch(const void *user, struct dsf_verdict *verdict)
{
    static struct dsf_guarded g;
    const int *at = user;

    if (!dsf_guarded_init(&g, "port x", DSFLOW_R, 64, true))
        return;
    dsf_guarded_close(&g);
    dsf_child_memory(&g, 1);
    g.ptr[*at] = 1;
}

static const char *fault_of(void (*body)(const void *user,
                                         struct dsf_verdict *verdict),
                            const void *user, double limit)
{
    static struct dsf_verdict verdict;

    verdict = (struct dsf_verdict){ .cases = 0 };
    dsf_child_run(body, user, limit, &verdict);
    return verdict.fault;
}

static void one_that_is_well_says_what_it_found(void **state)
{
    struct dsf_verdict verdict = { .cases = 0 };
    unsigned cases = 12;

    dsf_child_run(be_well, &cases, 60, &verdict);
    assert_string_equal(verdict.fault, "");
    assert_string_equal(verdict.note, "well");
    assert_int_equal(verdict.cases, 12);
}

static void every_end_has_its_words(void **state)
{
    assert_string_equal(fault_of(be_wrong, NULL, 60),
                        "its reference is 3 (case 7)");
    assert_string_equal(fault_of(leave, NULL, 60),
                        "ends the program with exit status 5 (case 8)");
    assert_string_equal(fault_of(hang, NULL, 0.1), "hangs: more than 0.1 s");
    assert_string_equal(fault_of(give_up, NULL, 60), "crashes: SIGABRT");
}

static void a_crash_names_the_memory(void **state)
{
#if defined(__x86_64__)
    assert_string_equal(fault_of(touch, &(int){ 5 }, 60),
                        "writes port x, which it declares as R, at byte 5");
    assert_string_equal(fault_of(touch, &(int){ 64 }, 60),
                        "writes past the end of port x, at byte 64 of 64");
#else
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_well_says_what_it_found),
        cmocka_unit_test(every_end_has_its_words),
        cmocka_unit_test(a_crash_names_the_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
