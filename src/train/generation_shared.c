/* generation_shared.c - the tasks of generation where each worker does some
 * columns of what leaves every segment. */
#include "train/generation_build.h"

#include "graph/task.h"

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
            buffers[i].id[t] = dsf_build_data(
                g, t, dsf_build_passing(),
                dsf_build_numbers(buffers[i].type, g->rows, buffers[i].cols),
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
    return dsf_build_task(g,
                          (struct dsf_task_of){ of.segment, of.slice,
                                                of.slice->op, of.layer, part });
}

/* What all have made, for each of them. */
static void join(struct dsf_generation *g, struct slice_of of,
                 const dsflow_data_id *into, const dsflow_data_id *from)
{
    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = slice(g, of, t);

        dsf_build_bind(task, 0, into[t], false);
        for (int32_t i = 0; i < g->parts; i++)
            dsf_build_bind(task, (unsigned)i + 1, from[i], false);
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
    const struct dsflow_need kv =
        dsf_generation_need(g->model, l, &dsf_segment_qkv, DSFLOW_QKV_KV,
                            dsf_generation_keys(g->model, l));
    const bool ring = dsf_generation_has_ring(g->model, l);

    for (int32_t t = 0; t < g->parts; t++) {
        const struct dsflow_need own =
            dsf_build_numbers(g->types.body, kv.rows, kv.cols / g->parts);
        const dsflow_data_id kept = dsf_build_data(
            g, t, dsf_build_lasting(), own, "kv.l%d.p%d", (int)l, (int)t);
        const dsflow_data_id aside =
            ring ? dsf_build_aside(g, t, own) : dsf_no_data();
        const dsflow_data_id keys = ring ? aside : kept;
        struct dsf_generation_task *task = slice(g, qkv, t);

        dsf_build_bind(task, DSFLOW_QKV_X, d->x[t], false);
        dsf_build_bind(task, DSFLOW_QKV_UNIT, param(g, l, &dsf_segment_qkv, 0),
                       false);
        dsf_build_bind(task, DSFLOW_QKV_Q, d->q[t], false);
        dsf_build_bind(task, DSFLOW_QKV_KV, keys, !ring);
        dsf_build_bind(task, DSFLOW_QKV_ROPE, g->rope, false);
        dsf_build_bind(
            task, DSFLOW_QKV_SHARED,
            g->again[dsf_model_unit(g->model, l, &dsf_segment_qkv, 0)], false);
        task = slice(g, attention, t);
        dsf_build_bind(task, DSFLOW_ATTENTION_Q, d->q[t], false);
        dsf_build_bind(task, DSFLOW_ATTENTION_KV, keys, !ring);
        dsf_build_bind(task, DSFLOW_ATTENTION_ATT, d->att[t], false);
        dsf_build_bind(task, DSFLOW_ATTENTION_LSE, d->lse[t], false);
        dsf_build_bind(task, DSFLOW_ATTENTION_LAYOUT,
                       dsf_generation_layout_id(g, l), false);
        dsf_build_pair(g, kept, aside);
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

        dsf_build_bind(task, DSF_PROJECT_X, d->own[t], false);
        dsf_build_bind(task, DSF_PROJECT_IN, d->atts[t], false);
        dsf_build_bind(task, DSF_PROJECT_UNIT, param(g, l, &dsf_segment_out, 0),
                       false);
        dsf_build_bind(task, DSF_PROJECT_Y, d->own_mid[t], false);
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

        dsf_build_bind(task, DSF_MLP_UP_X, d->mid[t], false);
        dsf_build_bind(task, DSF_MLP_UP_UNIT, unit, false);
        dsf_build_bind(task, DSF_MLP_UP_ACT, d->act[t], false);
    }
    join(g, (struct slice_of){ &dsf_segment_mlp, &dsf_slice_join_act, l },
         d->acts, d->act);
    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = slice(g, down, t);

        dsf_build_bind(task, DSF_PROJECT_X, d->own_mid[t], false);
        dsf_build_bind(task, DSF_PROJECT_IN, d->acts[t], false);
        dsf_build_bind(task, DSF_PROJECT_UNIT, unit, false);
        dsf_build_bind(task, DSF_PROJECT_Y, d->own[t], false);
    }
    join(g, (struct slice_of){ &dsf_segment_mlp, &dsf_slice_join_stream, l },
         d->x, d->own);
}

/* Each worker embeds the tokens for itself, and keeps its own columns. */
static void share_embed(struct dsf_generation *g, struct shared_out *d)
{
    const struct dsflow_segment *embed = &dsf_segment_embed;

    for (int32_t t = 0; t < g->parts; t++) {
        struct dsf_generation_task *task = dsf_build_task(
            g, (struct dsf_task_of){ embed, NULL, embed->forward, -1, t });

        dsf_build_bind(task, DSFLOW_EMBED_BATCH, g->batch, false);
        dsf_build_bind(task, DSFLOW_EMBED_UNIT, param(g, -1, embed, 0), false);
        dsf_build_bind(task, DSFLOW_EMBED_X, d->x[t], false);
        task =
            slice(g, (struct slice_of){ embed, &dsf_slice_own_stream, -1 }, t);
        dsf_build_bind(task, 0, d->own[t], false);
        dsf_build_bind(task, 1, d->x[t], false);
    }
}

/* What the head of a worker reads: in fp32, where that is its type. */
static dsflow_data_id wide_x(struct dsf_generation *g, struct shared_out *d,
                             int32_t part)
{
    const struct dsf_task_of head = { .segment = &dsf_segment_head,
                                      .layer = g->model->layers,
                                      .part = part };
    dsflow_data_id wide;

    if (g->types.head == g->types.body)
        return d->x[part];
    wide = dsf_build_data(g, part, dsf_build_passing(),
                          dsf_build_floats(g->rows, g->model->dims.width),
                          "x.wide.p%d", (int)part);
    dsf_build_cast(g, head, DSFLOW_HEAD_X, wide, d->x[part]);
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

        g->logits[t] = dsf_build_data(
            g, t, dsf_build_lasting(),
            dsf_build_floats(
                1, dsf_share(g->model->dims.vocab_rows, g->parts, t, &first)),
            "logits.p%d", (int)t);
        dsf_build_bind(task, DSFLOW_HEAD_X, x, false);
        dsf_build_bind(task, DSFLOW_HEAD_NORM,
                       param(g, l, head, DSF_HEAD_UNIT_NORM), false);
        dsf_build_bind(task, DSFLOW_HEAD_WEIGHT,
                       param(g, l, head, DSF_HEAD_UNIT_W), false);
        dsf_build_bind(task, DSFLOW_HEAD_LOGITS, g->logits[t], false);
    }
}

void dsf_generation_shared(struct dsf_generation *g)
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
