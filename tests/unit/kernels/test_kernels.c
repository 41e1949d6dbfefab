/* test_kernels.c - which instructions are chosen. */
#include "unit/kernels/numeric.h"

#include <sys/wait.h>

/* What a new process would choose. */
static int chooses(const char *wanted, const char *expected)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        if (wanted)
            setenv("DSFLOW_ISA", wanted, 1);
        else
            unsetenv("DSFLOW_ISA");
        _exit(strcmp(dsf_kernels_isa(), expected) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void the_best_instructions_are_the_default(void **state)
{
    static const char *const names[] = { "avx512_bf16", "avx512", "avx2",
                                         "portable" };
    size_t best = 0;

    while (!dsf_loops_find(names[best]))
        best++;
    /* Where there are tiles, pairs of bf16 are not the best. */
    assert_true(chooses(NULL, names[best]) ||
                (best == 0 && chooses(NULL, names[1])));
    assert_true(chooses("mmx", names[best]) ||
                (best == 0 && chooses("mmx", names[1])));
}

static void lesser_ones_can_be_asked_for(void **state)
{
    assert_true(chooses("portable", "portable"));
    if (dsf_loops_find("avx2"))
        assert_true(chooses("avx2", "avx2"));
    assert_null(dsf_loops_find("mmx"));
}

static void what_the_processor_lacks_is_refused(void **state)
{
    struct dsflow_err err;

    unsetenv("DSFLOW_ISA");
    assert_int_equal(dsf_kernels_said(&err), DSFLOW_OK);
    setenv("DSFLOW_ISA", "portable", 1);
    assert_int_equal(dsf_kernels_said(&err), DSFLOW_OK);
    setenv("DSFLOW_ISA", "mmx", 1);
    assert_int_equal(dsf_kernels_said(&err), DSFLOW_EINVAL);
    assert_non_null(strstr(err.msg, "DSFLOW_ISA: \"mmx\": expected"));
    assert_non_null(strstr(err.msg, "portable"));
    unsetenv("DSFLOW_ISA");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_instructions_are_the_default),
        cmocka_unit_test(lesser_ones_can_be_asked_for),
        cmocka_unit_test(what_the_processor_lacks_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
