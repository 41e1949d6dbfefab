/* corpus.c - the text of a job as sequences of tokens: split in training and
 * validation, and shuffled. */
#include "text/text.h"

#include "base/alloc.h"
#include "base/log.h"
#include "text/text_files.h"
#include "text/token_cache.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct dsf_corpus {
    struct dsf_token_store store;
    struct dsf_corpus_info info;
    int64_t sequence;
    uint64_t seed;
    bool shuffle;

    const struct dsflow_batches *own; /* NULL: it is text */
    atomic_bool failed;               /* some of them were not to be had */
};

/* Text on its way to tokens. */
struct source {
    const struct dsf_job *job;
    const struct dsf_tokenizer *tok;
    struct dsf_text_files train, validation;
    size_t *cuts; /* of each train file: where its validation text begins */
};

/* Each file gives its last part, so that validation is made of the same kinds
 * of text as training, and never of the same text. The cut is at the end of
 * the line nearest to the exact place; where lines are too long for that, it
 * is between two characters. */
static size_t cut_of(const struct dsf_text_file *file, double share)
{
    size_t keep = (size_t)llround((double)file->bytes * share);
    size_t exact = file->bytes - keep;
    size_t window = keep / 2 > 4096 ? keep / 2 : 4096;

    if (keep == 0 || exact == 0)
        return file->bytes;
    for (size_t d = 0; d <= window; d++) {
        if (d < keep && file->text[exact + d - 1] == '\n')
            return exact + d;
        if (d < exact && file->text[exact - d - 1] == '\n')
            return exact - d;
    }
    while (exact < file->bytes && (file->text[exact] & 0xc0) == 0x80)
        exact++;
    return exact;
}

/* Where the files are, and where they are cut. */
static int find_source(struct source *s, struct dsflow_err *err)
{
    const struct dsf_job_data *data = &s->job->data;
    int status;

    if (data->train.n == 0)
        return dsf_job_fail(s->job, err, DSFLOW_EINVAL, "data", "train",
                            "%s: expected a file or more",
                            dsf_job_has(s->job, "data", "train") ? "[]"
                                                                 : "is missing");
    status = dsf_text_files_open(s->job, "train", &data->train, &s->train, err);
    if (status == DSFLOW_OK)
        status =
            dsf_text_files_open(s->job, "validation_files",
                                &data->validation_files, &s->validation, err);
    if (status < 0)
        return status;
    s->cuts = dsf_xcalloc(s->train.n, sizeof(*s->cuts));
    for (unsigned i = 0; i < s->train.n; i++)
        s->cuts[i] = data->validation_files.n > 0 || data->validation <= 0.0
                         ? s->train.v[i].bytes
                         : cut_of(&s->train.v[i], data->validation);
    return DSFLOW_OK;
}

/* Is it text? That reads all of it. */
static int check_source(const struct source *s, struct dsflow_err *err)
{
    bool utf8 = !dsf_tokenizer_is_bytes(s->tok);
    int status = dsf_text_files_check(s->job, "train", &s->train, utf8, err);

    return status == DSFLOW_OK
               ? dsf_text_files_check(s->job, "validation_files",
                                      &s->validation, utf8, err)
               : status;
}

/* What is trained on says nothing of other text. A copy is found, too. */
static void warn_of_same(const struct source *s)
{
    for (unsigned i = 0; i < s->validation.n; i++)
        for (unsigned j = 0; j < s->train.n; j++) {
            const struct dsf_text_file *v = &s->validation.v[i];
            const struct dsf_text_file *t = &s->train.v[j];

            if (v->bytes != t->bytes || memcmp(v->text, t->text, t->bytes) != 0)
                continue;
            dsf_warn("data: validation_files: %s: the same text is in train, "
                     "as %s",
                     v->path, t->path);
            return;
        }
}

static void close_source(struct source *s)
{
    dsf_text_files_close(&s->train);
    dsf_text_files_close(&s->validation);
    free(s->cuts);
}

/* What decides the tokens and their split. */
static uint64_t key_of(const struct source *s)
{
    XXH3_state_t *state = XXH3_createState();
    uint64_t words[3] = { dsf_tokenizer_hash(s->tok), s->train.n,
                          s->validation.n };
    uint64_t key;

    XXH3_64bits_reset(state);
    XXH3_64bits_update(state, words, sizeof(words));
    for (unsigned i = 0; i < s->train.n; i++) {
        words[0] = s->train.v[i].bytes;
        words[1] = s->cuts[i];
        words[2] = XXH3_64bits(s->train.v[i].text, s->train.v[i].bytes);
        XXH3_64bits_update(state, words, sizeof(words));
    }
    for (unsigned i = 0; i < s->validation.n; i++) {
        words[0] = words[1] = s->validation.v[i].bytes;
        words[2] =
            XXH3_64bits(s->validation.v[i].text, s->validation.v[i].bytes);
        XXH3_64bits_update(state, words, sizeof(words));
    }
    key = XXH3_64bits_digest(state);
    XXH3_freeState(state);
    return key;
}

