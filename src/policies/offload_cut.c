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
#include "policies/offload_private.h"

#include "base/alloc.h"
#include "plan/programs.h"
#include "tasks/stream.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

struct pieces;

/* Where states are updated. */
struct cut_place {
    enum dsflow_tier tier;
    int64_t *most;   /* by rank and state: elements of the largest piece */
    uint32_t *turns; /* by rank: updates of pieces so far */
};

struct cutter {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    const struct dsf_offload_keys *keys;
    enum dsflow_dtype dtype; /* that states are kept as */
    struct cut_place at;     /* where they are updated, … */
    struct cut_place near; /* … and by what a GPU does wherever they are kept */
    bool masters;            /* of parameters are kept; else, … */
    uint32_t *copies; /* … by data: the parameters that a master is of, +1 */
    struct pieces *left; /* by data of `in` */
    uint8_t *uncut;      /* by data of `in`: states that stay whole */
};

/* What tasks on pieces leave for the blocks of each, in order. */
struct pieces {
    dsflow_data_id *id; /* NULL: it is in one piece */
    int64_t n;
};

static bool is_master(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_STATES && d->kept == 1 + DSF_KEPT_PARAM;
}

/* Is it kept in fewer bytes than it is updated in? */
static bool is_packed(const struct cutter *k, const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_STATES &&
           (is_master(d) ? !k->masters : k->dtype != DSFLOW_FP32);
}

/* Elements before piece `i` of `n`: whole blocks. */
static int64_t before(const struct dsflow_data_spec *d, int64_t i, int64_t n)
{
    int64_t blocks = d->elems / d->block;

    return i == n ? d->elems : blocks * i / n * d->block;
}

static int64_t count_pieces(const struct cutter *k,
                            const struct dsflow_data_spec *d)
{
    /* On the device a piece stays in the caches until it is cast back. */
    const int64_t in_cache = 4 << 20;
    int64_t blocks = d->elems / d->block, most = k->keys->piece;
    int64_t n;

    if (k->at.tier == DSFLOW_DEVICE && most > in_cache)
        most = in_cache;
    n = ((int64_t)d->bytes + most - 1) / most;
    return n > blocks ? blocks : n;
}

/* Are tasks of states done in pieces? */
static bool is_cut(const struct cutter *k)
{
    return k->at.tier != DSFLOW_DEVICE || k->dtype != DSFLOW_FP32 ||
           !k->masters;
}

static bool is_state(const struct dsflow_data_spec *d)
{
    return d->role == DSFLOW_STATES && d->unit >= 0;
}

/* The first state of the optimizer that the task uses a piece of; NULL: none.
 */
static const struct dsflow_data_spec *state_of(const struct cutter *k,
                                               const struct dsflow_task_spec *t)
{
    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(k->rw.in, t->data[p]);

        if (is_state(d) && !k->uncut[t->data[p].i])
            return is_cut(k) ? d : NULL;
    }
    return NULL;
}

/* The elements of the smallest state of the task that it can be cut by. */
static int64_t smallest_state(const struct cutter *k,
                              const struct dsflow_task_spec *t)
{
    int64_t least = INT64_MAX;

    for (unsigned p = 0; p < t->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(k->rw.in, t->data[p]);

        if (is_state(d) && dsf_task_port(t, p)->slice && d->elems < least)
            least = d->elems;
    }
    return least;
}

/* What a task that can be cut needs all of, however it is cut; and what it has
 * all of where it works on a shard: of that, pieces would be other ones. What
 * is one block is never cut, and another state may be of a part of the unit. */
static void find_uncut(struct cutter *k)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(k->rw.in, i)) != NULL; i++) {
        const int64_t least = t->op->slice != NULL ? smallest_state(k, t) : 0;

        for (unsigned p = 0; p < t->ndata && t->op->slice != NULL; p++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(k->rw.in, t->data[p]);

            if (is_state(d) && (!dsf_task_port(t, p)->slice ||
                                (d->elems > least && d->elems > d->block)))
                k->uncut[t->data[p].i] = 1;
        }
    }
}

/* Can it be done in pieces of what it uses? */
static int check_cut(const struct cutter *k, const struct dsflow_task_spec *t,
                     const struct dsflow_data_spec *state,
                     struct dsflow_err *err)
{
    bool cuts = t->op->slice != NULL, packed = false;

    for (unsigned p = 0; p < t->ndata; p++) {
        cuts = cuts && (dsf_task_port(t, p)->slice != DSFLOW_BLOCKS ||
                        dsflow_task_access(t, p) == DSFLOW_W);
        packed =
            packed || (dsflow_task_access(t, p) & DSFLOW_W &&
                       is_packed(k, dsflow_graph_data(k->rw.in, t->data[p])));
    }
    if (!cuts && count_pieces(k, state) > 1)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "offload: task %s: it is not known how it works on "
                           "a piece of %s",
                           t->op->name, state->name);
    if (!t->op->update && packed)
        return dsflow_fail(err, DSFLOW_ENOSYS,
                           "offload: task %s: writes %s: expected only "
                           "updates of an optimizer to write what is packed",
                           t->op->name, state->name);
    return DSFLOW_OK;
}

