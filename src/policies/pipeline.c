/* pipeline.c - which rank computes what: layers are placed on stages, and
 * micro-batches on data ranks.
 *
 * A schedule is the length of the rings of activations (decided here) and the
 * order of preference (priorities.c): with S - s slots on stage s, a stage must
 * finish the backward pass of a micro-batch before it begins another one, which
 * is 1F1B (Narayanan et al. 2019; 2021 for interleaved; Huang et al. 2019 for
 * GPipe; Qi et al. 2024 for zero bubble). The tasks keep their order.
 */
#include "policies/keys.h"

#include "base/alloc.h"
#include "graph/asked.h"
#include "plan/partition.h"
#include "plan/sight.h"
#include "plan/stretch.h"

#include <stdlib.h>

/* Multiplications of a token in a block, in the embedding (nearly none) and in
 * the head. */
static double block_weight(const struct dsflow_plan *plan, int32_t l)
{
    const struct dsf_dims *d = &dsf_model_layer(plan->model, l)->dims;
    double width = d->width, q = (double)d->heads * d->head_dim;
    double kv = (double)d->kv_heads * d->head_dim;

    return width * (2 * q + 2 * kv) + width * d->ffn * (d->swiglu ? 3.0 : 2.0) +
           q * dsf_plan_keys(plan, l);
}

static double head_weight(const struct dsflow_plan *plan)
{
    return (double)plan->model->dims.width * plan->model->dims.vocab;
}

/* first[c]: the first block of chunk c. */
static void balance(const struct dsflow_plan *plan, int *first)
{
    int layers = plan->model->layers;
    double *weights = dsf_xcalloc((size_t)layers, sizeof(*weights));

    for (int l = 0; l < layers; l++)
        weights[l] = block_weight(plan, l);
    weights[layers - 1] += head_weight(plan);
    dsf_partition_balanced(weights, layers, plan->nchunks, first);
    free(weights);
}

static int read_split(const struct dsflow_plan *plan,
                      const struct dsflow_ints *split, int *first,
                      struct dsflow_err *err)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < split->n; i++)
        sum += split->v[i];
    if (split->n != (unsigned)plan->nchunks || sum != plan->model->layers)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "pipeline", "split",
                            "%lld blocks in %u parts: expected the %d blocks "
                            "of the model in %d",
                            (long long)sum, split->n, plan->model->layers,
                            plan->nchunks);
    for (unsigned i = 0; i < split->n; i++)
        first[i + 1] = first[i] + (int)split->v[i];
    return DSFLOW_OK;
}

static int too_many_chunks(const struct dsflow_plan *plan,
                           struct dsflow_err *err)
{
    int stages = plan->nstages, layers = plan->model->layers;

    if (plan->nchunks == stages || stages > layers)
        return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "mesh", "pipeline",
                            "%d: expected at most %d stages, as the model has "
                            "%d blocks",
                            stages, layers, layers);
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "pipeline", "chunks",
                        "%d on each of %d stages: expected at most %d, as the "
                        "model has %d blocks",
                        plan->nchunks / stages, stages, layers / stages,
                        layers);
}

static int cut_layers(struct dsflow_plan *plan, const struct dsflow_ints *split,
                      struct dsflow_err *err)
{
    int layers = plan->model->layers, n = plan->nchunks, status = DSFLOW_OK;
    int *first = dsf_xcalloc((size_t)n + 1, sizeof(*first));

    if (split->n > 0)
        status = read_split(plan, split, first, err);
    else if (n > layers)
        status = too_many_chunks(plan, err);
    else
        balance(plan, first);
    free(plan->chunk_of); /* of a graph built before from this plan */
    plan->chunk_of = dsf_xcalloc((size_t)layers + 2, sizeof(*plan->chunk_of));
    for (int c = 0; c < n && status == DSFLOW_OK; c++)
        for (int l = first[c]; l < first[c + 1]; l++)
            plan->chunk_of[l + 1] = c;
    plan->chunk_of[layers + 1] = n - 1;
    free(first);
    return status;
}

