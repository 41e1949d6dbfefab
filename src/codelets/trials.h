/* trials.h - random cases of the built-in kinds of task. */
#ifndef DSF_CODELETS_TRIALS_H
#define DSF_CODELETS_TRIALS_H

#include <stdbool.h>
#include <dsflow/codelet.h>
#include <dsflow/segments.h>

#include "tasks/args.h"

/* Of whole segments, and of what one of several tensor ranks does. */
extern const struct dsflow_trials dsf_trials_segment, dsf_trials_part;

extern const struct dsflow_trials dsf_trials_update, dsf_trials_add,
    dsf_trials_square, dsf_trials_sum, dsf_trials_clip, dsf_trials_clip_group,
    dsf_trials_cast, dsf_trials_wait, dsf_trials_lamb, dsf_trials_ratio,
    dsf_trials_muon, dsf_trials_compress, dsf_trials_onebit,
    dsf_trials_onebit_lamb, dsf_trials_rows, dsf_trials_zeroone,
    dsf_trials_fake_quantize;

/* Of what several workers do of one token. */
extern const struct dsflow_trials dsf_trials_columns;

/* Of heads that go from ranks to ranks. */
extern const struct dsflow_trials dsf_trials_heads;

/* The type of a case: fp32, bf16 or fp16, by its seed. `shapes` are those of an
 * fp32 case; data on ports that take others becomes narrow, sums only where the
 * op's check accepts that. */
void dsf_trials_narrow(const struct dsflow_op *op, uint64_t seed,
                       struct dsflow_shape *shapes, unsigned n,
                       const void *args);

/* A number from least to most. */
int32_t dsf_any(uint64_t *state, int32_t least, int32_t most);

/* Shapes of so many fp32, of doubles, and of a struct dsflow_control. */
struct dsflow_shape dsf_shape_floats(int64_t n);
struct dsflow_shape dsf_shape_doubles(int64_t n);
struct dsflow_shape dsf_shape_control(void);

/* Random numbers, in the type that a port has in the case of that seed. */
int dsf_fill_as_made(const struct dsflow_trials *trials,
                     const struct dsflow_op *op, uint64_t seed, unsigned port,
                     uint64_t *state, void *data, int64_t elems);

/* Signs of one or two tensors, with a block between them that is not coded; how
 * many numbers the unit has. And some blocks of them. */
struct dsf_coding dsf_any_signs(uint64_t *state, int64_t *elems);
void dsf_any_chunks(uint64_t *state, struct dsf_chunk_args *a);

/* Where numbers begin: a multiple of 16. */
int64_t dsf_any_place(uint64_t *state);

/* The sizes of a small model, and of a tile of it. */
struct dsflow_tile dsf_any_tile(uint64_t *state);

/* Set by who tries a model of its own: cases are of this tile. NULL: of any. */
extern const struct dsflow_tile *dsf_trials_tile;

#endif
