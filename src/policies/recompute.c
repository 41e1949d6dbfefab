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
#include "tasks/tasks.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Layers whose forward pass may overlap. */
enum { PASSING = 2 };

/* What each kind of task leaves for the backward pass: the ports that are
 * dropped, and what computes them again (NULL: the same kind). */
static const struct rule {
    const struct dsflow_op *op;
    unsigned ports; /* bit i: port i */
    enum dsf_recompute least;
    const struct dsflow_op *again;
    unsigned nports; /* of `again` */
} rules[] = {
    { &dsf_op_qkv_forward, 0xc, DSF_RECOMPUTE_ATTENTION, NULL, 0 },
    { &dsf_op_attention_forward, 0xc, DSF_RECOMPUTE_ATTENTION, NULL, 0 },
    { &dsf_op_out_forward, 0x8, DSF_RECOMPUTE_BLOCK, NULL, 0 },
    { &dsf_op_mlp_forward, 0x4, DSF_RECOMPUTE_BLOCK, &dsf_op_mlp_hidden, 3 },
};

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
    uint32_t *forward;       /* [nmicro][layers]: first forward task, +1 */
    uint8_t *done;           /* [nmicro][layers] */
    size_t cells;
};

static const struct rule *rule_of(const struct recompute *r,
                                  const struct dsflow_task_spec *t)
{
    if (t->layer < 0 || t->layer >= r->plan->model->layers ||
        t->pass != DSFLOW_FORWARD)
        return NULL;
    for (size_t i = 0; i < sizeof(rules) / sizeof(*rules); i++)
        if (rules[i].op == t->op && r->what[t->layer] >= (int)rules[i].least)
            return &rules[i];
    return NULL;
}

static size_t cell(const struct recompute *r, const struct dsflow_task_spec *t)
{
    return (size_t)t->microbatch * (size_t)r->plan->model->layers +
           (size_t)t->layer;
}

/* Note what the forward tasks drop. */
static void find_dropped(struct recompute *r)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(r->rw.in); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(r->rw.in, (dsflow_task_id){ i });
        const struct rule *rule = rule_of(r, t);

        if (rule == NULL)
            continue;
        for (unsigned p = 0; p < t->ndata; p++)
            if (rule->ports >> p & 1 &&
                dsflow_graph_data(r->rw.in, t->data[p])->ring_class != 0)
                r->dropped[t->data[p].i] =
                    (struct dropped){ true, t->layer, t->tile };
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
        if (rule_of(r, t) != NULL && r->forward[cell(r, t)] == 0)
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

    return dsflow_rewrite_named(
        r->rw.out, &spec, "%s.%s%d.c%d.s%d.t%d",
        dsf_ring_name(spec.ring_class).s, back ? "again" : "once", place, chunk / plan->nstages,
        dsf_plan_turn(plan, t->microbatch) % plan->lanes[chunk], d->tile);
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

/* The forward tasks of one micro-batch in one layer, once more. */
static void compute_again(struct recompute *r,
                          const struct dsflow_task_spec *before)
{
    uint32_t n = dsflow_graph_ntasks(r->rw.in);

    for (uint32_t i = r->forward[cell(r, before)] - 1; i < n; i++) {
        struct dsflow_task_spec t =
            *dsflow_graph_task(r->rw.in, (dsflow_task_id){ i });
        const struct rule *rule = rule_of(r, &t);

        if (t.layer != before->layer || t.microbatch != before->microbatch)
            break;
        if (rule == NULL)
            continue;
        if (rule->again != NULL) {
            t.op = rule->again;
            t.ndata = rule->nports;
        }
        t.pass = DSFLOW_BACKWARD;
        emit(r, t);
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
    free(r.forward);
    free(r.done);
    dsflow_rewrite_end(&r.rw);
    return DSFLOW_OK;
}

#define RECOMPUTE struct dsf_recompute_keys
static const char *const recomputes[] = { "none", "attention", "block", "auto",
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
