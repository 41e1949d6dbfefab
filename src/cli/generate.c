/* generate.c - text from a model: the kernels of training, with the keys and
 * values of all earlier tokens kept. */
#include "cli/generate.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "codelets/codelets.h"
#include "tasks/components.h"
#include "tasks/tasks.h"
#include "base/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a prompt that go through the model together. */
enum { MOST_ROWS = 128 };

struct dsf_generator {
    const struct dsf_model *model;
    const struct dsf_job *job;
    float *const *params;
    int32_t pos; /* tokens fed */
    struct dsflow_tile tile;
    float **kv; /* by layer: [context][2][kv_heads*head_dim] */
    float *x, *y, *q, *att, *lse, *h, *logits, *rope;
    int32_t *batch;
    void *scratch;
    size_t scratch_bytes;
    struct dsflow_err err; /* of a plug-in's kind of task */
};

static void *floats(size_t n)
{
    void *p = aligned_alloc(64, (n * sizeof(float) + 63) / 64 * 64);

    if (p != NULL)
        memset(p, 0, n * sizeof(float));
    return p;
}

void dsf_generator_free(struct dsf_generator *g)
{
    if (g == NULL)
        return;
    for (int l = 0; g->kv != NULL && l < g->model->layers; l++)
        free(g->kv[l]);
    free(g->kv);
    free(g->x);
    free(g->y);
    free(g->q);
    free(g->att);
    free(g->lse);
    free(g->h);
    free(g->logits);
    free(g->rope);
    free(g->batch);
    free(g->scratch);
    free(g);
}

double dsf_generator_bytes(const struct dsf_model *m)
{
    return 2.0 * m->layers * m->dims.context * m->dims.kv_heads *
           m->dims.head_dim * sizeof(float);
}

static int out_of_memory(const struct dsf_model *m, struct dsflow_err *err)
{
    return dsflow_fail(
        err, DSFLOW_ENOMEM, "memory: %s for the keys and values of %d tokens",
        dsf_size_text(dsf_generator_bytes(m)).s, m->dims.context);
}

int dsf_generator_new(const struct dsf_model *m, const struct dsf_job *job,
                      float *const *params, struct dsf_generator **gen,
                      struct dsflow_err *err)
{
    struct dsf_generator *g = dsf_xcalloc(1, sizeof(*g));
    const struct dsf_dims *d = &m->dims;
    size_t q = (size_t)d->heads * (size_t)d->head_dim;
    size_t kv = 2 * (size_t)d->kv_heads * (size_t)d->head_dim;
    size_t width = (size_t)d->width, context = (size_t)d->context;
    size_t h = (size_t)d->ffn * (d->swiglu ? 2 : 1);
    bool whole = true;

    g->model = m;
    g->job = job;
    g->params = params;
    g->tile = (struct dsflow_tile){
        .nseq = 1,
        .width = d->width,
        .heads = d->heads,
        .kv_heads = d->kv_heads,
        .head_dim = d->head_dim,
        .ffn = d->ffn,
        .vocab = d->vocab,
        .context = d->context,
        .rms = d->rms,
        .swiglu = d->swiglu,
        .rope = d->rope,
        .eps = d->eps,
    };
    g->kv = dsf_xcalloc((size_t)m->layers, sizeof(*g->kv));
    for (int l = 0; l < m->layers; l++)
        whole &= (g->kv[l] = floats(context * kv)) != NULL;
    whole &= (g->x = floats(MOST_ROWS * width)) != NULL;
    whole &= (g->y = floats(MOST_ROWS * width)) != NULL;
    whole &= (g->q = floats(MOST_ROWS * q)) != NULL;
    whole &= (g->att = floats(MOST_ROWS * q)) != NULL;
    whole &= (g->lse = floats(2 * MOST_ROWS * (size_t)d->heads)) != NULL;
    whole &= (g->h = floats(MOST_ROWS * h)) != NULL;
    whole &= (g->logits = floats((size_t)d->vocab)) != NULL;
    whole &= (g->batch = floats(2 * MOST_ROWS)) != NULL;
    if (d->rope)
        whole &= (g->rope = floats(context * (size_t)d->head_dim)) != NULL;
    if (!whole) {
        dsf_generator_free(g);
        return out_of_memory(m, err);
    }
    if (d->rope)
        dsf_model_rope_table(m, g->rope);
    *gen = g;
    return DSFLOW_OK;
}

