/* offload_cut.c - what tasks do with states of the optimizer that are
 * offloaded, or kept in fewer bytes: in pieces, so that the disk reads one
 * while another is updated, and the buffers into which states are cast, and
 * back, are small, however large a unit is.
 *
 * Parameters without masters are cast likewise: up to here each one has a
 * master beside it, which is there no more behind.
 *
 * The random numbers of the rounding are a hash of the unit, the step and the
 * place, so that replicas stay the same, and nothing depends on how ZeRO or
 * `offload.piece` cuts.
 */
#include "policies/offload_pieces.h"
#include "policies/offload_private.h"

#include "base/alloc.h"
#include "plan/programs.h"
#include "tasks/stream.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* What tasks on pieces leave for the blocks of each, in order. */
struct pieces {
    dsflow_data_id *id; /* NULL: it is in one piece */
    int64_t n;
};

struct cutter {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    struct dsf_cut cut;
    struct pieces *left; /* by data of `in` */
    uint32_t *copies;    /* by data: the parameters that a master is of, +1 */
};

/* Where a state is updated that is kept in fewer bytes: as many buffers in turn
 * as there are for what is read and written; on the device, one for each
 * worker. */
static dsflow_data_id buffer(struct cutter *k, const struct dsf_cut_place *at,
                             const struct dsflow_data_spec *state, int16_t rank)
{
    bool near = at->tier == DSFLOW_DEVICE;
    uint32_t length = near ? k->plan->rank_workers
                           : 1 + (uint32_t)(k->cut.keys->read_ahead +
                                            k->cut.keys->write_behind);
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = *dsf_cut_most(&k->cut, at, state, rank),
                    .dtype = DSFLOW_FP32, .role = DSFLOW_STATES, .home = rank,
                    .tier = at->tier, .unit = -1,
                    .ring = near ? "machine.workers" : "offload.read_ahead");

    return dsflow_rewrite_named(
        k->rw.out, &own, "fp32.%s%s.%u.r%d",
        near && k->cut.at.tier != DSFLOW_DEVICE ? "gpu." : "",
        k->plan->kept.v[state->kept - 1].name, at->turns[rank] % length, rank);
}

/* Numbers `own` from where they are kept into a buffer; with `control`, back,
 * rounded at random. */
static void cast(struct cutter *k, const struct dsflow_task_spec *update,
                 const struct dsflow_data_spec *own, dsflow_data_id kept,
                 dsflow_data_id buffer, const dsflow_data_id *control)
{
    const struct dsflow_data_spec *whole = dsflow_graph_data(k->rw.out, kept);
    struct dsf_cast_args args = { .elems = own->elems,
                                  .at = own->at,
                                  .packed = own->elems };
    bool part = control != NULL && own->elems < whole->elems;

    if (control == NULL) {
        args.in_at = own->at - whole->at;
    } else {
        args.out_at = own->at - whole->at;
        args.rounding = DSF_ROUND_STOCHASTIC;
        args.stream = own->stream;
    }
    dsf_add_like(k->rw.out, update, &dsf_op_cast, &args, update->rank,
                 part ? 0 : 1u << 1, control != NULL ? 3 : 2,
                 control != NULL ? (dsflow_data_id[]){ buffer, kept, *control }
                                 : (dsflow_data_id[]){ kept, buffer });
}

/* The `i`-th piece of a state, of `n`. */
static struct dsflow_data_spec piece_of(const struct cutter *k,
                                        const struct dsflow_data_spec *state,
                                        int64_t i, int64_t n)
{
    struct dsflow_data_spec own = *state;

    if (dsf_cut_is_packed(&k->cut, state) && dsf_cut_is_master(state))
        own.stream = dsf_state_stream(k->plan->job->main.seed, "params",
                                      state->unit, state->part);
    else if (dsf_cut_is_packed(&k->cut, state))
        own.dtype = (uint8_t)k->cut.dtype;
    own.at += dsf_cut_before(state, i, n);
    own.elems = dsf_cut_elems(state, i, n);
    return own;
}

/* Where that piece is between steps: by itself, or in the parameters. */
static dsflow_data_id kept_in(struct cutter *k, dsflow_data_id state,
                              const struct dsflow_data_spec *own, int64_t i,
                              int64_t n)
{
    uint32_t copy = k->cut.masters ? 0 : k->copies[state.i];

    return copy != 0
               ? dsflow_rewrite_data(&k->rw, (dsflow_data_id){ copy - 1 })
               : dsflow_rewrite_named(k->rw.out, own, n > 1 ? "%s.c%d" : "%s",
                                      own->name, (int)i);
}

