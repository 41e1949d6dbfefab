/* reference_sequence.c - layers in which a segment goes through several tiles
 * before the next one begins. Each query still meets its keys in their order,
 * forward, and in reverse, back.
 *
 * Where keys of several tiles stand in one buffer (plan/key_tiles.h), it goes
 * through those: queries wait until the buffer has all of its keys, and what
 * follows attention for nothing more.
 *
 * Where the tokens of a sequence are in several groups (plan/stretch.h), each
 * of which sums gradients apart, it goes through all tiles, and attention takes
 * one buffer of keys after the other, of all queries that see it: then a rank
 * that has some of the groups needs keys of others once, and few of them at a
 * time. What the queries of a group add to the gradient of a buffer of keys
 * stands in a buffer of a ring; when all have, it is summed in a tree over the
 * groups, in their order.
 */
#include "policies/reference_private.h"

#include "base/alloc.h"
#include "plan/key_tiles.h"
#include "plan/sight.h"
#include "plan/stretch.h"

#include <dsflow/rewrite.h>

#include <stdlib.h>

/* Of the buffer of keys that attention goes back through. */
struct dsf_key_sums {
    bool *sees; /* [groups]: some tile of it does */
    int32_t nsee;
    dsflow_data_id *of;   /* [ports][groups] */
    dsflow_data_id *into; /* [ports]: the whole gradient; no data: none */
};

static struct dsf_key_sums *sums_of(struct step *s)
{
    const size_t groups = (size_t)s->plan->sequence_groups;

    if (s->key_sums != NULL)
        return s->key_sums;
    s->key_sums = dsf_xcalloc(1, sizeof(*s->key_sums));
    s->key_sums->sees = dsf_xcalloc(groups, sizeof(*s->key_sums->sees));
    s->key_sums->of =
        dsf_xcalloc(DSFLOW_SEGMENT_PORTS * groups, sizeof(*s->key_sums->of));
    s->key_sums->into =
        dsf_xcalloc(DSFLOW_SEGMENT_PORTS, sizeof(*s->key_sums->into));
    return s->key_sums;
}

void dsf_step_end_key_sums(struct step *s)
{
    if (s->key_sums == NULL)
        return;
    free(s->key_sums->sees);
    free(s->key_sums->of);
    free(s->key_sums->into);
    free(s->key_sums);
}

/* The buffer of a group, as large as the gradient. */
static dsflow_data_id buffer_of(struct step *s, dsflow_data_id whole, int l,
                                int32_t group, int k)
{
    const struct dsflow_data_spec *is = dsflow_graph_data(s->g, whole);
    struct dsflow_data_spec spec = *is;

    spec.role = DSFLOW_BUFFERS;
    spec.ring_class = DSF_RING_NONE;
    spec.ring = "mesh.key_slots";
    return dsflow_rewrite_named(
        s->g, &spec, "%s.sum.z%lld.c%d.g%d.%d", dsf_ring_name(is->ring_class).s,
        (long long)is->elems,
        (int)(dsflow_plan_chunk_of(s->plan, l) / s->plan->nstages), (int)group,
        (int)(dsf_plan_key_buffer(s->plan, k).number %
              dsf_plan_key_slots(s->plan)));
}

dsflow_data_id dsf_step_key_sum(struct step *s, int l, unsigned i, unsigned p,
                                int t, int k)
{
    const dsflow_data_id whole = dsf_step_on_port(s, l, i, p, k);
    const int32_t groups = s->plan->sequence_groups;
    struct dsf_key_sums *sums;
    dsflow_data_id *of;
    int32_t group;

    if (groups == 1 || !dsf_is_data(whole) || sums_of(s)->nsee == 1)
        return whole;
    sums = s->key_sums;
    group = dsf_plan_sequence_group(s->plan, t);
    of = &sums->of[(int32_t)p * groups + group];
    if (!dsf_is_data(*of))
        *of = buffer_of(s, whole, l, group, k);
    sums->into[p] = whole;
    return *of;
}

