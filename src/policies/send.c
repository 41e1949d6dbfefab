/* send.c - what a task needs and another rank made: a copy, in the memory of
 * the task's rank.
 *
 * One copy serves all readers on a rank until its original is written again;
 * it has as many slots as the original, so nothing new waits for anything but
 * the transfer. Kinds that move data themselves (op.h: comm) read it where it
 * is. Constants are there from the start.
 */
#include "policies/policies.h"

#include "base/alloc.h"
#include <dsflow/rewrite.h>
#include "tasks/tasks.h"

#include <stdlib.h>

/* A copy of one piece of data on one rank. */
struct copy {
    uint32_t version; /* of the original */
    int32_t rank;
    dsflow_data_id id;
    uint32_t next; /* +1 */
};

/* Gradients that were added to last on a rank: those of one layer. */
struct weights {
    int16_t layer;
    unsigned n;
    dsflow_data_id of[DSFLOW_MAX_PORTS - 1];
};

struct sends {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    struct weights *weights; /* by rank */
    struct copy *copies;
    size_t ncopies, cap_copies;
    uint32_t *first;   /* by data: +1, its copies */
    uint32_t *version; /* by data: times it was written, and phases begun */
};

static struct copy *copy_on(struct sends *s, dsflow_data_id id, int32_t rank)
{
    struct dsflow_data_spec spec = *dsflow_graph_data(s->rw.in, id);
    uint32_t i;

    for (i = s->first[id.i]; i != 0; i = s->copies[i - 1].next)
        if (s->copies[i - 1].rank == rank)
            return &s->copies[i - 1];
    spec.home = (int16_t)rank;
    spec.persistent = spec.constant;
    if (spec.role == DSFLOW_GRADS || spec.role == DSFLOW_PARAMS)
        spec.role = DSFLOW_BUFFERS;
    spec.unit = -1;
    dsf_grow(&s->copies, &s->cap_copies, s->ncopies + 1, sizeof(*s->copies));
    s->copies[s->ncopies] = (struct copy){
        .rank = rank,
        .id =
            dsflow_rewrite_named(s->rw.out, &spec, "%s.on%d", spec.name, rank),
        .next = s->first[id.i],
    };
    s->first[id.i] = (uint32_t)++s->ncopies;
    return &s->copies[s->ncopies - 1];
}

/* In a schedule whose backward pass is one thing, as it was published, a stage
 * passes the gradient on when its own weights have theirs; zero_bubble is the
 * one that does not wait. */
static void wait_for_weights(struct sends *s,
                             const struct dsflow_task_spec *reader,
                             dsflow_data_id id)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(s->rw.in, id);
    const struct weights *w = &s->weights[d->home];
    struct dsflow_task_spec t = *reader;
    int32_t from, to, x, y;

    dsf_mesh_coords(&s->plan->mesh, d->home, &from, &x, &y);
    dsf_mesh_coords(&s->plan->mesh, reader->rank, &to, &x, &y);
    if (s->plan->job->pipeline.schedule == DSF_ZERO_BUBBLE ||
        reader->pass != DSFLOW_BACKWARD || from == to ||
        d->role != DSFLOW_ACTIVATIONS || w->n == 0)
        return;
    t.op = &dsf_op_wait;
    t.args = NULL;
    t.rank = d->home;
    t.fresh = 0;
    t.ndata = (uint8_t)(w->n + 1);
    t.data[0] = dsflow_rewrite_data(&s->rw, id);
    for (unsigned i = 0; i < w->n; i++)
        t.data[i + 1] = dsflow_rewrite_data(&s->rw, w->of[i]);
    dsflow_graph_add_task(s->rw.out, &t);
}

static dsflow_data_id received(struct sends *s,
                               const struct dsflow_task_spec *reader,
                               dsflow_data_id id)
{
    struct copy *copy = copy_on(s, id, reader->rank);
    bool constant = dsflow_graph_data(s->rw.in, id)->constant;
    struct dsflow_task_spec t = *reader;

    if (constant || copy->version == s->version[id.i])
        return copy->id;
    wait_for_weights(s, reader, id);
    copy->version = s->version[id.i];
    t.op = &dsf_op_send;
    t.args = NULL;
    t.fresh = 0;
    t.ndata = 2;
    t.data[0] = dsflow_rewrite_data(&s->rw, id);
    t.data[1] = copy->id;
    dsflow_graph_add_task(s->rw.out, &t);
    return t.data[1];
}

static void note_weights(struct weights *w, int16_t layer, dsflow_data_id id)
{
    if (w->layer != layer)
        *w = (struct weights){ .layer = layer };
    for (unsigned i = 0; i < w->n; i++)
        if (w->of[i].i == id.i)
            return;
    if (w->n < DSFLOW_MAX_PORTS - 1)
        w->of[w->n++] = id;
}

static void send_what_it_reads(struct sends *s,
                               const struct dsflow_task_spec *task)
{
    struct dsflow_task_spec t = *task;

    for (unsigned i = 0; i < t.ndata; i++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(s->rw.in, task->data[i]);
        bool reads = dsflow_task_access(task, i) == DSFLOW_R;

        t.data[i] = reads && !t.op->comm && d->home != t.rank
                        ? received(s, task, task->data[i])
                        : dsflow_rewrite_data(&s->rw, task->data[i]);
    }
    dsflow_graph_add_task(s->rw.out, &t);
    for (unsigned i = 0; i < t.ndata; i++) {
        if (!(dsflow_task_access(task, i) & DSFLOW_W))
            continue;
        s->version[task->data[i].i]++;
        if (t.pass == DSFLOW_BACKWARD &&
            dsflow_graph_data(s->rw.in, task->data[i])->role == DSFLOW_GRADS)
            note_weights(&s->weights[t.rank], task->layer, task->data[i]);
    }
}

static int send_rewrite(const void *part, const struct dsflow_plan *plan,
                        struct dsflow_graph *in, struct dsflow_graph *out,
                        struct dsflow_err *err)
{
    uint32_t ndata = dsflow_graph_ndata(in), n = dsflow_graph_ntasks(in);
    struct sends s = { .rw = dsflow_rewrite_begin(in, out),
                       .plan = plan,
                       .weights = dsf_xcalloc((size_t)plan->nranks,
                                              sizeof(*s.weights)),
                       .first = dsf_xcalloc(ndata + 1, sizeof(*s.first)),
                       .version = dsf_xcalloc(ndata + 1, sizeof(*s.version)) };
    int phase = -1;

    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });

        /* What a copy is of may have changed between phases. */
        for (uint32_t d = 0; t->phase != phase && d < ndata; d++)
            s.version[d]++;
        phase = t->phase;
        send_what_it_reads(&s, t);
    }
    free(s.weights);
    free(s.copies);
    free(s.first);
    free(s.version);
    dsflow_rewrite_end(&s.rw);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_send = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "send",
    .summary = "copies of what another rank made",
    .after = "zero",
    .rewrite = send_rewrite,
};
