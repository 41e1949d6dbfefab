/* encoded.h - what a tokenizer gives, compared. */
#ifndef DSF_TESTS_ENCODED_H
#define DSF_TESTS_ENCODED_H

#include "text/text.h"

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

/* The tokens of a text must be these; the list ends with -1. */
#define GIVES(tok, text, ...)                                                  \
    check_gives(tok, text, (const int32_t[]){ __VA_ARGS__, -1 })

static inline void check_gives(const struct dsf_tokenizer *tok,
                               const char *text, const int32_t *ids)
{
    struct dsf_tokens out = { 0 };
    struct dsflow_err err = { 0 };
    size_t n = 0;

    assert_int_equal(dsf_encode(tok, text, strlen(text), 1, &out, &err),
                     DSFLOW_OK);
    while (ids[n] >= 0)
        n++;
    for (size_t i = 0; i < n && i < out.n; i++)
        assert_int_equal(out.v[i], ids[i]);
    assert_int_equal(out.n, n);
    assert_true(out.n <=
                (size_t)dsf_tokenizer_most(tok, (int64_t)strlen(text)));
    dsf_tokens_fini(&out);
}

/* Decoding what encoding gave must be the text, byte for byte. */
static inline void check_round_trip(const struct dsf_tokenizer *tok,
                                    const char *text, size_t bytes)
{
    struct dsf_tokens out = { 0 };
    struct dsflow_err err = { 0 };
    size_t at = 0, n;

    assert_int_equal(dsf_encode(tok, text, bytes, 1, &out, &err), DSFLOW_OK);
    for (size_t i = 0; i < out.n; i++) {
        const char *piece = dsf_decode(tok, out.v[i], &n);

        assert_true(out.v[i] >= 0 && out.v[i] < dsf_tokenizer_vocab(tok));
        assert_true(n <= bytes - at);
        assert_memory_equal(piece, text + at, n);
        at += n;
    }
    assert_int_equal(at, bytes);
    dsf_tokens_fini(&out);
}

/* Bytes that mix every kind of damage with plain text. */
static inline void check_any_bytes(const struct dsf_tokenizer *tok)
{
    static const char words[] = "the h\xc3\xa9 \xe6\x97\xa5 12 <|endoftext|> ";
    uint64_t state = 7;
    char text[300];

    for (unsigned round = 0; round < 2000; round++) {
        size_t n = round % sizeof(text);

        for (size_t i = 0; i < n; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            text[i] = state >> 62 == 0
                          ? (char)(state >> 40)
                          : words[(i + round) % (sizeof(words) - 1)];
        }
        check_round_trip(tok, text, n);
    }
}

#endif
