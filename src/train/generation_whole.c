/* generation_whole.c - the tasks of generation where segments are done whole,
 * as their descriptions say. */
#include "train/generation_build.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdlib.h>

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
        most = dsf_generation_need(m, l, s, port,
                                   s == &dsf_segment_qkv
                                       ? dsf_generation_keys(m, l)
                                       : m->dims.context);
        *id = 1 + dsf_build_data(g, 0, dsf_build_lasting(), typed(most, type),
                                 "%s.%s.l%d", s->name, s->ports[port].name,
                                 (int)l)
                      .i;
        return (dsflow_data_id){ *id - 1 };
    }
    for (int32_t k = 0; k < m->layers; k++) {
        struct dsflow_need n = dsf_generation_need(m, k, s, port, g->rows);

        if (n.rows * n.cols > most.rows * most.cols)
            most = n;
    }
    *id = 1 + dsf_build_data(g, 0, dsf_build_passing(), typed(most, type),
                             "%s.%s%s", s->name, s->ports[port].name,
                             sums ? ".sums" : "")
                  .i;
    return (dsflow_data_id){ *id - 1 };
}

/* New keys of a layer that has them in a ring; else it is no data. */
static dsflow_data_id aside(struct build *b, int32_t l,
                            const struct dsflow_segment *s, unsigned port)
{
    struct dsf_generation *g = b->g;

    if (s != &dsf_segment_qkv || !s->ports[port].of_keys ||
        !dsf_generation_has_ring(g->model, l))
        return dsf_no_data();
    return dsf_build_aside(
        g, 0,
        typed(dsf_generation_need(g->model, l, s, port, g->rows),
              dsf_generation_port_type(g->types, g->job, s, port)));
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
        if (dsf_is_data(aside(b, l, s, port)))
            return aside(b, l, s, port);
        *keys = p->of_keys;
        return kept_on(b, l, s, port, false);
    case DSFLOW_FROM_ROPE:
        return g->rope;
    case DSFLOW_FROM_LAYOUT:
        return dsf_generation_layout_id(g, l);
    case DSFLOW_FROM_BATCH:
        return g->batch;
    case DSFLOW_FROM_LOGITS:
        return g->logits[0];
    default:
        return dsf_no_data();
    }
}

/* What a pair has added up, in the type in which it is read. */
static void round_sums(struct build *b, struct dsf_task_of of)
{
    for (unsigned p = 0; p < of.op->nports; p++)
        if (of.op->ports[p].name != NULL && has_sums(b->g, of.segment, p))
            dsf_build_cast(b->g, of, p,
                           kept_on(b, of.layer, of.segment, p, false),
                           kept_on(b, of.layer, of.segment, p, true));
}

/* A head that is fp32, behind others that are not, has a stream of its own. */
static void widen_stream(struct build *b, struct dsf_task_of of)
{
    struct dsf_generation *g = b->g;
    const dsflow_data_id from = b->stream[b->from];

    if (of.layer < g->model->layers || g->types.head == g->types.body)
        return;
    b->stream[b->from] = dsf_build_data(
        g, 0, dsf_build_passing(),
        dsf_build_floats(g->rows, g->model->dims.width), "stream.wide");
    for (unsigned p = 0; p < of.op->nports; p++)
        if (of.op->ports[p].name != NULL &&
            of.segment->ports[p].from == DSFLOW_FROM_IN)
            dsf_build_cast(g, of, p, b->stream[b->from], from);
}

static void build_pair(struct build *b, int32_t l,
                       const struct dsflow_segment *s)
{
    const struct dsflow_segment *qkv = &dsf_segment_qkv;
    dsflow_data_id own = dsf_no_data(), kept = dsf_no_data();

    if (s == &dsf_segment_attention)
        own = aside(b, l, qkv, DSFLOW_QKV_KV);
    if (dsf_is_data(own))
        kept = kept_on(b, l, qkv, DSFLOW_QKV_KV, false);
    dsf_build_pair(b->g, kept, own);
}

static void whole_segment(struct build *b, int32_t l,
                          const struct dsflow_segment *s)
{
    const struct dsflow_op *op = s->logits != NULL ? s->logits : s->forward;
    const struct dsf_task_of of = { .segment = s, .op = op, .layer = l };
    struct dsf_generation_task *t;
    bool keys, writes = false;

    widen_stream(b, of);
    t = dsf_build_task(b->g, of);
    for (unsigned p = 0; p < op->nports; p++) {
        if (op->ports[p].name == NULL)
            continue;
        dsflow_data_id id = on_port(b, l, s, p, &keys);

        if (has_sums(b->g, s, p))
            id = kept_on(b, l, s, p, true);
        dsf_build_bind(t, p, id, keys);
        writes |= s->ports[p].from == DSFLOW_FROM_OUT;
    }
    if (writes)
        b->from = 1 - b->from;
    if (s->pairs && s->logits == NULL)
        build_pair(b, l, s);
    round_sums(b, of);
}

void dsf_generation_whole(struct dsf_generation *g)
{
    const struct dsf_model *m = g->model;
    struct build b = { .g = g };

    for (unsigned i = 0; i < 2; i++)
        b.stream[i] = dsf_build_data(
            g, 0, dsf_build_passing(),
            dsf_build_numbers(g->types.body, g->rows, m->dims.width),
            "stream%u", i);
    g->logits[0] = dsf_build_data(g, 0, dsf_build_lasting(),
                                  dsf_build_floats(1, m->dims.vocab_rows),
                                  "logits");
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
