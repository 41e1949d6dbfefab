/* reference.c - the step with no policy: one rank, and plain loops over
 * micro-batches, layers and tiles. What every other policy is compared with.
 *
 * Activations stand in a ring of plan->in_flight micro-batches; gradients of
 * activations in a ring of plan->depth layers of each; logits in a ring of
 * plan->logits tiles. A slot is written again when its last reader is done, and
 * that is all that holds the step back.
 */
#include "policies/policies.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The data of one unit of parameters. */
struct unit_data {
    dsflow_data_id param, m, v;
    dsflow_data_id *grad; /* [groups] */
};

/* What one tile of one ring slot keeps of one layer for the backward pass. */
struct stash {
    dsflow_data_id q, kv, att, lse, mid, h;
};

/* Gradients of one tile of one ring slot at one place of the ring of layers. */
struct flow {
    dsflow_data_id dx, dmid, dh, dq, dkv, dnorm_qkv, dnorm_mlp;
};

struct tile_data {
    dsflow_data_id batch, datt, delta;
    dsflow_data_id *x;    /* [layers + 1]: input of each layer, and of the head */
    struct stash *stash;  /* [layers] */
    struct flow *flow;    /* [depth] */
};

struct logits_data {
    dsflow_data_id logits, dnorm;
};

struct step {
    const struct dsflow_plan *plan;
    const struct dsf_model *model;
    struct dsflow_graph *g;
    struct dsf_tile shape; /* of every tile, without its rows */

    struct unit_data *units;
    struct tile_data *tiles;    /* [in_flight][ntiles] */
    struct logits_data *logits; /* [plan->logits] */
    dsflow_data_id cursor, eval_cursor, control, rope;
    uint32_t nheads; /* tiles that have been through the head: ring position */
    uint32_t nsums;

    /* Where the tasks that are being emitted stand. */
    uint8_t phase;
    int32_t m, t; /* micro-batch, tile */
};

static dsflow_data_id add_data(struct step *s, enum dsflow_role role,
                               bool persistent, int64_t bytes, const char *fmt,
                               ...) DSFLOW_PRINTF(5, 6);

static dsflow_data_id add_data(struct step *s, enum dsflow_role role,
                               bool persistent, int64_t bytes, const char *fmt,
                               ...)
{
    char name[96];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(name, sizeof(name), fmt, ap);
    va_end(ap);
    return dsflow_graph_add_data(
        s->g, &(struct dsflow_data_spec){ .name = name,
                                          .bytes = (size_t)bytes,
                                          .role = role,
                                          .home = persistent ? 0
                                                             : DSFLOW_ANYWHERE,
                                          .persistent = persistent });
}

/* Emit a task of layer `l` where the step stands; `fresh` as in the graph. */
static void emit(struct step *s, const struct dsflow_op *op, const void *args,
                 int l, unsigned fresh, unsigned n, const dsflow_data_id *data)
{
    struct dsflow_task_spec t = {
        .op = op,
        .args = args,
        .layer = (int16_t)l,
        .microbatch = (int16_t)s->m,
        .tile = (int16_t)s->t,
        .rank = DSFLOW_ANYWHERE,
        .phase = s->phase,
        .fresh = (uint8_t)fresh,
        .ndata = (uint8_t)n,
    };

    memcpy(t.data, data, n * sizeof(*data));
    dsflow_graph_add_task(s->g, &t);
}

#define EMIT(s, op, args, l, fresh, ...)                                       \
    emit(s, op, args, l, fresh,                                                \
         sizeof((dsflow_data_id[]){ __VA_ARGS__ }) / sizeof(dsflow_data_id),   \
         (dsflow_data_id[]){ __VA_ARGS__ })

