/* test_kept.c - the list of what is kept between steps, and numbers as text. */
#include "plan/kept.h"

#include "lib/test.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static struct dsflow_kept by_rank(const char *name, int64_t elems)
{
    return DSFLOW_KEPT(.name = name, .kind = DSFLOW_KEPT_BY_RANK,
                       .dtype = DSFLOW_BF16, .ndims = 1, .dims = { elems });
}

static void places_follow_the_order_in_which_things_are_kept(void **state)
{
    struct dsf_kept_list list = { 0 };
    struct dsflow_kept a = by_rank("a", 3), b = by_rank("b", 4);
    struct dsflow_err err;

    assert_int_equal(dsf_kept_add(&list, &a, &err), DSFLOW_OK);
    assert_int_equal(dsf_kept_add(&list, &b, &err), DSFLOW_OK);
    assert_int_equal(dsf_kept_add(&list, &a, &err), DSFLOW_OK);
    assert_int_equal(list.n, 2);
    assert_string_equal(list.v[1].name, "b");
    assert_int_equal(dsf_kept_elems(&list.v[1]), 4);
    assert_string_equal(dsf_kept_by(&list.v[1]), "by rank");
    dsf_kept_free(&list);
}

static void refused(const struct dsflow_kept *kept, const char *message)
{
    struct dsf_kept_list list = { 0 };
    struct dsflow_kept a = by_rank("a", 3);
    struct dsflow_err err;

    assert_int_equal(dsf_kept_add(&list, &a, &err), DSFLOW_OK);
    assert_int_equal(dsf_kept_add(&list, kept, &err), DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
    assert_int_equal(list.n, 1);
    dsf_kept_free(&list);
}

static void what_makes_no_sense_is_refused(void **state)
{
    struct dsflow_kept k = by_rank("a", 4);

    refused(&k, "kept a: the name is taken by something else");
    k = by_rank("two words", 4);
    refused(&k,
            "what is kept: expected its size and a name of 1 to 40 letters");
    k = by_rank("b", 0);
    refused(&k, "kept b: expected its dimensions");
    k.ndims = 2;
    k.dims[0] = k.dims[1] = -2;
    refused(&k, "kept b: expected its dimensions");
    k.dims[0] = k.dims[1] = (INT64_C(1) << 32) + 1;
    refused(&k, "kept b: expected its dimensions");
    k = by_rank("b", 4);
    k.kind = DSFLOW_KEPT_TENSORS;
    refused(&k, "kept b: tensors of bf16: expected fp32");
    k = by_rank("b", 4);
    k.fields = &(const struct dsflow_kept_field){ 0 };
    refused(&k, "kept b: fields: expected one for all");
    k = by_rank("b", 4);
    k.size--;
    refused(&k,
            "what is kept: expected its size and a name of 1 to 40 letters");
}

struct numbers {
    int64_t i;
    double x;
};
static const struct dsflow_kept_field fields[] = {
    { "i", DSFLOW_INT64, offsetof(struct numbers, i) },
    { "x", DSFLOW_FP64, offsetof(struct numbers, x) },
};

static void numbers_come_back_from_their_text_to_the_last_bit(void **state)
{
    static const struct numbers some[] = {
        { 0, 0 },          { -7, -0.0 },    { INT64_MAX, 0.1 },
        { INT64_MIN, 1e-310 }, { 1, 1.0 / 3 }, { 2, INFINITY },
    };

    for (unsigned i = 0; i < sizeof(some) / sizeof(*some); i++) {
        struct numbers back = { 9, 9 };

        for (unsigned f = 0; f < 2; f++)
            assert_int_equal(
                dsf_kept_field_read(&fields[f],
                                    dsf_kept_field_text(&fields[f], &some[i]).s,
                                    &back, NULL),
                DSFLOW_OK);
        assert_memory_equal(&back, &some[i], sizeof(back));
    }
}

static void a_text_that_is_no_number_is_refused(void **state)
{
    struct numbers n;
    struct dsflow_err err;

    assert_int_equal(dsf_kept_field_read(&fields[0], "1.5", &n, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "i: 1.5: expected a whole number");
    assert_int_equal(dsf_kept_field_read(&fields[1], "", &n, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, "x: : expected a real number");
    assert_int_equal(dsf_kept_field_read(&fields[0], "99999999999999999999",
                                         &n, &err),
                     DSFLOW_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_follow_the_order_in_which_things_are_kept),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(numbers_come_back_from_their_text_to_the_last_bit),
        cmocka_unit_test(a_text_that_is_no_number_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
