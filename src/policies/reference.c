/* reference.c - the step with no policy: plain loops over micro-batches, layers
 * and tiles. What every other policy rewrites, and is compared with.
 *
 * The order of the tasks is the order in which micro-batches take their turn on
 * each data rank, the data ranks side by side, so that a unit of parameters is
 * used by all of them before the next. On one rank that is one micro-batch
 * after the other. (With order = "layer_major", one wave has all turns.)
 */
#include "policies/reference_private.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

void dsf_step_emit(struct step *s, const struct dsflow_op *op, const void *args,
                   int l, unsigned fresh, unsigned n,
                   const dsflow_data_id *data)
{
    struct dsflow_task_spec t =
        DSFLOW_TASK(.op = op, .args = args, .layer = (int16_t)l,
                    .microbatch = (int16_t)s->m, .tile = (int16_t)s->t,
                    .rank = DSFLOW_ANYWHERE, .program = s->program,
                    .pass = s->pass, .fresh = fresh, .data = data, .ndata = n);

    dsflow_graph_add_task(s->g, &t);
}

/* Stand at turn `turn` of data rank `d`. */
static void stand_at(struct step *s, int32_t d, int32_t turn)
{
    s->d = d;
    s->turn = turn;
    s->m = dsf_plan_micro(s->plan, d, turn);
}

/* Stand beside the micro-batches. */
static void stand_aside(struct step *s)
{
    s->m = s->t = -1;
}

static dsflow_data_id batch_at(const struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t slot = s->turn % plan->slots[dsf_plan_chunk(plan, -1)];

    return s->batch[slot * plan->ntiles + s->t];
}

/* The input of layer `l`, and what it keeps, of tile `t`. */
static dsflow_data_id x_at(const struct step *s, int l)
{
    const struct layer_data *d = &s->layers[l];

    return d->x[s->turn % d->x_slots * s->plan->ntiles + s->t];
}

static const struct stash *stash_at(const struct step *s, int l, int t)
{
    const struct layer_data *d = &s->layers[l];

    return &d->stash[s->turn % d->slots * s->plan->ntiles + t];
}

static const struct lane_data *lane_at(const struct step *s, int l, int t)
{
    const struct dsflow_plan *plan = s->plan;
    int32_t chunk = dsf_plan_chunk(plan, l);
    int32_t lane =
        chunk / plan->nstages * s->nlanes + s->turn % plan->lanes[chunk];

    return &s->lanes[lane * plan->ntiles + t];
}

static const struct flow *flow_at(const struct step *s, int l, int t)
{
    return &lane_at(s, l, t)->flow[l % s->plan->depth];
}

static struct dsflow_tile tile_args(const struct step *s)
{
    const struct dsf_piece *piece = &s->plan->tiles[s->t];
    struct dsflow_tile tile = s->shape;

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

/* The gradient that micro-batch `s->m` adds to, and whether it is the first. */
struct gradient {
    dsflow_data_id id;
    unsigned fresh;
};

static struct gradient begin_gradient(const struct step *s,
                                      const struct gradients *of)
{
    int32_t group = dsf_plan_group(s->plan, s->m);
    struct gradient g = { of->of[group], !of->begun[group] };

    of->begun[group] = true;
    return g;
}

static struct gradient grad(const struct step *s, enum dsf_segment segment,
                            int l)
{
    return begin_gradient(s,
                          &s->units[dsf_model_unit(s->model, segment, l)].grad);
}

/* Of the head's matrix. */
static struct gradient head_grad(const struct step *s)
{
    return s->model->tied ? begin_gradient(s, &s->units[0].tied)
                          : grad(s, DSF_HEAD, 0);
}

static enum dsf_segment head_segment(const struct step *s)
{
    return s->model->tied ? DSF_EMBED : DSF_HEAD;
}

static struct dsflow_qkv_args qkv_args(const struct step *s)
{
    const struct dsf_qkv_at *at = &s->model->qkv_at;

    return (struct dsflow_qkv_args){ tile_args(s), at->w, at->b, at->norm_w,
                                     at->norm_b };
}

static struct dsflow_out_args out_args(const struct step *s)
{
    return (struct dsflow_out_args){ tile_args(s), s->model->out_at.w,
                                     s->model->out_at.b };
}

static struct dsflow_mlp_args mlp_args(const struct step *s)
{
    const struct dsf_mlp_at *at = &s->model->mlp_at;

