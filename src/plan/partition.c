/* partition.c - consecutive parts of nearly equal weight. */
#include "plan/partition.h"

#include "base/alloc.h"

#include <assert.h>
#include <stdlib.h>

/* The best cut of the first i things in p parts, for each i. */
struct cut {
    double heaviest, lightest;
    int last; /* where its last part starts */
};

/* Extend the best cuts in p - 1 parts, p > 1, by one that ends at i. From the
 * latest start on, so that it wins over equal ones; a longer last part is
 * heavier, so the search ends where that part alone is too much: some part is
 * not heavier than the mean. */
static struct cut best_cut(const struct cut *shorter, const double *sums, int i,
                           int p)
{
    double mean = sums[i] / p;
    double slack = 1e-9 * sums[i]; /* for rounding of what is compared */
    struct cut best = { 0 };

    for (int k = i - 1; k >= p - 1; k--) {
        double part = sums[i] - sums[k];
        struct cut cut = { part, part, k };

        if (shorter[k].heaviest > part)
            cut.heaviest = shorter[k].heaviest;
        if (shorter[k].lightest < part)
            cut.lightest = shorter[k].lightest;
        if (k == i - 1 ||
            cut.heaviest - cut.lightest < best.heaviest - best.lightest)
            best = cut;
        if (part - mean > best.heaviest - best.lightest + slack)
            break;
    }
    return best;
}

void dsf_partition_balanced(const double *weights, int n, int parts, int *first)
{
    struct cut *cuts; /* [parts][n + 1] */
    double *sums;
    size_t row = (size_t)n + 1;

    assert(parts > 0 && n >= parts);
    sums = dsf_xcalloc(row, sizeof(*sums));
    cuts = dsf_xcalloc((size_t)parts * row, sizeof(*cuts));
    for (int i = 0; i < n; i++)
        sums[i + 1] = sums[i] + weights[i];
    for (int i = 1; i <= n; i++)
        cuts[i] = (struct cut){ sums[i], sums[i], 0 };
    for (int p = 2; p <= parts; p++)
        for (int i = p; i <= n; i++)
            cuts[(size_t)(p - 1) * row + (size_t)i] =
                best_cut(cuts + (size_t)(p - 2) * row, sums, i, p);

    first[parts] = n;
    for (int p = parts; p > 0; p--)
        first[p - 1] = cuts[(size_t)(p - 1) * row + (size_t)first[p]].last;
    free(cuts);
    free(sums);
}
