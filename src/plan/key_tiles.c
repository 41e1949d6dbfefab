/* key_tiles.c - how many tiles have their keys and values in one buffer. */
#include "plan/key_tiles.h"

#include "plan/sight.h"
#include "plan/stretch.h"

#include <string.h>

/* Tasks of a tile of queries in a layer and a pass, at most. */
enum { MOST_TASKS = 16 };

static int32_t div_up(int64_t a, int64_t b)
{
    return (int32_t)((a + b - 1) / b);
}

/* Do only built-in segments use keys and values? Others know of one tile. */
static bool is_builtin(const struct dsflow_plan *plan)
{
    const struct dsf_model *model = plan->model;

    if (strcmp(plan->job->model.qkv, "builtin") != 0 ||
        strcmp(plan->job->model.attention, "builtin") != 0)
        return false;
    for (int32_t l = 0; l < model->layers; l++) {
        const struct dsflow_segment *const *s =
            dsf_model_layer(model, l)->segments;

        for (; *s != NULL; s++)
            for (unsigned p = 0; p < (*s)->nports; p++)
                if (*s != &dsf_segment_qkv && *s != &dsf_segment_attention &&
                    ((*s)->ports[p].of_keys ||
                     ((*s)->ports[p].from == DSFLOW_FROM_OTHER &&
                      strcmp((*s)->ports[p].other, "qkv") == 0)))
                    return false;
    }
    return true;
}

/* Tiles that the last tile of a sequence looks back on in layer `l`, itself
 * among them. */
static int32_t span_of(const struct dsflow_plan *plan, int32_t l)
{
    const int32_t window = dsf_model_layer(plan->model, l)->dims.window;
    const int32_t n = plan->sequence_tiles;
    const int32_t seen = div_up(window, plan->tiles[0].rows) + 1;

    return window > 0 && seen < n ? seen : n;
}

/* The share that a layout leaves of the pairs of a query and a key. */
static double density_of(const struct dsflow_plan *plan, int32_t l)
{
    return dsf_plan_keys(plan, l) / ((double)plan->sequence + 1);
}

static int32_t auto_tiles(const struct dsflow_plan *plan)
{
    int32_t most = 1, least = plan->sequence_tiles;

    for (int32_t l = 0; l < plan->model->layers; l++) {
        const int32_t tasks = div_up(span_of(plan, l), MOST_TASKS);
        int32_t number, sparse = tasks;

        if (dsf_plan_layout_of(plan, l, &number) != NULL)
            sparse = (int32_t)(tasks / density_of(plan, l));
        most = tasks > most ? tasks : most;
        least = sparse < least ? sparse : least;
    }
    least = least < plan->sequence_tiles / 2 ? least : plan->sequence_tiles / 2;
    return least > most ? least : most;
}

/* Sums of gradients of keys over groups of tokens are those of all groups that
 * see a buffer: where windows or layouts hide some of its tiles from a group,
 * a buffer of several would have another tree. */
static bool sums_differ(const struct dsflow_plan *plan)
{
    int32_t number;

    for (int32_t l = 0; l < plan->model->layers && plan->sequence_groups > 1;
         l++)
        if (dsf_model_layer(plan->model, l)->dims.window > 0 ||
            dsf_plan_layout_of(plan, l, &number) != NULL)
            return true;
    return false;
}

void dsf_plan_cut_keys(struct dsflow_plan *plan)
{
    const int64_t asked = plan->job->batch.key_tiles;
    int32_t stretch;

    plan->sequence_tiles = 1;
    while (plan->sequence_tiles < plan->ntiles &&
           plan->tiles[plan->sequence_tiles].pos > 0)
        plan->sequence_tiles++;
    plan->key_tiles = 1;
    stretch = plan->sequence_tiles / dsf_plan_stretches(plan);
    if (stretch < 2 || dsf_plan_has_gpus(plan) || !is_builtin(plan) ||
        sums_differ(plan))
        return;
    plan->key_tiles = asked > 0 ? (int32_t)asked : auto_tiles(plan);
    if (plan->key_tiles > stretch)
        plan->key_tiles = stretch;
}

int32_t dsf_plan_key_tile(const struct dsflow_plan *plan, int32_t t)
{
    const int32_t stretch = plan->sequence_tiles / dsf_plan_stretches(plan);

    return plan->key_tiles == 1 || t >= plan->ntiles
               ? t
               : t - t % plan->sequence_tiles % stretch % plan->key_tiles;
}

/* Buffers in front of the one that is called after tile `first`. */
static int32_t number_of(const struct dsflow_plan *plan, int32_t first)
{
    const int32_t stretch = plan->sequence_tiles / dsf_plan_stretches(plan);
    const int32_t of_stretch = div_up(stretch, plan->key_tiles);

    return plan->key_tiles == 1 ? first
                                : first / stretch * of_stretch +
                                      first % stretch / plan->key_tiles;
}

struct dsf_key_buffer dsf_plan_key_buffer(const struct dsflow_plan *plan,
                                          int32_t t)
{
    const struct dsf_tile_rows *tiles = plan->tiles;
    struct dsf_key_buffer b = { .first = dsf_plan_key_tile(plan, t) };

    b.end = b.first + 1;
    while (b.end < plan->ntiles && dsf_plan_key_tile(plan, b.end) == b.first)
        b.end++;
    b.number = number_of(plan, b.first);
    b.rows = tiles[b.end - 1].pos + tiles[b.end - 1].rows - tiles[b.first].pos;
    b.each = b.end - b.first > 1 ? tiles[b.first].rows : 0;
    return b;
}