static void add_units(struct step *s)
{
    const struct dsf_job_optimizer *opt = &s->plan->job->optimizer;
    bool has_m = opt->kind != DSF_SGD || opt->momentum > 0;
    bool has_v = opt->kind == DSF_ADAMW || opt->kind == DSF_ADAM;

    s->units = dsf_xcalloc(s->model->nunits, sizeof(*s->units));
    for (unsigned u = 0; u < s->model->nunits; u++) {
        const struct dsf_unit *unit = &s->model->units[u];
        struct unit_data *d = &s->units[u];
        int64_t bytes = unit->elems * (int64_t)sizeof(float);

        d->param = add_data(s, DSFLOW_PARAMS, true, bytes, "%s", unit->name);
        if (has_m)
            d->m = add_data(s, DSFLOW_STATES, true, bytes, "m.%s", unit->name);
        if (has_v)
            d->v = add_data(s, DSFLOW_STATES, true, bytes, "v.%s", unit->name);
        d->grad = dsf_xcalloc((size_t)s->plan->groups, sizeof(*d->grad));
        for (int g = 0; g < s->plan->groups; g++)
            d->grad[g] = add_data(s, DSFLOW_GRADS, true, bytes, "grad%d.%s", g,
                                  unit->name);
    }
}

static void add_tile_data(struct step *s, struct tile_data *d, int slot, int t)
{
    const struct dsf_tile *at = &s->shape;
    int64_t rows = s->plan->tiles[t].rows;
    int64_t cell = (int64_t)sizeof(float);
    int64_t x = rows * at->width * cell;
    int64_t q = rows * at->heads * at->head_dim * cell;
    int64_t kv = 2 * rows * at->kv_heads * at->head_dim * cell;
    int64_t stat = rows * at->heads * cell;
    int64_t h = rows * at->ffn * (at->swiglu ? 2 : 1) * cell;
    int64_t dnorm = 2 * at->width * cell;
    int layers = s->model->layers;

#define TILE_DATA(bytes, name)                                                 \
    add_data(s, DSFLOW_ACTIVATIONS, false, bytes, "%s.s%d.t%d", name, slot, t)
#define LAYER_DATA(bytes, name, l)                                             \
    add_data(s, DSFLOW_ACTIVATIONS, false, bytes, "%s.l%d.s%d.t%d", name, l,   \
             slot, t)
    d->batch = add_data(s, DSFLOW_BUFFERS, false,
                        2 * rows * (int64_t)sizeof(int32_t), "batch.s%d.t%d",
                        slot, t);
    d->datt = TILE_DATA(q, "datt");
    d->delta = TILE_DATA(stat, "delta");
    d->x = dsf_xcalloc((size_t)layers + 1, sizeof(*d->x));
    d->stash = dsf_xcalloc((size_t)layers + 1, sizeof(*d->stash));
    d->flow = dsf_xcalloc((size_t)s->plan->depth, sizeof(*d->flow));
    for (int l = 0; l <= layers; l++)
        d->x[l] = LAYER_DATA(x, "x", l);
    for (int l = 0; l < layers; l++)
        d->stash[l] = (struct stash){
            .q = LAYER_DATA(q, "q", l),
            .kv = LAYER_DATA(kv, "kv", l),
            .att = LAYER_DATA(q, "att", l),
            .lse = LAYER_DATA(2 * stat, "lse", l),
            .mid = LAYER_DATA(x, "mid", l),
            .h = LAYER_DATA(h, "h", l),
        };
    for (int r = 0; r < s->plan->depth; r++)
        d->flow[r] = (struct flow){
            .dx = LAYER_DATA(x, "dx", r),
            .dmid = LAYER_DATA(x, "dmid", r),
            .dh = LAYER_DATA(h, "dh", r),
            .dq = LAYER_DATA(q, "dq", r),
            .dkv = LAYER_DATA(kv, "dkv", r),
            .dnorm_qkv = LAYER_DATA(dnorm, "dnorm_qkv", r),
            .dnorm_mlp = LAYER_DATA(dnorm, "dnorm_mlp", r),
        };
#undef LAYER_DATA
#undef TILE_DATA
}

