/* trials_columns.c - random cases of what several workers do of one token: some
 * columns of what leaves a segment, for every other seed of one row. */
#include "codelets/trials.h"

#include "tasks/tasks.h"
#include "tasks/tile.h"

#include <string.h>

/* Tensors of a unit follow each other, with something between them. */
static int64_t place(uint64_t *s, int64_t *end, int64_t n)
{
    const int64_t at = *end + dsf_any(s, 0, 3);

    *end = at + n;
    return at;
}

static void choose_up(uint64_t *s, struct dsf_mlp_up_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    int64_t end = 0, matrix = (int64_t)t->ffn * t->width;

    a->w = place(s, &end, matrix);
    a->up = t->swiglu ? place(s, &end, matrix) : -1;
    a->b = !t->swiglu && dsf_any(s, 0, 1) ? place(s, &end, t->ffn) : -1;
    a->norm_w = place(s, &end, t->width);
    a->norm_b = t->rms ? -1 : place(s, &end, t->width);
}

static void choose_project(uint64_t *s, struct dsf_project_args *a)
{
    const struct dsflow_tile *t = &a->tile;
    int64_t end = 0;

    a->w = place(s, &end, (int64_t)t->ffn * t->width);
    a->b = dsf_any(s, 0, 1) ? place(s, &end, t->width) : -1;
}

/* The first input and what they become have types by the seed, as all data that
 * may be narrow (dsf_trials_narrow); here the other inputs. */
static void make_columns(uint64_t *s, struct dsflow_shape *shapes, unsigned *n,
                         struct dsf_columns_args *a)
{
    static const enum dsflow_dtype types[] = { DSFLOW_FP32, DSFLOW_BF16,
                                               DSFLOW_FP16 };
    const enum dsflow_dtype type = types[dsf_any(s, 0, 2)];

    *n = (unsigned)dsf_any(s, 2, 9);
    a->rows = dsf_any(s, 1, 20);
    a->n = dsf_any(s, 1, 70);
    a->from = dsf_any(s, 0, 9);
    a->cols = a->from + a->n + dsf_any(s, 0, 9);
    shapes[0] = dsflow_shape_of(DSFLOW_FP32,
                                (int64_t)a->rows * a->n * ((int64_t)*n - 1));
    for (unsigned i = 1; i < *n; i++)
        shapes[i] =
            dsflow_shape_of(i > 1 && dsf_any(s, 0, 1) ? type : DSFLOW_FP32,
                            (int64_t)a->rows * a->cols);
}

static int make(const struct dsflow_op *op, uint64_t seed,
                struct dsflow_shape *shapes, unsigned *n, void *args,
                unsigned *fresh)
{
    struct dsflow_need need[DSFLOW_SEGMENT_PORTS] = { { 0 } };
    struct dsflow_tile tile;
    uint64_t state = seed;
    int status;

    if (op == &dsf_op_columns) {
        make_columns(&state, shapes, n, args);
        return DSFLOW_OK;
    }
    tile = dsf_any_tile(&state);
    if (seed & 1)
        tile.rows = tile.nseq = 1;
    memcpy(args, &tile, sizeof(tile)); /* in front of both */
    if (op == &dsf_op_project)
        choose_project(&state, args);
    else
        choose_up(&state, args);
    status = op == &dsf_op_project ? dsf_project_needs(op, args, need, NULL)
                                   : dsf_mlp_up_needs(op, args, need, NULL);
    *n = op->nports;
    for (unsigned p = 0; p < op->nports; p++)
        shapes[p] = dsflow_shape_of(need[p].dtype, need[p].rows * need[p].cols);
    return status;
}

const struct dsflow_trials dsf_trials_columns = { .make = make };
