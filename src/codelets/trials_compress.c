/* trials_compress.c - random cases of what codes numbers for the wire. */
#include "codelets/trials.h"

#include "base/alloc.h"
#include "base/random.h"
#include "tasks/tasks.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A coding, and how many numbers the unit has. */
static struct dsf_coding any_coding(uint64_t *state, int64_t *elems)
{
    static const int64_t blocks[] = { 16, 48, 64, 256, 1024 };
    const int nblocks = sizeof(blocks) / sizeof(*blocks);
    struct dsf_coding c = { .block = blocks[dsf_any(state, 0, nblocks - 1)] };
    int32_t n = dsf_any(state, 1, c.block > 256 ? 4 : 12), known = 0;

    while (dsflow_wire_format_at((unsigned)known) != NULL)
        known++;
    snprintf(
        c.format, sizeof(c.format), "%s",
        dsflow_wire_format_at((unsigned)dsf_any(state, 0, known - 1))->name);
    c.coded = c.block * dsf_any(state, 0, n);
    *elems = c.block * n;
    return c;
}

static struct dsflow_shape packed(const struct dsf_coding *c, int64_t at,
                                  int64_t elems)
{
    return dsflow_shape_of(DSFLOW_BYTES, dsf_coding_bytes(c, at, elems));
}

/* Where the format has a scale for each tensor: most of the unit is one. */
static void any_tensor(uint64_t *state, int64_t unit, struct dsf_coding *c)
{
    const int64_t first = c->block * dsf_any(state, 0, 1);

    if (dsflow_wire_format_find(c->format)->encode_by != NULL && first < unit)
        dsf_coding_by_tensor(
            c, 1, &(struct dsf_coded_tensor){ first + 5, unit - first - 5 });
}

/* Some of the blocks of a unit. */
static void any_range(uint64_t *state, int64_t block, int64_t unit, int64_t *at,
                      int64_t *elems)
{
    const int32_t blocks = (int32_t)(unit / block);
    const int32_t first = dsf_any(state, 0, blocks - 1);

    *at = block * first;
    *elems = block * dsf_any(state, 1, blocks - first);
}

static unsigned make_recode(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_recode_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    int64_t unit;

    a->coding = any_coding(state, &unit);
    any_range(state, a->coding.block, unit, &a->at, &a->elems);
    a->in_at = dsf_any_place(state);
    a->out_at = dsf_any_place(state);
    shapes[0] = dsf_shape_floats(a->in_at + a->elems);
    shapes[1] =
        dsflow_shape_of(types[dsf_any(state, 0, 2)], a->out_at + a->elems);
    return 2;
}

static unsigned make_add_recoded(uint64_t *state, struct dsflow_shape *shapes,
                                 struct dsf_add_recoded_args *a)
{
    unsigned n = (unsigned)dsf_any(state, 1, 9);
    int64_t unit;

    a->coding = any_coding(state, &unit);
    any_range(state, a->coding.block, unit, &a->at, &a->elems);
    a->into_at = dsf_any_place(state);
    a->from_at = dsf_any_place(state);
    a->self = dsf_any(state, 0, (int32_t)n - 1);
    if (dsf_any(state, 0, 1)) { /* two levels */
        a->node = dsf_any(state, 1, (int32_t)n);
        while (n % (unsigned)a->node != 0)
            a->node--;
    }
    for (unsigned i = 0; i < n; i++)
        shapes[i] =
            dsf_shape_floats((i == 0 ? a->into_at : a->from_at) + a->elems);
    return n;
}