static void add_all_data(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    const struct dsf_dims *dims = &s->model->dims;
    int64_t most_rows = 0;

    s->cursor =
        add_data(s, DSFLOW_BUFFERS, true, 4 * sizeof(int64_t), "cursor");
    s->eval_cursor =
        add_data(s, DSFLOW_BUFFERS, true, 4 * sizeof(int64_t), "eval_cursor");
    s->control = add_data(s, DSFLOW_BUFFERS, true, sizeof(struct dsf_control),
                          "control");
    if (dims->rope)
        s->rope = add_data(s, DSFLOW_BUFFERS, true,
                           (int64_t)dims->context * dims->head_dim *
                               (int64_t)sizeof(float),
                           "rope");
    add_units(s);

    s->tiles = dsf_xcalloc((size_t)plan->in_flight * (size_t)plan->ntiles,
                           sizeof(*s->tiles));
    for (int slot = 0; slot < plan->in_flight; slot++)
        for (int t = 0; t < plan->ntiles; t++)
            add_tile_data(s, &s->tiles[slot * plan->ntiles + t], slot, t);
    for (int t = 0; t < plan->ntiles; t++)
        if (plan->tiles[t].rows > most_rows)
            most_rows = plan->tiles[t].rows;

    s->logits = dsf_xcalloc((size_t)plan->logits, sizeof(*s->logits));
    for (int i = 0; i < plan->logits; i++) {
        s->logits[i].logits = add_data(
            s, DSFLOW_ACTIVATIONS, false,
            most_rows * dims->vocab * (int64_t)sizeof(float), "logits.%d", i);
        s->logits[i].dnorm =
            add_data(s, DSFLOW_ACTIVATIONS, false,
                     2 * dims->width * (int64_t)sizeof(float), "dnorm.%d", i);
    }
}

static struct tile_data *tile_data(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;

    return &s->tiles[(s->m % plan->in_flight) * plan->ntiles + s->t];
}

static struct dsf_tile tile_args(const struct step *s)
{
    const struct dsf_piece *piece = &s->plan->tiles[s->t];
    struct dsf_tile tile = s->shape;

    tile.rows = piece->rows;
    tile.nseq = piece->nseq;
    tile.pos = piece->pos;
    return tile;
}

/* The first tile of the sequence that tile `t` is a piece of; `t` itself when
 * it has whole sequences. */
static int first_piece(const struct dsflow_plan *plan, int t)
{
    while (plan->tiles[t].pos > 0)
        t--;
    return t;
}

static bool is_last_piece(const struct dsflow_plan *plan, int t)
{
    return t + 1 == plan->ntiles || plan->tiles[t + 1].pos == 0;
}

static dsflow_data_id param(const struct step *s, enum dsf_segment segment,
                            int l)
{
    return s->units[dsf_model_unit(s->model, segment, l)].param;
}

/* The gradients that micro-batch `s->m` adds to. */
static dsflow_data_id grad(const struct step *s, enum dsf_segment segment,
                           int l)
{
    int group = s->m / (s->plan->nmicro / s->plan->groups);

    return s->units[dsf_model_unit(s->model, segment, l)].grad[group];
}

static enum dsf_segment head_segment(const struct step *s)
{
    return s->model->tied ? DSF_EMBED : DSF_HEAD;
}

static struct dsf_qkv_args qkv_args(const struct step *s)
{
    const struct dsf_qkv_at *at = &s->model->qkv_at;

    return (struct dsf_qkv_args){ tile_args(s), at->w, at->b, at->norm_w,
                                  at->norm_b };
}

static struct dsf_out_args out_args(const struct step *s)
{
    return (struct dsf_out_args){ tile_args(s), s->model->out_at.w,
                                  s->model->out_at.b };
}

static struct dsf_mlp_args mlp_args(const struct step *s)
{
    const struct dsf_mlp_at *at = &s->model->mlp_at;

    return (struct dsf_mlp_args){ tile_args(s), at->w1,     at->b1,    at->w2,
                                  at->b2,       at->norm_w, at->norm_b };
}

static struct dsf_embed_args embed_args(const struct step *s)
{
    return (struct dsf_embed_args){ tile_args(s), s->model->embed_at.wte,
                                    s->model->embed_at.wpe };
}

static struct dsf_head_args head_args(const struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    double tokens = (double)plan->nmicro * plan->micro * plan->sequence;

    return (struct dsf_head_args){ tile_args(s), s->model->head_at.w,
                                   s->model->norm_at.w, s->model->norm_at.b,
                                   (float)(1 / tokens) };
}

/* Keys of tile `k` for the queries of the present tile. */
static struct dsf_attention_args attention_args(const struct step *s, int k)
{
    const struct dsflow_plan *plan = s->plan;