/* Where the task, and those that have its pieces with it, are done. */
static struct cut_place *place_of(struct cutter *k,
                                  const struct dsflow_task_spec *t)
{
    return k->at.tier != DSFLOW_DEVICE && dsf_offload_is_near(k->plan, t)
               ? &k->near
               : &k->at;
}

static int64_t *most_of(const struct cutter *k, const struct cut_place *at,
                        const struct dsflow_data_spec *state, int32_t rank)
{
    return &at->most[(size_t)rank * k->plan->kept.n + state->kept - 1];
}

static void find_most(struct cutter *k)
{
    const struct dsflow_task_spec *t;

    for (uint32_t i = 0; (t = dsf_nth_task(k->rw.in, i)) != NULL; i++) {
        const struct dsflow_data_spec *state = state_of(k, t);
        const int64_t n = state != NULL ? count_pieces(k, state) : 0;

        for (unsigned p = 0; p < t->ndata && n > 0; p++) {
            const struct dsflow_data_spec *d =
                dsflow_graph_data(k->rw.in, t->data[p]);
            int64_t *most;

            if (!is_packed(k, d) || k->uncut[t->data[p].i])
                continue;
            most = most_of(k, place_of(k, t), d, t->rank);
            for (int64_t c = 0; c < n; c++)
                if (before(d, c + 1, n) - before(d, c, n) > *most)
                    *most = before(d, c + 1, n) - before(d, c, n);
        }
    }
}

/* Where a state is updated that is kept in fewer bytes: as many buffers in turn
 * as there are for what is read and written; on the device, one for each
 * worker. */
static dsflow_data_id buffer(struct cutter *k, const struct cut_place *at,
                             const struct dsflow_data_spec *state, int16_t rank)
{
    bool near = at->tier == DSFLOW_DEVICE;
    uint32_t length =
        near ? k->plan->rank_workers
             : 1 + (uint32_t)(k->keys->read_ahead + k->keys->write_behind);
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = *most_of(k, at, state, rank), .dtype = DSFLOW_FP32,
                    .role = DSFLOW_STATES, .home = rank, .tier = at->tier,
                    .unit = -1,
                    .ring = near ? "machine.workers" : "offload.read_ahead");

    return dsflow_rewrite_named(
        k->rw.out, &own, "fp32.%s%s.%u.r%d",
        near && k->at.tier != DSFLOW_DEVICE ? "gpu." : "",
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

    if (is_packed(k, state) && is_master(state))
        own.stream = dsf_state_stream(k->plan->job->main.seed, "params",
                                      state->unit, state->part);
    else if (is_packed(k, state))
        own.dtype = (uint8_t)k->dtype;
    own.at += before(state, i, n);
    own.elems = before(state, i + 1, n) - before(state, i, n);
    return own;
}

/* Where that piece is between steps: by itself, or in the parameters. */
static dsflow_data_id kept_in(struct cutter *k, dsflow_data_id state,
                              const struct dsflow_data_spec *own, int64_t i,
                              int64_t n)
{
    uint32_t copy = k->masters ? 0 : k->copies[state.i];

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
    own.at += before(state, i, n) / each;
    own.elems = (before(state, i + 1, n) - before(state, i, n)) / each;
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
    struct cut_place *at = place_of(k, task);
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
            gone[dsf_task_index(task, p)] = before(state, i, n);
            ports[p] = left_of(k, task->data[p], state, i, n);
            continue;
        }
        if (d->role != DSFLOW_STATES || k->uncut[task->data[p].i]) {
            ports[p] = dsflow_rewrite_data(rw, task->data[p]);
            /* The other pieces are not written here. */
            if (n > 1 && (i > 0 || d->persistent))
                fresh &= ~(1u << dsflow_task_port(task, p));
            continue;
        }
        gone[dsf_task_index(task, p)] = before(state, i, n);
        own = piece_of(k, d, i, n);
        kept[p] = ports[p] = kept_in(k, task->data[p], &own, i, n);
        if (!is_packed(k, d))
            continue;
        casts = true;
        ports[p] = buffer(k, at, &own, task->rank);
        cast(k, task, &own, kept[p], ports[p], NULL);
    }
    like.apart = parts;
    if (n > 1)
        task->op->slice(args, before(state, i, n),
                        before(state, i + 1, n) - before(state, i, n), gone);
    dsf_add_like(rw->out, &like, task->op, args, task->rank, fresh, task->ndata,
                 ports);
    for (unsigned p = 0; p < task->ndata; p++) {
        const struct dsflow_data_spec *d =
            dsflow_graph_data(rw->in, task->data[p]);

        if (!is_packed(k, d) || !(dsflow_task_access(task, p) & DSFLOW_W))
            continue;
        own = piece_of(k, d, i, n);
        cast(k, task, &own, kept[p], ports[p], &ports[0]);
    }
    at->turns[task->rank] += casts;
    free(ports);
    free(args);
    free(gone);
}

