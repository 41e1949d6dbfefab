/* tokenizer.c - what a tokenizer has: bytes, or byte pairs. */
#include "text/tokenizer.h"

#include "base/alloc.h"
#include "base/log.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/split.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

/* Part of every hash: to be raised when the same files give other tokens. */
#define RULES 1u

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

/* Of the ids below the size of the vocabulary, those without a token. */
static int32_t count_holes(const struct dsf_tokenizer *tok)
{
    int32_t there = 0;

    if (tok->bpe == NULL)
        return 0;
    for (unsigned i = 0; i < tok->nadded; i++)
        there += !dsf_bpe_has(tok->bpe, tok->added[i].id);
    return tok->vocab - there - (int32_t)dsf_bpe_count(tok->bpe);
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
    if (count_holes(t) > 0)
        dsf_warn_of_job("tokenizer %s: %d of the %d ids have no token", spec,
                        (int)count_holes(t), (int)t->vocab);
    *tok = t;
    return DSFLOW_OK;
}

struct dsf_tokenizer *dsf_tokenizer_new(void)
{
    struct dsf_tokenizer *t = dsf_xcalloc(1, sizeof(*t));

    t->files = dsf_xcalloc(3, sizeof(*t->files));
    t->eot = t->begin = -1;
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
    free(tok->ends);
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
    holes = count_holes(tok);
    if (holes > tok->vocab / 2)
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "%s: the highest id is %d, and there are %d tokens: "
                           "expected ids that follow each other",
                           path, (int)tok->vocab - 1, (int)(tok->vocab - holes));
    reduce_to_bytes(tok);
    return DSFLOW_OK;
}

int32_t dsf_tokenizer_find(const struct dsf_tokenizer *tok, const char *text)
{
    for (unsigned i = 0; text != NULL && i < tok->nadded; i++)
        if (strcmp(tok->added[i].text, text) == 0)
            return tok->added[i].id;
    return text != NULL && tok->bpe != NULL
               ? dsf_bpe_find(tok->bpe, text, strlen(text))
               : -1;
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
    return bytes * ((tok->nfc ? 3 : 1) +
                    (tok->prefix || tok->lead != DSF_LEAD_NONE ? 1 : 0));
}

int32_t dsf_tokenizer_eot(const struct dsf_tokenizer *tok)
{
    return tok->eot;
}

bool dsf_tokenizer_is_end(const struct dsf_tokenizer *tok, int32_t id)
{
    bool is = id == tok->eot;

    for (unsigned i = 0; i < tok->nends && !is; i++)
        is = id == tok->ends[i];
    return is;
}

int32_t dsf_tokenizer_begin(const struct dsf_tokenizer *tok)
{
    return tok->begin;
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