    return (struct dsf_attention_args){
        .tile = tile_args(s),
        .keys = plan->tiles[k].rows,
        .diagonal = k == s->t,
        .first = k == first_piece(plan, s->t),
        .last = k == s->t,
        .first_q = k == s->t,
        .first_kv = is_last_piece(plan, s->t),
    };
}

static void forward_layer(struct step *s, int l)
{
    struct tile_data *d = tile_data(s);
    struct stash *st = &d->stash[l];
    struct dsf_qkv_args qkv = qkv_args(s);
    struct dsf_out_args out = out_args(s);
    struct dsf_mlp_args mlp = mlp_args(s);

    if (s->model->dims.rope)
        EMIT(s, &dsf_op_qkv_forward, &qkv, l, 0, d->x[l], param(s, DSF_QKV, l),
             st->q, st->kv, s->rope);
    else
        EMIT(s, &dsf_op_qkv_forward, &qkv, l, 0, d->x[l], param(s, DSF_QKV, l),
             st->q, st->kv);
    for (int k = first_piece(s->plan, s->t); k <= s->t; k++) {
        struct dsf_attention_args a = attention_args(s, k);

        EMIT(s, &dsf_op_attention_forward, &a, l, a.first ? 0xc : 0, st->q,
             (d - s->t + k)->stash[l].kv, st->att, st->lse);
    }
    EMIT(s, &dsf_op_out_forward, &out, l, 0, d->x[l], st->att,
         param(s, DSF_OUT, l), st->mid);
    EMIT(s, &dsf_op_mlp_forward, &mlp, l, 0, st->mid, param(s, DSF_MLP, l),
         st->h, d->x[l + 1]);
}

/* From the batch to the logits of every tile; `cursor` says which batch, and
 * losses[t] is where the loss of tile t goes. */
static void load_and_embed(struct step *s, dsflow_data_id cursor)
{
    const struct dsflow_plan *plan = s->plan;
    const struct dsf_piece *piece = &plan->tiles[s->t];
    struct tile_data *d = tile_data(s);
    struct dsf_embed_args embed = embed_args(s);
    struct dsf_load_args load = {
        .rows = piece->rows,
        .nseq = piece->nseq,
        .pos = piece->pos,
        .seq = (int64_t)s->m * plan->micro + piece->seq,
    };

    EMIT(s, &dsf_op_load_batch, &load, -1, 0, cursor, d->batch);
    EMIT(s, &dsf_op_embed_forward, &embed, -1, 0, d->batch,
         param(s, DSF_EMBED, 0), d->x[0]);
}

static void forward_blocks(struct step *s, dsflow_data_id cursor)
{
    for (s->t = 0; s->t < s->plan->ntiles; s->t++)
        load_and_embed(s, cursor);
    for (int l = 0; l < s->model->layers; l++)
        for (s->t = 0; s->t < s->plan->ntiles; s->t++)
            forward_layer(s, l);
}

static struct logits_data *forward_head(struct step *s, dsflow_data_id loss)
{
    struct dsf_head_args head = head_args(s);
    struct logits_data *out =
        &s->logits[s->nheads++ % (uint32_t)s->plan->logits];
    struct tile_data *d = tile_data(s);
    int layers = s->model->layers;

    EMIT(s, &dsf_op_head_forward, &head, layers, 0, d->x[layers],
         param(s, DSF_NORM, 0), param(s, head_segment(s), 0), d->batch,
         out->logits, loss);
    return out;
}

static void backward_head(struct step *s, const struct logits_data *in)
{
    struct dsf_head_args head = head_args(s);
    struct tile_data *d = tile_data(s);
    int layers = s->model->layers;

    EMIT(s, &dsf_op_head_backward_input, &head, layers, 0, in->logits,
         d->x[layers], param(s, DSF_NORM, 0), param(s, head_segment(s), 0),
         d->flow[layers % s->plan->depth].dx, in->dnorm);
    EMIT(s, &dsf_op_head_backward_weight, &head, layers, 0, in->logits,
         d->x[layers], param(s, DSF_NORM, 0), in->dnorm,
         grad(s, head_segment(s), 0), grad(s, DSF_NORM, 0));
}

