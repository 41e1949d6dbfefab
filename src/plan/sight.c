/* sight.c - which tiles of keys a tile of queries sees in a layer. */
#include "plan/sight.h"

#include "plan/stretch.h"

static int32_t window_of(const struct dsflow_plan *plan, int32_t l,
                         const struct dsflow_segment *segment)
{
    return segment == &dsf_segment_attention
               ? dsf_model_layer(plan->model, l)->dims.window
               : 0;
}

/* The first query and the last key of two tiles are the nearest. */
bool dsf_plan_sees(const struct dsflow_plan *plan, int32_t l,
                   const struct dsflow_segment *segment, int32_t t, int32_t k)
{
    const struct dsf_tile_rows *keys = &plan->tiles[k];
    const int32_t window = window_of(plan, l, segment);

    return window == 0 || t == k ||
           plan->tiles[t].pos - (keys->pos + keys->rows) + 1 < window;
}

/* Is there a tile of the same sequence before this one? */
static bool goes_on(const struct dsflow_plan *plan, int32_t t)
{
    return t < plan->ntiles && plan->tiles[t].pos > 0;
}

int32_t dsf_plan_first_seen(const struct dsflow_plan *plan, int32_t l,
                            const struct dsflow_segment *segment, int32_t t)
{
    int32_t k = t;

    while (segment->pairs && goes_on(plan, k) &&
           dsf_plan_sees(plan, l, segment, t, k - 1))
        k--;
    return k;
}

bool dsf_plan_sees_last(const struct dsflow_plan *plan, int32_t l,
                        const struct dsflow_segment *segment, int32_t t,
                        int32_t k)
{
    const int32_t group = dsf_plan_sequence_group(plan, t);

    for (int32_t next = t + 1; goes_on(plan, next); next++)
        if (dsf_plan_sequence_group(plan, next) == group)
            return !dsf_plan_sees(plan, l, segment, next, k);
    return true;
}
