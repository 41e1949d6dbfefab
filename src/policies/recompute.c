/* recompute.c - activations that are not kept, but computed again before the
 * backward pass of their layer (Chen et al. 2016; "attention" as in Korthikanti
 * et al. 2022).
 *
 * What is dropped is written to buffers that pass by: one ring of layers for
 * the forward pass, another for the backward pass, in which the forward tasks
 * stand once more, up to the last one whose results are needed.
 */
#include "policies/keys.h"

#include "base/alloc.h"
#include "config/layer_list.h"
#include <dsflow/rewrite.h>
#include "policies/ring_class.h"
#include "tasks/bind.h"

#include <stdlib.h>
#include <string.h>

/* Layers whose forward pass may overlap. */
enum { PASSING = 2 };

/* A dropped piece of data, and where it stood last, in the forward pass and in
 * the backward pass. */
struct dropped {
    bool is;
    int16_t layer, tile;
    struct {
        int32_t slot; /* + 1; 0: it was not asked for yet */
        dsflow_data_id buffer;
    } last[2];
};

struct recompute {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    uint8_t *what;           /* [layers]: enum dsf_recompute */
    struct dropped *dropped; /* by data of `in` */
    int64_t *most;           /* [DSF_NRINGS][tiles]: elements of what is dropped
                                of a class: layers may differ */
    uint32_t *forward;       /* [nmicro][layers]: the first task to be done
                                again, +1; 0: none */
};

/* Where the first task of the micro-batch in the layer is noted; NULL: the task
 * is not of a block. */
static uint32_t *noted(const struct recompute *r,
                       const struct dsflow_task_spec *t)
{
    int32_t layers = r->plan->model->layers;

    return t->layer >= 0 && t->layer < layers && t->microbatch >= 0
               ? &r->forward[t->microbatch * layers + t->layer]
               : NULL;
}

/* The ports of a forward task whose data is dropped (bit i: port i). What its
 * segment leaves to the next layer is that layer's, and stays. */
static uint32_t drops(const struct recompute *r,
                      const struct dsflow_task_spec *t)
{
    static const int levels[] = {
        [DSFLOW_DROPPED_WITH_ATTENTION] = DSF_RECOMPUTE_ATTENTION,
        [DSFLOW_DROPPED_WITH_BLOCK] = DSF_RECOMPUTE_BLOCK,
    };
    const struct dsflow_segment *segment = dsf_segment_of_op(t->op);
    uint32_t ports = 0;

    if (noted(r, t) == NULL || segment == NULL || t->op != segment->forward ||
        t->pass != DSFLOW_FORWARD)
        return 0;
    for (unsigned i = 0; i < t->ndata; i++) {
        unsigned p = dsflow_task_port(t, i);
        int least = levels[segment->ports[p].dropped];

        if (least > 0 && r->what[t->layer] >= least &&
            dsflow_graph_data(r->rw.in, t->data[i])->ring_class ==
                dsf_ring_of_port(segment, p))
            ports |= 1u << p;
    }
    return ports;
}

static int64_t *most_of(const struct recompute *r, int32_t ring, int32_t tile)
{
    return &r->most[ring * r->plan->ntiles + tile];
}

/* Note what the forward tasks drop. */
static void find_dropped(struct recompute *r)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(r->rw.in, i)) != NULL; i++) {
        uint32_t ports = drops(r, t);

        for (unsigned k = 0; k < t->ndata && ports != 0; k++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(r->rw.in, t->data[k]);
            int64_t *most;

            if (!(ports >> dsflow_task_port(t, k) & 1))
                continue;
            r->dropped[t->data[k].i] = (struct dropped){ .is = true,
                                                         .layer = t->layer,
                                                         .tile = t->tile };
            most = most_of(r, d->ring_class, t->tile);
            if (d->elems > *most)
                *most = d->elems;
        }
    }
}

