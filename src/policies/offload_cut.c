/* offload_cut.c - tasks of offloaded states in pieces, so that the disk reads
 * one while another is updated, however large a unit is. */
#include "policies/offload_private.h"

#include "base/alloc.h"
#include "graph/task.h"

#include <stdlib.h>
#include <string.h>

bool dsf_offload_is_update(const struct dsflow_graph *g,
                           const struct dsflow_task_spec *t)
{
    return t->op->update && t->ndata > DSF_STATES_PORT;
}

/* Elements before piece `i` of `n`: whole blocks. */
static int64_t before(const struct dsflow_data_spec *d, int64_t i, int64_t n)
{
    int64_t blocks = d->elems / d->block;

    return i == n ? d->elems : blocks * i / n * d->block;
}

static int64_t count_pieces(const struct dsflow_plan *plan,
                            const struct dsflow_data_spec *d)
{
    int64_t blocks = d->elems / d->block;
    int64_t most = dsf_offload_keys(plan->job)->piece;
    int64_t n = ((int64_t)d->bytes + most - 1) / most;

    return n > blocks ? blocks : n;
}

/* The first state of the optimizer that the task uses; NULL: none. */
static const struct dsflow_data_spec *state_of(const struct dsflow_graph *g,
                                               const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(g, t->data[p]);

        if (d->role == DSFLOW_STATES && d->unit >= 0)
            return d;
    }
    return NULL;
}

/* Can it be done in pieces of what it uses? */
static int check_cut(const struct dsflow_plan *plan,
                     const struct dsflow_task_spec *t,
                     const struct dsflow_data_spec *state,
                     struct dsflow_err *err)
{
    bool cuts = t->op->slice != NULL;

    for (unsigned p = 0; p < t->ndata; p++)
        cuts = cuts && dsf_task_port(t, p)->slice != DSFLOW_BLOCKS;
    if (!cuts && count_pieces(plan, state) > 1)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "offload: task %s: it is not known how it works on "
                           "a piece of %s",
                           t->op->name, state->name);
    if (!t->op->update && dsf_job_states(plan->job) != DSFLOW_FP32)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "offload: task %s: uses %s: expected only updates "
                           "of an optimizer to use states that are packed",
                           t->op->name, state->name);
    return DSFLOW_OK;
}

static void cut_task(struct dsflow_rewrite *rw, const struct dsflow_plan *plan,
                     const struct dsflow_task_spec *task,
                     const struct dsflow_data_spec *state)
{
    int64_t n = count_pieces(plan, state);
    void *args = dsf_xcalloc(1, task->op->args_size);
    dsflow_data_id *ports = dsf_xcalloc(task->ndata, sizeof(*ports));
    int64_t *gone = dsf_xcalloc(task->ndata, sizeof(*gone));

    for (int64_t i = 0; i < n; i++) {
        int64_t from = before(state, i, n);
        int64_t elems = before(state, i + 1, n) - from;
        struct dsflow_task_spec t = *task;

        memcpy(args, task->args, task->op->args_size);
        t.args = args;
        t.data = ports;
        for (unsigned p = 0; p < t.ndata; p++) {
            struct dsflow_data_spec own =
                *dsflow_graph_data(rw->in, task->data[p]);

            ports[p] = dsflow_rewrite_data(rw, task->data[p]);
            if (n == 1 || own.role != DSFLOW_STATES)
                continue;
            gone[p] = from;
            own.at += from;
            own.elems = elems;
            ports[p] = dsflow_rewrite_named(rw->out, &own, "%s.c%d", own.name,
                                            (int)i);
        }
        if (n > 1)
            task->op->slice(args, from, elems, gone);
        dsflow_graph_add_task(rw->out, &t);
    }
    free(ports);
    free(args);
    free(gone);
}

int dsf_offload_cut(const struct dsflow_plan *plan, struct dsflow_graph *in,
                    struct dsflow_graph *out, struct dsflow_err *err)
{
    struct dsflow_rewrite rw = dsflow_rewrite_begin(in, out);
    bool away = dsf_offload_keys(plan->job)->home[DSFLOW_STATES] !=
                DSFLOW_DEVICE;
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < dsflow_graph_ntasks(in) && status == 0; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });
        const struct dsflow_data_spec *state = away ? state_of(in, t) : NULL;

        if (state == NULL) {
            dsflow_rewrite_task(&rw, t);
            continue;
        }
        status = check_cut(plan, t, state, err);
        if (status == DSFLOW_OK)
            cut_task(&rw, plan, t, state);
    }
    dsflow_rewrite_end(&rw);
    return status;
}
