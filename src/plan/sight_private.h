/* sight_private.h - what is known of who sees whom; for sight.c, which is
 * asked, and sight_tables.c, which finds it out. */
#ifndef DSF_PLAN_SIGHT_PRIVATE_H
#define DSF_PLAN_SIGHT_PRIVATE_H

#include "plan/sight.h"

/* What the tiles of a sequence see of its buffers of keys. Those of all
 * sequences are cut alike, and are numbered within theirs. */
struct dsf_sight_table {
    bool *sees;     /* [ntiles][nbuffers] */
    int32_t *first; /* [ntiles]: the first buffer that is seen */
    int32_t *last;  /* [nbuffers]: the last tile that sees it */
};

/* A layout with a window. */
struct dsf_sight_of {
    int32_t layout, window;
    double pairs;                  /* of a query and a key, in all heads */
    struct dsf_sight_table *table; /* [1 + parts]: of all heads, of those of
                                      each part */
};

struct dsf_sight {
    struct dsf_attention_layout *layouts;
    int32_t nlayouts;
    struct dsf_sight_of *of;
    int32_t nof;
    int32_t *layer;   /* [layers]: of which `of`; -1: all blocks are seen */
    int32_t ntiles;   /* of a sequence */
    int32_t nbuffers; /* of it */
    int32_t *buffer;  /* [ntiles]: that has the keys of the tile */
    int32_t *begin;   /* [nbuffers]: its first tile */
    int32_t ntables, parts; /* of each `of`; among how many heads are shared */
};

static inline int32_t dsf_window_of(const struct dsflow_plan *plan, int32_t l)
{
    return dsf_model_layer(plan->model, l)->dims.window;
}

/* The tile of a sequence that has a token. */
int32_t dsf_sight_tile_at(const struct dsflow_plan *plan, int64_t token);

#endif
