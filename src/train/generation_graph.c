/* generation_graph.c - data and tasks of generation: whole segments, as their
 * descriptions say, or the columns of them that each worker does. */
#include "train/generation.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build {
    struct dsf_generation *g;
    dsflow_data_id stream[2]; /* of whole segments: they read one */
    unsigned from;
    /* What segments keep, by segment and port: of keys, one for each layer;
     * else the layers use the first. + 1; 0: it is not made yet. */
    uint32_t *kept[DSF_MAX_SEGMENTS][DSFLOW_SEGMENT_PORTS];
    /* The same in fp32, where the tasks of a pair add to what is narrow. */
    uint32_t *sums[DSF_MAX_SEGMENTS][DSFLOW_SEGMENT_PORTS];
};

/* Data of worker `part`, `rows` by `cols`. */
static dsflow_data_id add_data(struct dsf_generation *g, int32_t part,
                               struct dsflow_data_spec spec,
                               struct dsflow_need need, const char *fmt, ...)
{
    char name[160];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    spec.size = sizeof(spec);
    spec.name = name;
    spec.home = (int16_t)part;
    spec.elems = need.rows * need.cols;
    spec.ndims = 2;
    spec.dims[0] = need.rows;
    spec.dims[1] = need.cols;
    spec.dtype = (uint8_t)need.dtype;
    if (spec.role != DSFLOW_PARAMS)
        spec.unit = -1;
    return dsflow_graph_add_data(g->graph, &spec);
}

static struct dsflow_need numbers(enum dsflow_dtype type, int64_t rows,
                                  int64_t cols)
{
    return (struct dsflow_need){ rows, cols, type };
}

static struct dsflow_need floats(int64_t rows, int64_t cols)
{
    return numbers(DSFLOW_FP32, rows, cols);
}

static struct dsflow_data_spec passing(void)
{
    return DSFLOW_DATA(.role = DSFLOW_BUFFERS);
}

/* What the program around the graph reads or writes, or the next tokens need.
 */
static struct dsflow_data_spec kept(void)
{
    return DSFLOW_DATA(.role = DSFLOW_BUFFERS, .persistent = 1);
}

static struct dsflow_data_spec constant(void)
{
    return DSFLOW_DATA(.role = DSFLOW_BUFFERS, .persistent = 1, .constant = 1);
}

static void add_params(struct dsf_generation *g)
{
    const struct dsf_model *m = g->model;

    g->params = dsf_xcalloc(m->nunits, sizeof(*g->params));
    g->again = dsf_xcalloc(m->nunits, sizeof(*g->again));
    for (unsigned u = 0; u < m->nunits; u++) {
        const struct dsflow_need need = numbers(
            dsf_generation_unit_type(m, g->types, u), 1, m->units[u].elems);
        struct dsflow_data_spec spec = constant();

        spec.role = DSFLOW_PARAMS;
        spec.unit = (int32_t)u;
        g->params[u] = add_data(g, 0, spec, need, "%s", m->units[u].name);
        g->again[u] = dsf_no_data();
        if (!g->whole && m->units[u].segment == &dsf_segment_qkv)
            g->again[u] =
                add_data(g, 0, spec, need, "%s.again", m->units[u].name);
    }
}

static void add_common(struct dsf_generation *g)
{
    const struct dsf_dims *d = &g->model->dims;

    add_params(g);
    g->rope = dsf_no_data();
    if (d->rope)
        g->rope =
            add_data(g, 0, constant(), floats(d->context, d->head_dim), "rope");
    g->batch =
        add_data(g, 0, kept(), (struct dsflow_need){ 2, g->rows, DSFLOW_INT32 },
                 "batch");
}

/* --- tasks --------------------------------------------------------------- */

struct task_of {
    const struct dsflow_segment *segment;
    const struct dsf_slice *slice;
    const struct dsflow_op *op;
    int32_t layer, part;
};

static struct dsf_generation_task *begin_task(struct dsf_generation *g,
                                              struct task_of of)
{
    struct dsf_generation_task *t;

    dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks + 1u, sizeof(*g->tasks));
    t = &g->tasks[g->ntasks++];
    memset(t, 0, sizeof(*t));
    t->segment = of.segment;
    t->slice = of.slice;
    t->of = of.op;
    t->op = of.slice != NULL ? of.op : dsf_job_op(g->job, of.op);
    t->layer = of.layer;
    t->part = of.part;
    return t;
}