/* What the task leaves for the blocks of the `i`-th piece of `n`. */
static dsflow_data_id left_of(struct cutter *k, dsflow_data_id id,
                              const struct dsflow_data_spec *state, int64_t i,
                              int64_t n)
{
    const struct dsflow_data_spec *d = dsflow_graph_data(k->rw.in, id);
    const int64_t each = state->elems / d->elems;
    struct dsflow_data_spec own = *d;
    struct pieces *left = &k->left[id.i];

    if (left->id == NULL)
        left->id = dsf_xcalloc((size_t)n, sizeof(*left->id));
    left->n = n;
    own.at += dsf_cut_before(state, i, n) / each;
    own.elems = dsf_cut_elems(state, i, n) / each;
    left->id[i] =
        dsflow_rewrite_named(k->rw.out, &own, "%s.c%d", own.name, (int)i);
    return left->id[i];
}

/* Each input is all of its pieces, in order. */
static void join(struct cutter *k, const struct dsflow_task_spec *t)
{
    dsflow_data_id *ports;
    uint32_t n = 0, at = 0;

    for (unsigned p = 0; p < t->ndata; p++) {
        const struct pieces *left = &k->left[t->data[p].i];

        n += left->id != NULL ? (uint32_t)left->n : 1;
    }
    ports = dsf_xcalloc(n, sizeof(*ports));
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct pieces *left = &k->left[t->data[p].i];

        if (left->id == NULL)
            ports[at++] = dsflow_rewrite_data(&k->rw, t->data[p]);
        for (int64_t i = 0; left->id != NULL && i < left->n; i++)
            ports[at++] = left->id[i];
    }
    dsf_add_like(k->rw.out, t, t->op, t->args, t->rank, t->fresh, n, ports);
    free(ports);
}

/* The task on the `i`-th piece of `n`, of the states that it uses. */
static void do_piece(struct cutter *k, const struct dsflow_task_spec *task,
                     const struct dsflow_data_spec *state, int64_t i, int64_t n,
                     uint32_t parts)
{
    struct dsflow_rewrite *rw = &k->rw;
    struct dsf_cut_place *at = dsf_cut_place(&k->cut, task);
    void *args = dsf_xcopy(task->args, 1, task->op->args_size);
    dsflow_data_id *ports = dsf_xcalloc(2 * task->ndata, sizeof(*ports));
    dsflow_data_id *kept = ports + task->ndata; /* what is cast */
    int64_t *gone = dsf_xcalloc(dsf_task_nports(task), sizeof(*gone));
    struct dsflow_task_spec like = *task;
    uint32_t fresh = task->fresh;
    bool casts = false;
    struct dsflow_data_spec own;

    for (unsigned p = 0; p < task->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(rw->in, task->data[p]);

        if (n > 1 && dsf_task_port(task, p)->slice == DSFLOW_BLOCKS) {
            gone[dsf_task_index(task, p)] = dsf_cut_before(state, i, n);
            ports[p] = left_of(k, task->data[p], state, i, n);
            continue;
        }
        if (d->role != DSFLOW_STATES || k->cut.uncut[task->data[p].i]) {
            ports[p] = dsflow_rewrite_data(rw, task->data[p]);
            /* The other pieces are not written here. */
            if (n > 1 && (i > 0 || d->persistent))
                fresh &= ~(1u << dsflow_task_port(task, p));
            continue;
        }
        gone[dsf_task_index(task, p)] = dsf_cut_before(state, i, n);
        own = piece_of(k, d, i, n);
        kept[p] = ports[p] = kept_in(k, task->data[p], &own, i, n);
        if (!dsf_cut_is_packed(&k->cut, d))
            continue;
        casts = true;
        ports[p] = buffer(k, at, &own, task->rank);
        cast(k, task, &own, kept[p], ports[p], NULL);
    }
    like.apart = parts;
    if (n > 1)
        task->op->slice(args, dsf_cut_before(state, i, n),
                        dsf_cut_elems(state, i, n), gone);
    dsf_add_like(rw->out, &like, task->op, args, task->rank, fresh, task->ndata,
                 ports);
    for (unsigned p = 0; p < task->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(rw->in, task->data[p]);

        if (!dsf_cut_is_packed(&k->cut, d) ||
            !(dsflow_task_access(task, p) & DSFLOW_W))
            continue;
        own = piece_of(k, d, i, n);
        cast(k, task, &own, kept[p], ports[p], &ports[0]);
    }
    at->turns[task->rank] += casts;
    free(ports);
    free(args);
    free(gone);
}