/* Of the tasks that generate. */
enum { MOST_PORTS = 8 };

/* Run one task on `n` buffers. What the check of a built-in one would refuse is
 * a bug; that of another may not know of single rows, or have no codelet. */
static void call(struct dsf_generator *g, const struct dsflow_op *op,
                 const void *args, unsigned n, unsigned fresh,
                 const struct dsflow_buf *bufs)
{
    const struct dsflow_op *own = dsf_job_op(g->job, op);
    const struct dsflow_codelet *codelet = dsflow_codelet_find(own);
    struct dsflow_shape shapes[MOST_PORTS];
    size_t scratch;

    for (unsigned i = 0; i < n; i++)
        shapes[i] = dsflow_shape_of(bufs[i].dtype, bufs[i].elems);
    if (own != op && g->err.status == DSFLOW_OK) {
        if (codelet == NULL || codelet->cpu == NULL)
            dsflow_fail(&g->err, DSFLOW_ENOSYS,
                        "task %.60s: no codelet for a CPU", own->name);
        else if (own->check(shapes, n, args, &g->err) < 0)
            dsflow_fail_in(&g->err, g->err.status, "generation");
    }
    if (g->err.status != DSFLOW_OK)
        return;
    scratch = own->scratch == NULL ? 0 : own->scratch(shapes, n, args);
    if (scratch > g->scratch_bytes) {
        free(g->scratch);
        g->scratch_bytes = (scratch + 63) / 64 * 64;
        g->scratch = aligned_alloc(64, g->scratch_bytes);
        if (g->scratch == NULL)
            abort();
    }
    codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                        .nbufs = n,
                                        .args = args,
                                        .fresh = fresh,
                                        .scratch = g->scratch });
}

/* A buffer of a call: where it is and how many numbers it has. */
struct place {
    void *ptr;
    size_t n;
};

static void call_on(struct dsf_generator *g, const struct dsflow_op *op,
                    const void *args, unsigned fresh, unsigned n,
                    const struct place *places)
{
    struct dsflow_buf bufs[MOST_PORTS];

    for (unsigned i = 0; i < n; i++) {
        enum dsflow_dtype dtype =
            op->ports[i].dtype != 0 ? op->ports[i].dtype : DSFLOW_FP32;
        int64_t elems = (int64_t)places[i].n;

        bufs[i] = (struct dsflow_buf){ places[i].ptr,
                                       dsflow_dtype_bytes(dtype, elems), elems,
                                       dtype };
    }
    call(g, op, args, n, fresh, bufs);
}

#define CALL(g, op, args, ...) CALL_FRESH(g, op, args, 0, __VA_ARGS__)
#define CALL_FRESH(g, op, args, fresh, ...)                                    \
    call_on(g, op, args, fresh,                                                \
            sizeof((struct place[]){ __VA_ARGS__ }) / sizeof(struct place),    \
            (struct place[]){ __VA_ARGS__ })

static struct place unit(const struct dsf_generator *g,
                         enum dsf_segment segment, int l)
{
    unsigned u = dsf_model_unit(g->model, segment, l);

    return (struct place){ g->params[u], (size_t)g->model->units[u].elems };
}

static void attend(struct dsf_generator *g, int l, size_t rows, size_t nq,
                   size_t nkv)
{
    struct dsflow_attention_args a = { .tile = g->tile,
                                       .keys = g->pos,
                                       .first = 1 };
    size_t nlse = 2 * rows * (size_t)g->tile.heads;
    float *kv = g->kv[l];

    if (g->pos > 0)
        CALL_FRESH(g, &dsf_op_attention_forward, &a, 0xc, { g->q, rows * nq },
                   { kv, (size_t)g->pos * nkv }, { g->att, rows * nq },
                   { g->lse, nlse });
    a.keys = (int32_t)rows;
    a.diagonal = a.last = 1;
    a.first = g->pos == 0;
    CALL_FRESH(g, &dsf_op_attention_forward, &a, a.first ? 0xc : 0,
               { g->q, rows * nq }, { kv + (size_t)g->pos * nkv, rows * nkv },
               { g->att, rows * nq }, { g->lse, nlse });
}