/* first[t]: the first tile of the first buffer that tile `t` sees. */
static int32_t *find_first(const struct step *s, int l,
                           const struct dsflow_segment *segment)
{
    int32_t *first = dsf_xcalloc((size_t)s->plan->ntiles, sizeof(*first));

    for (int32_t t = 0; t < s->plan->ntiles; t++)
        first[t] = dsf_plan_first_seen(s->plan, l, segment, t);
    return first;
}

/* Does tile `t`, which is not before tile `k`, see the buffer that is called
 * after that? */
static bool sees(const struct step *s, int l,
                 const struct dsflow_segment *segment, const int32_t *first,
                 int t, int k)
{
    return k >= first[t] && dsf_plan_sees(s->plan, l, segment, t, k);
}

static void begin_sums(struct step *s, int l,
                       const struct dsflow_segment *segment,
                       const int32_t *first, int k)
{
    const int32_t groups = s->plan->sequence_groups;
    struct dsf_key_sums *sums = sums_of(s);

    for (int32_t g = 0; g < groups; g++)
        sums->sees[g] = false;
    sums->nsee = 0;
    for (int32_t t = k; t < s->plan->ntiles; t++) {
        bool *seen = &sums->sees[dsf_plan_sequence_group(s->plan, t)];

        if (*seen || !sees(s, l, segment, first, t, k))
            continue;
        *seen = true;
        sums->nsee++;
    }
    for (unsigned p = 0; p < DSFLOW_SEGMENT_PORTS; p++)
        sums->into[p] = dsf_no_data();
    for (int32_t i = 0; i < DSFLOW_SEGMENT_PORTS * groups; i++)
        sums->of[i] = dsf_no_data();
}

/* The gradients of the keys of a buffer, out of those of all groups. */
static void emit_sums(struct step *s, int l, int k)
{
    const int32_t groups = s->plan->sequence_groups;
    const struct dsf_key_sums *sums = s->key_sums;
    dsflow_data_id *ports = dsf_xcalloc((size_t)groups + 1, sizeof(*ports));

    s->t = k;
    for (unsigned p = 0; p < DSFLOW_SEGMENT_PORTS; p++) {
        struct dsf_sum_args args = { .elems = 0 };
        unsigned n = 1;

        ports[0] = sums->into[p];
        if (!dsf_is_data(ports[0]))
            continue;
        for (int32_t g = 0; g < groups; g++)
            if (sums->sees[g])
                ports[n++] = sums->of[(int32_t)p * groups + g];
        args.elems = dsflow_graph_data(s->g, ports[0])->elems;
        dsf_step_emit(s, &dsf_op_reduce, &args, l, 1, n, ports);
    }
    free(ports);
}

/* Tiles that go through a layer together. */
struct range {
    int first, end;
};

bool dsf_step_is_together(const struct step *s, int l)
{
    return dsf_plan_stretches(s->plan) > 1 ||
           (s->plan->key_tiles > 1 && l >= 0 && l < s->model->layers);
}

/* All of them, or those of the buffer of keys that tile `t` is in. */
static struct range range_of(const struct step *s, int t)
{
    const struct dsf_key_buffer of = dsf_plan_key_buffer(s->plan, t);

    return dsf_plan_stretches(s->plan) > 1
               ? (struct range){ 0, s->plan->ntiles }
               : (struct range){ of.first, of.end };
}

/* The buffers that the present tile sees, in their order, or from the last. */
static void pairs_of_tile(struct step *s, int l, unsigned i, bool back)
{
    const struct dsflow_segment *segment = dsf_step_segments(s, l)[i];
    const int own = dsf_plan_key_tile(s->plan, s->t);
    const int first = dsf_plan_first_seen(s->plan, l, segment, s->t);

    for (int k = back ? own : first; k >= first && k <= own;
         k = back ? (k > first ? dsf_plan_key_tile(s->plan, k - 1) : first - 1)
                  : dsf_plan_key_buffer(s->plan, k).end)
        if (dsf_plan_sees(s->plan, l, segment, s->t, k))
            dsf_step_emit_segment(
                s, l, i, back ? segment->backward_input : segment->forward,
                s->t, k);
}

