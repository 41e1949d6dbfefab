/* tile.h - what the checks and costs of the segments share. */
#ifndef DSF_TASKS_TILE_H
#define DSF_TASKS_TILE_H

#include <dsflow/op.h>
#include "tasks/args.h"
#include "tasks/shapes.h"

/* Attention works on this many queries by this many keys at a time; the head
 * takes this many columns of the vocabulary at a time. Their scratch, and so
 * the sums and their order, follow from these. */
enum {
    DSF_STRIP_FORWARD = 24,
    DSF_STRIP_BACKWARD = 48,
    DSF_KEY_BLOCK = 128,
    DSF_HEAD_COLUMNS = 2048
};

/* Numbers (floats) of the parts of a tile. */
static inline size_t dsf_tile_x(const struct dsflow_tile *t)
{
    return (size_t)t->rows * (size_t)t->width;
}

static inline size_t dsf_tile_qwidth(const struct dsflow_tile *t)
{
    return (size_t)t->heads * (size_t)t->head_dim;
}

/* Of keys and values together. */
static inline size_t dsf_tile_kvwidth(const struct dsflow_tile *t)
{
    return 2 * (size_t)t->kv_heads * (size_t)t->head_dim;
}

static inline size_t dsf_tile_hwidth(const struct dsflow_tile *t)
{
    return (size_t)t->ffn * (t->swiglu ? 2 : 1);
}

/* Rows of one sequence. */
static inline size_t dsf_tile_length(const struct dsflow_tile *t)
{
    return (size_t)t->rows / (size_t)t->nseq;
}

/* A number of floats, rounded up to whole cache lines: parts of scratch. */
static inline size_t dsf_round16(size_t n)
{
    return (n + 15) / 16 * 16;
}

/* Are the numbers of a tile in range, and do they agree? `op` is named in the
 * message. */
int dsf_tile_check(const struct dsflow_op *op, const struct dsflow_tile *t,
                   struct dsflow_err *err);

/* Has every port at least elems[i] elements, of the type it declares, or of
 * fp32 where it declares none? */
int dsf_ports_check(const struct dsflow_op *op,
                    const struct dsflow_shape *shapes, const size_t *elems,
                    unsigned n, struct dsflow_err *err);

/* A tensor of `n` numbers at `at` of a unit: raise *need to its end. `at` may
 * be -1 when `optional`. */
int dsf_unit_need(const struct dsflow_op *op, const char *name, int64_t at,
                  size_t n, int optional, size_t *need, struct dsflow_err *err);

/* Blocks of DSF_HEAD_COLUMNS columns of the vocabulary. */
static inline size_t dsf_head_blocks(const struct dsflow_tile *t)
{
    return ((size_t)t->vocab + DSF_HEAD_COLUMNS - 1) / DSF_HEAD_COLUMNS;
}

/* Numbers of a unit read or written: those of all ports, counted once, and
 * twice where a port is both. */
double dsf_ports_bytes(const struct dsflow_op *op,
                       const struct dsflow_shape *shapes, unsigned n);

#endif
