/* fuzz.h - deterministic damage to bytes that were sound. */
#ifndef DSF_TESTS_FUZZ_FUZZ_H
#define DSF_TESTS_FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t fuzz_seed = 1;

static size_t fuzz_any(size_t n)
{
    fuzz_seed = fuzz_seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(fuzz_seed >> 33) % n;
}

static void fuzz_die(const char *why)
{
    fprintf(stderr, "fuzz: %s\n", why);
    abort();
}

/* One fault in text[0, *n) of a buffer of `cap` bytes: a byte, one of `words`,
 * a stretch that is lost or doubled, or the end. */
static void fuzz_damage(char *text, size_t *n, size_t cap,
                        const char *const *words, size_t nwords)
{
    size_t at = fuzz_any(*n), m = fuzz_any(40), k;
    const char *word = words[fuzz_any(nwords)];

    if (m > *n - at)
        m = *n - at;
    switch (fuzz_any(6)) {
    case 0:
        text[at] = (char)fuzz_any(256);
        break;
    case 1:
    case 2:
        k = strlen(word);
        if (*n + k > cap)
            break;
        memmove(text + at + k, text + at, *n - at);
        memcpy(text + at, word, k);
        *n += k;
        break;
    case 3:
        memmove(text + at, text + at + m, *n - at - m);
        *n -= m;
        break;
    case 4:
        if (*n + m > cap)
            break;
        memmove(text + at + m, text + at, *n - at);
        *n += m;
        break;
    default:
        if (fuzz_any(8) == 0)
            *n = at + 1;
    }
    if (*n == 0)
        *n = 1;
}

#endif