/* How far a rank may run ahead. */
static void size_rings(struct dsflow_plan *plan,
                       enum dsf_pipeline_schedule schedule)
{
    const struct dsf_job *job = plan->job;
    int32_t stages = plan->nstages, micro_steps = plan->micro_steps;
    int32_t ahead = (int32_t)plan->rank_workers + 1;
    bool late = dsf_pipeline_defers_weights(plan);

    free(plan->activation_slots);
    free(plan->grad_slots);
    plan->activation_slots =
        dsf_xcalloc((size_t)plan->nchunks, sizeof(*plan->activation_slots));
    plan->grad_slots =
        dsf_xcalloc((size_t)plan->nchunks, sizeof(*plan->grad_slots));
    for (int c = 0; c < plan->nchunks; c++) {
        int32_t slots = stages == 1
                            ? ahead
                            : dsf_pipeline_slots(schedule, stages, c % stages,
                                                 plan->nchunks / stages,
                                                 c / stages, micro_steps);
        int32_t grad_slots = late || slots < ahead ? slots : ahead;

        if (job->batch.in_flight > 0 &&
            (stages == 1 || job->batch.in_flight < slots))
            grad_slots = slots = (int32_t)job->batch.in_flight;
        if (plan->layer_major || slots > micro_steps)
            slots = micro_steps;
        plan->activation_slots[c] = slots;
        plan->grad_slots[c] =
            plan->layer_major || grad_slots > slots ? slots : grad_slots;
    }
    /* Weight gradients may lag two layers behind their inputs' gradients; where
     * they are to fill the bubbles, as far as there are slots. */
    plan->depth = plan->model->layers + 1;
    if (!late && plan->depth > 3)
        plan->depth = 3;
}

bool dsf_pipeline_defers_weights(const struct dsflow_plan *plan)
{
    return plan->nstages > 1 &&
           dsf_pipeline_keys(plan->job)->schedule == DSF_ZERO_BUBBLE;
}

static int pipeline_decide(void *part, struct dsflow_plan *plan,
                           struct dsflow_err *err)
{
    const struct dsf_pipeline_keys *keys = part;
    int32_t stages = plan->nstages;
    bool interleaved = stages > 1 && keys->schedule == DSF_INTERLEAVED;
    int status;

    plan->nchunks = interleaved ? stages * (int32_t)keys->chunks : stages;
    status = cut_layers(plan, &keys->split, err);
    if (status == DSFLOW_OK)
        size_rings(plan, keys->schedule);
    return status;
}

/* A piece of data as it stands on one rank. */
struct copy {
    dsflow_data_id id;
    int32_t rank;
    uint32_t next; /* + 1, in a circle */
};

struct place {
    const struct dsflow_plan *plan;
    struct dsflow_graph *in, *out;
    struct copy *copies;
    size_t ncopies, cap_copies;
    uint32_t *found; /* by data: + 1, the copy that was asked for last */
    int32_t *at;     /* by data and data rank: where it was written last */
    int32_t *last;   /* by data: the same of any data rank */
    uint32_t task;   /* that is being placed */
};

static dsflow_data_id copy_on(struct place *p, dsflow_data_id data,
                              int32_t rank)
{
    uint32_t last = p->found[data.i], i = last;
    struct dsflow_data_spec spec;
    bool own;

    /* Ranks come in turn: it is the one that was found last, or the next. */
    while (i != 0) {
        if (p->copies[i - 1].rank == rank) {
            p->found[data.i] = i;
            return p->copies[i - 1].id;
        }
        i = p->copies[i - 1].next;
        if (i == last)
            break;
    }
    spec = *dsflow_graph_data(p->in, data);
    /* Units keep their names, and so do counters, which exist once. */
    own = p->plan->nranks > 1 && spec.unit < 0 && !spec.persistent;
    spec.home = (int16_t)rank;
    dsf_grow(&p->copies, &p->cap_copies, p->ncopies + 1, sizeof(*p->copies));
    p->copies[p->ncopies] = (struct copy){
        .id = dsf_add_named(p->out, &spec, own ? "%s.r%d" : "%s", spec.name,
                            rank),
        .rank = rank,
        .next = last != 0 ? p->copies[last - 1].next : (uint32_t)p->ncopies + 1,
    };
    p->found[data.i] = (uint32_t)++p->ncopies;
    if (last != 0)
        p->copies[last - 1].next = p->found[data.i];
    return p->copies[p->ncopies - 1].id;
}

