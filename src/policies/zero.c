/* zero.c - what data-parallel ranks share out (ZeRO: Rajbhandari et al. 2020).
 *
 * Before this policy a unit exists once, at the first data rank of its stage,
 * and its gradients once for each group. Here each data rank gets what it
 * needs:
 *
 *   stage   parameters      gradients               states of the optimizer
 *   0       whole           whole                   whole
 *   1       whole           whole                   shards
 *   2       whole           shards (whole passing)  shards
 *   3       shards          shards (whole passing)  shards
 *
 * A shard is whole blocks of its unit. Sums over the data ranks are a split on
 * each rank and a reduce_scatter on the owner of each shard, in the tree that
 * the groups were summed in. With stage 3, a gather stands before the first use
 * of a unit in each pass; its buffer is one of a ring. Nothing here depends on
 * what else the graph has.
 */
#include "policies/keys.h"

#include "base/alloc.h"
#include <dsflow/rewrite.h>
#include "policies/ring_class.h"
#include "tasks/components.h"
#include "tasks/tasks.h"

#include <stdlib.h>
#include <string.h>

/* Whole gradients and pieces pass by in a ring of as many layers. */
enum { PASSING = 2 };

/* A shard of nothing: units may have fewer blocks than there are ranks. */
static const dsflow_data_id none = { UINT32_MAX };

/* A piece of data of one unit as the data ranks have it. */
struct spread {
    dsflow_data_id *id; /* [data]; NULL: it is as it was */
    bool whole;         /* each has all of it, and not only its shard */
};

/* Buffers of gathered units of one segment, on one rank, in one pass. */
struct ring {
    uint32_t *unit; /* [length]: data of `in` that stands there, +1 */
    uint32_t next;
};

struct zero {
    struct dsflow_rewrite rw;
    const struct dsflow_plan *plan;
    const struct dsf_zero_keys *keys;
    int32_t data, stage, length; /* ranks; ZeRO's stage; of the rings */
    struct spread *spread;       /* by data of `in` */
    struct ring *rings;          /* by rank, chunk, pass and segment */
    int32_t chunks;              /* of a stage */
    uint8_t *kept;               /* by unit, part and rank: gathered already */
    bool passing;                /* gradients are complete layer by layer */
    dsflow_data_id *leaders;     /* [data]: gradients that are being summed */
    int32_t nleaders;
    dsflow_program program;
};

static const struct dsflow_data_spec *spec_of(const struct zero *z,
                                              dsflow_data_id id)
{
    return dsflow_graph_data(z->rw.in, id);
}

/* The first element of shard `d`. Units that are not cut go round the ranks,
 * each round one rank later: those of a layer are then not always the same
 * rank's. */
static int64_t cut(const struct zero *z, const struct dsflow_data_spec *spec,
                   int32_t d)
{
    int64_t blocks = spec->elems / spec->block;

    if (blocks == 1)
        return d > (spec->unit + spec->unit / z->data) % z->data ? spec->block
                                                                 : 0;
    return blocks * d / z->data * spec->block;
}

static int64_t shard_elems(const struct zero *z,
                           const struct dsflow_data_spec *spec, int32_t d)
{
    return cut(z, spec, d + 1) - cut(z, spec, d);
}

/* The rank beside `rank` at data coordinate `d`. */
static int32_t beside(const struct zero *z, int32_t rank, int32_t d)
{
    return dsf_mesh_peer(&z->plan->mesh, rank, DSF_AXIS_DATA, d);
}

static int32_t replica_of(const struct zero *z, int32_t rank)
{
    return dsf_mesh_at(&z->plan->mesh, rank, DSF_AXIS_DATA);
}

static const struct dsf_unit *unit_of(const struct zero *z,
                                      const struct dsflow_data_spec *spec)
{
    return &z->plan->model->units[spec->unit];
}

/* Is it one of the units that every block has, with the same sizes? What tensor
 * ranks share of one is small, and has buffers of its own. */
