/* plan.c - the choices that need no policy: how a step is cut in micro-batches,
 * and how long the rings are. */
#include "plan/plan.h"

#include <dsflow/plan.h>

#include "base/alloc.h"
#include "config/when.h"
#include "plan/programs.h"
#include "plan/sight.h"
#include "plan/stretch.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

bool dsf_plan_has_gpus(const struct dsflow_plan *plan)
{
    return plan->machine->devices > 0 || plan->machine->gpus > 0;
}

static int32_t at_most(int64_t n, int64_t most)
{
    return (int32_t)(n < most ? n : most);
}

/* Of a micro-batch that the job leaves open, where nobody chose one: what each
 * rank and each group gets, at most 4. */
static int64_t micro_of(int64_t sequences, int64_t data, int64_t groups)
{
    int64_t micro = 4;

    while (micro > 1 && (sequences % (micro * data) != 0 ||
                         sequences % (micro * groups) != 0))
        micro--;
    return micro;
}

static int cut_batch(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;
    const struct dsf_job_batch *batch = &job->batch;
    int32_t data = plan->nreplicas;
    int64_t groups = batch->groups < 0 ? data : batch->groups;
    int64_t micro = batch->micro;

    if (micro < 0)
        micro = micro_of(batch->sequences, data, groups);
    if (batch->sequences % micro != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "micro",
                            "%lld: expected a divisor of sequences, %lld",
                            (long long)micro, (long long)batch->sequences);
    if (batch->sequences / micro > INT16_MAX)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "sequences",
                            "%lld: expected at most %d micro-batches a step",
                            (long long)batch->sequences, INT16_MAX);
    plan->micro = (int32_t)micro;
    plan->nmicro = (int32_t)(batch->sequences / micro);
    if (plan->nmicro % data != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "mesh", "data",
                            "%d: expected a divisor of the %d micro-batches "
                            "of a step (batch: sequences / micro)",
                            data, plan->nmicro);
    plan->micro_steps = plan->nmicro / data;
    plan->groups = (int32_t)groups;
    if (plan->nmicro % plan->groups != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "groups",
                            "%d: expected a divisor of the %d micro-batches",
                            plan->groups, plan->nmicro);
    return DSFLOW_OK;
}

/* A data rank must own a subtree of the tree of groups. */
static int check_groups(const struct dsflow_plan *plan, struct dsflow_err *err)
{
    int32_t data = plan->nreplicas, each = plan->groups / data;

    if (data == 1 || (plan->groups % data == 0 && (each & (each - 1)) == 0))
        return DSFLOW_OK;
    return dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "batch", "groups",
                        "%d: expected mesh.data, %d, times a power of two",
                        plan->groups, data);
}

int32_t dsf_plan_sequence(const struct dsf_job *job,
                          const struct dsf_model *model)
{
    return job->batch.sequence < 0 ? model->dims.context
                                   : (int32_t)job->batch.sequence;
}

/* Do tiles see the same in a layer as in the one before? */
static bool sees_alike(const struct dsflow_plan *plan, int32_t l)
{
    int32_t number;

    return l > 0 &&
           dsf_model_layer(plan->model, l)->dims.window ==
               dsf_model_layer(plan->model, l - 1)->dims.window &&
           dsf_plan_layout_of(plan, l, &number) ==
               dsf_plan_layout_of(plan, l - 1, &number);
}

/* What a tile sees in a layer, forward and backward; `pieces`: tiles of its
 * sequence. */
static double seen_in(const struct dsflow_plan *plan, int32_t l, double pieces)
{
    const double window = dsf_model_layer(plan->model, l)->dims.window;
    const double near = 2 * (window / plan->tiles[0].rows + 1);
    int32_t number;

    if (plan->key_tiles > 1 || dsf_plan_layout_of(plan, l, &number) != NULL)
        return 2 * dsf_plan_pairs(plan, l) / plan->ntiles - 1;
    return window > 0 && near < pieces ? near : pieces;
}

/* Each tile of a layer is in ten tasks, forward and backward, beside those of
 * attention: one for each pair of a tile and a buffer of keys that are not
 * behind it, forward and backward. Tensor ranks have each of them, and about
 * two more that gather or sum. */
double dsf_plan_tasks(const struct dsflow_plan *plan)
{
    enum { OF_LAYER = 10, AROUND = 6 }; /* load_batch, embed, head */
    double layers = plan->model->layers, pieces = 1, pairs = 0, seen = 0;
    double ranks = plan->nparts > 1 ? 3 * plan->nparts : 1;

    if (plan->tiles[0].rows < plan->sequence)
        pieces = (double)plan->ntiles / plan->micro;
    for (int32_t l = 0; l < plan->model->layers; l++) {
        if (!sees_alike(plan, l))
            seen = seen_in(plan, l, pieces);
        pairs += seen;
    }
    return ranks * plan->nmicro * plan->ntiles *
           (AROUND + layers * (OF_LAYER + 1) + pairs);
}

