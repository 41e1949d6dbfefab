/* tokenizer.c - from text to tokens and back: bytes, or byte pairs. */
#include "text/tokenizer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/nfc.h"
#include "text/split.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* Part of every hash: to be raised when the same files give other tokens. */
#define RULES 1u

/* For less text, a cache costs more than it saves. */
#define ENOUGH 2048u

/* Tokens that are passed on together. */
#define MUCH ((size_t)1 << 16)

/* Bytes that are looked at together. */
#define STRETCH ((size_t)1 << 20)

/* Every byte as a string of one. */
static const char *byte_text(int32_t id)
{
#define B1(n)  (char)(n)
#define B4(n)  B1(n), B1((n) + 1), B1((n) + 2), B1((n) + 3)
#define B16(n) B4(n), B4((n) + 4), B4((n) + 8), B4((n) + 12)
#define B64(n) B16(n), B16((n) + 16), B16((n) + 32), B16((n) + 48)
    static const char all[] = { B64(0), B64(64), B64(128), B64(192) };
#undef B64
#undef B16
#undef B4
#undef B1
    return all + id;
}

int dsf_tokenizer_open(const char *spec, struct dsf_tokenizer **tok,
                       struct dsflow_err *err)
{
    struct dsf_tokenizer *t = dsf_tokenizer_new();
    int status = DSFLOW_OK;
    struct stat st;

    *tok = NULL;
    if (strcmp(spec, "bytes") == 0)
        t->vocab = 256;
    else if (stat(spec, &st) < 0)
        status = dsflow_fail(err, DSFLOW_EINVAL,
                             "%s: %s; expected \"bytes\", a tokenizer.json "
                             "or a folder",
                             spec, strerror(errno));
    else if (S_ISDIR(st.st_mode))
        status = dsf_tokenizer_read_folder(t, spec, err);
    else
        status = dsf_tokenizer_read_json(t, spec, err);
    if (status < 0) {
        dsf_tokenizer_free(t);
        return status;
    }
    if (dsf_tokenizer_holes(t) > 0)
        dsf_warn_of_job("tokenizer %s: %d of the %d ids have no token", spec,
                        (int)dsf_tokenizer_holes(t), (int)t->vocab);
    *tok = t;
    return DSFLOW_OK;
}

struct dsf_tokenizer *dsf_tokenizer_new(void)
{
    struct dsf_tokenizer *t = dsf_xcalloc(1, sizeof(*t));

    t->files = dsf_xcalloc(3, sizeof(*t->files));
    t->eot = -1;
    t->hash = RULES;
    return t;
}

void dsf_tokenizer_free(struct dsf_tokenizer *tok)
{
    if (tok == NULL)
        return;
    dsf_bpe_free(tok->bpe);
    dsf_split_free(tok->split);
    for (unsigned i = 0; i < tok->nadded; i++)
        free(tok->added[i].text);
    free(tok->added);
    free(tok->starts[0]);
    free(tok->starts[1]);
    for (char **f = tok->files; *f != NULL; f++)
        free(*f);
    free(tok->files);
    free(tok);
}

void dsf_tokenizer_add_file(struct dsf_tokenizer *tok, const char *path,
                            const char *contents, size_t n)
{
    unsigned i = 0;

    while (tok->files[i] != NULL)
        i++;
    tok->files[i] = dsf_xstrdup(path);
    tok->hash = XXH3_64bits_withSeed(contents, n, tok->hash);
}

void dsf_tokenizer_add(struct dsf_tokenizer *tok, const char *text, size_t n,
                       int32_t id, bool late)
{
    dsf_grow(&tok->added, &tok->added_cap, tok->nadded + 1,
             sizeof(*tok->added));
    tok->added[tok->nadded++] =
        (struct dsf_added){ dsf_xstrndup(text, n), n, id, late };
}

int32_t dsf_tokenizer_holes(const struct dsf_tokenizer *tok)
{
    int32_t there = 0;

    if (tok->bpe == NULL)
        return 0;
    for (unsigned i = 0; i < tok->nadded; i++)
        there += !dsf_bpe_has(tok->bpe, tok->added[i].id);
    return tok->vocab - there - (int32_t)dsf_bpe_count(tok->bpe);
}

/* A vocabulary in which every byte is a token of its own, with its value for an
 * id, is what "bytes" is, and has its hash. */
