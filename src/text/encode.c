/* encode.c - from text to tokens: cut at added tokens, brought into normal
 * form C, and given to the lanes, which split it in words. */
#include "text/encode.h"

#include "base/alloc.h"
#include "base/utf8.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/normal.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

/* Bytes that are looked at together. */
#define STRETCH ((size_t)1 << 20)

/* A text in normal form has so many bytes in memory, or is in a file. */
#define IN_MEMORY ((size_t)64 << 20)

struct dsf_encoder {
    const struct dsf_tokenizer *tok;
    const struct dsf_encoding *to;
    struct dsflow_err *err;
    struct dsf_encoding own; /* of the lanes */
    struct dsf_lanes *lanes;
    bool special;             /* look for added tokens */
    const char *text;         /* the beginning of what is encoded */
    struct dsf_normal normal; /* what is being encoded */
};

/* How much of a text is valid. */
static size_t valid(struct dsf_encoder *e, const char *text, size_t n)
{
    size_t at = 0, some;

    do { /* what cuts a character is valid up to there */
        some = n - at < STRETCH ? n - at : STRETCH;
        some = dsf_utf8_valid(text + at, some);
        at += some;
        dsf_lanes_has_read(e->lanes, some);
    } while (some > 0);
    return at;
}

/* Does a text between added tokens get a space in front? */
static bool leads(const struct dsf_encoder *e, const char *text, size_t n)
{
    const size_t space = sizeof(DSF_SPACE) - 1;
    bool has =
        text[0] == ' ' || (n >= space && memcmp(text, DSF_SPACE, space) == 0);

    switch (e->tok->lead) {
    case DSF_LEAD_FIRST:
        return text == e->text && !has;
    case DSF_LEAD_EACH:
        return !has;
    default:
        return e->tok->lead == DSF_LEAD_ALL;
    }
}

/* What is no UTF-8 is a word of its own: no expression has a say in it, and no
 * byte is lost. */
static int encode_plain(struct dsf_encoder *e, const char *text, size_t n)
{
    int status = DSFLOW_OK;
    size_t at = 0, len;

    if (n > 0 && leads(e, text, n))
        dsf_lanes_lead(e->lanes);
    while (at < n && status == DSFLOW_OK) {
        len = valid(e, text + at, n - at);
        status = dsf_lanes_text(e->lanes, text + at, len);
        at += len;
        if (at == n || status < 0)
            break;
        len = dsf_utf8_invalid(text + at, n - at);
        status = dsf_lanes_word(e->lanes, text + at, len);
        at += len;
    }
    return status;
}

static int encode_added(struct dsf_encoder *e, int late, const char *text,
                        size_t n);

static void has_read(void *user, size_t n)
{
    struct dsf_encoder *e = user;

    dsf_lanes_has_read(e->lanes, n);
}

/* What lies between the tokens that stand in the text as it is. */
static int encode_between(struct dsf_encoder *e, const char *text, size_t n)
{
    const struct dsf_normalizing how = { e->to->folder, IN_MEMORY, has_read,
                                         e };
    int status = DSFLOW_OK;

    e->normal = (struct dsf_normal){ .text = text, .n = n };
    if (e->tok->nfc)
        status = dsf_normal_init(&e->normal, text, n, &how, e->err);
    if (status == DSFLOW_OK)
        status = e->special ? encode_added(e, 1, e->normal.text, e->normal.n)
                            : encode_plain(e, e->normal.text, e->normal.n);
    dsf_lanes_keep(e->lanes, e->normal);
    e->normal = (struct dsf_normal){ .text = NULL };
    return status;
}

