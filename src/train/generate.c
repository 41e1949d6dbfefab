/* generate.c - text from a model: the forward tasks of its segments, with the
 * keys and values of all earlier tokens kept. */
#include "train/generate.h"

#include "base/alloc.h"
#include "base/log.h"
#include "base/units.h"
#include "base/utf8.h"
#include "codelets/codelets.h"
#include "segments/segment.h"
#include "tasks/components.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a prompt that go through the model together. */
enum { MOST_ROWS = 128 };

/* Data of a port, of the largest tile that is fed or of the whole context. */
struct port_data {
    float *v;  /* of all layers in turn */
    float **l; /* keys: [layers], of all tokens so far */
};

struct dsf_generator {
    const struct dsf_model *model;
    const struct dsf_job *job;
    float *const *params;
    int32_t pos, rows; /* tokens fed, and those that are being fed */
    float *stream[2], *rope, *logits;
    int32_t *batch;
    unsigned from; /* the stream that segments read */
    struct port_data (*own)[DSF_SEGMENT_PORTS]; /* by segment, as listed */
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

static unsigned nsegments(void)
{
    unsigned n = 0;

    while (dsf_segment_list[n] != NULL)
        n++;
    return n;
}

static struct port_data *own_data(const struct dsf_generator *g,
                                  const struct dsf_segment *segment,
                                  unsigned port)
{
    unsigned i = 0;

    while (dsf_segment_list[i] != segment)
        i++;
    return &g->own[i][port];
}

void dsf_generator_free(struct dsf_generator *g)
{
    if (g == NULL)
        return;
    for (unsigned i = 0; i < nsegments() * DSF_SEGMENT_PORTS; i++) {
        struct port_data *d =
            &g->own[i / DSF_SEGMENT_PORTS][i % DSF_SEGMENT_PORTS];

        for (int l = 0; d->l != NULL && l < g->model->layers; l++)
            free(d->l[l]);
        free(d->l);
        free(d->v);
    }
    free(g->own);
    free(g->stream[0]);
    free(g->stream[1]);
    free(g->logits);
    free(g->rope);
    free(g->batch);
    free(g->scratch);
    free(g);
}

/* Of `rows` tokens from `pos` on, in a segment of layer `l`; `units` has room
 * for the segment's. */
static struct dsf_site site_of(const struct dsf_model *m, int l,
                               const struct dsf_segment *segment, int32_t pos,
                               int32_t rows, const struct dsf_unit **units)
{
    struct dsf_site site = { .tile = dsf_model_tile(m, l),
                             .units = units,
                             .tokens = 1,
                             .keys = rows,
                             .diagonal = true,
                             .first_keys = pos == 0 };

    site.tile.rows = rows;
    site.tile.nseq = 1;
    site.tile.pos = pos;
    for (unsigned u = 0; segment->units[u] != NULL; u++)
        units[u] = &m->units[dsf_model_unit(m, l, segment, u)];
    return site;
}

/* Numbers on a port, of `rows` tokens. */
static size_t numbers(const struct dsf_model *m, int l,
                      const struct dsf_segment *segment, unsigned port,
                      int32_t rows)
{
    const struct dsf_unit *units[DSF_MAX_UNITS];
    const struct dsf_site site = site_of(m, l, segment, 0, rows, units);
    struct dsf_need need = dsf_segment_need(segment, &site, port);

    return (size_t)(need.rows * need.cols);
}

static int32_t most_rows(const struct dsf_model *m)
{
    return m->dims.context < MOST_ROWS ? m->dims.context : MOST_ROWS;
}

/* Call `what` for each port of each layer that keeps data. */
typedef void (*own_port_fn)(void *user, int l, const struct dsf_segment *s,
                            unsigned port);
static void each_own_port(const struct dsf_model *m, own_port_fn what,
                          void *user)
{
    for (int l = 0; l < m->layers; l++) {
        const struct dsf_segment *const *s = dsf_model_layer(m, l)->segments;

        for (; *s != NULL; s++)
            for (unsigned p = 0; p < (*s)->nports; p++)
                if ((*s)->ports[p].from == DSF_FROM_KEPT)
                    what(user, l, *s, p);
    }
}

struct counted {
    const struct dsf_model *model;
    double bytes;
};

static void count_port(void *user, int l, const struct dsf_segment *s,
                       unsigned port)
{
    struct counted *c = user;

    if (s->ports[port].of_keys)
        c->bytes += sizeof(float) * (double)numbers(c->model, l, s, port,
                                                    c->model->dims.context);
}

double dsf_generator_bytes(const struct dsf_model *m)
{
    struct counted c = { .model = m };

    each_own_port(m, count_port, &c);
    return c.bytes;
}

static int out_of_memory(const struct dsf_model *m, struct dsflow_err *err)
{
    return dsflow_fail(
        err, DSFLOW_ENOMEM, "memory: %s for the keys and values of %d tokens",
        dsf_size_text(dsf_generator_bytes(m)).s, m->dims.context);
}

/* The largest of all layers serves them in turn. */
static void add_port(void *user, int l, const struct dsf_segment *s,
                     unsigned port)
{
    struct dsf_generator *g = user;
    const struct dsf_model *m = g->model;
    struct port_data *d = own_data(g, s, port);
    size_t most = 0;

    if (s->ports[port].of_keys) {
        if (d->l == NULL)
            d->l = dsf_xcalloc((size_t)m->layers, sizeof(*d->l));
        d->l[l] = floats(numbers(m, l, s, port, m->dims.context));
        return;
    }
    if (d->v != NULL)
        return;
    for (int k = 0; k < m->layers; k++) {
        size_t n = numbers(m, k, s, port, most_rows(m));

        most = n > most ? n : most;
    }
    d->v = floats(most);
}

struct found {
    const struct dsf_generator *g;
    bool all;
};

static void look_for(void *user, int l, const struct dsf_segment *s,
                     unsigned port)
{
    struct found *f = user;
    const struct port_data *d = own_data(f->g, s, port);

    f->all &= s->ports[port].of_keys ? d->l[l] != NULL : d->v != NULL;
}

int dsf_generator_new(const struct dsf_model *m, const struct dsf_job *job,
                      float *const *params, struct dsf_generator **gen,
                      struct dsflow_err *err)
{
    struct dsf_generator *g = dsf_xcalloc(1, sizeof(*g));
    const struct dsf_dims *d = &m->dims;
    size_t x = (size_t)most_rows(m) * (size_t)d->width;
    struct found found = { g, true };

