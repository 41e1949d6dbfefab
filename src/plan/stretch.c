/* stretch.c - how the tokens of each sequence are shared out. */
#include "plan/stretch.h"

#include <stdbool.h>
#include <stdio.h>

int32_t dsf_plan_stretches(const struct dsflow_plan *plan)
{
    return plan->sequence_groups > 1 ? 2 * plan->sequence_groups : 1;
}

int32_t dsf_plan_sequence_group(const struct dsflow_plan *plan, int32_t t)
{
    const int32_t n = dsf_plan_stretches(plan);
    const int32_t at = plan->tiles[t].pos / (plan->sequence / n);

    return at < n - 1 - at ? at : n - 1 - at;
}

int32_t dsf_plan_tile_of_group(const struct dsflow_plan *plan, int32_t group)
{
    int32_t t = 0;

    while (dsf_plan_sequence_group(plan, t) != group)
        t++;
    return t;
}

int32_t dsf_plan_sequence_at(const struct dsflow_plan *plan, int32_t t)
{
    return dsf_plan_sequence_group(plan, t) /
           (plan->sequence_groups / plan->nsequence);
}

int32_t dsf_plan_sums(const struct dsflow_plan *plan)
{
    return plan->groups * plan->sequence_groups;
}

int32_t dsf_plan_sum_of(const struct dsflow_plan *plan, int32_t m, int32_t t)
{
    return dsf_plan_group(plan, m) * plan->sequence_groups +
           dsf_plan_sequence_group(plan, t);
}

int32_t dsf_plan_sharers(const struct dsflow_plan *plan)
{
    return plan->nreplicas * plan->nsequence;
}

int32_t dsf_plan_sharer(const struct dsflow_plan *plan, int32_t rank)
{
    return dsf_mesh_at(&plan->mesh, rank, DSF_AXIS_DATA) * plan->nsequence +
           dsf_mesh_at(&plan->mesh, rank, DSF_AXIS_SEQUENCE);
}

int32_t dsf_plan_sharer_at(const struct dsflow_plan *plan, int32_t rank,
                           int32_t i)
{
    rank = dsf_mesh_peer(&plan->mesh, rank, DSF_AXIS_DATA, i / plan->nsequence);
    return dsf_mesh_peer(&plan->mesh, rank, DSF_AXIS_SEQUENCE,
                         i % plan->nsequence);
}

int32_t dsf_plan_key_slots(const struct dsflow_plan *plan)
{
    const int64_t asked = plan->job->mesh.key_slots;
    const int32_t tiles = plan->sequence_tiles / dsf_plan_stretches(plan);
    const int32_t buffers = (tiles + plan->key_tiles - 1) / plan->key_tiles;
    const int32_t workers = (int32_t)plan->rank_workers + 1;
    const int32_t ahead = plan->nsequence / 2 * buffers + 2;

    if (asked >= 0)
        return (int32_t)asked;
    return plan->nsequence > 1 && plan->shares.kind == DSF_SEQUENCE_KEYS &&
                   ahead > workers
               ? ahead
               : workers;
}

static bool is_power_of_two(int32_t n)
{
    return n > 0 && (n & (n - 1)) == 0;
}

/* A rank must own a subtree of the tree of sums. */
static int check_groups(const struct dsflow_plan *plan, struct dsflow_err *err)
{
    const struct dsf_job *job = plan->job;
    const int32_t groups = plan->sequence_groups, ranks = plan->nsequence;

    if (groups % ranks != 0 ||
        (dsf_plan_sharers(plan) > 1 && !is_power_of_two(groups / ranks)))
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "sequence_groups",
                            "%d: expected mesh.sequence, %d, times a power of "
                            "two",
                            (int)groups, (int)ranks);
    if (ranks > 1 && plan->groups != plan->nreplicas)
        return dsf_job_fail(job, err, DSFLOW_EINVAL, "batch", "groups",
                            "%d: expected mesh.data, %d, where mesh.sequence "
                            "is 2 or more",
                            (int)plan->groups, (int)plan->nreplicas);
    return DSFLOW_OK;
}

/* The lengths that work next to the one asked for, of at most the context. */
static void nearest(const struct dsflow_plan *plan, char *text, size_t size)
{
    const int32_t n = dsf_plan_stretches(plan);
    const int32_t below = plan->sequence / n * n, above = below + n;
    const bool fits = above <= plan->model->dims.context;

    text[0] = '\0';
    if (below > 0 && fits)
        snprintf(text, size, ", such as %d or %d", (int)below, (int)above);
    else if (below > 0 || fits)
        snprintf(text, size, ", such as %d", (int)(below > 0 ? below : above));
}

/* Of which a rank, or a group, has two. */
#define SHARES                                                                 \
    "%d: expected a batch.sequence that is a multiple of %d, not %d%s"

int dsf_plan_check_sequence(const struct dsflow_plan *plan,
                            struct dsflow_err *err)
{
    const int32_t n = dsf_plan_stretches(plan);
    char text[64];
    int status = check_groups(plan, err);

    if (status < 0 || plan->sequence % n == 0)
        return status;
    nearest(plan, text, sizeof(text));
    return plan->job->batch.sequence_groups < 0
               ? dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "mesh", "sequence",
                              SHARES, (int)plan->nsequence, (int)n,
                              (int)plan->sequence, text)
               : dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "batch",
                              "sequence_groups", SHARES,
                              (int)plan->sequence_groups, (int)n,
                              (int)plan->sequence, text);
}