/* How many tasks from the `i`-th on use the same pieces: what follows an update
 * has each one while it is there. */
static uint32_t count_together(const struct cutter *k, uint32_t i)
{
    const struct dsflow_task_spec *t = dsf_nth_task(k->rw.in, i), *next;
    const struct dsflow_data_spec *a = state_of(k, t), *b;
    uint32_t n = 1;

    while (a != NULL && (next = dsf_nth_task(k->rw.in, i + n)) != NULL &&
           (b = state_of(k, next)) != NULL && b->unit == a->unit &&
           b->part == a->part && b->home == a->home && b->at == a->at &&
           b->elems == a->elems && next->program == t->program)
        n++;
    return n;
}

/* Does it write parameters from their master, which is not kept? */
static bool makes_copy(const struct cutter *k, const struct dsflow_task_spec *t)
{
    return !k->masters && t->op == &dsf_op_cast &&
           is_master(dsflow_graph_data(k->rw.in, t->data[0]));
}

static int cut_together(struct cutter *k, uint32_t first, uint32_t ntasks,
                        struct dsflow_err *err)
{
    const struct dsflow_data_spec *state =
        state_of(k, dsf_nth_task(k->rw.in, first));
    int64_t n = count_pieces(k, state);
    uint32_t *parts = dsf_xcalloc(ntasks, sizeof(*parts));
    int status = DSFLOW_OK;

    for (uint32_t i = 0; i < ntasks && n > 1; i++)
        parts[i] = dsf_offload_parts_of(k->rw.in, k->uncut,
                                        dsf_nth_task(k->rw.in, first + i),
                                        first, ntasks);
    for (uint32_t i = 0; i < ntasks && status == DSFLOW_OK; i++)
        status =
            check_cut(k, dsf_nth_task(k->rw.in, first + i), state, err);
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

static struct cut_place new_place(const struct dsflow_plan *plan,
                                  enum dsflow_tier tier)
{
    return (struct cut_place){
        .tier = tier,
        .most =
            dsf_xcalloc((size_t)plan->nranks * plan->kept.n, sizeof(int64_t)),
        .turns = dsf_xcalloc((size_t)plan->nranks, sizeof(uint32_t)),
    };
}

static void free_place(struct cut_place *at)
{
    free(at->most);
    free(at->turns);
}

int dsf_offload_cut(const struct dsflow_plan *plan, struct dsflow_graph *in,
                    struct dsflow_graph *out, struct dsflow_err *err)
{
    const struct dsf_offload_keys *keys = dsf_offload_keys(plan->job);
    struct cutter k = {
        .rw = dsflow_rewrite_begin(in, out),
        .plan = plan,
        .keys = keys,
        .dtype = dsf_job_states(plan->job),
        .at = new_place(plan, keys->home[DSFLOW_STATES] == DSFLOW_DEVICE
                                  ? DSFLOW_DEVICE
                                  : DSFLOW_HOST),
        .near = new_place(plan, DSFLOW_DEVICE),
        .masters = dsf_keeps_masters(plan->job),
        .left =
            dsf_xcalloc((size_t)dsflow_graph_ndata(in) + 1, sizeof(*k.left)),
        .uncut = dsf_xcalloc((size_t)dsflow_graph_ndata(in) + 1, 1),
    };
    const struct dsflow_task_spec *t;
    dsflow_program prepare = DSFLOW_MAX_PROGRAMS;
    int status = DSFLOW_OK;

    if (!k.masters) {
        find_copies(&k);
        dsflow_graph_find_program(in, DSF_PREPARE, &prepare);
    }
    find_uncut(&k);
    find_most(&k);
    for (uint32_t i = 0, n = 1; (t = dsf_nth_task(in, i)) != NULL &&
                                status == DSFLOW_OK;
         i += n) {
        n = count_together(&k, i);
        if (t->program == prepare)
            continue; /* without masters there is nothing to make */
        if (state_of(&k, t) == NULL && t->op->joins)
            join(&k, t);
        else if (state_of(&k, t) == NULL)
            dsflow_rewrite_task(&k.rw, t);
        else
            status = cut_together(&k, i, n, err);
    }
    dsflow_rewrite_end(&k.rw);
    free_place(&k.at);
    free_place(&k.near);
    free(k.copies);
    for (uint32_t i = 0; i < dsflow_graph_ndata(in); i++)
        free(k.left[i].id);
    free(k.left);
    free(k.uncut);
    return status;
}