static unsigned make_feed_back(uint64_t *state, struct dsflow_shape *shapes,
                               struct dsf_feed_back_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_INT8_BLOCK };
    int64_t unit;

    a->coding = any_coding(state, &unit);
    unit = dsf_feed_back_step(a) * dsf_any(state, 1, 4);
    a->coding.coded =
        a->coding.block * dsf_any(state, 0, (int32_t)(unit / a->coding.block));
    any_tensor(state, unit, &a->coding);
    a->at = a->coding.ntensors > 0
                ? 0
                : dsf_feed_back_step(a) * dsf_any(state, 0, 2);
    a->elems = unit;
    a->grad_at = dsf_any_place(state);
    a->error_at = DSFLOW_BLOCK_ELEMS * dsf_any(state, 0, 2);
    a->reset = dsf_any(state, 0, 3);
    a->beta = dsf_any(state, 0, 4) / 4.0;
    shapes[0] = dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control));
    shapes[1] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[2] =
        dsflow_shape_of(types[dsf_any(state, 0, 1)], a->error_at + a->elems);
    return 3;
}

static unsigned make_compress(uint64_t *state, struct dsflow_shape *shapes,
                              struct dsf_compress_args *a)
{
    int64_t unit;

    a->coding = any_coding(state, &unit);
    any_range(state, a->coding.block, unit, &a->at, &a->elems);
    a->from = dsf_any_place(state);
    a->out_at = a->at;
    shapes[0] = dsf_shape_floats(a->from + a->elems);
    shapes[1] = packed(&a->coding, a->at, a->elems);
    return 2;
}

static unsigned make_add_compressed(uint64_t *state,
                                    struct dsflow_shape *shapes,
                                    struct dsf_compressed_args *a)
{
    unsigned n = (unsigned)dsf_any(state, 2, 9);
    int64_t unit;

    a->coding = any_coding(state, &unit);
    any_range(state, a->coding.block, unit, &a->at, &a->elems);
    a->into_at = dsf_any_place(state);
    a->in_at =
        a->coding.block * dsf_any(state, 0, (int32_t)(a->at / a->coding.block));
    shapes[0] = dsf_shape_floats(a->into_at + a->elems);
    for (unsigned i = 1; i < n; i++)
        shapes[i] = dsf_any(state, 0, 1)
                        ? packed(&a->coding, a->in_at, unit - a->in_at)
                        : packed(&a->coding, a->at, a->elems);
    return n;
}

/* The pieces in as many runs; how many of these are not empty. */
static unsigned any_runs(uint64_t *state, struct dsf_decompress_args *a)
{
    const struct dsf_pieces *p = &a->pieces;
    unsigned n = 0;

    a->type = DSFLOW_FP32;
    a->runs = dsf_any(state, 1, p->members);
    for (int32_t i = 0; i < a->runs; i++) {
        const bool empty = dsf_pieces_run_at(p, a->runs, i + 1) ==
                           dsf_pieces_run_at(p, a->runs, i);

        a->first += empty && n == 0;
        n += !empty;
    }
    return n;
}

static unsigned make_decompress(uint64_t *state, struct dsflow_shape *shapes,
                                struct dsf_decompress_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    int64_t unit;
    unsigned n;

    a->coding = any_coding(state, &unit);
    a->pieces = (struct dsf_pieces){ .blocks = unit / a->coding.block,
                                     .block = a->coding.block,
                                     .members = dsf_any(state, 1, 5) };
    a->pieces.owner = dsf_any(state, 0, a->pieces.members - 1);
    n = any_runs(state, a) + 1;
    shapes[0] = dsflow_shape_of(types[dsf_any(state, 0, 2)], unit);
    for (unsigned i = 1; i < n; i++) {
        struct dsf_range move = dsf_decompress_move(a, i);

        shapes[i] = packed(&a->coding, move.at, move.elems);
    }
    return n;
}

/* Some are of steps that may be skipped. */
static unsigned guard(uint64_t *state, struct dsflow_shape *shapes, unsigned n,
                      struct dsf_decompress_args *a)
{
    if (dsf_any(state, 0, 2) > 0)
        return n;
    for (unsigned i = n; i > 1; i--)
        shapes[i] = shapes[i - 1];
    shapes[1] = dsf_shape_control();
    a->guarded = 1;
    return n + 1;
}

/* Some of them, one behind the other. */
static unsigned make_gather_coded(uint64_t *state, struct dsflow_shape *shapes,
                                  struct dsf_decompress_args *a)
{
    unsigned n = make_decompress(state, shapes, a) - 1;
    const unsigned skip = (unsigned)dsf_any(state, 0, (int32_t)n - 1);
    int64_t bytes = 0;

