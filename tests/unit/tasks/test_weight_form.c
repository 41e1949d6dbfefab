/* test_weight_form.c - which weights are quantized or pruned, and how from
 * which step on. */
#include "lib/test.h"

#include "base/random.h"
#include "tasks/weight_form.h"

#include <string.h>

enum { GROUP = 16, GROUPS = 12, ELEMS = GROUP * GROUPS };

static struct dsf_weight_form form(void)
{
    return (struct dsf_weight_form){ .matrices = ELEMS,
                                     .quantizer = DSF_SYMMETRIC,
                                     .group = GROUP,
                                     .bits = 4,
                                     .start_bits = 8,
                                     .period = 10 };
}

/* --- the schedule --------------------------------------------------------- */

static void bits_fall_when_the_steps_have_doubled(void **state)
{
    struct dsf_weight_form f = form();
    int32_t bits = 8;

    for (int64_t step = 0; step < 1000; step++) {
        bits -= step == 10 || step == 20 || step == 40 || step == 80;
        assert_int_equal(dsf_weight_form_bits(&f, step), bits);
    }
    assert_int_equal(bits, 4);
    f.period = 1;
    f.start_bits = 16;
    f.bits = 2;
    for (int k = 0; k < 14; k++) {
        assert_int_equal(dsf_weight_form_bits(&f, (1 << k) - 1), 16 - k);
        assert_int_equal(dsf_weight_form_bits(&f, 1 << k), 15 - k);
    }
    assert_int_equal(dsf_weight_form_bits(&f, INT64_MAX / 2), 2);
    f.period = INT32_MAX;
    assert_int_equal(dsf_weight_form_bits(&f, INT32_MAX - 1), 16);
    assert_int_equal(dsf_weight_form_bits(&f, INT32_MAX), 15);
    f.start_bits = 2;
    assert_int_equal(dsf_weight_form_bits(&f, 0), 2);
    assert_int_equal(dsf_weight_form_bits(&f, INT64_MAX / 2), 2);
}

static void check_after(const struct dsf_weight_form *f, int64_t updates,
                        enum dsf_quantizer quantizer, int bits, int keep,
                        int of)
{
    const struct dsf_fake_quantizer q = dsf_weight_form_after(f, updates);

    assert_int_equal(q.quantizer, quantizer);
    assert_int_equal(q.bits, bits);
    assert_int_equal(q.group, f->group);
    assert_int_equal(q.keep, keep);
    assert_int_equal(q.of, of);
}

/* The steps of the schedule are counted from there. */
static void weights_change_from_a_step_on(void **state)
{
    struct dsf_weight_form f = form();

    check_after(&f, 0, DSF_SYMMETRIC, 8, 0, 0);
    f.quantize_from = 5;
    f.prune_from = 20;
    f.keep = 1;
    f.of = 4;
    check_after(&f, 0, DSF_UNQUANTIZED, 0, 0, 0);
    check_after(&f, 4, DSF_UNQUANTIZED, 0, 0, 0);
    check_after(&f, 5, DSF_SYMMETRIC, 8, 0, 0);
    check_after(&f, 14, DSF_SYMMETRIC, 8, 0, 0);
    check_after(&f, 15, DSF_SYMMETRIC, 7, 0, 0);
    check_after(&f, 19, DSF_SYMMETRIC, 7, 0, 0);
    check_after(&f, 20, DSF_SYMMETRIC, 7, 1, 4);
    check_after(&f, 25, DSF_SYMMETRIC, 6, 1, 4);
    f.quantize_from = 30;
    check_after(&f, 20, DSF_UNQUANTIZED, 0, 1, 4);
    f.quantizer = DSF_UNQUANTIZED;
    check_after(&f, 100, DSF_UNQUANTIZED, 0, 1, 4);
    f = (struct dsf_weight_form){ .quantizer = DSF_BINARY, .group = 32 };
    check_after(&f, 7, DSF_BINARY, 0, 0, 0);
}

/* --- numbers of a unit ---------------------------------------------------- */

static void fill(float *x, uint64_t seed)
{
    for (int i = 0; i < ELEMS; i++)
        x[i] = (float)((double)(int32_t)dsf_random(&seed) / 2147483648.0);
}

static void check_cut(const struct dsf_weight_form *f, int64_t updates)
{
    const struct dsf_fake_quantizer q = dsf_weight_form_after(f, updates);
    float x[ELEMS], want[ELEMS], got[ELEMS];

    fill(x, 3);
    memcpy(want, x, sizeof(want));
    dsf_fake_quantize(&q, x, want, (size_t)(f->matrices / f->group));
    dsf_weight_form_apply(f, updates, 0, ELEMS, x, got);
    assert_memory_equal(got, want, sizeof(want));
    /* In two parts and in three, wherever they begin. */
    for (int64_t a = 0; a <= ELEMS; a += f->group)
        for (int64_t b = a; b <= ELEMS; b += f->group) {
            memset(got, 0, sizeof(got));
            dsf_weight_form_apply(f, updates, 0, a, x, got);
            dsf_weight_form_apply(f, updates, a, b - a, x + a, got + a);
            dsf_weight_form_apply(f, updates, b, ELEMS - b, x + b, got + b);
            assert_memory_equal(got, want, sizeof(want));
        }
    dsf_weight_form_apply(f, updates, 0, ELEMS, x, x);
    assert_memory_equal(x, want, sizeof(want));
}

