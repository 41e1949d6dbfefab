/* test_palette.c - families and colours of kinds of task. */
#include "lib/test.h"

#include "trace/palette.h"

#include <math.h>
#include <stdlib.h>

static enum dsf_kind_family family(const struct dsflow_op *op,
                                   enum dsflow_pass pass, int layer)
{
    return dsf_family_of(
        &DSFLOW_TASK(.op = op, .pass = (uint8_t)pass, .layer = (int16_t)layer));
}

/* A kind of task that says no more of itself. */
static struct dsflow_op of(const char *segment, enum dsflow_direction direction)
{
    return (struct dsflow_op){ .name = "x",
                               .segment = segment,
                               .direction = (uint8_t)direction };
}

static void a_family_follows_from_what_a_kind_says_and_from_the_pass(
    void **state)
{
    const struct dsflow_op forward = of("mlp", DSFLOW_DIR_FORWARD),
                           hidden = of("mlp", DSFLOW_DIR_HIDDEN),
                           input = of("mlp", DSFLOW_DIR_BACKWARD_INPUT),
                           weight = of("mlp", DSFLOW_DIR_BACKWARD_WEIGHT),
                           update = of(NULL, DSFLOW_DIR_UPDATE),
                           host = of(NULL, DSFLOW_DIR_HOST),
                           mine = of(NULL, DSFLOW_DIR_NONE);
    const struct dsflow_op move = { .name = "adam", .comm = 1 };
    const struct dsflow_op swap = { .name = "adam", .swaps = 1 };

    assert_int_equal(family(&forward, DSFLOW_FORWARD, 0), DSF_FORWARD);
    assert_int_equal(family(&forward, DSFLOW_BACKWARD, 0), DSF_RECOMPUTED);
    assert_int_equal(family(&hidden, DSFLOW_BACKWARD, 0), DSF_RECOMPUTED);
    assert_int_equal(family(&input, DSFLOW_BACKWARD, 0), DSF_BACKWARD_INPUT);
    assert_int_equal(family(&weight, DSFLOW_BACKWARD, 0), DSF_BACKWARD_WEIGHT);
    assert_int_equal(family(&update, DSFLOW_UPDATE, -1), DSF_UPDATES);
    assert_int_equal(family(&move, DSFLOW_FORWARD, 0), DSF_MOVES);
    assert_int_equal(family(&swap, DSFLOW_FORWARD, 0), DSF_SWAPS);
    assert_int_equal(family(&host, DSFLOW_FORWARD, -1), DSF_OTHER);
    /* Of a plug-in that says nothing. */
    assert_int_equal(family(&mine, DSFLOW_FORWARD, 1), DSF_FORWARD);
    assert_int_equal(family(&mine, DSFLOW_UPDATE, 1), DSF_UPDATES);
    assert_int_equal(family(&mine, DSFLOW_FORWARD, -1), DSF_OTHER);
}

/* How the segment looks; "*mlp" is the hidden part of one, and "-add" what is
 * of none. */
static struct dsf_kind kind(enum dsf_kind_family family, const char *name)
{
    struct dsflow_op op = of(*name == '-'   ? NULL
                             : *name == '*' ? name + 1
                                            : name,
                             *name == '*' ? DSFLOW_DIR_HIDDEN
                                          : DSFLOW_DIR_FORWARD);

    return dsf_kind_make(&op, *name == '-' ? name + 1 : "x.y", family);
}

static int apart(uint32_t a, uint32_t b)
{
    return abs((int)(a >> 16 & 255) - (int)(b >> 16 & 255)) +
           abs((int)(a >> 8 & 255) - (int)(b >> 8 & 255)) +
           abs((int)(a & 255) - (int)(b & 255));
}

static void families_differ_and_so_do_kinds_that_are_neighbours(void **state)
{
    static const char *const layer[] = { "qkv", "attention", "out", "mlp",
                                         "qkv" };

    for (int a = 0; a < DSF_NFAMILIES; a++)
        for (int b = 0; b < a; b++)
            assert_true(apart(dsf_family_colour((enum dsf_kind_family)a),
                              dsf_family_colour((enum dsf_kind_family)b)) > 60);
    for (int f = 0; f < DSF_OTHER; f++)
        for (unsigned i = 0; i < 4; i++)
            assert_true(
                apart(kind((enum dsf_kind_family)f, layer[i]).colour,
                      kind((enum dsf_kind_family)f, layer[i + 1]).colour) > 15);
}

struct lab {
    double v[3];
};

/* How a colour looks, in CIE L*a*b*, to eyes that lack one sort of cones
 * (Machado, Oliveira, Fernandes 2009), or none. */
static struct lab look(uint32_t colour, const double (*eye)[3])
{
    static const double to_xyz[3][3] = { { .4124, .3576, .1805 },
                                         { .2126, .7152, .0722 },
                                         { .0193, .1192, .9505 } };
    static const double white[3] = { .9505, 1, 1.089 };
    double rgb[3], seen[3], f[3];