static void bind(struct dsf_generation_task *t, unsigned port,
                 dsflow_data_id id, bool keys)
{
    if (!dsf_is_data(id))
        return;
    t->port[t->n] = (uint8_t)port;
    t->keys[t->n] = keys;
    t->data[t->n++] = id;
}

/* Rows of a port of a segment, in the type of other data. */
static void cast(struct dsf_generation *g, struct task_of of, unsigned port,
                 dsflow_data_id into, dsflow_data_id from)
{
    struct dsf_generation_task *t;

    of.op = &dsf_op_columns;
    t = begin_task(g, of);
    t->casts = true;
    t->cast = (uint8_t)port;
    bind(t, 0, into, false);
    bind(t, 1, from, false);
}

/* With all keys so far, and then with its own: a task for each. */
static void pair(struct dsf_generation *g)
{
    struct dsf_generation_task *t;

    if (g->model->dims.context < 2)
        return;
    dsf_grow(&g->tasks, &g->cap_tasks, g->ntasks + 1u, sizeof(*g->tasks));
    t = &g->tasks[g->ntasks++];
    *t = t[-1];
    t[-1].earlier = true;
}

/* --- whole segments ------------------------------------------------------ */

/* Do the tasks of a pair add to the data of a port that is kept narrow? */
static bool has_sums(const struct dsf_generation *g,
                     const struct dsflow_segment *s, unsigned port)
{
    const struct dsflow_op *op = dsf_generation_op(g->job, s);

    return g->types.body != DSFLOW_FP32 && s->pairs && s->logits == NULL &&
           s->ports[port].from == DSFLOW_FROM_KEPT &&
           op->ports[port].floats == DSFLOW_NARROW_SUM;
}

static struct dsflow_need typed(struct dsflow_need need, enum dsflow_dtype type)
{
    if (need.dtype == DSFLOW_FP32)
        need.dtype = type;
    return need;
}

/* The largest of all layers serves them in turn, but for keys. */
static dsflow_data_id kept_on(struct build *b, int32_t l,
                              const struct dsflow_segment *s, unsigned port,
                              bool sums)
{
    struct dsf_generation *g = b->g;
    const struct dsf_model *m = g->model;
    const enum dsflow_dtype type =
        sums ? DSFLOW_FP32
             : dsf_generation_port_type(g->types, g->job, s, port);
    uint32_t **made = &(sums ? b->sums : b->kept)[dsf_segment_number(s)][port];
    struct dsflow_need most = { 0 };
    uint32_t *id;

    if (*made == NULL)
        *made = dsf_xcalloc((size_t)m->layers + 2, sizeof(**made));
    id = *made + (s->ports[port].of_keys ? l + 1 : 0);
    if (*id > 0)
        return (dsflow_data_id){ *id - 1 };
    if (s->ports[port].of_keys) {
        most = dsf_generation_need(m, l, s, port, m->dims.context);
        *id = 1 + add_data(g, 0, kept(), typed(most, type), "%s.%s.l%d",
                           s->name, s->ports[port].name, (int)l)
                      .i;
        return (dsflow_data_id){ *id - 1 };
    }
    for (int32_t k = 0; k < m->layers; k++) {
        struct dsflow_need n = dsf_generation_need(m, k, s, port, g->rows);

        if (n.rows * n.cols > most.rows * most.cols)
            most = n;
    }
    *id = 1 + add_data(g, 0, passing(), typed(most, type), "%s.%s%s", s->name,
                       s->ports[port].name, sums ? ".sums" : "")
                  .i;
    return (dsflow_data_id){ *id - 1 };
}

/* The data on a port, and whether it is of all tokens so far. */
static dsflow_data_id on_port(struct build *b, int32_t l,
                              const struct dsflow_segment *s, unsigned port,
                              bool *keys)
{
    struct dsf_generation *g = b->g;
    const struct dsflow_segment_port *p = &s->ports[port];

    *keys = false;
    switch (p->from) {
    case DSFLOW_FROM_PARAMETERS:
        return g->params[dsf_model_unit(g->model, l, s, p->unit)];
    case DSFLOW_FROM_IN:
        return b->stream[b->from];
    case DSFLOW_FROM_OUT:
        return b->stream[1 - b->from];
    case DSFLOW_FROM_OTHER:
        return on_port(b, l, dsflow_segment_find(NULL, p->other), p->unit,
                       keys);
    case DSFLOW_FROM_KEPT:
        *keys = p->of_keys;
        return kept_on(b, l, s, port, false);
    case DSFLOW_FROM_ROPE:
        return g->rope;
    case DSFLOW_FROM_BATCH:
        return g->batch;
    case DSFLOW_FROM_LOGITS:
        return g->logits[0];
    default:
        return dsf_no_data();
    }
}

