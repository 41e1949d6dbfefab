/* nearest.c - the name that is nearest to another, for "did you mean". */
#include "base/nearest.h"

#include <string.h>

enum { MOST_LETTERS = 128 };

/* Levenshtein's distance, of words that are not longer. */
static unsigned distance(const char *a, const char *b)
{
    unsigned row[MOST_LETTERS + 1];
    size_t na = strnlen(a, MOST_LETTERS), nb = strnlen(b, MOST_LETTERS);

    for (unsigned j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        unsigned corner = row[0];

        row[0] = (unsigned)i;
        for (size_t j = 1; j <= nb; j++) {
            unsigned change = corner + (a[i - 1] != b[j - 1]);

            corner = row[j];
            row[j] = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;
            if (change < row[j])
                row[j] = change;
        }
    }
    return row[nb];
}

const char *dsf_nearest(const char *name, const char *const *names, unsigned n)
{
    const char *best = NULL;
    unsigned least = (unsigned)strnlen(name, MOST_LETTERS) / 3 + 2;

    for (unsigned i = 0; i < n; i++) {
        unsigned d = distance(name, names[i]);

        if (d < least) {
            least = d;
            best = names[i];
        }
    }
    return best;
}