static bool in_block(const struct zero *z, const struct dsflow_data_spec *spec)
{
    enum dsf_segment s = unit_of(z, spec)->segment;

    return (s == DSF_QKV || s == DSF_OUT || s == DSF_MLP) &&
           spec->part < z->plan->nparts;
}

/* Units that can share buffers have the same text here: the rest of the name of
 * a buffer. */
struct text {
    char s[96];
};

static struct text class_of(const struct zero *z,
                            const struct dsflow_data_spec *spec)
{
    static const char *const segments[] = {
        [DSF_QKV] = "qkv", [DSF_OUT] = "out", [DSF_MLP] = "mlp"
    };
    const struct dsf_unit *unit = unit_of(z, spec);
    struct text text;

    if (in_block(z, spec))
        snprintf(text.s, sizeof(text.s), "%s.z%lld.k%d",
                 segments[unit->segment], (long long)spec->elems,
                 unit->layer % PASSING);
    else
        snprintf(text.s, sizeof(text.s), "%s.p%d", unit->name, spec->part);
    return text;
}

static void emit(struct zero *z, const struct dsflow_task_spec *like,
                 const struct dsflow_op *op, const void *args, int32_t rank,
                 unsigned fresh, unsigned n, const dsflow_data_id *data)
{
    struct dsflow_task_spec t = *like;

    t.op = op;
    t.args = args;
    t.rank = (int16_t)rank;
    t.fresh = fresh;
    t.ndata = n;
    t.data = data;
    dsflow_graph_add_task(z->rw.out, &t);
}

static dsflow_data_id *new_spread(struct zero *z, dsflow_data_id id, bool whole)
{
    struct spread *s = &z->spread[id.i];

    if (s->id == NULL)
        s->id = dsf_xcalloc((size_t)z->data, sizeof(*s->id));
    for (int32_t d = 0; d < z->data; d++)
        s->id[d] = none;
    s->whole = whole;
    return s->id;
}

/* Parameters and states: replicas, or shards. */
static const struct spread *spread_of(struct zero *z, dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = spec_of(z, id);
    bool whole = z->stage < (spec->role == DSFLOW_PARAMS ? 3 : 1);
    dsflow_data_id *ids;

    if (z->spread[id.i].id != NULL)
        return &z->spread[id.i];
    ids = new_spread(z, id, whole);
    for (int32_t d = 0; d < z->data; d++) {
        struct dsflow_data_spec own = *spec;

        own.home = (int16_t)beside(z, spec->home, d);
        if (!whole) {
            own.at = spec->at + cut(z, spec, d);
            own.elems = shard_elems(z, spec, d);
        }
        if (own.elems > 0)
            ids[d] = dsflow_rewrite_named(
                z->rw.out, &own, whole ? d == 0 ? "%s" : "%s.d%d" : "%s.s%d",
                spec->name, d);
    }
    return &z->spread[id.i];
}

/* Where shard `d` of a spread piece of data begins, in what that rank has. */
static int64_t shard_at(const struct zero *z, dsflow_data_id id, int32_t d)
{
    return z->spread[id.i].whole ? cut(z, spec_of(z, id), d) : 0;
}

/* A piece that rank `from` offers to others. */
static dsflow_data_id piece(struct zero *z, const struct dsflow_data_spec *spec,
                            int32_t from, int32_t d)
{
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = shard_elems(z, spec, d), .dtype = spec->dtype,
                    .role = DSFLOW_BUFFERS, .home = (int16_t)from, .unit = -1);

    return dsflow_rewrite_named(z->rw.out, &own, "piece.%s.r%d.s%d",
                                class_of(z, spec).s, from, d);
}

/* Fill `whole` on `rank` from ids[d][at[d] ..], d being each shard but `but`.
 */
