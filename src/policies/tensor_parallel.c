/* tensor_parallel.c - each task as T tasks, one on each tensor rank, with what
 * has to move between them. The segments say how for each kind of task
 * (segments/rules.h); tensor_rules.c follows these rules.
 *
 * A task gets a rank of the first stage and the first replica: `pipeline`,
 * which comes next, moves it along these axes. Partial products are summed in a
 * tree of pairs over the tensor ranks, so that the result depends on their
 * number and on nothing else; against one rank the loss differs by 1e-5 of
 * itself at most, in fp32.
 */
#include "policies/tensor_private.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "tasks/tasks.h"

#include <stdio.h>
#include <stdlib.h>

/* Is it numbers of a unit, or something that is kept of it whole? */
static bool is_of_unit(const struct dsf_tensors *s, dsflow_data_id id)
{
    const struct dsflow_data_spec *d = dsf_tensor_spec(s, id);

    return d->unit >= 0 && (d->kept == 0 || s->plan->kept.v[d->kept - 1].kind !=
                                                DSFLOW_KEPT_BY_UNIT);
}

/* Tasks from the `i`-th on that are replaced together; how many in *n. */
static int rewrite_tasks(struct dsf_tensors *s, uint32_t i, uint32_t *n,
                         struct dsflow_err *err)
{
    const struct dsflow_task_spec *task = dsf_nth_task(s->in, i);
    const struct dsf_known_op *known = dsf_tensor_know(s, task->op);
    int status = DSFLOW_OK;

    *n = 0;
    if (known->rules == NULL)
        status = dsf_tensor_update(s, i, n, err);
    if (status < 0 || *n > 0)
        return status;
    *n = 1;
    if (known->rules != NULL)
        return dsf_tensor_replace(s, task, known, err);
    if (task->op == &dsf_op_chunk_scales || task->op == &dsf_op_chunk_sums)
        return dsf_tensor_scale(s, task, err);
    if (task->op == &dsf_op_reduce)
        return dsf_tensor_sum(s, task, err);
    for (unsigned k = 0; k < task->ndata; k++)
        if (is_of_unit(s, task->data[k]))
            return dsflow_fail(err, DSFLOW_ENOSYS,
                               "tensor_parallel: task %s: it is not known how "
                               "it works on a part of %s",
                               task->op->name,
                               dsf_tensor_spec(s, task->data[k])->name);
    return dsf_tensor_keep(s, task, err);
}

static void begin(struct dsf_tensors *s)
{
    const struct dsflow_plan *plan = s->plan;
    size_t places = (size_t)(plan->nchunks * plan->nreplicas);
    size_t rings =
        (size_t)(plan->nchunks / plan->nstages) * DSF_NPASSES * DSFLOW_NTEMPS;

    s->parts = plan->nparts;
    s->collectives = dsf_collective_last(s->in);
    s->length = (int32_t)plan->rank_workers + 1;
    s->data = dsf_xcalloc(dsflow_graph_ndata(s->in) + 1, sizeof(*s->data));
    s->part = dsf_xcalloc(plan->model->nunits, sizeof(*s->part));
    s->ntemps = rings * (size_t)s->length;
    s->temps = dsf_xcalloc(s->ntemps, sizeof(*s->temps));
    dsf_tensor_unite(s);
    s->turn =
        dsf_xcalloc(places * DSF_NPASSES * DSFLOW_NTEMPS, sizeof(*s->turn));
}

static void end(struct dsf_tensors *s)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(s->in); i++) {
        free(s->data[i].id);
        free(s->data[i].add);
    }
    for (size_t i = 0; i < s->ntemps; i++)
        free(s->temps[i].id);
    for (unsigned u = 0; u < s->plan->model->nunits; u++)
        free(s->part[u]);
    free(s->data);
    free(s->part);
    free(s->temps);
    free(s->turn);
    free(s->before);
}

/* What of the layers, the model and its tiles does not split in `parts`: its
 * name and size. NULL: all of it does. */
static const char *unsplit(const struct dsflow_plan *plan, int32_t parts,
                           int32_t *size)
{
    const struct dsf_model *model = plan->model;

    for (int32_t l = 0; l < model->layers; l++) {
        const struct dsf_dims *d = &dsf_model_layer(model, l)->dims;

        if ((*size = d->heads) % parts != 0)
            return "heads";
        if ((*size = d->kv_heads) % parts != 0 &&
            parts % d->kv_heads != 0) /* several may use the same one */
            return "kv_heads";
        if ((*size = d->ffn) % parts != 0)
            return "ffn_width";
        if (d->input_quantizer == DSF_INPUTS_EXACT)
            continue;
        if (d->input_group == 0 && parts > 1) {
            *size = d->width;
            return "the inputs of a token, which share a scale where "
                   "activations.group is 0";
        }
        if (d->input_group > 0 && *size / parts % d->input_group != 0)
            return "ffn_width in whole groups of activations.group";
        *size = d->heads * d->head_dim;
        if (d->input_group > 0 && *size / parts % d->input_group != 0)
            return "the width of all heads in whole groups of "
                   "activations.group";
    }
    *size = model->dims.vocab;
    if (model->dims.vocab_rows / model->dims.vocab_step < parts)
        return "vocab";
    if ((*size = model->dims.context) < parts && !model->dims.rope)
        return "context";
    for (int32_t i = 0; i < plan->ntiles; i++)
        if ((*size = plan->tiles[i].rows) < parts)
            return "tile";
    return NULL;
}

static int tensor_parallel_decide(void *part, struct dsflow_plan *plan,
                                  struct dsflow_err *err)
{
    int32_t parts = plan->nparts, size, ignored;
    const char *what = unsplit(plan, parts, &size);
    char fits[128] = "1";
    size_t n = 1;

    if (what == NULL)
        return DSFLOW_OK;
    for (int32_t p = 2; p <= plan->model->dims.heads && n < 100; p++)
        if (unsplit(plan, p, &ignored) == NULL)
            n += (size_t)snprintf(fits + n, sizeof(fits) - n, ", %d", (int)p);
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "mesh", "tensor",
                        "%d: %s, %d, does not split: expected one of %s",
                        (int)parts, what, (int)size, fits);
}

static int tensor_parallel_rewrite(const void *part,
                                   const struct dsflow_plan *plan,
                                   struct dsflow_graph *in,
                                   struct dsflow_graph *out,
                                   struct dsflow_err *err)
{
    struct dsf_tensors s = { .plan = plan, .in = in, .out = out };
    uint32_t n = dsflow_graph_ntasks(in);
    int status = DSFLOW_OK;

    if (plan->nparts == 1)
        return DSFLOW_UNCHANGED;
    begin(&s);
    for (uint32_t i = 0, done = 1; i < n && status == DSFLOW_OK; i += done) {
        dsf_asked_follow(out, i);
        status = rewrite_tasks(&s, i, &done, err);
    }
    end(&s);
    return status;
}

const struct dsflow_policy dsf_policy_tensor_parallel = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "tensor_parallel",
    .summary = "heads, feed-forward and vocabulary in parts",
    .after = "recompute",
    .decide = tensor_parallel_decide,
    .rewrite = tensor_parallel_rewrite,
};