static void backward_mlp(struct step *s, int l)
{
    struct tile_data *d = tile_data(s);
    struct stash *st = &d->stash[l];
    struct flow *f = &d->flow[l % s->plan->depth];
    dsflow_data_id dy = d->flow[(l + 1) % s->plan->depth].dx;
    struct dsf_mlp_args mlp = mlp_args(s);

    EMIT(s, &dsf_op_mlp_backward_input, &mlp, l, 0, dy, st->mid,
         param(s, DSF_MLP, l), st->h, f->dh, f->dmid, f->dnorm_mlp);
    EMIT(s, &dsf_op_mlp_backward_weight, &mlp, l, 0, dy, st->mid,
         param(s, DSF_MLP, l), st->h, f->dh, f->dnorm_mlp, grad(s, DSF_MLP, l));
}

static void backward_attention(struct step *s, int l)
{
    struct tile_data *d = tile_data(s);
    struct stash *st = &d->stash[l];
    int place = l % s->plan->depth;
    struct flow *f = &d->flow[place];
    struct dsf_out_args out = out_args(s);

    EMIT(s, &dsf_op_out_backward_input, &out, l, 0, f->dmid, st->att,
         param(s, DSF_OUT, l), d->datt, d->delta);
    EMIT(s, &dsf_op_out_backward_weight, &out, l, 0, f->dmid, st->att,
         grad(s, DSF_OUT, l));
    for (int k = s->t; k >= first_piece(s->plan, s->t); k--) {
        struct dsf_attention_args a = attention_args(s, k);
        struct tile_data *keys = d - s->t + k;

        EMIT(s, &dsf_op_attention_backward_input, &a, l,
             (a.first_q ? 0x20u : 0) | (a.first_kv ? 0x40u : 0), st->q,
             keys->stash[l].kv, d->datt, st->lse, d->delta, f->dq,
             keys->flow[place].dkv);
    }
}

static void backward_qkv(struct step *s, int l)
{
    struct tile_data *d = tile_data(s);
    struct flow *f = &d->flow[l % s->plan->depth];
    struct dsf_qkv_args qkv = qkv_args(s);
    dsflow_data_id unit = param(s, DSF_QKV, l);

    if (s->model->dims.rope)
        EMIT(s, &dsf_op_qkv_backward_input, &qkv, l, 0, f->dq, f->dkv, d->x[l],
             unit, f->dmid, f->dx, f->dnorm_qkv, s->rope);
    else
        EMIT(s, &dsf_op_qkv_backward_input, &qkv, l, 0, f->dq, f->dkv, d->x[l],
             unit, f->dmid, f->dx, f->dnorm_qkv);
    EMIT(s, &dsf_op_qkv_backward_weight, &qkv, l, 0, f->dq, f->dkv, d->x[l],
         unit, f->dnorm_qkv, grad(s, DSF_QKV, l));
}

/* Tiles backwards: the gradients of a tile's keys are complete when every later
 * piece of its sequence has been through. */
static void backward_blocks(struct step *s)
{
    for (int l = s->model->layers - 1; l >= 0; l--)
        for (s->t = s->plan->ntiles - 1; s->t >= 0; s->t--) {
            backward_mlp(s, l);
            backward_attention(s, l);
            backward_qkv(s, l);
        }
    for (s->t = s->plan->ntiles - 1; s->t >= 0; s->t--) {
        struct tile_data *d = tile_data(s);
        struct dsf_embed_args embed = embed_args(s);

        EMIT(s, &dsf_op_embed_backward_weight, &embed, -1, 0, d->batch,
             d->flow[0].dx, grad(s, DSF_EMBED, 0));
    }
}

/* The sum of n numbers in a fixed tree of tasks with seven inputs each. */
static dsflow_data_id sum_tree(struct step *s, const dsflow_data_id *in,
                               size_t n)
{
    enum { FAN = DSFLOW_MAX_PORTS - 1 };
    dsflow_data_id *level = dsf_xcalloc(n + 1, sizeof(*level));
    dsflow_data_id result;

    memcpy(level, in, n * sizeof(*in));
    do {
        size_t nnext = 0;

        for (size_t i = 0; i < n; i += FAN) {
            dsflow_data_id ports[DSFLOW_MAX_PORTS];
            unsigned k = (unsigned)(n - i < FAN ? n - i : FAN);

            ports[0] = add_data(s, DSFLOW_BUFFERS, false, sizeof(double),
                                "sum.%u", s->nsums++);
            memcpy(ports + 1, level + i, k * sizeof(*ports));
            emit(s, &dsf_op_sum, NULL, -1, 0, k + 1, ports);
            level[nnext++] = ports[0];
        }
        n = nnext;
    } while (n > 1);
    result = level[0];
    free(level);
    return result;
}

