/* test_returned.c - what functions of others return is a status, and an error
 * has a message. */
#include "base/returned.h"

#include "lib/test.h"

static int returned(int status, int most, const char *msg,
                    struct dsflow_err *err)
{
    dsf_no_message(err);
    if (msg != NULL)
        dsflow_fail(err, status, "%s", msg);
    return dsf_returned(status, most, "policy", "mine", "decide", err);
}

static void a_status_with_its_message_stays(void **state)
{
    struct dsflow_err err = { .msg = "of another function" };

    assert_int_equal(returned(DSFLOW_OK, DSFLOW_OK, NULL, &err), DSFLOW_OK);
    assert_int_equal(returned(1, 1, NULL, &err), 1);
    assert_int_equal(returned(DSFLOW_EFIT, 0, "too large", &err), DSFLOW_EFIT);
    assert_string_equal(err.msg, "too large");
    assert_int_equal(returned(DSFLOW_EFIT, 0, NULL, NULL), DSFLOW_EFIT);
}

static void what_is_no_status_and_an_error_without_words_are_named(void **state)
{
    struct dsflow_err err = { .msg = "of another function" };

    assert_int_equal(returned(2, 1, NULL, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "policy mine: its decide returns 2: expected "
                                 "DSFLOW_OK, or what dsflow_fail returns");
    assert_int_equal(returned(-22, 0, NULL, &err), -22);
    assert_string_equal(err.msg,
                        "policy mine: its decide returns -22 and no message: "
                        "expected what dsflow_fail returns");
    assert_int_equal(returned(2, 0, NULL, NULL), DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_status_with_its_message_stays),
        cmocka_unit_test(
            what_is_no_status_and_an_error_without_words_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