static dsflow_data_id buffer_of(struct recompute *r, dsflow_data_id data,
                                bool back, int32_t chunk, int32_t slot)
{
    const struct dropped *d = &r->dropped[data.i];
    struct dsflow_data_spec spec = *dsflow_graph_data(r->rw.in, data);
    int64_t most = *most_of(r, spec.ring_class, d->tile);

    if (most > spec.elems) { /* layers of another size use it too */
        spec.elems = most;
        spec.ndims = 0;
    }
    return dsflow_rewrite_named(r->rw.out, &spec, "%s.%s%d.c%d.s%d.t%d",
                                dsf_ring_name(spec.ring_class).s,
                                back ? "again" : "once",
                                d->layer % (back ? r->plan->depth : PASSING),
                                chunk / r->plan->nstages, slot, d->tile);
}

/* What is on data[i] of a task; of what is dropped, the buffer where it stands
 * meanwhile. Names take long to make: tasks of one micro-batch ask for it one
 * after the other. */
static dsflow_data_id passing(void *recompute, const struct dsflow_task_spec *t,
                              unsigned i)
{
    struct recompute *r = recompute;
    const struct dsflow_plan *plan = r->plan;
    struct dropped *d = &r->dropped[t->data[i].i];
    const bool back = t->pass == DSFLOW_BACKWARD;
    int32_t chunk, slot;

    if (!d->is)
        return dsflow_rewrite_data(&r->rw, t->data[i]);
    chunk = dsflow_plan_chunk_of(plan, d->layer);
    slot = dsflow_plan_micro_step_of(plan, t->microbatch) %
           plan->grad_slots[chunk];
    if (d->last[back].slot != slot + 1) {
        d->last[back].slot = slot + 1;
        d->last[back].buffer = buffer_of(r, t->data[i], back, chunk, slot);
    }
    return d->last[back].buffer;
}

/* As much of a forward task as leaves what it drops: the hidden one where there
 * is one, and the stream that it leaves is not among that. */
static void emit_again(struct recompute *r, struct dsflow_task_spec t,
                       uint32_t ports)
{
    const struct dsflow_segment *segment = dsf_segment_of_op(t.op);
    struct dsf_binding b = { .n = 0 };

    t.pass = DSFLOW_BACKWARD;
    if (segment->hidden != NULL && ports >> segment->hidden->nports == 0) {
        for (unsigned i = 0; i < t.ndata; i++) {
            unsigned p = dsflow_task_port(&t, i);

            while (b.next < p && b.next < segment->hidden->nports)
                dsf_leave_out(&b, b.next);
            if (p < segment->hidden->nports)
                dsf_bind(&b, p, t.data[i]);
        }
        t.op = segment->hidden;
        t.data = b.data;
        t.ndata = b.n;
        t.without = b.without;
    }
    dsf_add_mapped(r->rw.out, &t, passing, r);
}

/* The forward tasks of one micro-batch in one layer, from the `i`-th on, once
 * more. */
static void compute_again(struct recompute *r,
                          const struct dsflow_task_spec *before, uint32_t i)
{
    const struct dsflow_task_spec *t;

    for (; (t = dsf_nth_task(r->rw.in, i)) != NULL &&
           t->layer == before->layer && t->microbatch == before->microbatch;
         i++) {
        uint32_t ports = drops(r, t);

        if (ports != 0)
            emit_again(r, *t, ports);
    }
}

static void rewrite_task(struct recompute *r, uint32_t i)
{
    const struct dsflow_graph *in = r->rw.in;
    const struct dsflow_task_spec *t = dsf_nth_task(in, i);
    uint32_t *first = noted(r, t), from = first != NULL ? *first : 0;

    if (from != 0 && dsf_nth_task(in, from - 1)->program != t->program)
        *first = from = 0;
    if (from == 0 && drops(r, t) != 0)
        *first = i + 1;
    if (from != 0 && t->pass == DSFLOW_BACKWARD) {
        *first = 0;
        compute_again(r, t, from - 1);
    }
    dsf_add_mapped(r->rw.out, t, passing, r);
}

