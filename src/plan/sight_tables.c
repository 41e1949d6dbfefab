/* sight_tables.c - which buffers of keys (key_tiles.h) the tiles of a sequence
 * see by the layouts of a job, found out once. */
#include "plan/sight_private.h"

#include "base/alloc.h"
#include "plan/key_tiles.h"
#include "plan/sparse_layers.h"
#include "tasks/sparsity.h"

#include <stdlib.h>

/* The first token of tile `t` of a sequence; that behind the last one is there,
 * too. */
static int64_t begin_of(const struct dsflow_plan *plan, int32_t t)
{
    return t < plan->sight->ntiles ? plan->tiles[t].pos : plan->sequence;
}

int32_t dsf_sight_tile_at(const struct dsflow_plan *plan, int64_t token)
{
    int32_t first = 0, end = plan->sight->ntiles;

    while (end - first > 1) {
        const int32_t middle = first + (end - first) / 2;

        if (begin_of(plan, middle) <= token)
            first = middle;
        else
            end = middle;
    }
    return first;
}

/* Queries of block `row` see keys of block `column`: the tiles of both. Of two
 * of them the first query and the last key are the nearest. */
static void mark(const struct dsflow_plan *plan, const struct dsf_sight_of *of,
                 struct dsf_sight_table *table, int64_t row, int64_t column)
{
    const struct dsf_sight *s = plan->sight;
    const int64_t block = s->layouts[of->layout].block;
    const int64_t q_end = (row + 1) * block, k_end = (column + 1) * block;
    const int32_t last = dsf_sight_tile_at(plan, q_end - 1);
    const int32_t first_key = dsf_sight_tile_at(plan, column * block);
    const int32_t last_key = dsf_sight_tile_at(plan, k_end - 1);

    for (int32_t t = dsf_sight_tile_at(plan, row * block); t <= last; t++)
        for (int32_t k = first_key; k <= last_key && k <= t; k++) {
            const int64_t q = row * block > begin_of(plan, t)
                                  ? row * block
                                  : begin_of(plan, t);
            const int64_t end = begin_of(plan, k + 1);
            const int64_t key = (k_end < end ? k_end : end) - 1;

            if (of->window == 0 || q - key < of->window)
                table->sees[t * s->nbuffers + s->buffer[k]] = true;
        }
}

static void mark_head(const struct dsflow_plan *plan,
                      const struct dsf_sight_of *of,
                      struct dsf_sight_table *table, int32_t head)
{
    const struct dsf_layout l =
        dsf_attention_layout_of(&plan->sight->layouts[of->layout]);
    const size_t n = (size_t)plan->sight->layouts[of->layout].blocks;

    for (size_t r = 0; r < n; r++) {
        const uint64_t *row = dsf_layout_row(&l, (size_t)head, r);

        for (size_t c = dsf_layout_next(row, 0, n); c < n;
             c = dsf_layout_next(row, c + 1, n))
            mark(plan, of, table, (int64_t)r, (int64_t)c);
    }
}

/* Which are the first, and the last? */
static void close_table(const struct dsf_sight *s,
                        struct dsf_sight_table *table)
{
    const int32_t n = s->nbuffers;

    for (int32_t t = 0; t < s->ntiles; t++) {
        const int32_t own = s->buffer[t];

        table->sees[t * n + own] = true;
        for (int32_t b = own; b >= 0; b--)
            if (table->sees[t * n + b]) {
                table->first[t] = b;
                table->last[b] = t;
            }
    }
}

static void fill_table(const struct dsflow_plan *plan,
                       const struct dsf_sight_of *of,
                       struct dsf_sight_table *table, int32_t head,
                       int32_t heads)
{
    const struct dsf_sight *s = plan->sight;
    const size_t n = (size_t)s->ntiles, nbuffers = (size_t)s->nbuffers;

    table->sees = dsf_xcalloc(n * nbuffers, sizeof(*table->sees));
    table->first = dsf_xcalloc(n, sizeof(*table->first));
    table->last = dsf_xcalloc(nbuffers, sizeof(*table->last));
    for (int32_t h = head; h < head + heads; h++)
        mark_head(plan, of, table, h);
    close_table(s, table);
}

/* Pairs of a query and a key that see each other. */
static double count_pairs(const struct dsflow_plan *plan,
                          const struct dsf_sight_of *of)
{
    const struct dsf_attention_layout *layout =
        &plan->sight->layouts[of->layout];
    const struct dsf_layout l = dsf_attention_layout_of(layout);
    const struct dsf_layout_pair all = { 0, (size_t)plan->sequence, 0,
                                         (size_t)plan->sequence,
                                         (size_t)of->window };

    return dsf_layout_count(&l, &all, 0, (size_t)layout->heads) / layout->heads;
}