struct builder {
    const struct dsf_tokenizer *tok;
    unsigned width;
    char *tokens; /* packed */
    size_t cap;   /* bytes */
    uint64_t n;
    uint32_t most;
    struct dsf_tokens piece; /* of the text at hand */
};

static void pack(struct builder *b)
{
    dsf_grow(&b->tokens, &b->cap, (b->n + b->piece.n) * b->width, 1);
    for (size_t i = 0; i < b->piece.n; i++) {
        uint32_t id = (uint32_t)b->piece.v[i];

        if (id > b->most)
            b->most = id;
        if (b->width == 2)
            ((uint16_t *)b->tokens)[b->n++] = (uint16_t)id;
        else
            ((uint32_t *)b->tokens)[b->n++] = id;
    }
    b->piece.n = 0;
}

static int add_text(struct builder *b, const struct dsf_text_file *file,
                    size_t from, size_t to, struct dsflow_err *err)
{
    /* Bytes can be cut anywhere, which keeps what is not packed yet small. */
    size_t most =
        dsf_tokenizer_is_bytes(b->tok) ? (size_t)1 << 20 : SIZE_MAX;
    int32_t eot = dsf_tokenizer_eot(b->tok);
    bool any = from < to;
    int status;

    while (from < to) {
        size_t n = to - from < most ? to - from : most;

        status = dsf_encode(b->tok, file->text + from, n, 1, &b->piece, err);
        if (status < 0)
            return dsflow_fail_in(err, status, file->path);
        pack(b);
        from += n;
    }
    if (any && eot >= 0) {
        dsf_grow(&b->piece.v, &b->piece.cap, 1, sizeof(*b->piece.v));
        b->piece.v[b->piece.n++] = eot;
        pack(b);
    }
    return DSFLOW_OK;
}

static int encode_source(const struct source *s, struct dsf_token_store *store,
                         struct dsflow_err *err)
{
    struct builder b = {
        .tok = s->tok,
        .width = dsf_tokenizer_vocab(s->tok) <= 65536 ? 2 : 4,
    };
    int status = DSFLOW_OK;
    uint64_t train;

    for (unsigned i = 0; i < s->train.n && status == DSFLOW_OK; i++)
        status = add_text(&b, &s->train.v[i], 0, s->cuts[i], err);
    train = b.n;
    for (unsigned i = 0; i < s->train.n && status == DSFLOW_OK; i++)
        status =
            add_text(&b, &s->train.v[i], s->cuts[i], s->train.v[i].bytes, err);
    for (unsigned i = 0; i < s->validation.n && status == DSFLOW_OK; i++)
        status =
            add_text(&b, &s->validation.v[i], 0, s->validation.v[i].bytes, err);
    dsf_tokens_fini(&b.piece);
    if (status < 0) {
        free(b.tokens);
        return status;
    }
    *store = (struct dsf_token_store){ .tokens = b.tokens,
                                       .width = b.width,
                                       .train = train,
                                       .validation = b.n - train,
                                       .most = b.most };
    return DSFLOW_OK;
}

static void count(struct dsf_corpus *c, const struct source *s)
{
    struct dsf_corpus_info *info = &c->info;
    int64_t kept = 0, tokens;

    for (unsigned i = 0; i < s->train.n; i++) {
        info->bytes += (int64_t)s->train.v[i].bytes;
        kept += (int64_t)(s->train.v[i].bytes - s->cuts[i]);
    }
    for (unsigned i = 0; i < s->validation.n; i++) {
        info->bytes += (int64_t)s->validation.v[i].bytes;
        kept += (int64_t)s->validation.v[i].bytes;
    }
    info->files = s->train.n + s->validation.n;
    info->train_tokens = (int64_t)c->store.train;
    info->validation_tokens = (int64_t)c->store.validation;
    /* The last token of a stream is a target only. */
    if (info->train_tokens > 0)
        info->train_sequences = (info->train_tokens - 1) / c->sequence;
    if (info->validation_tokens > 0)
        info->validation_sequences =
            (info->validation_tokens - 1) / c->sequence;
    if (kept == 0)
        kept = info->bytes;
    tokens = info->validation_tokens > 0 ? info->validation_tokens
                                         : info->train_tokens;
    info->bytes_per_token = tokens > 0 ? (double)kept / (double)tokens : 0.0;
}

/* Tokens of a text, or how many it has at most. */
struct amount {
    int64_t train, validation;
    const char *most; /* "" or "at most " */
};

