/* sequence_choice.c - how ranks that share sequences share attention: by keys
 * or by heads, as the job says, or where that is "auto". (Jobs
 * of few ranks are planned both ways before, see tune/tunables.c.)
 *
 * Keys are sent to whoever sees them, in few large pieces, and behind compute
 * where links are as fast as those within a node. So heads are taken where
 * ranks that share a sequence are on several nodes, all have as much to do and
 * would receive half as many bytes more of keys. That follows from the job and
 * from how many nodes there are, so all processes choose alike; and no bit of
 * what is computed depends on it.
 */
#include "policies/sequence_private.h"

#include "config/when.h"
#include "plan/division.h"
#include "plan/heads.h"
#include "plan/stretch.h"
#include "policies/keys.h"
#include "segments/segment.h"

#include <string.h>

/* --- can it be heads? ------------------------------------------------------
 */

/* The segment of layer `l` that works on all heads; NULL: none does. */
static const char *unshared(const struct dsflow_plan *plan, int32_t l)
{
    const struct dsf_layer *layer = dsf_model_layer(plan->model, l);

    for (unsigned i = 0; layer->segments[i] != NULL; i++)
        if (layer->segments[i]->pairs &&
            layer->segments[i] != &dsf_segment_attention)
            return layer->segments[i]->name;
    return NULL;
}

#define FAIL(...)                                                              \
    dsf_job_fail(plan->job, err, DSFLOW_EINVAL, "mesh", "sequence_kind",       \
                 "\"heads\": expected " __VA_ARGS__)

static int check_layer(const struct dsflow_plan *plan, int32_t l,
                       struct dsflow_err *err)
{
    const struct dsf_dims *d = &dsf_model_layer(plan->model, l)->dims;
    const char *segment = unshared(plan, l);

    if (segment != NULL)
        return FAIL("\"keys\" with segment %.60s, which works on all heads",
                    segment);
    if (plan->nsequence > d->heads / plan->nparts)
        return FAIL("a mesh.sequence of at most %d, as there are heads of "
                    "queries%s, not %d",
                    (int)(d->heads / plan->nparts),
                    plan->nparts > 1 ? " on a tensor rank" : "",
                    (int)plan->nsequence);
    return DSFLOW_OK;
}

static int check_heads(const struct dsflow_plan *plan, struct dsflow_err *err)
{
    int status = DSFLOW_OK;

    if (strcmp(plan->job->model.attention, "builtin") != 0)
        return FAIL("\"keys\" with model.attention = \"%.60s\", which works on "
                    "all heads",
                    plan->job->model.attention);
    for (int32_t l = 0; l < plan->model->layers && status == DSFLOW_OK; l++)
        status = check_layer(plan, l, err);
    return status;
}

static double imbalance(const struct dsflow_plan *plan)
{
    double most = 1;

    for (int32_t l = 0; l < plan->model->layers; l++) {
        const struct dsf_heads h =
            dsf_heads_of(plan, dsf_heads_of_layer(plan, l));
        const double is = dsf_heads_imbalance(&h);

        most = is > most ? is : most;
    }
    return most;
}

/* --- what a rank receives --------------------------------------------------
 */

static int32_t owner_of(const struct dsflow_plan *plan, int32_t stretch)
{
    const int32_t last = dsf_plan_stretches(plan) - 1;
    const int32_t group = stretch < last - stretch ? stretch : last - stretch;

    return group / (plan->sequence_groups / plan->nsequence);
}

/* Tokens of stretch `j` whose keys rank `r` sees: those before its next
 * stretch, of which a window hides some. */
static double seen_of(const struct dsflow_plan *plan, int32_t r, int32_t j,
                      int32_t window)
{
    const int32_t n = dsf_plan_stretches(plan);
    const int32_t length = plan->sequence / n;
    int32_t own = j;
    double tokens = length;

    while (own < n && owner_of(plan, own) != r)
        own++;
    if (own == n)
        return 0;
    if (window > 0)
        tokens = window - 1 - (double)(own - j - 1) * length;
    return tokens < 0 ? 0 : tokens > length ? length : tokens;
}

/* Of a sequence: tokens of others whose keys a rank sees, and its own that
 * others see, once for each sum of theirs. */
struct seen {
    double others, own;
};

static struct seen seen_by(const struct dsflow_plan *plan, int32_t r,
                           int32_t window)
{
    const int32_t n = dsf_plan_stretches(plan);
    const int32_t sums = plan->sequence_groups / plan->nsequence;
    struct seen seen = { 0, 0 };

    for (int32_t j = 0; j < n; j++) {
        if (owner_of(plan, j) != r)
            seen.others += seen_of(plan, r, j, window);
        for (int32_t o = 0; o < plan->nsequence && owner_of(plan, j) == r; o++)
            if (o != r)
                seen.own += sums * seen_of(plan, o, j, window);
    }
    return seen;
}

