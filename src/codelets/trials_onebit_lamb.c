/* trials_onebit_lamb.c - random cases of the tasks of 1-bit LAMB. */
#include "codelets/trials.h"

#include "base/alloc.h"
#include "base/random.h"
#include "codelets/cast.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct dsflow_shape floats(int64_t n)
{
    return dsflow_shape_of(DSFLOW_FP32, n);
}

static struct dsflow_shape doubles(int64_t n)
{
    return dsflow_shape_of(DSFLOW_FP64, n);
}

static struct dsflow_shape control(void)
{
    return dsflow_shape_of(DSFLOW_BYTES, sizeof(struct dsflow_control));
}

static struct dsflow_shape lamb(void)
{
    return doubles(DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS);
}

/* Signs of one or two tensors, with a block between them that is not coded; how
 * many numbers the unit has. */
static struct dsf_coding any_signs(uint64_t *state, int64_t *elems)
{
    static const int64_t blocks[] = { 16, 48, 256 };
    struct dsf_coding c = { .block = blocks[dsf_any(state, 0, 2)] };
    const int32_t n = dsf_any(state, 4, 12), first = dsf_any(state, 1, n - 2);
    const struct dsf_coded_tensor tensors[] = {
        { 0, c.block * first - 7 }, { c.block * first, c.block * (n - first) }
    };

    snprintf(c.format, sizeof(c.format), "sign");
    c.coded = *elems = c.block * n;
    dsf_coding_by_tensor(&c, 2, tensors);
    return c;
}

static unsigned make_send(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_send_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16 };

    a->coding = any_signs(state, &a->elems);
    a->grad_at = 16 * dsf_any(state, 0, 3);
    a->error_at = 16 * dsf_any(state, 0, 3);
    a->all = a->elems * dsf_any(state, 1, 3);
    shapes[0] = floats(a->grad_at + a->elems);
    shapes[1] =
        dsflow_shape_of(types[dsf_any(state, 0, 1)], a->error_at + a->elems);
    shapes[2] = doubles(1);
    return 3;
}

/* Some blocks of a unit that is one of several. */
static int64_t any_united(uint64_t *state, struct dsf_united_args *a)
{
    int64_t unit;

    a->at.coding = any_signs(state, &unit);
    a->at.elems = unit;
    a->at.groups = dsf_any(state, 1, 8);
    a->before = a->at.coding.block * dsf_any(state, 0, 9);
    a->all = a->before + unit + a->at.coding.block * dsf_any(state, 0, 9);
    a->beta1 = 0.9;
    a->beta2 = 0.95;
    return unit / a->at.coding.block;
}

static unsigned make_sums(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_united_args *a)
{
    int64_t blocks = any_united(state, a);
    int64_t first = dsf_any(state, 1, (int32_t)blocks - 1);

    shapes[0] = doubles(2 * a->at.groups);
    shapes[1] = doubles(first);
    shapes[2] = doubles(blocks - first);
    return 3;
}

static unsigned make_each(uint64_t *state, struct dsflow_shape *shapes)
{
    const unsigned n = (unsigned)dsf_any(state, 2, 8);
    const int64_t elems = dsf_any(state, 1, 16);

    for (unsigned i = 0; i < n; i++)
        shapes[i] = doubles(elems);
    return n;
}

static unsigned make_serve(uint64_t *state, struct dsflow_shape *shapes,
                           struct dsf_united_args *a)
{
    int64_t blocks = any_united(state, a);
    int32_t first = dsf_any(state, 0, (int32_t)blocks - 1);

    a->at.at = a->at.coding.block * first;
    a->at.elems =
        a->at.coding.block * dsf_any(state, 1, (int32_t)blocks - first);
    a->at.grad_at = 16 * dsf_any(state, 0, 3);
    a->at.server_at = 16 * dsf_any(state, 0, 3);
    a->at.m_at = 16 * dsf_any(state, 0, 3);
    a->fresh_at = 16 * dsf_any(state, 0, 3);
    shapes[0] = control();
    shapes[1] = floats(a->at.grad_at + a->at.elems);
    shapes[2] = doubles(2 * a->at.groups);
    shapes[3] = lamb();
    shapes[4] = floats(a->at.server_at + a->at.elems);
    shapes[5] = floats(a->at.m_at + a->at.elems);
    shapes[6] = floats(a->fresh_at + a->at.elems);
    return 7;
}

/* A matrix that decays, and a vector. */
static unsigned make_norms(uint64_t *state, struct dsflow_shape *shapes,
                           struct dsf_weigh_args *w)
{
    struct dsf_update_args *a = &w->of;
    const int64_t blocks = dsf_any(state, 1, 4);
    int64_t n, matrix;

    a->at.block = dsf_any(state, 0, 6) == 0 ? 5000 : dsf_any(state, 16, 600);
    n = a->at.elems = a->at.block * blocks;
    matrix = dsf_any(state, 1, (int32_t)n - 1);
    a->at.ntensors = 2;
    a->at.tensors[0] = (struct dsflow_tensor){
        .at = -3, .rows = 1, .cols = matrix + 3, .decays = 1, .number = 1
    };
    a->at.tensors[1] = (struct dsflow_tensor){
        .at = matrix, .rows = 1, .cols = n - matrix + 5, .number = 2
    };
    a->at.grad_at = 16 * dsf_any(state, 0, 2);
    a->at.param_at = 16 * dsf_any(state, 0, 2);
    a->m_at = 16 * dsf_any(state, 0, 2);
    w->v_at = 16 * dsf_any(state, 0, 2);
    a->width = 16;
    a->eps = 1e-6f;
    a->weight_decay = 0.1f;
    a->uncorrected = 1;
    shapes[0] = control();
    shapes[1] = floats(a->at.grad_at + n);
    shapes[2] = floats(a->at.param_at + n);
    shapes[3] = floats(a->m_at + n);
    shapes[4] = floats(w->v_at + n);
    shapes[5] = doubles(blocks * a->width);
    return 6;
}