static void gather(struct zero *z, const struct dsflow_task_spec *like,
                   const struct dsflow_data_spec *spec, int32_t rank,
                   dsflow_data_id whole, bool fresh, int32_t but,
                   const dsflow_data_id *ids)
{
    dsflow_data_id ports[DSF_MAX_PIECES + 1] = { whole };
    struct dsf_move_args args = { .self = -1 };
    unsigned n = 0;

    for (int32_t d = 0; d < z->data; d++) {
        if (d != but && shard_elems(z, spec, d) > 0) {
            args.elems[n] = shard_elems(z, spec, d);
            args.at[n] = cut(z, spec, d);
            ports[++n] = ids[d];
        }
        if (n == DSF_MAX_PIECES || (n > 0 && d + 1 == z->data)) {
            emit(z, like, &dsf_op_gather, &args, rank, fresh, n + 1, ports);
            memset(&args, 0, sizeof(args));
            args.self = -1;
            fresh = false;
            n = 0;
        }
    }
}

/* The whole unit on the rank of `t`, gathered unless it still stands. */
static dsflow_data_id gathered(struct zero *z, dsflow_data_id id,
                               const struct dsflow_task_spec *t)
{
    const struct dsflow_plan *plan = z->plan;
    const struct dsflow_data_spec *spec = spec_of(z, id);
    const struct spread *s = spread_of(z, id);
    struct dsflow_data_spec own =
        DSFLOW_DATA(.elems = spec->elems, .dtype = spec->dtype,
                    .role = DSFLOW_PARAMS, .home = t->rank, .unit = -1);
    int32_t rank = t->rank;
    dsflow_data_id whole;

    if (!in_block(z, spec) || (int64_t)spec->bytes <= z->keys->keep) {
        size_t at = ((size_t)spec->unit * (size_t)(plan->nparts + 1) +
                     (size_t)spec->part) *
                        (size_t)plan->nranks +
                    (size_t)rank;

        whole = dsflow_rewrite_named(z->rw.out, &own, "whole.%s.r%d",
                                     spec->name, rank);
        if (z->kept[at])
            return whole;
        z->kept[at] = 1;
    } else {
        bool back = t->pass == DSFLOW_BACKWARD;
        int32_t chunk = dsf_plan_chunk(plan, t->layer) / plan->nstages;
        struct ring *ring =
            &z->rings[((rank * z->chunks + chunk) * 2 + back) * 3 +
                      (int)(unit_of(z, spec)->segment - DSF_QKV)];
        uint32_t at = 0;

        while (at < (uint32_t)z->length && ring->unit[at] != id.i + 1)
            at++;
        if (at == (uint32_t)z->length)
            at = ring->next++ % (uint32_t)z->length;
        own.ring = "zero.prefetch";
        whole = dsflow_rewrite_named(
            z->rw.out, &own, "whole.%s.z%lld.c%d.%s%u.r%d",
            unit_of(z, spec)->segment == DSF_QKV   ? "qkv"
            : unit_of(z, spec)->segment == DSF_OUT ? "out"
                                                   : "mlp",
            (long long)spec->elems, chunk, back ? "b" : "f", at, rank);
        if (ring->unit[at] == id.i + 1)
            return whole;
        ring->unit[at] = id.i + 1;
    }
    gather(z, t, spec, rank, whole, true, -1, s->id);
    return whole;
}

/* What was gathered is old: the parameters have changed, or may have. */
static void forget(struct zero *z)
{
    const struct dsflow_plan *plan = z->plan;

    for (int32_t i = 0; i < plan->nranks * z->chunks * 6; i++)
        memset(z->rings[i].unit, 0, (size_t)z->length * sizeof(uint32_t));
    memset(z->kept, 0,
           plan->model->nunits * (size_t)(plan->nparts + 1) *
               (size_t)plan->nranks);
}

/* A whole gradient; of the layers of blocks they pass through a ring where each
 * is complete before the next but one. */
