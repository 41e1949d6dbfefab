/* test_unit_list.c - tensors that a segment lists, in a unit and in its parts.
 */
#include "segments/segment.h"

#include "lib/test.h"

#include <string.h>

enum { DOWN, UP, NONE, BIAS, NORM };

static void tensors(const struct dsflow_layout *layout,
                    struct dsflow_tensor_spec *list)
{
    const int64_t n = layout->sizes.width;

    list[DOWN] = (struct dsflow_tensor_spec){ .name = "x.down",
                                              .rows = 4,
                                              .cols = n,
                                              .std = 0.1f,
                                              .cut = DSFLOW_CUT_ROWS };
    list[UP] = (struct dsflow_tensor_spec){ .name = "x.up",
                                            .rows = n,
                                            .cols = 4,
                                            .std = 0.1f,
                                            .cut = DSFLOW_CUT_COLUMNS };
    list[BIAS] = (struct dsflow_tensor_spec){ .name = "x.bias",
                                              .cols = n,
                                              .role = DSFLOW_TENSOR_BIAS };
    list[NORM] = (struct dsflow_tensor_spec){
        .name = "x.norm", .cols = n, .value = 1, .role = DSFLOW_TENSOR_NORM_W
    };
}

static const struct dsflow_segment segment = { .name = "x",
                                               .tensors = tensors };

static struct dsf_unit unit_of(int32_t llama)
{
    const struct dsflow_layout layout = {
        .sizes = { .width = 6 }, .layer = 3, .layers = 4, .llama = llama
    };
    struct dsf_unit u = { .segment = &segment, .at = { -1, -1, -1, -1, -1 } };

    dsf_unit_list(&u, &layout);
    return u;
}

static struct dsf_part part_of(const struct dsf_unit *u, int32_t index)
{
    struct dsf_part p = { .part = index, .parts = 2, .b = -1, .norm_w = -1 };

    memset(p.at, -1, sizeof(p.at));
    dsf_part_list(&p, u);
    return p;
}

static void tensors_stand_in_the_unit_by_number(void **state)
{
    struct dsf_unit u = unit_of(0);

    assert_int_equal(u.ntensors, 4);
    assert_string_equal(u.tensors[0].name, "transformer.h.3.x.down");
    assert_int_equal(u.at[DOWN], 0);
    assert_int_equal(u.at[UP], 32); /* 24 numbers, and room up to 16 more */
    assert_int_equal(u.at[NONE], -1);
    assert_int_equal(u.at[BIAS], 64);
    assert_int_equal(u.at[NORM], 80);
    assert_int_equal(u.decay, 64);
    assert_true(u.tensors[3].vector && u.tensors[3].init_value == 1);
    u = unit_of(1);
    assert_string_equal(u.tensors[3].name, "model.layers.3.x.norm");
}

static void a_part_has_rows_and_columns(void **state)
{
    const struct dsf_unit u = unit_of(0);
    const struct dsf_part p = part_of(&u, 1);

    assert_int_equal(p.at[DOWN], 0);
    assert_int_equal(p.at[UP], 16);
    assert_int_equal(p.at[NORM], -1);
    assert_int_equal(p.decay, 32);
    assert_int_equal(p.nblocks, 2);
    assert_int_equal(p.blocks[0].at_whole, 12); /* rows 2 and 3 */
    assert_int_equal(p.blocks[0].rows * p.blocks[0].cols, 12);
    assert_int_equal(p.blocks[1].at_whole, 34); /* columns 2 and 3 */
    assert_int_equal(p.blocks[1].rows, 6);
    assert_int_equal(p.blocks[1].ld_whole, 4);
}

static void what_is_not_cut_is_shared(void **state)
{
    const struct dsf_unit u = unit_of(0);
    const struct dsf_part p = part_of(&u, 2);

    assert_int_equal(p.at[DOWN], -1);
    assert_int_equal(p.at[BIAS], 0);
    assert_int_equal(p.at[NORM], 16);
    assert_int_equal(p.b, 0);
    assert_int_equal(p.norm_w, 16);
    assert_int_equal(p.decay, 0);
}

static void list_most(const struct dsflow_layout *layout,
                      struct dsflow_tensor_spec *list)
{
    static const char *const names[] = { "a", "b", "c", "d", "e", "f",
                                         "g", "h", "i", "j", "k", "l" };

    for (unsigned i = 0; i < DSFLOW_SEGMENT_TENSORS; i++)
        list[i] = (struct dsflow_tensor_spec){ .name = names[i], .cols = 16 };
}

/* Queries, keys and values with biases and norms of their own are eleven. */
static void a_unit_has_up_to_twelve_tensors(void **state)
{
    static const struct dsflow_segment most = { .name = "x",
                                                .tensors = list_most };
    const struct dsflow_layout layout = { .layers = 1 };
    struct dsf_unit u = { .segment = &most };
    struct dsf_part p = { .part = 2, .parts = 2 };

    dsf_unit_list(&u, &layout);
    assert_int_equal(u.ntensors, 12);
    assert_int_equal(u.at[11], 11 * 16);
    dsf_part_list(&p, &u);
    assert_int_equal(p.nblocks, 12);
    assert_int_equal(p.at[11], 11 * 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_stand_in_the_unit_by_number),
        cmocka_unit_test(a_part_has_rows_and_columns),
        cmocka_unit_test(what_is_not_cut_is_shared),
        cmocka_unit_test(a_unit_has_up_to_twelve_tensors),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