/* What a pair has added up, in the type in which it is read. */
static void round_sums(struct build *b, struct task_of of)
{
    for (unsigned p = 0; p < of.op->nports; p++)
        if (of.op->ports[p].name != NULL && has_sums(b->g, of.segment, p))
            cast(b->g, of, p, kept_on(b, of.layer, of.segment, p, false),
                 kept_on(b, of.layer, of.segment, p, true));
}

/* A head that is fp32, behind others that are not, has a stream of its own. */
static void widen_stream(struct build *b, struct task_of of)
{
    struct dsf_generation *g = b->g;
    const dsflow_data_id from = b->stream[b->from];

    if (of.layer < g->model->layers || g->types.head == g->types.body)
        return;
    b->stream[b->from] = add_data(
        g, 0, passing(), floats(g->rows, g->model->dims.width), "stream.wide");
    for (unsigned p = 0; p < of.op->nports; p++)
        if (of.op->ports[p].name != NULL &&
            of.segment->ports[p].from == DSFLOW_FROM_IN)
            cast(g, of, p, b->stream[b->from], from);
}

static void whole_segment(struct build *b, int32_t l,
                          const struct dsflow_segment *s)
{
    const struct dsflow_op *op = s->logits != NULL ? s->logits : s->forward;
    const struct task_of of = { .segment = s, .op = op, .layer = l };
    struct dsf_generation_task *t;
    bool keys, writes = false;

    widen_stream(b, of);
    t = begin_task(b->g, of);
    for (unsigned p = 0; p < op->nports; p++) {
        if (op->ports[p].name == NULL)
            continue;
        dsflow_data_id id = on_port(b, l, s, p, &keys);

        if (has_sums(b->g, s, p))
            id = kept_on(b, l, s, p, true);
        bind(t, p, id, keys);
        writes |= s->ports[p].from == DSFLOW_FROM_OUT;
    }
    if (writes)
        b->from = 1 - b->from;
    if (s->pairs && s->logits == NULL)
        pair(b->g);
    round_sums(b, of);
}

static void build_whole(struct dsf_generation *g)
{
    const struct dsf_model *m = g->model;
    struct build b = { .g = g };

    for (unsigned i = 0; i < 2; i++)
        b.stream[i] = add_data(g, 0, passing(),
                               numbers(g->types.body, g->rows, m->dims.width),
                               "stream%u", i);
    g->logits[0] = add_data(g, 0, kept(), floats(1, m->dims.vocab), "logits");
    for (int32_t l = -1; l <= m->layers; l++) {
        const struct dsflow_segment *const *s = dsf_model_layer(m, l)->segments;

        for (; *s != NULL; s++)
            whole_segment(&b, l, *s);
    }
    for (unsigned i = 0; i < DSF_MAX_SEGMENTS; i++)
        for (unsigned p = 0; p < DSFLOW_SEGMENT_PORTS; p++) {
            free(b.kept[i][p]);
            free(b.sums[i][p]);
        }
}

/* --- columns of them ----------------------------------------------------- */

/* Data of each worker, by worker: what it makes, and what all have made. */
struct shared_out {
    dsflow_data_id q[DSF_MOST_PARTS], att[DSF_MOST_PARTS], lse[DSF_MOST_PARTS];
    dsflow_data_id atts[DSF_MOST_PARTS], act[DSF_MOST_PARTS];
    dsflow_data_id acts[DSF_MOST_PARTS];
    dsflow_data_id x[DSF_MOST_PARTS], own[DSF_MOST_PARTS];
    dsflow_data_id mid[DSF_MOST_PARTS], own_mid[DSF_MOST_PARTS];
};

static struct dsf_dims most_of(const struct dsf_model *m)
{
    struct dsf_dims most = m->dims;

    for (int32_t l = 0; l < m->layers; l++) {
        const struct dsf_dims *d = &dsf_model_layer(m, l)->dims;

        most.heads = d->heads > most.heads ? d->heads : most.heads;
        most.ffn = d->ffn > most.ffn ? d->ffn : most.ffn;
    }
    return most;
}