static dsflow_data_id gradient(struct zero *z, dsflow_data_id id)
{
    const struct dsflow_data_spec *spec = spec_of(z, id);
    struct dsflow_data_spec own = *spec;

    if (z->stage < 2 || !z->passing || !in_block(z, spec) ||
        spec->ring_class == 0)
        return dsflow_rewrite_data(&z->rw, id);
    if (!z->rw.copied[id.i]) {
        own.unit = -1;
        z->rw.copy[id.i] = dsflow_rewrite_named(
            z->rw.out, &own, "%s.%s.r%d", dsf_ring_name(spec->ring_class).s,
            class_of(z, spec).s, spec->home);
        z->rw.copied[id.i] = 1;
    }
    return z->rw.copy[id.i];
}

static dsflow_data_id port(struct zero *z, const struct dsflow_task_spec *t,
                           unsigned i)
{
    const struct dsflow_data_spec *spec = spec_of(z, t->data[i]);

    if (spec->unit < 0)
        return dsflow_rewrite_data(&z->rw, t->data[i]);
    if (spec->role == DSFLOW_GRADS)
        return gradient(z, t->data[i]);
    if (z->stage == 3)
        return gathered(z, t->data[i], t);
    return spread_of(z, t->data[i])->id[replica_of(z, t->rank)];
}

static void plain(struct zero *z, const struct dsflow_task_spec *task)
{
    struct dsflow_task_spec t = *task;
    dsflow_data_id *ports = dsf_xcopy(t.data, t.ndata, sizeof(*ports));

    for (unsigned i = 0; i < t.ndata; i++)
        ports[i] = port(z, task, i);
    t.data = ports;
    dsflow_graph_add_task(z->rw.out, &t);
    free(ports);
}

/* A leaf of a sum: elements from `at` on. */
struct leaf {
    dsflow_data_id id;
    int64_t at;
};

/* Sum `n` leaves, 2^k consecutive ones at a time, until one task can do the
 * rest: the tree is the same. */
static int32_t fold(struct zero *z, const struct dsflow_task_spec *like,
                    const struct dsflow_data_spec *spec, int32_t owner,
                    int32_t rank, struct leaf *leaves, int32_t n, int level)
{
    enum { EACH = 4 };
    int32_t out = 0;

    for (int32_t i = 0; i < n; i += EACH, out++) {
        struct dsf_move_args args = { .self = -1 };
        dsflow_data_id ports[DSF_MAX_PIECES + 1];
        int32_t k = n - i < EACH ? n - i : EACH;
        struct dsflow_data_spec own =
            DSFLOW_DATA(.elems = shard_elems(z, spec, owner),
                        .dtype = spec->dtype, .role = DSFLOW_BUFFERS,
                        .home = (int16_t)rank, .unit = -1);

        ports[0] =
            dsflow_rewrite_named(z->rw.out, &own, "partial%d.%d.%s.r%d.s%d",
                                 level, out, class_of(z, spec).s, rank, owner);
        args.elems[0] = shard_elems(z, spec, owner);
        for (int32_t j = 0; j < k; j++) {
            ports[j + 1] = leaves[i + j].id;
            args.from[j] = leaves[i + j].at;
        }
        emit(z, like, &dsf_op_reduce_scatter, &args, rank, 1, (unsigned)k + 1,
             ports);
        leaves[out] = (struct leaf){ ports[0], 0 };
    }
    return out;
}

/* Shard `owner` of the sum of the leaders: into the owner's own gradient, or
 * into a shard of its own. */
static void reduce(struct zero *z, const struct dsflow_task_spec *like,
                   const struct dsflow_data_spec *spec, int32_t owner,
                   dsflow_data_id into, int64_t at, struct leaf *leaves)
{
    int32_t rank = beside(z, spec->home, owner), n = z->data, self = -1;
    struct dsf_move_args args = { .self = -1 };
    dsflow_data_id ports[DSF_MAX_PIECES + 1] = { into };
    unsigned nports = 1;

    for (int level = 0; n > DSF_MAX_PIECES; level++)
        n = fold(z, like, spec, owner, rank, leaves, n, level);
    args.elems[0] = shard_elems(z, spec, owner);
    args.at[0] = at;
    for (int32_t i = 0; i < n; i++) {
        if (leaves[i].id.i == into.i) {
            self = i;
            continue;
        }
        args.from[nports - 1] = leaves[i].at;
        ports[nports++] = leaves[i].id;
    }
    args.self = self;
    emit(z, like, &dsf_op_reduce_scatter, &args, rank, z->stage >= 2, nports,
         ports);
}