/* One micro-batch, forward and backward; losses[t] receive its losses. */
static void train_micro(struct step *s, dsflow_data_id *losses)
{
    forward_blocks(s, s->cursor);
    for (s->t = 0; s->t < s->plan->ntiles; s->t++) {
        losses[s->t] = add_data(s, DSFLOW_BUFFERS, false, sizeof(double),
                                "loss.m%d.t%d", s->m, s->t);
        backward_head(s, forward_head(s, losses[s->t]));
    }
    backward_blocks(s);
}

/* Gradients of all groups onto those of group 0, in a tree of pairs: a rank
 * that owns 2^k consecutive groups owns a subtree. */
static void sum_groups(struct step *s)
{
    for (unsigned u = 0; u < s->model->nunits; u++)
        for (int stride = 1; stride < s->plan->groups; stride *= 2)
            for (int g = 0; g + stride < s->plan->groups; g += 2 * stride) {
                struct dsf_add_args add = { s->model->units[u].elems };

                EMIT(s, &dsf_op_add, &add, s->model->units[u].layer, 0,
                     s->units[u].grad[g], s->units[u].grad[g + stride]);
            }
}

static void update_unit(struct step *s, unsigned u)
{
    const struct dsf_job_optimizer *opt = &s->plan->job->optimizer;
    const struct dsf_unit *unit = &s->model->units[u];
    struct unit_data *d = &s->units[u];
    struct dsf_update_args args = {
        .elems = unit->elems,
        .decay = unit->decay,
        .beta1 = (float)opt->betas[0],
        .beta2 = (float)opt->betas[1],
        .eps = (float)opt->eps,
        .weight_decay = (float)opt->weight_decay,
        .momentum = (float)opt->momentum,
        .decoupled = opt->kind == DSF_ADAMW,
        .nesterov = opt->nesterov,
    };

    if (opt->kind == DSF_SGD && opt->momentum > 0)
        EMIT(s, &dsf_op_sgd, &args, unit->layer, 0, s->control, d->grad[0],
             d->param, d->m);
    else if (opt->kind == DSF_SGD)
        EMIT(s, &dsf_op_sgd, &args, unit->layer, 0, s->control, d->grad[0],
             d->param);
    else if (opt->kind == DSF_LION)
        EMIT(s, &dsf_op_lion, &args, unit->layer, 0, s->control, d->grad[0],
             d->param, d->m);
    else
        EMIT(s, &dsf_op_adam, &args, unit->layer, 0, s->control, d->grad[0],
             d->param, d->m, d->v);
}

static struct dsf_schedule_args schedule_args(const struct dsf_job *job)
{
    const struct dsf_job_schedule *in = &job->schedule;

    return (struct dsf_schedule_args){
        .kind = in->kind,
        .shape = in->warmup_shape,
        .lr = job->optimizer.lr,
        .beta1 = job->optimizer.betas[0],
        .beta2 = job->optimizer.betas[1],
        .warmup = in->warmup,
        .total = in->total < 0 ? job->main.steps : in->total,
        .warmup_ratio = in->warmup_ratio,
        .min_ratio = in->min_ratio,
        .half_cycle = in->half_cycle,
        .second_half_cycle =
            in->second_half_cycle < 0 ? in->half_cycle : in->second_half_cycle,
        .decay_steps = in->decay_steps,
        .cycle_min_ratio = in->cycle_min_ratio,
        .decay_rate = in->decay_rate,
        .range_steps = in->range_steps,
        .range_rate = in->range_rate,
        .staircase = in->staircase,
    };
}

/* Units whose gradients are complete first come first: the embedding is last.
 * With a limit on the norm every update waits for all squares; without one,
 * each unit is updated as soon as its gradient is there. */
