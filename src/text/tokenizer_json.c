/* tokenizer_json.c - Hugging Face's tokenizer.json of byte pair encoding, over
 * bytes or characters: model, normalizer, pre_tokenizer, post_processor. */
#include "text/tokenizer_source.h"

#include "base/file.h"
#include "text/bpe.h"
#include "text/split.h"

#include <stdlib.h>
#include <string.h>

static int read_vocab(const struct source *s, const json_t *vocab)
{
    const char *name;
    json_t *id;

    if (!json_is_object(vocab) || json_object_size(vocab) == 0)
        return REFUSE(s, "model: vocab: expected an object of tokens and ids");
    json_object_foreach((json_t *)vocab, name, id) {
        if (!json_is_integer(id))
            return REFUSE(s, "model: vocab: \"%s\": the id is no integer",
                          name);
        if (dsf_bpe_token(s->tok->bpe, name, strlen(name),
                          json_integer_value(id), s->err) < 0)
            return in_file(s);
    }
    return DSFLOW_OK;
}

/* "left right", or [left, right]. */
static int read_merge(const struct source *s, size_t i, const json_t *merge)
{
    const char *text = json_string_value(merge), *left, *right;
    size_t nleft, nright;

    if (text != NULL) {
        left = text;
        nleft = strcspn(text, " ");
        right = text + nleft + (text[nleft] == ' ');
        nright = strlen(right);
        if (text[nleft] == '\0' || strchr(right, ' ') != NULL)
            return REFUSE(s,
                          "model: merge %zu: \"%s\": expected two tokens "
                          "with a space between",
                          i + 1, text);
    } else {
        left = json_string_value(json_array_get(merge, 0));
        right = json_string_value(json_array_get(merge, 1));
        if (json_array_size(merge) != 2 || left == NULL || right == NULL)
            return REFUSE(s, "model: merge %zu: expected two tokens", i + 1);
        nleft = strlen(left);
        nright = strlen(right);
    }
    if (dsf_bpe_merge(s->tok->bpe, left, nleft, right, nright, s->err) < 0)
        return in_file(s);
    return DSFLOW_OK;
}

static int check_model(struct source *s, const json_t *model)
{
    static const char *const affixes[] = { "continuing_subword_prefix",
                                           "end_of_word_suffix" };

    if (!json_is_object(model))
        return REFUSE(s, "model: expected an object");
    /* Files of old have no type, and a vocabulary with merges. */
    if (get(model, "type") == NULL ? get(model, "merges") == NULL
                                   : strcmp(kind_of(model), "BPE") != 0)
        return REFUSE(s, "model: type %s is not supported; expected BPE",
                      kind_of(model));
    for (unsigned i = 0; i < 2; i++) {
        const char *affix = json_string_value(get(model, affixes[i]));

        if (get(model, affixes[i]) != NULL && (affix == NULL || *affix != '\0'))
            return REFUSE(s, "model: %s is not supported", affixes[i]);
    }
    if (get(model, "dropout") != NULL &&
        json_number_value(get(model, "dropout")) != 0.0)
        return REFUSE(s, "model: dropout is not supported; expected null");
    return read_flag(s, model, "model", "byte_fallback", false, &s->pieces);
}

static int read_model(const struct source *s, const json_t *model)
{
    const json_t *merges = get(model, "merges");
    bool ignore_merges;
    int status =
        read_flag(s, model, "model", "ignore_merges", false, &ignore_merges);

    if (s->pieces)
        dsf_bpe_of_characters(s->tok->bpe);
    if (status == DSFLOW_OK && s->pieces && ignore_merges)
        status = REFUSE(s, "model: ignore_merges is not supported with "
                           "byte_fallback");
    if (status == DSFLOW_OK)
        status = read_vocab(s, get(model, "vocab"));
    if (status < 0)
        return status;
    if (!json_is_array(merges))
        return REFUSE(s, "model: merges: expected an array");
    for (size_t i = 0; i < json_array_size(merges) && status == DSFLOW_OK; i++)
        status = read_merge(s, i, json_array_get(merges, i));
    if (status == DSFLOW_OK &&
        dsf_bpe_finish(s->tok->bpe, ignore_merges, s->err) < 0)
        status = in_file(s);
    return status;
}