/* Is there a sequence to train on, and one to validate on where it is asked
 * for? */
static int check_amount(const struct source *s, const struct amount *n,
                        int64_t sequence, int status, struct dsflow_err *err)
{
    const struct dsf_job *job = s->job;

    if (n->train <= sequence)
        return dsf_job_fail(job, err, status, "data", "train",
                            "%s%" PRId64
                            " tokens in %u file%s: expected at least %" PRId64
                            ", for one sequence",
                            n->most, n->train, s->train.n,
                            s->train.n == 1 ? "" : "s", sequence + 1);
    if (n->validation > sequence)
        return DSFLOW_OK;
    if (s->validation.n > 0)
        return dsf_job_fail(
            job, err, status, "data", "validation_files",
            "%s%" PRId64 " tokens in %u file%s: expected at least %" PRId64
            ", for one sequence",
            n->most, n->validation, s->validation.n,
            s->validation.n == 1 ? "" : "s", sequence + 1);
    if (job->data.validation > 0.0)
        return dsf_job_fail(job, err, status, "data", "validation",
                            "%g: %s%" PRId64 " of %s%" PRId64
                            " tokens: expected at least %" PRId64
                            ", for one sequence, or 0 for none",
                            job->data.validation, n->most, n->validation,
                            n->most, n->train + n->validation, sequence + 1);
    return DSFLOW_OK;
}

static int check(const struct dsf_corpus *c, const struct source *s,
                 int32_t vocab, struct dsflow_err *err)
{
    const struct dsf_job *job = s->job;
    struct amount n = { c->info.train_tokens, c->info.validation_tokens, "" };

    if (c->store.most >= (uint32_t)vocab)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "model", "vocab",
                            "%" PRId32 ": the text has token %" PRIu32
                            " of tokenizer %s; expected at least %" PRIu32,
                            vocab, c->store.most, job->data.tokenizer,
                            c->store.most + 1);
    return check_amount(s, &n, c->sequence, DSFLOW_EINVAL, err);
}

int dsf_corpus_check(const struct dsf_job *job, const struct dsf_tokenizer *tok,
                     int64_t sequence, struct dsflow_err *err)
{
    struct source s = { .job = job, .tok = tok };
    bool exact = dsf_tokenizer_is_bytes(tok);
    struct amount n = { 0, 0, exact ? "" : "at most " };
    int64_t end = exact ? 0 : 1; /* of a text */
    int status = find_source(&s, err);

    for (unsigned i = 0; i < s.train.n && status == DSFLOW_OK; i++) {
        int64_t cut = (int64_t)s.cuts[i], all = (int64_t)s.train.v[i].bytes;

        n.train += dsf_tokenizer_most(tok, cut) + end;
        n.validation += dsf_tokenizer_most(tok, all - cut) + end;
    }
    for (unsigned i = 0; i < s.validation.n && status == DSFLOW_OK; i++)
        n.validation +=
            dsf_tokenizer_most(tok, (int64_t)s.validation.v[i].bytes) + end;
    if (status == DSFLOW_OK)
        status = check_amount(&s, &n, sequence, DSFLOW_EFIT, err);
    close_source(&s);
    return status;
}

int dsf_corpus_open(const struct dsf_job *job, const struct dsf_tokenizer *tok,
                    int64_t sequence, int32_t vocab, const char *cache_dir,
                    struct dsf_corpus **corpus, struct dsflow_err *err)
{
    struct dsf_corpus *c = dsf_xcalloc(1, sizeof(*c));
    struct source s = { .job = job, .tok = tok };
    int status = find_source(&s, err);
    uint64_t key;

    if (status == DSFLOW_OK)
        status = check_source(&s, err);
    if (status == DSFLOW_OK)
        warn_of_same(&s);
    *corpus = NULL;
    c->sequence = sequence;
    c->seed = (uint64_t)job->main.seed;
    c->shuffle = job->data.shuffle;
    if (status < 0)
        goto out_close;
    key = key_of(&s);
    c->info.content = key;
    c->info.cached = dsf_token_cache_open(cache_dir, key, &c->store);
    if (!c->info.cached) {
        status = encode_source(&s, &c->store, err);
        if (status < 0)
            goto out_close;
        dsf_token_cache_write(cache_dir, key, &c->store);
    }
    count(c, &s);
    status = check(c, &s, vocab, err);
    if (status == DSFLOW_OK)
        *corpus = c;

out_close:
    close_source(&s);
    if (status < 0)
        dsf_corpus_close(c);
    return status;
}

int dsf_corpus_own(const struct dsflow_batches *own, struct dsf_corpus **corpus,
                   struct dsflow_err *err)
{
    struct dsf_corpus *c;

