/* test_heads.c - which heads ranks that share sequences have. */
#include "plan/heads.h"

#include "lib/test.h"

static struct dsf_heads heads_of(int32_t heads, int32_t ranks, int32_t groups)
{
    const struct dsflow_plan plan = { .nsequence = ranks,
                                      .sequence_groups = groups };

    return dsf_heads_of(&plan, heads);
}

/* Each rank is in one team, and each head and group of tokens has one rank. */
static void every_head_of_every_group_has_a_rank(void **state)
{
    for (int32_t ranks = 1; ranks <= 12; ranks++)
        for (int32_t heads = 1; heads <= 14; heads++)
            for (int32_t groups = ranks; groups <= 4 * ranks; groups *= 2) {
                const struct dsf_heads h = heads_of(heads, ranks, groups);
                int32_t has[12] = { 0 }, sizes = 0, all = 0, most = 0;

                assert_int_equal(h.teams, heads < ranks ? heads : ranks);
                for (int32_t team = 0; team < h.teams; team++) {
                    const int32_t n =
                        dsf_heads_first(heads, h.teams, team + 1) -
                        dsf_heads_first(heads, h.teams, team);

                    assert_true(n >= 1 && dsf_heads_size(&h, team) >= 1);
                    sizes += dsf_heads_size(&h, team);
                    for (int32_t g = 0; g < groups; g++) {
                        const int32_t at = dsf_heads_at(&h, team, g);

                        assert_in_range(at, 0, ranks - 1);
                        assert_int_equal(dsf_heads_team_of(&h, at), team);
                        has[at] += n;
                    }
                }
                assert_int_equal(sizes, ranks);
                for (int32_t r = 0; r < ranks; r++) {
                    assert_true(has[r] > 0);
                    all += has[r];
                    most = has[r] > most ? has[r] : most;
                }
                assert_int_equal(all, heads * groups);
                assert_true(dsf_heads_imbalance(&h) ==
                            (double)most * ranks / all);
            }
}

/* Its own tokens need not be sent to a rank. */
static void a_rank_has_its_own_queries(void **state)
{
    for (int32_t ranks = 1; ranks <= 16; ranks++)
        for (int32_t heads = 1; heads <= 16; heads++)
            for (int32_t groups = ranks; groups <= 4 * ranks; groups *= 2) {
                const struct dsf_heads h = heads_of(heads, ranks, groups);

                for (int32_t g = 0; g < groups && ranks % h.teams == 0; g++) {
                    const int32_t own = g / (groups / ranks);

                    assert_int_equal(
                        dsf_heads_at(&h, dsf_heads_team_of(&h, own), g), own);
                }
            }
}

static void heads_are_as_even_as_they_can_be(void **state)
{
    struct dsf_heads h = heads_of(8, 4, 4);

    assert_true(dsf_heads_imbalance(&h) == 1);
    h = heads_of(2, 8, 8); /* four ranks have a head, and two groups each */
    assert_true(dsf_heads_imbalance(&h) == 1);
    h = heads_of(12, 8, 8); /* two or one, instead of one and a half */
    assert_true(dsf_heads_imbalance(&h) == 2 / 1.5);
    h = heads_of(7, 3, 3);
    assert_true(dsf_heads_imbalance(&h) == 9.0 / 7);
    h = heads_of(2, 3, 12); /* two ranks, six groups each, and one */
    assert_true(dsf_heads_imbalance(&h) == 1.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_head_of_every_group_has_a_rank),
        cmocka_unit_test(a_rank_has_its_own_queries),
        cmocka_unit_test(heads_are_as_even_as_they_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