static int read_split(const struct source *s, const json_t *step)
{
    const json_t *pattern = get(step, "pattern");
    const char *regex = json_string_value(get(pattern, "Regex"));
    const char *string = json_string_value(get(pattern, "String"));
    const char *behavior = json_string_value(get(step, "behavior"));
    bool invert;
    int status =
        read_flag(s, step, "pre_tokenizer: Split", "invert", false, &invert);

    if (status < 0)
        return status;
    if (invert)
        return REFUSE(s, "pre_tokenizer: Split: invert is not supported");
    if (behavior == NULL || strcmp(behavior, "Isolated") != 0)
        return REFUSE(s,
                      "pre_tokenizer: Split: behavior %s is not supported; "
                      "expected Isolated",
                      behavior != NULL ? behavior : "none");
    if (regex == NULL && string == NULL)
        return REFUSE(s, "pre_tokenizer: Split: pattern: expected a Regex or "
                         "a String");
    status = regex != NULL
                 ? dsf_split_add_regex(s->tok->split, regex, s->err)
                 : dsf_split_add_string(s->tok->split, string, s->err);
    return status < 0 ? (dsflow_fail_in(s->err, status, "pre_tokenizer: Split"),
                         in_file(s))
                      : DSFLOW_OK;
}

static int read_byte_level(const struct source *s, const json_t *step,
                           bool *byte_level)
{
    static const char where[] = "pre_tokenizer: ByteLevel";
    bool prefix = true, regex = true;
    int status = read_flag(s, step, where, "add_prefix_space", true, &prefix);

    if (status == DSFLOW_OK)
        status = read_flag(s, step, where, "use_regex", true, &regex);
    if (status < 0)
        return status;
    *byte_level = true;
    s->tok->prefix |= prefix;
    if (prefix && dsf_split_add_prefix(s->tok->split, s->err) < 0)
        return in_file(s);
    if (regex && dsf_split_add_regex(s->tok->split, dsf_gpt2_regex, s->err) < 0)
        return in_file(s);
    return DSFLOW_OK;
}

/* Digits are what Rust has for numbers, which knows those of Unicode 17. */
#define NUMBER "[\\p{N}\\x{11de0}-\\x{11de9}\\x{16ff4}-\\x{16ff6}]"

static int read_digits(const struct source *s, const json_t *step)
{
    bool each;
    int status = read_flag(s, step, "pre_tokenizer: Digits",
                           "individual_digits", false, &each);

    if (status == DSFLOW_OK &&
        dsf_split_add_regex(s->tok->split, each ? NUMBER : NUMBER "+", s->err) <
            0)
        status = in_file(s);
    return status;
}

static int read_step(const struct source *s, const json_t *step,
                     bool *byte_level)
{
    const char *kind = kind_of(step);

    if (*byte_level)
        return REFUSE(s, "pre_tokenizer: %s after ByteLevel is not supported",
                      kind);
    if (strcmp(kind, "ByteLevel") == 0)
        return read_byte_level(s, step, byte_level);
    if (strcmp(kind, "Split") == 0)
        return read_split(s, step);
    if (strcmp(kind, "Digits") == 0)
        return read_digits(s, step);
    return REFUSE(s,
                  "pre_tokenizer: type %s is not supported; expected "
                  "ByteLevel, Split, Digits or a Sequence of them",
                  kind);
}

static int read_pre_tokenizer(const struct source *s, const json_t *pre)
{
    const json_t *steps = get(pre, "pretokenizers");
    bool byte_level = false;
    int status = DSFLOW_OK;

    if (pre != NULL && strcmp(kind_of(pre), "Sequence") != 0)
        status = read_step(s, pre, &byte_level);
    else if (pre != NULL && !json_is_array(steps))
        status = REFUSE(s, "pre_tokenizer: pretokenizers: expected an array");
    else
        for (size_t i = 0; i < json_array_size(steps) && status == DSFLOW_OK;
             i++)
            status = read_step(s, json_array_get(steps, i), &byte_level);
    if (status == DSFLOW_OK && !byte_level)
        return REFUSE(s, "pre_tokenizer: without ByteLevel it is not "
                         "supported");
    return status;
}

/* The one token that a template has before a text. */
static void find_begin(const struct source *s, const json_t *post)
{
    const json_t *parts = get(post, "single"), *known, *ids;
    const char *name = json_string_value(
        get(get(json_array_get(parts, 0), "SpecialToken"), "id"));

    if (name == NULL || get(json_array_get(parts, 1), "Sequence") == NULL)
        return;
    known = get(get(post, "special_tokens"), name);
    ids = get(known, "ids");
    if (json_array_size(ids) == 1 && json_is_integer(json_array_get(ids, 0)))
        s->tok->begin = (int32_t)json_integer_value(json_array_get(ids, 0));
}

/* A post-processor puts tokens around a text for a model's use of it; text to
 * train on stays as it is, but for data.begin. */