/* what[l]: what is computed again of layer l. */
static int read_layers(const struct dsf_recompute_keys *keys,
                       const struct dsflow_plan *plan, uint8_t *what,
                       struct dsflow_err *err)
{
    int is = keys->what == DSF_RECOMPUTE_AUTO ? DSF_RECOMPUTE_NONE : keys->what;
    int layers = plan->model->layers, status = DSFLOW_OK;
    bool *on = dsf_xcalloc((size_t)layers, sizeof(*on));

    if (!dsf_layer_list_read(keys->layers, layers, on))
        status = dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "recompute",
                              "layers", "\"%.60s\": " DSF_LAYER_LIST_EXPECTED,
                              keys->layers, layers - 1);
    for (int l = 0; l < layers && status == DSFLOW_OK; l++)
        what[l] = (uint8_t)(on[l] ? is : DSF_RECOMPUTE_NONE);
    free(on);
    return status;
}

static int recompute_decide(void *part, struct dsflow_plan *plan,
                            struct dsflow_err *err)
{
    uint8_t *what = dsf_xcalloc((size_t)plan->model->layers, 1);
    int status = read_layers(part, plan, what, err);

    free(what);
    return status;
}

static int recompute_rewrite(const void *part, const struct dsflow_plan *plan,
                             struct dsflow_graph *in, struct dsflow_graph *out,
                             struct dsflow_err *err)
{
    const struct dsf_recompute_keys *keys = part;
    size_t layers = (size_t)plan->model->layers;
    struct recompute r = { .plan = plan };

    if (keys->what == DSF_RECOMPUTE_NONE || keys->what == DSF_RECOMPUTE_AUTO)
        return DSFLOW_UNCHANGED;
    r.rw = dsflow_rewrite_begin(in, out);
    r.what = dsf_xcalloc(layers, 1);
    r.dropped = dsf_xcalloc(dsflow_graph_ndata(in) + 1, sizeof(*r.dropped));
    r.forward = dsf_xcalloc((size_t)plan->nmicro * layers, sizeof(*r.forward));
    r.most =
        dsf_xcalloc((size_t)DSF_NRINGS * (size_t)plan->ntiles, sizeof(*r.most));
    read_layers(part, plan, r.what, NULL); /* no error: it was checked */
    find_dropped(&r);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++)
        rewrite_task(&r, i);
    free(r.what);
    free(r.dropped);
    free(r.most);
    free(r.forward);
    dsflow_rewrite_end(&r.rw);
    return DSFLOW_OK;
}

#define RECOMPUTE struct dsf_recompute_keys
static const char *const recomputes[] = { DSF_RECOMPUTES(DSF_CHOICE_NAME)
                                              NULL };
static const struct dsflow_option recompute_options[] = {
    DSFLOW_OPTION_CHOICE(RECOMPUTE, what, "\"none\"", recomputes,
                         "what the backward pass computes again instead of "
                         "keeping it; auto: the fastest that fits"),
    DSFLOW_OPTION_OF(DSFLOW_STRING, RECOMPUTE, layers, "\"all\"",
                     "of which layers: \"all\", or numbers and ranges such "
                     "as \"0-5,8\"",
                     "recompute.what != none"),
    { 0 },
};

static const struct dsflow_try recompute_tries[] = {
    { "what", DSFLOW_VALUES_RISING, DSFLOW_CAUSE_AGAIN, 0 },
    { 0 },
};

const struct dsflow_policy dsf_policy_recompute = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "recompute",
    .summary = "activations computed again instead of kept",
    .after = "reference",
    .options = recompute_options,
    .part_size = sizeof(struct dsf_recompute_keys),
    .tries = recompute_tries,
    .decide = recompute_decide,
    .rewrite = recompute_rewrite,
};