/* On each data rank, the pieces of its gradient that the others own. */
static void offer(struct zero *z, const struct dsflow_task_spec *like,
                  const struct dsflow_data_spec *spec, int32_t d,
                  dsflow_data_id whole)
{
    struct dsf_move_args args = { .self = -1 };
    dsflow_data_id ports[DSF_MAX_PIECES + 1] = { whole };
    int32_t rank = beside(z, spec->home, d);
    unsigned n = 0;

    for (int32_t owner = 0; owner < z->data; owner++) {
        if (owner != d && shard_elems(z, spec, owner) > 0) {
            args.elems[n] = shard_elems(z, spec, owner);
            args.at[n] = cut(z, spec, owner);
            ports[++n] = piece(z, spec, rank, owner);
        }
        if (n == DSF_MAX_PIECES || (n > 0 && owner + 1 == z->data)) {
            emit(z, like, &dsf_op_split, &args, rank, 0, n + 1, ports);
            n = 0;
        }
    }
}

/* All gradients of a unit are known: sum them over the data ranks. */
static void reduce_scatter(struct zero *z, const struct dsflow_task_spec *like)
{
    dsflow_data_id first = z->leaders[0];
    const struct dsflow_data_spec *spec = spec_of(z, first);
    struct leaf *leaves = dsf_xcalloc((size_t)z->data, sizeof(*leaves));
    dsflow_data_id *ids;

    for (int32_t d = 0; d < z->data; d++)
        offer(z, like, spec, d, gradient(z, z->leaders[d]));
    ids = new_spread(z, first, z->stage < 2);
    for (int32_t owner = 0; owner < z->data; owner++) {
        dsflow_data_id own = gradient(z, z->leaders[owner]);
        struct dsflow_data_spec shard = *spec;

        if (z->stage < 2)
            ids[owner] = own;
        if (shard_elems(z, spec, owner) == 0)
            continue;
        for (int32_t d = 0; d < z->data; d++)
            leaves[d] =
                d == owner
                    ? (struct leaf){ own, cut(z, spec, owner) }
                    : (struct leaf){
                          piece(z, spec, beside(z, spec->home, d), owner), 0
                      };
        shard.home = (int16_t)beside(z, spec->home, owner);
        shard.at = spec->at + cut(z, spec, owner);
        shard.elems = shard_elems(z, spec, owner);
        if (z->stage >= 2)
            ids[owner] = dsflow_rewrite_named(z->rw.out, &shard, "%s.s%d",
                                              spec->name, owner);
        reduce(z, like, spec, owner, ids[owner],
               z->stage < 2 ? cut(z, spec, owner) : 0, leaves);
    }
    free(leaves);
    z->nleaders = 0;
}

/* into += from, shard by shard: `from` has been summed over the data ranks. */
static void add_shards(struct zero *z, const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *spec = spec_of(z, t->data[0]);
    const struct spread *from = &z->spread[t->data[1].i];
    dsflow_data_id *into = new_spread(z, t->data[0], false);

    for (int32_t d = 0; d < z->data; d++) {
        int64_t elems = shard_elems(z, spec, d);
        struct dsflow_data_spec own = *spec;
        int32_t rank = beside(z, spec->home, d);

        if (elems == 0)
            continue;
        own.home = (int16_t)rank;
        own.at = spec->at + cut(z, spec, d);
        own.elems = elems;
        into[d] =
            dsflow_rewrite_named(z->rw.out, &own, "%s.s%d", spec->name, d);
        emit(z, t, &dsf_op_add,
             &(struct dsf_add_args){ elems, shard_at(z, t->data[1], d) }, rank,
             t->fresh, 2, (dsflow_data_id[]){ into[d], from->id[d] });
    }
}