static void reduce_to_bytes(struct dsf_tokenizer *tok)
{
    if (tok->vocab != 256 || tok->nadded > 0 || tok->nfc || tok->prefix ||
        !dsf_bpe_is_bytes(tok->bpe))
        return;
    dsf_bpe_free(tok->bpe);
    dsf_split_free(tok->split);
    tok->bpe = NULL;
    tok->split = NULL;
    tok->hash = RULES;
}

int dsf_tokenizer_finish(struct dsf_tokenizer *tok, const char *path,
                         struct dsflow_err *err)
{
    int32_t holes;

    tok->vocab = dsf_bpe_vocab(tok->bpe);
    for (unsigned i = 0; i < tok->nadded; i++)
        if (tok->added[i].id >= tok->vocab)
            tok->vocab = tok->added[i].id + 1;
    dsf_added_index(tok);
    holes = dsf_tokenizer_holes(tok);
    if (holes > tok->vocab / 2)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: the highest id is %d, and there are %d tokens: "
                           "expected ids that follow each other",
                           path, (int)tok->vocab - 1, (int)(tok->vocab - holes));
    reduce_to_bytes(tok);
    return DSFLOW_OK;
}

bool dsf_tokenizer_is_bytes(const struct dsf_tokenizer *tok)
{
    return tok->bpe == NULL;
}

bool dsf_tokenizer_same(const struct dsf_tokenizer *a,
                        const struct dsf_tokenizer *b)
{
    if (a->hash == b->hash)
        return true;
    if (a->vocab != b->vocab)
        return false;
    for (int32_t id = 0; id < a->vocab; id++) {
        size_t na, nb;
        const char *x = dsf_decode(a, id, &na), *y = dsf_decode(b, id, &nb);

        if (na != nb || memcmp(x, y, na) != 0)
            return false;
    }
    return true;
}

int32_t dsf_tokenizer_vocab(const struct dsf_tokenizer *tok)
{
    return tok->vocab;
}

/* A token is of one byte at least; of the text as it is split: normal form C
 * has up to three times the bytes (Unicode Standard Annex 15, 9), and each
 * piece between added tokens, which is not empty, may get a space in front. */
int64_t dsf_tokenizer_most(const struct dsf_tokenizer *tok, int64_t bytes)
{
    return bytes * ((tok->nfc ? 3 : 1) + (tok->prefix ? 1 : 0));
}

int32_t dsf_tokenizer_eot(const struct dsf_tokenizer *tok)
{
    return tok->eot;
}

uint64_t dsf_tokenizer_hash(const struct dsf_tokenizer *tok)
{
    return tok->hash;
}

const char *const *dsf_tokenizer_files(const struct dsf_tokenizer *tok)
{
    return (const char *const *)tok->files;
}

void dsf_tokens_fini(struct dsf_tokens *t)
{
    free(t->v);
    *t = (struct dsf_tokens){ 0 };
}

/* A text on its way to tokens. */
struct encoder {
    const struct dsf_tokenizer *tok;
    struct dsf_splitter *splitter;
    struct dsf_bpe_cache *cache; /* or NULL */
    bool special;                /* look for added tokens */
    struct dsf_tokens *out;
    const struct dsf_encoding *to; /* NULL: all stay in `out` */
    size_t read;                   /* bytes, since they were let go */
    struct dsflow_err *err;
};

static void pass_on(struct encoder *e, size_t much)
{
    if (e->to == NULL || e->out->n < much)
        return;
    e->to->take(e->to->user, e->out->v, e->out->n);
    e->out->n = 0;
}

static void has_read(struct encoder *e, size_t n)
{
    static const size_t much = (size_t)64 << 20;

    e->read += n;
    if (e->to == NULL || e->read < much)
        return;
    e->to->let_go(e->to->user);
    e->read = 0;
}

static void put_word(void *user, const char *word, size_t n)
{
    struct encoder *e = user;

    dsf_bpe_encode(e->tok->bpe, e->cache, word, n, e->out);
    pass_on(e, MUCH);
    has_read(e, n);
}

/* How much of a text is valid. */
static size_t valid(struct encoder *e, const char *text, size_t n)
{
    size_t at = 0, some;

    do { /* what cuts a character is valid up to there */
        some = n - at < STRETCH ? n - at : STRETCH;
        some = dsf_utf8_valid(text + at, some);
        at += some;
        has_read(e, some);
    } while (some > 0);
    return at;
}

/* What is no UTF-8 is a word of its own: no expression has a say in it, and no
 * byte is lost. */
