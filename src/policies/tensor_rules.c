/* tensor_rules.c - tasks of segments as tasks of the tensor ranks, by the rules
 * of their segments (segments/rules.h). */
#include "policies/tensor_private.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "plan/sight.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* The data on the port of the old task that a rule's port refers to. */
static dsflow_data_id referred(const struct dsf_place *at, unsigned ref)
{
    return at->on[ref - (ref < DSFLOW_REF_SHARED ? DSFLOW_REF_OWN
                                                 : DSFLOW_REF_SHARED)];
}

/* The data that a rule's port means for rank `t`; no data where the task has
 * no such port, or the unit no such part. */
static dsflow_data_id connect(struct dsf_tensors *s, struct dsf_place *at,
                              unsigned ref, int32_t t)
{
    const struct dsf_cut_data *d;
    dsflow_data_id id;

    if (ref >= DSFLOW_REF_XN)
        return dsf_tensor_take(s, at, (int)ref)->id[t];
    id = ref == DSFLOW_LEFT_OUT ? dsf_no_data() : referred(at, ref);
    if (!dsf_is_data(id))
        return id;
    d = &s->data[id.i];
    if (ref < DSFLOW_REF_SHARED)
        return d->id[d->cut == DSFLOW_CUT_ONE ? 0 : t];
    if (!dsf_is_data(d->id[s->parts]) ||
        dsf_tensor_spec(s, id)->role != DSFLOW_GRADS)
        return d->id[s->parts];
    return dsf_tensor_adds(s, id, t);
}

/* Has what the port means no contents yet? */
static bool is_fresh(const struct dsf_tensors *s, const struct dsf_place *at,
                     unsigned ref)
{
    if (ref >= DSFLOW_REF_XN)
        return false;
    if (ref < DSFLOW_REF_SHARED)
        return at->fresh >> (ref - DSFLOW_REF_OWN) & 1;
    return !s->data[referred(at, ref).i].adds;
}

/* What a rule's tasks write on a port is written. */
static void note_write(struct dsf_tensors *s, struct dsf_place *at,
                       unsigned ref)
{
    struct dsf_cut_data *d;

    if (ref >= DSFLOW_REF_XN) {
        dsf_tensor_take(s, at, (int)ref)->stamp++;
    } else if (ref >= DSFLOW_REF_SHARED) {
        d = &s->data[referred(at, ref).i];
        d->adds = true;
        d->adder = *at->task;
    }
}

static struct dsf_binding bind_part(struct dsf_tensors *s, struct dsf_place *at,
                                    const uint8_t *refs,
                                    const struct dsflow_op *op,
                                    uint32_t without, int32_t t)
{
    struct dsf_binding b = { .n = 0 };

    for (unsigned p = 0; p < op->nports; p++) {
        unsigned ref = without >> p & 1 ? DSFLOW_LEFT_OUT : refs[p];
        dsflow_data_id id = connect(s, at, ref, t);

        if (!dsf_is_data(id))
            dsf_leave_out(&b, p);
        else if (op->ports[p].access == DSFLOW_RW && is_fresh(s, at, ref))
            dsf_bind_fresh(&b, p, id);
        else
            dsf_bind(&b, p, id);
        if (dsf_is_data(id) && t == s->parts - 1 &&
            op->ports[p].access != DSFLOW_R)
            note_write(s, at, ref);
    }
    return b;
}

/* The data of all ranks that a port means: rank t's is t * step further on. */
struct meant {
    const dsflow_data_id *id; /* NULL: it is not known yet */
    int32_t step;
};

static struct meant find_meant(struct dsf_tensors *s, struct dsf_place *at,
                               unsigned ref)
{
    static const dsflow_data_id none = { UINT32_MAX };
    const struct dsf_cut_data *d;

    if (ref >= DSFLOW_REF_XN)
        return (struct meant){ dsf_tensor_take(s, at, (int)ref)->id, 1 };
    if (ref == DSFLOW_LEFT_OUT || !dsf_is_data(referred(at, ref)))
        return (struct meant){ &none, 0 };
    d = &s->data[referred(at, ref).i];
    if (ref < DSFLOW_REF_SHARED)
        return (struct meant){ d->id, d->cut != DSFLOW_CUT_ONE };
    if (!dsf_is_data(d->id[s->parts]) ||
        dsf_tensor_spec(s, referred(at, ref))->role != DSFLOW_GRADS)
        return (struct meant){ &d->id[s->parts], 0 };
    dsf_tensor_adds(s, referred(at, ref), 0);
    return (struct meant){ d->add, 1 };
}

/* What the task of rank `t` uses, where it is left out: as bind_part, but that
 * nothing is kept, and what ports mean is found once for all ranks. */
