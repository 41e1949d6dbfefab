/* trials_onebit_lamb.c - random cases of the tasks of 1-bit LAMB. */
#include "codelets/trials.h"

#include "base/random.h"
#include "tasks/tasks.h"

#include <math.h>
#include <string.h>

static struct dsflow_shape lamb(void)
{
    return dsf_shape_doubles(DSF_LAMB_FIELDS * DSFLOW_MAX_TENSORS);
}

static unsigned make_send(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_send_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16 };

    a->coding = dsf_any_signs(state, &a->elems);
    a->grad_at = dsf_any_place(state);
    a->error_at = dsf_any_place(state);
    a->all = a->elems * dsf_any(state, 1, 3);
    shapes[0] = dsf_shape_floats(a->grad_at + a->elems);
    shapes[1] =
        dsflow_shape_of(types[dsf_any(state, 0, 1)], a->error_at + a->elems);
    shapes[2] = dsf_shape_doubles(1);
    return 3;
}

/* Some blocks of a unit that is one of several. */
static int64_t any_united(uint64_t *state, struct dsf_united_args *a)
{
    int64_t unit;

    a->at.coding = dsf_any_signs(state, &unit);
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

    a->by_tensor = a->at.groups > 1 && dsf_any(state, 0, 1);
    shapes[0] = dsf_shape_doubles(2 * a->at.groups);
    shapes[1] = dsf_shape_doubles(first);
    shapes[2] = dsf_shape_doubles(blocks - first);
    return 3;
}

static unsigned make_scales(uint64_t *state, struct dsflow_shape *shapes)
{
    const unsigned n = (unsigned)dsf_any(state, 2, 5);

    shapes[0] = dsf_shape_doubles(dsf_any(state, 1, 12));
    for (unsigned i = 1; i < n; i++)
        shapes[i] = dsf_shape_doubles(2 * shapes[0].elems);
    return n;
}

static unsigned make_each(uint64_t *state, struct dsflow_shape *shapes)
{
    const unsigned n = (unsigned)dsf_any(state, 2, 8);
    const int64_t elems = dsf_any(state, 1, 16);

    for (unsigned i = 0; i < n; i++)
        shapes[i] = dsf_shape_doubles(elems);
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
    a->at.grad_at = dsf_any_place(state);
    a->at.server_at = dsf_any_place(state);
    a->at.m_at = dsf_any_place(state);
    a->fresh_at = dsf_any_place(state);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->at.grad_at + a->at.elems);
    shapes[2] = dsf_shape_doubles(2 * a->at.groups);
    shapes[3] = lamb();
    shapes[4] = dsf_shape_floats(a->at.server_at + a->at.elems);
    shapes[5] = dsf_shape_floats(a->at.m_at + a->at.elems);
    shapes[6] = dsf_shape_floats(a->fresh_at + a->at.elems);
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
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_floats(a->at.grad_at + n);
    shapes[2] = dsf_shape_floats(a->at.param_at + n);
    shapes[3] = dsf_shape_floats(a->m_at + n);
    shapes[4] = dsf_shape_floats(w->v_at + n);
    shapes[5] = dsf_shape_doubles(blocks * a->width);
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
    shapes[0] = dsf_shape_doubles(4 * (int64_t)a->n);
    for (unsigned i = 1; i < n; i++)
        shapes[i] = dsf_shape_doubles(16 * (int64_t)dsf_any(state, 1, 9));
    return n;
}

static unsigned make_factor(uint64_t *state, struct dsflow_shape *shapes,
                            struct dsf_factor_args *a)
{
    any_factor(state, a);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_doubles(4 * (int64_t)a->n);
    shapes[2] = lamb();
    shapes[3] = dsf_shape_doubles(a->n);
    return 4;
}

static unsigned make_mean(uint64_t *state, struct dsflow_shape *shapes,
                          struct dsf_mean_args *a)
{
    a->beta = 0.9;
    a->n = dsf_any(state, 1, 12);
    shapes[0] = dsf_shape_control();
    shapes[1] = dsf_shape_doubles(a->n);
    shapes[2] = lamb();
    return 3;
}

static unsigned make_unite(uint64_t *state, struct dsflow_shape *shapes,
                           struct dsf_unite_args *a)
{
    a->ntensors = dsf_any(state, 1, 12);
    a->n = a->ntensors + dsf_any(state, 0, 9);
    shapes[0] = dsf_shape_doubles(a->ntensors);
    shapes[1] = dsf_shape_doubles(1);
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
    else if (op == &dsf_op_tensor_scales)
        *n = make_scales(&state, shapes);
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
    if (send && port == 1)
        return dsf_fill_as_made(&dsf_trials_onebit_lamb, op, seed, port, &state,
                                data, elems);
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
