/* tokenizer_pieces.c - tokenizer.json of SentencePiece's kind (Kudo and
 * Richardson 2018), as LLaMA 2 and Mistral have it: tokens are of characters,
 * U+2581 is a space, and what is no token is its bytes ("byte_fallback"). */
#include "text/tokenizer_source.h"

#include "text/bpe.h"
#include "text/split.h"

#include <string.h>

static bool is(const json_t *value, const char *text)
{
    const char *has = json_string_value(value);

    return has != NULL && strcmp(has, text) == 0;
}

static int read_normalizing(const struct source *s, const json_t *step,
                            struct dsf_pieces *pieces)
{
    const char *kind = kind_of(step);
    const json_t *pattern = get(step, "pattern");

    if (strcmp(kind, "Prepend") == 0 && is(get(step, "prepend"), DSF_SPACE)) {
        s->tok->lead = DSF_LEAD_ALL;
        return DSFLOW_OK;
    }
    if (strcmp(kind, "Replace") == 0 && is(get(pattern, "String"), " ") &&
        is(get(step, "content"), DSF_SPACE)) {
        pieces->replaces = true;
        return DSFLOW_OK;
    }
    return REFUSE(s,
                  "normalizer: type %s is not supported with "
                  "byte_fallback; expected Prepend and Replace, of U+2581 "
                  "for a space, or none",
                  kind);
}

static int read_normalizer(const struct source *s, const json_t *normalizer,
                           struct dsf_pieces *pieces)
{
    const json_t *steps = get(normalizer, "normalizers");
    int status = DSFLOW_OK;

    if (normalizer == NULL)
        return DSFLOW_OK;
    if (strcmp(kind_of(normalizer), "Sequence") != 0)
        return read_normalizing(s, normalizer, pieces);
    if (!json_is_array(steps))
        return REFUSE(s, "normalizer: normalizers: expected an array");
    for (size_t i = 0; i < json_array_size(steps) && status == DSFLOW_OK; i++)
        status = read_normalizing(s, json_array_get(steps, i), pieces);
    return status;
}

/* Older files say add_prefix_space. */
static int read_lead(const struct source *s, const json_t *pre)
{
    const json_t *scheme = get(pre, "prepend_scheme");
    enum dsf_lead lead = DSF_LEAD_NONE;
    bool prefix;
    int status = read_flag(s, pre, "pre_tokenizer: Metaspace",
                           "add_prefix_space", true, &prefix);

    if (status < 0)
        return status;
    if (scheme == NULL ? prefix : is(scheme, "always"))
        lead = DSF_LEAD_EACH;
    else if (is(scheme, "first"))
        lead = DSF_LEAD_FIRST;
    else if (scheme != NULL && !is(scheme, "never"))
        return REFUSE(s, "pre_tokenizer: Metaspace: prepend_scheme: "
                         "expected first, never or always");
    /* After Prepend there is a space already. */
    if (s->tok->lead == DSF_LEAD_NONE)
        s->tok->lead = lead;
    return DSFLOW_OK;
}

static int read_pre_tokenizer(const struct source *s, const json_t *pre,
                              struct dsf_pieces *pieces)
{
    static const char where[] = "pre_tokenizer: Metaspace";
    int status;

    if (pre == NULL && !pieces->replaces)
        return REFUSE(s, "pre_tokenizer: with byte_fallback, and no "
                         "normalizer Replace, expected Metaspace");
    if (pre == NULL)
        return DSFLOW_OK;
    if (strcmp(kind_of(pre), "Metaspace") != 0)
        return REFUSE(s,
                      "pre_tokenizer: type %s is not supported with "
                      "byte_fallback; expected Metaspace, or none",
                      kind_of(pre));
    if (!is(get(pre, "replacement"), DSF_SPACE))
        return REFUSE(s, "%s: replacement: expected U+2581", where);
    status = read_lead(s, pre);
    return status == DSFLOW_OK
               ? read_flag(s, pre, where, "split", true, &pieces->splits)
               : status;
}

/* What these do, decoding does for every tokenizer of the kind. */
static int check_decoder(const struct source *s, const json_t *decoder)
{
    static const char *const known[] = { "Replace", "ByteFallback", "Fuse",
                                         "Strip", "Metaspace" };
    const json_t *steps = get(decoder, "decoders");
    const char *kind = kind_of(decoder);
    int status = DSFLOW_OK;

    if (decoder == NULL)
        return DSFLOW_OK;
    for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
        if (strcmp(kind, known[i]) == 0)
            return DSFLOW_OK;
    if (strcmp(kind, "Sequence") != 0 || !json_is_array(steps))
        return REFUSE(s,
                      "decoder: type %s is not supported with "
                      "byte_fallback; expected Replace, ByteFallback, "
                      "Fuse, Strip, Metaspace or a Sequence of them",
                      kind);
    for (size_t i = 0; i < json_array_size(steps) && status == DSFLOW_OK; i++)
        status = check_decoder(s, json_array_get(steps, i));
    return status;
}

int dsf_pieces_read(const struct source *s, const json_t *all,
                    struct dsf_pieces *pieces)
{
    int status = read_normalizer(s, get(all, "normalizer"), pieces);

    if (status == DSFLOW_OK)
        status = read_pre_tokenizer(s, get(all, "pre_tokenizer"), pieces);
    return status == DSFLOW_OK ? check_decoder(s, get(all, "decoder")) : status;
}

#define SPACE "[ \\x{2581}]"
#define OTHER "[^ \\x{2581}]"
#define INK   "[^ \\x{2581}\\n]"

/* The words of a text are what no merge leaves: cutting there changes no token,
 * and a text of gigabytes is not one word. Newlines are seldom merged. */
int dsf_pieces_cut(const struct source *s, const struct dsf_pieces *pieces)
{
    static const char *const regexes[3][2] = {
        { SPACE OTHER "*|" OTHER "+", SPACE INK "*|" INK "+|\\n" },
        { SPACE "*" OTHER "+|" SPACE "+", SPACE "*" INK "+|" SPACE "+|\\n" },
        { NULL, "[^\\n]+|\\n" },
    };
    const struct dsf_bpe *bpe = s->tok->bpe;
    const char *regex =
        regexes[pieces->splits             ? 0
                : dsf_bpe_keeps_words(bpe) ? 1
                                           : 2][dsf_bpe_keeps_lines(bpe)];

    return regex != NULL &&
                   dsf_split_add_regex(s->tok->split, regex, s->err) < 0
               ? in_file(s)
               : DSFLOW_OK;
}
