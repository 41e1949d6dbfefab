/* tokenizer_added.c - added_tokens of a tokenizer.json: tokens that are found
 * in a text as a whole. */
#include "text/tokenizer_source.h"

#include "text/bpe.h"
#include "text/nfc.h"

#include <stdlib.h>
#include <string.h>

static bool is_normal(const char *text, size_t n)
{
    size_t bytes;
    char *normal = dsf_nfc(text, n, &bytes);
    bool same = normal == NULL || (bytes == n && memcmp(normal, text, n) == 0);

    free(normal);
    return same;
}

static int read_added(const struct source *s, const json_t *one)
{
    static const char *const unsupported[] = { "lstrip", "rstrip",
                                               "single_word" };
    const char *text = json_string_value(get(one, "content"));
    const json_t *number = get(one, "id");
    json_int_t id = json_integer_value(number);
    bool flag, normalized, special;
    const char *spelled;
    size_t n, nspelled;
    int32_t known;

    if (text == NULL || *text == '\0')
        return REFUSE(s, "added_tokens: content: expected a text");
    n = strlen(text);
    if (!json_is_integer(number) || id < 0 || id >= DSF_MOST_TOKENS)
        return REFUSE(s, "added_tokens: \"%s\": id: expected 0 to %d", text,
                      DSF_MOST_TOKENS - 1);
    for (unsigned i = 0; i < 3; i++) {
        if (read_flag(s, one, "added_tokens", unsupported[i], false, &flag) < 0)
            return DSFLOW_EINVAL;
        if (flag)
            return REFUSE(s, "added_tokens: \"%s\": %s is not supported", text,
                          unsupported[i]);
    }
    if (read_flag(s, one, "added_tokens", "special", false, &special) < 0 ||
        read_flag(s, one, "added_tokens", "normalized", !special, &normalized) <
            0)
        return DSFLOW_EINVAL;
    known = dsf_bpe_find(s->tok->bpe, text, n);
    if (known >= 0 ? known != id : dsf_bpe_has(s->tok->bpe, (int32_t)id))
        return REFUSE(s,
                      "added_tokens: \"%s\": id %d; the vocabulary has "
                      "another for it",
                      text, (int)id);
    /* "\u0120" is a token of the vocabulary too, and there it is a space. */
    if (known >= 0) {
        spelled = dsf_bpe_bytes(s->tok->bpe, known, &nspelled);
        if (nspelled != n || memcmp(spelled, text, n) != 0)
            return REFUSE(s,
                          "added_tokens: \"%s\": in the vocabulary it "
                          "stands for other bytes",
                          text);
    }
    if (normalized && s->pieces &&
        (s->tok->lead == DSF_LEAD_ALL || strpbrk(text, " \xe2") != NULL))
        return REFUSE(s,
                      "added_tokens: \"%s\": normalized is not supported with "
                      "byte_fallback and Prepend, or a text with a space",
                      text);
    if (normalized && s->tok->nfc && !is_normal(text, n))
        return REFUSE(s,
                      "added_tokens: \"%s\": normalized is not supported for "
                      "a text that is not in NFC",
                      text);
    dsf_tokenizer_add(s->tok, text, n, (int32_t)id, normalized);
    return DSFLOW_OK;
}

static int by_id(const void *one, const void *other)
{
    const struct dsf_added *a = one, *b = other;

    return a->id < b->id ? -1 : a->id > b->id;
}

static int by_text(const void *one, const void *other)
{
    const struct dsf_added *a = one, *b = other;

    return strcmp(a->text, b->text);
}

/* Hugging Face numbers a token that the vocabulary lacks itself, whatever the
 * file says: it follows those before it in the file. */
static int check_number(const struct source *s, const json_t *one,
                        int32_t *most)
{
    const char *text = json_string_value(get(one, "content"));
    int32_t id = (int32_t)json_integer_value(get(one, "id"));
    int32_t count = (int32_t)dsf_bpe_count(s->tok->bpe);
    int32_t next = *most >= count ? *most + 1 : count;

    if (dsf_bpe_find(s->tok->bpe, text, strlen(text)) < 0 && id != next)
        return REFUSE(s,
                      "added_tokens: \"%s\": id %d: expected %d, the first "
                      "that is free",
                      text, (int)id, (int)next);
    if (id > *most)
        *most = id;
    return DSFLOW_OK;
}

int dsf_added_read(const struct source *s, const json_t *added)
{
    struct dsf_tokenizer *tok = s->tok;
    const struct dsf_added *a;
    int status = DSFLOW_OK;
    int32_t most = -1;

    if (added != NULL && !json_is_array(added))
        return REFUSE(s, "added_tokens: expected an array");
    for (size_t i = 0; i < json_array_size(added) && status == DSFLOW_OK; i++)
        status = read_added(s, json_array_get(added, i));
    if (status < 0 || tok->nadded == 0)
        return status;
    qsort(tok->added, tok->nadded, sizeof(*tok->added), by_text);
    for (unsigned i = 1; i < tok->nadded; i++)
        if (by_text(&tok->added[i - 1], &tok->added[i]) == 0)
            return REFUSE(s, "added_tokens: \"%s\" is there twice",
                          tok->added[i].text);
    qsort(tok->added, tok->nadded, sizeof(*tok->added), by_id);
    for (unsigned i = 1; i < tok->nadded; i++) {
        a = &tok->added[i];
        if (a->id == a[-1].id)
            return REFUSE(s,
                          "added_tokens: \"%s\": id %d is also that of "
                          "\"%s\"",
                          a->text, (int)a->id, a[-1].text);
    }
    for (size_t i = 0; i < json_array_size(added) && status == DSFLOW_OK; i++)
        status = check_number(s, json_array_get(added, i), &most);
    return status;
}
