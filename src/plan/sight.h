/* sight.h - which keys a tile of queries sees in a layer: tiles of them, of
 * which several may stand in one buffer (key_tiles.h). `k` is any tile of a
 * buffer, and what is said of its keys is said of all in the buffer. */
#ifndef DSF_PLAN_SIGHT_H
#define DSF_PLAN_SIGHT_H

#include "plan/plan.h"
#include "tasks/attention_layout.h"

/* Make plan->sight, of a plan whose tiles are cut: the layouts of
 * [sparse_attention], and which tiles see which by them. Errors are about its
 * keys. */
int dsf_sight_new(struct dsflow_plan *plan, struct dsflow_err *err);
void dsf_sight_free(struct dsf_sight *sight); /* NULL is fine */

/* Does a query of tile `t` see a key of tile `k`, of its own sequence and not
 * behind it? The tile itself is always seen. `segment` is the one of layer `l`
 * that pairs them: one of a plug-in gets all pairs, whatever the window of the
 * layer. */
bool dsf_plan_sees(const struct dsflow_plan *plan, int32_t l,
                   const struct dsflow_segment *segment, int32_t t, int32_t k);

/* The first tile of the first buffer of keys that tile `t` sees; `t` itself
 * where the segment pairs no tiles, or the tile has whole sequences. */
int32_t dsf_plan_first_seen(const struct dsflow_plan *plan, int32_t l,
                            const struct dsflow_segment *segment, int32_t t);

/* Of two tiles that see each other: is `k` the first that `t` sees? Is `t` the
 * last of its group of tokens (stretch.h) that sees the keys of `k`? */
bool dsf_plan_sees_first(const struct dsflow_plan *plan, int32_t l,
                         const struct dsflow_segment *segment, int32_t t,
                         int32_t k);
bool dsf_plan_sees_last(const struct dsflow_plan *plan, int32_t l,
                        const struct dsflow_segment *segment, int32_t t,
                        int32_t k);

/* The layout of layer `l`; NULL: it has none. Several layers may have the same,
 * which has a number: dsf_plan_layout_at gives it, and NULL past the last. */
const struct dsf_attention_layout *
dsf_plan_layout_of(const struct dsflow_plan *plan, int32_t l, int32_t *number);
const struct dsf_attention_layout *
dsf_plan_layout_at(const struct dsflow_plan *plan, int32_t number);

/* The contents of a constant of a graph: a layout, or the table of rotations.
 */
void dsf_plan_fill_constant(const struct dsflow_plan *plan,
                            const struct dsflow_data_spec *spec, void *to);

/* What tensor rank `part` does of a task of attention of tile `t` and layer
 * `l`: `args` are those of all heads, but for the tile, which is the part's.
 * False: its heads see none of the keys, and there is no task. */
bool dsf_plan_sight_part(const struct dsflow_plan *plan, int32_t l, int32_t t,
                         int32_t part, struct dsflow_attention_args *args);

/* Twice the keys that a token sees on average in layer `l`: the sequence, or
 * fewer where a window or a layout hides some. */
double dsf_plan_keys(const struct dsflow_plan *plan, int32_t l);

/* Pairs of a tile and a buffer of keys that it sees in layer `l`, of a
 * micro-batch: tasks of attention, forward. */
double dsf_plan_pairs(const struct dsflow_plan *plan, int32_t l);

#endif
