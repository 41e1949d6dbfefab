/* offload_states.c - states of the optimizer that are kept in fewer bytes: what
 * is offloaded are those; around each update, they are cast into buffers of
 * main memory and back.
 *
 * The random numbers of the rounding are a hash of the unit, the step and the
 * place, so that replicas stay the same, and nothing depends on how ZeRO or
 * `offload.piece` cuts.
 */
#include "policies/offload_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

struct packer {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    enum dsflow_dtype dtype; /* they are kept as */
    int64_t *most;   /* by rank: numbers of its largest piece */
    uint32_t *turns; /* by rank: updates so far */
};

static void find_most(struct packer *k)
{
    for (uint32_t i = 0; i < dsflow_graph_ntasks(k->rw.in); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(k->rw.in, (dsflow_task_id){ i });
        int64_t elems;

        if (!dsf_offload_is_update(k->rw.in, t))
            continue;
        elems = dsflow_graph_data(k->rw.in, t->data[DSF_STATES_PORT])->elems;
        if (elems > k->most[t->rank])
            k->most[t->rank] = elems;
    }
}

/* The state as it is kept, under its name. */
static dsflow_data_id kept(struct packer *k,
                           const struct dsflow_data_spec *state)
{
    struct dsflow_data_spec own = *state;

    own.dtype = (uint8_t)k->dtype;
    return dsflow_rewrite_named(k->rw.out, &own, "%s", own.name);
}

/* Where it is updated: as many buffers in turn as there are for what is read
 * and written. */
static dsflow_data_id buffer(struct packer *k,
                             const struct dsflow_data_spec *state, int16_t rank)
{
    const struct dsf_offload_keys *keys = dsf_offload_keys(k->plan->job);
    uint32_t length = 1 + (uint32_t)(keys->read_ahead + keys->write_behind);
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = k->most[rank], .dtype = DSFLOW_FP32,
                    .role = DSFLOW_STATES, .home = rank, .tier = DSFLOW_HOST,
                    .unit = -1, .ring = "offload.read_ahead");

    return dsflow_rewrite_named(
        k->rw.out, &own, "fp32.%s.%u.r%d",
        k->plan->kept.v[state->kept - 1].name,
        k->turns[rank] % length, rank);
}

/* `control` where it rounds at random; NULL: what it casts stays exact. */
static void emit(struct packer *k, const struct dsflow_task_spec *update,
                 const struct dsflow_data_spec *state, dsflow_data_id in,
                 dsflow_data_id out, const dsflow_data_id *control)
{
    struct dsflow_task_spec t = *update;
    struct dsf_cast_args args = { .elems = state->elems, .at = state->at };
    dsflow_data_id data[3] = { in, out };

    t.op = &dsf_op_cast;
    t.args = &args;
    t.fresh = t.without = 0;
    t.data = data;
    t.ndata = 2;
    if (control != NULL) {
        args.rounding = DSF_ROUND_STOCHASTIC;
        args.stream = state->stream;
        data[t.ndata++] = *control;
    }
    dsflow_graph_add_task(k->rw.out, &t);
}

static void update(struct packer *k, const struct dsflow_task_spec *task)
{
    struct dsflow_task_spec t = *task;
    const struct dsflow_data_spec *state;
    dsflow_data_id *data = dsf_xcopy(t.data, t.ndata, sizeof(*data));

    t.data = data;
    for (unsigned p = 0; p < DSF_STATES_PORT; p++)
        data[p] = dsflow_rewrite_data(&k->rw, task->data[p]);
    for (unsigned p = DSF_STATES_PORT; p < t.ndata; p++) {
        state = dsflow_graph_data(k->rw.in, task->data[p]);
        data[p] = buffer(k, state, t.rank);
        emit(k, task, state, kept(k, state), t.data[p], NULL);
    }
    dsflow_graph_add_task(k->rw.out, &t);
    for (unsigned p = DSF_STATES_PORT; p < t.ndata; p++) {
        state = dsflow_graph_data(k->rw.in, task->data[p]);
        emit(k, task, state, t.data[p], kept(k, state), &t.data[0]);
    }
    k->turns[t.rank]++;
    free(data);
}

struct dsflow_graph *dsf_offload_pack(const struct dsflow_plan *plan,
                                      struct dsflow_graph *in)
{
    struct packer k = {
        .rw = dsflow_rewrite_begin(in, dsflow_graph_new()),
        .plan = plan,
        .dtype = dsf_job_states(plan->job),
        .most = dsf_xcalloc((size_t)plan->nranks, sizeof(*k.most)),
        .turns = dsf_xcalloc((size_t)plan->nranks, sizeof(*k.turns)),
    };

    find_most(&k);
    for (uint32_t i = 0; i < dsflow_graph_ntasks(in); i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });

        if (dsf_offload_is_update(in, t))
            update(&k, t);
        else
            dsflow_rewrite_task(&k.rw, t);
    }
    dsflow_rewrite_end(&k.rw);
    dsflow_graph_free(in);
    free(k.most);
    free(k.turns);
    return k.rw.out;
}