static void layer(struct dsf_generator *g, int l, size_t rows)
{
    const struct dsf_model *m = g->model;
    const struct dsf_dims *d = &m->dims;
    size_t nq = (size_t)d->heads * (size_t)d->head_dim;
    size_t nkv = 2 * (size_t)d->kv_heads * (size_t)d->head_dim;
    size_t nx = rows * (size_t)d->width;
    size_t nh = rows * (size_t)d->ffn * (d->swiglu ? 2 : 1);
    struct dsflow_qkv_args qkv = { g->tile, m->qkv_at.w, m->qkv_at.b,
                                   m->qkv_at.norm_w, m->qkv_at.norm_b };
    struct dsflow_out_args out = { g->tile, m->out_at.w, m->out_at.b };
    struct dsflow_mlp_args mlp = { g->tile,         m->mlp_at.w1,
                                   m->mlp_at.b1,    m->mlp_at.w2,
                                   m->mlp_at.b2,    m->mlp_at.norm_w,
                                   m->mlp_at.norm_b };
    struct place x = { g->x, nx }, y = { g->y, nx }, q = { g->q, rows * nq };
    struct place kv = { g->kv[l] + (size_t)g->pos * nkv, rows * nkv };

    if (d->rope)
        CALL(g, &dsf_op_qkv_forward, &qkv, x, unit(g, DSF_QKV, l), q, kv,
             { g->rope, (size_t)d->context * (size_t)d->head_dim });
    else
        CALL(g, &dsf_op_qkv_forward, &qkv, x, unit(g, DSF_QKV, l), q, kv);
    attend(g, l, rows, nq, nkv);
    CALL(g, &dsf_op_out_forward, &out, x, { g->att, rows * nq },
         unit(g, DSF_OUT, l), y);
    CALL(g, &dsf_op_mlp_forward, &mlp, y, unit(g, DSF_MLP, l), { g->h, nh }, x);
}

static void feed_rows(struct dsf_generator *g, const int32_t *tokens,
                      size_t rows)
{
    const struct dsf_model *m = g->model;
    size_t width = (size_t)m->dims.width;
    struct dsflow_embed_args embed;
    struct dsflow_head_args head;

    g->tile.rows = (int32_t)rows;
    g->tile.pos = g->pos;
    memcpy(g->batch, tokens, rows * sizeof(*tokens));
    embed =
        (struct dsflow_embed_args){ g->tile, m->embed_at.wte, m->embed_at.wpe };
    CALL(g, &dsf_op_embed_forward, &embed, { g->batch, 2 * rows },
         unit(g, DSF_EMBED, 0), { g->x, rows * width });
    for (int l = 0; l < m->layers; l++)
        layer(g, l, rows);
    g->pos += (int32_t)rows;

    head = (struct dsflow_head_args){ g->tile, m->head_at.w, m->norm_at.w,
                                      m->norm_at.b, 1 };
    head.tile.rows = 1;
    head.tile.pos = g->pos - 1;
    CALL(g, &dsf_op_head_logits, &head, { g->x + (rows - 1) * width, width },
         unit(g, DSF_NORM, 0), unit(g, m->tied ? DSF_EMBED : DSF_HEAD, 0),
         { g->logits, (size_t)m->dims.vocab });
}

int dsf_generator_feed(struct dsf_generator *g, const int32_t *tokens, size_t n,
                       struct dsflow_err *err)
{
    size_t room = (size_t)(g->model->dims.context - g->pos);

    if (n > room)
        return dsflow_fail(err, DSFLOW_EFIT,
                           "prompt: %zu tokens: the model's context has room "
                           "for %zu",
                           n, room);
    for (size_t i = 0; i < n; i += MOST_ROWS)
        feed_rows(g, tokens + i, n - i < MOST_ROWS ? n - i : MOST_ROWS);
    if (g->err.status != DSFLOW_OK)
        return dsflow_fail(err, g->err.status, "%s", g->err.msg);
    return DSFLOW_OK;
}

const float *dsf_generator_logits(const struct dsf_generator *g)
{
    return g->logits;
}

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