static void any_factor(uint64_t *state, struct dsf_factor_args *a)
{
    a->n = dsf_any(state, 1, 4);
    a->width = 16;
    a->least = 0.5;
    a->most = 4;
    a->threshold = 0.1;
}

static unsigned make_totals(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_factor_args *a)
{
    const unsigned n = (unsigned)dsf_any(state, 2, 9);

    any_factor(state, a);
    shapes[0] = doubles(4 * (int64_t)a->n);
    for (unsigned i = 1; i < n; i++)
        shapes[i] = doubles(16 * (int64_t)dsf_any(state, 1, 9));
    return n;
}

static unsigned make_factor(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_factor_args *a)
{
    any_factor(state, a);
    shapes[0] = control();
    shapes[1] = doubles(4 * (int64_t)a->n);
    shapes[2] = lamb();
    shapes[3] = doubles(a->n);
    return 4;
}

static unsigned make_mean(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_mean_args *a)
{
    a->beta = 0.9;
    a->n = dsf_any(state, 1, 12);
    shapes[0] = control();
    shapes[1] = doubles(a->n);
    shapes[2] = lamb();
    return 3;
}

static unsigned make_unite(uint64_t *state, struct dsflow_shape *shapes,
                           struct dsf_unite_args *a)
{
    a->ntensors = dsf_any(state, 1, 12);
    a->n = a->ntensors + dsf_any(state, 0, 9);
    shapes[0] = doubles(a->ntensors);
    shapes[1] = doubles(1);
    shapes[2] = lamb();
    return 3;
}

static int make_case(const struct dsflow_op *op, uint64_t seed,
                     struct dsflow_shape *shapes, unsigned *n, void *args,
                     unsigned *fresh)
{
    uint64_t state = seed;

    if (op == &dsf_op_send_signs)
        *n = make_send(&state, shapes, args);
    else if (op == &dsf_op_chunk_sums)
        *n = make_sums(&state, shapes, args);
    else if (op == &dsf_op_sum_each)
        *n = make_each(&state, shapes);
    else if (op == &dsf_op_serve_lamb)
        *n = make_serve(&state, shapes, args);
    else if (op == &dsf_op_lamb_norms)
        *n = make_norms(&state, shapes, args);
    else if (op == &dsf_op_lamb_totals)
        *n = make_totals(&state, shapes, args);
    else if (op == &dsf_op_lamb_factor)
        *n = make_factor(&state, shapes, args);
    else if (op == &dsf_op_lamb_mean)
        *n = make_mean(&state, shapes, args);
    else
        *n = make_unite(&state, shapes, args);
    return DSFLOW_OK;
}

static bool has_control(const struct dsflow_op *op)
{
    return op == &dsf_op_serve_lamb || op == &dsf_op_lamb_norms ||
           op == &dsf_op_lamb_factor || op == &dsf_op_lamb_mean;
}

/* In their type. */
static void fill_errors(uint64_t seed, uint64_t *state, void *data,
                        int64_t elems)
{
    const struct dsf_rounding nearest = { .nearest = 1 };
    float *v = dsf_xcalloc((size_t)elems, sizeof(*v));
    struct dsf_send_args a = { 0 };
    struct dsflow_shape shapes[3];

    make_send(&seed, shapes, &a);
    for (int64_t i = 0; i < elems; i++)
        v[i] = (float)dsf_random_normal(state);
    dsf_pack(shapes[1].dtype, &nearest, v, data, (size_t)elems);
    free(v);
}

/* Of doubles, sums of squares, how many there are of them, and what is kept:
 * all above 0. Second moments, too. */
static int fill_case(const struct dsflow_op *op, uint64_t seed, unsigned port,
                     void *data, int64_t elems, const void *args)
{
    const bool send = op == &dsf_op_send_signs;
    const bool positive =
        op == &dsf_op_lamb_norms ? port == 1 || port == 4 : false;
    uint64_t state = seed + port;

    if (port == 0 && has_control(op)) {
        memset(data, 0, sizeof(struct dsflow_control));
        ((struct dsflow_control *)data)->loss_scale = 4;
        ((struct dsflow_control *)data)->scale = 1;
        ((struct dsflow_control *)data)->skip =
            op != &dsf_op_lamb_norms && dsf_any(&state, 0, 3) == 0;
        return 1;
    }
    if (send && port == 1) {
        fill_errors(seed, &state, data, elems);
        return 1;
    }
    for (int64_t i = 0; i < elems && positive; i++)
        ((float *)data)[i] = (float)fabs(dsf_random_normal(&state));
    if (positive)
        return 1;
    if ((send && port != 2) || op == &dsf_op_lamb_norms ||
        (op == &dsf_op_serve_lamb && port != 2 && port != 3))
        return 0;
    for (int64_t i = 0; i < elems; i++)
        ((double *)data)[i] = 1 + fabs(dsf_random_normal(&state));
    return 1;
}

const struct dsflow_trials dsf_trials_onebit_lamb = { .make = make_case,
                                                      .fill = fill_case };
