/* sight.c - which buffers of keys (key_tiles.h) a tile of queries sees in a
 * layer. */
#include "plan/sight_private.h"

#include "plan/key_tiles.h"
#include "plan/stretch.h"

#include <string.h>

/* NULL: no layout hides anything. */
static const struct dsf_sight_of *sight_of(const struct dsflow_plan *plan,
                                           int32_t l)
{
    const struct dsf_sight *s = plan->sight;

    return s == NULL || l < 0 || l >= plan->model->layers || s->layer[l] < 0
               ? NULL
               : &s->of[s->layer[l]];
}

static const struct dsf_sight_of *seen_by(const struct dsflow_plan *plan,
                                          int32_t l,
                                          const struct dsflow_segment *segment)
{
    return segment == &dsf_segment_attention ? sight_of(plan, l) : NULL;
}

/* The number of a tile in its sequence, and that of the buffer of its keys. */
static int32_t number_of(const struct dsflow_plan *plan, int32_t t)
{
    return t % plan->sight->ntiles;
}

static int32_t buffer_of(const struct dsflow_plan *plan, int32_t k)
{
    return plan->sight->buffer[number_of(plan, k)];
}

/* Is tile `t` of a sequence the last of its group that sees buffer `b`? */
static bool is_last(const struct dsflow_plan *plan,
                    const struct dsf_sight_table *table, int32_t t, int32_t b)
{
    const struct dsf_sight *s = plan->sight;

    if (plan->sequence_groups == 1)
        return table->last[b] == t;
    for (int32_t next = t + 1; next < s->ntiles; next++)
        if (table->sees[next * s->nbuffers + b] &&
            dsf_plan_sequence_group(plan, next) ==
                dsf_plan_sequence_group(plan, t))
            return false;
    return true;
}

bool dsf_plan_sees(const struct dsflow_plan *plan, int32_t l,
                   const struct dsflow_segment *segment, int32_t t, int32_t k)
{
    const struct dsf_sight_of *of = seen_by(plan, l, segment);
    const int32_t window =
        segment == &dsf_segment_attention ? dsf_window_of(plan, l) : 0;
    struct dsf_key_buffer keys;

    if (of != NULL)
        return of->table[0].sees[number_of(plan, t) * plan->sight->nbuffers +
                                 buffer_of(plan, k)];
    if (window == 0)
        return true;
    /* The first query and the last key of two tiles are the nearest. */
    keys = dsf_plan_key_buffer(plan, k);
    return t < keys.end ||
           plan->tiles[t].pos - plan->tiles[keys.first].pos - keys.rows + 1 <
               window;
}

/* Is there a tile of the same sequence before this one? */
static bool goes_on(const struct dsflow_plan *plan, int32_t t)
{
    return t < plan->ntiles && plan->tiles[t].pos > 0;
}

int32_t dsf_plan_first_seen(const struct dsflow_plan *plan, int32_t l,
                            const struct dsflow_segment *segment, int32_t t)
{
    const struct dsf_sight_of *of = seen_by(plan, l, segment);
    int32_t k = t;

    if (of != NULL) {
        const int32_t n = number_of(plan, t);

        return t - n + plan->sight->begin[of->table[0].first[n]];
    }
    if (!segment->pairs)
        return t;
    k = dsf_plan_key_tile(plan, t);
    while (goes_on(plan, k) && dsf_plan_sees(plan, l, segment, t, k - 1))
        k = dsf_plan_key_tile(plan, k - 1);
    return k;
}

bool dsf_plan_sees_first(const struct dsflow_plan *plan, int32_t l,
                         const struct dsflow_segment *segment, int32_t t,
                         int32_t k)
{
    const struct dsf_sight_of *of = seen_by(plan, l, segment);

    k = dsf_plan_key_tile(plan, k);
    if (of != NULL)
        return of->table[0].first[number_of(plan, t)] == buffer_of(plan, k);
    return plan->tiles[k].pos == 0 ||
           !dsf_plan_sees(plan, l, segment, t, k - 1);
}