    if (own->size < sizeof(*own) || own->train == NULL || own->vocab <= 0 ||
        own->validation_sequences < 0 ||
        (own->validation_sequences > 0 && own->validation == NULL))
        return dsflow_fail(err, DSFLOW_EINVAL,
                           "batches: expected DSFLOW_BATCHES with a "
                           "vocabulary, a function `train`, and one for each "
                           "kind of sequence that there is");
    c = dsf_xcalloc(1, sizeof(*c));
    c->own = own;
    c->info.validation_sequences = own->validation_sequences;
    c->info.bytes_per_token = NAN;
    c->info.content = own->identity;
    *corpus = c;
    return DSFLOW_OK;
}

bool dsf_corpus_failed(const struct dsf_corpus *corpus)
{
    return atomic_load(&corpus->failed);
}

void dsf_corpus_close(struct dsf_corpus *corpus)
{
    if (corpus == NULL)
        return;
    dsf_token_store_fini(&corpus->store);
    free(corpus);
}

void dsf_corpus_info(const struct dsf_corpus *corpus,
                     struct dsf_corpus_info *info)
{
    *info = corpus->info;
}

/* splitmix64's finalizer: every bit of `x` decides every bit of the result. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Where `i` of [0, n) goes in the permutation that `key` names: a Feistel
 * network over the least 4^half >= n, walked until it comes back below n.
 * That is fewer than four times on average, and needs no memory. */
static uint64_t permute(uint64_t i, uint64_t n, uint64_t key)
{
    unsigned half = 1;
    uint64_t mask, left, right, next;

    while (half < 31 && (uint64_t)1 << (2 * half) < n)
        half++;
    mask = ((uint64_t)1 << half) - 1;
    do {
        left = i >> half;
        right = i & mask;
        for (uint64_t round = 0; round < 6; round++) {
            next = left ^ (mix(key ^ mix(right << 3 | round)) & mask);
            left = right;
            right = next;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}

static void read_tokens(const struct dsf_corpus *c, uint64_t first, int64_t n,
                        int32_t *tokens)
{
    const uint16_t *two = c->store.tokens;
    const uint32_t *four = c->store.tokens;

    if (c->store.width == 2)
        for (int64_t i = 0; i < n; i++)
            tokens[i] = two[first + (uint64_t)i];
    else
        for (int64_t i = 0; i < n; i++)
            tokens[i] = (int32_t)four[first + (uint64_t)i];
}

/* Tokens of the caller are looked at: a kernel would read past its table. */
static bool check_own(const struct dsf_corpus *c, int64_t n,
                      const int32_t *tokens, const int32_t *targets)
{
    int32_t vocab = c->own->vocab;
    bool good = true;

    for (int64_t i = 0; i < n; i++)
        good = good && tokens[i] >= 0 && tokens[i] < vocab &&
               targets[i] >= -1 && targets[i] < vocab;
    return good;
}

typedef int (*own_fn)(void *user, int64_t index, int64_t pos, int64_t n,
                      int32_t *tokens, int32_t *targets);

static void read_own(struct dsf_corpus *c, own_fn read, int64_t index,
                     int64_t pos, int64_t n, int32_t *tokens, int32_t *targets)
{
    if (read(c->own->user, index, pos, n, tokens, targets) == 0 &&
        check_own(c, n, tokens, targets))
        return;
    atomic_store(&c->failed, true);
    for (int64_t i = 0; i < n; i++) {
        tokens[i] = 0;
        targets[i] = -1;
    }
}

void dsf_corpus_train(struct dsf_corpus *corpus, int64_t index,
                      int64_t pos, int64_t n, int32_t *tokens, int32_t *targets)
{
    uint64_t sequences = (uint64_t)corpus->info.train_sequences;
    uint64_t epoch, i, first;

    if (corpus->own != NULL) {
        read_own(corpus, corpus->own->train, index, pos, n, tokens, targets);
        return;
    }
    epoch = (uint64_t)index / sequences;
    i = (uint64_t)index % sequences;
    if (corpus->shuffle)
        i = permute(i, sequences, mix(corpus->seed) + epoch);
    first = i * (uint64_t)corpus->sequence + (uint64_t)pos;
    read_tokens(corpus, first, n, tokens);
    read_tokens(corpus, first + 1, n, targets);
}

void dsf_corpus_validation(struct dsf_corpus *corpus, int64_t index,
                           int64_t pos, int64_t n, int32_t *tokens,
                           int32_t *targets)
{
    uint64_t first = corpus->store.train +
                     (uint64_t)index * (uint64_t)corpus->sequence +
                     (uint64_t)pos;

    if (corpus->own != NULL) {
        read_own(corpus, corpus->own->validation, index, pos, n, tokens,
                 targets);
        return;
    }
    read_tokens(corpus, first, n, tokens);
    read_tokens(corpus, first + 1, n, targets);
}