/* A sum of gradients: of groups of one data rank, which stays; of several data
 * ranks, which is done for all of them when the last one is named; or of what
 * has been summed. */
static void add(struct zero *z, const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *into = spec_of(z, t->data[0]);
    const struct dsflow_data_spec *from = spec_of(z, t->data[1]);
    int32_t a = replica_of(z, into->home), b = replica_of(z, from->home);

    if (z->spread[t->data[1].i].id != NULL) {
        add_shards(z, t);
    } else if (a == b) {
        plain(z, t);
    } else {
        z->leaders[a] = t->data[0];
        z->leaders[b] = t->data[1];
        if (++z->nleaders == z->data - 1)
            reduce_scatter(z, t);
    }
}

/* The squares of each shard, where it is. */
static void square(struct zero *z, const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *spec = spec_of(z, t->data[0]);
    const struct dsflow_data_spec *out = spec_of(z, t->data[1]);
    const struct spread *in = &z->spread[t->data[0].i];
    struct dsf_square_args args = *(const struct dsf_square_args *)t->args;
    dsflow_data_id *outs = new_spread(z, t->data[1], false);

    for (int32_t d = 0; d < z->data; d++) {
        struct dsflow_data_spec own = *out;
        int32_t rank = beside(z, spec->home, d);

        args.elems = shard_elems(z, spec, d);
        args.at = shard_at(z, t->data[0], d);
        if (args.elems == 0)
            continue;
        own.home = (int16_t)rank;
        own.elems = args.elems / args.block;
        outs[d] = dsflow_rewrite_named(z->rw.out, &own, "%s.s%d", out->name, d);
        emit(z, t, t->op, &args, rank, t->fresh, 2,
             (dsflow_data_id[]){ in->id[d], outs[d] });
    }
}

/* Left to right over all shards of each input. */
static void sum_shards(struct zero *z, const struct dsflow_task_spec *t)
{
    dsflow_data_id ports[DSF_MAX_PIECES + 1];
    unsigned n = 1, fresh = t->fresh;

    ports[0] = dsflow_rewrite_data(&z->rw, t->data[0]);
    for (unsigned i = 1; i < t->ndata; i++) {
        const struct spread *s = &z->spread[t->data[i].i];

        for (int32_t d = 0; d < (s->id == NULL ? 1 : z->data); d++) {
            if (s->id != NULL && s->id[d].i == none.i)
                continue;
            if (n == DSF_MAX_PIECES + 1) {
                emit(z, t, t->op, t->args, t->rank, fresh, n, ports);
                fresh = 0;
                n = 1;
            }
            ports[n++] = s->id == NULL ? dsflow_rewrite_data(&z->rw, t->data[i])
                                       : s->id[d];
        }
    }
    emit(z, t, t->op, t->args, t->rank, fresh, n, ports);
}

/* Shard `d` of `id`, as what others may read: where its owner has all of the
 * unit, a piece of it. */
static dsflow_data_id offered(struct zero *z, const struct dsflow_task_spec *t,
                              dsflow_data_id id, int32_t d)
{
    const struct dsflow_data_spec *spec = spec_of(z, id);
    struct dsf_move_args args = { .self = -1 };
    int32_t rank = beside(z, spec->home, d);
    dsflow_data_id out;

    if (!z->spread[id.i].whole)
        return z->spread[id.i].id[d];
    args.elems[0] = shard_elems(z, spec, d);
    args.at[0] = cut(z, spec, d);
    out = piece(z, spec, rank, d);
    emit(z, t, &dsf_op_split, &args, rank, 0, 2,
         (dsflow_data_id[]){ z->spread[id.i].id[d], out });
    return out;
}

/* Each data rank has its own shard of `id` in `whole[d]`: give it the others'.
 */