/* `rank`, moved to a stage and a replica: on the other axes it stays where it
 * is. */
static int32_t move_to(const struct dsflow_plan *plan, int32_t rank,
                       int32_t stage, int32_t replica)
{
    rank = dsf_mesh_peer(&plan->mesh, rank, DSF_AXIS_PIPELINE, stage);
    return dsf_mesh_peer(&plan->mesh, rank, DSF_AXIS_DATA, replica);
}

/* The rank that has a part of a unit between steps; of what a group keeps, the
 * one that has the group. */
static int32_t rank_of_unit(const struct dsflow_plan *plan,
                            const struct dsflow_data_spec *d)
{
    int32_t layer = plan->model->units[d->unit].layer;
    int32_t rank = dsf_mesh_peer(&plan->mesh, 0, DSF_AXIS_TENSOR,
                                 d->part % plan->nparts);
    enum dsf_of_group what;
    int32_t group = dsf_kept_group(plan, d->kept, &what);

    rank = move_to(plan, rank, dsflow_plan_stage_of(plan, layer), 0);
    return group < 0 ? rank
                     : dsf_plan_sharer_at(plan, rank,
                                          group / (dsf_plan_sums(plan) /
                                                   dsf_plan_sharers(plan)));
}

static int32_t rank_of(const struct place *p, const struct dsflow_task_spec *t)
{
    const struct dsflow_plan *plan = p->plan;

    if (t->microbatch >= 0)
        return move_to(plan, t->rank < 0 ? 0 : t->rank,
                       dsflow_plan_stage_of(plan, t->layer),
                       dsflow_plan_replica_of(plan, t->microbatch));
    /* Of a unit: where its gradient is, which may be with another group. */
    for (unsigned i = 0; i < t->ndata; i++) {
        const struct dsflow_data_spec *d = dsflow_graph_data(p->in, t->data[i]);

        if (d->unit >= 0 && p->last[t->data[i].i] >= 0)
            return p->last[t->data[i].i];
        if (d->unit >= 0)
            return rank_of_unit(plan, d);
    }
    return move_to(plan, 0, dsflow_plan_stage_of(plan, t->layer), 0);
}

/* What is on data[i] of a task that has its rank. */
static dsflow_data_id placed(void *place, const struct dsflow_task_spec *t,
                             unsigned i)
{
    struct place *p = place;
    dsflow_data_id id = t->data[i];
    const struct dsflow_data_spec *spec = dsflow_graph_data(p->in, id);
    int32_t *at = &p->last[id.i];

    if (spec->unit < 0 && !spec->persistent && t->microbatch >= 0)
        at = &p->at[(size_t)id.i * (size_t)p->plan->nreplicas +
                    (size_t)dsflow_plan_replica_of(p->plan, t->microbatch)];
    if (dsflow_task_access(t, i) == DSFLOW_W)
        *at = p->last[id.i] = t->rank;
    /* Who wrote it may be left out, with where that is. */
    if (spec->unit < 0 && !spec->persistent &&
        dsf_asked_misses(p->in, p->task, i))
        return copy_on(p, id, t->rank);
    if (*at < 0)
        *at = t->rank;
    return copy_on(p, id, *at);
}

/* Where tasks are left out, units are still in the order of the whole graph, in
 * which `precision` goes through them. */