static void pass_part(struct dsf_tensors *s, struct dsf_place *at,
                      const uint8_t *refs, const struct dsflow_op *op,
                      struct meant *meant, uint32_t without, int32_t t)
{
    for (unsigned p = 0; p < op->nports; p++) {
        enum dsflow_access access = op->ports[p].access;
        dsflow_data_id id;

        if (without >> p & 1)
            continue;
        if (meant[p].id == NULL)
            meant[p] = find_meant(s, at, refs[p]);
        id = meant[p].id[t * meant[p].step];
        if (!dsf_is_data(id))
            continue;
        dsf_asked_pass(s->out, at->task->microbatch, id,
                       access == DSFLOW_W ||
                           (access == DSFLOW_RW && is_fresh(s, at, refs[p])));
        if (t == s->parts - 1 && access != DSFLOW_R)
            note_write(s, at, refs[p]);
    }
}

/* What each port of the rule's tasks refers to. */
static void find_refs(const struct dsflow_rule *rule,
                      const struct dsflow_op *whole, const struct dsflow_op *op,
                      uint8_t *refs)
{
    for (unsigned p = 0; p < op->nports; p++)
        refs[p] = op->ports[p].name != NULL
                      ? (uint8_t)dsf_rule_ref(rule, whole, p)
                      : DSFLOW_LEFT_OUT;
}

static bool sees(const struct dsflow_op *op)
{
    return op == &dsf_op_attention_forward ||
           op == &dsf_op_attention_backward_input;
}

/* What the heads of rank `t` see, where layouts of heads differ; false: nothing
 * of the keys. */
static bool see_part(const struct dsf_tensors *s, struct dsf_place *at,
                     int32_t t, void *args, uint32_t *without)
{
    const struct dsflow_task_spec *task = at->task;
    struct dsflow_attention_args *a = args;

    if (!sees(task->op))
        return true;
    if (!dsf_plan_sight_part(s->plan, task->layer, task->tile, t, a))
        return false;
    at->fresh = dsf_segment_attention.fresh(task->op, a);
    if (a->block == 0)
        *without |= 1u << DSFLOW_ATTENTION_LAYOUT;
    return true;
}

static void each(struct dsf_tensors *s, struct dsf_place *at,
                 const struct dsflow_rule *rule)
{
    const struct dsflow_op *op = dsf_rule_op(rule, at->task->op);
    const struct dsf_part *own = NULL, *shared = NULL;
    const bool leaves_out = dsf_asked_leaves_out(s->out);
    struct dsflow_task_spec like = *at->task;
    struct meant meant[DSFLOW_SEGMENT_PORTS] = { { NULL, 0 } };
    uint8_t refs[DSFLOW_SEGMENT_PORTS];
    struct dsf_binding b;

    find_refs(rule, at->task->op, op, refs);
    for (int32_t t = 0; t < s->parts; t++) {
        _Alignas(16) unsigned char args[DSFLOW_SEGMENT_ARGS] = { 0 };
        uint32_t without;

        if (rule->unit != 0) {
            dsflow_data_id unit = referred(at, rule->unit);

            shared = dsf_tensor_part(s, unit, s->parts);
            own = rule->unit >= DSFLOW_REF_SHARED ? shared
                                                  : dsf_tensor_part(s, unit, t);
        }
        /* Of tasks that are left out only those of attention need arguments:
         * what they see says what they use. */
        without = leaves_out && !sees(at->task->op)
                      ? dsf_rule_without(rule, at->task->op, s->parts, t, own,
                                         shared, at->task->args, args)
                      : dsf_rule_fill(rule, at->task->op, s->parts, t, own,
                                      shared, at->task->args, args);
        if (without == DSF_NO_TASK)
            return;
        if (!see_part(s, at, t, args, &without))
            continue;
        if (leaves_out) {
            pass_part(s, at, refs, op, meant, without, t);
            continue;
        }
        b = bind_part(s, at, refs, op, without, t);
        like.op = op;
        like.without = b.without;
        dsf_add_like(s->out, &like, op, args, dsf_tensor_rank(s, t), b.fresh,
                     b.n, b.data);
    }
}

/* What the ranks share out of a buffer, in a task of a segment: rows of width
 * numbers, or what each has to say of all rows. */
static struct dsf_pieces pieces_of(const struct dsf_tensors *s,
                                   const struct dsf_place *at, int kind)
{
    int32_t rows = ((const struct dsflow_tile *)at->task->args)->rows;

    return kind == DSFLOW_REF_ALL
               ? (struct dsf_pieces){ s->parts, rows * DSF_HEAD_STATS, s->parts,
                                      0 }
               : (struct dsf_pieces){ rows, s->plan->model->dims.width,
                                      s->parts, 0 };
}