    a->first += (int32_t)skip;
    n = (unsigned)dsf_any(state, 1, (int32_t)(n - skip));
    for (unsigned i = 1; i <= n; i++) {
        shapes[i] = shapes[i + skip];
        bytes += shapes[i].elems;
    }
    shapes[0] = dsflow_shape_of(DSFLOW_BYTES, bytes);
    return n + 1;
}

static int make_case(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    uint64_t state = seed;

    if (op == &dsf_op_recode)
        *n = make_recode(&state, shapes, args);
    else if (op == &dsf_op_add_recoded)
        *n = make_add_recoded(&state, shapes, args);
    else if (op == &dsf_op_feed_back)
        *n = make_feed_back(&state, shapes, args);
    else if (op == &dsf_op_compress)
        *n = make_compress(&state, shapes, args);
    else if (op == &dsf_op_add_compressed)
        *n = make_add_compressed(&state, shapes, args);
    else if (op == &dsf_op_gather_coded)
        *n = make_gather_coded(&state, shapes, args);
    else
        *n = guard(&state, shapes, make_decompress(&state, shapes, args), args);
    /* Of these all is written. */
    *fresh = op == &dsf_op_decompress
                 ? !((const struct dsf_decompress_args *)args)->guarded
             : op == &dsf_op_gather_coded ? 1u
             : op == &dsf_op_compress     ? 2u
                                          : 0;
    return DSFLOW_OK;
}

/* Packed data: numbers at .. at+elems of a unit, coded. */
static void fill_packed(const struct dsf_coding *c, uint64_t *state, int64_t at,
                        int64_t elems, uint8_t *data)
{
    float *v = dsf_xcalloc((size_t)elems, sizeof(*v));

    for (int64_t i = 0; i < elems; i++)
        v[i] = (float)dsf_random_normal(state);
    dsf_coding_encode(c, NULL, at, elems, v, data);
    free(v);
}

/* Of feed_back: a step that begins anew or not, and errors of its type. */
static int fill_feed_back(uint64_t seed, unsigned port, void *data,
                          int64_t elems)
{
    uint64_t state = seed;

    if (port == 0) {
        memset(data, 0, sizeof(struct dsflow_control));
        *(struct dsflow_control *)data = (struct dsflow_control){
            .step = dsf_any(&state, 1, 6),
            .loss_scale = dsf_any(&state, 0, 1) ? 1 : 1024,
        };
    }
    return port == 2 ? dsf_fill_as_made(&dsf_trials_compress, &dsf_op_feed_back,
                                        seed, port, &state, data, elems)
                     : port == 0;
}

static int fill_case(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    const struct dsf_compressed_args *a = args;
    const struct dsf_decompress_args *d = args;
    uint64_t state = seed + 31 * port;
    int64_t unit = 0;

    if (op == &dsf_op_feed_back)
        return fill_feed_back(seed, port, data, elems);
    if (op == &dsf_op_decompress && port == 1 && d->guarded) {
        memset(data, 0, sizeof(struct dsflow_control));
        ((struct dsflow_control *)data)->skip = dsf_any(&state, 0, 1);
        return 1;
    }
    if (port == 0 || (op != &dsf_op_add_compressed &&
                      op != &dsf_op_decompress && op != &dsf_op_gather_coded))
        return 0;
    if (op != &dsf_op_add_compressed) {
        struct dsf_range move = dsf_decompress_move(d, port);

        fill_packed(&d->coding, &state, move.at, move.elems, data);
    } else if (elems == dsf_coding_bytes(&a->coding, a->at, a->elems)) {
        fill_packed(&a->coding, &state, a->at, a->elems, data);
    } else {
        while (dsf_coding_bytes(&a->coding, a->in_at, unit) < elems)
            unit += a->coding.block;
        fill_packed(&a->coding, &state, a->in_at, unit, data);
    }
    return 1;
}

const struct dsflow_trials dsf_trials_compress = { .make = make_case,
                                                   .fill = fill_case };
