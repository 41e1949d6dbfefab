/* trials_onebit.c - random cases of the tasks of 1-bit Adam. */
#include "codelets/trials.h"

#include "base/random.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct dsf_coding dsf_any_signs(uint64_t *state, int64_t *elems)
{
    static const int64_t blocks[] = { 16, 48, 256 };
    struct dsf_coding c = { .block = blocks[dsf_any(state, 0, 2)] };
    const int32_t n = dsf_any(state, 4, 12), first = dsf_any(state, 1, n - 2);
    const struct dsf_coded_tensor tensors[] = { { 0, c.block * first - 7, 0 },
                                                { c.block * first,
                                                  c.block * (n - first), 1 } };

    snprintf(c.format, sizeof(c.format), "sign");
    c.coded = *elems = c.block * n;
    dsf_coding_by_tensor(&c, 2, tensors);
    return c;
}

static unsigned make_feed(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_momentum_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16 };

    a->coding = dsf_any_signs(state, &a->elems);
    a->grad_at = dsf_any_place(state);
    a->error_at = dsf_any_place(state);
    a->groups = dsf_any(state, 1, 8);
    a->beta1 = 0.9;
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[2] = dsf_shape_floats(a->elems);
    shapes[3] =
        dsflow_shape_of(types[dsf_any(state, 0, 1)], a->error_at + a->elems);
    return 4;
}

void dsf_any_chunks(uint64_t *state, struct dsf_chunk_args *a)
{
    int64_t unit;
    int32_t blocks, first;

    a->coding = dsf_any_signs(state, &unit);
    blocks = (int32_t)(unit / a->coding.block);
    first = dsf_any(state, 0, blocks - 1);
    a->at = a->coding.block * first;
    a->elems = a->coding.block * dsf_any(state, 1, blocks - first);
    a->groups = dsf_any(state, 1, 8);
    a->grad_at = dsf_any_place(state);
    a->server_at = dsf_any_place(state);
    a->m_at = dsf_any_place(state);
}

static unsigned make_squares(uint64_t *state, struct dsflow_shape *shapes,
                             struct dsf_chunk_args *a)
{
    dsf_any_chunks(state, a);
    shapes[0] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[1] = dsf_shape_floats(a->server_at + a->elems);
    shapes[2] = dsf_shape_doubles(a->elems / a->coding.block);
    return 3;
}

static unsigned make_scales(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_chunk_scales_args *a)
{
    int64_t unit, blocks, first;

    a->coding = dsf_any_signs(state, &unit);
    a->groups = dsf_any(state, 1, 8);
    blocks = unit / a->coding.block;
    first = dsf_any(state, 1, (int32_t)blocks - 1);
    shapes[0] = dsf_shape_doubles(a->coding.ntensors * a->groups);
    shapes[1] = dsf_shape_doubles(first);
    shapes[2] = dsf_shape_doubles(blocks - first);
    return 3;
}

static unsigned make_serve(uint64_t *state, struct dsflow_shape *shapes,
                           struct dsf_chunk_args *a)
{
    dsf_any_chunks(state, a);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[2] = dsf_shape_doubles(a->coding.ntensors * a->groups);
    shapes[3] = dsf_shape_floats(a->server_at + a->elems);
    shapes[4] = dsf_shape_floats(a->m_at + a->elems);
    return 5;
}

static int make_case(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    uint64_t state = seed;

    if (op == &dsf_op_feed_momentum)
        *n = make_feed(&state, shapes, args);
    else if (op == &dsf_op_chunk_squares)
        *n = make_squares(&state, shapes, args);
    else if (op == &dsf_op_chunk_scales)
        *n = make_scales(&state, shapes, args);
    else
        *n = make_serve(&state, shapes, args);
    return DSFLOW_OK;
}

/* Sums of squares. */
static void fill_sums(uint64_t *state, double *sums, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        sums[i] = fabs(dsf_random_normal(state));
}

/* Controls, sums of squares, and errors of their type. */
static int fill_case(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    uint64_t state = seed + port;

    if (port == 0 && (op == &dsf_op_feed_momentum || op == &dsf_op_serve)) {
        memset(data, 0, sizeof(struct dsflow_control));
        ((struct dsflow_control *)data)->loss_scale = 4;
        ((struct dsflow_control *)data)->skip = dsf_any(&state, 0, 3) == 0;
        return 1;
    }
    if (op == &dsf_op_chunk_scales && port > 0) {
        fill_sums(&state, data, elems);
        return 1;
    }
    return op == &dsf_op_feed_momentum && port == 3
               ? dsf_fill_as_made(&dsf_trials_onebit, op, seed, port, &state,
                                  data, elems)
               : 0;
}

const struct dsflow_trials dsf_trials_onebit = { .make = make_case,
                                                 .fill = fill_case };