/* The data that a rule's port means for each rank. */
static dsflow_data_id *connect_all(struct dsf_tensors *s, struct dsf_place *at,
                                   unsigned ref)
{
    dsflow_data_id *ids = dsf_xcalloc((size_t)s->parts, sizeof(*ids));

    for (int32_t t = 0; t < s->parts; t++)
        ids[t] = connect(s, at, ref, t);
    return ids;
}

static void gather(struct dsf_tensors *s, struct dsf_place *at,
                   const struct dsflow_rule *rule)
{
    unsigned to = rule->to, from = rule->from;
    struct dsf_cut_data *d =
        from < DSFLOW_REF_SHARED ? &s->data[referred(at, from).i] : NULL;
    bool late = dsf_pipeline_defers_weights(s->plan);
    int32_t by = dsflow_plan_replica_of(s->plan, at->task->microbatch);
    struct dsf_temp *temp;
    dsflow_data_id *ids;

    /* What was gathered for the gradients of activations serves those of
     * weights, unless they are to wait: it would be missed meanwhile. */
    if (d != NULL && d->seen != NULL && d->seen_version == d->version &&
        d->seen_stamp == d->seen->stamp && d->seen_by == by && !late) {
        at->temp[to - DSFLOW_REF_XN] = d->seen;
        return;
    }
    temp = dsf_tensor_take(s, at, (int)to);
    ids = connect_all(s, at, from);
    dsf_tensor_share(s, at->task, &dsf_op_all_gather, pieces_of(s, at, (int)to),
                     temp->id, ids);
    free(ids);
    temp->stamp++;
    if (d != NULL) {
        d->seen = temp;
        d->seen_by = by;
        d->seen_version = d->version;
        d->seen_stamp = temp->stamp;
    }
}

static void scatter(struct dsf_tensors *s, struct dsf_place *at,
                    const struct dsflow_rule *rule)
{
    struct dsf_temp *from = dsf_tensor_take(s, at, rule->from);
    dsflow_data_id *ids = connect_all(s, at, rule->to);

    dsf_tensor_share(s, at->task, &dsf_op_reduce_scatter,
                     pieces_of(s, at, DSFLOW_REF_Y), ids, from->id);
    if (rule->to >= DSFLOW_REF_XN)
        dsf_tensor_take(s, at, rule->to)->stamp++;
    free(ids);
}

static int pass_of(const struct dsflow_task_spec *task)
{
    if (task->op->direction == DSFLOW_DIR_BACKWARD_WEIGHT)
        return DSF_PASS_WEIGHT;
    /* A forward task that is computed again is of the backward pass. */
    return task->pass == DSFLOW_BACKWARD ? DSF_PASS_INPUT : DSF_PASS_FORWARD;
}

const struct dsf_known_op *dsf_tensor_know(struct dsf_tensors *s,
                                           const struct dsflow_op *op)
{
    struct dsf_known_op *k =
        &s->known[(uintptr_t)op / sizeof(*op) % DSF_KNOWN_OPS];

    if (k->op == op)
        return k;
    k->op = op;
    k->rules = dsf_rules_find(op);
    for (unsigned p = 0; k->rules != NULL && p < op->nports; p++)
        k->cuts[p] = dsf_rules_cut(op, p);
    return k;
}

int dsf_tensor_replace(struct dsf_tensors *s,
                       const struct dsflow_task_spec *task,
                       const struct dsf_known_op *known, struct dsflow_err *err)
{
    dsflow_data_id on[DSFLOW_SEGMENT_PORTS];
    struct dsf_place at = {
        .task = task, .on = on, .fresh = task->fresh, .pass = pass_of(task)
    };
    int status = DSFLOW_OK;

    s->dims = &dsf_model_layer(s->plan->model, task->layer)->dims;
    for (unsigned p = 0; p < DSFLOW_SEGMENT_PORTS; p++)
        on[p] = dsf_no_data();
    for (unsigned i = 0; i < task->ndata && status == DSFLOW_OK; i++) {
        unsigned p = dsflow_task_port(task, i);

        on[p] = task->data[i];
        status = dsf_tensor_cut(s, task->data[i], known->cuts[p], task->data[i],
                                err);
    }
    if (status < 0)
        return status;
    for (const struct dsflow_rule *r = known->rules->rules;
         r->kind != DSFLOW_RULE_END; r++)
        switch (r->kind) {
        case DSFLOW_RULE_GATHER:
            gather(s, &at, r);
            break;
        case DSFLOW_RULE_SCATTER:
            scatter(s, &at, r);
            break;
        default:
            each(s, &at, r);
            break;
        }
    for (unsigned i = 0; i < task->ndata; i++)
        if (dsflow_task_access(task, i) & DSFLOW_W)
            s->data[task->data[i].i].version++;
    return DSFLOW_OK;
}
