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
 * A shard is whole blocks of its unit. The sum of a gradient over the groups
 * becomes sums on each rank and a collective between them: an all_reduce with
 * stage 0, a reduce_scatter with the others. A task that works on a unit number
 * by number (op.h: slice) is done on shards, wherever it has data in shards;
 * what each rank has whole is gathered after that. With stage 3, other tasks
 * that use parameters have an all_gather before the first of them in each pass.
 */
#include "policies/zero_private.h"

#include "base/alloc.h"
#include "tasks/tasks.h"

#include <stdlib.h>

/* --- tasks --------------------------------------------------------------- */

/* A task of each data rank: that rank gets into[d], and has from[d]. */
void dsf_zero_share(struct dsf_zero *z, const struct dsflow_task_spec *like,
                    const struct dsflow_op *op,
                    const struct dsflow_data_spec *unit,
                    const dsflow_data_id *into, const dsflow_data_id *from)
{
    struct dsf_collective c = { op, dsf_zero_pieces(z, unit), from,
                                ++z->collectives };

    for (int32_t d = 0; d < z->data; d++)
        dsf_collective_emit(z->rw.out, like, &c, d,
                            dsf_zero_beside(z, unit->home, d), into[d]);
}

/* Is it kept of a unit, but not a number for each of its parameters? */
static bool is_of_unit(const struct dsf_zero *z,
                       const struct dsflow_data_spec *spec)
{
    return spec->kept != 0 && spec->kept <= z->plan->kept.n &&
           z->plan->kept.v[spec->kept - 1].kind != DSFLOW_KEPT_TENSORS;
}

/* Data of a task that needs all of it. */
static dsflow_data_id port(void *zero, const struct dsflow_task_spec *t,
                           unsigned i)
{
    struct dsf_zero *z = zero;
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, t->data[i]);

    if (spec->unit < 0 || is_of_unit(z, spec))
        return dsflow_rewrite_data(&z->rw, t->data[i]);
    if (spec->role == DSFLOW_GRADS)
        return dsf_zero_gradient(z, t->data[i]);
    if (z->stage == 3 && !dsf_zero_is_whole(z, spec))
        return dsf_zero_gathered(z, t->data[i], t);
    return dsf_zero_spread(z, t->data[i])->id[dsf_zero_replica(z, t->rank)];
}

/* A gradient that is written here has yet to be summed. */
static void plain(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    dsf_add_mapped(z->rw.out, t, port, z);
    for (unsigned i = 0; i < t->ndata; i++) {
        struct dsf_zero_parts *s = &z->spread[t->data[i].i];

        if (dsf_zero_spec(z, t->data[i])->role == DSFLOW_GRADS &&
            dsflow_task_access(t, i) & DSFLOW_W) {
            free(s->id);
            s->id = NULL;
        }
    }
}

/* --- sums of gradients --------------------------------------------------- */

/* Is it a sum of gradients that several data ranks have? */
static bool crosses(const struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *first = dsf_zero_spec(z, t->data[0]);
    int32_t d = dsf_zero_replica(z, first->home);

    if (!t->op->sums || first->role != DSFLOW_GRADS)
        return false;
    for (unsigned i = 1; i < t->ndata; i++)
        if (dsf_zero_replica(z, dsf_zero_spec(z, t->data[i])->home) != d)
            return true;
    return false;
}

/* The sum of what data rank `d` has of it, where that is. The terms of a rank
 * follow each other: the ranks' sums are subtrees of the whole sum. */
static dsflow_data_id sum_of_rank(struct dsf_zero *z,
                                  const struct dsflow_task_spec *t, int32_t d)
{
    dsflow_data_id *ports = dsf_xcalloc(t->ndata, sizeof(*ports)), sum;
    int32_t rank = t->rank;
    uint32_t n = 0;

    for (unsigned i = 0; i < t->ndata; i++) {
        int32_t home = dsf_zero_spec(z, t->data[i])->home;

        if (dsf_zero_replica(z, home) != d)
            continue;
        rank = home;
        ports[n++] = dsf_zero_gradient(z, t->data[i]);
    }
    if (n > 1 || t->op == &dsf_op_add_recoded)
        dsf_add_like(z->rw.out, t, t->op, t->args, rank, t->fresh, n, ports);
    sum = ports[0];
    free(ports);
    return sum;
}