static int cut_step(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;
    int32_t context = plan->model->dims.context;
    int status;

    plan->sequence = dsf_plan_sequence(job, plan->model);
    if (plan->sequence > context)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "sequence",
                            "%d: expected at most the model's context, %d",
                            plan->sequence, context);
    plan->sequence_groups = job->batch.sequence_groups < 0
                                ? plan->nsequence
                                : (int32_t)job->batch.sequence_groups;
    status = cut_batch(plan, err);
    if (status == DSFLOW_OK)
        status = check_groups(plan, err);
    if (status == DSFLOW_OK)
        status = dsf_plan_check_sequence(plan, err);
    if (status < 0)
        return status;
    if (job->batch.head_columns % 16 != 0)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "head_columns",
                            "%lld: expected a multiple of 16, such as %lld",
                            (long long)job->batch.head_columns,
                            (long long)(job->batch.head_columns + 15) / 16 *
                                16);
    status = dsf_plan_cut_tiles(plan, err);
    return status == DSFLOW_OK ? dsf_sight_new(plan, err) : status;
}

/* That there are so many ranks, as of the longest axis. */
static int fail_ranks(const struct dsf_job *job, double ranks, const char *most,
                      struct dsflow_err *err)
{
    const int64_t *size = job->mesh.size;
    unsigned longest = 0;

    for (unsigned i = 0; dsflow_axis_at(i) != NULL; i++)
        longest = size[i] > size[longest] ? i : longest;
    return dsf_job_fail(job, err, DSFLOW_EINVAL, "mesh",
                        dsflow_axis_at(longest)->name,
                        "%.0f ranks in all: expected at most %s", ranks, most);
}

static int set_mesh(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_machine *m = plan->machine;
    const double ranks = dsf_job_ranks(plan->job);
    char most[128];

    snprintf(most, sizeof(most), "%d", INT16_MAX);
    if (ranks > INT16_MAX)
        return fail_ranks(plan->job, ranks, most, err);
    snprintf(most, sizeof(most), "the %u GPU%s of %s", m->devices,
             m->devices == 1 ? "" : "s", m->cpu);
    if (m->devices > 0 && ranks > m->devices)
        return fail_ranks(plan->job, ranks, most, err);
    dsf_mesh_init(&plan->mesh, plan->job->mesh.size);
    plan->nranks = dsf_mesh_ranks(&plan->mesh);
    plan->nreplicas = plan->mesh.size[DSF_AXIS_DATA];
    plan->nstages = plan->mesh.size[DSF_AXIS_PIPELINE];
    plan->nparts = plan->mesh.size[DSF_AXIS_TENSOR];
    plan->nsequence = plan->mesh.size[DSF_AXIS_SEQUENCE];
    plan->rank_workers = plan->workers / (unsigned)plan->nranks;
    if (plan->rank_workers == 0 || dsf_plan_has_gpus(plan))
        plan->rank_workers = 1;
    return DSFLOW_OK;
}

int dsf_plan_new(const struct dsf_job *job, const struct dsf_model *model,
                 const struct dsf_machine *machine, struct dsflow_plan **out,
                 struct dsflow_err *err)
{
    struct dsflow_plan *plan = dsf_xcalloc(1, sizeof(*plan));
    int64_t virtuals = job->machine.virtuals;
    int64_t cpus = job->machine.workers;
    int status;

    plan->job = job;
    plan->model = model;
    plan->machine = machine;
    if (cpus < 0)
        cpus = machine->cores > virtuals ? machine->cores - virtuals : 1;
    else if (machine->nodes > 1)
        cpus *= machine->nodes;
    plan->workers = (unsigned)(cpus + virtuals);
    plan->layer_major =
        dsf_job_is(job, "batch.order = layer_major or "
                        "batch.order = auto and offload.params = nvme");
    plan->reduce_micro = dsf_job_is(job, "zero.reduce = micro");

    status = set_mesh(plan, err);
    if (status == DSFLOW_OK)
        status = cut_step(plan, err);
    if (status < 0) {
        dsf_plan_free(plan);
        return status;
    }
    /* A GPU, whose tiles are large, is through with one before the next. */
    plan->logits =
        at_most(dsf_plan_has_gpus(plan) ? 1 : (int64_t)plan->rank_workers + 1,
                (int64_t)plan->micro_steps * dsf_plan_head_tiles(plan).n);
    *out = plan;
    return DSFLOW_OK;
}

void dsf_plan_free(struct dsflow_plan *plan)
{
    if (plan == NULL)
        return;
    for (unsigned i = 0; i < DSF_MAX_POLICIES; i++)
        free(plan->parts[i]);
    free(plan->tiles);
    free(plan->chunk_of);
    free(plan->activation_slots);
    free(plan->grad_slots);
    dsf_sight_free(plan->sight);
    dsf_plan_free_programs(plan);
    dsf_kept_free(&plan->kept);
    free(plan);
}

/* With `reduce_micro`, a round has one micro-batch of each group; otherwise a
 * group is worked through before the next. */