bool dsf_plan_sees_last(const struct dsflow_plan *plan, int32_t l,
                        const struct dsflow_segment *segment, int32_t t,
                        int32_t k)
{
    const struct dsf_sight_of *of = seen_by(plan, l, segment);

    const int32_t group = dsf_plan_sequence_group(plan, t);

    if (of != NULL)
        return is_last(plan, &of->table[0], number_of(plan, t),
                       buffer_of(plan, k));
    for (int32_t next = t + 1; goes_on(plan, next); next++)
        if (dsf_plan_sequence_group(plan, next) == group)
            return !dsf_plan_sees(plan, l, segment, next, k);
    return true;
}

const struct dsf_attention_layout *
dsf_plan_layout_of(const struct dsflow_plan *plan, int32_t l, int32_t *number)
{
    const struct dsf_sight_of *of = sight_of(plan, l);

    if (of == NULL)
        return NULL;
    *number = of->layout;
    return &plan->sight->layouts[of->layout];
}

const struct dsf_attention_layout *
dsf_plan_layout_at(const struct dsflow_plan *plan, int32_t number)
{
    const struct dsf_sight *s = plan->sight;

    return s != NULL && number < s->nlayouts ? &s->layouts[number] : NULL;
}

void dsf_plan_fill_constant(const struct dsflow_plan *plan,
                            const struct dsflow_data_spec *spec, void *to)
{
    const struct dsf_attention_layout *layout;

    if (spec->dtype != DSFLOW_INT64) {
        dsf_model_rope_table(plan->model, to);
        return;
    }
    layout = dsf_plan_layout_at(plan, spec->part);
    memcpy(to, layout->bits, dsf_attention_layout_bytes(layout));
}

bool dsf_plan_sight_part(const struct dsflow_plan *plan, int32_t l, int32_t t,
                         int32_t part, struct dsflow_attention_args *a)
{
    const struct dsf_sight *s = plan->sight;
    const struct dsf_sight_of *of = sight_of(plan, l);
    const struct dsf_sight_table *table;
    int32_t q, b;

    if (of == NULL)
        return true;
    /* What groups of tokens add to the gradients of keys is summed for all
     * parts alike. */
    table = &of->table[plan->sequence_groups > 1 ? 0 : 1 + part];
    q = number_of(plan, t);
    b = s->buffer[a->diagonal ? q : dsf_sight_tile_at(plan, a->key_pos)];
    if (!table->sees[q * s->nbuffers + b])
        return false;
    a->first = table->first[q] == b;
    a->first_kv = is_last(plan, table, q, b);
    dsf_attention_lay_out(&s->layouts[of->layout], part * a->tile.heads, a);
    return true;
}

double dsf_plan_keys(const struct dsflow_plan *plan, int32_t l)
{
    const struct dsf_sight_of *of = sight_of(plan, l);

    return of == NULL ? dsf_model_keys(plan->model, l, plan->sequence)
                      : 2 * of->pairs / plan->sequence;
}

/* Without a layout: what a tile sees are the buffers behind the first one that
 * is near enough. */
static double near_pairs(const struct dsflow_plan *plan, int32_t l)
{
    int32_t first = 0, seen = 0, end = 0;
    double n = 0;

    for (int32_t t = 0; t < plan->ntiles; t++) {
        if (!goes_on(plan, t)) {
            first = end = t;
            seen = 0;
        }
        if (t == end) {
            end = dsf_plan_key_buffer(plan, t).end;
            seen++;
        }
        for (; !dsf_plan_sees(plan, l, &dsf_segment_attention, t, first);
             seen--)
            first = dsf_plan_key_buffer(plan, first).end;
        n += seen;
    }
    return n;
}

double dsf_plan_pairs(const struct dsflow_plan *plan, int32_t l)
{
    const struct dsf_sight_of *of = sight_of(plan, l);
    const struct dsf_sight *s = plan->sight;
    double n = 0;

    if (of == NULL)
        return near_pairs(plan, l);
    for (int32_t i = 0; i < s->ntiles * s->nbuffers; i++)
        n += of->table[0].sees[i];
    return n * plan->ntiles / s->ntiles;
}