static void sum_ranks(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    const struct dsflow_data_spec *spec = dsf_zero_spec(z, t->data[0]);
    struct dsf_zero_parts *s = &z->spread[t->data[0].i];
    dsflow_data_id *sums = dsf_xcalloc((size_t)z->data, sizeof(*sums));

    for (int32_t d = 0; d < z->data; d++)
        sums[d] = sum_of_rank(z, t, d);
    dsf_zero_spread_sums(z, t->data[0], sums);
    if (dsf_zero_sends_rows(z, t))
        dsf_zero_sum_rows(z, t, sums);
    else
        dsf_zero_share(
            z, t, z->stage == 0 ? &dsf_op_all_reduce : &dsf_op_reduce_scatter,
            spec, s->id, sums);
    free(sums);
}

/* --- tasks of units ------------------------------------------------------ */

enum how {
    AS_IT_WAS, /* its data is where it was */
    REPLICAS,  /* each rank does all of it: each has all of its data */
    SHARDS     /* each rank does its shard */
};

/* What an update leaves for each block is where its unit is updated. */
static bool is_left(const struct dsflow_task_spec *t, unsigned i)
{
    return t->op->update && dsf_task_port(t, i)->slice == DSFLOW_BLOCKS;
}

static enum how how_done(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    bool spread = false, whole = true;

    for (unsigned i = 0; i < t->ndata; i++) {
        const struct dsflow_data_spec *spec = dsf_zero_spec(z, t->data[i]);
        const struct dsf_zero_parts *s = &z->spread[t->data[i].i];

        if (!dsf_task_port(t, i)->slice || is_left(t, i))
            continue;
        if (spec->role == DSFLOW_PARAMS || spec->role == DSFLOW_STATES)
            s = dsf_zero_spread(z, t->data[i]);
        spread |= s->id != NULL;
        whole &= s->id != NULL && s->whole && !s->shards;
    }
    return !spread ? AS_IT_WAS : whole ? REPLICAS : SHARDS;
}

/* The task on data rank `d`: on all of the unit, or on its shard. */
static void on_rank(struct dsf_zero *z, const struct dsflow_task_spec *task,
                    const struct dsflow_data_spec *unit, int32_t d,
                    enum how how)
{
    const struct dsf_pieces pieces = dsf_zero_pieces(z, unit);
    const int64_t from = how == REPLICAS ? 0 : dsf_pieces_at(&pieces, d);
    const int64_t elems =
        how == REPLICAS ? unit->elems : dsf_pieces_elems(&pieces, d);
    struct dsflow_task_spec t = *task;
    dsflow_data_id *ports = dsf_xcalloc(t.ndata, sizeof(*ports));
    int64_t *gone = dsf_xcalloc(dsf_task_nports(&t), sizeof(*gone));
    void *args = dsf_xcopy(t.args, 1, t.op->args_size);

    t.rank = (int16_t)dsf_zero_beside(z, unit->home, d);
    for (unsigned i = 0; i < t.ndata; i++) {
        const struct dsf_zero_parts *s = &z->spread[t.data[i].i];

        if (!dsf_task_port(&t, i)->slice) {
            ports[i] = port(z, &t, i);
            continue;
        }
        ports[i] = dsf_zero_cut(z, t.data[i], unit, how == REPLICAS)->id[d];
        gone[dsf_task_index(&t, i)] = s->whole ? 0 : from;
        /* What others have of it is not written here. */
        if (s->whole && elems < unit->elems)
            t.fresh &= ~(1u << dsflow_task_port(&t, i));
    }
    if (elems < unit->elems)
        t.op->slice(args, from, elems, gone);
    dsf_add_like(z->rw.out, &t, t.op, args, t.rank, t.fresh, t.ndata, ports);
    free(ports);
    free(gone);
    free(args);
}

static void unit_task(struct dsf_zero *z, const struct dsflow_task_spec *t,
                      const struct dsflow_data_spec *unit, enum how how)
{
    struct dsf_pieces pieces = dsf_zero_pieces(z, unit);

    for (int32_t d = 0; d < z->data; d++)
        if (how == REPLICAS || dsf_pieces_elems(&pieces, d) > 0)
            on_rank(z, t, unit, d, how);
    for (unsigned i = 0; i < t->ndata && how == SHARDS; i++) {
        struct dsf_zero_parts *s = &z->spread[t->data[i].i];

        if (t->op == &dsf_op_serve_mean)
            s->shards = false;
        if (!dsf_task_port(t, i)->slice || !s->whole || s->shards ||
            !(dsflow_task_access(t, i) & DSFLOW_W))
            continue;
        if (dsf_zero_serves_signs(t))
            dsf_zero_gather_signs(z, t, unit, s);
        else
            dsf_zero_share(z, t, &dsf_op_all_gather, unit, s->id, s->id);
    }
}

/* Each input is all of its shards, in order, or what the task's rank has whole.
 */