static int read_post_processor(const struct source *s, const json_t *post)
{
    const json_t *steps = get(post, "processors");
    const char *kind = kind_of(post);
    int status = DSFLOW_OK;

    if (strcmp(kind, "TemplateProcessing") == 0)
        find_begin(s, post);
    if (post == NULL || strcmp(kind, "ByteLevel") == 0 ||
        strcmp(kind, "TemplateProcessing") == 0)
        return DSFLOW_OK;
    if (strcmp(kind, "Sequence") != 0 || !json_is_array(steps))
        return REFUSE(s,
                      "post_processor: type %s is not supported; expected "
                      "ByteLevel, TemplateProcessing or a Sequence of them",
                      kind);
    for (size_t i = 0; i < json_array_size(steps) && status == DSFLOW_OK; i++)
        status = read_post_processor(s, json_array_get(steps, i));
    return status;
}

static int read_normalizer(const struct source *s, const json_t *normalizer)
{
    const json_t *steps = get(normalizer, "normalizers");
    const char *kind = kind_of(normalizer);
    int status = DSFLOW_OK;

    if (normalizer == NULL)
        return DSFLOW_OK;
    if (strcmp(kind, "NFC") == 0) {
        s->tok->nfc = true;
        return DSFLOW_OK;
    }
    if (strcmp(kind, "Sequence") != 0)
        return REFUSE(s,
                      "normalizer: type %s is not supported; expected NFC, a "
                      "Sequence of it, or none",
                      kind);
    if (!json_is_array(steps))
        return REFUSE(s, "normalizer: normalizers: expected an array");
    for (size_t i = 0; i < json_array_size(steps) && status == DSFLOW_OK; i++)
        status = read_normalizer(s, json_array_get(steps, i));
    return status;
}

static int check_decoder(const struct source *s, const json_t *decoder)
{
    if (decoder == NULL || strcmp(kind_of(decoder), "ByteLevel") == 0)
        return DSFLOW_OK;
    return REFUSE(s, "decoder: type %s is not supported; expected ByteLevel",
                  kind_of(decoder));
}

static int read_around(const struct source *s, const json_t *all)
{
    int status = read_normalizer(s, get(all, "normalizer"));

    if (status == DSFLOW_OK)
        status = read_pre_tokenizer(s, get(all, "pre_tokenizer"));
    return status == DSFLOW_OK ? check_decoder(s, get(all, "decoder")) : status;
}

static bool is_added(const struct dsf_tokenizer *tok, int32_t id)
{
    for (unsigned i = 0; i < tok->nadded; i++)
        if (tok->added[i].id == id)
            return true;
    return false;
}

static int32_t find_eot(const struct dsf_tokenizer *tok)
{
    static const char *const names[] = {
        "<|endoftext|>",
        "<|end_of_text|>",
        "<\uff5cend\u2581of\u2581sentence\uff5c>",
        "</s>",
        "<eos>",
    };

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        for (unsigned j = 0; j < tok->nadded; j++)
            if (strcmp(tok->added[j].text, names[i]) == 0)
                return tok->added[j].id;
    return -1;
}

int dsf_tokenizer_parse_json(struct dsf_tokenizer *tok, const char *text,
                             size_t n, const char *path, struct dsflow_err *err)
{
    struct source s = { tok, path, err, false };
    struct dsf_pieces pieces = { false, false };
    json_t *all;
    int status = dsf_json_parse(text, n, path, &all, err);

    if (status < 0)
        return status;
    tok->bpe = dsf_bpe_new();
    tok->split = dsf_split_new();
    dsf_tokenizer_add_file(tok, path, text, n);
    /* What is cheap to refuse comes first. */
    status = json_is_object(all) ? check_model(&s, get(all, "model"))
                                 : REFUSE(&s, "expected an object");
    if (status == DSFLOW_OK)
        status =
            s.pieces ? dsf_pieces_read(&s, all, &pieces) : read_around(&s, all);
    if (status == DSFLOW_OK)
        status = read_post_processor(&s, get(all, "post_processor"));
    if (status == DSFLOW_OK)
        status = read_model(&s, get(all, "model"));
    if (status == DSFLOW_OK && s.pieces)
        status = dsf_pieces_cut(&s, &pieces);
    if (status == DSFLOW_OK)
        status = dsf_added_read(&s, get(all, "added_tokens"));
    json_decref(all);
    if (status < 0)
        return status;
    tok->eot = find_eot(tok);
    if (!dsf_bpe_has(tok->bpe, tok->begin) && !is_added(tok, tok->begin))
        tok->begin = -1;
    return dsf_tokenizer_finish(tok, path, err);
}

int dsf_tokenizer_read_json(struct dsf_tokenizer *tok, const char *path,
                            struct dsflow_err *err)
{
    char *text;
    size_t n;
    int status = dsf_file_load(path, DSF_MOST_VOCAB, &text, &n, err);

    if (status == DSFLOW_OK)
        status = dsf_tokenizer_parse_json(tok, text, n, path, err);
    free(text);
    return status;
}