int32_t dsf_plan_micro(const struct dsflow_plan *plan, int32_t d,
                       int32_t micro_step)
{
    int32_t groups = plan->groups / plan->nreplicas; /* of this rank */
    int32_t each = plan->nmicro / plan->groups;      /* in a group */

    if (!plan->reduce_micro)
        return d * plan->micro_steps + micro_step;
    return (d * groups + micro_step % groups) * each + micro_step / groups;
}

int32_t dsflow_plan_micro_step_of(const struct dsflow_plan *plan, int32_t m)
{
    int32_t groups = plan->groups / plan->nreplicas;
    int32_t each = plan->nmicro / plan->groups;

    if (!plan->reduce_micro)
        return m % plan->micro_steps;
    return m % each * groups + m / each % groups;
}

int32_t dsflow_plan_replica_of(const struct dsflow_plan *plan, int32_t m)
{
    return m / plan->micro_steps;
}

int32_t dsf_plan_group(const struct dsflow_plan *plan, int32_t m)
{
    return m / (plan->nmicro / plan->groups);
}

/* What policies of plug-ins may know of a plan, and change in it. */

int32_t dsflow_plan_layers(const struct dsflow_plan *plan)
{
    return plan->model->layers;
}

int32_t dsflow_plan_ranks(const struct dsflow_plan *plan)
{
    return plan->nranks;
}

int32_t dsflow_plan_axis(const struct dsflow_plan *plan, const char *axis)
{
    int i = dsf_axis_find(axis);

    return i < 0 ? 1 : plan->mesh.size[i];
}

int32_t dsflow_plan_coord(const struct dsflow_plan *plan, int32_t rank,
                          const char *axis)
{
    int i = dsf_axis_find(axis);

    return i < 0 ? 0 : dsf_mesh_at(&plan->mesh, rank, i);
}

int32_t dsflow_plan_peer(const struct dsflow_plan *plan, int32_t rank,
                         const char *axis, int32_t coord)
{
    int i = dsf_axis_find(axis);

    return i < 0 ? rank : dsf_mesh_peer(&plan->mesh, rank, i, coord);
}

int32_t dsflow_plan_same(const struct dsflow_plan *plan, int32_t rank,
                         unsigned shares, int32_t *ranks)
{
    return dsf_mesh_same(&plan->mesh, rank, shares, ranks);
}

int32_t dsflow_plan_micro_batches(const struct dsflow_plan *plan)
{
    return plan->nmicro;
}

int32_t dsflow_plan_micro_steps(const struct dsflow_plan *plan)
{
    return plan->micro_steps;
}

int32_t dsflow_plan_tiles(const struct dsflow_plan *plan)
{
    return plan->ntiles;
}

int32_t dsflow_plan_chunks(const struct dsflow_plan *plan)
{
    return plan->nchunks;
}

int32_t dsflow_plan_chunk_of(const struct dsflow_plan *plan, int32_t layer)
{
    return plan->chunk_of[layer + 1];
}

int32_t dsflow_plan_stage_of(const struct dsflow_plan *plan, int32_t layer)
{
    return dsflow_plan_chunk_of(plan, layer) % plan->nstages;
}

int32_t dsflow_plan_activation_slots(const struct dsflow_plan *plan,
                                     int32_t chunk)
{
    return plan->activation_slots[chunk];
}

static int32_t within(int32_t n, int32_t most)
{
    return n < 1 ? 1 : n > most ? most : n;
}

void dsflow_plan_set_activation_slots(struct dsflow_plan *plan, int32_t chunk,
                                      int32_t slots)
{
    plan->activation_slots[chunk] = within(slots, plan->micro_steps);
    dsflow_plan_set_grad_slots(plan, chunk, plan->grad_slots[chunk]);
}

int32_t dsflow_plan_grad_slots(const struct dsflow_plan *plan, int32_t chunk)
{
    return plan->grad_slots[chunk];
}

void dsflow_plan_set_grad_slots(struct dsflow_plan *plan, int32_t chunk,
                                int32_t slots)
{
    plan->grad_slots[chunk] = within(slots, plan->activation_slots[chunk]);
}

int dsflow_plan_fail(const struct dsflow_plan *plan, struct dsflow_err *err,
                     int status, const char *table, const char *key,
                     const char *fmt, ...)
{
    char msg[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(msg, sizeof(msg), fmt, ap);
    va_end(ap);
    return dsf_job_fail(plan->job, err, status, table, key, "%s", msg);
}

bool dsf_plan_passes_gradients(const struct dsflow_plan *plan)
{
    /* One sum on each rank. */
    bool once = dsf_plan_sums(plan) == dsf_plan_sharers(plan);

    return !plan->gradients_stay &&
           (plan->layer_major ||
            (once && (plan->micro_steps == 1 || plan->reduce_micro)));
}

/* A pipeline has as many slots as its schedule needs, if the job does not say
 * that there be fewer. */
const char *dsf_plan_ring(const struct dsflow_plan *plan, int32_t chunk)
{
    int64_t asked = plan->job->batch.in_flight;

    if (plan->nstages > 1 &&
        (asked < 0 || plan->activation_slots[chunk] < asked))
        return "pipeline.schedule";
    return "batch.in_flight";
}