static void join(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    dsflow_data_id *ports =
        dsf_xcalloc((size_t)t->ndata * (size_t)z->data, sizeof(*ports));
    uint32_t n = 0;

    for (unsigned i = 0; i < t->ndata; i++) {
        const struct dsf_zero_parts *s = &z->spread[t->data[i].i];

        if (s->id == NULL)
            ports[n++] = port(z, t, i);
        else if (s->whole)
            ports[n++] = s->id[dsf_zero_replica(z, t->rank)];
        for (int32_t d = 0; d < z->data && s->id != NULL && !s->whole; d++)
            if (dsf_is_data(s->id[d]))
                ports[n++] = s->id[d];
    }
    dsf_add_like(z->rw.out, t, t->op, t->args, t->rank, t->fresh, n, ports);
    free(ports);
}

/* --- the policy ---------------------------------------------------------- */

static void rewrite_task(struct dsf_zero *z, const struct dsflow_task_spec *t)
{
    int of = dsf_task_unit_port(z->rw.in, t);
    enum how how = of < 0 ? AS_IT_WAS : how_done(z, t);
    const bool across = crosses(z, t);

    if (t->program != z->program)
        dsf_zero_forget(z);
    z->program = t->program;
    if (dsf_zero_add_node(z, t, across) || dsf_zero_feed_node(z, t))
        return;
    if (across && dsf_zero_sends_groups(z, t))
        dsf_zero_sum_groups(z, t);
    else if (across)
        sum_ranks(z, t);
    else if (t->op == &dsf_op_recode && z->stage > 0)
        dsf_zero_recode(z, t);
    else if (t->op->joins)
        join(z, t);
    else if (how != AS_IT_WAS)
        unit_task(z, t, dsf_zero_spec(z, t->data[of]), how);
    else
        plain(z, t);
}

static void begin(struct dsf_zero *z)
{
    z->stage = dsf_zero_stage(z->plan->job);
    z->passing = dsf_plan_passes_gradients(z->plan);
    z->collectives = dsf_collective_last(z->rw.in);
    z->spread =
        dsf_xcalloc(dsflow_graph_ndata(z->rw.in) + 1, sizeof(*z->spread));
    dsf_zero_begin_gathered(z);
    dsf_zero_begin_coded(z);
    dsf_zero_begin_nodes(z);
}

static void end(struct dsf_zero *z)
{
    for (uint32_t i = 0; i < dsflow_graph_ndata(z->rw.in); i++)
        free(z->spread[i].id);
    free(z->spread);
    dsf_zero_end_gathered(z);
    dsf_zero_end_coded(z);
    dsf_zero_end_nodes(z);
}

static int zero_decide(void *part, struct dsflow_plan *plan,
                       struct dsflow_err *err)
{
    if (plan->reduce_micro && dsf_zero_stage(plan->job) == 0 &&
        dsf_plan_sharers(plan) > 1)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "zero", "reduce",
                            "micro: expected a stage of 1 to 3, which keeps "
                            "shards of the sum");
    return DSFLOW_OK;
}

static int zero_rewrite(const void *part, const struct dsflow_plan *plan,
                        struct dsflow_graph *in, struct dsflow_graph *out,
                        struct dsflow_err *err)
{
    struct dsf_zero z = { .plan = plan,
                          .keys = part,
                          .data = dsf_plan_sharers(plan) };
    const struct dsflow_task_spec *t;

    if (z.data == 1) /* nobody to share with */
        return DSFLOW_UNCHANGED;
    z.rw = dsflow_rewrite_begin(in, out);
    begin(&z);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++)
        rewrite_task(&z, t);
    end(&z);
    dsflow_rewrite_end(&z.rw);
    return DSFLOW_OK;
}

#define ZERO    struct dsf_zero_keys
#define STAGE_3                                                                \
    "zero.stage = 3 and mesh.data >= 2 or zero.stage = 3 and mesh.sequence "   \
    ">= "                                                                      \
    "2"
static const char *const reduces[] = { DSF_REDUCES(DSF_CHOICE_NAME) NULL };
static const struct dsflow_option zero_options[] = {
    DSFLOW_OPTION_AUTO(ZERO, stage, "0", 0, 3,
                       "what the replicas share out: 1 states of the "
                       "optimizer, 2 gradients too, 3 parameters too; auto: "
                       "the fastest that fits",
                       "mesh.data >= 2 or mesh.sequence >= 2"),
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
    .after = "compress",
    .options = zero_options,
    .part_size = sizeof(struct dsf_zero_keys),
    .tries = zero_tries,
    .decide = zero_decide,
    .rewrite = zero_rewrite,
};