/* Numbers of keys and values of a token. */
static double keys_width(const struct dsflow_plan *plan, int32_t l)
{
    return 2.0 * dsf_model_layer(plan->model, l)->dims.head_dim *
           dsf_heads_of_layer(plan, l);
}

/* Forward passes: what is computed again is moved again. */
static double forwards(const struct dsflow_plan *plan)
{
    return dsf_job_is(plan->job, "recompute.what != none") ? 2 : 1;
}

static double number_bytes(const struct dsflow_plan *plan)
{
    return (double)dsflow_dtype_bytes(dsf_compute_type(plan->job), 1);
}

/* Of a sequence: keys in each pass, and sums of their gradients in fp32. */
static double keys_bytes(const struct dsflow_plan *plan, int32_t r)
{
    struct seen seen = { 0, 0 };
    double bytes = 0;

    for (int32_t l = 0; l < plan->model->layers; l++) {
        const int32_t window = dsf_model_layer(plan->model, l)->dims.window;

        if (l == 0 ||
            window != dsf_model_layer(plan->model, l - 1)->dims.window)
            seen = seen_by(plan, r, window);
        bytes += keys_width(plan, l) *
                 ((forwards(plan) + 1) * number_bytes(plan) * seen.others +
                  4 * seen.own);
    }
    return bytes;
}

/* Of a sequence and a layer: forward, queries and keys of other ranks' tokens,
 * and outputs of its own; back the gradients of all of them, and delta, in
 * fp32. Where several ranks have the same heads of keys, each gets all of
 * these, and their sums are fp32; but it has the queries of its own tokens. */
static double layer_bytes(const struct dsflow_plan *plan, int32_t l)
{
    const struct dsf_dims *d = &dsf_model_layer(plan->model, l)->dims;
    const struct dsf_heads h = dsf_heads_of(plan, dsf_heads_of_layer(plan, l));
    const double ranks = h.ranks, teams = h.teams, bytes = number_bytes(plan);
    const double tokens = plan->sequence / ranks;
    const double heads = tokens * (teams - 1) / teams * d->heads / plan->nparts;
    const double queries = heads * d->head_dim;
    const double keys = tokens * (ranks - 1) / teams * keys_width(plan, l);

    return forwards(plan) * bytes * (2 * queries + keys) + bytes * 2 * queries +
           4 * heads + (ranks > teams ? 4 : bytes) * keys;
}

static double count_keys(const struct dsflow_plan *plan)
{
    const double first = keys_bytes(plan, 0);
    const double last = keys_bytes(plan, plan->nsequence - 1);

    /* What a rank receives rises or falls from one to the next. */
    return first > last ? first : last;
}

static double count_heads(const struct dsflow_plan *plan)
{
    double bytes = 0;

    for (int32_t l = 0; l < plan->model->layers; l++)
        bytes += layer_bytes(plan, l);
    return bytes;
}

/* Are ranks that share a sequence on several nodes? */
static bool is_far(const struct dsflow_plan *plan)
{
    for (int32_t r = 0; r < plan->nranks; r++)
        if (dsf_rank_node(plan->machine, plan->nranks, r) !=
            dsf_rank_node(plan->machine, plan->nranks,
                          dsf_mesh_peer(&plan->mesh, r, DSF_AXIS_SEQUENCE, 0)))
            return true;
    return false;
}

/* By how much bytes of keys have to be more. */
#define MORE 1.5

int dsf_sequence_choose(struct dsflow_plan *plan, struct dsflow_err *err)
{
    const int asked = plan->job->mesh.sequence_kind;
    const double sequences =
        (double)plan->micro_steps * plan->micro / plan->nstages;
    struct dsf_sequence_choice *s = &plan->shares;
    struct dsflow_err why;
    int status;

    *s = (struct dsf_sequence_choice){ .kind = DSF_SEQUENCE_KEYS,
                                       .imbalance = 1 };
    if (plan->nsequence == 1)
        return DSFLOW_OK;
    s->chosen = asked == DSF_SEQUENCE_AUTO;
    s->keys = sequences * count_keys(plan);
    status = check_heads(plan, asked == DSF_SEQUENCE_HEADS ? err : &why);
    if (status < 0)
        return asked == DSF_SEQUENCE_HEADS ? status : DSFLOW_OK;
    s->heads = sequences * count_heads(plan);
    s->imbalance = imbalance(plan);
    s->far = is_far(plan);
    if (asked == DSF_SEQUENCE_HEADS ||
        (s->chosen && s->imbalance == 1 && s->far && s->keys > MORE * s->heads))
        s->kind = DSF_SEQUENCE_HEADS;
    return DSFLOW_OK;
}