static void pairs_forward(struct step *s, int l, unsigned i, struct range range)
{
    const struct dsflow_segment *segment = dsf_step_segments(s, l)[i];
    int32_t *first;

    if (dsf_plan_stretches(s->plan) == 1) {
        for (s->t = range.first; s->t < range.end; s->t++)
            pairs_of_tile(s, l, i, false);
        return;
    }
    first = find_first(s, l, segment);
    for (int k = 0; k < s->plan->ntiles;
         k = dsf_plan_key_buffer(s->plan, k).end)
        for (s->t = k; s->t < s->plan->ntiles; s->t++)
            if (sees(s, l, segment, first, s->t, k))
                dsf_step_emit_segment(s, l, i, segment->forward, s->t, k);
    free(first);
}

static void pairs_backward(struct step *s, int l, unsigned i,
                           struct range range)
{
    const struct dsflow_segment *segment = dsf_step_segments(s, l)[i];
    int32_t *first;

    if (dsf_plan_stretches(s->plan) == 1) {
        for (s->t = range.end - 1; s->t >= range.first; s->t--)
            pairs_of_tile(s, l, i, true);
        return;
    }
    first = find_first(s, l, segment);
    for (int k = s->plan->ntiles; k > 0;) {
        k = dsf_plan_key_tile(s->plan, k - 1);
        begin_sums(s, l, segment, first, k);
        for (s->t = s->plan->ntiles - 1; s->t >= k; s->t--)
            if (sees(s, l, segment, first, s->t, k))
                dsf_step_emit_segment(s, l, i, segment->backward_input, s->t,
                                      k);
        emit_sums(s, l, k);
    }
    free(first);
}

static void forward_range(struct step *s, int l, struct range range)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);

    for (unsigned i = 0, end; segments[i] != NULL; i = end) {
        end = i + 1;
        if (segments[i]->pairs) {
            pairs_forward(s, l, i, range);
            continue;
        }
        while (segments[end] != NULL && !segments[end]->pairs)
            end++;
        for (s->t = range.first; s->t < range.end; s->t++)
            for (unsigned k = i; k < end; k++)
                dsf_step_emit_segment(s, l, k, segments[k]->forward, s->t,
                                      s->t);
    }
}

void dsf_step_forward_together(struct step *s, int l)
{
    for (int t = 0; t < s->plan->ntiles;) {
        const struct range range = range_of(s, t);

        forward_range(s, l, range);
        t = range.end;
    }
}

/* The present tile back through a segment: what pairs no tiles. */
static void back_alone(struct step *s, int l, unsigned i)
{
    const struct dsflow_segment *segment = dsf_step_segments(s, l)[i];

    if (segment->backward_input != NULL && !segment->pairs)
        dsf_step_emit_segment(s, l, i, segment->backward_input, s->t, s->t);
    if (segment->backward_weight != NULL)
        dsf_step_emit_segment(s, l, i, segment->backward_weight, s->t, s->t);
}

static void backward_range(struct step *s, int l, struct range range)
{
    const struct dsflow_segment *const *segments = dsf_step_segments(s, l);
    unsigned end = 0, i;

    while (segments[end] != NULL)
        end++;
    for (; end > 0; end = i) {
        i = end - 1;
        if (segments[i]->pairs && segments[i]->backward_input != NULL)
            pairs_backward(s, l, i, range);
        while (!segments[i]->pairs && i > 0 && !segments[i - 1]->pairs)
            i--;
        for (s->t = range.end - 1; s->t >= range.first; s->t--)
            for (unsigned k = end; k-- > i;)
                back_alone(s, l, k);
    }
}

void dsf_step_backward_together(struct step *s, int l)
{
    for (int t = s->plan->ntiles - 1; t >= 0;) {
        const struct range range = range_of(s, t);

        backward_range(s, l, range);
        t = range.first - 1;
    }
}