    g->model = m;
    g->job = job;
    g->params = params;
    g->own = dsf_xcalloc(nsegments(), sizeof(*g->own));
    each_own_port(m, add_port, g);
    each_own_port(m, look_for, &found);
    found.all &= (g->stream[0] = floats(x)) != NULL;
    found.all &= (g->stream[1] = floats(x)) != NULL;
    found.all &= (g->logits = floats((size_t)d->vocab)) != NULL;
    found.all &= (g->batch = floats(2 * (size_t)most_rows(m))) != NULL;
    if (d->rope)
        found.all &= (g->rope = floats((size_t)d->context *
                                       (size_t)d->head_dim)) != NULL;
    if (!found.all) {
        dsf_generator_free(g);
        return out_of_memory(m, err);
    }
    if (d->rope)
        dsf_model_rope_table(m, g->rope);
    *gen = g;
    return DSFLOW_OK;
}

/* Run one task. What the check of a built-in one would refuse is a bug; that of
 * another may not know of single rows, or have no codelet. */
static void call(struct dsf_generator *g, const struct dsflow_op *op,
                 const void *args, uint32_t fresh,
                 const struct dsflow_buf *bufs)
{
    const struct dsflow_op *own = dsf_job_op(g->job, op);
    const struct dsflow_codelet *codelet = dsflow_codelet_find(own);
    struct dsflow_shape shapes[DSF_SEGMENT_PORTS];
    const struct dsflow_case c = { own, shapes, op->nports, args };
    size_t scratch;

    for (unsigned i = 0; i < c.n; i++)
        shapes[i] = (struct dsflow_shape){ bufs[i].bytes, bufs[i].elems,
                                           bufs[i].dtype };
    if (own != op && g->err.status == DSFLOW_OK) {
        if (codelet == NULL || codelet->cpu == NULL)
            dsflow_fail(&g->err, DSFLOW_ENOSYS,
                        "task %.60s: no codelet for a CPU", own->name);
        else if (own->check(&c, &g->err) < 0)
            dsflow_fail_in(&g->err, g->err.status, "generation");
    }
    if (g->err.status != DSFLOW_OK)
        return;
    scratch = own->scratch == NULL ? 0 : own->scratch(&c);
    if (scratch > g->scratch_bytes) {
        free(g->scratch);
        g->scratch_bytes = (scratch + 63) / 64 * 64;
        g->scratch = aligned_alloc(64, g->scratch_bytes);
        if (g->scratch == NULL)
            abort();
    }
    codelet->cpu(&(struct dsflow_call){ .bufs = bufs,
                                        .nbufs = c.n,
                                        .args = args,
                                        .fresh = fresh,
                                        .scratch = g->scratch });
}

/* Where the data of a port of a segment of layer `l` is; keys from token `key`
 * on. NULL: the port is left out. */
static void *data_on(const struct dsf_generator *g, int l,
                     const struct dsf_segment *segment, unsigned p,
                     const struct dsf_site *site, int32_t key)
{
    const struct dsf_port *port = &segment->ports[p];
    const struct port_data *own;

    switch (port->from) {
    case DSF_FROM_PARAMETERS:
        return g->params[dsf_model_unit(g->model, l, segment, port->unit)];
    case DSF_FROM_IN: /* logits are of the last row */
        return g->stream[g->from] + (g->rows - site->tile.rows) *
                                        (ptrdiff_t)site->tile.width;
    case DSF_FROM_OUT:
        return g->stream[1 - g->from];
    case DSF_FROM_OTHER:
        return data_on(g, l, port->other, port->unit, site, key);
    case DSF_FROM_KEPT:
        own = own_data(g, segment, p);
        return port->of_keys
                   ? own->l[l] + numbers(g->model, l, segment, p, 1) *
                                     (size_t)key
                   : own->v;
    case DSF_FROM_ROPE:
        return g->rope;
    case DSF_FROM_BATCH:
        return g->batch;
    case DSF_FROM_LOGITS:
        return g->logits;
    default:
        return NULL;
    }
}

static void run(struct dsf_generator *g, int l,
                const struct dsf_segment *segment, const struct dsflow_op *op,
                const struct dsf_site *site, int32_t key)
{
    _Alignas(16) unsigned char args[DSF_MAX_ARGS] = { 0 };
    struct dsf_need need[DSF_SEGMENT_PORTS] = { { 0 } };
    struct dsflow_buf bufs[DSF_SEGMENT_PORTS] = { { .ptr = NULL } };
    uint32_t fresh = 0;

    segment->fill(site, args);
    if (segment->needs(op, args, need, &g->err) < 0)
        return;
    if (segment->fresh != NULL)
        fresh = segment->fresh(op, args);
    for (unsigned p = 0; p < op->nports; p++) {
        int64_t elems = need[p].rows * need[p].cols;

        if (op->ports[p].name != NULL && elems > 0)
            bufs[p] = (struct dsflow_buf){
                .ptr = data_on(g, l, segment, p, site, key),
                .bytes = dsflow_dtype_bytes(need[p].dtype, elems),
                .elems = elems,
                .dtype = need[p].dtype,
            };
    }
    call(g, op, args, fresh, bufs);
    for (unsigned p = 0; p < op->nports; p++)
        if (op->ports[p].name != NULL &&
            segment->ports[p].from == DSF_FROM_OUT)
            g->from = 1 - g->from;
}

/* The tokens that are being fed, through a segment of layer `l`. Where it has
 * pairs, with all keys so far and then with their own. */
static void run_segment(struct dsf_generator *g, int l,
                        const struct dsf_segment *segment)
{
    const struct dsf_unit *units[DSF_MAX_UNITS];
    struct dsf_site site =
        site_of(g->model, l, segment, g->pos, g->rows, units);

    if (segment->logits != NULL) {
        site.tile.pos += g->rows - 1;
        site.tile.rows = site.keys = 1;
        run(g, l, segment, segment->logits, &site, g->pos);
        return;
    }
    if (segment->pairs && g->pos > 0) {
        struct dsf_site earlier = site;

        earlier.keys = g->pos;
        earlier.diagonal = false;
        earlier.first_keys = true;
        run(g, l, segment, segment->forward, &earlier, 0);
    }
    run(g, l, segment, segment->forward, &site, g->pos);
}

static void feed_rows(struct dsf_generator *g, const int32_t *tokens,
                      size_t rows)
{
    const struct dsf_model *m = g->model;

    g->rows = (int32_t)rows;
    memcpy(g->batch, tokens, rows * sizeof(*tokens));
    for (int l = -1; l <= m->layers; l++) {
        const struct dsf_segment *const *s = dsf_model_layer(m, l)->segments;

        for (; *s != NULL; s++)
            run_segment(g, l, *s);
    }
    g->pos += (int32_t)rows;
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
