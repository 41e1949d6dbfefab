/* strict.c - schedules of a pipeline as slow as they were published.
 *
 * In 1F1B, GPipe and interleaved 1F1B the backward pass of a stage is one
 * thing: the stage passes the gradient of its input on when the gradients of
 * its weights are there, too. The graph does not need that. With
 * pipeline.strict a task `wait` puts it in: it has no work, writes the
 * gradient that another stage reads, and reads those of the weights.
 */
#include "policies/keys.h"

#include "base/alloc.h"
#include <dsflow/rewrite.h>
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* Gradients that were added to last on a rank: those of one layer. */
struct weights {
    int16_t layer;
    dsflow_data_id *of;
    size_t n, cap;
};

struct strict {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    struct weights *weights; /* by rank */
    uint8_t *pending; /* by data: the backward pass has written it, and nobody
                         waited for it since */
};

static void note_gradient(struct weights *w, int16_t layer, dsflow_data_id id)
{
    if (w->layer != layer)
        w->n = 0;
    w->layer = layer;
    for (size_t i = 0; i < w->n; i++)
        if (w->of[i].i == id.i)
            return;
    dsf_grow(&w->of, &w->cap, w->n + 1, sizeof(*w->of));
    w->of[w->n++] = id;
}

static void note_writes(struct strict *s, const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata; i++) {
        dsflow_data_id id = t->data[i];
        uint8_t role = dsflow_graph_data(s->rw.in, id)->role;

        if (!(dsflow_task_access(t, i) & DSFLOW_W))
            continue;
        s->pending[id.i] =
            t->pass == DSFLOW_BACKWARD && role == DSFLOW_ACTIVATIONS;
        if (t->pass == DSFLOW_BACKWARD && role == DSFLOW_GRADS)
            note_gradient(&s->weights[t->rank], t->layer, id);
    }
}

static void emit_wait(struct strict *s, const struct dsflow_task_spec *reader,
                      dsflow_data_id id, int32_t rank)
{
    const struct weights *w = &s->weights[rank];
    dsflow_data_id *data = dsf_xcalloc(w->n + 1, sizeof(*data));

    data[0] = dsflow_rewrite_data(&s->rw, id);
    for (size_t i = 0; i < w->n; i++)
        data[i + 1] = dsflow_rewrite_data(&s->rw, w->of[i]);
    if (w->n > 0)
        dsf_add_like(s->rw.out, reader, &dsf_op_wait, NULL, rank, 0,
                     (uint32_t)w->n + 1, data);
    free(data);
}

static int32_t stage_of(const struct strict *s, int32_t rank)
{
    return dsf_mesh_at(&s->plan->mesh, rank, DSF_AXIS_PIPELINE);
}

static void wait_for_weights(struct strict *s, const struct dsflow_task_spec *t)
{
    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t home = dsflow_graph_data(s->rw.in, t->data[i])->home;

        if (!s->pending[t->data[i].i] ||
            stage_of(s, home) == stage_of(s, t->rank))
            continue;
        s->pending[t->data[i].i] = 0;
        emit_wait(s, t, t->data[i], home);
    }
}

static int strict_rewrite(const void *part, const struct dsflow_plan *plan,
                          struct dsflow_graph *in, struct dsflow_graph *out,
                          struct dsflow_err *err)
{
    struct strict s = { .plan = plan };
    const struct dsflow_task_spec *t;

    if (!dsf_pipeline_keys(plan->job)->strict || plan->nstages == 1 ||
        dsf_pipeline_defers_weights(plan))
        return DSFLOW_UNCHANGED;
    s.rw = dsflow_rewrite_begin(in, out);
    s.weights = dsf_xcalloc((size_t)plan->nranks, sizeof(*s.weights));
    s.pending = dsf_xcalloc(dsflow_graph_ndata(in) + 1, 1);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        if (t->pass == DSFLOW_BACKWARD)
            wait_for_weights(&s, t);
        dsflow_rewrite_task(&s.rw, t);
        note_writes(&s, t);
    }
    for (int32_t r = 0; r < plan->nranks; r++)
        free(s.weights[r].of);
    free(s.weights);
    free(s.pending);
    dsflow_rewrite_end(&s.rw);
    return DSFLOW_OK;
}

const struct dsflow_policy dsf_policy_strict = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "strict",
    .summary = "stages pass gradients on when their weights have theirs",
    .after = "collectives",
    .rewrite = strict_rewrite,
};
