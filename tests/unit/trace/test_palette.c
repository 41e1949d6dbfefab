/* test_palette.c - families and colours of kinds of task. */
#include "lib/test.h"

#include "trace/palette.h"

#include <stdlib.h>

static enum dsf_family family(const char *name, enum dsflow_pass pass,
                              bool comm, int layer)
{
    struct dsflow_op op = { .name = name, .comm = comm };
    struct dsflow_task_spec t = { .op = &op,
                                  .pass = (uint8_t)pass,
                                  .layer = (int16_t)layer };

    return dsf_family_of(&t);
}

static void a_family_follows_from_name_and_pass(void **state)
{
    assert_int_equal(family("mlp.forward", DSFLOW_FORWARD, false, 0),
                     DSF_FORWARD);
    assert_int_equal(family("mlp.forward", DSFLOW_BACKWARD, false, 0),
                     DSF_RECOMPUTED);
    assert_int_equal(family("mlp.backward_input", DSFLOW_BACKWARD, false, 0),
                     DSF_BACKWARD_INPUT);
    assert_int_equal(family("mlp.backward_weight", DSFLOW_BACKWARD, false, 0),
                     DSF_BACKWARD_WEIGHT);
    assert_int_equal(family("adam", DSFLOW_UPDATE, false, -1), DSF_UPDATES);
    assert_int_equal(family("send", DSFLOW_FORWARD, true, 0), DSF_MOVES);
    assert_int_equal(family("swap_in", DSFLOW_FORWARD, true, 0), DSF_SWAPS);
    assert_int_equal(family("load_batch", DSFLOW_FORWARD, false, -1),
                     DSF_OTHER);
    /* Of a plug-in. */
    assert_int_equal(family("mine.forward", DSFLOW_FORWARD, false, 1),
                     DSF_FORWARD);
    assert_int_equal(family("muon", DSFLOW_UPDATE, false, 1), DSF_UPDATES);
}

static int apart(uint32_t a, uint32_t b)
{
    return abs((int)(a >> 16 & 255) - (int)(b >> 16 & 255)) +
           abs((int)(a >> 8 & 255) - (int)(b >> 8 & 255)) +
           abs((int)(a & 255) - (int)(b & 255));
}

static void families_differ_and_so_do_kinds_that_are_neighbours(void **state)
{
    static const char *const layer[] = { "qkv.x", "attention.x", "out.x",
                                         "mlp.x", "qkv.x" };

    for (int a = 0; a < DSF_NFAMILIES; a++)
        for (int b = 0; b < a; b++)
            assert_true(apart(dsf_family_colour((enum dsf_family)a),
                              dsf_family_colour((enum dsf_family)b)) > 60);
    for (int f = 0; f < DSF_OTHER; f++)
        for (unsigned i = 0; i < 4; i++)
            assert_true(apart(dsf_kind_colour((enum dsf_family)f, layer[i]),
                              dsf_kind_colour((enum dsf_family)f,
                                              layer[i + 1])) > 15);
}

static void a_part_of_a_segment_has_its_colour(void **state)
{
    assert_int_equal(dsf_kind_colour(DSF_FORWARD, "mlp.forward"),
                     dsf_kind_colour(DSF_FORWARD, "mlp_part.forward"));
    assert_int_equal(dsf_kind_colour(DSF_UPDATES, "adam"), 0xe69f00);
}

static void an_unknown_kind_keeps_the_colour_it_had(void **state)
{
    assert_int_equal(dsf_kind_colour(DSF_FORWARD, "mine.forward"), 0x5cb7e9);
    assert_int_equal(dsf_kind_colour(DSF_FORWARD, "mine_part.forward"),
                     0x5cb7e9);
}

static void what_is_written_on_a_colour_can_be_read(void **state)
{
    assert_true(dsf_is_dark(dsf_family_colour(DSF_BACKWARD_INPUT)));
    assert_false(dsf_is_dark(dsf_family_colour(DSF_FORWARD)));
    assert_false(dsf_is_dark(dsf_family_colour(DSF_IDLE)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_follows_from_name_and_pass),
        cmocka_unit_test(families_differ_and_so_do_kinds_that_are_neighbours),
        cmocka_unit_test(a_part_of_a_segment_has_its_colour),
        cmocka_unit_test(an_unknown_kind_keeps_the_colour_it_had),
        cmocka_unit_test(what_is_written_on_a_colour_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
