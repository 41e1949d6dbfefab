/* sample.c - which token comes next, and text made of them. */
#include "train/sample.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/utf8.h"
#include "train/generate.h"
#include "train/vocabulary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* In [0, 1): splitmix64, so that a seed gives the same text everywhere. */
static double next_uniform(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

struct choice {
    double p;
    int32_t id;
};

/* Likeliest first; the lower id of two alike. */
static int by_p(const void *a, const void *b)
{
    const struct choice *x = a, *y = b;

    if (x->p != y->p)
        return x->p > y->p ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int32_t likeliest(const float *logits, int32_t vocab)
{
    int32_t best = 0;

    for (int32_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* Choices in groups of about the same size, the likeliest first: only the
 * groups that are looked at are put in order, and few are. */
struct ordered {
    struct choice *v;
    int32_t *ends;         /* by group: of its choices */
    int32_t group, sorted; /* the one that is sorted next; choices before it */
};

/* By the exponent and four bits of numbers in [0, 1], downwards; what is no
 * number comes last. */
enum { GROUPS = 0x3ff0 + 1 };
static int32_t group_of(double p)
{
    uint64_t bits;

    if (!(p >= 0 && p <= 1))
        return GROUPS - 1;
    memcpy(&bits, &p, sizeof(bits));
    return GROUPS - 1 - (int32_t)(bits >> 48);
}

static void group(struct ordered *o, const struct choice *choices, int32_t n)
{
    int32_t at = 0;

    *o = (struct ordered){ .v = dsf_xcalloc((size_t)n, sizeof(*o->v)),
                           .ends = dsf_xcalloc(GROUPS, sizeof(*o->ends)) };
    for (int32_t i = 0; i < n; i++)
        o->ends[group_of(choices[i].p)]++;
    for (int32_t g = 0; g < GROUPS; g++) {
        at += o->ends[g];
        o->ends[g] = at - o->ends[g]; /* where it begins */
    }
    for (int32_t i = 0; i < n; i++)
        o->v[o->ends[group_of(choices[i].p)]++] = choices[i];
}

/* The i-th likeliest; asked for in order. */
static const struct choice *nth(struct ordered *o, int32_t i)
{
    while (i >= o->sorted) {
        int32_t end = o->ends[o->group++];

        qsort(o->v + o->sorted, (size_t)(end - o->sorted), sizeof(*o->v), by_p);
        o->sorted = end;
    }
    return &o->v[i];
}

/* Pass over the groups that are wholly before `*at` of the sum, which becomes
 * what is left of it. Returns how many choices they have. */
static int32_t pass(struct ordered *o, int32_t n, double *at)
{
    while (o->group < GROUPS && o->ends[o->group] < n) {
        int32_t end = o->ends[o->group];
        double sum = 0;

        for (int32_t i = o->sorted; i < end; i++)
            sum += o->v[i].p;
        if (!(*at >= sum))
            break;
        *at -= sum;
        o->sorted = end;
        o->group++;
    }
    return o->sorted;
}

/* The sum of the first `n`, of `all`. */
static double sum_of(struct ordered *o, int32_t n, int32_t all)
{
    double sum = 0;

    for (int32_t i = 0; i < n; i++)
        sum += n == all ? o->v[i].p : nth(o, i)->p;
    return sum;
}

int32_t dsf_sample(const struct dsf_sampling *s, const float *logits,
                   int32_t vocab, uint64_t *state)
{
    struct choice *choices;
    struct ordered o;
    double sum, kept = 0, at;
    int32_t n = vocab, top = likeliest(logits, vocab), id;

    if (s->temperature == 0)
        return top;
    choices = dsf_xcalloc((size_t)vocab, sizeof(*choices));
    for (int32_t i = 0; i < vocab; i++)
        choices[i] = (struct choice){
            exp(((double)logits[i] - logits[top]) / s->temperature), i
        };
    group(&o, choices, vocab);
    free(choices);
    if (s->top_k > 0 && s->top_k < n)
        n = (int32_t)s->top_k;
    sum = sum_of(&o, n, vocab);
    for (int32_t i = 0; i < n && s->top_p < 1; i++) {
        kept += nth(&o, i)->p;
        if (kept >= s->top_p * sum)
            n = i + 1;
    }
    at = next_uniform(state) * (s->top_p < 1 ? kept : sum);
    id = -1;
    /* Where nobody has asked for an order yet, not that of what is passed. */
    for (int32_t i = o.sorted > 0 ? 0 : pass(&o, n, &at); i < n && id < 0;
         i++) {
        at -= nth(&o, i)->p;
        if (at < 0 || i + 1 == n)
            id = o.v[i].id;
    }
    free(o.ends);
    free(o.v);
    return id;
}

/* Bytes that are not yet a whole UTF-8 character wait here. */
struct utf8 {
    char held[4];
    size_t n;
};

/* Could more bytes make a character of these? No byte that follows is above
 * 0xbf or below 0x80, and one of the two is in every range that RFC 3629 has
 * for the second byte. */
static bool may_go_on(const struct utf8 *u)
{
    static const unsigned char ends[] = { 0x80, 0xbf };

    for (size_t e = 0; e < sizeof(ends); e++) {
        char s[4] = { 0 };

        memcpy(s, u->held, u->n);
        memset(s + u->n, ends[e], sizeof(s) - u->n);
        if (dsf_utf8_char(s, sizeof(s)) > u->n)
            return true;
    }
    return false;
}

/* Characters as they are, and U+FFFD for bytes that make none: a model of
 * bytes writes them, and a terminal or a file of text should not get them.
 * `last`: no more bytes will come. */
static void put_held(struct utf8 *u, bool last,
                     const struct dsf_sampling *sampling)
{
    while (u->n > 0) {
        size_t len = dsf_utf8_char(u->held, u->n);

        if (len == 0 && !last && may_go_on(u))
            return;
        if (len > 0)
            sampling->on_text(sampling->user, u->held, len);
        else
            sampling->on_text(sampling->user, "\xef\xbf\xbd", 3);
        u->n -= len > 0 ? len : 1;
        memmove(u->held, u->held + (len > 0 ? len : 1), u->n);
    }
}

static void put_bytes(struct utf8 *u, const char *bytes, size_t n,
                      const struct dsf_sampling *sampling)
{
    for (size_t i = 0; i < n; i++) {
        u->held[u->n++] = bytes[i];
        put_held(u, false, sampling);
    }
}

static int go_on(struct dsf_generator *g, const struct dsf_model *model,
                 const struct dsf_tokenizer *tok, size_t at, int64_t tokens,
                 const struct dsf_sampling *sampling,
                 struct dsf_sampled *sampled, struct dsflow_err *err)
{
    /* A model may have more outputs than the tokenizer has tokens. */
    int32_t vocab = dsf_tokenizer_vocab(tok);
    uint64_t state = sampling->seed;
    struct utf8 utf8 = { .n = 0 };
    int status = DSFLOW_OK;

    for (int64_t i = 0; i < tokens && status == DSFLOW_OK; i++) {
        int32_t id =
            dsf_sample(sampling, dsf_generator_logits(g), vocab, &state);
        const char *bytes;
        size_t n;

        if (dsf_tokenizer_is_end(tok, id) ||
            (sampling->is_stopped != NULL &&
             sampling->is_stopped(sampling->user)))
            break;
        bytes = dsf_decode(tok, id, &n);
        put_bytes(&utf8, bytes, n, sampling);
        sampled->tokens = i + 1;
        if (i + 1 == tokens)
            break;
        sampled->full = (int64_t)at + i == model->dims.context;
        if (sampled->full)
            break;
        status = dsf_generator_feed(g, &id, 1, err);
    }
    put_held(&utf8, true, sampling);
    return status;
}

static bool begins(const struct dsf_job *job)
{
    return job != NULL && job->data.begin;
}

static int encode_prompt(const struct dsf_tokenizer *tok,
                         const struct dsf_job *job, const char *prompt,
                         size_t bytes, struct dsf_tokens *in,
                         struct dsflow_err *err)
{
    if (begins(job)) {
        dsf_grow(&in->v, &in->cap, 1, sizeof(*in->v));
        in->v[in->n++] = dsf_tokenizer_begin(tok);
    }
    return dsf_encode(tok, prompt, bytes, 1, in, err);
}

int dsf_generate(const struct dsf_model *model, const struct dsf_job *job,
                 const struct dsf_text_weights *weights,
                 const struct dsf_tokenizer *tok, const char *prompt,
                 size_t bytes, int64_t tokens,
                 const struct dsf_sampling *sampling,
                 struct dsf_sampled *sampled, struct dsflow_err *err)
{
    struct dsf_generator *g = NULL;
    struct dsf_tokens in = { 0 };
    int32_t eot = dsf_tokenizer_eot(tok);
    int status;

    *sampled = (struct dsf_sampled){ .tokens = 0 };
    status = dsf_vocabulary_fits(job, model, tok, err);
    if (status < 0)
        return status;
    /* A model needs something to go on from. */
    if (bytes == 0 && eot < 0 && !begins(job)) {
        prompt = "\n";
        bytes = 1;
    }
    status = encode_prompt(tok, job, prompt, bytes, &in, err);
    if (status == DSFLOW_OK && in.n == 0) {
        in.v = dsf_xcalloc(1, sizeof(*in.v));
        in.v[in.n++] = eot;
    }
    if (status == DSFLOW_OK)
        status = dsf_generator_new(
            &(struct dsf_generator_spec){ .model = model,
                                          .job = job,
                                          .weights = weights,
                                          .workers = sampling->workers },
            &g, err);
    if (status == DSFLOW_OK)
        status = dsf_generator_feed(g, in.v, in.n, err);
    if (status == DSFLOW_OK) {
        sampling->on_text(sampling->user, prompt, bytes);
        status =
            go_on(g, model, tok, in.n, tokens, sampling, sampled, err);
    }
    dsf_generator_free(g);
    dsf_tokens_fini(&in);
    return status;
}

int dsf_sample_check(const struct dsf_job *job, const struct dsf_model *model,
                     const struct dsf_tokenizer *tok, struct dsflow_err *err)
{
    const struct dsf_job_sample *sample = &job->sample;
    struct dsf_tokens in = { 0 };
    int64_t context = model->dims.context, prompt;
    int status;

    if (sample->tokens == 0)
        return DSFLOW_OK;
    status = dsf_vocabulary_fits(job, model, tok, err);
    if (status == DSFLOW_OK)
        status = encode_prompt(tok, job, sample->prompt, strlen(sample->prompt),
                               &in, err);
    prompt = in.n > 0 ? (int64_t)in.n : 1;
    dsf_tokens_fini(&in);
    if (status == DSFLOW_OK && prompt > context)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "sample", "prompt",
                            "%lld tokens: expected at most the model's "
                            "context, %lld",
                            (long long)prompt, (long long)context);
    /* The last token is not fed to the model. */
    if (status == DSFLOW_OK && sample->tokens > context - prompt + 1)
        dsf_warn("sample.tokens: %lld: after a prompt of %lld the model's "
                 "context of %lld has room for %lld",
                 (long long)sample->tokens, (long long)prompt,
                 (long long)context, (long long)(context - prompt + 1));
    return status;
}
