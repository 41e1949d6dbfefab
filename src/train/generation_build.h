/* generation_build.h - how the graph of generation is made: its data and its
 * tasks, before they are told which tokens they are for. */
#ifndef DSF_TRAIN_GENERATION_BUILD_H
#define DSF_TRAIN_GENERATION_BUILD_H

#include "train/generation.h"

/* Shapes of data. */
static inline struct dsflow_need dsf_build_numbers(enum dsflow_dtype type,
                                                   int64_t rows, int64_t cols)
{
    return (struct dsflow_need){ rows, cols, type };
}

static inline struct dsflow_need dsf_build_floats(int64_t rows, int64_t cols)
{
    return dsf_build_numbers(DSFLOW_FP32, rows, cols);
}

static inline struct dsflow_data_spec dsf_build_passing(void)
{
    return DSFLOW_DATA(.role = DSFLOW_BUFFERS);
}

/* What the program around the graph reads or writes, or the next tokens need.
 */
static inline struct dsflow_data_spec dsf_build_lasting(void)
{
    return DSFLOW_DATA(.role = DSFLOW_BUFFERS, .persistent = 1);
}

/* Data of worker `part`, of that shape; `fmt` makes its name. */
dsflow_data_id dsf_build_data(struct dsf_generation *g, int32_t part,
                              struct dsflow_data_spec spec,
                              struct dsflow_need need, const char *fmt, ...)
    DSFLOW_PRINTF(5, 6);

/* What a task is of; `slice` NULL: of a whole segment. */
struct dsf_task_of {
    const struct dsflow_segment *segment;
    const struct dsf_slice *slice;
    const struct dsflow_op *op;
    int32_t layer, part;
};

/* A task that has no data yet; valid until the next one. */
struct dsf_generation_task *dsf_build_task(struct dsf_generation *g,
                                           struct dsf_task_of of);

/* Data on a port, unless it is none. `keys`: it is of all tokens so far. */
void dsf_build_bind(struct dsf_generation_task *t, unsigned port,
                    dsflow_data_id id, bool keys);

/* Rows of a port of the segment, in the type of other data. */
void dsf_build_cast(struct dsf_generation *g, struct dsf_task_of of,
                    unsigned port, dsflow_data_id into, dsflow_data_id from);

/* The last task becomes two: with all keys so far, and then with its own. Where
 * they are in a ring, `kept`, and its own are `aside` (else it is no data):
 * three, with two runs of earlier keys and with its own, which then go into the
 * ring.
 */
void dsf_build_pair(struct dsf_generation *g, dsflow_data_id kept,
                    dsflow_data_id aside);

/* What new keys of a port stand in, of all layers with a ring. */
dsflow_data_id dsf_build_aside(struct dsf_generation *g, int32_t part,
                               struct dsflow_need need);

/* All tasks of one program: of whole segments, or of columns of them. */
void dsf_generation_whole(struct dsf_generation *g);
void dsf_generation_shared(struct dsf_generation *g);

#endif