static void place_units(struct place *p)
{
    const dsflow_data_id *id;
    uint32_t at = 0;

    while ((id = dsf_asked_used(p->in, &at)) != NULL) {
        const struct dsflow_data_spec *d = dsflow_graph_data(p->in, *id);

        if (d->unit >= 0 && d->persistent)
            copy_on(p, *id, p->last[id->i]);
    }
}

static int pipeline_rewrite(const void *part, const struct dsflow_plan *plan,
                            struct dsflow_graph *in, struct dsflow_graph *out,
                            struct dsflow_err *err)
{
    uint32_t ndata = dsflow_graph_ndata(in);
    const struct dsflow_task_spec *t;
    struct place p = {
        .plan = plan,
        .in = in,
        .out = out,
        .found = dsf_xcalloc(ndata + 1, sizeof(*p.found)),
        .at = dsf_xcalloc((size_t)ndata * (size_t)plan->nreplicas + 1,
                          sizeof(*p.at)),
        .last = dsf_xcalloc(ndata + 1, sizeof(*p.last)),
    };

    for (uint32_t i = 0; i < ndata; i++) {
        const struct dsflow_data_spec *d = dsf_nth_data(in, i);

        p.last[i] = -1;
        if (d->persistent)
            p.last[i] = d->unit < 0 ? 0 : rank_of_unit(plan, d);
    }
    place_units(&p);
    for (uint32_t i = 0; (t = dsf_nth_task(in, i)) != NULL; i++) {
        struct dsflow_task_spec own = *t;

        own.rank = (int16_t)rank_of(&p, t);
        p.task = i;
        dsf_add_mapped(out, &own, placed, &p);
    }
    free(p.copies);
    free(p.found);
    free(p.at);
    free(p.last);
    return DSFLOW_OK;
}

#define PIPELINE struct dsf_pipeline_keys
static const char *const pipeline_schedules[] = { DSF_PIPELINE_SCHEDULES(
    DSF_CHOICE_NAME) NULL };
static const struct dsflow_option pipeline_options[] = {
    DSFLOW_OPTION_CHOICE(PIPELINE, schedule, "\"1f1b\"", pipeline_schedules,
                         "order of the micro-batches in a stage",
                         "mesh.pipeline >= 2"),
    DSFLOW_OPTION_INT(PIPELINE, chunks, "2", 1, 64,
                      "pieces of the model that each stage has",
                      "pipeline.schedule = interleaved and mesh.pipeline >= "
                      "2"),
    DSFLOW_OPTION_NUMBER(DSFLOW_INTS, PIPELINE, split, "[]", 0, 1024,
                         "blocks of each stage (of each chunk, in order of the "
                         "layers); empty: balanced by cost",
                         "mesh.pipeline >= 2"),
    DSFLOW_OPTION_OF(DSFLOW_BOOL, PIPELINE, strict, "false",
                     "a stage passes gradients on only when those of its own "
                     "weights are there, too, as the schedules were published; "
                     "otherwise as soon as it has them",
                     "pipeline.schedule != zero_bubble and mesh.pipeline >= "
                     "2"),
    { 0 },
};

static const struct dsflow_try pipeline_tries[] = {
    { "strict", DSFLOW_VALUES_DEFAULT, DSFLOW_CAUSE_STAGES, 0 },
    { "schedule", DSFLOW_VALUES_ANY, DSFLOW_CAUSE_STAGES, 0 },
    { 0 },
};

const struct dsflow_policy dsf_policy_pipeline = {
    .abi = DSFLOW_POLICY_ABI,
    .name = "pipeline",
    .summary = "layers on stages, micro-batches on data ranks",
    .after = "sequence_parallel",
    .options = pipeline_options,
    .part_size = sizeof(struct dsf_pipeline_keys),
    .tries = pipeline_tries,
    .decide = pipeline_decide,
    .rewrite = pipeline_rewrite,
};