static void cutting_a_unit_changes_no_bit(void **state)
{
    for (int k = 0; k < 5 * 3; k++) {
        struct dsf_weight_form f = form();

        f.quantizer = k % 5;
        f.group = GROUP << k / 5;
        f.keep = 1;
        f.of = k % 2 == 0 ? 4 : 0;
        f.prune_from = 2;
        f.matrices = ELEMS / f.group / 2 * f.group;
        for (int64_t updates = 0; updates < 30; updates += 7)
            check_cut(&f, updates);
    }
}

/* Biases and norms stand behind the matrices. */
static void what_is_behind_matrices_stays(void **state)
{
    for (int64_t matrices = 0; matrices <= 2 * ELEMS; matrices += GROUP) {
        struct dsf_weight_form f = form();
        float x[ELEMS], y[ELEMS];
        int64_t same = 0;

        f.quantizer = DSF_BINARY;
        f.matrices = matrices;
        fill(x, 9);
        dsf_weight_form_apply(&f, 0, ELEMS, ELEMS, x, y);
        for (int i = 0; i < ELEMS; i++)
            same += y[i] == x[i];
        assert_int_equal(same, matrices < ELEMS ? ELEMS : 2 * ELEMS - matrices);
        for (int64_t i = matrices < ELEMS ? 0 : matrices - ELEMS; i < ELEMS;
             i++)
            assert_true(y[i] == x[i]);
    }
}

/* --- what is refused ------------------------------------------------------ */

static void refused(struct dsf_weight_form f, int64_t at, int64_t elems,
                    const char *message)
{
    struct dsflow_err err = { .msg = "" };

    assert_int_equal(dsf_weight_form_check(&f, "x", at, elems, &err),
                     DSFLOW_EINVAL);
    assert_string_equal(err.msg, message);
}

static void allowed(struct dsf_weight_form f, int64_t at, int64_t elems)
{
    struct dsflow_err err = { .msg = "" };

    if (dsf_weight_form_check(&f, "x", at, elems, &err) != DSFLOW_OK)
        fail_msg("%s", err.msg);
}

static struct dsf_weight_form with(int quantizer, int group, int start_bits,
                                   int bits, int keep, int of)
{
    struct dsf_weight_form f = form();

    f.quantizer = quantizer;
    f.group = group;
    f.start_bits = start_bits;
    f.bits = bits;
    f.keep = keep;
    f.of = of;
    return f;
}

#define NONE(quantizer, group, start, bits, keep, of)                          \
    refused(with(quantizer, group, start, bits, keep, of), 0, 0,               \
            "x: quantizer " #quantizer " in groups of " #group ", " #start     \
            " to " #bits " bits, " #keep " of " #of ": there is none")

static void forms_that_there_are_not_are_refused(void **state)
{
    struct dsf_weight_form f = form();

    NONE(-1, 16, 8, 4, 0, 0);
    NONE(5, 16, 8, 4, 0, 0);
    NONE(1, 8, 8, 4, 0, 0);
    NONE(1, 0, 8, 4, 0, 0);
    NONE(0, 48, 8, 4, 0, 0);
    NONE(4, 256, 8, 4, 0, 0);
    NONE(1, 16, 8, 1, 0, 0);
    NONE(2, 16, 3, 4, 0, 0);
    NONE(2, 16, 17, 4, 0, 0);
    NONE(0, 16, 0, 0, 0, 4);
    NONE(0, 16, 0, 0, 4, 4);
    NONE(0, 16, 0, 0, 1, 1);
    NONE(0, 16, 0, 0, 1, 3);
    NONE(0, 16, 0, 0, 1, 32);
    NONE(0, 16, 0, 0, 1, -2);
    f.period = 0;
    refused(f, 0, 0,
            "x: quantizer 1 in groups of 16, 8 to 4 bits, 0 of 0: there is "
            "none");
    /* Bits are of the first two alone. */
    f.quantizer = DSF_TERNARY;
    f.bits = f.start_bits = 0;
    allowed(f, 0, 0);
    for (int quantizer = 0; quantizer <= 4; quantizer++)
        for (int group = 16; group <= 128; group *= 2)
            for (int of = 2; of <= 16; of *= 2) {
                f = with(quantizer, group, 16, 2, of - 1, of);
                f.matrices = group;
                allowed(f, 0, 2 * group);
            }
}

static void groups_are_not_cut(void **state)
{
    struct dsf_weight_form f = form();

    allowed(f, 16, 32);
    refused(f, 8, 32,
            "x: 32 numbers from 8 on, 192 of matrices: expected whole groups "
            "of 16");
    refused(f, 16, 24,
            "x: 24 numbers from 16 on, 192 of matrices: expected whole groups "
            "of 16");
    refused(f, -16, 16,
            "x: 16 numbers from -16 on, 192 of matrices: expected whole "
            "groups of 16");
    refused(f, 0, -16,
            "x: -16 numbers from 0 on, 192 of matrices: expected whole groups "
            "of 16");
    f.matrices = 100;
    refused(f, 0, 16,
            "x: 16 numbers from 0 on, 100 of matrices: expected whole groups "
            "of 16");
    f.matrices = -16;
    refused(f, 0, 16,
            "x: 16 numbers from 0 on, -16 of matrices: expected whole groups "
            "of 16");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_fall_when_the_steps_have_doubled),
        cmocka_unit_test(weights_change_from_a_step_on),
        cmocka_unit_test(cutting_a_unit_changes_no_bit),
        cmocka_unit_test(what_is_behind_matrices_stays),
        cmocka_unit_test(forms_that_there_are_not_are_refused),
        cmocka_unit_test(groups_are_not_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