    for (int i = 0; i < 3; i++) {
        double c = (colour >> (16 - 8 * i) & 255) / 255.0;

        rgb[i] = c <= .04045 ? c / 12.92 : pow((c + .055) / 1.055, 2.4);
    }
    for (int i = 0; i < 3; i++) {
        double c = eye[i][0] * rgb[0] + eye[i][1] * rgb[1] + eye[i][2] * rgb[2];

        seen[i] = fmin(fmax(c, 0), 1);
    }
    for (int i = 0; i < 3; i++) {
        double c = (to_xyz[i][0] * seen[0] + to_xyz[i][1] * seen[1] +
                    to_xyz[i][2] * seen[2]) /
                   white[i];

        f[i] = c > .008856 ? cbrt(c) : 7.787 * c + 16 / 116.0;
    }
    return (struct lab){ { 116 * f[1] - 16, 500 * (f[0] - f[1]),
                           200 * (f[1] - f[2]) } };
}

static double distance(struct lab a, struct lab b)
{
    double sum = 0;

    for (int i = 0; i < 3; i++)
        sum += (a.v[i] - b.v[i]) * (a.v[i] - b.v[i]);
    return sqrt(sum);
}

/* A just noticeable difference is 2.3, and 1 for colours side by side. */
static void all_eyes_tell_the_kinds_of_a_family_apart(void **state)
{
    static const double eyes[][3][3] = {
        { { 1, 0, 0 }, { 0, 1, 0 }, { 0, 0, 1 } },
        { { .152286, 1.052583, -.204868 },
          { .114503, .786281, .099216 },
          { -.003882, -.048116, 1.051998 } },
        { { .367322, .860646, -.227968 },
          { .280085, .672501, .047413 },
          { -.011820, .042940, .968881 } },
        { { 1.255528, -.076749, -.178779 },
          { -.078411, .930809, .147602 },
          { .004733, .691367, .303900 } },
    };
    static const char *const kinds[][10] = {
        [DSF_FORWARD] = { "embed", "norm", "residual", "qkv", "out",
                          "attention", "mlp", "loss", "head" },
        [DSF_BACKWARD_INPUT] = { "norm", "qkv", "out", "attention", "mlp",
                                 "head" },
        [DSF_BACKWARD_WEIGHT] = { "embed", "norm", "residual", "qkv", "out",
                                  "mlp", "head" },
        [DSF_RECOMPUTED] = { "norm", "residual", "qkv", "out", "attention",
                             "mlp", "*mlp" },
        [DSF_UPDATES] = { "-adam", "-add", "-square", "-clip", "-begin",
                          "-finish", "-cast", "-copy" },
        [DSF_MOVES] = { "-send", "-gather", "-sum", "-reduce", "-transfer" },
        [DSF_SWAPS] = { "-swap_in", "-swap_out", "-swap" },
        [DSF_OTHER] = { "-load_batch", "-advance", "-report", "-report_loss",
                        "-wait" },
    };

    for (unsigned e = 0; e < sizeof(eyes) / sizeof(*eyes); e++)
        for (int f = 0; f < DSF_IDLE; f++)
            for (unsigned i = 0; kinds[f][i] != NULL; i++)
                for (unsigned k = 0; k < i; k++) {
                    enum dsf_kind_family family = (enum dsf_kind_family)f;
                    double d = distance(
                        look(kind(family, kinds[f][i]).colour, eyes[e]),
                        look(kind(family, kinds[f][k]).colour, eyes[e]));

                    if (d < (e == 0 ? 4 : 2))
                        fail_msg("%s and %s are %.1f apart for eyes %u",
                                 kinds[f][i], kinds[f][k], d, e);
                }
}

static void neighbours_in_a_layer_have_other_textures(void **state)
{
    static const char *const layer[] = { "qkv", "attention", "out", "mlp",
                                         "qkv" };

    for (unsigned i = 0; i < 4; i++)
        assert_int_not_equal(kind(DSF_FORWARD, layer[i]).texture,
                             kind(DSF_FORWARD, layer[i + 1]).texture);
    assert_int_not_equal(kind(DSF_SWAPS, "-swap_in").texture,
                         kind(DSF_SWAPS, "-swap_out").texture);
}

static void a_segment_has_its_colour_whatever_the_kind_is_called(void **state)
{
    struct dsflow_op op = of("mlp", DSFLOW_DIR_FORWARD);

    assert_int_equal(dsf_kind_make(&op, "adam", DSF_FORWARD).colour,
                     dsf_kind_make(&op, "qkv.forward", DSF_FORWARD).colour);
    assert_int_equal(kind(DSF_UPDATES, "-adam").colour, 0xe69f00);
}

static void an_unknown_segment_keeps_the_colour_it_had(void **state)
{
    assert_int_equal(kind(DSF_FORWARD, "mine").colour, 0x5cb7e9);
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
        cmocka_unit_test(
            a_family_follows_from_what_a_kind_says_and_from_the_pass),
        cmocka_unit_test(families_differ_and_so_do_kinds_that_are_neighbours),
        cmocka_unit_test(all_eyes_tell_the_kinds_of_a_family_apart),
        cmocka_unit_test(neighbours_in_a_layer_have_other_textures),
        cmocka_unit_test(a_segment_has_its_colour_whatever_the_kind_is_called),
        cmocka_unit_test(an_unknown_segment_keeps_the_colour_it_had),
        cmocka_unit_test(what_is_written_on_a_colour_can_be_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