static void share_out(struct dsf_generation *g, struct shared_out *d)
{
    const struct dsf_dims most = most_of(g->model);
    const int64_t n = g->parts, nq = (int64_t)most.heads * most.head_dim;
    const enum dsflow_dtype type = g->types.body;

    for (int32_t t = 0; t < g->parts; t++) {
        const struct {
            const char *name;
            dsflow_data_id *id;
            int64_t cols;
            enum dsflow_dtype type;
        } buffers[] = {
            { "q", d->q, nq / n, type },
            { "att", d->att, nq / n, DSFLOW_FP32 }, /* the sums of a pair */
            { "atts", d->atts, nq, type },
            { "act", d->act, most.ffn / n, type },
            { "acts", d->acts, most.ffn, type },
            { "x", d->x, most.width, type },
            { "own", d->own, most.width / n, type },
            { "mid", d->mid, most.width, type },
            { "own_mid", d->own_mid, most.width / n, type },
            { "lse", d->lse, 2 * most.heads / n, DSFLOW_FP32 },
        };

        for (size_t i = 0; i < sizeof(buffers) / sizeof(*buffers); i++)
            buffers[i].id[t] =
                add_data(g, t, passing(),
                         numbers(buffers[i].type, g->rows, buffers[i].cols),
                         "%s.p%d", buffers[i].name, (int)t);
    }
}

/* Tasks of all workers, of one slice. */
struct slice_of {
    const struct dsflow_segment *segment;
    const struct dsf_slice *slice;
    int32_t layer;
};

static struct dsf_generation_task *slice(struct dsf_generation *g,
                                         struct slice_of of, int32_t part)
{
    return begin_task(g, (struct task_of){ of.segment, of.slice, of.slice->op,
                                           of.layer, part });
}

/* What all have made, for each of them. */
static void join(struct dsf_generation *g, struct slice_of of,
                 const dsflow_data_id *into, const dsflow_data_id *from)
{
    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = slice(g, of, t);

        bind(task, 0, into[t], false);
        for (int32_t i = 0; i < g->parts; i++)
            bind(task, (unsigned)i + 1, from[i], false);
    }
}

static dsflow_data_id param(const struct dsf_generation *g, int32_t l,
                            const struct dsflow_segment *s, unsigned unit)
{
    return g->params[dsf_model_unit(g->model, l, s, unit)];
}

static void share_attention(struct dsf_generation *g, struct shared_out *d,
                            int32_t l)
{
    const struct slice_of qkv = { &dsf_segment_qkv, &dsf_slice_qkv, l };
    const struct slice_of attention = { &dsf_segment_attention,
                                        &dsf_slice_attention, l };
    const struct dsflow_need kv = dsf_generation_need(
        g->model, l, &dsf_segment_qkv, DSFLOW_QKV_KV, g->model->dims.context);

    for (int32_t t = 0; t < g->parts; t++) {
        dsflow_data_id keys = add_data(
            g, t, kept(), numbers(g->types.body, kv.rows, kv.cols / g->parts),
            "kv.l%d.p%d", (int)l, (int)t);
        struct dsf_generation_task *task = slice(g, qkv, t);

        bind(task, DSFLOW_QKV_X, d->x[t], false);
        bind(task, DSFLOW_QKV_UNIT, param(g, l, &dsf_segment_qkv, 0), false);
        bind(task, DSFLOW_QKV_Q, d->q[t], false);
        bind(task, DSFLOW_QKV_KV, keys, true);
        bind(task, DSFLOW_QKV_ROPE, g->rope, false);
        bind(task, DSFLOW_QKV_SHARED,
             g->again[dsf_model_unit(g->model, l, &dsf_segment_qkv, 0)], false);
        task = slice(g, attention, t);
        bind(task, DSFLOW_ATTENTION_Q, d->q[t], false);
        bind(task, DSFLOW_ATTENTION_KV, keys, true);
        bind(task, DSFLOW_ATTENTION_ATT, d->att[t], false);
        bind(task, DSFLOW_ATTENTION_LSE, d->lse[t], false);
        pair(g);
    }
    join(g, (struct slice_of){ &dsf_segment_out, &dsf_slice_join_att, l },
         d->atts, d->att);
}

static void share_out_segment(struct dsf_generation *g, struct shared_out *d,
                              int32_t l)
{
    const struct slice_of out = { &dsf_segment_out, &dsf_slice_out, l };

    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = slice(g, out, t);

        bind(task, DSF_PROJECT_X, d->own[t], false);
        bind(task, DSF_PROJECT_IN, d->atts[t], false);
        bind(task, DSF_PROJECT_UNIT, param(g, l, &dsf_segment_out, 0), false);
        bind(task, DSF_PROJECT_Y, d->own_mid[t], false);
    }
    join(g, (struct slice_of){ &dsf_segment_out, &dsf_slice_join_stream, l },
         d->mid, d->own_mid);
}