static int encode_plain(struct encoder *e, const char *text, size_t n)
{
    int status = DSFLOW_OK;
    size_t at = 0, len;

    while (at < n && status == DSFLOW_OK) {
        len = valid(e, text + at, n - at);
        status =
            dsf_split_text(e->splitter, text + at, len, put_word, e, e->err);
        at += len;
        if (at == n || status < 0)
            break;
        len = dsf_utf8_invalid(text + at, n - at);
        put_word(e, text + at, len);
        at += len;
    }
    return status;
}

static int encode_added(struct encoder *e, int late, const char *text,
                        size_t n);

/* What lies between the tokens that stand in the text as it is. */
static int encode_between(struct encoder *e, const char *text, size_t n)
{
    size_t bytes = n;
    char *normal = e->tok->nfc ? dsf_nfc(text, n, &bytes) : NULL;
    int status;

    if (normal != NULL)
        text = normal;
    status = e->special ? encode_added(e, 1, text, bytes)
                        : encode_plain(e, text, bytes);
    free(normal);
    return status;
}

/* Cut at added tokens: first those of the text as it is, then the late ones. */
static int encode_added(struct encoder *e, int late, const char *text, size_t n)
{
    int (*encode_rest)(struct encoder *, const char *, size_t) =
        late ? encode_plain : encode_between;
    const struct dsf_added *a;
    size_t done = 0, at = 0;
    int status = DSFLOW_OK;

    if (e->tok->starts[late] == NULL)
        return encode_rest(e, text, n);
    while (at < n && status == DSFLOW_OK) {
        size_t from = at, end = n - at < STRETCH ? n : at + STRETCH;

        a = dsf_added_find(e->tok, late, text, n, &at, end);
        has_read(e, at - from);
        if (a == NULL)
            continue;
        status = encode_rest(e, text + done, at - done);
        dsf_grow(&e->out->v, &e->out->cap, e->out->n + 1, sizeof(*e->out->v));
        e->out->v[e->out->n++] = a->id;
        pass_on(e, MUCH);
        at += a->bytes;
        done = at;
    }
    if (status == DSFLOW_OK && done < n)
        status = encode_rest(e, text + done, n - done);
    return status;
}

static void encode_bytes(struct encoder *e, const char *text, size_t n)
{
    struct dsf_tokens *out = e->out;
    size_t some;

    for (; n > 0; text += some, n -= some) {
        some = e->to != NULL && n > MUCH ? MUCH : n;
        dsf_grow(&out->v, &out->cap, out->n + some, sizeof(*out->v));
        for (size_t i = 0; i < some; i++)
            out->v[out->n++] = (unsigned char)text[i];
        pass_on(e, MUCH);
        has_read(e, some);
    }
}

static int encode(struct encoder *e, const char *text, size_t bytes)
{
    int status;

    if (e->tok->bpe == NULL) {
        encode_bytes(e, text, bytes);
        return DSFLOW_OK;
    }
    e->splitter = dsf_splitter_new(e->tok->split);
    if (bytes >= ENOUGH)
        e->cache = dsf_bpe_cache_new();
    status = e->special ? encode_added(e, 0, text, bytes)
                        : encode_between(e, text, bytes);
    dsf_bpe_cache_free(e->cache);
    dsf_splitter_free(e->splitter);
    return status;
}

int dsf_encode(const struct dsf_tokenizer *tok, const char *text, size_t bytes,
               int special, struct dsf_tokens *out, struct dsflow_err *err)
{
    struct encoder e = {
        .tok = tok, .special = special, .out = out, .err = err
    };

    return encode(&e, text, bytes);
}

int dsf_encode_each(const struct dsf_tokenizer *tok, const char *text,
                    size_t bytes, int special, const struct dsf_encoding *to,
                    struct dsflow_err *err)
{
    struct dsf_tokens some = { 0 };
    struct encoder e = {
        .tok = tok, .special = special, .out = &some, .to = to, .err = err
    };
    int status = encode(&e, text, bytes);

    if (status == DSFLOW_OK)
        pass_on(&e, 1);
    dsf_tokens_fini(&some);
    return status;
}

const char *dsf_decode(const struct dsf_tokenizer *tok, int32_t id, size_t *n)
{
    if (tok->bpe == NULL) {
        *n = id >= 0 && id < 256;
        return *n == 1 ? byte_text(id) : "";
    }
    for (unsigned i = 0; i < tok->nadded; i++)
        if (tok->added[i].id == id) {
            *n = tok->added[i].bytes;
            return tok->added[i].text;
        }
    return dsf_bpe_bytes(tok->bpe, id, n);
}