int32_t dsf_sample(const struct dsf_sampling *s, const float *logits,
                   int32_t vocab, uint64_t *state)
{
    struct choice *choices;
    double sum = 0, kept = 0, at;
    int32_t n = vocab, top = likeliest(logits, vocab), id;

    if (s->temperature == 0)
        return top;
    choices = dsf_xcalloc((size_t)vocab, sizeof(*choices));
    for (int32_t i = 0; i < vocab; i++)
        choices[i] = (struct choice){
            exp(((double)logits[i] - logits[top]) / s->temperature), i
        };
    qsort(choices, (size_t)vocab, sizeof(*choices), by_p);
    if (s->top_k > 0 && s->top_k < n)
        n = (int32_t)s->top_k;
    for (int32_t i = 0; i < n; i++)
        sum += choices[i].p;
    for (int32_t i = 0; i < n; i++) {
        kept += choices[i].p;
        if (kept >= s->top_p * sum)
            n = i + 1;
    }
    at = next_uniform(state) * kept;
    id = choices[n - 1].id;
    for (int32_t i = 0; i < n; i++) {
        at -= choices[i].p;
        if (at < 0) {
            id = choices[i].id;
            break;
        }
    }
    free(choices);
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
static void put_held(struct utf8 *u, bool last, FILE *out)
{
    while (u->n > 0) {
        size_t len = dsf_utf8_char(u->held, u->n);

        if (len == 0 && !last && may_go_on(u))
            return;
        if (len > 0)
            fwrite(u->held, 1, len, out);
        else
            fputs("\xef\xbf\xbd", out);
        u->n -= len > 0 ? len : 1;
        memmove(u->held, u->held + (len > 0 ? len : 1), u->n);
    }
}

static void put_bytes(struct utf8 *u, const char *bytes, size_t n, FILE *out)
{
    for (size_t i = 0; i < n; i++) {
        u->held[u->n++] = bytes[i];
        put_held(u, false, out);
    }
}

static int generate(struct dsf_generator *g, const struct dsf_tokenizer *tok,
                    int64_t tokens, const struct dsf_sampling *sampling,
                    FILE *out, struct dsflow_err *err)
{
    /* A model may have more outputs than the tokenizer has tokens. */
    int32_t vocab = dsf_tokenizer_vocab(tok), eot = dsf_tokenizer_eot(tok);
    uint64_t state = sampling->seed;
    struct utf8 utf8 = { .n = 0 };
    int status = DSFLOW_OK;
    bool full = false;
    int64_t done = 0;

    for (int64_t i = 0; i < tokens && status == DSFLOW_OK; i++) {
        int32_t id = dsf_sample(sampling, g->logits, vocab, &state);
        const char *bytes;
        size_t n;

        if (id == eot ||
            (sampling->stopped != NULL && sampling->stopped() != 0))
            break;
        bytes = dsf_decode(tok, id, &n);
        put_bytes(&utf8, bytes, n, out);
        fflush(out);
        done = i + 1;
        if (i + 1 == tokens)
            break;
        full = g->pos == g->model->dims.context;
        if (full)
            break;
        status = dsf_generator_feed(g, &id, 1, err);
    }
    put_held(&utf8, true, out);
    fputc('\n', out);
    fflush(out); /* before the messages, which may share its terminal */
    if (full && !sampling->quiet)
        dsf_info("stopped after %lld of %lld tokens: the model's context of %d "
                 "is full",
                 (long long)done, (long long)tokens, g->pos);
    return status;
}

int dsf_generate_print(const struct dsf_model *model, const struct dsf_job *job,
                       float *const *params, const struct dsf_tokenizer *tok,
                       const char *prompt, size_t bytes, int64_t tokens,
                       const struct dsf_sampling *sampling, FILE *out,
                       struct dsflow_err *err)
{
    struct dsf_generator *g = NULL;
    struct dsf_tokens in = { 0 };
    int32_t eot = dsf_tokenizer_eot(tok);
    int status;

    /* A model needs something to go on from. */
    if (bytes == 0 && eot < 0) {
        prompt = "\n";
        bytes = 1;
    }
    status = dsf_encode(tok, prompt, bytes, 1, &in, err);
    if (status == DSFLOW_OK && in.n == 0) {
        in.v = dsf_xcalloc(1, sizeof(*in.v));
        in.v[in.n++] = eot;
    }
    if (status == DSFLOW_OK)
        status = dsf_generator_new(model, job, params, &g, err);
    if (status == DSFLOW_OK)
        status = dsf_generator_feed(g, in.v, in.n, err);
    if (status == DSFLOW_OK) {
        fwrite(prompt, 1, bytes, out);
        status = generate(g, tok, tokens, sampling, out, err);
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
    status =
        dsf_encode(tok, sample->prompt, strlen(sample->prompt), 1, &in, err);
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
