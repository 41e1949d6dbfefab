/* corpus.c - the text of a job as sequences of tokens: split in training and
 * validation, and shuffled. */
#include "text/text.h"

#include "base/alloc.h"
#include "text/encode_source.h"
#include "text/mapped.h"
#include "text/text_source.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct dsf_corpus {
    struct dsf_token_store store;
    struct dsf_corpus_info info;
    int64_t sequence;
    uint64_t seed;
    bool shuffle;

    const struct dsflow_batches *own; /* NULL: it is text */
    pthread_mutex_t lock;             /* of: */
    struct dsflow_err failed;         /* the first that was not to be had */
    atomic_uint reads;                /* of the text */
};

static void count(struct dsf_corpus *c)
{
    struct dsf_corpus_info *info = &c->info;
    int64_t kept = (int64_t)c->store.validation_bytes, tokens;

    info->bytes = kept + (int64_t)c->store.train_bytes;
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
static int check_amount(const struct dsf_text_source *s, const struct amount *n,
                        int64_t sequence, int status, struct dsflow_err *err)
{
    const struct dsf_job *job = s->job;

    if (s->train.n > 0 && n->train <= sequence)
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

static int check(const struct dsf_corpus *c, const struct dsf_text_source *s,
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
    struct dsf_text_source s;
    /* Of JSON Lines, a text has no more tokens than its line has bytes. */
    bool exact = dsf_tokenizer_is_bytes(tok) && !dsf_is_json_lines(job);
    struct amount n = { 0, 0, exact ? "" : "at most " };
    /* Of a text: what ends and begins it. */
    int64_t end = (exact ? 0 : 1) + job->data.begin;
    int status = dsf_text_source_find(&s, job, tok, err);

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
    dsf_text_source_close(&s);
    return status;
}

static struct dsf_corpus *new_corpus(void)
{
    struct dsf_corpus *c = dsf_xcalloc(1, sizeof(*c));

    pthread_mutex_init(&c->lock, NULL);
    return c;
}

int dsf_corpus_open(const struct dsf_job *job, const struct dsf_tokenizer *tok,
                    int64_t sequence, int32_t vocab, const char *cache_dir,
                    struct dsf_corpus **corpus, struct dsflow_err *err)
{
    struct dsf_corpus *c = new_corpus();
    struct dsf_text_source s;
    int status = dsf_text_source_find(&s, job, tok, err);
    uint64_t key;

    *corpus = NULL;
    c->sequence = sequence;
    c->seed = (uint64_t)job->main.seed;
    c->shuffle = job->data.shuffle;
    if (status < 0)
        goto out_close;
    key = dsf_text_source_key(&s);
    c->info.content = key;
    c->info.cached = dsf_token_cache_open(cache_dir, key, &c->store);
    if (!c->info.cached) { /* a text that is, has passed */
        status = dsf_text_source_check(&s, err);
        if (status == DSFLOW_OK)
            status = dsf_encode_source(&s, cache_dir, key, &c->store, err);
    }
    if (status < 0)
        goto out_close;
    dsf_text_source_warn(&s);
    count(c);
    status = check(c, &s, vocab, err);
    if (status == DSFLOW_OK)
        *corpus = c;

out_close:
    dsf_text_source_close(&s);
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
    c = new_corpus();
    c->own = own;
    c->info.validation_sequences = own->validation_sequences;
    c->info.bytes_per_token = NAN;
    c->info.content = own->identity;
    *corpus = c;
    return DSFLOW_OK;
}

int dsf_corpus_failed(struct dsf_corpus *corpus, struct dsflow_err *err)
{
    int status;

    pthread_mutex_lock(&corpus->lock);
    status = corpus->failed.status;
    if (status < 0)
        dsflow_fail(err, status, "%s", corpus->failed.msg);
    pthread_mutex_unlock(&corpus->lock);
    return status;
}

void dsf_corpus_close(struct dsf_corpus *corpus)
{
    if (corpus == NULL)
        return;
    dsf_token_store_fini(&corpus->store);
    pthread_mutex_destroy(&corpus->lock);
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

static void read_tokens(struct dsf_corpus *c, uint64_t first, int64_t n,
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
    /* Each one may bring some pages more, or 160 KiB where the kernel has the
     * file in large pieces. */
    if (atomic_fetch_add(&c->reads, 1) % 256 == 255)
        dsf_mapped_let_go(c->store.map, c->store.map_bytes);
}

typedef int (*own_fn)(void *user, int64_t index, int64_t pos, int64_t n,
                      int32_t *tokens, int32_t *targets);

/* What the caller has tokens of. */
struct own {
    const char *name; /* of the function, */
    own_fn read;
    int64_t index, pos, n;
};

/* They are looked at: a kernel would read past its table. */
static int check_own(const struct dsf_corpus *c, const struct own *own,
                     const int32_t *tokens, const int32_t *targets,
                     struct dsflow_err *err)
{
    const int32_t last = c->own->vocab - 1;

    for (int64_t i = 0; i < own->n; i++) {
        const bool is_token = tokens[i] < 0 || tokens[i] > last;

        if (is_token || targets[i] < -1 || targets[i] > last)
            return dsflow_fail(
                err, DSFLOW_EFAIL,
                "batches: %s: sequence %lld: the %s at %lld is %d: expected "
                "%d to %d",
                own->name, (long long)own->index, is_token ? "token" : "target",
                (long long)(own->pos + i), is_token ? tokens[i] : targets[i],
                is_token ? 0 : -1, last);
    }
    return DSFLOW_OK;
}

static int try_own(const struct dsf_corpus *c, const struct own *own,
                   int32_t *tokens, int32_t *targets, struct dsflow_err *err)
{
    int why =
        own->read(c->own->user, own->index, own->pos, own->n, tokens, targets);

    return why == 0 ? check_own(c, own, tokens, targets, err)
                    : dsflow_fail(err, DSFLOW_EFAIL,
                                  "batches: %s: sequence %lld: it returned %d: "
                                  "expected 0",
                                  own->name, (long long)own->index, why);
}

static void read_own(struct dsf_corpus *c, const struct own *own,
                     int32_t *tokens, int32_t *targets)
{
    struct dsflow_err err = { 0 };

    if (try_own(c, own, tokens, targets, &err) == DSFLOW_OK)
        return;
    pthread_mutex_lock(&c->lock);
    if (c->failed.status == DSFLOW_OK)
        c->failed = err;
    pthread_mutex_unlock(&c->lock);
    for (int64_t i = 0; i < own->n; i++) {
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
        read_own(corpus,
                 &(struct own){ "train", corpus->own->train, index, pos, n },
                 tokens, targets);
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
        read_own(corpus,
                 &(struct own){ "validation", corpus->own->validation, index,
                                pos, n },
                 tokens, targets);
        return;
    }
    read_tokens(corpus, first, n, tokens);
    read_tokens(corpus, first + 1, n, targets);
}