static void share_mlp(struct dsf_generation *g, struct shared_out *d, int32_t l)
{
    const struct slice_of up = { &dsf_segment_mlp, &dsf_slice_up, l };
    const struct slice_of down = { &dsf_segment_mlp, &dsf_slice_down, l };
    const dsflow_data_id unit = param(g, l, &dsf_segment_mlp, 0);

    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = slice(g, up, t);

        bind(task, DSF_MLP_UP_X, d->mid[t], false);
        bind(task, DSF_MLP_UP_UNIT, unit, false);
        bind(task, DSF_MLP_UP_ACT, d->act[t], false);
    }
    join(g, (struct slice_of){ &dsf_segment_mlp, &dsf_slice_join_act, l },
         d->acts, d->act);
    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = slice(g, down, t);

        bind(task, DSF_PROJECT_X, d->own_mid[t], false);
        bind(task, DSF_PROJECT_IN, d->acts[t], false);
        bind(task, DSF_PROJECT_UNIT, unit, false);
        bind(task, DSF_PROJECT_Y, d->own[t], false);
    }
    join(g, (struct slice_of){ &dsf_segment_mlp, &dsf_slice_join_stream, l },
         d->x, d->own);
}

/* Each worker embeds the tokens for itself, and keeps its own columns. */
static void share_embed(struct dsf_generation *g, struct shared_out *d)
{
    const struct dsflow_segment *embed = &dsf_segment_embed;

    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = begin_task(
            g, (struct task_of){ embed, NULL, embed->forward, -1, t });

        bind(task, DSFLOW_EMBED_BATCH, g->batch, false);
        bind(task, DSFLOW_EMBED_UNIT, param(g, -1, embed, 0), false);
        bind(task, DSFLOW_EMBED_X, d->x[t], false);
        task =
            slice(g, (struct slice_of){ embed, &dsf_slice_own_stream, -1 }, t);
        bind(task, 0, d->own[t], false);
        bind(task, 1, d->x[t], false);
    }
}

/* What the head of a worker reads: in fp32, where that is its type. */
static dsflow_data_id wide_x(struct dsf_generation *g, struct shared_out *d,
                             int32_t part)
{
    const struct task_of head = { .segment = &dsf_segment_head,
                                  .layer = g->model->layers,
                                  .part = part };
    dsflow_data_id wide;

    if (g->types.head == g->types.body)
        return d->x[part];
    wide = add_data(g, part, passing(), floats(g->rows, g->model->dims.width),
                    "x.wide.p%d", (int)part);
    cast(g, head, DSFLOW_HEAD_X, wide, d->x[part]);
    return wide;
}

static void share_logits(struct dsf_generation *g, struct shared_out *d)
{
    const struct dsflow_segment *head = &dsf_segment_head;
    const int32_t l = g->model->layers;
    int32_t first;

    for (int32_t t = 0; t < g->parts; t++) {
        const dsflow_data_id x = wide_x(g, d, t);
        struct dsf_generation_task *task =
            slice(g, (struct slice_of){ head, &dsf_slice_logits, l }, t);

        g->logits[t] = add_data(
            g, t, kept(),
            floats(1, dsf_share(g->model->dims.vocab, g->parts, t, &first)),
            "logits.p%d", (int)t);
        bind(task, DSFLOW_HEAD_X, x, false);
        bind(task, DSFLOW_HEAD_NORM, param(g, l, head, DSF_HEAD_UNIT_NORM),
             false);
        bind(task, DSFLOW_HEAD_WEIGHT, param(g, l, head, DSF_HEAD_UNIT_W),
             false);
        bind(task, DSFLOW_HEAD_LOGITS, g->logits[t], false);
    }
}

static void build_shared(struct dsf_generation *g)
{
    struct shared_out d;

    share_out(g, &d);
    share_embed(g, &d);
    for (int32_t l = 0; l < g->model->layers; l++) {
        share_attention(g, &d, l);
        share_out_segment(g, &d, l);
        share_mlp(g, &d, l);
    }
    share_logits(g, &d);
}

void dsf_generation_build(struct dsf_generation *g)
{
    add_common(g);
    if (g->whole)
        build_whole(g);
    else
        build_shared(g);
}
