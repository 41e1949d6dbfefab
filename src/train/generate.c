/* generate.c - text from a model: the forward tasks of its segments, with the
 * keys and values of all earlier tokens kept. */
#include "train/generate.h"

#include "base/alloc.h"
#include "base/units.h"
#include "codelets/codelets.h"
#include "kernels/kernels.h"
#include "segments/segment.h"
#include "tasks/components.h"

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
    struct port_data (*own)[DSFLOW_SEGMENT_PORTS]; /* by segment, as listed */
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

static struct port_data *own_data(const struct dsf_generator *g,
                                  const struct dsflow_segment *segment,
                                  unsigned port)
{
    return &g->own[dsf_segment_number(segment)][port];
}

void dsf_generator_free(struct dsf_generator *g)
{
    if (g == NULL)
        return;
    for (unsigned i = 0; i < DSF_MAX_SEGMENTS * DSFLOW_SEGMENT_PORTS; i++) {
        struct port_data *d =
            &g->own[i / DSFLOW_SEGMENT_PORTS][i % DSFLOW_SEGMENT_PORTS];

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

/* Of `rows` tokens from `pos` on, in a segment of layer `l`. */
static struct dsflow_site site_of(const struct dsf_model *m, int l,
                                  const struct dsflow_segment *segment,
                                  int32_t pos, int32_t rows)
{
    struct dsflow_site site = { .tile = dsf_model_tile(m, l),
                             .parts = 1,
                             .tokens = 1,
                             .keys = rows,
                             .diagonal = true,
                             .first_keys = pos == 0 };

    site.tile.rows = rows;
    site.tile.nseq = 1;
    site.tile.pos = pos;
    for (unsigned u = 0; dsf_segment_unit(segment, u) != NULL; u++)
        site.at[u] = m->units[dsf_model_unit(m, l, segment, u)].at;
    return site;
}

/* Numbers on a port, of `rows` tokens. */
static size_t numbers(const struct dsf_model *m, int l,
                      const struct dsflow_segment *segment, unsigned port,
                      int32_t rows)
{
    const struct dsflow_site site = site_of(m, l, segment, 0, rows);
    struct dsflow_need need = dsf_segment_need(segment, &site, port);

    return (size_t)(need.rows * need.cols);
}

static int32_t most_rows(const struct dsf_model *m)
{
    return m->dims.context < MOST_ROWS ? m->dims.context : MOST_ROWS;
}

/* Call `what` for each port of each layer that keeps data. */
typedef void (*own_port_fn)(void *user, int l, const struct dsflow_segment *s,
                            unsigned port);
static void each_own_port(const struct dsf_model *m, own_port_fn what,
                          void *user)
{
    for (int l = 0; l < m->layers; l++) {
        const struct dsflow_segment *const *s = dsf_model_layer(m, l)->segments;

        for (; *s != NULL; s++)
            for (unsigned p = 0; p < (*s)->nports; p++)
                if ((*s)->ports[p].from == DSFLOW_FROM_KEPT)
                    what(user, l, *s, p);
    }
}

struct counted {
    const struct dsf_model *model;
    double bytes;
};

static void count_port(void *user, int l, const struct dsflow_segment *s,
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
static void add_port(void *user, int l, const struct dsflow_segment *s,
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

static void look_for(void *user, int l, const struct dsflow_segment *s,
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
    g->own = dsf_xcalloc(DSF_MAX_SEGMENTS, sizeof(*g->own));
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
    struct dsflow_shape shapes[DSFLOW_SEGMENT_PORTS];
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
        if (g->scratch == NULL) {
            g->scratch_bytes = 0;
            dsflow_fail(&g->err, DSFLOW_ENOMEM,
                        "not enough memory: %zu bytes of scratch for %.60s",
                        scratch, own->name);
            return;
        }
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
                     const struct dsflow_segment *segment, unsigned p,
                     const struct dsflow_site *site, int32_t key)
{
    const struct dsflow_segment_port *port = &segment->ports[p];
    const struct port_data *own;

    switch (port->from) {
    case DSFLOW_FROM_PARAMETERS:
        return g->params[dsf_model_unit(g->model, l, segment, port->unit)];
    case DSFLOW_FROM_IN: /* logits are of the last row */
        return g->stream[g->from] + (g->rows - site->tile.rows) *
                                        (ptrdiff_t)site->tile.width;
    case DSFLOW_FROM_OUT:
        return g->stream[1 - g->from];
    case DSFLOW_FROM_OTHER:
        return data_on(g, l, dsflow_segment_find(NULL, port->other),
                       port->unit, site, key);
    case DSFLOW_FROM_KEPT:
        own = own_data(g, segment, p);
        return port->of_keys
                   ? own->l[l] + numbers(g->model, l, segment, p, 1) *
                                     (size_t)key
                   : own->v;
    case DSFLOW_FROM_ROPE:
        return g->rope;
    case DSFLOW_FROM_BATCH:
        return g->batch;
    case DSFLOW_FROM_LOGITS:
        return g->logits;
    default:
        return NULL;
    }
}

static void run(struct dsf_generator *g, int l,
                const struct dsflow_segment *segment, const struct dsflow_op *op,
                const struct dsflow_site *site, int32_t key)
{
    _Alignas(16) unsigned char args[DSFLOW_SEGMENT_ARGS] = { 0 };
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    struct dsflow_buf bufs[DSFLOW_SEGMENT_PORTS] = { { .ptr = NULL } };
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
            segment->ports[p].from == DSFLOW_FROM_OUT)
            g->from = 1 - g->from;
}

/* The tokens that are being fed, through a segment of layer `l`. Where it has
 * pairs, with all keys so far and then with their own. */
static void run_segment(struct dsf_generator *g, int l,
                        const struct dsflow_segment *segment)
{
    struct dsflow_site site =
        site_of(g->model, l, segment, g->pos, g->rows);

    if (segment->logits != NULL) {
        site.tile.pos += g->rows - 1;
        site.tile.rows = site.keys = 1;
        run(g, l, segment, segment->logits, &site, g->pos);
        return;
    }
    if (segment->pairs && g->pos > 0) {
        struct dsflow_site earlier = site;

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
        const struct dsflow_segment *const *s = dsf_model_layer(m, l)->segments;

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
    if (g->err.status == DSFLOW_OK)
        dsf_kernels_failed(&g->err);
    if (g->err.status != DSFLOW_OK)
        return dsflow_fail(err, g->err.status, "%s", g->err.msg);
    return DSFLOW_OK;
}

const float *dsf_generator_logits(const struct dsf_generator *g)
{
    return g->logits;
}
