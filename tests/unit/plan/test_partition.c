/* test_partition.c - bounds of stages, against DeepSpeed's. */
#include "plan/partition.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

#define MAX 64

static void assert_bounds(const int *got, const int *expected, int parts)
{
    for (int p = 0; p <= parts; p++)
        if (got[p] != expected[p])
            fail_msg("part %d starts at %d: expected %d", p, got[p],
                     expected[p]);
}

struct golden {
    double weights[10];
    int n, parts, first[6];
};

/* Bounds that DeepSpeed's recurrence gives. */
static void balanced_bounds_are_those_of_deepspeed(void **state)
{
    static const struct golden golden[] = {
        { { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, 10, 4, { 0, 3, 6, 8, 10 } },
        { { 1, 2, 3, 4, 5, 6, 7, 8 }, 8, 3, { 0, 4, 6, 8 } },
        { { 10, 1, 1, 1, 1, 1, 1, 10 }, 8, 4, { 0, 1, 4, 7, 8 } },
        { { 5, 1, 1, 1, 5, 1, 1, 1 }, 8, 2, { 0, 4, 8 } },
        { { 100, 1, 1, 1 }, 4, 3, { 0, 1, 3, 4 } },
        { { 1, 1, 1, 1, 1 }, 5, 2, { 0, 3, 5 } },
    };
    int first[MAX];

    for (unsigned i = 0; i < sizeof(golden) / sizeof(*golden); i++) {
        const struct golden *g = &golden[i];

        dsf_partition_balanced(g->weights, g->n, g->parts, first);
        assert_bounds(first, g->first, g->parts);
    }
}

/* The recurrence as it is written down, with no shortcut. */
static void balance_slowly(const double *weights, int n, int parts, int *first)
{
    static double high[MAX][MAX], low[MAX][MAX];
    static int last[MAX][MAX];

    for (int i = 1; i <= n; i++)
        for (int p = 1; p <= parts && p <= i; p++) {
            double part = 0;

            high[i][p] = 1e300;
            low[i][p] = -1e300;
            for (int k = i - 1; k >= p - 1; k--) {
                double h, l;

                part += weights[k];
                if (p == 1 && k > 0)
                    continue;
                h = p > 1 && high[k][p - 1] > part ? high[k][p - 1] : part;
                l = p > 1 && low[k][p - 1] < part ? low[k][p - 1] : part;
                if (h - l < high[i][p] - low[i][p]) {
                    high[i][p] = h;
                    low[i][p] = l;
                    last[i][p] = k;
                }
            }
        }
    first[parts] = n;
    for (int p = parts; p > 0; p--)
        first[p - 1] = last[first[p]][p];
}

/* Whole weights, so that no sum is rounded and ties are ties. */
static void the_shortcut_changes_nothing(void **state)
{
    unsigned seed = 1;

    for (int run = 0; run < 3000; run++) {
        double weights[MAX];
        int first[MAX], expected[MAX];
        int n, parts;

        seed = seed * 1103515245 + 12345;
        n = 2 + (int)(seed >> 16) % 40;
        seed = seed * 1103515245 + 12345;
        parts = 1 + (int)(seed >> 16) % (n - 1);
        for (int i = 0; i < n; i++) {
            seed = seed * 1103515245 + 12345;
            weights[i] = (double)((seed >> 16) % (run % 2 ? 4 : 1000));
        }
        balance_slowly(weights, n, parts, expected);
        dsf_partition_balanced(weights, n, parts, first);
        assert_bounds(first, expected, parts);
        for (int p = 0; p < parts; p++)
            assert_true(first[p] < first[p + 1]);
    }
}

/* All weights 0, one part each, one part. */
static void what_is_unusual_is_cut_too(void **state)
{
    double weights[MAX] = { 0 };
    int first[MAX];

    dsf_partition_balanced(weights, 5, 3, first);
    for (int p = 0; p < 3; p++)
        assert_true(first[p] < first[p + 1]);
    assert_int_equal(first[3], 5);
    dsf_partition_balanced(weights, 4, 4, first);
    assert_bounds(first, (int[]){ 0, 1, 2, 3, 4 }, 4);
    dsf_partition_balanced(weights, 7, 1, first);
    assert_bounds(first, (int[]){ 0, 7 }, 1);
}

/* A trillion parameters have some hundred layers on a hundred stages. */
static void thousands_of_layers_are_cut(void **state)
{
    enum { N = 4096, PARTS = 128 };
    double *weights = calloc(N, sizeof(*weights));
    int first[PARTS + 1];

    for (int i = 0; i < N; i++)
        weights[i] = i == 0 ? 7.3 : i == N - 1 ? 21.9 : 3.1;
    dsf_partition_balanced(weights, N, PARTS, first);
    assert_int_equal(first[0], 0);
    assert_int_equal(first[PARTS], N);
    for (int p = 0; p < PARTS; p++) {
        assert_true(first[p + 1] - first[p] <= N / PARTS + 1);
        assert_true(first[p + 1] - first[p] >= N / PARTS - 7);
    }
    free(weights);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(balanced_bounds_are_those_of_deepspeed),
        cmocka_unit_test(the_shortcut_changes_nothing),
        cmocka_unit_test(what_is_unusual_is_cut_too),
        cmocka_unit_test(thousands_of_layers_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