/* Cut at added tokens: first those of the text as it is, then the late ones. */
static int encode_added(struct dsf_encoder *e, int late, const char *text,
                        size_t n)
{
    int (*encode_rest)(struct dsf_encoder *, const char *, size_t) =
        late ? encode_plain : encode_between;
    const struct dsf_added *a;
    size_t done = 0, at = 0;
    int status = DSFLOW_OK;

    if (e->tok->starts[late] == NULL)
        return encode_rest(e, text, n);
    while (at < n && status == DSFLOW_OK) {
        size_t from = at, end = n - at < STRETCH ? n : at + STRETCH;

        a = dsf_added_find(e->tok, late, text, n, &at, end);
        dsf_lanes_has_read(e->lanes, at - from);
        if (a == NULL)
            continue;
        status = encode_rest(e, text + done, at - done);
        if (status == DSFLOW_OK)
            status = dsf_lanes_token(e->lanes, a->id);
        at += a->bytes;
        done = at;
    }
    if (status == DSFLOW_OK && done < n)
        status = encode_rest(e, text + done, n - done);
    return status;
}

static int encode_bytes(struct dsf_encoder *e, const char *text, size_t n)
{
    int status = DSFLOW_OK;

    for (size_t at = 0, some; at < n && status == DSFLOW_OK; at += some) {
        some = n - at < STRETCH ? n - at : STRETCH;
        status = dsf_lanes_word(e->lanes, text + at, some);
    }
    return status;
}

static void take(void *user, const int32_t *ids, size_t n)
{
    const struct dsf_encoder *e = user;

    e->to->take(e->to->user, ids, n);
}

static void let_go(void *user)
{
    const struct dsf_encoder *e = user;

    e->to->let_go(e->to->user);
    dsf_normal_let_go(&e->normal);
}

struct dsf_encoder *dsf_encoder_new(const struct dsf_tokenizer *tok,
                                    struct dsf_lanes_size size,
                                    const struct dsf_encoding *to,
                                    struct dsflow_err *err)
{
    struct dsf_encoder *e = dsf_xcalloc(1, sizeof(*e));

    e->tok = tok;
    e->to = to;
    e->err = err;
    e->own = (struct dsf_encoding){ take, let_go, e, NULL };
    if (tok->bpe == NULL) /* reading them is all the work */
        size.lanes = 1;
    e->lanes = dsf_lanes_new(tok, size, &e->own, err);
    return e;
}

void dsf_encoder_free(struct dsf_encoder *e)
{
    dsf_lanes_free(e->lanes);
    free(e);
}

int dsf_encoder_text(struct dsf_encoder *e, const char *name, const char *text,
                     size_t bytes, int special)
{
    if (e->tok->bpe == NULL)
        return encode_bytes(e, text, bytes);
    e->special = special;
    e->text = text;
    dsf_lanes_name(e->lanes, name);
    return special ? encode_added(e, 0, text, bytes)
                   : encode_between(e, text, bytes);
}

void dsf_encoder_keep(struct dsf_encoder *e, char *text)
{
    dsf_lanes_keep(e->lanes, (struct dsf_normal){ .memory = text });
}

int dsf_encoder_token(struct dsf_encoder *e, int32_t id)
{
    return dsf_lanes_token(e->lanes, id);
}

int dsf_encoder_end(struct dsf_encoder *e)
{
    return dsf_lanes_end(e->lanes);
}

static void append(void *user, const int32_t *ids, size_t n)
{
    struct dsf_tokens *out = user;

    dsf_grow(&out->v, &out->cap, out->n + n, sizeof(*out->v));
    memcpy(out->v + out->n, ids, n * sizeof(*ids));
    out->n += n;
}

static void let_stay(void *user)
{
    (void)user;
}

int dsf_encode(const struct dsf_tokenizer *tok, const char *text, size_t bytes,
               int special, struct dsf_tokens *out, struct dsflow_err *err)
{
    const struct dsf_encoding to = { append, let_stay, out, NULL };
    const struct dsf_lanes_size one = { 1, STRETCH };
    struct dsf_encoder *e = dsf_encoder_new(tok, one, &to, err);
    int status = dsf_encoder_text(e, NULL, text, bytes, special);

    if (status == DSFLOW_OK)
        status = dsf_encoder_end(e);
    dsf_encoder_free(e);
    return status;
}