/* Does it write parameters from their master, which is not kept? */
static bool makes_copy(const struct cutter *k, const struct dsflow_task_spec *t)
{
    return !k->cut.masters && t->op == &dsf_op_cast &&
           dsf_cut_is_master(dsflow_graph_data(k->rw.in, t->data[0]));
}

static int cut_together(struct cutter *k, uint32_t first, uint32_t ntasks,
                        struct dsflow_err *err)
{
    const struct dsflow_data_spec *state =
        dsf_cut_state(&k->cut, dsf_nth_task(k->rw.in, first));
    int64_t n = dsf_cut_count(&k->cut, state);
    uint32_t *parts = dsf_xcalloc(ntasks, sizeof(*parts));
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < ntasks && n > 1; i++)
        parts[i] = dsf_offload_parts_of(k->rw.in, k->cut.uncut,
                                        dsf_nth_task(k->rw.in, first + i),
                                        first, ntasks);
    for (uint32_t i = 0; i < ntasks && status == DSFLOW_OK; i++)
        status = dsf_cut_check(&k->cut, dsf_nth_task(k->rw.in, first + i),
                               state, err);
    for (int64_t c = -1; c <= n && status == DSFLOW_OK; c++)
        for (uint32_t i = 0; i < ntasks; i++) {
            const struct dsflow_task_spec *t =
                dsf_nth_task(k->rw.in, first + i);

            if (makes_copy(k, t))
                continue;
            if (c >= 0 && c < n)
                do_piece(k, t, state, c, n, parts[i]);
            else
                dsf_offload_wait_around(&k->rw, t, parts[i], c < 0);
        }
    free(parts);
    return status;
}

/* The parameters of each master. They are kept in its place. */
static void find_copies(struct cutter *k)
{
    struct dsflow_rewrite *rw = &k->rw;
    const struct dsflow_task_spec *t;
    const struct dsflow_data_spec *d;

    k->copies =
        dsf_xcalloc((size_t)dsflow_graph_ndata(rw->in) + 1, sizeof(*k->copies));
    for (uint32_t i = 0; (t = dsf_nth_task(rw->in, i)) != NULL; i++)
        if (makes_copy(k, t))
            k->copies[t->data[0].i] = t->data[1].i + 1;
    for (uint32_t i = 0; (d = dsf_nth_data(rw->in, i)) != NULL; i++)
        if (d->role == DSFLOW_PARAMS && d->persistent && d->unit >= 0 &&
            d->kept == 0 && d->dtype == DSFLOW_BF16) {
            struct dsflow_data_spec own = *d;

            own.kept = 1 + DSF_KEPT_PARAM;
            rw->copy[i] = dsflow_graph_add_data(rw->out, &own);
            rw->copied[i] = 1;
        }
}

int dsf_offload_cut(const struct dsflow_plan *plan, struct dsflow_graph *in,
                    struct dsflow_graph *out, struct dsflow_err *err)
{
    struct cutter k = {
        .rw = dsflow_rewrite_begin(in, out),
        .plan = plan,
        .cut = dsf_cut_new(plan, in),
        .left =
            dsf_xcalloc((size_t)dsflow_graph_ndata(in) + 1, sizeof(*k.left)),
    };
    const struct dsflow_task_spec *t;
    dsflow_program prepare = DSFLOW_MAX_PROGRAMS;
    int status = DSFLOW_OK;

    if (!k.cut.masters) {
        find_copies(&k);
        dsflow_graph_find_program(in, DSF_PREPARE, &prepare);
    }
    for (uint32_t i = 0, n = 1; (t = dsf_nth_task(in, i)) != NULL &&
                                status == DSFLOW_OK;
         i += n) {
        n = dsf_cut_together(&k.cut, i);
        if (t->program == prepare)
            continue; /* without masters there is nothing to make */
        if (dsf_cut_state(&k.cut, t) == NULL && t->op->joins)
            join(&k, t);
        else if (dsf_cut_state(&k.cut, t) == NULL)
            dsflow_rewrite_task(&k.rw, t);
        else
            status = cut_together(&k, i, n, err);
    }
    dsflow_rewrite_end(&k.rw);
    dsf_cut_free(&k.cut);
    free(k.copies);
    for (uint32_t i = 0; i < dsflow_graph_ndata(in); i++)
        free(k.left[i].id);
    free(k.left);
    return status;
}