/* Heads that all have the same layout are not told apart. */
static void fill_tables(const struct dsflow_plan *plan, struct dsf_sight_of *of)
{
    const struct dsf_sight *s = plan->sight;
    const int32_t heads = s->layouts[of->layout].heads;

    of->table = dsf_xcalloc((size_t)s->ntables, sizeof(*of->table));
    fill_table(plan, of, &of->table[0], 0, heads);
    for (int32_t p = 0; p + 1 < s->ntables; p++) {
        const int32_t each = heads > 1 ? heads / s->parts : 1;

        fill_table(plan, of, &of->table[1 + p], heads > 1 ? p * each : 0, each);
    }
}

/* --- layouts -------------------------------------------------------------- */

/* Which layout is this one? It is freed where it is there already. */
static int32_t keep_layout(struct dsf_sight *s,
                           struct dsf_attention_layout *layout)
{
    for (int32_t i = 0; i < s->nlayouts; i++)
        if (dsf_attention_layout_equal(&s->layouts[i], layout)) {
            dsf_attention_layout_free(layout);
            return i;
        }
    s->layouts =
        dsf_xrealloc(s->layouts, (size_t)s->nlayouts + 1, sizeof(*s->layouts));
    s->layouts[s->nlayouts] = *layout;
    return s->nlayouts++;
}

static int32_t keep_sight(const struct dsflow_plan *plan, int32_t layout,
                          int32_t window)
{
    struct dsf_sight *s = plan->sight;

    for (int32_t i = 0; i < s->nof; i++)
        if (s->of[i].layout == layout && s->of[i].window == window)
            return i;
    s->of = dsf_xrealloc(s->of, (size_t)s->nof + 1, sizeof(*s->of));
    s->of[s->nof] = (struct dsf_sight_of){ .layout = layout, .window = window };
    s->of[s->nof].pairs = count_pairs(plan, &s->of[s->nof]);
    return s->nof++;
}

static int lay_out(struct dsflow_plan *plan, int32_t l, struct dsflow_err *err)
{
    struct dsf_attention_layout layout;
    int status = dsf_sparse_layout(plan, l, &layout, err);

    if (status == DSFLOW_OK)
        plan->sight->layer[l] = keep_sight(
            plan, keep_layout(plan->sight, &layout), dsf_window_of(plan, l));
    return status;
}

/* With room for its tables; no layer has one as yet. */
static struct dsf_sight *begin(const struct dsflow_plan *plan)
{
    struct dsf_sight *s = dsf_xcalloc(1, sizeof(*s));

    s->parts = plan->nparts;
    s->ntables = plan->nparts > 1 ? 1 + plan->nparts : 1;
    s->layer = dsf_xcalloc((size_t)plan->model->layers, sizeof(*s->layer));
    for (int32_t l = 0; l < plan->model->layers; l++)
        s->layer[l] = -1;
    return s;
}

/* Which tiles of keys stand together is known when the layouts are. */
static void fill_sight(struct dsflow_plan *plan)
{
    struct dsf_sight *s = plan->sight;

    dsf_plan_cut_keys(plan);
    if (s == NULL)
        return;
    s->ntiles = plan->sequence_tiles;
    s->buffer = dsf_xcalloc((size_t)s->ntiles, sizeof(*s->buffer));
    s->begin = dsf_xcalloc((size_t)s->ntiles, sizeof(*s->begin));
    for (int32_t t = 0; t < s->ntiles; t++) {
        if (dsf_plan_key_tile(plan, t) == t)
            s->begin[s->nbuffers++] = t;
        s->buffer[t] = s->nbuffers - 1;
    }
    for (int32_t i = 0; i < s->nof; i++)
        fill_tables(plan, &s->of[i]);
}

int dsf_sight_new(struct dsflow_plan *plan, struct dsflow_err *err)
{
    bool *on;
    int status;

    if (!dsf_job_is_sparse(plan->job)) {
        fill_sight(plan);
        return DSFLOW_OK;
    }
    on = dsf_xcalloc((size_t)plan->model->layers, sizeof(*on));
    plan->sight = begin(plan);
    status = dsf_sparse_layers(plan, on, err);
    for (int32_t l = 0; l < plan->model->layers && status == DSFLOW_OK; l++)
        if (on[l])
            status = lay_out(plan, l, err);
    free(on);
    if (status == DSFLOW_OK)
        fill_sight(plan);
    return status;
}

void dsf_sight_free(struct dsf_sight *s)
{
    if (s == NULL)
        return;
    for (int32_t i = 0; i < s->nof; i++) {
        for (int32_t p = 0; p < s->ntables && s->of[i].table != NULL; p++) {
            free(s->of[i].table[p].sees);
            free(s->of[i].table[p].first);
            free(s->of[i].table[p].last);
        }
        free(s->of[i].table);
    }
    for (int32_t i = 0; i < s->nlayouts; i++)
        dsf_attention_layout_free(&s->layouts[i]);
    free(s->layouts);
    free(s->of);
    free(s->layer);
    free(s->buffer);
    free(s->begin);
    free(s);
}
