/* test_registry.c - components by name. */
#include "base/registry.h"

#include "lib/test.h"

static const int numbers[4];

static int add(const void *thing, const char *origin, struct dsflow_err *err);

static const void *const builtin[] = { &numbers[0], &numbers[1], NULL };
static struct dsf_registry registry = {
    .sort = "number", .abi = 3, .add = add, .builtin = builtin
};

static int add(const void *thing, const char *origin, struct dsflow_err *err)
{
    static const char *const names[] = { "none", "one", "two", "one" };

    return dsf_registry_add(&registry, names[(const int *)thing - numbers],
                            thing, origin, err);
}

static void the_built_in_ones_are_there_when_first_asked(void **state)
{
    assert_ptr_equal(dsf_registry_thing(&registry, "one"), &numbers[1]);
    assert_null(dsf_registry_thing(&registry, "two"));
    assert_int_equal(dsf_registry_count(&registry), 2);
    assert_string_equal(dsf_registry_at(&registry, 0)->name, "none");
    assert_string_equal(dsf_registry_at(&registry, 0)->origin, "built-in");
    assert_null(dsf_registry_at(&registry, 2));
}

static void a_name_is_taken_once_and_what_was_added_can_be_cut(void **state)
{
    struct dsflow_err err;

    assert_int_equal(registry.add(&numbers[2], "here", &err), DSFLOW_OK);
    assert_non_null(dsf_registry_find(&registry, "two"));
    assert_int_equal(registry.add(&numbers[3], "here", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "number one: the name is taken (built-in)");
    assert_int_equal(registry.add(&numbers[2], "there", &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, "number two: the name is taken (here)");
    dsf_registry_cut(&registry, 2);
    assert_null(dsf_registry_find(&registry, "two"));
    assert_int_equal(dsf_registry_count(&registry), 2);
}

static void a_component_has_the_right_number_a_name_and_a_summary(void **state)
{
    struct dsflow_err err;

    assert_int_equal(dsf_registry_check(&registry, 3, "a", "b", &err), 0);
    assert_true(dsf_registry_check(&registry, 2, "a", "b", &err) < 0);
    assert_string_equal(err.msg,
                        "number a: made for interface 2: this dsflow has 3");
    assert_true(dsf_registry_check(&registry, 3, "", "b", &err) < 0);
    assert_string_equal(err.msg, "number: has no name");
    assert_true(dsf_registry_check(&registry, 3, NULL, "b", &err) < 0);
    assert_true(dsf_registry_check(&registry, 3, "a b\033", "b", &err) < 0);
    assert_string_equal(err.msg, "number \"a b?\": expected a name of letters, "
                                 "digits, '.', '_' and '-'");
    assert_true(dsf_registry_check(&registry, 3, "a", NULL, &err) < 0);
    assert_string_equal(err.msg, "number a: has no summary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_built_in_ones_are_there_when_first_asked),
        cmocka_unit_test(a_name_is_taken_once_and_what_was_added_can_be_cut),
        cmocka_unit_test(a_component_has_the_right_number_a_name_and_a_summary),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
