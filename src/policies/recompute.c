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
#include <dsflow/rewrite.h>
#include "policies/ring_class.h"
#include "tasks/bind.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Layers whose forward pass may overlap. */
enum { PASSING = 2 };

/* A dropped piece of data. */
struct dropped {
    bool is;
    int16_t layer, tile;
};

struct recompute {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    uint8_t *what;           /* [layers]: enum dsf_recompute */
    struct dropped *dropped; /* by data of `in` */
    int64_t *most;           /* [DSF_NRINGS][tiles]: elements of what is dropped
                                of a class: layers may differ */
    uint32_t *forward;       /* [nmicro][layers]: first forward task, +1 */
    uint8_t *done;           /* [nmicro][layers] */
    size_t cells;
};

/* The ports of a forward task whose data is dropped (bit i: port i). What its
 * segment leaves to the next layer is that layer's, and stays. */
static uint32_t drops(const struct recompute *r,
                      const struct dsflow_task_spec *t)
{
    static const int levels[] = {
        [DSF_DROPPED_WITH_ATTENTION] = DSF_RECOMPUTE_ATTENTION,
        [DSF_DROPPED_WITH_BLOCK] = DSF_RECOMPUTE_BLOCK,
    };
    const struct dsf_segment *segment = dsf_segment_of_op(t->op);
    uint32_t ports = 0;

    if (t->layer < 0 || t->layer >= r->plan->model->layers || segment == NULL ||
        t->op != segment->forward || t->pass != DSFLOW_FORWARD)
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

static size_t cell(const struct recompute *r, const struct dsflow_task_spec *t)
{
    return (size_t)t->microbatch * (size_t)r->plan->model->layers +
           (size_t)t->layer;
}

static int64_t *most_of(const struct recompute *r, int32_t ring, int32_t tile)
{
    return &r->most[ring * r->plan->ntiles + tile];
}

/* Note what the forward tasks drop. */
static void find_dropped(struct recompute *r)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(r->rw.in); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(r->rw.in, (dsflow_task_id){ i });
        uint32_t ports = drops(r, t);

        for (unsigned k = 0; k < t->ndata && ports != 0; k++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(r->rw.in, t->data[k]);
            int64_t *most;

            if (!(ports >> dsflow_task_port(t, k) & 1))
                continue;
            r->dropped[t->data[k].i] =
                (struct dropped){ true, t->layer, t->tile };
            most = most_of(r, d->ring_class, t->tile);
            if (d->elems > *most)
                *most = d->elems;
        }
    }
}

/* Task `i` is the first of a program: note where its forward tasks begin. */
static void begin_program(struct recompute *r, uint32_t i)
{
    const struct dsflow_graph *g = r->rw.in;
    dsflow_program program =
        dsflow_graph_task(g, (dsflow_task_id){ i })->program;

    memset(r->forward, 0, r->cells * sizeof(*r->forward));
    memset(r->done, 0, r->cells);
    for (; i < dsflow_graph_ntasks(g); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(g, (dsflow_task_id){ i });

        if (t->program != program)
            return;
        if (drops(r, t) != 0 && r->forward[cell(r, t)] == 0)
            r->forward[cell(r, t)] = i + 1;
    }
}

/* The buffer where a dropped piece of data stands while `t` uses it. */
static dsflow_data_id passing(struct recompute *r,
                              const struct dsflow_task_spec *t,
                              dsflow_data_id id)
{
    const struct dsflow_plan *plan = r->plan;
    const struct dropped *d = &r->dropped[id.i];
    struct dsflow_data_spec spec = *dsflow_graph_data(r->rw.in, id);
    int32_t chunk = dsf_plan_chunk(plan, d->layer);
    bool back = t->pass == DSFLOW_BACKWARD;
    int32_t place = d->layer % (back ? plan->depth : PASSING);
    int64_t most = *most_of(r, spec.ring_class, d->tile);

    if (most > spec.elems) { /* layers of another size use it too */
        spec.elems = most;
        spec.ndims = 0;
    }
    return dsflow_rewrite_named(
        r->rw.out, &spec, "%s.%s%d.c%d.s%d.t%d",
        dsf_ring_name(spec.ring_class).s, back ? "again" : "once", place,
        chunk / plan->nstages,
        dsf_plan_micro_step_of(plan, t->microbatch) % plan->grad_slots[chunk],
        d->tile);
}