static void gather_all(struct zero *z, const struct dsflow_task_spec *t,
                       dsflow_data_id id, const dsflow_data_id *whole)
{
    const struct dsflow_data_spec *spec = spec_of(z, id);
    bool own = z->spread[id.i].whole;
    dsflow_data_id *ids = dsf_xcalloc((size_t)z->data, sizeof(*ids));

    for (int32_t d = 0; d < z->data; d++)
        if (shard_elems(z, spec, d) > 0)
            ids[d] = offered(z, t, id, d);
    for (int32_t d = 0; d < z->data; d++)
        gather(z, t, spec, beside(z, spec->home, d), whole[d], !own,
               own ? d : -1, ids);
    free(ids);
}

/* Without shards, every data rank updates all: with the whole gradient. */
static void update_replicas(struct zero *z, const struct dsflow_task_spec *t)
{
    const dsflow_data_id *whole = z->spread[t->data[1].i].id;
    dsflow_data_id *ports = dsf_xcalloc(t->ndata, sizeof(*ports));

    gather_all(z, t, t->data[1], whole);
    for (int32_t d = 0; d < z->data; d++) {
        ports[0] = dsflow_rewrite_data(&z->rw, t->data[0]);
        ports[1] = whole[d];
        for (unsigned i = 2; i < t->ndata; i++)
            ports[i] = spread_of(z, t->data[i])->id[d];
        emit(z, t, t->op, t->args, beside(z, spec_of(z, t->data[2])->home, d),
             t->fresh, t->ndata, ports);
    }
    free(ports);
}

/* The update of a unit: { control, grad, param, states … }. */
static void update(struct zero *z, const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *spec = spec_of(z, t->data[2]);
    const struct spread *param = spread_of(z, t->data[2]);
    dsflow_data_id *ports = dsf_xcalloc(t->ndata, sizeof(*ports));

    for (int32_t d = 0; d < z->data; d++) {
        int64_t elems = shard_elems(z, spec, d);
        struct dsflow_update_args *args;

        if (elems == 0)
            continue;
        args = dsf_xcalloc(1, t->op->args_size);
        memcpy(args, t->args, t->op->args_size);
        dsf_update_slice(args, cut(z, spec, d), elems);
        args->grad_at = shard_at(z, t->data[1], d);
        args->param_at = shard_at(z, t->data[2], d);
        ports[0] = dsflow_rewrite_data(&z->rw, t->data[0]);
        ports[1] = z->spread[t->data[1].i].id[d];
        for (unsigned i = 2; i < t->ndata; i++)
            ports[i] = spread_of(z, t->data[i])->id[d];
        emit(z, t, t->op, args, beside(z, spec->home, d), t->fresh, t->ndata,
             ports);
        free(args);
    }
    free(ports);
    if (z->stage < 3)
        gather_all(z, t, t->data[2], param->id);
}

static bool is_gradients(const struct zero *z, const struct dsflow_task_spec *t)
{
    return spec_of(z, t->data[0])->role == DSFLOW_GRADS;
}

static void rewrite_task(struct zero *z, const struct dsflow_task_spec *t)
{
    if (t->program != z->program) {
        z->program = t->program;
        forget(z);
    }
    if (t->op == &dsf_op_add && is_gradients(z, t))
        add(z, t);
    else if (t->op == &dsf_op_square && is_gradients(z, t))
        square(z, t);
    else if (t->op == &dsf_op_sum)
        sum_shards(z, t);
    else if (t->op->update && z->stage == 0)
        update_replicas(z, t);
    else if (t->op->update)
        update(z, t);
    else
        plain(z, t);
}

