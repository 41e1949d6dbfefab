/* sight.h - which tiles of keys a tile of queries sees in a layer. */
#ifndef DSF_PLAN_SIGHT_H
#define DSF_PLAN_SIGHT_H

#include "plan/plan.h"

/* Does a query of tile `t` see a key of tile `k`, of its own sequence and not
 * behind it? `segment` is the one of layer `l` that pairs them: one of a
 * plug-in gets all pairs, whatever the window of the layer. */
bool dsf_plan_sees(const struct dsflow_plan *plan, int32_t l,
                   const struct dsflow_segment *segment, int32_t t, int32_t k);

/* The first tile whose keys tile `t` sees; `t` itself where the segment pairs
 * no tiles, or the tile has whole sequences. */
int32_t dsf_plan_first_seen(const struct dsflow_plan *plan, int32_t l,
                            const struct dsflow_segment *segment, int32_t t);

/* Is `t` the last tile of its group of tokens (stretch.h) that sees the keys of
 * tile `k`? */
bool dsf_plan_sees_last(const struct dsflow_plan *plan, int32_t l,
                        const struct dsflow_segment *segment, int32_t t,
                        int32_t k);

#endif