static void update(struct step *s)
{
    const struct dsf_job *job = s->plan->job;
    struct dsf_schedule_args schedule = schedule_args(job);
    struct dsf_clip_args clip = { job->optimizer.clip };
    unsigned n = s->model->nunits;
    dsflow_data_id *squares = dsf_xcalloc(n, sizeof(*squares));
    bool clips = clip.limit > 0;
    dsflow_data_id norm2;

    EMIT(s, &dsf_op_schedule, &schedule, -1, 0, s->control);
    for (unsigned u = n; u-- > 0;) {
        const struct dsf_unit *unit = &s->model->units[u];
        struct dsf_square_args square = { unit->elems };

        squares[u] = add_data(s, DSFLOW_BUFFERS, false, sizeof(double),
                              "square.%s", unit->name);
        EMIT(s, &dsf_op_square, &square, unit->layer, 0, s->units[u].grad[0],
             squares[u]);
        if (!clips && !s->plan->no_update)
            update_unit(s, u);
    }
    norm2 = sum_tree(s, squares, n);
    EMIT(s, &dsf_op_clip, &clip, -1, 0, norm2, s->control);
    if (clips && !s->plan->no_update)
        for (unsigned u = n; u-- > 0;)
            update_unit(s, u);
    free(squares);
}

static void train_step(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    size_t n = (size_t)plan->nmicro * (size_t)plan->ntiles;
    dsflow_data_id *losses = dsf_xcalloc(n, sizeof(*losses));
    dsflow_data_id loss;

    s->phase = DSFLOW_STEP;
    for (s->m = 0; s->m < plan->nmicro; s->m++)
        train_micro(s, losses + s->m * plan->ntiles);
    s->m = s->t = -1;
    EMIT(s, &dsf_op_advance, NULL, -1, 0, s->cursor);
    loss = sum_tree(s, losses, n);
    sum_groups(s);
    update(s);
    EMIT(s, &dsf_op_report, NULL, -1, 0, s->control, loss, s->cursor);
    free(losses);
}

/* One micro-batch of the validation text. */
static void eval_step(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    dsflow_data_id *losses =
        dsf_xcalloc((size_t)plan->ntiles, sizeof(*losses));
    dsflow_data_id loss;

    s->phase = DSFLOW_EVAL;
    s->m = 0;
    forward_blocks(s, s->eval_cursor);
    for (s->t = 0; s->t < plan->ntiles; s->t++) {
        losses[s->t] = add_data(s, DSFLOW_BUFFERS, false, sizeof(double),
                                "eval_loss.t%d", s->t);
        forward_head(s, losses[s->t]);
    }
    s->m = s->t = -1;
    EMIT(s, &dsf_op_advance, NULL, -1, 0, s->eval_cursor);
    loss = sum_tree(s, losses, (size_t)plan->ntiles);
    EMIT(s, &dsf_op_report_loss, NULL, -1, 0, loss);
    free(losses);
}

static void free_step(struct step *s)
{
    size_t n = (size_t)s->plan->in_flight * (size_t)s->plan->ntiles;

    for (size_t i = 0; i < n; i++) {
        free(s->tiles[i].x);
        free(s->tiles[i].stash);
        free(s->tiles[i].flow);
    }
    for (unsigned u = 0; u < s->model->nunits; u++)
        free(s->units[u].grad);
    free(s->tiles);
    free(s->units);
    free(s->logits);
}

static int reference_rewrite(const void *part, const struct dsflow_plan *plan,
                             struct dsflow_graph *in, struct dsflow_graph *out,
                             struct dsflow_err *err)
{
    const struct dsf_dims *dims = &plan->model->dims;
    struct step s = {
        .plan = plan,
        .model = plan->model,
        .g = out,
        .shape = { .width = dims->width,
                   .heads = dims->heads,
                   .kv_heads = dims->kv_heads,
                   .head_dim = dims->head_dim,
                   .ffn = dims->ffn,
                   .vocab = dims->vocab,
                   .context = dims->context,
                   .rms = dims->rms,
                   .swiglu = dims->swiglu,
                   .rope = dims->rope,
                   .eps = dims->eps },
    };

    add_all_data(&s);
    train_step(&s);
    eval_step(&s);
    free_step(&s);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_reference = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "reference",
    .summary = "the plain step on one rank",
    .rewrite = reference_rewrite,
};