static void begin(struct zero *z)
{
    const struct dsflow_plan *plan = z->plan;

    z->data = plan->nreplicas;
    z->stage = dsf_zero_stage(plan->job);
    z->length = (int32_t)z->keys->prefetch + 1;
    z->passing = dsf_plan_passes_gradients(plan);
    z->spread =
        dsf_xcalloc(dsflow_graph_ndata(z->rw.in) + 1, sizeof(*z->spread));
    z->chunks = plan->nchunks / plan->nstages;
    z->rings =
        dsf_xcalloc((size_t)(plan->nranks * z->chunks) * 6, sizeof(*z->rings));
    for (int32_t i = 0; i < plan->nranks * z->chunks * 6; i++)
        z->rings[i].unit =
            dsf_xcalloc((size_t)z->length, sizeof(*z->rings[i].unit));
    z->kept =
        dsf_xcalloc(plan->model->nunits * (size_t)(plan->nparts + 1) *
                        (size_t)plan->nranks,
                    1);
    z->leaders = dsf_xcalloc((size_t)z->data, sizeof(*z->leaders));
}

static void end(struct zero *z)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(z->rw.in); i++)
        free(z->spread[i].id);
    for (int32_t i = 0; i < z->plan->nranks * z->chunks * 6; i++)
        free(z->rings[i].unit);
    free(z->spread);
    free(z->rings);
    free(z->kept);
    free(z->leaders);
}

static int zero_decide(void *part, struct dsflow_plan *plan,
                       struct dsflow_err *err)
{
    if (plan->reduce_micro && dsf_zero_stage(plan->job) == 0 &&
        plan->nreplicas > 1)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "zero", "reduce",
                            "micro: expected a stage of 1 to 3, which keeps "
                            "shards of the sum");
    return DSFLOW_OK;
}

static int zero_rewrite(const void *part, const struct dsflow_plan *plan,
                        struct dsflow_graph *in, struct dsflow_graph *out,
                        struct dsflow_err *err)
{
    struct zero z = { .plan = plan,
                      .keys = part,
                      .rw = dsflow_rewrite_begin(in, out) };
    uint32_t n = dsflow_graph_ntasks(in);

    begin(&z);
    for (uint32_t i = 0; i < n; i++) {
        const struct dsflow_task_spec *t =
            dsflow_graph_task(in, (dsflow_task_id){ i });

        if (z.data == 1) /* nobody to share with */
            dsflow_rewrite_task(&z.rw, t);
        else
            rewrite_task(&z, t);
    }
    end(&z);
    dsflow_rewrite_end(&z.rw);
    return DSFLOW_OK;
}

#define ZERO    struct dsf_zero_keys
#define STAGE_3 "zero.stage = 3 and mesh.data >= 2"
static const char *const reduces[] = { "step", "micro", NULL };
static const struct dsflow_option zero_options[] = {
    DSFLOW_OPTION_AUTO(ZERO, stage, "0", 0, 3,
                       "what the replicas share out: 1 states of the "
                       "optimizer, 2 gradients too, 3 parameters too; auto: "
                       "the fastest that fits",
                       "mesh.data >= 2"),
    DSFLOW_OPTION_CHOICE(ZERO, reduce, "\"step\"", reduces,
                         "when gradients are summed over the groups: once a "
                         "step, or after each micro-batch, so that whole ones "
                         "never stay (which regroups the sums)"),
    DSFLOW_OPTION_INT(ZERO, prefetch, "1", 0, 64,
                      "layers whose parameters are gathered ahead", STAGE_3),
    DSFLOW_OPTION_OF(DSFLOW_SIZE, ZERO, keep, "\"64KiB\"",
                     "units up to this size stay gathered through the step",
                     STAGE_3),
    { 0 },
};

static const struct dsflow_try zero_tries[] = {
    { "prefetch", DSFLOW_VALUES_MORE, DSFLOW_CAUSE_SLOTS, 0 },
    { "stage", DSFLOW_VALUES_RISING, DSFLOW_CAUSE_MOVING, 0 },
    { "reduce", DSFLOW_VALUES_ANY, DSFLOW_CAUSE_MOVING, 1 },
    { 0 },
};

const struct dsflow_policy dsf_policy_zero = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "zero",
    .summary = "data ranks share out states, gradients and parameters",
    .after = "pipeline",
    .options = zero_options,
    .part_size = sizeof(struct dsf_zero_keys),
    .tries = zero_tries,
    .decide = zero_decide,
    .rewrite = zero_rewrite,
};