    return (struct dsflow_mlp_args){ tile_args(s), at->w1, at->b1,
                                     at->w2,       at->b2, at->norm_w,
                                     at->norm_b };
}

static struct dsflow_embed_args embed_args(const struct step *s)
{
    return (struct dsflow_embed_args){ tile_args(s), s->model->embed_at.wte,
                                       s->model->embed_at.wpe };
}

static struct dsflow_head_args head_args(const struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    double tokens = (double)plan->nmicro * plan->micro * plan->sequence;

    return (struct dsflow_head_args){ tile_args(s), s->model->head_at.w,
                                      s->model->norm_at.w, s->model->norm_at.b,
                                      (float)(1 / tokens) };
}

/* Keys of tile `k` for the queries of the present tile. */
static struct dsflow_attention_args attention_args(const struct step *s, int k)
{
    const struct dsflow_plan *plan = s->plan;

    return (struct dsflow_attention_args){
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
    const struct stash *st = stash_at(s, l, s->t);
    dsflow_data_id x = x_at(s, l);
    struct dsflow_qkv_args qkv = qkv_args(s);
    struct dsflow_out_args out = out_args(s);
    struct dsflow_mlp_args mlp = mlp_args(s);

    if (s->model->dims.rope)
        EMIT(s, &dsf_op_qkv_forward, &qkv, l, 0, x, param(s, DSF_QKV, l), st->q,
             st->kv, s->rope);
    else
        EMIT(s, &dsf_op_qkv_forward, &qkv, l, 0, x, param(s, DSF_QKV, l), st->q,
             st->kv);
    for (int k = first_piece(s->plan, s->t); k <= s->t; k++) {
        struct dsflow_attention_args a = attention_args(s, k);

        EMIT(s, &dsf_op_attention_forward, &a, l, a.first ? 0xc : 0, st->q,
             stash_at(s, l, k)->kv, st->att, st->lse);
    }
    EMIT(s, &dsf_op_out_forward, &out, l, 0, x, st->att, param(s, DSF_OUT, l),
         st->mid);
    EMIT(s, &dsf_op_mlp_forward, &mlp, l, 0, st->mid, param(s, DSF_MLP, l),
         st->h, x_at(s, l + 1));
}

static void load_and_embed(struct step *s, dsflow_data_id cursor)
{
    const struct dsflow_plan *plan = s->plan;
    const struct dsf_piece *piece = &plan->tiles[s->t];
    struct dsf_load_args load = {
        .rows = piece->rows,
        .nseq = piece->nseq,
        .pos = piece->pos,
        .seq = (int64_t)s->m * plan->micro + piece->seq,
    };
    struct dsflow_embed_args embed = embed_args(s);

    EMIT(s, &dsf_op_load_batch, &load, -1, 0, cursor, batch_at(s));
    EMIT(s, &dsf_op_embed_forward, &embed, -1, 0, batch_at(s),
         param(s, DSF_EMBED, 0), x_at(s, 0));
}

static const struct logits_data *forward_head(struct step *s,
                                              dsflow_data_id loss)
{
    const struct dsflow_plan *plan = s->plan;
    struct dsflow_head_args head = head_args(s);
    int at = (s->turn * plan->ntiles + s->t) % plan->logits;
    int layers = s->model->layers;

    EMIT(s, &dsf_op_head_forward, &head, layers, 0, x_at(s, layers),
         param(s, DSF_NORM, 0), param(s, head_segment(s), 0), batch_at(s),
         s->logits[at].logits, loss);
    return &s->logits[at];
}

static void backward_head(struct step *s, const struct logits_data *in)
{
    struct dsflow_head_args head = head_args(s);
    int layers = s->model->layers;
    struct gradient w = head_grad(s), norm = grad(s, DSF_NORM, 0);

    EMIT(s, &dsf_op_head_backward_input, &head, layers, 0, in->logits,
         x_at(s, layers), param(s, DSF_NORM, 0), param(s, head_segment(s), 0),
         flow_at(s, layers, s->t)->dx, in->dnorm);
    EMIT(s, &dsf_op_head_backward_weight, &head, layers,
         w.fresh << 4 | norm.fresh << 5, in->logits, x_at(s, layers),
         param(s, DSF_NORM, 0), in->dnorm, w.id, norm.id);
}

static void backward_mlp(struct step *s, int l)
{
    const struct stash *st = stash_at(s, l, s->t);
    const struct flow *f = flow_at(s, l, s->t);
    dsflow_data_id dy = flow_at(s, l + 1, s->t)->dx;
    struct dsflow_mlp_args mlp = mlp_args(s);
    struct gradient g = grad(s, DSF_MLP, l);

    EMIT(s, &dsf_op_mlp_backward_input, &mlp, l, 0, dy, st->mid,
         param(s, DSF_MLP, l), st->h, f->dh, f->dmid, f->dnorm_mlp);
    EMIT(s, &dsf_op_mlp_backward_weight, &mlp, l, g.fresh << 6, dy, st->mid,
         param(s, DSF_MLP, l), st->h, f->dh, f->dnorm_mlp, g.id);
}

static void backward_attention(struct step *s, int l)
{
    const struct stash *st = stash_at(s, l, s->t);
    const struct flow *f = flow_at(s, l, s->t);
    const struct lane_data *lane = lane_at(s, l, s->t);
    struct dsflow_out_args out = out_args(s);
    struct gradient g = grad(s, DSF_OUT, l);

    EMIT(s, &dsf_op_out_backward_input, &out, l, 0, f->dmid, st->att,
         param(s, DSF_OUT, l), lane->datt, lane->delta);
    EMIT(s, &dsf_op_out_backward_weight, &out, l, g.fresh << 2, f->dmid,
         st->att, g.id);
    for (int k = s->t; k >= first_piece(s->plan, s->t); k--) {
        struct dsflow_attention_args a = attention_args(s, k);

        EMIT(s, &dsf_op_attention_backward_input, &a, l,
             (a.first_q ? 0x20u : 0) | (a.first_kv ? 0x40u : 0), st->q,
             stash_at(s, l, k)->kv, lane->datt, st->lse, lane->delta, f->dq,
             flow_at(s, l, k)->dkv);
    }
}

static void backward_qkv(struct step *s, int l)
{
    const struct flow *f = flow_at(s, l, s->t);
    struct dsflow_qkv_args qkv = qkv_args(s);
    dsflow_data_id unit = param(s, DSF_QKV, l), x = x_at(s, l);
    struct gradient g = grad(s, DSF_QKV, l);

    if (s->model->dims.rope)
        EMIT(s, &dsf_op_qkv_backward_input, &qkv, l, 0, f->dq, f->dkv, x, unit,
             f->dmid, f->dx, f->dnorm_qkv, s->rope);
    else
        EMIT(s, &dsf_op_qkv_backward_input, &qkv, l, 0, f->dq, f->dkv, x, unit,
             f->dmid, f->dx, f->dnorm_qkv);
    EMIT(s, &dsf_op_qkv_backward_weight, &qkv, l, g.fresh << 5, f->dq, f->dkv,
         x, unit, f->dnorm_qkv, g.id);
}

/* Tiles backwards: the gradients of a tile's keys are complete when every later
 * piece of its sequence has been through. */
static void backward_layer(struct step *s, int l)
{
    for (s->t = s->plan->ntiles - 1; s->t >= 0; s->t--) {
        if (l >= 0) {
            backward_mlp(s, l);
            backward_attention(s, l);
            backward_qkv(s, l);
        } else {
            struct dsflow_embed_args embed = embed_args(s);
            struct gradient g = grad(s, DSF_EMBED, 0);

            EMIT(s, &dsf_op_embed_backward_weight, &embed, -1, g.fresh << 2,
                 batch_at(s), flow_at(s, 0, s->t)->dx, g.id);
        }
    }
}

/* Turns that go through a layer together. */
struct wave {
    int32_t first, end;
};

/* The units of layer `l`; those of the head are first of all complete, and the
 * embedding is last. */
static void each_unit(struct step *s, int l,
                      void (*what)(struct step *s, unsigned u))
{
    stand_aside(s);
    if (l == s->model->layers) {
        if (s->model->tied && what == dsf_step_complete_round)
            dsf_step_complete_round_tied(s, 0);
        what(s, dsf_model_unit(s->model, DSF_NORM, 0));
        if (!s->model->tied)
            what(s, dsf_model_unit(s->model, DSF_HEAD, 0));
    } else if (l >= 0) {
        what(s, dsf_model_unit(s->model, DSF_MLP, l));
        what(s, dsf_model_unit(s->model, DSF_OUT, l));
        what(s, dsf_model_unit(s->model, DSF_QKV, l));
    } else {
        what(s, dsf_model_unit(s->model, DSF_EMBED, 0));
    }
}

static dsflow_data_id *loss_at(const struct step *s, dsflow_data_id *losses)
{
    return &losses[s->m * s->plan->ntiles + s->t];
}

static void head_turn(struct step *s, dsflow_data_id *losses)
{
    for (s->t = 0; s->t < s->plan->ntiles; s->t++) {
        dsflow_data_id *loss = loss_at(s, losses);

        *loss = dsf_step_add_double(s, 1, "loss.m%d.t%d", s->m, s->t);
        s->pass = DSFLOW_FORWARD;
        const struct logits_data *logits = forward_head(s, *loss);
        s->pass = DSFLOW_BACKWARD;
        backward_head(s, logits);
    }
}

/* A round ends when every group has had one micro-batch more. */
static bool ends_round(const struct step *s, int32_t turn)
{
    const struct dsflow_plan *plan = s->plan;

    return (turn + 1) % (plan->groups / plan->nreplicas) == 0;
}

/* Layer `l` backwards, `layers` being the head, whose tasks stand already. */
static void backward_wave(struct step *s, struct wave wave, int l,
                          dsflow_data_id *losses)
{
    for (int32_t turn = wave.first; turn < wave.end; turn++) {
        for (int32_t d = 0; d < s->plan->nreplicas; d++) {
            stand_at(s, d, turn);
            s->pass = DSFLOW_BACKWARD;
            if (l == s->model->layers)
                head_turn(s, losses);
            else
                backward_layer(s, l);
        }
        if (ends_round(s, turn))
            each_unit(s, l, dsf_step_complete_round);
    }
    if (wave.end == s->plan->turns)
        each_unit(s, l, dsf_step_complete);
}

static void forward_wave(struct step *s, struct wave wave,
                         dsflow_data_id cursor)
{
    s->pass = DSFLOW_FORWARD;
    for (int l = -1; l < s->model->layers; l++)
        for (int32_t turn = wave.first; turn < wave.end; turn++)
            for (int32_t d = 0; d < s->plan->nreplicas; d++) {
                stand_at(s, d, turn);
                for (s->t = 0; s->t < s->plan->ntiles; s->t++) {
                    if (l < 0)
                        load_and_embed(s, cursor);
                    else
                        forward_layer(s, l);
                }
            }
}

static void train_step(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    size_t n = (size_t)plan->nmicro * (size_t)plan->ntiles;
    dsflow_data_id *losses = dsf_xcalloc(n, sizeof(*losses));
    int32_t together = plan->layer_major ? plan->turns : 1;

    s->program = DSFLOW_STEP;
    stand_aside(s);
    dsf_step_begin_update(s);
    for (int32_t turn = 0; turn < plan->turns; turn += together) {
        struct wave wave = { turn, turn + together };

        forward_wave(s, wave, s->cursor);
        for (int l = s->model->layers; l >= -1; l--)
            backward_wave(s, wave, l, losses);
    }
    stand_aside(s);
    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_advance, NULL, -1, 0, s->cursor);
    dsf_step_end_update(s);
    EMIT(s, &dsf_op_report, NULL, -1, 0, s->control, dsf_step_sum(s, losses, n),
         s->cursor);
    free(losses);
}

/* One micro-batch of the validation text. */
static void eval_step(struct step *s)
{
    const struct dsflow_plan *plan = s->plan;
    dsflow_data_id *losses = dsf_xcalloc((size_t)plan->ntiles, sizeof(*losses));

    s->program = dsflow_graph_add_program(s->g, "eval");
    s->pass = DSFLOW_FORWARD;
    stand_at(s, 0, 0);
    for (s->t = 0; s->t < plan->ntiles; s->t++)
        load_and_embed(s, s->eval_cursor);
    for (int l = 0; l < s->model->layers; l++)
        for (s->t = 0; s->t < plan->ntiles; s->t++)
            forward_layer(s, l);
    for (s->t = 0; s->t < plan->ntiles; s->t++) {
        losses[s->t] = dsf_step_add_double(s, 1, "eval_loss.t%d", s->t);
        forward_head(s, losses[s->t]);
    }
    stand_aside(s);
    s->pass = DSFLOW_UPDATE;
    EMIT(s, &dsf_op_advance, NULL, -1, 0, s->eval_cursor);
    EMIT(s, &dsf_op_report_loss, NULL, -1, 0,
         dsf_step_sum(s, losses, (size_t)plan->ntiles));
    free(losses);
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

    s.optimizer = dsf_job_optimizer(plan->job, err);
    if (s.optimizer == NULL || dsf_job_lr_schedule(plan->job, err) == NULL)
        return DSFLOW_EINVAL;
    s.nstates = dsf_optimizer_nstates(s.optimizer, plan->job);
    s.err = err;
    dsf_step_add_data(&s);
    train_step(&s);
    eval_step(&s);
    dsf_step_free(&s);
    return s.status;
}

static int reference_decide(void *part, struct dsflow_plan *plan,
                            struct dsflow_err *err)
{
    return dsf_reference_keep(plan->job, &plan->kept, err);
}

const struct dsflow_policy dsf_policy_reference = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "reference",
    .summary = "the plain step: micro-batches, layers, tiles",
    .decide = reference_decide,
    .rewrite = reference_rewrite,
};
