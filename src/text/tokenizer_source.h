/* tokenizer_source.h - tokenizer.json as it is read: what its parts have in
 * common. */
#ifndef DSF_TEXT_TOKENIZER_SOURCE_H
#define DSF_TEXT_TOKENIZER_SOURCE_H

#include <jansson.h>
#include <string.h>

#include "text/tokenizer.h"

/* What is being read, for messages. */
struct source {
    struct dsf_tokenizer *tok;
    const char *path;
    struct dsflow_err *err;
    bool pieces; /* tokens are of characters: tokenizer_pieces.c */
};

#define REFUSE(s, ...)                                                         \
    (dsflow_fail((s)->err, DSFLOW_EINVAL, __VA_ARGS__), in_file(s))

static inline int in_file(const struct source *s)
{
    return dsflow_fail_in(s->err, DSFLOW_EINVAL, s->path);
}

/* The member `key` where it says something: not absent, not null. */
static inline json_t *get(const json_t *object, const char *key)
{
    json_t *value = json_object_get(object, key);

    return json_is_null(value) ? NULL : value;
}

static inline const char *kind_of(const json_t *object)
{
    const char *kind = json_string_value(json_object_get(object, "type"));

    return kind != NULL ? kind : "without a type";
}

/* A flag that may be absent. */
static inline int read_flag(const struct source *s, const json_t *object,
                            const char *where, const char *key, bool missing,
                            bool *flag)
{
    json_t *value = get(object, key);

    *flag = value != NULL ? json_is_true(value) : missing;
    if (value != NULL && !json_is_boolean(value))
        return REFUSE(s, "%s: %s: expected true or false", where, key);
    return DSFLOW_OK;
}

/* Of SentencePiece's kind: what surrounds the model, before it is read; then
 * how its words are cut. */
struct dsf_pieces {
    bool replaces; /* the normalizer makes U+2581 of spaces */
    bool splits;   /* each space begins a word */
};
int dsf_pieces_read(const struct source *s, const json_t *all,
                    struct dsf_pieces *pieces);
int dsf_pieces_cut(const struct source *s, const struct dsf_pieces *pieces);

/* tokenizer_added.c: added_tokens, after the vocabulary. */
int dsf_added_read(const struct source *s, const json_t *added);

#endif