static void emit(struct recompute *r, struct dsflow_task_spec t)
{
    dsflow_data_id *data = dsf_xcopy(t.data, t.ndata, sizeof(*data));

    for (unsigned p = 0; p < t.ndata; p++)
        data[p] = r->dropped[data[p].i].is
                      ? passing(r, &t, data[p])
                      : dsflow_rewrite_data(&r->rw, data[p]);
    t.data = data;
    dsflow_graph_add_task(r->rw.out, &t);
    free(data);
}

/* As much of a forward task as leaves what it drops: the hidden one where there
 * is one, and the stream that it leaves is not among that. */
static void emit_again(struct recompute *r, struct dsflow_task_spec t,
                       uint32_t ports)
{
    const struct dsf_segment *segment = dsf_segment_of_op(t.op);
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
    emit(r, t);
}

/* The forward tasks of one micro-batch in one layer, once more. */
static void compute_again(struct recompute *r,
                          const struct dsflow_task_spec *before)
{
    uint32_t n = dsflow_graph_ntasks(r->rw.in);

    for (uint32_t i = r->forward[cell(r, before)] - 1; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(r->rw.in, (dsflow_task_id){ i });
        uint32_t ports;

        if (t->layer != before->layer || t->microbatch != before->microbatch)
            break;
        ports = drops(r, t);
        if (ports != 0)
            emit_again(r, *t, ports);
    }
}

static void rewrite_task(struct recompute *r, const struct dsflow_task_spec *t)
{
    bool back = t->pass == DSFLOW_BACKWARD && t->layer >= 0 &&
                t->layer < r->plan->model->layers;

    if (back && r->what[t->layer] != DSF_RECOMPUTE_NONE &&
        !r->done[cell(r, t)]) {
        r->done[cell(r, t)] = 1;
        compute_again(r, t);
    }
    emit(r, *t);
}

/* what[l]: what is computed again of layer l. The layers are numbers and
 * ranges: "0-5,8". */
static int read_layers(const struct dsf_recompute_keys *keys,
                       const struct dsflow_plan *plan, uint8_t *what,
                       struct dsflow_err *err)
{
    int is = keys->what == DSF_RECOMPUTE_AUTO ? DSF_RECOMPUTE_NONE : keys->what;
    const char *text = keys->layers, *c = text;
    int layers = plan->model->layers;

    if (strcmp(text, "all") == 0) {
        memset(what, is, (size_t)layers);
        return DSFLOW_OK;
    }
    do {
        long first, last;
        char *end;

        first = last = strtol(c, &end, 10);
        if (end != c && *end == '-' && isdigit((unsigned char)end[1]))
            last = strtol(end + 1, &end, 10);
        if (end == c || !isdigit((unsigned char)*c) || first > last ||
            last >= layers || (*end != ',' && *end != '\0'))
            return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "recompute",
                                "layers",
                                "\"%.60s\": expected \"all\", or layers 0 to "
                                "%d such as \"0-5,8\"",
                                text, layers - 1);
        memset(what + first, is, (size_t)(last - first + 1));
        c = end + (*end == ',');
        if (*end == '\0')
            return DSFLOW_OK;
    } while (true);
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
    size_t cells = (size_t)plan->nmicro * (size_t)plan->model->layers;
    struct recompute r = { .plan = plan, .cells = cells };
    int program = -1;

    if (keys->what == DSF_RECOMPUTE_NONE || keys->what == DSF_RECOMPUTE_AUTO)
        return DSFLOW_UNCHANGED;
    r.rw = dsflow_rewrite_begin(in, out);
    r.what = dsf_xcalloc((size_t)plan->model->layers, 1);
    r.dropped = dsf_xcalloc(dsflow_graph_ndata(in) + 1, sizeof(*r.dropped));
    r.forward = dsf_xcalloc(cells, sizeof(*r.forward));
    r.done = dsf_xcalloc(cells, 1);
    r.most =
        dsf_xcalloc((size_t)DSF_NRINGS * (size_t)plan->ntiles, sizeof(*r.most));
    read_layers(part, plan, r.what, NULL); /* no error: it was checked */
    find_dropped(&r);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });

        if (t->program != program)
            begin_program(&r, i);
        program = t->program;
        rewrite_task(&r, t);
    }
    free(r.what);
    free(r.dropped);
    free(r.most);
    free(r.forward);
    free(r.done);
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
